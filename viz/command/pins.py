"""Scopes that a user moves: a pin is a device string, written into each node of its scope in place of their own.

So algorithms obey it as they obey the strings of the graph, and TensorFlow is asked about a graph that has it. Of
several pins that name a node, the one with the longest scope counts. Nodes that control flow is lowered to follow the
op that they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simulator.cluster.cluster import Cluster
from simulator.errors import SimvizError
from simulator.graph.graph import Graph
from simulator.wording import near, some

UNPINNED = "unpinned"  # of --against: the same run without pins


def with_pins(graph: Graph, pins: Mapping[str, str], cluster: Cluster) -> Graph:
    """The graph with the device of each pin (scope or node -> device) in the nodes below it.

    A device is a full name of the cluster or a short one, such as "worker:0/GPU:1" or, in one task, "GPU:1". Raise
    SimvizError for a scope without nodes and for a device that the cluster lacks.
    """
    devices = pinned_devices(pins, cluster)
    requested, used = list(graph.requested), set[str]()
    for row, name in enumerate(graph.names):
        over = [scope for scope in devices if name == scope or name.startswith(f"{scope}/")]
        if over:
            requested[row] = devices[max(over, key=len)]
            used.update(over)
    for scope, text in pins.items():
        if scope not in used:
            scopes = {name[:at] for name in graph.names for at in _ends(name)}
            said = near(scope, sorted(scopes)) or " Calls and control flow are pinned by the op that stands for them."
            raise SimvizError(f"--pin {scope}={text}: no node is in {scope}.{said}")
    return replace(graph, requested=tuple(requested))


def holds(graph: Graph, scope: str) -> bool:
    """Tell whether a pin's scope has a node."""
    return any(name == scope or name.startswith(f"{scope}/") for name in graph.names)


def pinned_devices(pins: Mapping[str, str], cluster: Cluster) -> Mapping[str, str]:
    """The full name of each pin's device. Raise SimvizError for a device that the cluster lacks."""
    return {scope: _device(scope, text, cluster) for scope, text in pins.items()}


def _ends(name: str) -> list[int]:
    return [*(at for at, letter in enumerate(name) if letter == "/"), len(name)]


def _device(scope: str, text: str, cluster: Cluster) -> str:
    for device in cluster.devices:
        if text in (device.name, device.short):
            return device.name
    alike = [device for device in cluster.devices if text == device.short.rpartition("/")[2]]
    if len(alike) == 1:
        return alike[0].name
    if alike:
        names = some([device.short for device in alike], 3)
        raise SimvizError(f"--pin {scope}={text}: several tasks of {cluster.name} have a {text}; say {names}")
    known = [device.short for device in cluster.devices]
    raise SimvizError(f"--pin {scope}={text}: {cluster.name} has no {text}; it has {some(known)}.{near(text, known)}")
