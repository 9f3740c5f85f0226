"""Write a graph as a GraphDef message, and messages as text."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf import text_format

from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.graph.messages import GraphDef, Proto


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
            node.attr[name].CopyFrom(value)
    for function in graph.library.values():
        message.library.function.add().CopyFrom(function)
    for function_name, gradient in graph.gradients.items():
        message.library.gradient.add(function_name=function_name, gradient_func=gradient)
    return message


def to_text(message: Proto) -> str:
    """The message in protobuf's canonical text form, map entries sorted by key: the same text in every run."""
    return text_format.MessageToString(message)
