"""How late everything in a simulated step may end without making the step longer: ALAP times.

From the end of the step backwards: a task may end when the first of those that follow it must start. What follows a
task is what needs it, and what came after it in its lane or in line for one of its links, for nobody may overtake
there. An
input that reaches a Merge after the one that woke it, and what runs several times (in a loop), get no slack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.assembling import NO_KERNEL
from simulator.execution.trace import Trace
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.partitioning import Partitions

_STRETCHES = 4  # of a transfer: packing, on the wire, its latency, unpacking
_Held = tuple[Nanos, bool, int, Nanos]  # start, whether it takes time, task, end


@dataclass(frozen=True, eq=False)
class Slack:
    """When each task ended and how late it may. Axes: N' nodes of the pieces, X transfers."""

    end_ns: list[Nanos]  # [N'] its last end; of what takes no time when all that it waits for is there
    runs: list[int]  # [N'] slices that it has
    latest_ns: list[Nanos]  # [N'] its latest end
    latest_asked_ns: list[Nanos]  # [X] until when a transfer must be asked for: its value there and its Recv posted


@dataclass(frozen=True, eq=False)
class _Tasks:
    """Workings: nodes, then the stretches of each transfer."""

    start: list[Nanos]
    end: list[Nanos]
    runs: list[int]  # how often


def slack(trace: Trace, partitions: Partitions, cluster: Cluster) -> Slack:
    """The latest times of a step that was simulated, none before the actual ones, none after the makespan."""
    tasks = _tasks(trace, partitions)
    count, total = len(partitions.graph), len(tasks.end)
    latest = [trace.makespan] * total
    before: list[list[tuple[int, Nanos]]] = [[] for _ in range(total)]
    waits = [0] * total
    for task, follower, apart in _rules(trace, partitions, cluster, tasks):
        late = tasks.end[task] + apart > tasks.start[follower]
        if late or tasks.runs[task] > 1 or tasks.runs[follower] > 1:
            latest[task] = tasks.end[task]  # no slack
        else:
            before[follower].append((task, apart))
            waits[task] += 1
    free = [task for task in range(total) if not waits[task]]
    while free:
        task = free.pop()
        start = latest[task] - (tasks.end[task] - tasks.start[task])
        for earlier, apart in before[task]:
            latest[earlier] = min(latest[earlier], start - apart)
            waits[earlier] -= 1
            if not waits[earlier]:
                free.append(earlier)
    packs = range(count, total, _STRETCHES)
    return Slack(
        end_ns=tasks.end[:count],
        runs=tasks.runs[:count],
        latest_ns=latest[:count],
        latest_asked_ns=[latest[task] - (tasks.end[task] - tasks.start[task]) for task in packs],
    )


def _tasks(trace: Trace, partitions: Partitions) -> _Tasks:
    count = len(partitions.graph)
    start, end, runs = [trace.makespan] * count, [0] * count, [0] * count
    for node, begin, until in zip(trace.node.tolist(), trace.start_ns.tolist(), trace.end_ns.tolist(), strict=True):
        start[node] = min(start[node], begin)
        end[node] = max(end[node], until)
        runs[node] += 1
    came = np.zeros(len(partitions.send), np.int64)
    np.maximum.at(came, trace.transfer, trace.unpack_end_ns)
    _instants(partitions, came.tolist(), start, end, runs)
    stretches = (
        (trace.pack_start_ns, trace.pack_end_ns),
        (trace.transfer_start_ns, trace.wire_end_ns),
        (trace.wire_end_ns, trace.transfer_end_ns),
        (trace.unpack_start_ns, trace.unpack_end_ns),
    )
    begins = np.full((len(partitions.send), _STRETCHES), trace.makespan)
    ends = np.zeros((len(partitions.send), _STRETCHES), np.int64)
    for stretch, (begin, until) in enumerate(stretches):
        np.minimum.at(begins[:, stretch], trace.transfer, begin)
        np.maximum.at(ends[:, stretch], trace.transfer, until)
    often = np.bincount(trace.transfer, minlength=len(partitions.send))
    return _Tasks(
        start=[*start, *begins.reshape(-1).tolist()],
        end=[*end, *np.maximum(ends, np.where(often, 0, trace.makespan)[:, None]).reshape(-1).tolist()],
        runs=[*runs, *np.repeat(often, _STRETCHES).tolist()],
    )


def _instants(partitions: Partitions, came: list[Nanos], start: list[Nanos], end: list[Nanos], runs: list[int]) -> None:
    """Fill in the times of nodes without a slice: each is done when what it waits for is, a Recv by its transfer."""
    graph = partitions.graph
    transfer_of = {recv: row for row, recv in enumerate(partitions.recv.tolist())}
    readers: list[list[int]] = [[] for _ in runs]
    waits = [0] * len(runs)
    inside = ~graph.edge_back
    edges = zip(graph.edge_src[inside].tolist(), graph.edge_dst[inside].tolist(), strict=True)
    for source, reader in (*edges, *zip(partitions.send.tolist(), partitions.recv.tolist(), strict=True)):
        readers[source].append(reader)
        waits[reader] += 1
    last = [0] * len(runs)  # end of the inputs so far
    free = [node for node, left in enumerate(waits) if not left]
    while free:
        node = free.pop()
        if not runs[node]:
            start[node] = end[node] = max(last[node], came[transfer_of[node]]) if node in transfer_of else last[node]
        for reader in readers[node]:
            last[reader] = max(last[reader], end[node])
            waits[reader] -= 1
            if not waits[reader]:
                free.append(reader)


def _rules(trace: Trace, partitions: Partitions, cluster: Cluster, tasks: _Tasks) -> Iterator[tuple[int, int, Nanos]]:
    """Task, one that follows it, and the time between them: by need, by lane, by link."""
    graph, count = partitions.graph, len(partitions.graph)
    transfer_of = {recv: row for row, recv in enumerate(partitions.recv.tolist())}
    inside = ~graph.edge_back
    for source, reader in zip(graph.edge_src[inside].tolist(), graph.edge_dst[inside].tolist(), strict=True):
        if reader in transfer_of:  # it posts the Recv
            row = transfer_of[reader]
            ends = int(partitions.src_device[row]), int(partitions.dst_device[row])
            yield source, count + _STRETCHES * row, cluster.protocol(*ends).request_ns
        else:
            yield source, reader, 0
    for row, (send, recv) in enumerate(zip(partitions.send.tolist(), partitions.recv.tolist(), strict=True)):
        pack = count + _STRETCHES * row
        chain = (send, *range(pack, pack + _STRETCHES), recv)
        yield from ((before, after, 0) for before, after in pairwise(chain))
    for held in (*_lanes(trace, partitions, cluster), *_links(trace, partitions, cluster)):
        yield from _in_turn(held)


def _in_turn(held: list[_Held]) -> Iterator[tuple[int, int, Nanos]]:
    """What follows what on a resource; of what takes no time at one moment nobody knows the order."""
    last: int | None = None  # that took time
    until = 0
    since: list[int] = []  # what took no time after it
    for start, lasts, task, end in sorted(held):
        if last is not None and until <= start:
            yield last, task, 0
        if not lasts:
            since.append(task)
            continue
        yield from ((one, task, 0) for one in since)
        last, until, since = task, end, []


def _lanes(trace: Trace, partitions: Partitions, cluster: Cluster) -> Iterator[list[_Held]]:
    """What ran in each lane: ops that take one, and the work of processors for transfers."""
    found: dict[tuple[int, int], list[_Held]] = {}
    columns = (trace.node, trace.device, trace.lane, trace.start_ns, trace.end_ns)
    for node, device, lane, start, end in zip(*(column.tolist() for column in columns), strict=True):
        if partitions.graph.ops[node] not in NO_KERNEL:
            found.setdefault((device, lane), []).append((start, end > start, node, end))
    for at, devices, lanes, starts, ends in (
        (0, partitions.src_device, trace.pack_lane, trace.pack_start_ns, trace.pack_end_ns),
        (3, partitions.dst_device, trace.unpack_lane, trace.unpack_start_ns, trace.unpack_end_ns),
    ):
        tasks = len(partitions.graph) + _STRETCHES * trace.transfer + at
        rows = (cluster.home[devices[trace.transfer]], lanes, starts, tasks, ends)
        for device, lane, start, task, end in zip(*(column.tolist() for column in rows), strict=True):
            if end > start:
                found.setdefault((device, lane), []).append((start, True, task, end))
    yield from found.values()


def _links(trace: Trace, partitions: Partitions, cluster: Cluster) -> Iterator[list[_Held]]:
    """What was on each link where one transfer waits for another, what has no bytes included: it waits, too."""
    found: dict[int, list[_Held]] = {}
    columns = (trace.transfer, trace.transfer_start_ns, trace.wire_end_ns)
    for row, start, end in zip(*(column.tolist() for column in columns), strict=True):
        task = len(partitions.graph) + _STRETCHES * row + 1
        route = cluster.routes[partitions.src_device[row]][partitions.dst_device[row]] or ()
        for link in route:
            if (cluster.links[link].contention or trace.contention) == "serial":
                found.setdefault(link, []).append((start, end > start, task, end))
    yield from found.values()
