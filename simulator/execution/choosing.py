"""Machine code for the event loop: in which file it is kept, and when it is worth its loading or even compiling.

The plain loop and the compiled one give the same result. The compiled loop takes a twentieth of a second to load if it
is kept, and a second or two to compile if not. The plain loop does some 400,000 events in a second. The name of a file
of machine code has a digest of all that goes into it. An edit, or another version of LLVM, asks for another file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from simulator.errors import UnsupportedError, raise_interrupt

_WORTH_LOADING, _WORTH_COMPILING = 50_000, 1_000_000  # events
_HEARS: ContextVar[Callable[[str], None] | None] = ContextVar("_HEARS", default=None)
_ROOT = Path(__file__).parents[1]


class CompiledSources(NamedTuple):
    """The sources of a compiled function."""

    what: str  # for messages
    seconds: int  # that it takes to compile, on one core of a usual machine
    module: str  # path of the module that defines it, from the package
    name: str  # of the function
    parts: tuple[str, ...]  # modules and folders of them that are compiled into it, or whose constants are


STEP = CompiledSources(
    "The event loop",
    2,
    "execution/compiled/engine.py",
    "_play",
    (
        "execution/compiled",
        "execution/buffers.py",
        "execution/layouts.py",
        "execution/sharing.py",
        "execution/event_loop.py",
        "execution/executor.py",
        "execution/event_queue.py",
        "execution/arrays.py",
    ),
)

TRAINING = CompiledSources(
    "The event loop of many steps",
    3,
    "training/control/compiled.py",
    "_go_on",
    (
        *STEP.parts,
        "training/control",
        "training/recognition/sync_ops.py",
        "training/disturbances/noise.py",
        "training/regimes.py",
        "training/training.py",
    ),
)


@cache
def digest(sources: CompiledSources) -> str:
    """Of the texts of its sources and of the version of llvmlite; "" where there is none."""
    try:
        made = sha256(version("llvmlite").encode())
    except PackageNotFoundError:  # nothing can have been compiled
        return ""
    for part in sources.parts:
        path = _ROOT / part
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            made.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return made.hexdigest()[:16]


def file_name(sources: CompiledSources, processor: str) -> str:
    """The name of the file with the machine code for a processor."""
    return f"{sources.name.strip('_')}-{digest(sources)}-{processor}.code"


def folders() -> list[Path]:
    """Folders in which machine code is looked for; it is kept in the first that can be written."""
    named = os.environ.get("SIMVIZ_CACHE_DIR")
    if named:
        return [Path(named)]
    found = [_ROOT / "execution" / "compiled" / "__pycache__"]
    with suppress(RuntimeError):  # a user whom the system does not know has no home
        found.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "simviz")
    return found


def is_warm(loop: CompiledSources = STEP) -> bool:
    """Tell whether it most likely is compiled already; on a processor of another kind it is compiled all the same."""
    wanted = file_name(loop, "*")
    return bool(digest(loop)) and any(_holds(folder, wanted) for folder in folders())


def _holds(folder: Path, wanted: str) -> bool:
    try:
        return any(True for _ in folder.glob(wanted))
    except OSError:  # nobody may look into it
        return False


@contextmanager
def telling(say: Callable[[str], None]) -> Iterator[None]:
    """Within it, `say` hears of each loop that is compiled now, as that takes long."""
    token = _HEARS.set(say)
    try:
        yield
    finally:
        _HEARS.reset(token)


def choose(engine: str, events: int, loop: CompiledSources = STEP) -> bool:
    """Tell whether to take that compiled loop for so many ends of ops and transfers.

    "auto" never lets a small step wait for a compiler. It loads what is compiled already where that pays, and compiles
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
        raise_interrupt(error)
        raise UnsupportedError(
            f"The compiled engine needs llvmlite, which cannot be loaded ({error}); install it, or take the engine "
            "'python'."
        ) from None


def loads(loop: CompiledSources = STEP) -> bool:
    """Load the compiled loop, if it can be had; return whether it can."""
    try:
        load(loop)
    except UnsupportedError:  # the caller does without
        return False
    return True


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
