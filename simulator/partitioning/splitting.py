"""One level of a cut: pair what crosses between locations, and lay the pieces out in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster
from simulator.columns import Flags, Ids, flags, ids
from simulator.graph.graph import Graph
from simulator.partitioning.assembling import assemble
from simulator.partitioning.draft import CONTROL, Added, Column, Wires
from simulator.partitioning.ends import Ends, find_ends
from simulator.partitioning.levels import Level, worker_wires
from simulator.partitioning.pairs import Pairs, make_pairs, pair_wires


@dataclass(frozen=True, eq=False)
class Placed:
    """A graph that is ready to be split. Axis: nodes, those of the graph, then the added ones."""

    graph: Graph
    given: Wires
    device: Column
    endpoint: Column  # tensor that the node takes from the client or gives it, -1: neither
    added: Added
    kept: npt.NDArray[np.bool_]  # of the graph's nodes
    numbers: list[int]  # per counter of names the next number
    start: Column | None = None  # earliest start, where Recvs are scheduled (scheduling.py)


@dataclass(frozen=True, eq=False)
class Links:
    """The pairs of all levels so far. Axis: pairs, in order of the edge for which each was made."""

    send: Column  # row of the pieces
    recv: Column  # row of the pieces
    node: Column  # row of the first graph whose output, or whose end, is told
    port: Column  # of that node, CONTROL for its end
    fed: Column  # tensor, if the client handed it in: whose end is told is then the client's; -1
    host: Column  # 1 where it is received for host memory, or by a CPU
    name: tuple[str, ...]  # tensor_name


@dataclass(frozen=True, eq=False)
class Pieces:
    """What a level makes. Axis: N' nodes."""

    graph: Graph
    device: Ids
    origin: Ids  # row of the first graph: the node itself, or the one that it serves
    inserted: Flags
    endpoint: Ids  # tensor of the first graph that the node takes from the client or gives it, -1: neither
    links: Links
    numbers: tuple[int, ...]  # per counter of names the next number
    start: Column | None  # earliest start, where Recvs are scheduled


def split(placed: Placed, level: Level, cluster: Cluster) -> Pieces:
    """Make the pairs and the pieces of one level.

    Rows are the graph's nodes, then those that were added. Where the level says so they come by creation: the nodes
    by id, each before the pairs that were made for it.
    """
    graph, given, added = placed.graph, placed.given, placed.added
    ends = find_ends(graph, given, placed.device, added, cluster, level)
    pairs = make_pairs(graph, given, ends, cluster, added, level, placed.numbers)
    device = np.concatenate([placed.device, added.device[len(placed.device) - len(graph) :]]).astype(np.int64)
    kept = np.concatenate([placed.kept, np.ones(len(added), bool)])
    rows = np.flatnonzero(kept)
    if level.by_creation:
        when = _created(graph, given, pairs, len(placed.device), len(device))
        rows = rows[np.argsort(when[rows], kind="stable")]
    names = [one.name for one in cluster.devices]
    where = device[rows]
    cut = assemble(graph, added, pair_wires(given, ends, pairs), rows, [names[row] for row in where.tolist()])
    origin = np.concatenate([np.arange(len(graph)), added.origin]).astype(np.int64)
    row_of = np.full(len(device), -1)
    row_of[rows] = np.arange(len(rows))
    endpoint = np.concatenate([placed.endpoint, np.full(len(device) - len(placed.endpoint), -1)])
    return Pieces(
        graph=cut,
        device=ids(where),
        origin=ids(origin[rows]),
        inserted=flags(rows >= len(graph)),
        endpoint=ids(endpoint[rows]),
        links=_links(given, ends, pairs, origin, endpoint, row_of),
        numbers=pairs.numbers,
        start=None if placed.start is None else _starts(placed.start, given, pairs, len(device))[rows],
    )


def _starts(start: Column, given: Wires, pairs: Pairs, count: int) -> Column:
    """[nodes] earliest starts: a Send starts with its source, a Recv with the first that reads it."""
    found = np.concatenate([start, np.zeros(count - len(start), np.int64)])
    crossing = np.flatnonzero(pairs.of_wire >= 0)
    read = np.full(len(pairs.wire), np.iinfo(np.int64).max)
    np.minimum.at(read, pairs.of_wire[crossing], start[given.dst[crossing]])
    found[pairs.first] = found[pairs.send] = start[given.src[pairs.wire]]
    found[pairs.recv] = found[pairs.out] = read
    return found


def _created(graph: Graph, given: Wires, pairs: Pairs, before: int, count: int) -> Column:
    """[nodes] when each is made: by node id, what belongs to a pair just after the node that reads it first."""
    place = np.concatenate([graph.place, np.arange(len(graph), before)]).astype(np.int64)
    sizes = np.diff(np.append(pairs.first, count))
    return np.concatenate([2 * place, np.repeat(2 * place[given.dst[pairs.wire]] + 1, sizes)])


def _links(given: Wires, ends: Ends, pairs: Pairs, origin: Column, endpoint: Column, row_of: Column) -> Links:
    order = np.argsort(pairs.wire)
    wire = pairs.wire[order]
    return Links(
        send=row_of[pairs.send[order]],
        recv=row_of[pairs.recv[order]],
        node=origin[given.src[wire]],
        port=given.port[wire],
        fed=endpoint[given.src[wire]],
        host=ends.on_host[wire].astype(np.int64),
        name=tuple(pairs.name[at] for at in order.tolist()),
    )


def split_by_worker(pieces: Pieces, level: Level, cluster: Cluster) -> Pieces:
    """Cut the pieces by task further, as their workers do."""
    first = pieces.graph
    placed = Placed(
        graph=first,
        given=worker_wires(first, pieces.device, pieces.inserted, level),
        device=pieces.device.astype(np.int64),
        endpoint=pieces.endpoint.astype(np.int64),
        added=Added(),
        kept=np.ones(len(first), bool),
        numbers=[0] * level.counters,
        start=pieces.start,
    )
    second = split(placed, level, cluster)
    made = second.origin  # row of the pieces by task
    row_of = np.empty(len(first), np.int64)
    row_of[made[~second.inserted]] = np.flatnonzero(~second.inserted)
    old = pieces.links
    return Pieces(
        graph=second.graph,
        device=second.device,
        origin=ids(pieces.origin[made]),
        inserted=flags(second.inserted | pieces.inserted[made]),
        endpoint=second.endpoint,
        links=_joined(old, row_of, _told(pieces, second.links)),
        numbers=second.numbers,
        start=second.start,
    )


def _told(pieces: Pieces, links: Links) -> Links:
    """The links of the second level in terms of the first graph: a Recv tells what it received."""
    port_of, fed_of = np.zeros(len(pieces.graph), np.int64), pieces.endpoint.astype(np.int64)
    port_of[pieces.links.recv] = pieces.links.port
    fed_of[pieces.links.recv] = pieces.links.fed
    relayed = np.zeros(len(pieces.graph), bool)
    relayed[pieces.links.recv] = True
    passes_on = relayed[links.node] & (links.port != CONTROL)
    return Links(
        send=links.send,
        recv=links.recv,
        node=pieces.origin[links.node].astype(np.int64),
        port=np.where(passes_on, port_of[links.node], links.port),
        fed=fed_of[links.node],
        host=links.host,
        name=links.name,
    )


def _joined(first: Links, row_of: Column, second: Links) -> Links:
    columns: Sequence[tuple[Column, Column]] = (
        (row_of[first.send], second.send),
        (row_of[first.recv], second.recv),
        (first.node, second.node),
        (first.port, second.port),
        (first.fed, second.fed),
        (first.host, second.host),
    )
    send, recv, node, port, fed, host = (np.concatenate(both) for both in columns)
    return Links(send, recv, node, port, fed, host, (*first.name, *second.name))
