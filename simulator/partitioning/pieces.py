"""Pieces of a level of the cut: locations joined by Send/Recv pairs, all in one graph."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import Flags, Ids, flags, ids, positions
from simulator.graph.editor import CONTROL
from simulator.graph.graph import Graph
from simulator.graph.op_classes import MERGES
from simulator.partitioning.cut_graph import Column, CutEdges, CutNodes, as_graph, edges_of, nodes_of
from simulator.partitioning.levels import Level
from simulator.partitioning.passes.control_loops import CONTROL_LOOP
from simulator.partitioning.passes.pairs import Pairs, edge_ends, make_pairs, pair_edges


@dataclass(frozen=True, eq=False)
class Placed:
    """A graph that is ready to be split."""

    nodes: CutNodes
    edges: CutEdges
    endpoint: Column  # [nodes] tensor that the node takes from the client or gives it, -1: neither
    kept: Flags  # [N] nodes of the graph that are in a piece
    numbers: list[int]  # per counter of names the next number
    start: Column | None = None  # [nodes] earliest start, where Recvs are scheduled (passes/scheduling.py)


@dataclass(frozen=True, eq=False)
class JoinedPairs:
    """The pairs of all levels so far. Axis: pairs, in order of the edge for which each was made."""

    send: Column  # row of the pieces
    recv: Column  # row of the pieces
    node: Column  # row of the first graph whose output or completion is sent
    port: Column  # of that node, CONTROL for its completion
    fed: Column  # tensor, if the client handed it in (a control pair then signals the client's node); -1
    host: Column  # 1 where it is received for host memory, or by a CPU


@dataclass(frozen=True, eq=False)
class Pieces:
    """The result of a level. Axis: N' nodes."""

    graph: Graph
    device: Ids
    origin: Ids  # row of the first graph: the node itself, or the one that it serves
    inserted: Flags
    endpoint: Ids  # tensor of the first graph that the node takes from the client or gives it, -1: neither
    pairs: JoinedPairs
    numbers: tuple[int, ...]  # per counter of names the next number
    start: Column | None  # earliest start, where Recvs are scheduled


def split(placed: Placed, level: Level, cluster: Cluster) -> Pieces:
    """Make the pairs and the pieces of one level.

    Rows are the graph's nodes, then those that were added. Where the level says so they come by creation: the nodes
    by id, each before the pairs that were made for it.
    """
    nodes, given = placed.nodes, placed.edges
    graph, before = nodes.graph, len(nodes)
    ends = edge_ends(nodes, given, cluster, level)
    pairs = make_pairs(nodes, given, ends, cluster, level, placed.numbers)
    rows = np.flatnonzero(np.concatenate([placed.kept, np.ones(len(nodes) - len(graph), bool)]))
    if level.by_creation:
        when = _created(graph, given, pairs, before, len(nodes))
        rows = rows[np.argsort(when[rows], kind="stable")]
    device, origin = np.array(nodes.device, np.int64)[rows], np.array(nodes.origin, np.int64)
    requested = [cluster.devices[row].name for row in device.tolist()]
    endpoint = np.concatenate([placed.endpoint, np.full(len(nodes) - before, -1)])
    row_of = positions(rows, len(nodes))
    order = np.argsort(pairs.edge)
    edge = pairs.edge[order]
    src = given.src[edge]
    return Pieces(
        graph=as_graph(nodes, pair_edges(given, ends, pairs), rows, requested),
        device=ids(device),
        origin=ids(origin[rows]),
        inserted=flags(rows >= len(graph)),
        endpoint=ids(endpoint[rows]),
        pairs=JoinedPairs(
            send=row_of[pairs.send[order]],
            recv=row_of[pairs.recv[order]],
            node=origin[src],
            port=given.port[edge],
            fed=endpoint[src],
            host=ends.on_host[edge].astype(np.int64),
        ),
        numbers=pairs.numbers,
        start=None if placed.start is None else _starts(placed.start, given, pairs, len(nodes))[rows],
    )


def _created(graph: Graph, given: CutEdges, pairs: Pairs, before: int, count: int) -> Column:
    """[nodes] rank of creation: by node id, the nodes of a pair just after the node that reads it first."""
    place = np.concatenate([graph.place, np.arange(len(graph), before)]).astype(np.int64)
    sizes = np.diff(np.append(pairs.first, count))
    return np.concatenate([2 * place, np.repeat(2 * place[given.dst[pairs.edge]] + 1, sizes)])


def _starts(start: Column, given: CutEdges, pairs: Pairs, count: int) -> Column:
    """[nodes] earliest starts: a Send starts with its source, a Recv with the first that reads it."""
    found = np.concatenate([start, np.zeros(count - len(start), np.int64)])
    crossing = np.flatnonzero(pairs.of_edge >= 0)
    read = np.full(len(pairs.edge), np.iinfo(np.int64).max)
    np.minimum.at(read, pairs.of_edge[crossing], start[given.dst[crossing]])
    found[pairs.first] = found[pairs.send] = start[given.src[pairs.edge]]
    found[pairs.recv] = found[pairs.out] = read
    return found


def split_by_worker(pieces: Pieces, level: Level, cluster: Cluster) -> Pieces:
    """Cut the pieces by task further, as their workers do."""
    first = pieces.graph
    placed = Placed(
        nodes=nodes_of(first, pieces.device.tolist()),
        edges=_worker_edges(pieces, level),
        endpoint=pieces.endpoint.astype(np.int64),
        kept=np.ones(len(first), bool),
        numbers=[0] * (int(level.counter.max(initial=0)) + 1),
        start=pieces.start,
    )
    second = split(placed, level, cluster)
    made = second.origin  # row of the pieces by task
    row_of = np.empty(len(first), np.int64)
    row_of[made[~second.inserted]] = np.flatnonzero(~second.inserted)
    old, new = pieces.pairs, _in_first_graph(pieces, second.pairs)
    old = replace(old, send=row_of[old.send], recv=row_of[old.recv])
    return replace(
        second,
        origin=ids(pieces.origin[made]),
        inserted=flags(second.inserted | pieces.inserted[made]),
        pairs=JoinedPairs(*(np.concatenate([getattr(old, c.name), getattr(new, c.name)]) for c in fields(old))),
    )


def _worker_edges(pieces: Pieces, level: Level) -> CutEdges:
    """The edges of the pieces by task as each worker numbers them: from 1, after the one from source to sink.

    The pieces stand in one graph, in the order in which they were sent. No edge joins two of them, so the order in
    which TensorFlow would make all of their edges is that of each.
    """
    graph, given = pieces.graph, edges_of(pieces.graph)
    worker = level.counter[pieces.device[given.dst]]
    order = np.lexsort((graph.creation.edge[given.id], worker))
    number = np.empty(len(given), np.int64)
    first = np.searchsorted(worker[order], np.arange(worker.max(initial=0) + 1))  # edge with which each worker begins
    number[order] = np.arange(len(given)) - first[worker[order]] + 1
    looping = [
        bool(made) and op in MERGES and name.startswith(CONTROL_LOOP)
        for made, op, name in zip(pieces.inserted.tolist(), graph.ops, graph.names, strict=True)
    ]
    return replace(given, id=number, loop=np.array(looping, bool)[given.src] & (given.port == CONTROL))


def _in_first_graph(pieces: Pieces, pairs: JoinedPairs) -> JoinedPairs:
    """The pairs of the second level in terms of the first graph: a Recv hands on what it received."""
    count, first = len(pieces.graph), pieces.pairs
    port_of, fed_of = np.full(count, CONTROL), pieces.endpoint.astype(np.int64)
    port_of[first.recv], fed_of[first.recv] = first.port, first.fed
    relayed = np.zeros(count, bool)
    relayed[first.recv] = True
    hands_on = relayed[pairs.node] & (pairs.port != CONTROL)
    return replace(
        pairs,
        node=pieces.origin[pairs.node].astype(np.int64),
        port=np.where(hands_on, port_of[pairs.node], pairs.port),
        fed=fed_of[pairs.node],
    )
