"""A timeline as lanes, slices, arrows and counters: the one shape that the page and the trace file draw.

A trace of one client is a step, a trace of several is the recorded part of a training; `of_trace` draws both. Ops and
the work for transfers are slices on lanes of devices. A transfer is a slice on each link of its route. An arrow runs
from the op that made a value over its transfer to the first op that reads it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import Flags, Ids, Ints, flags, ids, ints, lists
from simulator.execution.trace import Kind, Trace
from simulator.partitioning.partitions import Partitions
from simulator.units import Nanos
from viz.timeline.labels import Label, labels_of
from viz.transfers import DrawnClient, DrawnTransfers, transfers_of

LINKS = "links"  # the process of all links
MEMORY = -1  # the "link" of a transfer within a process, which is handed over in memory

Facts: TypeAlias = "dict[str, str | int | float]"


class DrawnLane(NamedTuple):
    """A row of the timeline."""

    kind: str  # "device", "link"; in a training also "client" for its steps and "task" for its disturbances
    process: str  # the task, or LINKS
    name: str
    row: int  # of the device, link, client or task
    number: int = 0  # of this lane within its device, of this track within its link


class Arrow(NamedTuple):
    """An arrow through slices."""

    number: int
    stops: Sequence[tuple[Nanos, int]]  # (time, lane), each within a slice of that lane


class Counter(NamedTuple):
    """A level over time."""

    name: str
    process: str
    before: int  # level until the first time
    time_ns: Ints
    level: Ints


@dataclass(frozen=True, eq=False)
class Slices:
    """The slices. Axis: S, in the order in which they are written."""

    lane: Ids  # [S] row of `Timeline.lanes`
    label: Ids  # [S] row of `Timeline.labels`
    packs: Flags  # [S] the work that packs a transfer
    client: Ids  # [S]
    step: Ids  # [S] of that client
    op: Ids  # [S] row of the trace's ops, -1: no op
    transfer: Ids  # [S] row of the trace's transfers: work for it, or the transfer itself; -1: neither
    ready_ns: Ints  # [S]
    start_ns: Ints  # [S]
    end_ns: Ints  # [S]
    critical: Flags  # [S] on the critical path


@dataclass(frozen=True, eq=False)
class Timeline:
    """A whole timeline. No two slices of a lane overlap."""

    lanes: tuple[DrawnLane, ...]
    labels: Sequence[Label]
    slices: Slices
    transfers: DrawnTransfers
    facts: Callable[[int], Facts]  # details of a slice, by its row
    arrows: Callable[[int | None], Iterator[Arrow]]  # of the first so many transfers; None: of all
    counters: tuple[Counter, ...] = ()


def of_trace(trace: Trace, cluster: Cluster, clients: Sequence[DrawnClient]) -> Timeline:
    """Lanes, slices and arrows of a trace: ops first, then the work for transfers, then transfers on links."""
    moved = transfers_of(trace, cluster, clients)
    work, spans = _work(trace), _link_spans(trace, cluster, moved)
    lanes, first, carrying = _lanes(trace, cluster, work, spans)
    labels, of_op, of_transfer = labels_of(trace, clients)
    packs = trace.tasks.kind[work] == Kind.PACK
    of_work = of_transfer[trace.tasks.of[work]] + np.where(packs, labels.packing, labels.unpacking)
    slices = joined(
        (
            _on_devices(trace, trace.ops.task, of_op, first),
            _on_devices(trace, work, of_work, first),
            _on_links(trace, spans, of_transfer, carrying),
        )
    )

    def facts(row: int) -> Facts:
        return _facts(trace, cluster, moved, labels[slices.label[row]], slices, row)

    def arrows(most: int | None) -> Iterator[Arrow]:
        return _arrows(trace, clients, slices, lanes, _first_links(moved, slices, lanes), most)

    return Timeline(lanes, labels, slices, moved, facts, arrows)


def joined(parts: Sequence[Slices]) -> Slices:
    """The slices of all parts, one part after the other."""
    return Slices(
        lane=ids(np.concatenate([part.lane for part in parts])),
        label=ids(np.concatenate([part.label for part in parts])),
        packs=flags(np.concatenate([part.packs for part in parts])),
        client=ids(np.concatenate([part.client for part in parts])),
        step=ids(np.concatenate([part.step for part in parts])),
        op=ids(np.concatenate([part.op for part in parts])),
        transfer=ids(np.concatenate([part.transfer for part in parts])),
        ready_ns=ints(np.concatenate([part.ready_ns for part in parts])),
        start_ns=ints(np.concatenate([part.start_ns for part in parts])),
        end_ns=ints(np.concatenate([part.end_ns for part in parts])),
        critical=flags(np.concatenate([part.critical for part in parts])),
    )


# ---- lanes


def _work(trace: Trace) -> Ids:
    """The tasks that pack and unpack, in order of (start, device, lane)."""
    tasks = trace.tasks
    rows = tasks.rows(Kind.PACK, Kind.UNPACK)  # without work there is no such task
    packs = tasks.kind[rows] == Kind.PACK
    return ids(rows[np.lexsort((tasks.of[rows], ~packs, tasks.lane[rows], tasks.resource[rows], tasks.start_ns[rows]))])


@dataclass(frozen=True, eq=False)
class _Spans:
    """The times of transfers on the links of their routes. Axis: P, by (link, start), MEMORY last."""

    link: Ids  # [P] MEMORY: handed over
    track: Ids  # [P]
    start_ns: Ints  # [P]
    end_ns: Ints  # [P]
    transfer: Ids  # [P]


def _link_spans(trace: Trace, cluster: Cluster, moved: DrawnTransfers) -> _Spans:
    """The spans of all transfers, on as few tracks of each link as avoid overlaps.

    A transfer is on a serial link while it holds that, and on any other from its start for as long as its bytes take.
    """
    tasks = trace.tasks
    hops = lists([route or (MEMORY,) for route in moved.routes]).at(moved.route)
    transfer, link = hops.of, hops.item
    start_ns = trace.moments.sent_ns[transfer]
    end_ns = start_ns + trace.moments.crossing_ns[transfer]
    on, most = tasks.rows(Kind.LINK), len(cluster.links) + 1
    held = tasks.of[on].astype(np.int64) * most + tasks.links(on)
    order = np.argsort(held, kind="stable")
    wanted = transfer * most + np.where(link == MEMORY, most - 1, link)
    at = np.searchsorted(held[order], wanted, side="right") - 1
    holds = np.flatnonzero(at >= 0)
    holds = holds[held[order[at[holds]]] == wanted[holds]]
    row = on[order[at[holds]]]
    start_ns[holds], end_ns[holds] = tasks.start_ns[row], tasks.end_ns[row]
    order = np.lexsort((transfer, end_ns, start_ns, link, link == MEMORY))
    link, start_ns, end_ns = link[order], start_ns[order], end_ns[order]
    first = np.flatnonzero(np.diff(link, prepend=MEMORY - 1))
    track = np.zeros(len(link), np.int64)
    for low, high in pairwise([*first.tolist(), len(link)]):
        if (start_ns[low + 1 : high] < end_ns[low : high - 1]).any():  # else one track holds all
            track[low:high] = _tracks(list(zip(start_ns[low:high].tolist(), end_ns[low:high].tolist(), strict=True)))
    return _Spans(ids(link), ids(track), ints(start_ns), ints(end_ns), ids(transfer[order]))


def _tracks(spans: Sequence[tuple[Nanos, Nanos]]) -> list[int]:
    """The track of each span, in order of start: the lowest on which no earlier span lasts."""
    busy: list[tuple[int, int]] = []  # (end, track)
    free: list[int] = []
    found = []
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        track = heappop(free) if free else len(busy)
        heappush(busy, (end, track))
        found.append(track)
    return found


def _lanes(trace: Trace, cluster: Cluster, work: Ids, spans: _Spans) -> tuple[tuple[DrawnLane, ...], Ids, Ids]:
    """The lanes of devices, then those of links in the cluster's order.

    Also the first lane of each device, and the lane of each span.
    """
    used, shown = np.ones(len(cluster), np.int64), np.concatenate([trace.ops.task, work])
    np.maximum.at(used, trace.tasks.resource[shown], trace.tasks.lane[shown] + 1)
    lanes = [
        DrawnLane("device", device.task, device.short, row, number)
        for row, device in enumerate(cluster.devices)
        for number in range(used[row])
    ]
    most = len(cluster.links)  # where MEMORY comes
    tracks = int(spans.track.max(initial=0)) + 1
    place = np.where(spans.link == MEMORY, most, spans.link).astype(np.int64) * tracks + spans.track
    found, lane = np.unique(place, return_inverse=True)
    carrying = ids(len(lanes) + lane.reshape(-1))
    for at in found.tolist():
        link, track = divmod(at, tracks)
        name = "handed over in memory" if link == most else cluster.links[link].name
        lanes.append(DrawnLane("link", LINKS, name, MEMORY if link == most else link, track))
    return tuple(lanes), ids(np.cumsum(used) - used), carrying


# ---- slices


def _on_devices(trace: Trace, rows: Ids, label: Ids, first: Ids) -> Slices:
    """Slices of tasks of devices, all of ops or all of transfers; `first` is the first lane of each device."""
    tasks = trace.tasks
    is_op, of = tasks.kind[rows] == Kind.OP, np.arange(len(rows))
    return Slices(
        lane=ids(first[tasks.resource[rows]] + np.maximum(tasks.lane[rows], 0)),
        label=ids(label),
        packs=flags(tasks.kind[rows] == Kind.PACK),
        client=ids(trace.client[rows]),
        step=ids(trace.step[rows]),
        op=ids(np.where(is_op, of, -1)),
        transfer=ids(np.where(is_op, -1, tasks.of[rows])),
        ready_ns=ints(tasks.ready_ns[rows]),
        start_ns=ints(tasks.start_ns[rows]),
        end_ns=ints(tasks.end_ns[rows]),
        critical=flags(trace.on_critical_path[rows]),
    )


def _on_links(trace: Trace, spans: _Spans, label: Ids, lane: Ids) -> Slices:
    """A transfer is critical on all of its links where it is on one of them. `label` [X] is of each transfer."""
    transfer, tasks = spans.transfer, trace.tasks
    wires = tasks.rows(Kind.LINK, Kind.FLOW)
    critical = np.zeros(len(label), bool)
    critical[tasks.of[wires[trace.on_critical_path[wires]]]] = True
    return Slices(
        lane=lane,
        label=label[transfer],
        packs=flags(np.zeros(len(transfer), bool)),
        client=trace.transfers.client[transfer],
        step=trace.transfers.step[transfer],
        op=ids(np.full(len(transfer), -1)),
        transfer=transfer,
        ready_ns=trace.moments.packed_ns[transfer],
        start_ns=spans.start_ns,
        end_ns=spans.end_ns,
        critical=flags(critical[transfer]),
    )


def _facts(trace: Trace, cluster: Cluster, moved: DrawnTransfers, label: Label, slices: Slices, row: int) -> Facts:
    """Details of a slice; the wait of a transfer is for all of its links together."""
    transfer, waited = int(slices.transfer[row]), int(slices.start_ns[row] - slices.ready_ns[row])
    critical: Facts = {"critical path": "yes"} if slices.critical[row] else {}
    if transfer < 0:
        return {"op": label.op, "waited ns": waited, **critical}
    moments = trace.moments
    times = {
        "asked ns": moments.asked_ns,
        "packed ns": moments.packed_ns,
        "on the wire ns": moments.sent_ns,
        "off the wire ns": moments.through_ns,
        "arrives ns": moments.arrived_ns,
        "unpacked ns": moments.unpacked_ns,
    }
    if label.kind == "transfer":
        waited = int(moments.through_ns[transfer] - moments.crossing_ns[transfer] - moments.packed_ns[transfer])
    return {
        "from": cluster.devices[moved.source[transfer]].name,
        "to": cluster.devices[moved.target[transfer]].name,
        "bytes": int(moved.nbytes[transfer]),
        **{name: int(column[transfer]) for name, column in times.items()},
        "waited ns": waited,
        **critical,
    }


# ---- arrows

_Ends: TypeAlias = tuple[Mapping[int, Sequence[int]], Mapping[int, Sequence[int]]]


def _arrows(
    trace: Trace,
    clients: Sequence[DrawnClient],
    slices: Slices,
    lanes: Sequence[DrawnLane],
    wires: Mapping[int, int],
    most: int | None,
) -> Iterator[Arrow]:
    """An arrow for each transfer of a value: maker, packing, first link, unpacking, first reader, as far as they exist.

    In a loop the maker is that of the transfer's iteration, else the last that had ended when the transfer was asked
    for. The reader is the first that starts after the value has come. `wires` are the lanes of first links.
    """
    ops, moved, moments = trace.ops, trace.transfers, trace.moments
    ran: dict[tuple[int, int, int], list[int]] = {}  # (client, step, node) -> ops in order of start
    for row, key in enumerate(zip(ops.client.tolist(), ops.step.tolist(), ops.node.tolist(), strict=True)):
        ran.setdefault(key, []).append(row)
    start, end, tag = ops.start_ns.tolist(), ops.end_ns.tolist(), ops.iteration.tolist()
    worked: dict[int, list[tuple[Nanos, int]]] = {}  # by transfer: packing, then unpacking
    for row in np.flatnonzero(slices.transfer >= 0).tolist():
        if lanes[slices.lane[row]].kind == "device":
            worked.setdefault(int(slices.transfer[row]), []).append((int(slices.start_ns[row]), int(slices.lane[row])))
    ends: dict[int, _Ends] = {}
    alive = np.argsort(moments.sent_ns, kind="stable")
    alive = alive[~moved.dead[alive]]
    for row in alive[:most].tolist():
        client, step = int(moved.client[row]), int(moved.step[row])
        pieces = clients[client].partitions
        if id(pieces) not in ends:
            ends[id(pieces)] = _ends(pieces)
        makers, readers = (of.get(int(moved.row[row]), ()) for of in ends[id(pieces)])
        asked, came = int(moments.asked_ns[row]), int(moments.unpacked_ns[row])
        made: list[int] = []
        for rows in (ran.get((client, step, node), ()) for node in makers):
            ended = rows[: bisect_right(rows, asked, key=end.__getitem__)]
            same = [one for one in ended if tag[one] == moved.iteration[row]]
            made += same[-1:] or ended[-1:]
        read: list[int] = []
        for rows in (ran.get((client, step, node), ()) for node in readers):
            read += rows[(at := bisect_left(rows, came, key=start.__getitem__)) : at + 1]
        sent, work = int(moments.sent_ns[row]), worked.get(row, ())
        stops = [*(one for one in work if one[0] < sent), (sent, wires[row]), *(one for one in work if one[0] >= sent)]
        if made:
            maker = max(made, key=lambda one: (end[one], one))
            stops.insert(0, (max(start[maker], end[maker] - 1), int(slices.lane[maker])))
        if read:
            reader = min(read, key=lambda one: (start[one], one))
            stops.append((start[reader], int(slices.lane[reader])))
        if len(stops) > 1:
            yield Arrow(row, stops)


def _first_links(moved: DrawnTransfers, slices: Slices, lanes: Sequence[DrawnLane]) -> dict[int, int]:
    """The lane of each transfer on the first link of its route."""
    first, found = [(*route, MEMORY)[0] for route in moved.routes], {}
    for transfer, at in zip(slices.transfer.tolist(), slices.lane.tolist(), strict=True):
        if transfer >= 0 and lanes[at].kind == "link" and first[moved.route[transfer]] == lanes[at].row:
            found[transfer] = at
    return found


def _ends(pieces: Partitions) -> _Ends:
    """The nodes from which each transfer's Send gets its value, and those that read it from its Recv.

    Other nodes that the cut inserted, such as the dummies of control edges, are passed: they have no slices.
    """
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    inserted: list[bool] = pieces.inserted.tolist()
    for src, dst in zip(pieces.graph.edge_src.tolist(), pieces.graph.edge_dst.tolist(), strict=True):
        if inserted[dst]:
            before.setdefault(dst, []).append(src)
        if inserted[src]:
            after.setdefault(src, []).append(dst)
    makers = {row: _reached(node, before, inserted) for row, node in enumerate(pieces.send.tolist())}
    readers = {row: _reached(node, after, inserted) for row, node in enumerate(pieces.recv.tolist())}
    return makers, readers


def _reached(node: int, following: Mapping[int, Sequence[int]], inserted: Sequence[bool]) -> list[int]:
    """The nodes of the original graph that are reached first from an inserted node."""
    found: list[int] = []
    pending, seen = [node], {node}
    while pending:
        for other in following.get(pending.pop(), ()):
            if other not in seen:
                seen.add(other)
                (pending if inserted[other] else found).append(other)
    return found
