"""A timeline as lanes, slices, arrows and counters: the one shape that the page and the trace file draw.

A trace of one client is a step, a trace of several is the recorded part of a training; `of_trace` draws both. Ops and
the work for transfers are slices on lanes of devices. A transfer is a slice on each link of its route. An arrow runs
from the op that made a value over its transfer to the first op that reads it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from typing import NamedTuple, TypeAlias

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import Flags, Ids, Ints, flags, ids, ints
from simulator.costs.rules import category
from simulator.execution.trace import PACK, UNPACK, WIRE, Trace, transfer_of
from simulator.graph.graph import Graph
from simulator.partitioning import Partitions
from simulator.units import Nanos
from viz.figures import tagged
from viz.palette import PACKING, UNPACKING

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


class Label(NamedTuple):
    """The text of slices."""

    name: str
    op: str  # "" for a transfer and its work
    kind: str  # category of the op; PACKING, UNPACKING, "transfer", "step", ..


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
    client: Ids  # [S]
    step: Ids  # [S] of that client
    task: Ids  # [S] row of the trace's slices; -1 - transfer: work for it, or the transfer itself
    ready_ns: Ints  # [S]
    start_ns: Ints  # [S]
    end_ns: Ints  # [S]
    critical: Flags  # [S] on the critical path


@dataclass(frozen=True, eq=False)
class Timeline:
    """A whole timeline. No two slices of a lane overlap."""

    lanes: tuple[DrawnLane, ...]
    labels: tuple[Label, ...]
    slices: Slices
    transfers: DrawnTransfers
    facts: Callable[[int], Facts]  # details of a slice, by its row
    arrows: Callable[[int | None], Iterator[Arrow]]  # of the first so many transfers; None: of all
    counters: tuple[Counter, ...] = ()


class DrawnClient(NamedTuple):
    """A client of a trace, with the names of its graph and the places of its devices."""

    name: str
    graph: Graph
    partitions: Partitions
    devices: Ids | None = None  # [D] the cluster's device for each device of the partitions; None: the same


@dataclass(frozen=True, eq=False)
class DrawnTransfers:
    """The transfers of a trace. Axis: X."""

    name: tuple[str, ...]  # [X] "node:port#iteration"
    source: Ids  # [X] device
    target: Ids  # [X] device
    nbytes: Ints  # [X] 0 for a dead one, -1 unknown


def transfers_of(trace: Trace, clients: Sequence[DrawnClient]) -> DrawnTransfers:
    """The name, the ends and the size of each transfer of a trace."""
    source, target, nbytes = (np.zeros(len(trace.transfer), np.int64) for _ in range(3))
    for number, (_, _, pieces, devices) in enumerate(clients):
        rows = np.flatnonzero(trace.transfer_client == number)
        own = trace.transfer[rows]
        place = np.arange(len(pieces.devices)) if devices is None else devices
        source[rows], target[rows] = place[pieces.src_device[own]], place[pieces.dst_device[own]]
        nbytes[rows] = pieces.nbytes[own]
    known: dict[tuple[int, int, int], str] = {}
    names = []
    columns = (trace.transfer_client, trace.transfer, trace.transfer_iteration)
    for number, row, tag in zip(*(column.tolist() for column in columns), strict=True):
        graph, pieces = clients[number].graph, clients[number].partitions
        key = (id(pieces), row, tag)
        if key not in known:
            tensor = int(pieces.tensor[row])
            name = graph.tensor_name(tensor) if tensor >= 0 else f"^{graph.names[-1 - tensor]}"
            known[key] = tagged(name, trace.iterations[tag])
        names.append(known[key])
    return DrawnTransfers(tuple(names), ids(source), ids(target), ints(np.where(trace.transfer_dead, 0, nbytes)))


def of_trace(trace: Trace, cluster: Cluster, clients: Sequence[DrawnClient]) -> Timeline:
    """Lanes, slices and arrows of a trace: ops first, then the work for transfers, then transfers on links."""
    moved = transfers_of(trace, clients)
    work, spans = _work(trace, cluster, moved), _link_spans(trace, cluster, moved)
    lanes, lane_of = _lanes(trace, cluster, work, spans)
    labels: dict[Label, int] = {}
    number = {name: labels.setdefault(Label(name, "", "transfer"), len(labels)) for name in moved.name}
    carried = ids([number[name] for name in moved.name])
    parts = (
        _op_slices(trace, clients, labels, lane_of),
        _work_slices(trace, moved, work, labels, lane_of),
        _link_slices(trace, spans, carried, lane_of),
    )
    slices = joined(parts)
    texts = tuple(labels)

    def facts(row: int) -> Facts:
        return _facts(trace, cluster, moved, texts[slices.label[row]], slices, row)

    def arrows(most: int | None) -> Iterator[Arrow]:
        return _arrows(trace, cluster, clients, moved, slices, lanes, lane_of, most)

    return Timeline(lanes, texts, slices, moved, facts, arrows)


def joined(parts: Sequence[Slices]) -> Slices:
    """The slices of all parts, one part after the other."""
    return Slices(
        lane=ids(np.concatenate([part.lane for part in parts])),
        label=ids(np.concatenate([part.label for part in parts])),
        client=ids(np.concatenate([part.client for part in parts])),
        step=ids(np.concatenate([part.step for part in parts])),
        task=ids(np.concatenate([part.task for part in parts])),
        ready_ns=ints(np.concatenate([part.ready_ns for part in parts])),
        start_ns=ints(np.concatenate([part.start_ns for part in parts])),
        end_ns=ints(np.concatenate([part.end_ns for part in parts])),
        critical=flags(np.concatenate([part.critical for part in parts])),
    )


def _critical(trace: Trace, tasks: Iterable[tuple[int, int]]) -> Flags:
    """[..] whether each (transfer, stretch) is on the critical path."""
    rows = () if trace.critical is None else trace.critical.tolist()
    on_path = {transfer_of(row) for row in rows if row < 0}
    return flags([task in on_path for task in tasks])


# ---- lanes


_LaneOf: TypeAlias = Mapping[tuple[str, int, int], int]  # (kind, row, number) -> row of the lanes


class _Work(NamedTuple):
    """The packing and unpacking that takes time. Axis: W, in order of (start, device, lane)."""

    transfer: Ids
    packs: Ids  # 1: at the source; 0: unpacks at the target
    device: Ids  # the CPU that does it
    lane: Ids
    ready_ns: Ints
    start_ns: Ints
    end_ns: Ints


def _work(trace: Trace, cluster: Cluster, moved: DrawnTransfers) -> _Work:
    count = len(moved.name)
    device = np.concatenate([cluster.home[moved.source], cluster.home[moved.target]])
    lane = np.concatenate([trace.pack_lane, trace.unpack_lane])
    ready = np.concatenate([trace.transfer_ready_ns, trace.transfer_end_ns])
    start = np.concatenate([trace.pack_start_ns, trace.unpack_start_ns])
    end = np.concatenate([trace.pack_end_ns, trace.unpack_end_ns])
    rows = np.flatnonzero(end > start)
    rows = rows[np.lexsort((rows, lane[rows], device[rows], start[rows]))]
    columns = (ids(rows % max(count, 1)), ids(rows < count), ids(device[rows]), ids(lane[rows]))
    return _Work(*columns, ints(ready[rows]), ints(start[rows]), ints(end[rows]))


class _Span(NamedTuple):
    """The time of a transfer on one of its links."""

    link: int  # MEMORY: handed over
    track: int
    start: Nanos
    end: Nanos
    transfer: int


def _link_spans(trace: Trace, cluster: Cluster, moved: DrawnTransfers) -> list[_Span]:
    """The spans of all transfers by (link, start), on as few tracks of each link as avoid overlaps.

    A transfer is on a serial link while it holds that, and on any other from its start for as long as its bytes take.
    """
    held = _holds(trace)
    found = []
    columns = (trace.transfer_start_ns, trace.crossing_ns, moved.source, moved.target)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for transfer, (first, lasts, source, target) in enumerate(rows):
        for link in cluster.routes[source][target] or (MEMORY,):
            start, end = held.get((transfer, link), (first, first + lasts))
            found.append((link == MEMORY, link, start, end, transfer))
    spans = []
    for (_, link), group in groupby(sorted(found), key=lambda one: one[:2]):
        own = [one[2:] for one in group]
        tracks = _tracks([(start, end) for start, end, _ in own])
        spans += [_Span(link, track, *one) for track, one in zip(tracks, own, strict=True)]
    return spans


def _holds(trace: Trace) -> dict[tuple[int, int], tuple[Nanos, Nanos]]:
    """(transfer, link) -> the span of its hold."""
    of = np.repeat(np.arange(len(trace.transfer)), np.diff(trace.hold_ptr))
    columns = (of, trace.hold_link, trace.hold_start_ns, trace.hold_end_ns)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {(transfer, link): (start, end) for transfer, link, start, end in rows}


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


def _lanes(
    trace: Trace, cluster: Cluster, work: _Work, spans: Sequence[_Span]
) -> tuple[tuple[DrawnLane, ...], dict[tuple[str, int, int], int]]:
    """The lanes of devices, then those of links in the cluster's order, and the row of each."""
    used = np.zeros(len(cluster), np.int64)
    np.maximum.at(used, trace.device, trace.lane + 1)
    np.maximum.at(used, work.device, work.lane + 1)
    lanes = [
        DrawnLane("device", device.task, device.short, row, number)
        for row, device in enumerate(cluster.devices)
        for number in range(max(1, int(used[row])))
    ]
    for link, track in sorted({span[:2] for span in spans}, key=lambda at: (at[0] == MEMORY, at)):
        name = "handed over in memory" if link == MEMORY else cluster.links[link].name
        lanes.append(DrawnLane("link", LINKS, name, link, track))
    return tuple(lanes), {(lane.kind, lane.row, lane.number): at for at, lane in enumerate(lanes)}


# ---- slices


def _op_slices(trace: Trace, clients: Sequence[DrawnClient], labels: dict[Label, int], lane_of: _LaneOf) -> Slices:
    known: dict[tuple[int, int, int], int] = {}
    label = []
    for client, node, tag in zip(trace.client.tolist(), trace.node.tolist(), trace.iteration.tolist(), strict=True):
        graph, pieces = clients[client].graph, clients[client].partitions
        key = (id(pieces), node, tag)
        if key not in known:
            origin = pieces.origin[node]
            op = graph.ops[origin]
            made = Label(tagged(graph.names[origin], trace.iterations[tag]), op, category(op))
            known[key] = labels.setdefault(made, len(labels))
        label.append(known[key])
    places = zip(trace.device.tolist(), trace.lane.tolist(), strict=True)
    lane = ids([lane_of["device", device, number] for device, number in places])
    task = ids(np.arange(len(label)))
    critical = np.zeros(len(task), bool)
    if trace.critical is not None:
        critical[trace.critical[trace.critical >= 0]] = True
    times = (trace.ready_ns, trace.start_ns, trace.end_ns)
    return Slices(lane, ids(label), trace.client, trace.step, task, *times, flags(critical))


def _work_slices(
    trace: Trace, moved: DrawnTransfers, work: _Work, labels: dict[Label, int], lane_of: _LaneOf
) -> Slices:
    label = []
    for transfer, packs in zip(work.transfer.tolist(), work.packs.tolist(), strict=True):
        verb, kind = ("send", PACKING) if packs else ("receive", UNPACKING)
        label.append(labels.setdefault(Label(f"{verb} {moved.name[transfer]}", "", kind), len(labels)))
    places = zip(work.device.tolist(), work.lane.tolist(), strict=True)
    lane = ids([lane_of["device", device, number] for device, number in places])
    whose = (trace.transfer_client[work.transfer], trace.transfer_step[work.transfer])
    stretches = zip(work.transfer.tolist(), [PACK if one else UNPACK for one in work.packs.tolist()], strict=True)
    times = (work.ready_ns, work.start_ns, work.end_ns)
    return Slices(lane, ids(label), *whose, ids(-1 - work.transfer), *times, _critical(trace, stretches))


def _link_slices(trace: Trace, spans: Sequence[_Span], carried: Ids, lane_of: _LaneOf) -> Slices:
    transfer = ids([span.transfer for span in spans])
    lane = ids([lane_of["link", span.link, span.track] for span in spans])
    start, end = ints([span.start for span in spans]), ints([span.end for span in spans])
    whose = (trace.transfer_client[transfer], trace.transfer_step[transfer])
    critical = _critical(trace, ((span.transfer, WIRE) for span in spans))
    times = (trace.pack_end_ns[transfer], start, end)
    return Slices(lane, carried[transfer], *whose, ids(-1 - transfer), *times, critical)


def _facts(trace: Trace, cluster: Cluster, moved: DrawnTransfers, label: Label, slices: Slices, row: int) -> Facts:
    """Details of a slice; the wait of a transfer is for all of its links together."""
    task, waited = int(slices.task[row]), int(slices.start_ns[row] - slices.ready_ns[row])
    critical: Facts = {"critical path": "yes"} if slices.critical[row] else {}
    if task >= 0:
        return {"op": label.op, "waited ns": waited, **critical}
    transfer = -1 - task
    times = {
        "asked ns": trace.transfer_ready_ns,
        "packed ns": trace.pack_end_ns,
        "on the wire ns": trace.transfer_start_ns,
        "off the wire ns": trace.wire_end_ns,
        "arrives ns": trace.transfer_end_ns,
        "unpacked ns": trace.unpack_end_ns,
    }
    if label.kind == "transfer":
        waited = int(trace.wire_end_ns[transfer] - trace.crossing_ns[transfer] - trace.pack_end_ns[transfer])
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
    cluster: Cluster,
    clients: Sequence[DrawnClient],
    moved: DrawnTransfers,
    slices: Slices,
    lanes: Sequence[DrawnLane],
    lane_of: _LaneOf,
    most: int | None,
) -> Iterator[Arrow]:
    """An arrow for each transfer of a value: maker, packing, first link, unpacking, first reader, as far as they exist.

    In a loop the maker is that of the transfer's iteration, else the last that had ended when the transfer was asked
    for. The reader is the first that starts after the value has come.
    """
    ran: dict[tuple[int, int, int], list[int]] = {}  # (client, step, node) -> slices in order of start
    for row, key in enumerate(zip(trace.client.tolist(), trace.step.tolist(), trace.node.tolist(), strict=True)):
        ran.setdefault(key, []).append(row)
    start, end, tag = trace.start_ns.tolist(), trace.end_ns.tolist(), trace.iteration.tolist()
    wires = _first_links(cluster, moved, slices, lanes)
    ends: dict[int, _Ends] = {}
    alive = np.argsort(trace.transfer_start_ns, kind="stable")
    alive = alive[~trace.transfer_dead[alive]]
    for row in alive[:most].tolist():
        client, step = int(trace.transfer_client[row]), int(trace.transfer_step[row])
        pieces = clients[client].partitions
        if id(pieces) not in ends:
            ends[id(pieces)] = _ends(pieces)
        makers, readers = (of.get(int(trace.transfer[row]), ()) for of in ends[id(pieces)])
        asked, came = int(trace.transfer_ready_ns[row]), int(trace.unpack_end_ns[row])
        made: list[int] = []
        for rows in (ran.get((client, step, node), ()) for node in makers):
            ended = rows[: bisect_right(rows, asked, key=end.__getitem__)]
            same = [one for one in ended if tag[one] == trace.transfer_iteration[row]]
            made += same[-1:] or ended[-1:]
        read: list[int] = []
        for rows in (ran.get((client, step, node), ()) for node in readers):
            read += rows[(at := bisect_left(rows, came, key=start.__getitem__)) : at + 1]
        stops = []
        if made:
            maker = max(made, key=lambda one: (end[one], one))
            stops.append((max(start[maker], end[maker] - 1), int(slices.lane[maker])))
        if trace.pack_end_ns[row] > trace.pack_start_ns[row]:
            at = lane_of["device", int(cluster.home[moved.source[row]]), int(trace.pack_lane[row])]
            stops.append((int(trace.pack_start_ns[row]), at))
        stops.append((int(trace.transfer_start_ns[row]), wires[row]))
        if trace.unpack_end_ns[row] > trace.unpack_start_ns[row]:
            at = lane_of["device", int(cluster.home[moved.target[row]]), int(trace.unpack_lane[row])]
            stops.append((int(trace.unpack_start_ns[row]), at))
        if read:
            reader = min(read, key=lambda one: (start[one], one))
            stops.append((start[reader], int(slices.lane[reader])))
        if len(stops) > 1:
            yield Arrow(row, stops)


def _first_links(cluster: Cluster, moved: DrawnTransfers, slices: Slices, lanes: Sequence[DrawnLane]) -> dict[int, int]:
    """The lane of each transfer on the first link of its route."""
    found = {}
    for task, at in zip(slices.task.tolist(), slices.lane.tolist(), strict=True):
        if task < 0 and lanes[at].kind == "link":
            route = cluster.routes[moved.source[-1 - task]][moved.target[-1 - task]] or (MEMORY,)
            if route[0] == lanes[at].row:
                found[-1 - task] = at
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
