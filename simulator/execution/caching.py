"""Machine code that is kept for later runs: in which file, and whether it is there.

The name of its file has a digest of all that goes into it. An edit, or another version of LLVM, asks for another file.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[1]


class CompiledSources(NamedTuple):
    """What goes into a compiled function."""

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
        "execution/declared.py",
        "execution/layouts.py",
        "execution/sharing.py",
        "execution/event_loop.py",
        "execution/executor.py",
        "execution/hooks.py",
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
        "training/clients/operations.py",
        "training/disturbances/noise.py",
        "training/disturbances/pauses.py",
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
    """Where machine code is looked for, and kept in the first that can be written."""
    named = os.environ.get("SIMVIZ_CACHE_DIR")
    if named:
        return [Path(named)]
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [_ROOT / "execution" / "compiled" / "__pycache__", user / "simviz"]


def is_kept(sources: CompiledSources) -> bool:
    """Whether it most likely is compiled already; on a processor of another kind it is compiled all the same."""
    wanted = file_name(sources, "*")
    return bool(digest(sources)) and any(True for folder in folders() for _ in folder.glob(wanted))
