"""Files of results: the suffix is the format, and a file is replaced by a finished one or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from google.protobuf.message import EncodeError

from simulator.errors import GraphError, SimvizError
from simulator.files import mode, replace_file
from simulator.graph.graph_def import placed_graph_def, placed_meta_graph, to_text
from simulator.graph.messages import Proto
from simulator.graph.sources import SAVED_MODEL_FILES
from simulator.observed import SUFFIX
from simulator.observed.form import dump
from simulator.wording import counted
from viz.formats.parquet import check_pyarrow, parquet_files
from viz.pictures.look import Look
from viz.scene import Scene

PLACED = (".pb", ".pbtxt", ".meta")  # the placed graph as a GraphDef, binary or text, or as a MetaGraphDef
OBSERVED = SUFFIX  # a step that really ran, for later runs
SPLIT = ".placement.json"  # the placement of an instance, in the form of its file
# pictures of times, whose endings come before those of the graph's
TIMES = (".timeline.svg", ".timeline.pdf", ".memory.svg", ".memory.pdf", ".comparison.svg", ".comparison.pdf")
STEP = (".run_metadata.pb", ".run_metadata.pbtxt")  # the step as a traced session reports it
TENSORBOARD = ".tensorboard"  # a folder for TensorBoard
TABLES = ".tables"  # a folder of CSV files
PARQUET = ".parquet"  # a folder of Parquet files
MODEL_EXPLORER = ".model_explorer"  # a folder of JSON files for Model Explorer
# and the suffix of the files in them
FOLDERS = {
    ".partitions": ".pbtxt",
    TENSORBOARD: ".simviz",
    TABLES: ".csv",
    PARQUET: ".parquet",
    MODEL_EXPLORER: ".json",
}
_TRIES = 20  # to put a folder where other runs put theirs at the same moment
_MOVED = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)  # another run has moved its folder away, or here
SUFFIXES = (
    ".html",
    *TIMES,
    *STEP,
    TENSORBOARD,
    TABLES,
    PARQUET,
    MODEL_EXPLORER,
    ".svg",
    ".png",
    ".pdf",
    ".dot",
    ".graphml",
    ".trace.json",
    SPLIT,
    ".partitions",
    OBSERVED,
    *PLACED,
)


def check_suffix(path: str) -> str:
    """The suffix of a file to write. Raise SimvizError with the list of suffixes for any other.

    A format whose library is missing is refused here, too, before anything takes long.
    """
    for suffix in SUFFIXES:
        if path.endswith(suffix) and Path(path).name != suffix:
            if suffix == PARQUET:
                check_pyarrow(path)
            return suffix
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


def draw(scene: Scene, suffix: str, look: Look | None = None) -> bytes | Mapping[str, bytes]:
    """The content of a file with that suffix: bytes, or file names with their content for a folder.

    Raises SimvizError where the run lacks what the format shows.
    """
    look = look or Look()
    if suffix == OBSERVED:
        if scene.observed is None:
            raise SimvizError(
                f"No step was observed, so there is none to write; add --observe. {scene.unobserved or ''}"
            )
        return dump(scene.observed)
    if suffix == SPLIT:
        if scene.instance is None:
            raise SimvizError(
                f"{SPLIT} is the placement of an instance in the form of its file; {scene.title} is a graph, so write "
                f"{' or '.join(PLACED)}"
            )
        return scene.instance.written(scene.assignment).encode("utf-8")
    if suffix == ".html":
        from viz.page.report import draw_report

        return draw_report(scene).encode("utf-8")
    if suffix == ".trace.json" and scene.training is not None:
        from viz.formats.trace_events import draw_training

        return draw_training(scene, scene.training).encode("utf-8")
    if suffix == ".trace.json":
        from viz.formats.trace_events import draw_timeline

        return draw_timeline(scene).encode("utf-8")
    if suffix == ".graphml":
        from viz.formats.graphml import draw_graphml

        return draw_graphml(scene).encode("utf-8")
    if suffix in FOLDERS:
        return _draw_folder(scene, suffix)
    if suffix in STEP:
        from viz.formats.run_metadata import run_metadata

        return _written(run_metadata(scene), "the step is", text=suffix.endswith("txt"))
    if suffix in PLACED:
        return _draw_placed(scene, suffix)
    if suffix in TIMES:
        return _draw_times(scene, suffix, look)
    from viz.formats.dot import draw_graph, render

    source = draw_graph(scene, max_nodes=look.boxes, max_depth=look.depth, width_mm=look.width_mm)
    return source.encode("utf-8") if suffix == ".dot" else render(source, suffix[1:], shapes=look.shapes)


def _draw_folder(scene: Scene, suffix: str) -> Mapping[str, bytes]:
    if suffix == ".partitions":
        from simulator.partitioning.partitions import partition_files

        return {name: text.encode("utf-8") for name, text in partition_files(scene.partitions).items()}
    if suffix == TABLES:
        from viz.formats.tables import table_files

        return table_files(scene)
    if suffix == PARQUET:
        from viz.formats.tables import to_tables

        return parquet_files(to_tables(scene))
    if suffix == MODEL_EXPLORER:
        from viz.formats.model_explorer import model_explorer_files

        return model_explorer_files(scene)
    from viz.formats.tensorboard import FILE, event_file

    return {FILE: _whole(lambda: event_file(scene), "the graph and its step are")}


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


def _draw_times(scene: Scene, suffix: str, look: Look) -> bytes:
    from viz.pictures.comparison import comparison_picture
    from viz.pictures.memory import memory_picture
    from viz.pictures.timeline import timeline_picture

    _, what, format = suffix.split(".")
    drawers = {"timeline": timeline_picture, "memory": memory_picture, "comparison": comparison_picture}
    return drawers[what](scene, look).drawn(format, f"{scene.title}: {what}", shapes=look.shapes)


def _draw_placed(scene: Scene, suffix: str) -> bytes:
    """The graph with the device of every node written into it, for a TensorFlow program to import and run.

    It is the user's own graph if the placer sees that, else the graph with expanded calls or lowered control flow:
    nodes of functions have no devices of their own. Raise GraphError for a MetaGraph where there is none, and
    for a graph that is larger than a message may be.
    """
    devices = [scene.assignment.name_of(row) for row in range(len(scene.graph))]
    message = (placed_meta_graph if suffix == ".meta" else placed_graph_def)(scene.graph, devices)
    return _written(message, "the placed graph is", text=suffix == ".pbtxt")


def _written(message: Proto, what: str, *, text: bool) -> bytes:
    """A message as text or binary. Raise GraphError where it is too large to be binary."""
    if text:
        return to_text(message).encode("utf-8")
    return _whole(lambda: bytes(message.SerializeToString(deterministic=True)), what)


def _whole(made: Callable[[], bytes], what: str) -> bytes:
    try:
        return made()
    except (EncodeError, ValueError) as error:
        raise GraphError(f"{what} larger than a message may be ({error}); a .pbtxt has no such bound") from None


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
