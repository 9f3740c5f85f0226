"""The choice between the plain loop and the compiled one, which has to pay for its loading or even compiling.

Both give the same result. They differ in how they start: the compiled loop takes a twentieth of a second to load if it
is kept, and some two seconds to compile if not. The plain loop does some 400,000 events in a second.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from types import ModuleType

from simulator.errors import UnsupportedError
from simulator.execution.caching import STEP, CompiledSources, is_kept

_WORTH_LOADING, _WORTH_COMPILING = 50_000, 1_000_000  # events
_HEARS: ContextVar[Callable[[str], None] | None] = ContextVar("_HEARS", default=None)


@contextmanager
def telling(say: Callable[[str], None]) -> Iterator[None]:
    """Within it, `say` hears of each loop that is compiled now, as that takes long."""
    token = _HEARS.set(say)
    try:
        yield
    finally:
        _HEARS.reset(token)


def choose(engine: str, events: int, loop: CompiledSources = STEP) -> bool:
    """Whether to take that compiled loop for so many ends of ops and transfers.

    "auto" never lets a small step wait for a compiler: it loads what is compiled already where that pays, and compiles
    only for steps that take the plain loop longer than that. `engine` is that of `SimulationOptions`. Raises
    UnsupportedError where "compiled" is asked for and cannot be had.
    """
    if engine == "auto":
        if _module(loop) in sys.modules:
            return True
        return events >= (_WORTH_LOADING if is_warm(loop) else _WORTH_COMPILING) and loads(loop)
    if engine == "compiled":
        load(loop)
    return engine == "compiled"


def _module(loop: CompiledSources) -> str:
    return ".".join(["simulator", *Path(loop.module).with_suffix("").parts])


def load(loop: CompiledSources = STEP) -> ModuleType:
    """The module of the compiled loop, compiled now if it must be. Raises UnsupportedError where LLVM is not there."""
    say, what = _HEARS.get(), f"{loop.what[0].lower()}{loop.what[1:]}"
    cold = _module(loop) not in sys.modules and not is_warm(loop)
    if say is not None and cold:
        say(f"compiling {what}, once: some {loop.seconds} s")
    try:
        module = import_module(_module(loop))
        if say is not None and cold:
            say(f"running {what}, which is compiled now")
        return module
    except ImportError as error:
        raise UnsupportedError(f"The compiled engine needs llvmlite, which cannot be loaded: {error}") from None


def loads(loop: CompiledSources = STEP) -> bool:
    """Whether the compiled loop can be had; it is loaded."""
    try:
        load(loop)
    except UnsupportedError:  # the caller does without
        return False
    return True


def is_warm(loop: CompiledSources = STEP) -> bool:
    """Whether the loop most likely is compiled already."""
    return is_kept(loop)


def warm_up(loop: CompiledSources = STEP) -> tuple[bool, str]:
    """Compile the loop and keep it for later runs: whether it is kept, and a sentence that says so.

    Where nothing can be written the loop works, but every process that uses it compiles it again. Raises
    UnsupportedError where LLVM is not there.
    """
    play = load(loop).play
    if play.kept is None:
        return False, (
            f"{loop.what} is compiled but cannot be kept, as neither {Path(__file__).parent} nor the user's cache "
            "can be written; set SIMVIZ_CACHE_DIR to a folder that can."
        )
    done = "was compiled already" if play.found else "is now compiled"
    return True, f"{loop.what} {done}; it is in {play.kept.parent}."
