"""Reduce step, cluster and costs to flat integer tables, once; every simulation and search runs over these.

    ops        0 .. n-1   the nodes that run, in order of graph row, then the tensors that the client hands in, then
                          those that it gets; in pieces the Sends come last, in order of transfer
    tensors    0 .. T-1   outputs that a running op consumes, sorted by (op, port); after the values one zero-byte
                          control tensor where a running op waits for the end of another without a value
    edges      0 .. E-1   (tensor, consumer) pairs without duplicates, sorted by tensor, then consumer

A step with loops and branches is unrolled first (`loops`). Its ops are then instances, one per node and iteration in
which it runs. They are in order of (iteration in which its values are read, the order above). Signals between
iterations come last.

Nothing here depends on who runs where, so a search makes the tables once and calls the engine with many assignments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, flags, ids, ints, positions
from simulator.errors import SimvizError
from simulator.execution.buffers import Buffers, buffers
from simulator.execution.layouts import Layouts
from simulator.execution.loops import unrolled
from simulator.execution.options import SimulationOptions
from simulator.execution.recvs import StepRecvs, recvs_of_step, turns
from simulator.execution.routes import Ways, pairs_of, ways_of
from simulator.execution.table_columns import (
    NO_KERNEL,
    POSTING,
    ClusterColumns,
    Edges,
    Layout,
    Ops,
    client_edges,
    cluster_columns,
    edges_across,
    expenses,
    graph_edges,
    join,
    laid_step,
    once,
    posting_references,
    run_times,
    with_end,
    with_posts,
)
from simulator.graph.op_classes import refuse_calls
from simulator.graph.step import exchange
from simulator.wording import counted, repr_of

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step
    from simulator.partitioning.partitions import Partitions


@dataclass(frozen=True, eq=False)
class Tables(Layout, Buffers, ClusterColumns):
    """Step, cluster and costs. Axes: n ops, T tensors, E edges, D devices, K kinds of devices, I iterations."""

    names: tuple[str, ...]  # [n] for messages
    node: Ids  # [n] graph row, not unique; for what the client hands in or gets, that of the tensor's node
    iteration: Ids  # [n] row of `iterations`
    iterations: tuple[tuple[int, ...], ...]  # [I] the iteration of each loop around, outermost first; () comes first
    silent: Flags  # [n] dead, or a signal between iterations: nothing runs, but its edges count
    bound: Ids  # [n] the client's device, to which what it hands in or gets is bound; -1: any device
    kind_ns: npt.NDArray[np.int64]  # [n, K] run time on each kind of device; -1: no kernel; 0 for instant ops
    merge: Flags  # [n] starts at its first data input (and all its control inputs)
    expense: Ids  # [n] CHEAP: TensorFlow's executor never gives it a thread of its own; DEAR, or BY_TIME
    threaded: Flags  # [n] instant, but the executor passes it on a thread: not what the cut made
    instant: Flags  # [n] no lane and no time: Const, NoOp, what the client hands in or gets, the cut made, or is silent
    post: Ids  # [T] the op at whose end a Recv begins to wait for the tensor; -1: when the step begins
    turn_ns: Ints  # [T] from the step's beginning until the executor of a GPU comes to such a Recv
    recvs: StepRecvs | None = None  # of cuts to come, in the order of TensorFlow's executor; pieces have theirs as ops
    notes: tuple[str, ...] = ()  # how often loops run, which branches are taken
    dead_fetches: tuple[str, ...] = ()  # what the client never gets, whatever is chosen: TensorFlow refuses the step
    endless: tuple[str, ...] = ()  # of the notes those on loops that TensorFlow never ends

    def __len__(self) -> int:
        return len(self.node)

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self), "op"), counted(len(self.tensor_op), "tensor"))

    def placed(self, device: Ids) -> Ids:
        """[n] the device of each op, given one per graph row: what the client hands in or gets is on the client's."""
        return ids(np.where(self.bound < 0, device[self.node], self.bound))

    @property
    def run_ns(self) -> npt.NDArray[np.int64]:
        """[n, D] time on each device; -1: no kernel, or bound to another. Made anew each time, as few need it all."""
        elsewhere = (self.bound[:, None] >= 0) & (self.bound[:, None] != np.arange(len(self.devices)))
        return np.where(elsewhere, -1, self.kind_ns[:, self.kind])

    def op_ns(self, device: npt.NDArray[np.integer]) -> Ints:
        """[n] time of each op on its device [n]; 0 where it has no kernel there."""
        return ints(np.maximum(self.kind_ns[np.arange(len(self)), self.kind[device]], 0))

    @cached_property
    def edge_tensor(self) -> Ids:
        """[E] tensor of each edge."""
        return ids(np.repeat(np.arange(len(self.tensor_op)), np.diff(self.consumer_ptr)))

    @cached_property
    def ways(self) -> Ways:
        """The ways between devices, and what values take by each."""
        return ways_of(self.routes, self.host_device, self.dispatch_ns)

    @cached_property
    def way(self) -> Ids:
        """[E] the way of each edge's value, by the memories at both ends."""
        way = 2 * self.made_host[self.edge_tensor] + self.consumer_host
        return ids(way if len(self.ways.pace) > 1 else 0 * way)

    @cached_property
    def gate(self) -> Flags:
        """[E] data inputs of Merges, of which the first alone counts."""
        return flags(self.merge[self.consumer] & (self.tensor_row[self.edge_tensor] >= 0))

    @cached_property
    def unsent(self) -> Flags:
        """[T] no transfer brings it to another device: a signal, or a constant, which is copied instead."""
        return flags(self.stays | self.replicable)

    @cached_property
    def in_tensor(self) -> Ids:
        """[E] input tensors of each op, where `in_ptr` says."""
        return ids(self.edge_tensor[self.in_edge])

    @cached_property
    def layouts(self) -> Layouts:
        """As the compiled loop reads them; see `flattening`."""
        return Layouts({}, {})


def of_step(
    graph: Graph, step: Step, cluster: Cluster, costs: CostTable, options: SimulationOptions = SimulationOptions()
) -> Tables:
    """The step's normal form: no device is chosen yet but the client's, any edge may cross.

    Of the options, those of loops and branches count. Raises ClusterError where the cluster has an impossible link or a
    kind without costs. Raises UnsupportedError for a call that should have been expanded, and what `simulate` raises.
    """
    if len(step.runs) != len(graph):
        said = f"The step is of a graph of {len(step.runs):,} nodes, not of this one of {len(graph):,}"
        raise SimvizError(f"{said}; choose a step of this graph.")
    costs.check(len(graph))
    running = np.flatnonzero(step.runs)
    refuse_calls(graph, running.tolist())
    client = exchange(graph, step)
    node = np.concatenate([running, graph.tensor_node[client.tensors]]).astype(np.int64)
    row_op = positions(running, len(graph))
    clients = np.arange(len(node)) >= len(running)
    fed, fetched = client.fed.tolist(), client.fetched.tolist()
    kinds = (*(graph.ops[row] for row in running.tolist()), *["_Arg"] * len(fed), *["_Retval"] * len(fetched))
    ops = Ops(
        node=ids(node),
        names=(
            *(graph.names[row] for row in running.tolist()),
            *(f"{graph.tensor_name(tensor)} (fed)" for tensor in fed),
            *(f"{graph.tensor_name(tensor)} (fetched)" for tensor in fetched),
        ),
        kind=kinds,
        row_op=ids(row_op),
        inserted=flags(clients),
        bound=ids(np.where(clients, cluster.client, -1)),
        cost_row=ids(node),
        **once(kinds),
    )
    edges = client_edges(graph, ops, client, host=any(one.type != "CPU" for one in cluster.devices))
    ops, edges = posting_references(ops, edges)
    tables = _tables(graph, ops, edges, cluster, costs, options)
    if options.order != "tensorflow":
        return tables
    return replace(tables, recvs=recvs_of_step(graph, cluster, options.seed, tables, tables.node, tables.bound))


def of_partitions(
    partitions: Partitions,
    cluster: Cluster,
    costs: CostTable,
    options: SimulationOptions = SimulationOptions(),
    *,
    ending: bool = False,
) -> tuple[Tables, Ids]:
    """The pieces, and the device of each op: only Send -> Recv edges cross, in order of (iteration, transfer).

    A Recv may wait for something else than its transfer, in a loop or delayed on purpose. It is posted when that has
    happened: an op of its own stands for this moment. Under TensorFlow's executor each Recv of a CPU has one, which a
    thread passes, and Recvs of a GPU have `turns`. `ending` adds a last op, which ends when all others have.
    """
    graph = partitions.graph
    if partitions.devices != cluster.device_names:
        raise SimvizError(
            f"The pieces are cut for {counted(len(partitions.devices), 'device')}, which are not the {len(cluster):,} "
            f"of {cluster.name}; give the cluster on which they were placed."
        )
    costs.check(partitions.nodes)
    refuse_calls(graph, range(len(graph)))
    is_send, is_recv = np.zeros(len(graph), bool), np.zeros(len(graph), bool)
    is_send[partitions.send], is_recv[partitions.recv] = True, True
    order = np.lexsort((np.where(partitions.inserted, 0, partitions.origin), partitions.inserted))  # equals' turns
    node = np.concatenate([order[~is_send[order]], partitions.send]).astype(np.int64)
    row_op = positions(node, len(graph))
    kinds = tuple(map(graph.ops.__getitem__, node.tolist()))
    ops = Ops(
        node=ids(node),
        names=tuple(map(graph.names.__getitem__, node.tolist())),
        kind=kinds,
        row_op=ids(row_op),
        inserted=flags(partitions.inserted[node]),
        bound=ids(np.where(partitions.endpoint[node] >= 0, cluster.client, -1)),
        cost_row=ids(partitions.origin[node]),
        **once(kinds),
    )
    own = np.bincount(partitions.recv[partitions.within], minlength=len(graph))  # which waits for its Send
    waits = np.diff(graph.in_ptr) > own
    if options.order == "tensorflow":
        waits |= np.array([device.type == "CPU" for device in cluster.devices], bool)[partitions.device]
    posted = np.flatnonzero(is_recv & waits)
    posting = np.full(len(graph), -1)  # by graph row
    posting[posted] = np.arange(len(node), len(node) + len(posted))
    taken_by = np.full(len(graph), -1)  # a Send may be waited for by others, too, where Recvs are delayed
    taken_by[partitions.send] = partitions.recv
    edge = ids(np.flatnonzero(taken_by[graph.edge_src] != graph.edge_dst))
    inside = graph_edges(graph, ops, edge, host=False)
    moved = posting[graph.edge_dst[edge]]
    inside = replace(inside, target=ids(np.where(moved >= 0, moved, inside.target)))
    turn_ns = turns(partitions, cluster, options.seed) if options.order == "tensorflow" else 0
    edges = join(inside, edges_across(partitions, ops, posting[partitions.recv], turn_ns))
    ops = with_posts(ops, row_op[posted])
    tables = _tables(graph, ops, edges, cluster, costs, options, pieces=partitions, ending=ending)
    endless = _endless(partitions, tables, cluster)
    tables = replace(tables, notes=(*endless, *tables.notes), endless=endless)
    return tables, ids(partitions.device[tables.node])


def _endless(partitions: Partitions, tables: Tables, cluster: Cluster) -> tuple[str, ...]:
    """A note on each device for which a loop would wait in its second iteration, in any session of TensorFlow."""
    if not partitions.stranded:
        return ()
    index = partitions.graph.index
    runs = np.bincount(tables.node[~tables.silent], minlength=len(partitions.graph))
    return tuple(
        f"Pin {one.node!r} to the device of {one.condition!r} (--pin), or TensorFlow never ends this step: in a second "
        f"iteration {one.reader!r} waits for {cluster.devices[one.device].short}, which learns of the first alone"
        for one in partitions.stranded
        if one.condition in index and runs[index[one.condition]] > 1
    )


def _tables(
    graph: Graph,
    ops: Ops,
    edges: Edges,
    cluster: Cluster,
    costs: CostTable,
    options: SimulationOptions,
    *,
    pieces: Partitions | None = None,
    ending: bool = False,
) -> Tables:
    """The columns of all this, loops unrolled, of these pieces or of a step."""
    device = None if pieces is None else pieces.device[ops.node].tolist()
    pairs = None if pieces is None else pairs_of(pieces.src_device, pieces.dst_device, len(cluster))
    ops, edges, notes, dead_fetches = unrolled(graph, ops, edges, options, device=device)
    if ending:
        ops, edges = with_end(ops, edges)
    instant = flags(ops.inserted | ops.silent | ops.are(NO_KERNEL))
    posting = ops.are({POSTING}) & (pieces is not None)
    laid = laid_step(graph, ops, edges)
    return Tables(
        names=ops.names,
        node=ops.node,
        iteration=ops.iteration,
        iterations=ops.iterations,
        silent=ops.silent,
        bound=ops.bound,
        kind_ns=run_times(ops, instant, cluster, costs),
        merge=ops.merge,
        threaded=flags(instant & ~(ops.inserted & (ops.bound < 0)) | posting),
        expense=expenses(ops, instant),
        post=ids(edges.post[laid.first_edge]),
        turn_ns=ints(edges.turn_ns[laid.first_edge]),
        instant=instant,
        **vars(laid.layout),
        **vars(buffers(laid, costs)),
        **vars(cluster_columns(cluster, pairs)),
        notes=notes,
        dead_fetches=dead_fetches,
    )
