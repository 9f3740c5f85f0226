"""Compiled code that numba keeps for later runs, looked up without numba, which takes long to load.

numba calls the files of a function by its name; ours ends in a digest of all that goes into it.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[1]


class CompiledSources(NamedTuple):
    """What goes into a compiled function."""

    what: str  # for messages

    module: str  # path of the module that defines it, from the package
    name: str  # of the function
    parts: tuple[str, ...]  # modules and folders of them that are compiled into it, or whose constants are


STEP = CompiledSources(
    "The event loop",
    "execution/compiled/engine.py",
    "_play",
    (
        "execution/compiled",
        "execution/buffers.py",
        "execution/declared.py",
        "execution/layouts.py",
        "execution/sharing.py",
        "execution/event_loop.py",
        "execution/executor.py",
        "execution/hooks.py",
        "execution/backend.py",
        "execution/arrays.py",
    ),
)

TRAINING = CompiledSources(
    "The event loop of many steps",
    "training/control/compiled.py",
    "_go_on",
    (
        *STEP.parts,
        "training/control",
        "training/clients/operations.py",
        "training/disturbances/noise.py",
        "training/disturbances/pauses.py",
        "training/regimes.py",
        "training/training.py",
    ),
)


@cache
def digest(sources: CompiledSources) -> str:
    """Of the texts of its sources and of numba's version; "" where there is no numba."""
    try:
        made = sha256(version("numba").encode())
    except PackageNotFoundError:  # nothing can have been compiled
        return ""
    for part in sources.parts:
        path = _ROOT / part
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            made.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return made.hexdigest()[:16]


def is_kept(sources: CompiledSources) -> bool:
    """Whether numba most likely finds it compiled; on a processor of another kind it compiles all the same.

    Its cache is in NUMBA_CACHE_DIR, else beside the module, else among the user's caches.
    """
    module = _ROOT / sources.module
    named = os.environ.get("NUMBA_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    wanted = f"**/{module.stem}.{sources.name}_{digest(sources)}-*.{python}*.nbi"
    return bool(digest(sources)) and any(
        True
        for folder in ([Path(named)] if named else [module.parent / "__pycache__", user])
        for _ in folder.glob(wanted)
    )
