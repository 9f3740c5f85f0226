"""Colocation groups: the nodes that TensorFlow's placer puts on one device, found step by step as it finds them.

    each node alone  ->  edges  ->  calls that return resources  ->  `_class`  ->  variants of the host

`tensorflow/core/common_runtime/colocation_graph.cc` (Initialize) and, for calls, `inspecting_placer.cc`. Each step
works on the result of the one before; the first error ends the search. Three things tie two nodes. They are an edge
into a reference or resource input, a variant edge between two datasets, and a common key in their `_class` lists.
Groups are a union-find forest whose roots carry what the members asked for. The order of the merges decides whose
request wins, so edges come in the order in which TensorFlow creates them (docs/tensorflow.md, §3.2 to §3.6).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from simulator import limits
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import ANYWHERE, DeviceSpec, compatible, merge, parse, parse_beginning, specialise
from simulator.errors import ClusterError, GraphError, InfeasibleError, SimvizError
from simulator.graph import ops, registry
from simulator.graph.attributes import colocated_with
from simulator.graph.dtypes import REF, RESOURCE, STRING, VARIANT
from simulator.graph.editor import edited
from simulator.graph.graph import Attrs, Graph
from simulator.graph.inlining.bodies import Body, instantiate
from simulator.graph.inlining.expanding import isolated
from simulator.graph.messages import AttrValue
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, PARTITIONED, SWITCHES
from simulator.graph.traversal import closure
from simulator.placer import refusals

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

DeviceTypes: TypeAlias = tuple[tuple[str, int], ...]  # (device type, kernel priority), best first


@dataclass(slots=True)
class ColocationGroups:
    """Union-find forest over the N nodes of a graph; `requested`, `resource` and `types` count at the roots alone."""

    graph: Graph
    soft: bool
    specs: list[DeviceSpec]  # [N] what the node itself asks for
    parent: list[int]
    rank: list[int]
    requested: list[DeviceSpec]
    resource: list[DeviceSpec]  # what generators of references and resources asked for: never overruled
    types: list[DeviceTypes]
    dropped: list[tuple[int, str]]  # (node, key): `_class` entries that soft placement gave up

    def root(self, node: int) -> int:
        """The node that stands for the group; paths are halved on the way."""
        parent = self.parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node


@dataclass(frozen=True, slots=True)
class _Tied:
    """One group within the body of a call: its arguments and results, and what the group may use."""

    arguments: tuple[int, ...]  # slots
    results: tuple[int, ...]  # ports
    requested: DeviceSpec
    resource: DeviceSpec
    types: DeviceTypes


@dataclass(frozen=True)
class _Search:
    """The values that all bodies of a graph share."""

    cluster: Cluster
    soft: bool
    known: dict[tuple[str, bytes], tuple[_Tied, ...]] = field(default_factory=dict)  # function and attributes -> groups


def colocate(graph: Graph, cluster: Cluster, *, soft: bool) -> ColocationGroups:
    """Find the groups of a graph.

    Raises GraphError for a malformed device string. Raises InfeasibleError for a node without a kernel, and for nodes
    that must share a device and exclude each other.
    """
    return _colocate(graph, _Search(cluster, soft), ())


def _colocate(graph: Graph, search: _Search, callers: tuple[str, ...]) -> ColocationGroups:
    _require_functions(graph)
    groups = _alone(graph, search.cluster, soft=search.soft)
    calls = inspected(graph)
    _tie_edges(groups, passed_over=frozenset(calls))
    for call in calls:
        _tie_around(groups, call, _looked_into(graph, call, search, callers))
    _tie_classes(groups)
    if any(name != "CPU" for found in set(groups.types) for name, _ in found):
        for node in host_bound(graph):
            root = groups.root(node)
            groups.types[root] = tuple(pair for pair in groups.types[root] if pair[0] == "CPU") or groups.types[root]
    return groups


# --- each node alone (InitializeMembers; §2.2, §3.2) -----------------------------------------------------------------


def _alone(graph: Graph, cluster: Cluster, *, soft: bool) -> ColocationGroups:
    """Every node in a group of its own, with its device string and the device types that have a kernel for it.

    Raises GraphError for a malformed device string, and InfeasibleError for a node without a kernel for any of the
    cluster's device types. The error names the first such node by id, and of one node the kernel before the string.
    """
    present = tuple(name for name in ops.DEVICE_TYPES if any(device.type == name for device in cluster.devices))
    client = parse(cluster.client_task)
    read = {text: _read(text) for text in set(graph.requested)}
    found = ops.of_nodes(lambda op, attrs: ops.support(op, attrs, present), graph)
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
    specs = [read[text][0] for text in graph.requested]
    resource = [
        spec if spec != ANYWHERE and _is_generator(graph, node) else ANYWHERE for node, spec in enumerate(specs)
    ]
    return ColocationGroups(
        graph, soft, specs, list(range(len(graph))), [0] * len(graph), list(specs), resource, types, []
    )


def _read(text: str) -> tuple[DeviceSpec, ClusterError | None]:
    """A device string as a spec; of a malformed one the part before the fault, and the error."""
    try:
        return parse(text), None
    except ClusterError as error:
        return parse_beginning(text), error


def _of_another_process(spec: DeviceSpec, client: DeviceSpec, present: tuple[str, ...]) -> DeviceTypes:
    """The types of an op without any kernel: another process may have one, so its request is believed."""
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


def _is_generator(graph: Graph, node: int) -> bool:
    """Tell whether the node makes a reference or a resource out of nothing: no data inputs, exactly that one output."""
    outputs = graph.outputs(node)
    if len(outputs) != 1 or not (graph.tensor_dtype[outputs[0]] == RESOURCE or graph.tensor_dtype[outputs[0]] >= REF):
        return False
    edge = graph.in_ptr[node]
    return bool(edge == graph.in_ptr[node + 1] or graph.edge_tensor[edge] < 0)


# --- edges (§3.2, §3.3) ----------------------------------------------------------------------------------------------


def _tie_edges(groups: ColocationGroups, *, passed_over: Collection[int]) -> None:
    """Tie the ends of edges, except those of the nodes `passed_over`.

    Raises InfeasibleError where the ends exclude each other: an edge is never given up.
    """
    for source, target in tied_edges(groups.graph):
        if source not in passed_over and target not in passed_over:
            _tie_edge(groups, source, target)


def tied_edges(graph: Graph) -> Iterator[tuple[int, int]]:
    """The edges (source, target) that tie their ends together, in the order of TensorFlow's edge ids."""
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
    """Tell whether the op is a dataset by its name and by its declaration: exactly one output, a variant."""
    op = graph.ops[node]
    if _DATASET.match(op) is None:
        return False
    given = registry.facts(op)
    if given is None and op in graph.library:
        given = registry.signature(graph.library[op])
    return given is not None and [output.dtype for output in given.outputs] == [VARIANT]


def _tie_edge(groups: ColocationGroups, source: int, target: int) -> None:
    """Tie the reader of a reference or resource to its source, whose request wins (§3.3)."""
    a, b = groups.root(source), groups.root(target)
    if a == b:
        return
    ends = (groups.graph.names[source], groups.graph.names[target])
    names = f"The edge's source node is {ends[0]!r}, and the destination node is {ends[1]!r}."
    if not compatible(groups.resource[a], groups.resource[b]):
        raise InfeasibleError(
            "Cannot place the graph because a reference or resource edge connects colocation groups with incompatible "
            f"resource devices: {groups.resource[a]} vs {groups.resource[b]}. {names} "
            "Ask for the same device for both, or for none.",
            node=ends[1],
            members=ends,
        )
    if not compatible(groups.requested[a], groups.requested[b]):  # the source's request overrules, even when hard
        groups.requested[b] = specialise(groups.requested[a], groups.resource[b])
    try:
        _join(groups, a, b)
    except InfeasibleError as error:
        raise InfeasibleError(
            "Nodes were connected by a reference or resource connection (requiring them to be on the same device), "
            f"but they cannot share one: {error}. {names}",
            node=ends[1],
            members=ends,
        ) from None


# --- calls (inspecting_placer.cc; §3.6) ------------------------------------------------------------------------------
# A call that returns a resource hides where the resource comes from, so the placer looks into the function. It groups
# the nodes of the body as those of a graph. Arguments and results that share a group there share one outside.


def inspected(graph: Graph) -> list[int]:
    """The calls that return a resource and have a data edge, in the order in which TensorFlow looks into them.

    TensorFlow keeps them in a set of pointers. While the set is small, the call that was met last comes first. Two of a
    dozen may share a bucket, whose order nobody can know. The order matters where calls contradict each other.
    """
    if PARTITIONED.isdisjoint(graph.ops):
        return []
    calls = {row for row, op in enumerate(graph.ops) if op in PARTITIONED and _returns_resource(graph, row)}
    data = np.flatnonzero(graph.edge_tensor >= 0)
    edges = data[np.argsort(graph.creation.edge[data])]
    met = zip(graph.edge_src[edges].tolist(), graph.edge_dst[edges].tolist(), strict=True)
    first = dict.fromkeys(source if source in calls else target for source, target in met)
    return [row for row in reversed(first) if row in calls]


def _require_functions(graph: Graph) -> None:
    """Raise GraphError for a call of a function that the library lacks: no session takes such a graph."""
    for row in np.flatnonzero([op in PARTITIONED for op in graph.ops]).tolist():
        name, _ = _called(graph, row)
        if name not in graph.library:
            raise GraphError(
                f"Failed to find function {name!r} in the library of {graph.source}; {graph.names[row]!r} calls it. "
                "Write the graph with its functions."
            )


def _called(graph: Graph, row: int) -> tuple[str, Attrs]:
    function = graph.attrs[row]["f"].func if "f" in graph.attrs[row] else AttrValue().func
    return function.name, function.attr


def _returns_resource(graph: Graph, row: int) -> bool:
    name, attrs = _called(graph, row)
    return RESOURCE in (ops.outputs(name, attrs, graph.library) or ())


def _looked_into(graph: Graph, call: int, search: _Search, callers: tuple[str, ...]) -> tuple[_Tied, ...]:
    """The groups of a call's body. A body that can be grouped has no recursion, so the answer fits every caller."""
    function = graph.attrs[call]["f"].func
    key = function.name, bytes(function.SerializeToString(deterministic=True))
    if key not in search.known:
        name, body, arguments, results = _body_of(graph, call, callers)
        groups = _colocate(body, search, (*callers, name))
        roots = dict.fromkeys(groups.root(row) for row in (*arguments, *results))
        search.known[key] = tuple(
            _Tied(
                arguments=tuple(slot for slot, row in enumerate(arguments) if groups.root(row) == root),
                results=tuple(port for port, row in enumerate(results) if groups.root(row) == root),
                requested=groups.requested[root],
                resource=groups.resource[root],
                types=groups.types[root],
            )
            for root in roots
        )
    return search.known[key]


def _body_of(graph: Graph, row: int, callers: tuple[str, ...]) -> tuple[str, Graph, range, range]:
    """The name of the called function, its body as the placer sees it, and there the rows of arguments and results.

    Raises InfeasibleError for a function that is among its callers, as TensorFlow does, and GraphError where more
    than `limits.CALLS` calls lie within each other.
    """
    name, attrs = _called(graph, row)
    body = instantiate(graph.library[name], attrs, graph.library, graph.source)
    if len(callers) > limits.CALLS.most:
        raise GraphError(
            f"More than {limits.CALLS.most} calls that return resources lie within each other, down to {name!r}; "
            f"{limits.CALLS.remedy}."
        )
    if name in callers:
        raise InfeasibleError(
            f"Recursive function calls are not supported. Node {graph.names[row]!r} calls the function {name!r}, which "
            f"is already being looked into: {' -> '.join((*callers, name))}.",
            node=graph.names[row],
            members=(graph.names[row],),
        )
    rows = len(body.graph)
    whole = isolated(_with_results(body))  # it appends nodes: the rows stay
    return name, whole, range(len(body.argument_types)), range(rows, rows + len(body.results))


def _with_results(body: Body) -> Graph:
    """The body with a `_Retval` node per result, after all others."""
    editor = edited(body.graph, as_made=False)
    for port, (output, dtype) in enumerate(zip(body.results, body.result_types, strict=True)):
        editor.add(editor.free(f"result_{port}_RetVal"), "_Retval", [output], attrs={"T": AttrValue(type=dtype)})
    return editor.built()


def _tie_around(groups: ColocationGroups, call: int, found: Sequence[_Tied]) -> None:
    """Tie the inputs and readers of a call, first all groups, then limit each to what the body allows."""
    graph = groups.graph
    sources = graph.sources(call)
    first = int(graph.tensor_ptr[call])
    edges = graph.out_edge[graph.out_ptr[call] : graph.out_ptr[call + 1]]
    edges = edges[graph.edge_tensor[edges] >= 0]
    ports = (graph.edge_tensor[edges] - first).tolist()
    readers = sorted(zip(graph.creation.edge[edges].tolist(), ports, graph.edge_dst[edges].tolist(), strict=True))
    leads = []
    for tied in found:
        members = [sources[slot] for slot in tied.arguments]
        reading = [(node, port) for _, port, node in readers if port in tied.results]
        lead = (members + [node for node, _ in reading])[:1]
        leads.append(lead)
        for node in members[1:]:
            _tie_nodes(groups, lead[0], node)
        for node, port in reading if members else reading[1:]:
            tie = _tie_edge if graph.tensor_dtype[first + port] == RESOURCE else _tie_nodes
            tie(groups, lead[0], node)
    for lead, tied in zip(leads, found, strict=True):
        for node in lead:  # none: nobody reads that result
            root = groups.root(node)
            groups.requested[root] = merge(groups.requested[root], tied.requested, soft=groups.soft)
            groups.resource[root] = merge(groups.resource[root], tied.resource, soft=False)
            # types that the group does not have change nothing
            groups.types[root] = merge_types(groups.types[root], tied.types) or groups.types[root]


# --- `_class` (§3.4) -------------------------------------------------------------------------------------------------


def _tie_classes(groups: ColocationGroups) -> None:
    """Join the nodes that share a key; every node also joins the group that is named after itself.

    Soft placement gives up entries of two nodes that ask for different tasks, are variables with different places, or
    have no device type in common. Hard placement raises InfeasibleError for these.
    """
    graph = groups.graph
    keys = ops.of_nodes(lambda _, attrs: colocated_with(attrs), graph)
    mentioned = {key for row in keys for key in row}
    if not mentioned:
        return
    first: dict[str, int] = {}  # key -> the first node to mention it
    for node in graph.order.tolist():
        own = (graph.names[node],) if graph.names[node] in mentioned else ()
        for key in (*keys[node], *own):
            other = first.setdefault(key, node)
            try:
                _tie_nodes(groups, node, other)
            except InfeasibleError:
                if not groups.soft:
                    raise
                groups.dropped.append((node, key))


# --- joining two groups ----------------------------------------------------------------------------------------------


def _tie_nodes(groups: ColocationGroups, one: int, other: int) -> None:
    """Put two nodes into one group. Raises InfeasibleError, which names `one`, where they exclude each other."""
    a, b = groups.root(one), groups.root(other)
    if a == b:
        return
    names = (groups.graph.names[one], groups.graph.names[other])
    try:
        _join(groups, a, b)
    except InfeasibleError as error:
        raise InfeasibleError(
            f"Cannot colocate nodes {names[0]!r} and {names[1]!r}: {error}. "
            "Allow soft placement, or ask for devices that agree.",
            node=names[0],
            members=names,
        ) from None


def _join(groups: ColocationGroups, a: int, b: int) -> None:
    """Merge two roots; equal ranks make `a` the root.

    Raises InfeasibleError where the two exclude each other. If only a common device type is missing, the intended root
    keeps the merged requests. TensorFlow does the same, and goes on if placement is soft.
    """
    root, other = (b, a) if groups.rank[a] < groups.rank[b] else (a, b)
    resource = merge(groups.resource[root], groups.resource[other], soft=False)
    requested = specialise(merge(groups.requested[root], groups.requested[other], soft=groups.soft), resource)
    groups.resource[root], groups.requested[root] = resource, requested
    types = merge_types(groups.types[root], groups.types[other])
    if not types:
        raise InfeasibleError("no device type supports both of those nodes and the other nodes colocated with them")
    groups.rank[root] += groups.rank[a] == groups.rank[b]
    groups.parent[other] = root
    groups.types[root] = types


def merge_types(target: DeviceTypes, other: DeviceTypes) -> DeviceTypes:
    """The device types of both, best first; kernel priorities count while the two do not contradict each other.

    This is PrioritizedDeviceTypeVector's merge in colocation_graph.cc. If one side alone has priorities, these count.
    Where the two sides order the types differently, no priorities count, and a GPU comes before a CPU.
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


# --- variants of the host (§3.2) -------------------------------------------------------------------------------------


# A variant is a box. A dataset, a list of strings or a lock can't be copied to a GPU, and only the content tells them
# from other variants. So some nodes must stay on CPUs. TensorFlow finds the content in two ways:
#
#     by full types   Ops declare the content of the variants that they make. Identity, Switch, Merge, Enter, Exit and
#                     NextIteration pass it on (forward_type_inference.cc). Such an op, or a call, stays on CPUs if it
#                     reads anything of a node with such variants.
#     by lists        Any other reader is traced back over variant edges to the op that made the list.

_FORWARDS = frozenset({"Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration"})
_LOOKS_AT_TYPES = SWITCHES | MERGES | ENTERS | EXITS | NEXT_ITERATIONS | PARTITIONED
_LOOKS_AT_TYPES |= {"Identity", "RefIdentity", "_Retval", "SymbolicGradient"}
_ALWAYS = "*"


def host_bound(graph: Graph) -> list[int]:
    """The nodes with variant inputs that live on the host, ascending."""
    carried = np.append(graph.tensor_dtype, 0)[graph.edge_tensor]  # a control edge carries tensor -1, the last: nothing
    readers = np.unique(graph.edge_dst[carried == VARIANT]).tolist()
    if not readers:
        return []
    hosted = _hosted(graph)
    lists = _Lists(graph)
    return [node for node in readers if _reads_hosted(graph, node, hosted) or lists.on_host(node)]


def _reads_hosted(graph: Graph, node: int, hosted: set[int]) -> bool:
    if graph.ops[node] not in _LOOKS_AT_TYPES and graph.ops[node] not in graph.library:
        return False
    sources = graph.sources(node)
    return not hosted.isdisjoint(sources)


def _hosted(graph: Graph) -> set[int]:
    """The nodes whose variants are declared to live on the host, and the nodes that pass these on."""

    def passing_on(node: int) -> Iterator[int]:
        for edge in graph.out_edges(node):
            target = int(graph.edge_dst[edge])
            op = graph.ops[target]
            if op in _FORWARDS and graph.edge_tensor[edge] >= 0 and (op == "Merge" or edge == graph.in_ptr[target]):
                yield target

    return closure((node for node, op in enumerate(graph.ops) if _makes_hosted(graph, node, op)), passing_on)


def _makes_hosted(graph: Graph, node: int, op: str) -> bool:
    given = registry.facts(op)
    if given is None or not given.host_variant:
        return False
    if given.host_variant == _ALWAYS:
        return True
    held = graph.attrs[node].get(given.host_variant)
    return held is not None and (held.type == STRING or STRING in held.list.type)


class _Lists:
    """The content of the lists that reach a node over variant edges; chains of nodes share their answer."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[int, bool] = {}

    def on_host(self, node: int) -> bool:
        """Tell whether the list that is found first holds strings or resources."""
        chain = []
        while node not in self._known:
            chain.append(node)
            sources = self._sources(node)
            if _element_type(self._graph, node) or len(sources) != 1:  # a loop has a Merge, which has two
                self._known[node] = self._searched(node)
                break
            node = sources[0]
        self._known.update(dict.fromkeys(chain, self._known[node]))
        return self._known[node]

    def _sources(self, node: int) -> list[int]:
        graph = self._graph
        edges = graph.in_edges(node)
        tensors = graph.edge_tensor[edges.start : edges.stop].tolist()
        return [
            int(graph.edge_src[edge])
            for edge, tensor in zip(edges, tensors, strict=True)
            if tensor >= 0 and graph.tensor_dtype[tensor] == VARIANT
        ]

    def _searched(self, node: int) -> bool:
        """Depth first against the edges, the last input first; a list that was due before the first find counts too."""
        found = None
        todo, seen = [node], set()
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            held = _element_type(self._graph, node)
            if held:
                found = held in (STRING, RESOURCE)
            if found is None:
                todo += [source for source in self._sources(node) if source not in seen]
        return bool(found)


def _element_type(graph: Graph, node: int) -> int:
    """The element type of a list op; 0 for other ops and for lists of variants."""
    if not graph.ops[node].startswith(("TensorList", "EmptyTensorList")):
        return 0
    value = graph.attrs[node].get("element_dtype")
    return 0 if value is None or value.type == VARIANT else int(value.type)
