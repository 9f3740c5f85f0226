"""Errors for a graph that can't be placed: TensorFlow's reason in substance, and a remedy.

Each error names the node that TensorFlow names (§3.2 to §3.5). It is one without a kernel, the destination of an edge,
or the node with the `_class` entry. Else a group has no device left, and it is the member that TensorFlow places first.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.cluster.cluster import Cluster
from simulator.cluster.device_strings import named_cluster
from simulator.cluster.devicespec import ANYWHERE, DeviceSpec, matches, parse
from simulator.errors import ClusterError, GraphError, InfeasibleError
from simulator.graph import ops
from simulator.graph.graph import Graph
from simulator.wording import MAX_WORD, some

SHOWN = 3  # members and devices that a refusal names; its attributes hold them all


def malformed(graph: Graph, node: int, error: ClusterError | None) -> GraphError:
    """The error for a device string that can't be read."""
    return GraphError(f"{error} (node {graph.names[node]!r})", node=graph.names[node])


def undeclared_attribute(graph: Graph, node: int, attr: str) -> InfeasibleError:
    """The error for an op whose kernels ask for an attribute that no node of the op can have."""
    name, op = graph.names[node], graph.ops[node]
    return InfeasibleError(
        f"OpKernel {op!r} has constraint on attr {attr!r} not in the node {name!r}: TensorFlow's registry contradicts "
        "itself, so it can't place this op at all. Use a newer version of the op.",
        node=name,
        members=(name,),
        allows={name: ()},
    )


def no_kernel(graph: Graph, node: int, present: Sequence[str]) -> InfeasibleError:
    """The error for a node that no device type of the cluster has a kernel for, whether the node runs or not."""
    name, op = graph.names[node], graph.ops[node]
    others = [kind for kind, _ in ops.kernel_types(op, graph.attrs[node])]
    helped = f"A cluster with a {others[0]} could." if others else "Every node is placed, even if not run; cut it out."
    return InfeasibleError(
        f"No OpKernel was registered to support Op {op!r} used by node {name!r} with its attributes, for any of the "
        f"cluster's device types ({some(present)}). {helped}",
        node=name,
        members=(name,),
        allows={name: ()},
    )


def no_device(
    graph: Graph,
    cluster: Cluster,
    specs: Sequence[DeviceSpec],
    node: int,
    members: Sequence[int],
    requested: DeviceSpec,
) -> InfeasibleError:
    """The error for a group that no device can take; `node` is the member that TensorFlow would place first."""
    allows = {graph.names[member]: _allows(graph, cluster, specs, member) for member in members}
    reason = _reason(graph, cluster, specs[node], node, requested)
    message = f"Cannot assign a device for operation {graph.names[node]}: {reason}"
    if not _has(cluster, requested.without_device()):  # so nothing else can be to blame
        return InfeasibleError(message, node=graph.names[node], members=tuple(allows), allows=allows)
    strictest = sorted(allows, key=lambda name: len(allows[name]))[:SHOWN]  # they are to blame
    listed = [f"  {name} ({graph.ops[graph.row(name)]!r}): {_allowed(cluster, allows[name])}" for name in strictest]
    if len(allows) > SHOWN:
        listed.append(f"  and {len(allows) - SHOWN} more")
    tied = "It allows" if len(allows) == 1 else f"The {len(allows)} nodes that must share its device allow"
    message = "\n".join([message, f"{tied}:", *listed])
    return InfeasibleError(message, node=graph.names[node], members=tuple(allows), allows=allows)


def _has(cluster: Cluster, requested: DeviceSpec) -> bool:
    """Tell whether a device of the cluster is one that is asked for."""
    return any(matches(requested, parse(device.name)) for device in cluster.devices)


def _allows(graph: Graph, cluster: Cluster, specs: Sequence[DeviceSpec], node: int) -> tuple[str, ...]:
    """The devices of the cluster that match what a node itself asks for and have a kernel for it."""
    types = {name for name, _ in ops.kernel_types(graph.ops[node], graph.attrs[node])}
    return tuple(
        device.name for device in cluster.devices if device.type in types and matches(specs[node], parse(device.name))
    )


def _allowed(cluster: Cluster, devices: Sequence[str]) -> str:
    return f"every device of {cluster.name}" if len(devices) == len(cluster) else _shown(devices)


def _shown(devices: Sequence[str]) -> str:
    return some(devices, SHOWN) if devices else "no device of this cluster"


def _reason(graph: Graph, cluster: Cluster, own: DeviceSpec, node: int, requested: DeviceSpec) -> str:
    """The placer's reason: the device, the kernel, or the agreement within the group."""
    if own != requested:
        wanted = (
            f"could not satisfy explicit device specification {str(own)!r}" if own != ANYWHERE else "no device left"
        )
        return (
            f"{wanted} because the node was colocated with a group of nodes that required incompatible device "
            f"{str(requested)!r}.{_help(graph, cluster, requested)}"
        )
    if not _has(cluster, requested):
        available = f"[ {_shown(sorted(device.name for device in cluster.devices))} ]"
        return (
            f"it was explicitly assigned to {graph.requested[node]} but available devices are {available}."
            f"{_help(graph, cluster, requested)}"
        )
    return (
        f"could not satisfy explicit device specification {graph.requested[node]!r} because no supported kernel for "
        f"{requested.type or 'those'} devices is available.{_help(graph, cluster, requested)}"
    )


def _help(graph: Graph, cluster: Cluster, requested: DeviceSpec) -> str:
    """The part that the cluster lacks, and a cluster that holds the graph."""
    place = requested.without_device()
    if _has(cluster, requested):
        return " Allow soft placement, or ask for other devices."
    if _has(cluster, place):
        advice = " Allow soft placement, or use a cluster that has this device."
    else:
        jobs = {parse(device.name).job for device in cluster.devices}
        lacks = (
            f"the task {str(place)!r}" if requested.job is None or requested.job in jobs else f"the job {place.job!r}"
        )
        advice = (
            f" The cluster lacks {lacks}. Soft placement never moves a node to another task; --ignore-devices drops "
            "the strings."
        )
    return advice + _proposal(graph, requested)


def _proposal(graph: Graph, requested: DeviceSpec) -> str:
    """A cluster in compact notation, which knows replica 0 only."""
    named = named_cluster(graph) if not requested.replica else None
    return f" A cluster that holds the graph: --cluster {named}" if named and len(named) <= MAX_WORD else ""
