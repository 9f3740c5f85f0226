"""What each node asks for and may run on by itself, before it is tied to others.

The first of TensorFlow's checks (`tensorflow/core/common_runtime/colocation_graph.cc`, InitializeMembers; §2.2, §3.2):
nodes in the order of their ids, and of each its kernels before its device string. The first that fails is named.
"""

from __future__ import annotations

from typing import TypeAlias

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import DeviceSpec, parse, parse_beginning
from simulator.constraints import refusals
from simulator.errors import ClusterError, SimvizError
from simulator.graph import ops
from simulator.graph.graph import Graph

DeviceTypes: TypeAlias = tuple[tuple[str, int], ...]  # (device type, kernel priority), best first


def initial(graph: Graph, cluster: Cluster) -> tuple[list[DeviceSpec], list[DeviceTypes]]:
    """[N] what each node asks for, and [N] the device types that it may run on.

    Raises GraphError for a malformed device string, and InfeasibleError for a node without a kernel for any of the
    cluster's device types.
    """
    present = tuple(name for name in ops.DEVICE_TYPES if any(device.type == name for device in cluster.devices))
    client = parse(cluster.client_task)
    read = {text: _read(text) for text in set(graph.requested)}
    found = [ops.support(op, attrs, present) for op, attrs in zip(graph.ops, graph.attrs, strict=True)]
    types = [support.types for support in found]
    failed = []
    for node, support in enumerate(found):
        spec, error = read[graph.requested[node]]
        if not support.types and not support.elsewhere:
            types[node] = _of_another_process(spec, client, present)
        if support.undeclared or not types[node] or error:
            failed.append(node)
    if failed:
        node = min(failed, key=graph.place.tolist().__getitem__)
        raise _refusal(graph, node, found[node].undeclared, types[node], read[graph.requested[node]][1], present)
    return [read[text][0] for text in graph.requested], types


def _read(text: str) -> tuple[DeviceSpec, ClusterError | None]:
    """What a device string asks for; of a malformed one what stands before the fault, and the error."""
    try:
        return parse(text), None
    except ClusterError as error:
        return parse_beginning(text), error


def _of_another_process(spec: DeviceSpec, client: DeviceSpec, present: tuple[str, ...]) -> DeviceTypes:
    """The types of an op without any kernel: another process may know one, so what is asked of it is believed."""
    if all(asked is None or asked == own for asked, own in zip(spec[:3], client[:3], strict=True)):
        return ()
    return tuple((name, 0) for name in (present if spec.type is None else (spec.type,)))


def _refusal(
    graph: Graph,
    node: int,
    undeclared: str,
    types: DeviceTypes,
    error: ClusterError | None,
    present: tuple[str, ...],
) -> SimvizError:
    if undeclared:
        return refusals.undeclared_attribute(graph, node, undeclared)
    if not types:
        return refusals.no_kernel(graph, node, present)
    return refusals.malformed(graph, node, error)
