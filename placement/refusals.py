"""Say why no device can take a group: its members, what each allows, and a cluster that would hold the graph."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import ANYWHERE, DeviceSpec, matches, parse
from simulator.cluster.reading import named_cluster
from simulator.errors import InfeasibleError
from simulator.graph import ops
from simulator.graph.graph import Graph
from simulator.wording import LISTED, some


def refuse(
    graph: Graph,
    cluster: Cluster,
    specs: Sequence[DeviceSpec],
    node: int,
    members: Sequence[int],
    requested: DeviceSpec,
) -> InfeasibleError:
    """The error for a group that no device can take; `node` is the member that TensorFlow would place first."""
    allows = {graph.names[member]: _allows(graph, cluster, specs, member) for member in members}
    reason = _reason(graph, cluster, specs, node, members, requested)
    listed = [f"  {name} ({graph.ops[graph.row(name)]!r}): {_shown(allows[name])}" for name in list(allows)[:LISTED]]
    if len(allows) > LISTED:  # the error's attributes hold them all
        listed.append(f"  and {len(allows) - LISTED} more")
    tied = "It allows" if len(allows) == 1 else f"The {len(allows)} nodes that must share its device allow"
    message = f"Cannot assign a device for operation {graph.names[node]}: {reason}\n{tied}:\n" + "\n".join(listed)
    return InfeasibleError(message, members=tuple(allows), allows=allows)


def _allows(graph: Graph, cluster: Cluster, specs: Sequence[DeviceSpec], node: int) -> tuple[str, ...]:
    """The devices of the cluster that match what a node itself asks for and have a kernel for it."""
    types = {name for name, _ in ops.kernel_types(graph.ops[node], graph.attrs[node])}
    return tuple(
        device.name for device in cluster.devices if device.type in types and matches(specs[node], parse(device.name))
    )


def _shown(devices: Sequence[str]) -> str:
    return some(devices) if devices else "no device of this cluster"


def _reason(
    graph: Graph,
    cluster: Cluster,
    specs: Sequence[DeviceSpec],
    node: int,
    members: Sequence[int],
    requested: DeviceSpec,
) -> str:
    """What is missing, in the terms of placer.cc: the task, the kernel, or the agreement within the group."""
    devices = [parse(device.name) for device in cluster.devices]
    place = requested._replace(type=None, id=None)
    here = [device for device in devices if matches(place, device)]
    if not here:
        return _missing_task(graph, cluster, requested, devices)
    without = [member for member in members if not ops.kernel_types(graph.ops[member], graph.attrs[member])]
    if without:
        first = graph.node(without[0])
        return (
            f"no OpKernel is registered for the op {first.op!r} of node {first.name!r} with these attributes, neither "
            "for CPUs nor for GPUs, and every node is placed, whether it runs or not; cut it out of the graph."
        )
    available = _shown(sorted(device.name for device in cluster.devices))
    if requested == ANYWHERE:
        return f"no device of this cluster has a kernel for all of these nodes. Available devices are [ {available} ]."
    if any(matches(requested, device) for device in devices):
        return (
            f"could not satisfy the device specification {str(requested)!r} because no supported kernel for "
            f"{requested.type or 'those'} devices is available for all of these nodes; allow soft placement."
        )
    if specs[node] != requested and specs[node] != ANYWHERE:
        return (
            f"could not satisfy {str(specs[node])!r} because the node was colocated with nodes that require the "
            f"incompatible device {str(requested)!r}. Available devices are [ {available} ]."
        )
    return (
        f"it was explicitly assigned to {requested} but available devices are [ {available} ]. Allow soft placement, "
        f"or use a cluster that has this device.{_proposal(graph, requested)}"
    )


def _missing_task(graph: Graph, cluster: Cluster, requested: DeviceSpec, devices: Sequence[DeviceSpec]) -> str:
    jobs = list(dict.fromkeys(device.job for device in devices))
    if requested.job is not None and requested.job not in jobs:
        lacks = f"the job {requested.job!r}"
    else:
        lacks = f"the task {str(requested._replace(type=None, id=None))!r}"
    return (
        f"it was explicitly assigned to {requested} but the cluster {cluster.name!r} lacks {lacks}; its tasks are "
        f"{some(cluster.tasks)}. Soft placement never moves a node to another task."
        f"{_proposal(graph, requested)}"
    )


def _proposal(graph: Graph, requested: DeviceSpec) -> str:
    """A cluster in compact notation, which knows replica 0 only."""
    named = named_cluster(graph) if not requested.replica else None
    return f" A cluster that holds the graph: --cluster {named}" if named else ""
