"""Take what a graph asks of one task to another: the same client's graph, as the script at the other task writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simulator.cluster.devicespec import DeviceSpec, parse
from simulator.errors import ClusterError, GraphError
from simulator.graph.graph import Graph
from simulator.graph.messages import Proto


def moved(graph: Graph, task: DeviceSpec, other: DeviceSpec) -> Graph:
    """The graph with `other` (job, replica, task) wherever a node asks for `task`, in the bodies of functions, too."""
    if task == other:
        return graph
    texts = {text: moved_text(text, task, other) for text in set(graph.requested)}
    if all(text == new for text, new in texts.items()) and not graph.library:
        return graph
    return replace(
        graph,
        requested=tuple([texts[text] for text in graph.requested]),
        library=_moved_bodies(graph.library, task, other),
    )


def moved_text(text: str, task: DeviceSpec, other: DeviceSpec) -> str:
    """A device string with `other` in place of `task`; one that names another task, or none, as it stands."""
    spec = parse(text)
    if (spec.job, spec.replica or 0, spec.task) != (task.job, task.replica or 0, task.task):
        return text
    replica = other.replica if spec.replica is not None or other.replica else None
    return str(spec._replace(job=other.job, replica=replica, task=other.task))


def without_localhost(graph: Graph) -> Graph:
    """The graph with no node asking for the task that a session has without a cluster; types and numbers stay."""
    specs = {text: parse(text) for text in set(graph.requested)}
    bare = {
        text: str(spec._replace(job=None, replica=None, task=None))
        for text, spec in specs.items()
        if spec.job == "localhost"
    }
    if not bare:
        return graph
    return replace(graph, requested=tuple([bare.get(text, text) for text in graph.requested]))


def check_devices(graph: Graph) -> None:
    """Raise GraphError for a device string that cannot be read, with the node that has it."""
    for row, text in enumerate(graph.requested):
        try:
            parse(text)
        except ClusterError as error:
            name = graph.names[row]
            raise GraphError(f"{graph.source}: {error} (node {name!r})", node=name) from None


def _moved_bodies(library: Mapping[str, Proto], task: DeviceSpec, other: DeviceSpec) -> dict[str, Proto]:
    bodies = {}
    for name, function in library.items():
        places = [
            (at, moved_text(node.device, task, other)) for at, node in enumerate(function.node_def) if node.device
        ]
        changed = [(at, text) for at, text in places if text != function.node_def[at].device]
        if changed:
            body = type(function)()
            body.CopyFrom(function)
            for at, text in changed:
                body.node_def[at].device = text
            bodies[name] = body
        else:
            bodies[name] = function
    return bodies
