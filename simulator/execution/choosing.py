"""The choice between the plain loop and the compiled one, which has to pay for its loading or even compiling.

Both give the same result. They differ in how they start: numba takes about half a second to load with its cache, and
some 15 seconds to compile without. The plain loop does some 400,000 events in a second.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from simulator.errors import UnsupportedError
from simulator.execution.caching import STEP, CompiledSources, is_kept

_WORTH_LOADING, _WORTH_COMPILING = 400_000, 30_000_000  # events


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
    """The module of the compiled loop, compiled now if it must be. Raises UnsupportedError where numba is not there."""
    try:
        return import_module(_module(loop))
    except ImportError as error:
        raise UnsupportedError(f"The compiled engine needs numba, which cannot be loaded: {error}") from None


def loads(loop: CompiledSources = STEP) -> bool:
    """Whether the compiled loop can be had; it is loaded."""
    try:
        load(loop)
    except UnsupportedError:  # the caller does without
        return False
    return True


def is_warm(loop: CompiledSources = STEP) -> bool:
    """Whether numba most likely finds the loop compiled."""
    return is_kept(loop)


def warm_up(loop: CompiledSources = STEP) -> tuple[bool, str]:
    """Compile the loop and keep it for later runs: whether it is kept, and a sentence that says so.

    Where nothing can be written the loop works, but every process that uses it compiles it again. Raises
    UnsupportedError where numba is not there.
    """
    module = load(loop)
    if not module.kept:
        return False, (
            f"{loop.what} is compiled but cannot be kept, as neither {Path(__file__).parent} nor the user's cache "
            "can be written; set NUMBA_CACHE_DIR to a folder that can."
        )
    stats = module.play.stats
    found = sum(stats.cache_hits.values()) > 0
    return (
        True,
        f"{loop.what} {'was compiled already' if found else 'is now compiled'}; it is in {stats.cache_path}.",
    )
