"""The graph with the device of every node written into it, for a TensorFlow program to import and run."""

from __future__ import annotations

from google.protobuf.message import EncodeError

from simulator.errors import GraphError
from simulator.graph.exporting import placed_graph_def, placed_meta_graph, to_text
from simulator.wording import counted
from viz.scene import Scene

SUFFIXES = (".pb", ".pbtxt", ".meta")  # a GraphDef, binary or text; a MetaGraphDef


def draw_placed(scene: Scene, suffix: str) -> bytes:
    """The placed graph as a file of that suffix holds it.

    It is the user's own graph wherever the placer sees that; where calls were expanded or control flow was lowered, it
    is what became of them, as nodes of functions have no devices of their own otherwise. Raises GraphError where a
    MetaGraph is wanted and there is none, and where it is larger than a message may be.
    """
    devices = [scene.assignment.name_of(row) for row in range(len(scene.graph))]
    message = (placed_meta_graph if suffix == ".meta" else placed_graph_def)(scene.graph, devices)
    if suffix == ".pbtxt":
        return to_text(message).encode("utf-8")
    try:
        return bytes(message.SerializeToString(deterministic=True))
    except (EncodeError, ValueError) as error:
        raise GraphError(f"the placed graph is larger than a message may be ({error}); write it as .pbtxt") from None


def said_of_placed(scene: Scene) -> str:
    """What the reader of such a file should know of the graph in it; nothing where it is the user's own."""
    said = []
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
