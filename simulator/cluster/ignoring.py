"""Drop what a graph says of devices, as if the graph had been written without tf.device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from simulator.cluster.devicespec import parse
from simulator.errors import ClusterError
from simulator.graph.graph import Graph
from simulator.graph.messages import Proto
from simulator.wording import by_count, counted

_SHOWN = 3  # device strings that the note names


def without_devices(graph: Graph, device_type: str | None = None) -> Graph:
    """The same graph without its device strings, in the bodies of its functions, too; a note counts them.

    With a `device_type`, such as "CPU", only type and number are dropped, and only of strings that ask for that type.
    What else ties nodes stays: colocation (`_class`), references, resources, and attributes that hold device names.
    Malformed strings are dropped with the others, and stay where a type is given.
    """
    bare = {text: _bare(text, device_type) for text in dict.fromkeys(graph.requested)}
    strings = [*graph.requested, *(node.device for function in graph.library.values() for node in function.node_def)]
    dropped = Counter(text for text in strings if _bare(text, device_type) != text)
    free = replace(
        graph,
        requested=tuple([bare[text] for text in graph.requested]),
        library=_free_bodies(graph.library, device_type),
        lowered=graph.lowered and replace(graph.lowered, given=without_devices(graph.lowered.given, device_type)),
    )
    if not dropped:
        return free
    count = dropped.total()
    shown = by_count({repr(text): times for text, times in dropped.items()}, _SHOWN)
    return free.noting(
        f"{counted(count, 'device string')} of the graph {'is' if count == 1 else 'are'} ignored: {shown}."
    )


def _bare(text: str, device_type: str | None) -> str:
    if device_type is None:
        return ""
    try:
        spec = parse(text)
    except ClusterError:  # the placer reports it with the name of the node
        return text
    return str(spec._replace(type=None, id=None)) if spec.type == device_type else text


def _free_bodies(library: Mapping[str, Proto], device_type: str | None) -> Mapping[str, Proto]:
    """The functions without device strings; those that have none are the same messages."""
    return {name: _free_body(function, device_type) for name, function in library.items()}


def _free_body(function: Proto, device_type: str | None) -> Proto:
    if all(_bare(node.device, device_type) == node.device for node in function.node_def):
        return function
    free = type(function)()
    free.CopyFrom(function)
    for node in free.node_def:
        node.device = _bare(node.device, device_type)
    return free
