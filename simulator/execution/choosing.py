"""Which engine runs a step: the plain loop at once, or the compiled one where it pays to load or even to compile it.

Both give the same result. What differs is the start: numba takes about half a second to load with its cache, and many
seconds to compile without; the plain loop does some 600,000 events in a second.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from simulator.errors import UnsupportedError
from simulator.execution.caching import STEP, is_kept

ENGINES = ("auto", "python", "compiled")
_COMPILED = "simulator.execution.compiled.engine"
_WORTH_LOADING, _WORTH_COMPILING = 400_000, 30_000_000  # events


def choose(engine: str, events: int) -> bool:
    """Whether to take the compiled loop for so many ends of ops and transfers.

    "auto" never lets a small step wait for a compiler: it loads what is compiled already where that pays, and compiles
    only for steps that take the plain loop longer than that. Raises UnsupportedError for an engine that there is not.
    """
    if engine not in ENGINES:
        raise UnsupportedError(f"engine={engine!r} is not modelled; choose {' or '.join(map(repr, ENGINES))}.")
    if engine == "auto":
        if _COMPILED in sys.modules:
            return True
        return events >= (_WORTH_LOADING if is_warm() else _WORTH_COMPILING) and loads()
    if engine == "compiled":
        load()
    return engine == "compiled"


def load() -> ModuleType:
    """The module of the compiled loop, compiled now if it must be. Raises UnsupportedError where numba is not there."""
    try:
        return import_module(_COMPILED)
    except ImportError as error:
        raise UnsupportedError(f"The compiled engine needs numba, which cannot be loaded: {error}") from None


def loads() -> bool:
    """Whether the compiled loop can be had; it is loaded."""
    try:
        load()
    except UnsupportedError:  # the caller does without
        return False
    return True


def is_warm() -> bool:
    """Whether numba most likely finds the loop compiled."""
    return is_kept(STEP)


def warm_up() -> tuple[bool, str]:
    """Compile the loop and keep it for later runs: whether it is kept, and a sentence that says so.

    Where nothing can be written the loop works, but every process that uses it compiles it again. Raises
    UnsupportedError where numba is not there.
    """
    loop = load()
    if not loop.kept:
        return False, (
            f"The event loop is compiled but cannot be kept, as neither {Path(__file__).parent} nor the user's cache "
            "can be written; set NUMBA_CACHE_DIR to a folder that can."
        )
    stats = loop.play.stats
    found = sum(stats.cache_hits.values()) > 0
    return (
        True,
        f"The event loop {'was compiled already' if found else 'is now compiled'}; it is in {stats.cache_path}.",
    )
