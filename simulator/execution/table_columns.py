"""Lay out the columns of `Tables` from ops and edges, whole columns at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from simulator import limits
from simulator.cluster.copies import dispatch_ns
from simulator.cluster.memories import host_devices
from simulator.columns import Flags, Ids, Ints, alike, flags, ids, ints, pointers, stable_order
from simulator.errors import ClusterError, SimvizError
from simulator.execution.arrays import BY_TIME, CHEAP, DEAR
from simulator.execution.routes import Routes, routes_of
from simulator.graph import ops as registry
from simulator.graph.dtypes import REF
from simulator.graph.op_classes import CONTROL_FLOW, MERGES
from simulator.limits import free_bytes
from simulator.units import show_bytes

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.graph.graph import Graph
    from simulator.graph.step import Exchange
    from simulator.partitioning.partitions import Partitions

# The executor finishes these without calling a kernel (tensorflow/core/common_runtime/executor.cc).
NO_KERNEL = frozenset({"Const", "NoOp"})
# Kernels that say of themselves that they are not worth a thread of their own (IsExpensive in tensorflow/core/kernels:
# control_flow_ops.h, identity_op.h, identity_n_op.h, reshape_op.h, shape_ops.h, variable_ops.h, function_ops.h, ...).
INEXPENSIVE = CONTROL_FLOW | {
    "ControlTrigger",
    "EnsureShape",
    "ExpandDims",
    "HostConst",
    "Identity",
    "IdentityN",
    "LoopCond",
    "Placeholder",
    "PlaceholderWithDefault",
    "PreventGradient",
    "Rank",
    "RefIdentity",
    "RefSelect",
    "Reshape",
    "Shape",
    "ShapeN",
    "Size",
    "Squeeze",
    "StopGradient",
    "Variable",
    "VariableV2",
    "_Arg",
    "_Retval",
}
POSTING = "_Recv (posted)"  # an op that stands for the moment at which Recvs are posted
# Ops whose time the executor never learns, so that they stay expensive: it hands on the handle of a variable without a
# call of its kernel, which does not say that it is inexpensive; a Recv works in the background (executor.cc,
# ProcessConstTensor and ProcessAsync).
_NEVER_TIMED = frozenset({"VarHandleOp", POSTING})


def expenses(ops: Ops, instant: Flags) -> Ids:
    """[n] what the executor takes each op for: CHEAP, DEAR, or BY_TIME."""
    cheap = instant | ops.are(INEXPENSIVE)
    return ids(np.where(ops.are(_NEVER_TIMED), DEAR, np.where(cheap, CHEAP, BY_TIME)))


@dataclass(frozen=True, eq=False)
class Ops:
    """The ops of a `Tables` to be. Axes: n ops, N graph rows, I iterations."""

    node: Ids  # [n] graph row; for what the client hands in or gets, that of the tensor's node
    names: tuple[str, ...]  # [n] for messages
    kind: tuple[str, ...]  # [n] op of the node
    row_op: Ids  # [N] op of each graph row before loops are unrolled, -1: does not run
    inserted: Flags  # [n] takes no time and no memory of its own: made by the cut, or the client's
    bound: Ids  # [n] the client's device, to which what it hands in or gets is bound; -1: any device
    cost_row: Ids  # [n] row of the cost table
    merge: Flags  # [n] as Tables.merge
    silent: Flags  # [n] as Tables.silent
    iteration: Ids  # [n] row of `iterations`
    iterations: tuple[tuple[int, ...], ...]  # [I] as Tables.iterations

    @cached_property
    def numbered(self) -> tuple[tuple[str, ...], Ids]:
        """The different kinds, and [n] the number of each op's among them."""
        number = {kind: row for row, kind in enumerate(dict.fromkeys(self.kind))}
        return tuple(number), np.fromiter(map(number.__getitem__, self.kind), np.int32, len(self.kind))

    def are(self, kinds: Collection[str]) -> Flags:
        """[n] whether each op is of one of these kinds."""
        different, number = self.numbered
        return np.array([kind in kinds for kind in different], bool)[number]

    def take(
        self, rows: npt.NDArray[np.integer], *, names: tuple[str, ...], kind: tuple[str, ...], **others: Any
    ) -> Ops:  # Any: a column
        """These ops, with other columns in the place of some."""
        taken = {name: ids(getattr(self, name)[rows]) for name in ("node", "bound", "cost_row")}
        return replace(self, names=names, kind=kind, **{**taken, **others})


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of a `Tables` to be, duplicates included, in graph order."""

    source: Ids  # op
    target: Ids  # op
    port: Ids  # of the source; larger than every port of the graph for a control edge
    row: Ids  # as Tables.tensor_row
    nbytes: Ints  # 0 where unknown
    apart: Flags  # reads a reference output, whose transfers are never shared (graph_partition.cc)
    host: Flags  # the input is in host memory when a GPU reads it
    made_host: Flags  # the output is in host memory when a GPU makes it
    post: Ids  # op at whose end the reader begins to wait for it, where it crosses devices; -1: when the step begins
    turn_ns: Ints  # as Tables.turn_ns
    back: Flags  # a loop's way back, which is left out or unrolled
    dead: Flags  # brings no value, but says so
    stays: Flags  # as Tables.stays

    def take(self, rows: npt.NDArray[np.integer | np.bool_], **others: Any) -> Edges:  # Any: a column
        """These edges, with other columns in the place of some."""
        names = [field.name for field in fields(self)]
        return Edges(*(others[name] if name in others else getattr(self, name)[rows] for name in names))


def once(kinds: Sequence[str]) -> dict[str, Any]:  # Any: a column
    """Columns of `Ops` that say what runs in which iteration, as long as nothing is unrolled."""
    nothing, merge = np.zeros(len(kinds), np.int32), flags([kind in MERGES for kind in kinds])
    return {"merge": merge, "silent": flags(nothing), "iteration": ids(nothing), "iterations": ((),)}


def new_edges(
    source: npt.NDArray[np.integer],
    target: npt.NDArray[np.integer],
    port: npt.NDArray[np.integer],
    row: npt.NDArray[np.integer],
    *,
    nbytes: npt.NDArray[np.integer] | int = 0,
    post: npt.NDArray[np.integer] | int = -1,
    turn_ns: npt.NDArray[np.integer] | int = 0,
    **special: npt.ArrayLike,
) -> Edges:
    """Edges with nothing special but these columns; what is one number holds of all."""
    every = np.zeros(len(source), np.int64)
    marks = {name: flags(special.get(name, every)) for name in ("apart", "host", "made_host", "back", "dead", "stays")}
    return Edges(
        source=ids(source),
        target=ids(target),
        port=ids(port),
        row=ids(row),
        nbytes=ints(every + nbytes),
        post=ids(every + post),
        turn_ns=ints(every + turn_ns),
        **marks,
    )


def forward(edges: Edges) -> Edges:
    """Without the back edges of loops."""
    rows = ~edges.back
    return edges if rows.all() else edges.take(rows)


def join(edges: Edges, others: Edges) -> Edges:
    """Both, the others last."""
    return Edges(*(np.concatenate([getattr(edges, f.name), getattr(others, f.name)]) for f in fields(Edges)))


@dataclass(frozen=True, eq=False)
class Layout:
    """Who waits for what; part of `Tables`. Axes: n ops, T tensors, E edges."""

    tensor_ptr: Ids  # [n+1] first tensor of each op
    tensor_op: Ids  # [T]
    tensor_row: Ids  # [T] tensor of the graph, for a Send the one that it sends; -1 - node for a control tensor
    tensor_rank: Ids  # [T] order among transfers of one instant; equal only for readers of one reference output
    stays: Flags  # [T] a signal that every device has at once: it never crosses
    consumer_ptr: Ids  # [T+1] first edge of each tensor
    consumer: Ids  # [E] op
    made_host: Flags  # [T] a GPU makes it in host memory
    consumer_host: Flags  # [E] a GPU reads it in host memory
    in_ptr: Ids  # [n+1] where each op's inputs begin in `in_edge`
    in_edge: Ids  # [E] edges sorted by (consumer, tensor)


@dataclass(frozen=True, eq=False)
class LaidStep:
    """Ops and edges without loops, and the tensors that they make. Axes: n ops, T tensors, F edges as given."""

    graph: Graph
    ops: Ops
    edges: Edges
    layout: Layout
    tensor_of: Ints  # [F]

    @cached_property
    def first_edge(self) -> Ints:
        """[T] the first of the given edges by which a tensor leaves its op."""
        return alike(self.tensor_of)[0]

    def data_inputs(self, of: Flags) -> tuple[Ints, Ids]:
        """The given edges of values into these ops [n], by op and slot, and [n+1] where those of each op begin."""
        edges = self.edges
        edge = np.flatnonzero(of[edges.target] & (edges.row >= 0) & ~edges.stays)
        edge = edge[stable_order(edges.target[edge])]
        return edge, pointers(edges.target[edge], len(self.ops.node))


@dataclass(frozen=True, eq=False)
class ClusterColumns:
    """Devices and routes; part of `Tables`. Axis: D devices."""

    devices: tuple[str, ...]  # [D] full names
    cpu: Flags  # [D]
    kind: Ids  # [D] column of `kind_ns`
    home: Ids  # [D] CPU that stands for a device: a CPU itself, else CPU:0 of its task, or the first
    dispatch_ns: Ints  # [D] of the GPU's lane for a copy whose Send it runs; 0 of a CPU
    host_device: (
        Ids  # [D] in whose memory it has values in host memory: the CPU of a GPU with links to it; else its own
    )
    lanes: Ids  # [D]
    routes: Routes  # the distinct ones, with their links and protocols


def graph_edges(graph: Graph, ops: Ops, edge: Ids, *, host: bool) -> Edges:
    """The given edges of the graph; with `host`, also at which ends a GPU has the value in host memory."""
    tensor = graph.edge_tensor[edge]
    source = graph.edge_src[edge]
    control = tensor < 0
    ports = int(graph.tensor_port.max(initial=0)) + 1

    def of_tensor(values: Ids | Ints, otherwise: int) -> npt.NDArray[np.int64]:
        padded = np.append(values, otherwise).astype(np.int64)
        return padded[np.where(control, len(values), tensor)]

    target, position = graph.edge_dst[edge], edge - graph.in_ptr[graph.edge_dst[edge]]
    read_host = in_host_memory(graph, target, position, made=False) if host else np.zeros(len(edge), bool)
    made_host = in_host_memory(graph, source, ids(of_tensor(graph.tensor_port, 0)), made=True) if host else read_host
    return new_edges(
        ops.row_op[source],
        ops.row_op[graph.edge_dst[edge]],
        of_tensor(graph.tensor_port, ports),
        np.where(control, -1 - source, tensor),
        nbytes=np.maximum(of_tensor(graph.tensor_bytes, 0), 0),
        apart=of_tensor(graph.tensor_dtype, 0) > REF,
        host=read_host & ~control,
        made_host=made_host & ~control,
        back=graph.edge_back[edge],
    )


def client_edges(graph: Graph, ops: Ops, client: Exchange, *, host: bool) -> Edges:
    """The edges of the step: what is fed comes from the client, what is fetched goes to it."""
    whole = graph_edges(graph, ops, client.edges, host=host)
    fed, first = client.of_edge[client.edges], len(ops.node) - len(client.tensors)
    whole = replace(
        whole,
        source=ids(np.where(fed < 0, whole.source, first + fed)),
        apart=flags(whole.apart & (fed < 0)),  # the client hands in values, never references
    )
    tensor = client.fetched
    maker, port = graph.tensor_node[tensor], graph.tensor_port[tensor]
    fetching = new_edges(
        ops.row_op[maker],
        np.arange(first + len(client.fed), first + len(client.tensors)),
        port,
        tensor,
        nbytes=np.maximum(graph.tensor_bytes[tensor], 0) if len(graph.tensor_bytes) else 0,
        apart=graph.tensor_dtype[tensor] > REF,
        made_host=in_host_memory(graph, maker, port, made=True) if host else np.zeros(len(tensor)),
    )
    return join(whole, fetching)


def edges_across(partitions: Partitions, ops: Ops, post: npt.NDArray[np.integer], turn_ns: Ints | int) -> Edges:
    """The edges from each Send to its Recv; `post` is the op that posts it."""
    graph, sends, count = partitions.graph, partitions.send, len(partitions.send)
    value = np.append(graph.edge_tensor, -1)[graph.in_ptr[sends]] if count else np.zeros(0, np.int64)
    return new_edges(
        ops.row_op[sends],
        ops.row_op[partitions.recv],
        np.zeros(count, np.int32),
        np.where(partitions.tensor < 0, -1 - sends, value),
        nbytes=np.maximum(partitions.nbytes, 0),
        host=partitions.host,
        made_host=[graph.ops[row] == "_HostSend" for row in sends.tolist()],
        post=post,
        turn_ns=turn_ns,
    )


def in_host_memory(graph: Graph, node: Ids, slot: Ids, *, made: bool) -> npt.NDArray[np.bool_]:
    """Inputs that a GPU reads in host memory, given by node and place, or outputs that it makes there."""
    held = registry.of_alike(lambda op, attrs: registry.host_memory(op, attrs, "GPU", graph.library)[made], graph)
    inside, number = np.zeros(len(node), bool), graph.alike[1][node]
    asked = np.flatnonzero(np.fromiter(map(bool, held), bool, len(held))[number])
    inside[asked] = [at in held[of] for of, at in zip(number[asked].tolist(), slot[asked].tolist(), strict=True)]
    return inside


def laid_step(graph: Graph, ops: Ops, edges: Edges) -> LaidStep:
    """Number the tensors and merge duplicate edges."""
    count = len(ops.node)
    ports = int(edges.port.max(initial=0)) + 1
    place = edges.source.astype(np.int64) * ports + edges.port  # control comes after the values
    share = np.where(edges.apart, np.arange(len(place)) + 1, 0)  # one tensor per reader of a reference output
    order = stable_order(place, share)
    new = starts(place[order], share[order])
    tensor_of = np.empty(len(place), np.int64)
    tensor_of[order] = np.cumsum(new) - 1
    first = order[new]  # one edge per tensor
    pairs = np.sort((tensor_of * count + edges.target) * 2 + edges.host)
    pairs = pairs[starts(pairs)]
    edge_tensor, consumer = pairs // (2 * max(count, 1)), pairs // 2 % max(count, 1)
    tensor_op = edges.source[first]
    layout = Layout(
        tensor_ptr=pointers(tensor_op, count),
        tensor_op=ids(tensor_op),
        tensor_row=ids(edges.row[first]),
        tensor_rank=ids(np.cumsum(starts(place[first])) - 1),
        stays=flags(edges.stays[first]),
        consumer_ptr=pointers(edge_tensor, len(first)),
        consumer=ids(consumer),
        made_host=flags(edges.made_host[first]),
        consumer_host=flags(pairs % 2),
        in_ptr=pointers(consumer, count),
        in_edge=ids(stable_order(consumer)),
    )
    return LaidStep(graph, ops, edges, layout, ints(tensor_of))


def starts(*columns: Ids | Ints) -> Flags:
    """Flags of rows with which a run of equal rows begins, in sorted columns."""
    new = np.ones(len(columns[0]), bool)
    if len(new):
        new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return new


def run_times(ops: Ops, instant: Flags, cluster: Cluster, costs: CostTable) -> npt.NDArray[np.int64]:
    """[n, K] time of each op on each kind of device; -1 where there is no kernel, else 0 if it is instant."""
    unpriced = [kind for kind in cluster.kinds if kind not in costs.kinds]
    if unpriced:
        raise ClusterError(f"The cost table has no column for {unpriced[0]!r}; estimate costs for this cluster.")
    column = [costs.kinds.index(kind) for kind in cluster.kinds]
    times = np.ascontiguousarray(costs.run_ns[:, column][ops.cost_row], np.int64)  # the compiled loop shares it
    times[instant] = np.minimum(times[instant], 0)
    times[ops.inserted] = 0
    times.setflags(write=False)
    return times


_PAIR_BYTES = 180  # of memory for each pair of devices, from cluster to page: benchmarks/RESULTS.md
_ALWAYS_BYTES = 2**30  # what no refusal asks about
_FEW = 16  # devices, of which all pairs are numbered as quickly as some
_OF_CLUSTER: WeakKeyDictionary[Cluster, ClusterColumns] = WeakKeyDictionary()


def cluster_columns(cluster: Cluster, pairs: Ints | None = None) -> ClusterColumns:
    """Devices and routes; lanes and the number of devices are checked here, before any work.

    The routes are those of `pairs`, as `routes_of` has them, or of all pairs. The latter grow with the square of the
    devices, so they are made once for a cluster. Of a few devices they serve its pieces, too.
    """
    if pairs is not None and len(cluster) > _FEW:
        return _cluster_columns(cluster, pairs)
    found = _OF_CLUSTER.get(cluster)
    if found is None:
        found = _OF_CLUSTER[cluster] = _cluster_columns(cluster, None)
    return found


def _cluster_columns(cluster: Cluster, pairs: Ints | None) -> ClusterColumns:
    most = limits.STEP_DEVICES.most  # a step that is placed may have a row for each pair of devices
    if len(cluster) > most:
        raise ClusterError(
            f"{cluster.name!r} has {len(cluster):,} devices; a simulation takes at most {most:,}; "
            f"{limits.STEP_DEVICES.remedy}. "
            "simulator.within_reach(graph, cluster) gives the part of it that one step may use."
        )
    needed = len(cluster) ** 2 * _PAIR_BYTES if pairs is None else 0
    if needed > _ALWAYS_BYTES and needed > (free := free_bytes()):
        raise ClusterError(
            f"{cluster.name!r} has {len(cluster):,} devices; a step that may use all of them needs some "
            f"{show_bytes(needed)} of memory for their {len(cluster) ** 2:,} pairs, and {show_bytes(free)} are free. "
            f"Name fewer devices, or, for a step of one client, a smaller --limit {limits.WHOLE_CLUSTER.name}=N."
        )
    for device in cluster.devices:
        if device.lanes < 1:
            raise ClusterError(f"{device.name} has {device.lanes} lanes; a device that runs ops has at least one.")
    return ClusterColumns(
        devices=cluster.device_names,
        cpu=flags([device.type == "CPU" for device in cluster.devices]),
        kind=ids(cluster.kind_of),
        home=cluster.home,
        dispatch_ns=ints([dispatch_ns(device.chip) for device in cluster.devices]),
        host_device=host_devices(cluster),
        lanes=ids([device.lanes for device in cluster.devices]),
        routes=routes_of(cluster, pairs),
    )


def posting_references(ops: Ops, edges: Edges) -> tuple[Ops, Edges]:
    """Add an op for the moment at which a Recv of a reference is posted: when the reader's other inputs are there.

    The cut lets such a Recv wait for them (partitioning/passes/pairs.py; graph_partition.cc, "ref_recvs").
    """
    has_others = np.zeros(len(ops.node), bool)
    has_others[edges.target[~edges.apart]] = True
    waiting = np.flatnonzero(edges.apart & has_others[edges.target])
    if not len(waiting):
        return ops, edges
    readers, which = np.unique(edges.target[waiting], return_inverse=True)
    post = np.array(edges.post)
    post[waiting] = len(ops.node) + which
    row = np.full(len(ops.node), -1)
    row[readers] = np.arange(len(ops.node), len(ops.node) + len(readers))
    copied = np.flatnonzero(~edges.apart & (row[edges.target] >= 0))
    twice = edges.take(
        np.concatenate([np.arange(len(post)), copied]),
        target=ids(np.concatenate([edges.target, row[edges.target[copied]]])),
        post=ids(np.append(post, np.full(len(copied), -1))),
    )
    return with_posts(ops, readers), twice


def with_posts(ops: Ops, readers: npt.NDArray[np.integer]) -> Ops:
    """The ops, with one more for each of these that stands for the moment at which its Recvs are posted."""
    both, none = np.append(np.arange(len(ops.node)), readers), np.zeros(len(readers), np.int32)
    return ops.take(
        both,
        names=(*ops.names, *(f"{ops.names[op]} (posted)" for op in readers.tolist())),
        kind=(*ops.kind, *[POSTING] * len(readers)),
        inserted=flags(np.append(ops.inserted, none == 0)),
        merge=flags(np.append(ops.merge, none)),
        silent=flags(np.append(ops.silent, none)),
        iteration=ids(np.append(ops.iteration, none)),
    )


def with_end(ops: Ops, edges: Edges) -> tuple[Ops, Edges]:
    """One more op, the last, of no length: it waits for all others, by signals that no device sends to another."""
    surely = ~ops.merge[edges.target] | (edges.row < 0)  # a Merge does not wait for all that it reads
    followed = np.zeros(len(ops.node), bool)
    followed[edges.source[surely]] = True
    last = np.flatnonzero(~followed)
    count = len(last)
    if not count:
        raise SimvizError("Nothing runs in this step, so that it has no end; fetch something.")
    port = np.full(count, edges.port.max(initial=0) + 1)  # no tensor that another reads
    signals = new_edges(last, np.full(count, len(ops.node)), port, -1 - ops.node[last], stays=np.ones(count))
    end = replace(
        with_posts(ops, last[:1]),
        names=(*ops.names, "the end of the step"),
        kind=(*ops.kind, "NoOp"),
        bound=ids(np.append(ops.bound, -1)),
        silent=flags(np.append(ops.silent, True)),
    )
    return end, join(edges, signals)
