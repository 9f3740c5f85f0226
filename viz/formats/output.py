"""Files of results: the suffix is the format, and a file is replaced by a finished one or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from simulator.errors import SimvizError
from simulator.files import mode, replace_file
from simulator.graph.sources import SAVED_MODEL_FILES
from simulator.wording import counted
from viz.formats.drawing import FOLDERS, PARQUET, PLACED, SUFFIXES
from viz.formats.parquet import check_pyarrow
from viz.scene import Scene

_RENDERED = (".svg", ".png", ".pdf")  # by Graphviz
_TRIES = 20  # to put a folder where other runs put theirs at the same moment
_MOVED = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)  # another run has moved its folder away, or here


def check_suffix(path: str) -> str:
    """The suffix of a file to write. Raise SimvizError with the list of suffixes for any other.

    A format whose library or program is missing is refused here, too, before anything takes long.
    """
    for suffix in SUFFIXES:
        if path.endswith(suffix) and Path(path).name != suffix:
            if suffix == PARQUET:
                check_pyarrow(path)
            if suffix.endswith(_RENDERED):
                from viz.formats.dot import check_program  # late: most runs draw no picture

                check_program()
            return suffix
    if path.endswith(".json"):
        raise SimvizError(f"{path}: the suffix .json is that of --json {path}, and in Python of result.to_json()")
    raise SimvizError(f"{path}: the suffix is the format; use one of {' '.join(SUFFIXES)}")


def check_place(path: str, *, folder: bool = False) -> None:
    """Raise SimvizError if the file could not be written."""
    if not path or "\0" in path:
        raise SimvizError(
            f"The name of a file to write {'holds a null character' if path else 'is empty'}; give another"
        )
    target = Path(path)
    parent = target.absolute().parent
    try:
        if target.is_symlink() and not target.exists():
            with suppress(FileNotFoundError):  # a link to what will be written
                target.stat()
        if not parent.is_dir():
            raise SimvizError(f"{path}: there is no folder {parent}")
        if not os.access(parent, os.W_OK):
            raise SimvizError(f"{path}: the folder {parent} cannot be written to")
        if target.exists() and target.is_dir() != folder:
            raise SimvizError(f"{path}: is a {'folder' if target.is_dir() else 'file'}; choose another name")
        if target.exists() and folder:
            _refuse_foreign(target)
    except OSError as error:  # a name that is too long, or links in a circle
        raise SimvizError(f"{path} cannot be written: {error.strerror}") from None


def remark(path: str, scene: Scene) -> str:
    """A remark on a written file, in brackets; mostly nothing."""
    said = _remark_on_placed(path, scene) if path.endswith(PLACED) else ""
    return f" ({said})" if said else ""


def check_loses_nothing(path: str, source: object, result: str | None = None) -> None:
    """Raise SimvizError if the graph is read from that file, or the JSON of the result is written to it."""
    if result is not None and os.path.realpath(result) == os.path.realpath(path):
        raise SimvizError(f"--json {result}: it would overwrite another output; choose another name")
    if not isinstance(source, str | os.PathLike) or not os.path.exists(path):
        return
    for read in (Path(source), *(Path(source) / name for name in SAVED_MODEL_FILES)):
        if read.exists() and os.path.samefile(path, read):
            raise SimvizError(f"{path}: the graph is read from it; choose another name")


def write(path: str, content: bytes | Mapping[str, bytes]) -> None:
    """Replace a file, or a folder of files, by a finished one; on any failure the old one stays.

    Raises SimvizError when the system refuses.
    """
    target = Path(path)
    try:
        if isinstance(content, bytes):
            replace_file(target, content)
        else:
            _write_folder(target, content)
    except OSError as error:
        raise SimvizError(f"{path} cannot be written: {error.strerror}") from None


def _write_folder(target: Path, files: Mapping[str, bytes]) -> None:
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name[:80]}.", dir=target.absolute().parent))
    old = fresh.with_name(fresh.name + ".old")
    try:
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        fresh.chmod(mode(folder=True))
        for left in reversed(range(_TRIES)):
            try:
                return _put(fresh, old, target)
            except OSError as error:
                if not left or error.errno not in _MOVED:
                    raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _put(fresh: Path, old: Path, target: Path) -> None:
    """Let a finished folder take the place of another, which is `old` for a moment."""
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)  # of a try before, after which another run's folder stands there
    try:
        if target.exists():
            _refuse_foreign(target)
            target.rename(old)
        fresh.rename(target)
    except BaseException:  # an interruption, too, may come between the two
        if old.exists() and not target.exists():
            with suppress(OSError):  # another run is quicker
                old.rename(target)
        raise


def _refuse_foreign(folder: Path) -> None:
    """Raise SimvizError for a folder that holds anything but such files: it is not replaced."""
    foreign = sorted(entry.name for entry in folder.iterdir() if entry.suffix != FOLDERS.get(folder.suffix))
    if foreign:
        raise SimvizError(f"{folder} holds {foreign[0]!r}, which simviz did not write; choose another name")


def _remark_on_placed(path: str, scene: Scene) -> str:
    """A remark on the placed graph in a file; nothing if it is the user's own."""
    said = []
    if scene.graph.signatures and scene.training is None and not path.endswith(".meta"):
        said.append(f"without signatures: this step is --fetch {','.join(map(str, scene.step.fetches))}")
    if scene.training is not None:
        first, *others = scene.training.clients
        said.append(
            f"the graph of {first.program.name}" + (f", not of {counted(len(others), 'other client')}" * bool(others))
        )
    if scene.graph.expanded:
        said.append("calls are expanded, so that the nodes in them have devices")
    elif scene.graph.lowered is not None:
        said.append("control flow is lowered, as a session does it, so that the nodes in it have devices")
    return "; ".join(said)
