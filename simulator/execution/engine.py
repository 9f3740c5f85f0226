"""The event loop: when everything runs, given who runs what. Plain Python; this is the specification.

Resources are lanes of devices and links; tasks are ops and transfers; an event is the end of one. At each instant

    1. every task that ends now is retired: ops whose last needed input arrived are ready, instant ones end at once and
       retire with them, and the values that others need elsewhere ask for their transfers;
    2. these transfers are served in the order of `Crossings`: each starts when every link of its route is free and
       holds them all until it ends;
    3. ready ops join their device's queue, in order of row, and idle lanes take from it: the one that was ready first,
       or with priorities the smallest (priority, row).

A task of no length ends at the instant at which it starts, in a round of its own. A Merge waits for its control inputs
and the first of its data inputs; any other op for all. A search calls this loop with many assignments, so it runs over
lists and ints: an event costs about one microsecond.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, ids, ints
from simulator.errors import DeadlockError, SimvizError
from simulator.execution.assembling import pointers
from simulator.execution.crossings import MAX_NS, Crossings, checked, crossings
from simulator.execution.tables import Tables
from simulator.units import Nanos


@dataclass(frozen=True, eq=False)
class Outcome:
    """What happened. Axes: n ops, X transfers of `crossings`."""

    makespan: Nanos
    device: Ids  # [n]
    ready_ns: Ints  # [n] its last needed input is there
    start_ns: Ints  # [n]
    end_ns: Ints  # [n]
    crossings: Crossings
    transfer_ready_ns: Ints  # [X]
    transfer_start_ns: Ints  # [X]
    transfer_end_ns: Ints  # [X]
    lane: Ids  # [n] lane within the device; the lowest that was idle; 0 for instant ops

    @property
    def events(self) -> int:
        """How many ends of ops and transfers the loop retired."""
        return len(self.start_ns) + len(self.transfer_start_ns)


@dataclass(frozen=True, eq=False)
class _Wiring:
    """Workings: who is told when a task ends, as lists. A Merge's data input is written ~op."""

    waits: list[int]  # [n] inputs that an op needs; 1 for one that needs none
    roots: list[int]
    local: list[int]  # consumers on the same device, by op
    local_ptr: list[int]  # [n+1]
    asked_ptr: list[int]  # [n+1] transfers are numbered by op
    served: list[int]  # consumers by transfer
    served_ptr: list[int]  # [X+1]
    run_ns: list[int]  # [n]


def run(
    tables: Tables,
    device: Sequence[int] | npt.NDArray[np.integer],
    priority: Sequence[int] | npt.NDArray[np.integer] | None = None,
) -> Outcome:
    """Run every op on its device; `priority` (smaller first) replaces first ready, first served.

    Raises SimvizError for an assignment of the wrong length or with an unknown device, InfeasibleError where there is
    no kernel, ClusterError where there is no route, DeadlockError where ops wait for each other; the first three
    before anything runs.
    """
    column = checked(tables, device)
    crossing = crossings(tables, column)
    wiring = _wire(tables, column, crossing)
    total, ready, start, asked, sent = _play(tables, column.tolist(), crossing, wiring, _ranks(tables, priority))
    start_ns, sent_ns = ints(start), ints(sent)
    end_ns = ints(start_ns + np.array(wiring.run_ns, np.int64))
    return Outcome(
        makespan=total,
        device=column,
        ready_ns=ints(ready),
        start_ns=start_ns,
        end_ns=end_ns,
        crossings=crossing,
        transfer_ready_ns=ints(asked),
        transfer_start_ns=sent_ns,
        transfer_end_ns=ints(sent_ns + crossing.duration_ns),
        lane=lanes_of(tables, column, start_ns, end_ns),
    )


def makespan(
    tables: Tables,
    device: Sequence[int] | npt.NDArray[np.integer],
    priority: Sequence[int] | npt.NDArray[np.integer] | None = None,
) -> Nanos:
    """`run(...).makespan` without the record, for search."""
    column = checked(tables, device)
    crossing = crossings(tables, column)
    return _play(tables, column.tolist(), crossing, _wire(tables, column, crossing), _ranks(tables, priority))[0]


def _wire(tables: Tables, device: Ids, crossing: Crossings) -> _Wiring:
    n = len(tables)
    gate = tables.merge[tables.consumer] & (tables.tensor_row[tables.edge_tensor] >= 0)
    told = np.where(gate, ~tables.consumer, tables.consumer)
    waits = np.bincount(tables.consumer[~gate], minlength=n)
    waits[np.unique(tables.consumer[gate])] += 1
    roots = np.flatnonzero(waits == 0)
    waits[roots] = 1
    stays = np.flatnonzero(crossing.of_edge < 0)
    crosses = np.flatnonzero(crossing.of_edge >= 0)
    crosses = crosses[np.argsort(crossing.of_edge[crosses], kind="stable")]
    run_ns = tables.run_ns[np.arange(n), device]
    if float(run_ns.sum(dtype=np.float64) + crossing.duration_ns.sum(dtype=np.float64)) > MAX_NS:
        raise SimvizError("The times of this step add up to more than 2^61 ns (73 years); check the cost table.")
    return _Wiring(
        waits=waits.tolist(),
        roots=roots.tolist(),
        local=told[stays].tolist(),
        local_ptr=pointers(ids(tables.tensor_op[tables.edge_tensor[stays]]), n).tolist(),
        asked_ptr=pointers(ids(tables.tensor_op[crossing.tensor]), n).tolist(),
        served=told[crosses].tolist(),
        served_ptr=pointers(ids(crossing.of_edge[crosses]), len(crossing)).tolist(),
        run_ns=run_ns.tolist(),
    )


def _ranks(tables: Tables, priority: Sequence[int] | npt.NDArray[np.integer] | None) -> list[int] | None:
    """[n] ops in order of (priority, row)."""
    if priority is None:
        return None
    column = ints(priority)
    if column.shape != (len(tables),):
        raise SimvizError(f"There are {column.size} priorities for {len(tables)} ops; give one per op that runs.")
    order: list[int] = np.argsort(column, kind="stable").tolist()
    return order


def _play(
    tables: Tables, device: list[int], crossing: Crossings, wiring: _Wiring, order: list[int] | None
) -> tuple[Nanos, list[int], list[int], list[int], list[int]]:
    """Makespan; ready and start of each op; ready and start of each transfer.

    One long function, because a call per event would double its time. A heap entry is end time and task in one
    number: comparing numbers is faster than comparing tuples.
    """
    n, transfers = len(tables), len(crossing)
    shift = (n + transfers).bit_length()
    task_of = (1 << shift) - 1
    waits, local, local_ptr, asked_ptr = wiring.waits, wiring.local, wiring.local_ptr, wiring.asked_ptr
    served, served_ptr, run_ns = wiring.served, wiring.served_ptr, wiring.run_ns
    instant, route, duration = tables.instant.tolist(), crossing.route, crossing.duration_ns.tolist()
    idle = tables.lanes.tolist()
    queues: list[deque[int]] = [deque() for _ in idle]  # of ops
    heaps: list[list[int]] = [[] for _ in idle]  # of places in `order`
    place = [0] * n
    for position, op in enumerate(order or ()):
        place[op] = position
    free = [0] * tables.links
    merged = [False] * n
    ready, start, asked, sent = [-1] * n, [0] * n, [0] * transfers, [0] * transfers
    heap: list[int] = []
    now = 0
    told = wiring.roots
    asking: list[int] = []
    touched: list[int] = []  # devices with a new op or an idle lane
    while True:
        woken = []
        for op in told:  # grows meanwhile: what is instant tells its own consumers at once
            if op < 0:
                op = ~op
                if merged[op]:
                    continue
                merged[op] = True
            waits[op] -= 1
            if not waits[op]:
                ready[op] = now
                if instant[op]:
                    start[op] = now
                    told += local[local_ptr[op] : local_ptr[op + 1]]
                    asking += range(asked_ptr[op], asked_ptr[op + 1])
                else:
                    woken.append(op)
        if asking:
            asking.sort()
            for transfer in asking:
                begin = now
                for link in route[transfer]:
                    if free[link] > begin:
                        begin = free[link]
                end = begin + duration[transfer]
                for link in route[transfer]:
                    free[link] = end
                asked[transfer] = now
                sent[transfer] = begin
                heappush(heap, end << shift | n + transfer)
            asking = []
        woken.sort()
        for op in woken:
            where = device[op]
            touched.append(where)
            if order is None:
                queues[where].append(op)
            else:
                heappush(heaps[where], place[op])
        for where in touched:
            while idle[where] and (queues[where] or heaps[where]):
                op = queues[where].popleft() if order is None else order[heappop(heaps[where])]
                idle[where] -= 1
                start[op] = now
                heappush(heap, now + run_ns[op] << shift | op)
        touched = []
        if not heap:
            break
        now = heap[0] >> shift
        limit = now + 1 << shift
        told = []
        while heap and heap[0] < limit:
            task = heappop(heap) & task_of
            if task < n:
                where = device[task]
                idle[where] += 1
                touched.append(where)
                told += local[local_ptr[task] : local_ptr[task + 1]]
                asking += range(asked_ptr[task], asked_ptr[task + 1])
            else:
                told += served[served_ptr[task - n] : served_ptr[task - n + 1]]
    if min(ready, default=0) < 0:
        raise _deadlock(tables, ready)
    return now, ready, start, asked, sent


def _deadlock(tables: Tables, ready: list[int]) -> DeadlockError:
    stuck = [op for op, when in enumerate(ready) if when < 0]
    waiting = {}
    for op in stuck[:5]:
        tensors = tables.in_tensor[tables.in_ptr[op] : tables.in_ptr[op + 1]]
        producers = sorted({int(tables.tensor_op[tensor]) for tensor in tensors})
        waiting[tables.names[op]] = [tables.names[p] for p in producers if ready[p] < 0]
    first, others = next(iter(waiting.items()))
    return DeadlockError(
        f"{len(stuck)} of {len(ready)} nodes never start, because some wait for each other: {first!r} waits for "
        f"{', '.join(map(repr, others[:5]))}.",
        waiting=waiting,
    )


def lanes_of(tables: Tables, device: Ids, start_ns: Ints, end_ns: Ints) -> Ids:
    """[n] the lane of each op, found afterwards: per device, in order of start, the lowest that is idle."""
    lane = [0] * len(tables)
    many = tables.lanes > 1
    for where in np.flatnonzero(many).tolist():
        ops = np.flatnonzero((device == where) & ~tables.instant)
        running: list[tuple[int, int]] = []  # (end, lane)
        idle = list(range(int(tables.lanes[where])))
        for op in ops[np.lexsort((ops, end_ns[ops] > start_ns[ops], start_ns[ops]))].tolist():
            while running and running[0][0] <= start_ns[op]:
                heappush(idle, heappop(running)[1])
            lane[op] = heappop(idle)
            heappush(running, (int(end_ns[op]), lane[op]))
    return ids(lane)
