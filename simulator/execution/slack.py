"""ALAP times: the latest ends of all that runs in a simulated step that leave the step as long as it is.

The step is walked from its end backwards: a task may end when the first of those that follow it must start. A task is
followed by those that need it, and by those that came after it in its lane or in the queue of one of its links, where
nobody may overtake. On the wire a transfer is a task for each serial link that it occupies; without any, one task. The
next of these begins no earlier than the one before, and all are over when its bytes are through. An input that reaches
a Merge after the one that woke it, and what runs several times (in a loop), get no slack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, ids
from simulator.execution.table_columns import NO_KERNEL
from simulator.execution.trace import Trace
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.partitioning import Partitions

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
    """Workings: nodes, then of each transfer packing, the wire, as one task or one per hold, latency and unpacking."""

    start: list[Nanos]
    end: list[Nanos]
    runs: list[int]  # how often
    pack: Ids  # [X] the first task of each
    unpack: Ids  # [X] its last


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
    return Slack(
        end_ns=tasks.end[:count],
        runs=tasks.runs[:count],
        latest_ns=latest[:count],
        latest_asked_ns=[latest[task] - (tasks.end[task] - tasks.start[task]) for task in tasks.pack.tolist()],
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
    wires = np.ones(len(partitions.send), np.int64)
    np.maximum.at(wires, trace.transfer, np.diff(trace.hold_ptr))
    last = count - 1 + np.cumsum(wires + 3)
    pack = last - wires - 2
    whole = np.flatnonzero(np.diff(trace.hold_ptr) == 0)  # held no link
    stretches = (
        (pack[trace.transfer], trace.pack_start_ns, trace.pack_end_ns),
        (pack[trace.transfer[whole]] + 1, trace.transfer_start_ns[whole], trace.wire_end_ns[whole]),
        (_held(trace, pack), trace.hold_start_ns, trace.hold_end_ns),
        (last[trace.transfer] - 1, trace.wire_end_ns, trace.transfer_end_ns),
        (last[trace.transfer], trace.unpack_start_ns, trace.unpack_end_ns),
    )
    often = np.repeat(np.bincount(trace.transfer, minlength=len(wires)), wires + 3)
    begins, ends = np.full(len(often), trace.makespan), np.where(often, 0, trace.makespan)
    for task, begin, until in stretches:
        np.minimum.at(begins, task - count, begin)
        np.maximum.at(ends, task - count, until)
    return _Tasks(
        start=[*start, *begins.tolist()],
        end=[*end, *ends.tolist()],
        runs=[*runs, *often.tolist()],
        pack=ids(pack),
        unpack=ids(last),
    )


def _held(trace: Trace, pack: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """[H] the task of each hold."""
    often = np.diff(trace.hold_ptr)
    place = np.arange(len(trace.hold_link)) - np.repeat(trace.hold_ptr[:-1], often)
    return np.asarray(np.repeat(pack[trace.transfer], often) + 1 + place, np.int64)


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
    graph = partitions.graph
    transfer_of = {recv: row for row, recv in enumerate(partitions.recv.tolist())}
    inside = ~graph.edge_back
    for source, reader in zip(graph.edge_src[inside].tolist(), graph.edge_dst[inside].tolist(), strict=True):
        if reader in transfer_of:  # it posts the Recv
            row = transfer_of[reader]
            ends = int(partitions.src_device[row]), int(partitions.dst_device[row])
            yield source, int(tasks.pack[row]), cluster.protocol(*ends).request_ns
        else:
            yield source, reader, 0
    yield from _along(trace, partitions, tasks)
    for held in (*_lanes(trace, partitions, cluster, tasks), *_links(trace, tasks)):
        yield from _in_turn(held)


def _along(trace: Trace, partitions: Partitions, tasks: _Tasks) -> Iterator[tuple[int, int, Nanos]]:
    """The same of each transfer's tasks, from its Send to its Recv."""
    alone = np.zeros(len(partitions.send), np.int64)
    alone[trace.transfer] = trace.crossing_ns
    columns = (partitions.send, partitions.recv, tasks.pack, tasks.unpack, alone)
    for send, recv, pack, unpack, crossing in zip(*(column.tolist() for column in columns), strict=True):
        yield send, pack, 0
        yield pack, pack + 1, 0
        for task in range(pack + 1, unpack - 2):  # the bytes of one hold are those of the next
            yield task, task + 1, tasks.start[task] - tasks.end[task]
        for task in range(pack + 1, unpack - 1):
            yield task, unpack - 1, 0
        # nor are they through before the slowest link lets them, which may be one that it does not hold
        yield pack + 1, unpack - 1, max(0, crossing - (tasks.end[pack + 1] - tasks.start[pack + 1]))
        yield unpack - 1, unpack, 0
        yield unpack, recv, 0


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


def _lanes(trace: Trace, partitions: Partitions, cluster: Cluster, tasks: _Tasks) -> Iterator[list[_Held]]:
    """What ran in each lane: ops that take one, and the work of processors for transfers."""
    found: dict[tuple[int, int], list[_Held]] = {}
    columns = (trace.node, trace.device, trace.lane, trace.start_ns, trace.end_ns)
    for node, device, lane, start, end in zip(*(column.tolist() for column in columns), strict=True):
        if partitions.graph.ops[node] not in NO_KERNEL:
            found.setdefault((device, lane), []).append((start, end > start, node, end))
    for at, devices, lanes, starts, ends in (
        (tasks.pack, partitions.src_device, trace.pack_lane, trace.pack_start_ns, trace.pack_end_ns),
        (tasks.unpack, partitions.dst_device, trace.unpack_lane, trace.unpack_start_ns, trace.unpack_end_ns),
    ):
        rows = (cluster.home[devices[trace.transfer]], lanes, starts, at[trace.transfer], ends)
        for device, lane, start, task, end in zip(*(column.tolist() for column in rows), strict=True):
            if end > start:
                found.setdefault((device, lane), []).append((start, True, task, end))
    yield from found.values()


def _links(trace: Trace, tasks: _Tasks) -> Iterator[list[_Held]]:
    """What was on each link where one transfer waits for another, what has no bytes included: it waits, too."""
    found: dict[int, list[_Held]] = {}
    columns = (trace.hold_link, trace.hold_start_ns, _held(trace, tasks.pack), trace.hold_end_ns)
    for link, start, task, end in zip(*(column.tolist() for column in columns), strict=True):
        found.setdefault(link, []).append((start, end > start, task, end))
    yield from found.values()
