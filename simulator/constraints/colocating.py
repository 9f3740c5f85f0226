"""Group the nodes of a graph step by step as TensorFlow's placer does, and look into calls where it does (§3.2, §3.6).

    every node by itself  ->  edges  ->  calls that hand back resources  ->  `_class`  ->  variants of the host

Each step works on what those before it left (`tensorflow/core/common_runtime/colocation_graph.cc`, Initialize), and the
first thing that is wrong ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import DeviceSpec
from simulator.constraints import grouping
from simulator.constraints.grouping import Groups
from simulator.constraints.host_variants import host_bound
from simulator.constraints.initialising import initial
from simulator.constraints.inspecting import Tied, body_of, inspected, require_functions, signature
from simulator.graph.dtypes import RESOURCE
from simulator.graph.graph import Graph


@dataclass(frozen=True)
class _Placer:
    """What stays the same in all bodies of a graph."""

    cluster: Cluster
    soft: bool
    known: dict[tuple[str, bytes], tuple[Tied, ...]] = field(default_factory=dict)  # per call that was looked into


def colocate(graph: Graph, cluster: Cluster, *, soft: bool) -> tuple[list[DeviceSpec], Groups, list[tuple[int, str]]]:
    """What each node asks for, the groups, and the `_class` entries (node, key) that soft placement gave up.

    Raises GraphError for a malformed device string, and InfeasibleError for a node without a kernel and for nodes that
    must share a device and exclude each other.
    """
    return _colocate(graph, _Placer(cluster, soft), ())


def _colocate(
    graph: Graph, placer: _Placer, callers: tuple[str, ...]
) -> tuple[list[DeviceSpec], Groups, list[tuple[int, str]]]:
    require_functions(graph)
    specs, types = initial(graph, placer.cluster)
    groups = grouping.alone(graph, specs, types)
    calls = inspected(graph)
    grouping.tie_edges(groups, graph, soft=placer.soft, passed_over=frozenset(calls))
    for call in calls:
        _tie_around(groups, graph, call, _looked_into(graph, call, placer, callers), soft=placer.soft)
    dropped = grouping.tie_classes(groups, graph, soft=placer.soft)
    if any(name != "CPU" for found in set(groups.types) for name, _ in found):
        for node in host_bound(graph):
            root = groups.root(node)
            groups.types[root] = tuple(pair for pair in groups.types[root] if pair[0] == "CPU") or groups.types[root]
    return specs, groups, dropped


def _looked_into(graph: Graph, call: int, placer: _Placer, callers: tuple[str, ...]) -> tuple[Tied, ...]:
    """What a call's body ties together. A body that can be grouped has no recursion, whoever calls it."""
    key = signature(graph, call)
    if key not in placer.known:
        name, body, arguments, results = body_of(graph, call, callers)
        _, groups, _ = _colocate(body, placer, (*callers, name))
        roots = dict.fromkeys(groups.root(row) for row in (*arguments, *results))
        placer.known[key] = tuple(
            Tied(
                arguments=tuple(slot for slot, row in enumerate(arguments) if groups.root(row) == root),
                results=tuple(port for port, row in enumerate(results) if groups.root(row) == root),
                requested=groups.requested[root],
                resource=groups.resource[root],
                types=groups.types[root],
            )
            for root in roots
        )
    return placer.known[key]


def _tie_around(groups: Groups, graph: Graph, call: int, found: Sequence[Tied], *, soft: bool) -> None:
    """Tie what feeds the call and what reads it, first all groups, then limit each to what its body allows."""
    sources = graph.edge_src[graph.in_ptr[call] : graph.in_ptr[call + 1]].tolist()
    first = int(graph.tensor_ptr[call])
    edges = graph.out_edge[graph.out_ptr[call] : graph.out_ptr[call + 1]]
    edges = edges[graph.edge_tensor[edges] >= 0]
    ports = (graph.edge_tensor[edges] - first).tolist()
    readers = sorted(zip(graph.creation.edge[edges].tolist(), ports, graph.edge_dst[edges].tolist(), strict=True))
    around = []
    for tied in found:
        members = [sources[slot] for slot in tied.arguments]
        reading = [(node, port) for _, port, node in readers if port in tied.results]
        lead = (members + [node for node, _ in reading])[:1]
        around.append(lead)
        for node in members[1:]:
            grouping.tie_nodes(groups, graph, lead[0], node, soft=soft)
        for node, port in reading if members else reading[1:]:
            if graph.tensor_dtype[first + port] == RESOURCE:
                grouping.tie_edge(groups, graph, lead[0], node, soft=soft)
            else:
                grouping.tie_nodes(groups, graph, lead[0], node, soft=soft)
    for lead, tied in zip(around, found, strict=True):
        for node in lead:  # none: nobody reads that result
            grouping.limit(groups, node, tied.requested, tied.resource, tied.types, soft=soft)
