"""Write results to files: whole or not at all, the format told by the suffix."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from simulator.errors import SimvizError
from simulator.files import mode, replace_file
from simulator.graph.loading.sources import SAVED_MODEL_FILES
from viz import placed
from viz.scene import Scene

SUFFIXES = (".html", ".svg", ".png", ".pdf", ".dot", ".trace.json", ".partitions", *placed.SUFFIXES)


def check_suffix(path: str) -> str:
    """The suffix by which a file is written; raise SimvizError that lists them for any other."""
    for suffix in SUFFIXES:
        if path.endswith(suffix) and Path(path).name != suffix:
            return suffix
    raise SimvizError(f"{path}: the format is told by the suffix; use one of {' '.join(SUFFIXES)}")


def check_place(path: str, *, folder: bool = False) -> None:
    """Raise SimvizError if the file could not be written, before any work is done."""
    if not path:
        raise SimvizError("The name of a file to write is empty; give one")
    target = Path(path)
    parent = target.absolute().parent
    if not parent.is_dir():
        raise SimvizError(f"{path}: there is no folder {parent}")
    if not os.access(parent, os.W_OK):
        raise SimvizError(f"{path}: the folder {parent} cannot be written to")
    if target.exists() and target.is_dir() != folder:
        raise SimvizError(f"{path}: is a {'folder' if target.is_dir() else 'file'}; choose another name")


def remark(path: str, scene: Scene) -> str:
    """What the reader of a file that was written should know, in brackets; mostly nothing."""
    said = placed.said_of_placed(scene) if path.endswith(placed.SUFFIXES) else ""
    return f" ({said})" if said else ""


def check_is_not_read(path: str, source: object) -> None:
    """Raise SimvizError if the file is the one that the graph is read from: it would be lost."""
    if not isinstance(source, str | os.PathLike) or not os.path.exists(path):
        return
    for read in (Path(source), *(Path(source) / name for name in SAVED_MODEL_FILES)):
        if read.exists() and os.path.samefile(path, read):
            raise SimvizError(f"{path}: the graph is read from it; choose another name")


def draw(scene: Scene, suffix: str) -> bytes | Mapping[str, str]:
    """The content of a file with that suffix: bytes, or file names with their text for a folder."""
    if suffix == ".html":
        from viz.report import draw_report

        return draw_report(scene).encode("utf-8")
    if suffix == ".trace.json" and scene.training is not None:
        from viz.training.timeline import draw_training

        return draw_training(scene, scene.training).encode("utf-8")
    if suffix == ".trace.json":
        from viz.timeline import draw_timeline

        return draw_timeline(scene).encode("utf-8")
    if suffix == ".partitions":
        from simulator.partitioning import partition_files

        return partition_files(scene.partitions)
    if suffix in placed.SUFFIXES:
        return placed.draw_placed(scene, suffix)
    from viz.dot import draw_graph, render

    source = draw_graph(scene)
    return source.encode("utf-8") if suffix == ".dot" else render(source, suffix[1:])


def write(path: str, content: bytes | Mapping[str, str]) -> None:
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


def _write_folder(target: Path, files: Mapping[str, str]) -> None:
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name[:80]}.", dir=target.absolute().parent))
    old = fresh.with_name(fresh.name + ".old")
    try:
        for name, text in files.items():
            (fresh / name).write_text(text, encoding="utf-8")
        fresh.chmod(mode(folder=True))
        try:
            if target.exists():
                _refuse_foreign(target)
                target.rename(old)
            fresh.rename(target)
        except BaseException:  # an interruption, too, may come between the two
            if old.exists() and not target.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _refuse_foreign(folder: Path) -> None:
    """A folder that holds anything but partitions is somebody's: it is not replaced."""
    foreign = sorted(entry.name for entry in folder.iterdir() if entry.suffix != ".pbtxt")
    if foreign:
        raise SimvizError(f"{folder} holds {foreign[0]!r}, which simviz did not write; choose another name")
