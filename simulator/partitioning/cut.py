"""The cut of a placed graph: TensorFlow's passes, one after the other, and the transfers that result.

step ─▶ client ─▶ constants ─▶ control flow ─▶ control loops ─▶ pairs, by task ─▶ pairs, by device ─▶ Partitions
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from simulator.cluster.memories import host_devices, memory_ends
from simulator.columns import Flags, Ids, Ints, flags, ids, ints, stable_order
from simulator.errors import SimvizError, UnsupportedError
from simulator.graph.building import without_duplicates
from simulator.graph.editor import CONTROL
from simulator.graph.step import exchange
from simulator.partitioning.cut_graph import nodes_of, step_edges
from simulator.partitioning.levels import AUTO, LOCAL, MASTER, Level, flavour_of, levels_of
from simulator.partitioning.partitions import Partitions
from simulator.partitioning.passes.client import add_client, attach
from simulator.partitioning.passes.control_flow import moves, optimized, settled
from simulator.partitioning.passes.control_loops import Stranded, close_loops
from simulator.partitioning.passes.replication import replicate_constants
from simulator.partitioning.passes.scheduling import earliest_starts, with_starts, with_triggers
from simulator.partitioning.pieces import Pieces, Placed, split, split_by_worker
from simulator.placer.legality import require_legal

if TYPE_CHECKING:
    from simulator.assignment import Assignment
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Graph
    from simulator.graph.step import Exchange, Step


@dataclass(frozen=True, slots=True)
class _CutOptions:
    """Keywords of `partition` that say how a step is cut."""

    flavour: str
    recv_scheduling: bool
    seen: Mapping[str, str]


def partition(
    graph: Graph,
    assignment: Assignment,
    cluster: Cluster,
    *,
    step: Step,
    flavour: str = AUTO,
    recv_scheduling: bool = False,
    legal: bool = True,
    seen: Mapping[str, str] = MappingProxyType({}),
) -> Partitions:
    """Cut the nodes that run in the step by device, as TensorFlow's partitioner does.

    Flavour "auto" is that of the session of such a cluster: "local" for one task, "master" for several. "local" cuts by
    device in one go, which no session does over several tasks. With "master" a master cuts by task, then each worker
    cuts its piece by device. A tensor then comes to a task once, and is handed on there. Names, attributes and keys are
    those of `tensorflow/core/graph/graph_partition.cc`. Fed tensors begin, and fetched ones end, in nodes on the
    client's device. With `recv_scheduling` a master's workers delay their Recvs, as the option `enable_recv_scheduling`
    has it. `seen`, node -> device, says where TensorFlow moved control flow. It is taken over where TensorFlow decides
    by chance, and nowhere else.

    An assignment that TensorFlow would not take is refused (`simulator.placer.legality`). With legal=False
    any is cut, by the same rules, for research into what no TensorFlow runs.

    Raises InfeasibleError for such an assignment, naming rule, nodes and devices. Raises SimvizError for an unknown
    flavour, for an assignment or a step of another graph or cluster, and for an unknown device. Raises UnsupportedError
    if Recvs are scheduled and a loop crosses devices.
    """
    flavour = flavour_of(flavour, cluster)
    if recv_scheduling and flavour == LOCAL:
        raise SimvizError(
            "A session of one task schedules no Recvs; leave out recv_scheduling (--recv-scheduling tensorflow), "
            "or take several tasks or the flavour 'master'."
        )
    if legal:
        _check_fitting(graph, assignment, cluster, step)
        require_legal(graph, assignment, cluster, soft=assignment.constraints is None or assignment.constraints.soft)
    options = _CutOptions(flavour, recv_scheduling, seen)
    cut = _cut(graph, assignment, cluster, step, levels_of(flavour, cluster), options)
    return replace(cut, graph=_imported(cut.graph))


def partition_by_task(
    graph: Graph,
    assignment: Assignment,
    cluster: Cluster,
    *,
    step: Step,
    recv_scheduling: bool = False,
    seen: Mapping[str, str] = MappingProxyType({}),
) -> Partitions:
    """Cut by task alone, as a master sends the pieces to its workers: nodes and controls in RegisterGraph's order.

    Edges between devices of one task are still there, so the result can't be simulated. All else is as in `partition`.
    """
    master = levels_of(MASTER, cluster)[:1]
    return _cut(graph, assignment, cluster, step, master, _CutOptions(MASTER, recv_scheduling, seen))


def _cut(
    graph: Graph,
    assignment: Assignment,
    cluster: Cluster,
    step: Step,
    levels: Sequence[Level],
    options: _CutOptions,
) -> Partitions:
    names = _check_fitting(graph, assignment, cluster, step)
    client = exchange(graph, step)
    first, *later = levels
    ready, refused, stranded, notes = _ready(graph, step, client, cluster, assignment, first.suffix, options)
    pieces = split(ready, first, cluster)
    for level in later:
        pieces = split_by_worker(pieces, level, cluster)
        if options.recv_scheduling:
            pieces = with_triggers(pieces, level, cluster)
    return Partitions(
        graph=with_starts(pieces),
        nodes=len(graph),
        device=pieces.device,
        origin=pieces.origin,
        flavour=options.flavour,
        priority=None if assignment.priority is None else ints(assignment.priority[pieces.origin]),
        inserted=pieces.inserted,
        endpoint=pieces.endpoint,
        devices=names,
        refused=refused,
        stranded=stranded,
        notes=notes,
        **_transfers(graph, client, pieces, cluster),
    )


def _imported(graph: Graph) -> Graph:
    """The pieces as TensorFlow takes them over to run them: a control input that stands twice is one edge."""
    edge = without_duplicates(graph.edge_src, graph.edge_dst, graph.edge_tensor < 0, len(graph))
    if len(edge) == len(graph.edge_src):
        return graph
    dst = graph.edge_dst[edge]
    return replace(
        graph,
        in_ptr=ids(np.searchsorted(dst, np.arange(len(graph) + 1))),
        edge_src=ids(graph.edge_src[edge]),
        edge_dst=ids(dst),
        edge_tensor=ids(graph.edge_tensor[edge]),
        edge_back=flags(graph.edge_back[edge]),
    )


def _check_fitting(graph: Graph, assignment: Assignment, cluster: Cluster, step: Step) -> tuple[str, ...]:
    """The names of the devices. Raises SimvizError for values that do not belong together."""
    names = cluster.device_names
    if assignment.devices != names or not len(assignment) == len(step.runs) == len(graph):
        raise SimvizError(
            f"The values do not belong together: a graph of {len(graph)} nodes on {cluster.name}, an assignment of "
            f"{len(assignment)} nodes to {len(assignment.devices)} devices, a step of {len(step.runs)} nodes. Place "
            "this graph on this cluster first."
        )
    known = (assignment.device >= 0) & (assignment.device < len(names))
    if not known.all():
        node = int(np.argmin(known))
        raise SimvizError(
            f"Node {graph.names[node]!r} is on device {int(assignment.device[node])}; {cluster.name} has {len(names)} "
            "devices, from 0."
        )
    return names


def _ready(
    graph: Graph,
    step: Step,
    client: Exchange,
    cluster: Cluster,
    assignment: Assignment,
    suffix: str,
    options: _CutOptions,
) -> tuple[Placed, str | None, tuple[Stranded, ...], tuple[str, ...]]:
    """The passes before the pairs, why TensorFlow refuses, where it would wait for ever, and what else to say."""
    nodes = nodes_of(graph, assignment.device.tolist())
    add_client(nodes, client, cluster, options.flavour)
    clients = len(nodes) - len(graph)
    whole, client_ends = attach(graph, client, step_edges(graph, client))
    given, gone, next_id = replicate_constants(nodes, whole, step, client, cluster, client_ends)
    start = earliest_starts(nodes, given) if options.recv_scheduling else None
    seen = {
        graph.index[name]: cluster.index[where]
        for name, where in options.seen.items()
        if name in graph.index and where in cluster.index
    }
    placed, walk, before = [*nodes.device], moves(graph, given, len(nodes)), len(nodes)
    nodes.device[:] = settled(placed, walk, seen)
    rewritten = optimized(nodes, whole, walk, placed, seen)
    given, numbered, refused, stranded = close_loops(nodes, whole, given, clients, next_id, suffix, rewritten)
    if start is not None and len(nodes) > before:
        raise UnsupportedError(
            "TensorFlow schedules Recvs by chance where a loop crosses devices: it reads the start times of control "
            "loops' nodes from beyond its table. Schedule none, or keep each loop on one device."
        )
    kept = np.asarray(step.runs) & ~gone
    moved = int(np.count_nonzero(kept & (assignment.device != np.array(nodes.device[: len(graph)]))))
    notes = [f"{moved} control-flow nodes run next to their values, as TensorFlow moves them"] if moved else []
    if refused:
        notes.append(f'TensorFlow refuses to cut this ("... {refused}"); here it was cut all the same')
    endpoint = np.full(len(nodes), -1)
    endpoint[len(graph) : len(graph) + clients] = client.tensors
    return Placed(nodes, given, endpoint, kept, [numbered], start), refused, stranded, tuple(notes)


class _Transfers(TypedDict):
    """Columns of Partitions with a row per pair that joins two memories."""

    tensor: Ids
    send: Ids
    recv: Ids
    src_device: Ids
    dst_device: Ids
    host: Flags
    nbytes: Ints


def _transfers(graph: Graph, client: Exchange, pieces: Pieces, cluster: Cluster) -> _Transfers:
    pairs = pieces.pairs
    here, there = pieces.device[pairs.send], pieces.device[pairs.recv]
    control, fed = pairs.port == CONTROL, pairs.fed >= 0
    row = np.where(fed, pairs.fed, graph.tensor_ptr[pairs.node] + pairs.port)
    row = np.where(control, -1 - pairs.node, row)
    place_of = np.append(np.arange(len(graph.tensor_node)), 0)  # the last row is for pairs.fed = -1
    place_of[client.fed] = np.arange(len(client.fed)) + len(graph)
    place = np.where(fed, place_of[pairs.fed], pairs.node)
    order = stable_order(place, np.where(control, pairs.port.max(initial=0) + 1, pairs.port), there, pairs.host)
    made_host = np.array([pieces.graph.ops[row] == "_HostSend" for row in pairs.send.tolist()], bool)
    lies, arrives = memory_ends(host_devices(cluster), here, there, made_host, pairs.host.astype(bool))
    order = order[((here != there) | (lies != arrives))[order]]
    row, host = row[order], flags(pairs.host[order])
    known = len(graph.tensor_bytes) > 0
    return _Transfers(
        tensor=ids(row),
        send=ids(pairs.send[order]),
        recv=ids(pairs.recv[order]),
        src_device=ids(lies[order]),
        dst_device=ids(arrives[order]),
        host=host,
        nbytes=ints(np.where(row < 0, 0, graph.tensor_bytes[np.maximum(row, 0)] if known else 0)),
    )
