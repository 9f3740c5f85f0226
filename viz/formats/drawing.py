"""The table of formats of results: a suffix, and who draws it. A drawer is imported when its format is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from google.protobuf.message import EncodeError

from simulator.errors import GraphError, SimvizError
from simulator.graph.graph_def import placed_graph_def, placed_meta_graph, to_text
from simulator.graph.messages import Proto
from simulator.observed import SUFFIX
from simulator.observed.form import dump
from viz.formats.needs import SPLIT, Facts, check_needs
from viz.pictures.look import Look
from viz.scene import Scene

Content: TypeAlias = "bytes | Mapping[str, bytes]"  # of a file, or of the files of a folder by their names

PLACED = (".pb", ".pbtxt", ".meta")  # the placed graph as a GraphDef, binary or text, or as a MetaGraphDef
TIMES = (".timeline.svg", ".timeline.pdf", ".memory.svg", ".memory.pdf", ".comparison.svg", ".comparison.pdf")
PARQUET = ".parquet"  # a folder of Parquet files


class Format(NamedTuple):
    """A format of results."""

    draw: Callable[[Scene, str, Look], Content]  # of a run, the suffix, and the look of pictures
    files: str = ""  # suffix of the files in a folder; "": it is one file


def draw(scene: Scene, suffix: str, look: Look | None = None) -> Content:
    """The content of a file with that suffix: bytes, or file names with their content for a folder.

    Raises SimvizError where the run lacks what the format shows.
    """
    check_needs(suffix, Facts.of(scene))
    return FORMATS[suffix].draw(scene, suffix, look or Look())


# ---- drawers --------------------------------------------------------------------------------------------------------


def _page(scene: Scene, suffix: str, look: Look) -> bytes:
    from viz.page.report import draw_report

    return draw_report(scene).encode("utf-8")


def _events(scene: Scene, suffix: str, look: Look) -> bytes:
    from viz.formats.trace_events import draw_timeline, draw_training

    text = draw_timeline(scene) if scene.training is None else draw_training(scene, scene.training)
    return text.encode("utf-8")


def _graph(scene: Scene, suffix: str, look: Look) -> bytes:
    from viz.formats.dot import draw_graph, render

    source = draw_graph(scene, max_nodes=look.boxes, max_depth=look.depth, width_mm=look.width_mm)
    return source.encode("utf-8") if suffix == ".dot" else render(source, suffix[1:], shapes=look.shapes)


def _graphml(scene: Scene, suffix: str, look: Look) -> bytes:
    from viz.formats.graphml import draw_graphml

    return draw_graphml(scene).encode("utf-8")


def _times(scene: Scene, suffix: str, look: Look) -> bytes:
    from viz.pictures.comparison import comparison_picture
    from viz.pictures.memory import memory_picture
    from viz.pictures.timeline import timeline_picture

    _, what, format = suffix.split(".")
    drawers = {"timeline": timeline_picture, "memory": memory_picture, "comparison": comparison_picture}
    return drawers[what](scene, look).drawn(format, f"{scene.title}: {what}", shapes=look.shapes)


def _observed(scene: Scene, suffix: str, look: Look) -> bytes:
    if scene.observed is None:
        raise SimvizError(f"No step was observed, so there is none to write: {scene.unobserved}")
    return dump(scene.observed)


def _split(scene: Scene, suffix: str, look: Look) -> bytes:
    assert scene.instance is not None  # by `check_needs`
    return scene.instance.written(scene.assignment).encode("utf-8")


def _step(scene: Scene, suffix: str, look: Look) -> bytes:
    from viz.formats.run_metadata import run_metadata

    return _written(run_metadata(scene), "the step is", text=suffix.endswith("txt"))


def _placed(scene: Scene, suffix: str, look: Look) -> bytes:
    """The graph with the device of every node, and an enforced order, for a TensorFlow program to import and run.

    It is the user's own graph if the placer sees that, else the graph with expanded calls or lowered control flow.
    Nodes of functions have no devices of their own. Raise GraphError for a MetaGraph where there is none, and for a
    graph that is larger than a message may be.
    """
    write = placed_meta_graph if suffix == ".meta" else placed_graph_def
    message = write(scene.graph, scene.assignment.placed_on, scene.waits)
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


def _partitions(scene: Scene, suffix: str, look: Look) -> Content:
    from simulator.partitioning.partitions import partition_files

    return {name: text.encode("utf-8") for name, text in partition_files(scene.partitions).items()}


def _tables(scene: Scene, suffix: str, look: Look) -> Content:
    from viz.formats.tables import table_files

    return table_files(scene)


def _parquet(scene: Scene, suffix: str, look: Look) -> Content:
    from viz.formats.parquet import parquet_files
    from viz.formats.tables import to_tables

    return parquet_files(to_tables(scene))


def _model_explorer(scene: Scene, suffix: str, look: Look) -> Content:
    from viz.formats.model_explorer import model_explorer_files

    return model_explorer_files(scene)


def _tensorboard(scene: Scene, suffix: str, look: Look) -> Content:
    from viz.formats.tensorboard import FILE, event_file

    return {FILE: _whole(lambda: event_file(scene), "the graph and its step are")}


# In this order a suffix is looked for at the end of a name: a longer one before the one in which it ends.
FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        ".html": Format(_page),
        **dict.fromkeys(TIMES, Format(_times)),
        **dict.fromkeys((".run_metadata.pb", ".run_metadata.pbtxt"), Format(_step)),
        ".tensorboard": Format(_tensorboard, files=".simviz"),
        ".tables": Format(_tables, files=".csv"),
        PARQUET: Format(_parquet, files=".parquet"),
        ".model_explorer": Format(_model_explorer, files=".json"),
        **dict.fromkeys((".svg", ".png", ".pdf", ".dot"), Format(_graph)),
        ".graphml": Format(_graphml),
        ".trace.json": Format(_events),
        SPLIT: Format(_split),
        ".partitions": Format(_partitions, files=".pbtxt"),
        SUFFIX: Format(_observed),
        **dict.fromkeys(PLACED, Format(_placed)),
    }
)
SUFFIXES = tuple(FORMATS)
FOLDERS: Mapping[str, str] = MappingProxyType({suffix: one.files for suffix, one in FORMATS.items() if one.files})
