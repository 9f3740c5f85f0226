"""Tie nodes that must share a device into groups, by the rules of TensorFlow's placer (colocation_graph.cc).

Union-find with a request that travels along: each root carries what its members asked for. Three things tie nodes:
an edge into a reference or resource input, a variant edge between two datasets, and a key in the `_class` lists. The
order of the merges matters (it decides whose request wins), so edges come in the order
in which TensorFlow creates them (§3.2 to §3.4).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.cluster.devicespec import ANYWHERE, DeviceSpec, compatible, merge, specialise
from simulator.constraints.initialising import DeviceTypes
from simulator.errors import InfeasibleError
from simulator.graph import ops
from simulator.graph.dtypes import REF, RESOURCE, VARIANT
from simulator.graph.graph import Attrs, Graph
from simulator.graph.ops import registry

# InputColocationExemptionRegistry of TensorFlow 2.21: ops that take resources from other devices than their own.
EXEMPT = frozenset(
    {
        "PartitionedCall",
        "StatefulPartitionedCall",
        "IdentityN",
        "DeleteMultiDeviceIterator",
        "RpcServerRegister",
        "FilterDataset",
        "FlatMapDataset",
        "GeneratorDataset",
        "GroupByReducerDataset",
        "GroupByWindowDataset",
        "InterleaveDataset",
        "LegacyParallelInterleaveDatasetV2",
        "MapAndBatchDataset",
        "MapDataset",
        "ParallelFilterDataset",
        "ParallelInterleaveDataset",
        "ParallelInterleaveDatasetV2",
        "ParallelInterleaveDatasetV3",
        "ParallelInterleaveDatasetV4",
        "ParallelMapDataset",
        "ParallelMapDatasetV2",
        "ReduceDataset",
        "ScanDataset",
        "TakeWhileDataset",
        "ExperimentalGroupByReducerDataset",
        "ExperimentalGroupByWindowDataset",
        "ExperimentalMapAndBatchDataset",
        "ExperimentalParallelInterleaveDataset",
        "ExperimentalScanDataset",
        "ExperimentalTakeWhileDataset",
    }
)
_DATASET = re.compile(r".*Dataset(V[0-9]+)?\Z|DatasetFromGraph\Z", re.DOTALL)
_PREFIX = b"loc:@"


@dataclass(slots=True)
class Groups:
    """A union-find forest over the nodes; requested, resource and types count at the roots only."""

    parent: list[int]
    rank: list[int]
    requested: list[DeviceSpec]
    resource: list[DeviceSpec]  # what generators of references and resources asked for: never overruled
    types: list[DeviceTypes]

    def root(self, node: int) -> int:
        """The node that stands for the group; paths are halved on the way."""
        parent = self.parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node


def _is_generator(graph: Graph, node: int) -> bool:
    """Whether the node makes a reference or a resource out of nothing: no data inputs, exactly that one output."""
    first, last = graph.tensor_ptr[node], graph.tensor_ptr[node + 1]
    if last - first != 1 or not (graph.tensor_dtype[first] == RESOURCE or graph.tensor_dtype[first] >= REF):
        return False
    edge = graph.in_ptr[node]
    return bool(edge == graph.in_ptr[node + 1] or graph.edge_tensor[edge] < 0)


def alone(graph: Graph, requested: Sequence[DeviceSpec], types: Sequence[DeviceTypes]) -> Groups:
    """Every node in a group of its own."""
    resource = [
        spec if spec != ANYWHERE and _is_generator(graph, node) else ANYWHERE for node, spec in enumerate(requested)
    ]
    return Groups(list(range(len(graph))), [0] * len(graph), list(requested), resource, list(types))


def tie_edges(groups: Groups, graph: Graph, *, soft: bool, passed_over: Collection[int] = ()) -> None:
    """Tie the ends of edges, but for those of the nodes `passed_over`.

    Raises InfeasibleError where the ends exclude each other: an edge is never given up.
    """
    for source, target in tied_edges(graph):
        if source not in passed_over and target not in passed_over:
            tie_edge(groups, graph, source, target, soft=soft)


def tied_edges(graph: Graph) -> Iterator[tuple[int, int]]:
    """The edges that tie their ends together, in the order of TensorFlow's edge ids."""
    data = np.flatnonzero(graph.edge_tensor >= 0)
    dtype = graph.tensor_dtype[graph.edge_tensor[data]]
    seen = data[(dtype == 0) | (dtype == RESOURCE) | (dtype == VARIANT) | (dtype >= REF)]
    for edge in seen[np.argsort(graph.creation.edge[seen])].tolist():
        source, target = int(graph.edge_src[edge]), int(graph.edge_dst[edge])
        if _ties(graph, edge, source, target):
            yield source, target


def _ties(graph: Graph, edge: int, source: int, target: int) -> bool:
    carried = int(graph.tensor_dtype[graph.edge_tensor[edge]])
    op = graph.ops[target]
    if carried == VARIANT:
        return _is_dataset(graph, source) and _is_dataset(graph, target)
    if op in EXEMPT:
        return False
    wanted = ops.inputs(op, graph.attrs[target], graph.library)
    slot = edge - int(graph.in_ptr[target])
    if wanted is None or slot >= len(wanted):  # an unknown op: a resource can only go where a resource is wanted
        return carried == RESOURCE
    return wanted[slot] == RESOURCE or wanted[slot] >= REF


def _is_dataset(graph: Graph, node: int) -> bool:
    """By name, and by what is declared: exactly one output, a variant."""
    op = graph.ops[node]
    if _DATASET.match(op) is None:
        return False
    given = registry.facts(op)
    if given is None and op in graph.library:
        given = registry.signature(graph.library[op])
    return given is not None and [output.dtype for output in given.outputs] == [VARIANT]


def tie_edge(groups: Groups, graph: Graph, source: int, target: int, *, soft: bool) -> None:
    """Tie the reader of a reference or resource to what it reads, whose request wins (§3.3)."""
    a, b = groups.root(source), groups.root(target)
    if a == b:
        return
    names = f"The edge's source node is {graph.names[source]!r}, and the destination node is {graph.names[target]!r}."
    if not compatible(groups.resource[a], groups.resource[b]):
        raise InfeasibleError(
            "Cannot place the graph because a reference or resource edge connects colocation groups with incompatible "
            f"resource devices: {groups.resource[a]} vs {groups.resource[b]}. {names} "
            "Ask for the same device for both, or for none.",
            node=graph.names[target],
            members=(graph.names[source], graph.names[target]),
        )
    if not compatible(groups.requested[a], groups.requested[b]):  # the source's request overrules, even when hard
        groups.requested[b] = specialise(groups.requested[a], groups.resource[b])
    try:
        _join(groups, a, b, soft=soft)
    except InfeasibleError as error:
        raise InfeasibleError(
            "Nodes were connected by a reference or resource connection (requiring them to be on the same device), "
            f"but they cannot share one: {error}. {names}",
            node=graph.names[target],
            members=(graph.names[source], graph.names[target]),
        ) from None


def tie_classes(groups: Groups, graph: Graph, *, soft: bool) -> list[tuple[int, str]]:
    """Join the nodes that share a key; every node also joins the group that is named after itself (§3.4).

    Returns the entries (node, key) that soft placement gave up: of two nodes that ask for different tasks, are
    variables with different places, or have no device type in common. Hard placement raises InfeasibleError for these.
    """
    keys = [class_keys(attrs) for attrs in graph.attrs]
    mentioned = {key for row in keys for key in row}
    if not mentioned:
        return []
    dropped: list[tuple[int, str]] = []
    first: dict[str, int] = {}  # key -> the first node to mention it
    for node in graph.order.tolist():
        own = (graph.names[node],) if graph.names[node] in mentioned else ()
        for key in (*keys[node], *own):
            other = first.setdefault(key, node)
            try:
                tie_nodes(groups, graph, node, other, soft=soft)
            except InfeasibleError:
                if not soft:
                    raise
                dropped.append((node, key))
    return dropped


def tie_nodes(groups: Groups, graph: Graph, one: int, other: int, *, soft: bool) -> None:
    """Put two nodes into one group. Raises InfeasibleError, which names `one`, where they exclude each other."""
    a, b = groups.root(one), groups.root(other)
    if a == b:
        return
    try:
        _join(groups, a, b, soft=soft)
    except InfeasibleError as error:
        raise InfeasibleError(
            f"Cannot colocate nodes {graph.names[one]!r} and {graph.names[other]!r}: {error}. "
            "Allow soft placement, or ask for devices that agree.",
            node=graph.names[one],
            members=(graph.names[one], graph.names[other]),
        ) from None


def limit(
    groups: Groups, node: int, requested: DeviceSpec, resource: DeviceSpec, types: DeviceTypes, *, soft: bool
) -> None:
    """Narrow a node's group down; types that it does not have change nothing. Raises InfeasibleError on a conflict."""
    root = groups.root(node)
    groups.requested[root] = merge(groups.requested[root], requested, soft=soft)
    groups.resource[root] = merge(groups.resource[root], resource, soft=False)
    groups.types[root] = merge_types(groups.types[root], types) or groups.types[root]


def class_keys(attrs: Attrs) -> tuple[str, ...]:
    """The names that a node's `_class` lists."""
    if "_class" not in attrs:
        return ()
    value = attrs["_class"]
    return tuple(
        item[len(_PREFIX) :].decode("utf-8", "backslashreplace") for item in value.list.s if item.startswith(_PREFIX)
    )


def _join(groups: Groups, a: int, b: int, *, soft: bool) -> None:
    """Merge two roots; equal ranks make `a` the root.

    Raises InfeasibleError where the two exclude each other. Where that is only because no device type supports both,
    the one that would have been the root keeps the merged requests, as in TensorFlow, which then goes on if placement
    is soft.
    """
    root, other = (b, a) if groups.rank[a] < groups.rank[b] else (a, b)
    resource = merge(groups.resource[root], groups.resource[other], soft=False)
    requested = specialise(merge(groups.requested[root], groups.requested[other], soft=soft), resource)
    groups.resource[root], groups.requested[root] = resource, requested
    types = merge_types(groups.types[root], groups.types[other])
    if not types:
        raise InfeasibleError("no device type supports both of those nodes and the other nodes colocated with them")
    groups.rank[root] += groups.rank[a] == groups.rank[b]
    groups.parent[other] = root
    groups.types[root] = types


def merge_types(target: DeviceTypes, other: DeviceTypes) -> DeviceTypes:
    """The device types of both, best first; kernel priorities count while the two do not contradict each other.

    PrioritizedDeviceTypeVector's merge in colocation_graph.cc: priorities of the only side that has some; where the two
    sides order the types differently nobody's count, and a GPU comes before a CPU.
    """
    if target == other:
        return target
    wanted, mine = dict(other), dict(target)
    ours = tuple(pair for pair in target if pair[0] in wanted)
    theirs = tuple(pair for pair in other if pair[0] in mine)
    if not any(priority for _, priority in theirs):
        return ours
    if not any(priority for _, priority in ours):
        return theirs
    if [name for name, _ in ours] == [name for name, _ in theirs]:
        return ours
    return tuple((name, 0) for name in ops.DEVICE_TYPES if name in wanted and name in mine)
