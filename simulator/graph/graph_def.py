"""Graphs as GraphDef and MetaGraphDef messages, and messages as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain

from google.protobuf import text_format

from simulator.errors import GraphError
from simulator.graph.attributes import COLOCATED, COLOCATION
from simulator.graph.graph import Graph
from simulator.graph.messages import GraphDef, MetaGraphDef, Proto
from simulator.graph.tensors import SHAPES, shape_of


def graph_def(graph: Graph, *, devices: Sequence[str] | None = None) -> Proto:
    """The graph as a GraphDef message that TensorFlow imports, nodes in the graph's order.

    `devices` gives a device string per node, which replaces the requested one. Raises GraphError when their number is
    not that of the nodes.
    """
    if devices is not None and len(devices) != len(graph):
        raise GraphError(f"{graph.source}: {len(devices)} devices for {len(graph)} nodes; give one per node.")
    message = GraphDef()
    message.versions.producer = graph.producer
    message.versions.min_consumer = graph.min_consumer
    for row, device in enumerate(devices if devices is not None else graph.requested):
        node = message.node.add(name=graph.names[row], op=graph.ops[row], device=device, input=graph.inputs_of(row))
        for name, value in graph.attrs[row].items():
            if name != SHAPES or _holds(graph, row, value):
                node.attr[name].CopyFrom(value)
    for function in graph.library.values():
        message.library.function.add().CopyFrom(function)
    for function_name, gradient in graph.gradients.items():
        message.library.gradient.add(function_name=function_name, gradient_func=gradient)
    return message


def all_nodes(message: Proto) -> Iterator[Proto]:
    """The nodes of a GraphDef and of its functions."""
    return chain(message.node, *(function.node_def for function in message.library.function))


def _holds(graph: Graph, row: int, said: Proto) -> bool:
    """Tell whether the shapes that a file says of a node's outputs are those of its tensors, as far as it says them.

    They are not where the graph has another batch than its file, or a size is unknown by that. TensorFlow refuses a
    node that says another size than its own rules find.
    """
    for tensor, written in zip(graph.outputs(row), said.list.shape, strict=False):
        shape, before = graph.tensor_shape[tensor], shape_of(written)
        if before is None:
            continue
        if shape is None or len(shape) != len(before) or any(a != b >= 0 for a, b in zip(shape, before, strict=True)):
            return False
    return True


def placed_graph_def(graph: Graph, devices: Sequence[str], waits: Iterable[tuple[int, int]] = ()) -> Proto:
    """The graph as a GraphDef in which every node asks for its device, so that hard placement gives it that.

    Of each pair of rows in `waits` the second node waits for the first by a control edge, which comes after all that
    it has. Colocation with a node that is missing or on another device is left out: soft placement has relaxed it, and
    hard placement would refuse it. Raises GraphError as `graph_def` does.
    """
    message = graph_def(graph, devices=devices)
    together: dict[str, set[str]] = {}
    for name, device in zip(graph.names, devices, strict=True):
        together.setdefault(device, set()).add(name)
    for node in message.node:
        untie(node, together[node.device])
    for first, then in waits:
        message.node[then].input.append(f"^{graph.names[first]}")
    return message


def untie(node: Proto, inside: Set[str]) -> None:
    """Remove from a node's `_class`, in place, the colocation with nodes outside `inside`."""
    if COLOCATION not in node.attr:
        return
    tied = node.attr[COLOCATION].list.s
    kept = [entry for entry in tied if not entry.startswith(COLOCATED) or _name(entry) in inside]
    if not kept:
        del node.attr[COLOCATION]
    elif len(kept) < len(tied):
        del tied[:]
        tied.extend(kept)


def placed_meta_graph(graph: Graph, devices: Sequence[str], waits: Iterable[tuple[int, int]] = ()) -> Proto:
    """The MetaGraphDef from which the graph was read, with the graph of `placed_graph_def`; the rest is unchanged.

    All nodes that collections and signatures name still exist. Raises GraphError for a graph from another source.
    """
    check_meta_graph(graph)
    message = MetaGraphDef()
    message.CopyFrom(graph.meta_graph)
    message.graph_def.CopyFrom(placed_graph_def(graph, devices, waits))
    return message


def check_meta_graph(graph: Graph) -> None:
    """Raise GraphError for a graph that was not read from a MetaGraph, or was rewritten."""
    if graph.meta_graph is None:
        raise GraphError(
            f"{graph.source} is no MetaGraph, or was rewritten, so it has no collections to write. Use .pb or .pbtxt."
        )


def _name(entry: bytes) -> str:
    return entry.removeprefix(COLOCATED).decode("utf-8", "replace")


def to_text(message: Proto) -> str:
    """The message in protobuf's canonical text form, map entries sorted by key: the same text in every run."""
    return text_format.MessageToString(message)
