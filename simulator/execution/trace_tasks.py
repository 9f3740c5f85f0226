"""Make a trace from the times of lowered tasks, for a step and for the recorded steps of a training alike.

A trace has a row for each lowered task, and two kinds of rows that the event loop does without. The latency of a
transfer that holds one link is, in the loop, the end of that link's task. The request of a Recv that is posted when
the step begins is the moment at which a task is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, flags, ids, ints, stable_order
from simulator.execution.tables import Tables
from simulator.execution.task_graph import TaskGraph
from simulator.execution.trace import Event, Kind, OpInstances, Trace, TraceTasks, TraceTransfers

if TYPE_CHECKING:
    from simulator.partitioning import Partitions

Rows = npt.NDArray[np.integer]
END, START, FIRST = map(int, Event)


class StepTimes(NamedTuple):
    """The times of one step of one client. Axis: J its tasks."""

    client: int
    number: int
    tasks: Ids  # [J] rows of the lowered tasks, ascending, without the beginning
    ready_ns: Ints  # [J]
    start_ns: Ints  # [J]
    end_ns: Ints  # [J]
    release_ns: Ints  # [J] it was not ready before
    lane: Ids | None  # [J] where the device chose one; None: found afterwards


class _Shape(NamedTuple):
    """The rows of a client's step but their times, first those of its tasks; `of` counts from the first of the step."""

    kind: Rows
    of: Rows
    resource: Rows
    lane: Rows  # 0, or -1
    tail: Rows  # tasks that end with a latency, in order of these rows, which come second
    asked: Rows  # tasks that a request releases, in order of these rows, which come last
    need_ptr: Rows
    need: Rows
    event: Rows
    ops: int  # how many
    transfers: int


def _subjects(lowered: TaskGraph, tables: Tables, own: Rows) -> tuple[Rows, Rows]:
    """The ops and the transfers of these tasks, ascending."""
    ops = int(np.searchsorted(own, len(tables)))
    there = np.zeros(len(lowered.transfers), bool)
    there[lowered.transfer[own[ops:]]] = True
    return own[:ops], np.flatnonzero(there)


def _shape(lowered: TaskGraph, tables: Tables, own: Rows) -> _Shape:
    tasks, count = lowered.tasks, len(own)
    devices, links = len(tables.devices), len(tables.routes.link_names)
    tail = np.flatnonzero(lowered.tail_ns[own] > 0)
    asked = np.flatnonzero(tasks.release_ns[own] > 0)
    more = len(tail) + len(asked)
    kind = np.concatenate([lowered.kind[own], np.repeat([Kind.LATENCY, Kind.REQUEST], [len(tail), len(asked)])])
    ops, transfers = _subjects(lowered, tables, own)
    of = np.searchsorted(transfers, lowered.transfer[own])
    of[: len(ops)] = np.arange(len(ops))
    where = tasks.resource[own]
    lane = np.concatenate([np.where((where >= 0) & (where < devices + links), 0, -1), np.full(more, -1)])
    resource = np.where(where >= devices + links, -1, np.maximum(where, -1))
    resource[: len(ops)] = lowered.device[ops]

    place = np.full(len(lowered.kind), -1)  # of each task among these rows
    place[own] = np.arange(count)
    ended = np.arange(count)  # the row whose end is that of the task
    ended[tail] = count + np.arange(len(tail))
    told = tasks.next_to[own] - tasks.next_from[own]
    at = np.repeat(tasks.next_from[own] - np.cumsum(told) + told, told) + np.arange(told.sum())
    source, successor = np.repeat(ended, told), tasks.successor[at]
    target, event = place[np.where(successor < 0, ~successor, successor)], np.where(successor < 0, FIRST, END)
    inside = np.flatnonzero(target >= 0)
    on = np.flatnonzero(tasks.onward[own] >= 0)
    asks = count + len(tail) + np.arange(len(asked))
    source = np.concatenate([source[inside], on, tail, asks])
    target = np.concatenate([target[inside], place[tasks.onward[own[on]]], count + np.arange(len(tail)), asked])
    event = np.concatenate([event[inside], np.full(len(on), START), np.full(more, END)])
    by_target = stable_order(target)
    return _Shape(
        kind=kind,
        of=np.concatenate([of, of[tail], of[asked]]),
        resource=np.concatenate([resource, np.full(more, -1)]),
        lane=lane,
        tail=tail,
        asked=asked,
        need_ptr=np.append(0, np.cumsum(np.bincount(target, minlength=count + more))),
        need=source[by_target],
        event=event[by_target],
        ops=len(ops),
        transfers=len(transfers),
    )


def trace_tasks(lowered: TaskGraph, tables: Tables, steps: Sequence[StepTimes]) -> TraceTasks:
    """The tasks of these steps with their times, lanes and needs."""
    known: dict[int, _Shape] = {}  # by client
    for step in steps:
        if step.client not in known:
            known[step.client] = _shape(lowered, tables, step.tasks)
    shapes = [known[step.client] for step in steps]
    times = [_times(lowered, shape, step) for shape, step in zip(shapes, steps, strict=True)]
    ready, start, end = (_joined(column) for column in zip(*times, strict=True)) if times else (ints([]),) * 3
    resource, lane = (_joined([getattr(shape, name) for shape in shapes]) for name in ("resource", "lane"))
    kind = _joined([shape.kind for shape in shapes])
    if steps and steps[0].lane is not None:
        more = [np.full(len(shape.kind) - len(step.tasks), -1) for shape, step in zip(shapes, steps, strict=True)]
        given = [part for step, rest in zip(steps, more, strict=True) for part in (step.lane, rest) if part is not None]
        lane = np.where((lane >= 0) & (kind != Kind.LINK), _joined(given), lane)
    else:
        lane = np.where(lane < 0, lane, pack_lanes(resource, start, end, lane >= 0, tables.lanes))
    sizes, needs = [len(shape.kind) for shape in shapes], [len(shape.need) for shape in shapes]
    before = zip(_begins([shape.ops for shape in shapes]), _begins([shape.transfers for shape in shapes]), strict=True)
    of = [
        shape.of + np.where(shape.kind == Kind.OP, ops, transfers)
        for shape, (ops, transfers) in zip(shapes, before, strict=True)
    ]
    need = [shape.need + begin for shape, begin in zip(shapes, _begins(sizes), strict=True)]
    ptr = [shape.need_ptr[:-1] + begin for shape, begin in zip(shapes, _begins(needs), strict=True)]
    return TraceTasks(
        kind=ids(kind),
        of=ids(_joined(of)),
        resource=ids(resource),
        lane=ids(lane),
        ready_ns=ints(ready),
        start_ns=ints(start),
        end_ns=ints(end),
        need_ptr=ids(np.append(_joined(ptr), sum(needs))),
        need=ids(_joined(need)),
        event=ids(_joined([shape.event for shape in shapes])),
        devices=len(tables.devices),
    )


def _times(lowered: TaskGraph, shape: _Shape, step: StepTimes) -> tuple[Rows, Rows, Rows]:
    """When the rows were ready, started and ended."""
    tail, asked = shape.tail, shape.asked
    through = step.end_ns - lowered.tail_ns[step.tasks]
    released = step.release_ns[asked]
    posted = released - lowered.tasks.release_ns[step.tasks[asked]]
    return (
        np.concatenate([step.ready_ns, through[tail], posted]),
        np.concatenate([step.start_ns, through[tail], posted]),
        np.concatenate([through, step.end_ns[tail], released]),
    )


def trace_of(
    tables: Tables,
    lowered: TaskGraph,
    steps: Sequence[StepTimes],
    tasks: TraceTasks,
    pieces: Sequence[Partitions],
    op_ptr: Rows,
    **rest: Any,  # Any: the other columns of `Trace`
) -> Trace:
    """The trace of these steps, given their tasks; `pieces` are those of each client, `op_ptr` where its ops begin."""
    ops, transfers = (
        zip(*(_subjects(lowered, tables, step.tasks) for step in steps), strict=True) if steps else ((), ())
    )
    op, transfer = _joined(ops), _joined(transfers)
    inserted, row = np.zeros(len(tables), bool), np.full(len(tables), -1)
    for cut, (first, last) in zip(pieces, pairwise(op_ptr.tolist()), strict=True):
        node, of_node = tables.node[first:last], np.full(len(cut.graph), -1)
        of_node[cut.send] = np.arange(len(cut.send))
        inserted[first:last], row[first:last] = cut.inserted[node], of_node[node]
    sender = tables.tensor_op[lowered.transfers.tensor[transfer]]
    whose = [(step.client, step.number) for step in steps]
    of_op, of_transfer = (
        np.repeat(np.array(whose).reshape(-1, 2), [len(part) for part in parts], axis=0).T for parts in (ops, transfers)
    )
    return Trace(
        tasks=tasks,
        instances=OpInstances(
            node=ids(tables.node[op]),
            iteration=ids(tables.iteration[op]),
            shown=flags(~(inserted[op] | tables.silent[op])),
            client=ids(of_op[0]),
            step=ids(of_op[1]),
        ),
        transfers=TraceTransfers(
            row=ids(row[sender]),
            iteration=ids(tables.iteration[sender]),
            dead=flags(tables.silent[sender]),
            client=ids(of_transfer[0]),
            step=ids(of_transfer[1]),
        ),
        iterations=tables.iterations,
        **rest,
    )


def pack_lanes(where: Rows, start_ns: Rows, end_ns: Rows, taken: npt.NDArray[np.bool_], count: Ids) -> Ids:
    """[J] per device, in order of start, the lowest lane that is idle, for tasks that take one; else 0.

    `where` is the resource of each task, `count` the number of lanes of each device.
    """
    lane = np.zeros(len(start_ns), np.int64)
    for row in np.flatnonzero(count > 1).tolist():
        jobs = np.flatnonzero((where == row) & taken)
        jobs = jobs[np.lexsort((jobs, end_ns[jobs] > start_ns[jobs], start_ns[jobs]))]
        running: list[tuple[int, int]] = []  # (end, lane)
        idle = list(range(int(count[row])))
        found = []
        for start, end in zip(start_ns[jobs].tolist(), end_ns[jobs].tolist(), strict=True):
            while running and running[0][0] <= start:
                heappush(idle, heappop(running)[1])
            found.append(heappop(idle))
            heappush(running, (end, found[-1]))
        lane[jobs] = found
    return ids(lane)


def _joined(parts: Sequence[Rows]) -> Rows:
    return np.concatenate([np.zeros(0, np.int64), *parts]) if len(parts) != 1 else parts[0]


def _begins(sizes: Sequence[int]) -> list[int]:
    begins: list[int] = (np.cumsum(sizes) - sizes).tolist() if sizes else []
    return begins
