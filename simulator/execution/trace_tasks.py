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

from simulator.columns import Ids, Ints, flags, ids, ints, pointers, stable_order
from simulator.execution.tables import Tables
from simulator.execution.task_graph import TaskGraph
from simulator.execution.trace import Event, Kind, OpInstances, Trace, TraceTasks, TraceTransfers

if TYPE_CHECKING:
    from simulator.partitioning.partitions import Partitions

Rows = npt.NDArray[np.integer]


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


class _Gathered(NamedTuple):
    """The tasks of several steps. Axis: R of them all."""

    task: Rows  # [R] row of the lowered tasks
    step: Rows  # [R] which step
    is_op: npt.NDArray[np.bool_]  # [R]
    key: Rows  # [R] of the step and the transfer, in their order
    transfers: Rows  # keys of all transfers, ascending


def _gathered(lowered: TaskGraph, tables: Tables, steps: Sequence[StepTimes]) -> _Gathered:
    task = _joined([step.tasks for step in steps])
    of_step = np.repeat(np.arange(len(steps)), [len(step.tasks) for step in steps])
    key = of_step * len(lowered.transfers) + lowered.transfer[task]
    first = task == np.append(lowered.first, -1)[lowered.transfer[task]]
    return _Gathered(task, of_step, task < len(tables), key, np.sort(key[first]))


def trace_tasks(lowered: TaskGraph, tables: Tables, steps: Sequence[StepTimes]) -> TraceTasks:
    """The tasks of these steps with times, lanes and needs: those of the loop first, then those it does without."""
    tasks, (own, _, is_op, key, transfers) = lowered.tasks, _gathered(lowered, tables, steps)
    devices, count = len(tables.devices), len(own)
    late, asked = np.flatnonzero(lowered.late_ns[own] > 0), np.flatnonzero(tasks.release_ns[own] > 0)
    more = len(late) + len(asked)
    through = _joined([step.end_ns for step in steps]) - lowered.late_ns[own]
    released = _joined([step.release_ns for step in steps])[asked]
    posted = released - tasks.release_ns[own[asked]]
    ready = np.concatenate([*(step.ready_ns for step in steps), through[late], posted])
    start = np.concatenate([*(step.start_ns for step in steps), through[late], posted])
    end = np.concatenate([through, through[late] + lowered.late_ns[own[late]], released])
    kind = np.concatenate([lowered.kind[own], np.repeat([Kind.LATENCY, Kind.REQUEST], [len(late), len(asked)])])
    of = np.where(is_op, np.cumsum(is_op) - 1, np.searchsorted(transfers, key))
    where, nothing = tasks.resource[own], np.full(more, -1)
    single = (where >= 0) & (where < tables.routes.first_shared)  # a device or a link
    resource = np.where(single, where, -1)
    resource[is_op] = lowered.device[own[is_op]]
    lane = np.where(single, 0, -1)
    if steps and steps[0].lane is not None:
        given = _joined([step.lane for step in steps if step.lane is not None])
        lane = np.where((where >= 0) & (where < devices), given, lane)
    else:
        lane += pack_lanes(resource, start[:count], end[:count], lane >= 0, tables.lanes)
    source, target, event = _needs(lowered, steps, own, late, asked)
    by_target = stable_order(target)
    return TraceTasks(
        kind=ids(kind),
        of=ids(np.concatenate([of, of[late], of[asked]])),
        resource=ids(np.concatenate([resource, nothing])),
        lane=ids(np.concatenate([lane, nothing])),
        ready_ns=ints(ready),
        start_ns=ints(start),
        end_ns=ints(end),
        need_ptr=pointers(target, count + more),
        need=ids(source[by_target]),
        event=ids(event[by_target]),
        devices=devices,
    )


def _needs(
    lowered: TaskGraph, steps: Sequence[StepTimes], own: Rows, late: Rows, asked: Rows
) -> tuple[Rows, Rows, Rows]:
    """[E] rows of tasks, rows that need their events, and these events."""
    tasks, count, sizes = lowered.tasks, len(own), np.array([len(step.tasks) for step in steps], np.int64)
    begin = np.repeat(np.cumsum(sizes) - sizes, sizes)  # row with which the step of each begins
    place = np.full(len(lowered.kind), -1)  # of each task in its step
    place[own] = np.arange(count) - begin
    latency, request = count + np.arange(len(late)), count + len(late) + np.arange(len(asked))
    ended = np.arange(count)  # the row whose end is that of the task
    ended[late] = latency
    told = tasks.next_to[own] - tasks.next_from[own]
    at = np.repeat(tasks.next_from[own] - np.cumsum(told) + told, told) + np.arange(told.sum())
    by, successor = np.repeat(np.arange(count), told), tasks.successor[at]
    reader = place[np.where(successor < 0, ~successor, successor)]
    inside = np.flatnonzero(reader >= 0)  # the end of a step is not recorded
    by, reader, event = by[inside], reader[inside], np.where(successor[inside] < 0, Event.FIRST, Event.END)
    on = np.flatnonzero(tasks.onward[own] >= 0)
    return (
        np.concatenate([ended[by], on, late, request]),
        np.concatenate([begin[by] + reader, begin[on] + place[tasks.onward[own[on]]], latency, asked]),
        np.concatenate([event, np.full(len(on), Event.START), np.full(len(late) + len(asked), Event.END)]),
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
    all_of = _gathered(lowered, tables, steps)
    inserted, row = np.zeros(len(tables), bool), np.full(len(tables), -1)
    unknown = np.zeros(len(tables), bool)
    for cut, (first, last) in zip(pieces, pairwise(op_ptr.tolist()), strict=True):
        node, of_node = tables.node[first:last], np.full(len(cut.graph), -1)
        of_node[cut.send] = np.arange(len(cut.send))
        inserted[first:last], row[first:last] = cut.inserted[node], of_node[node]
        unknown[first:last] = np.append(cut.nbytes < 0, False)[of_node[node]]
    op, step = all_of.task[all_of.is_op], all_of.step[all_of.is_op]
    carried_in, transfer = np.divmod(all_of.transfers, max(len(lowered.transfers), 1))
    tensor = lowered.transfers.tensor[transfer]
    sender, nbytes = tables.tensor_op[tensor], tables.tensor_bytes[tensor]
    client, number = ids([one.client for one in steps]), ids([one.number for one in steps])
    return Trace(
        tasks=tasks,
        instances=OpInstances(
            node=ids(tables.node[op]),
            iteration=ids(tables.iteration[op]),
            shown=flags(~(inserted[op] | tables.silent[op])),
            client=ids(client[step]),
            step=ids(number[step]),
        ),
        transfers=TraceTransfers(
            row=ids(row[sender]),
            nbytes=ints(np.where(unknown[sender] & ~tables.silent[sender] & (nbytes == 0), -1, nbytes)),
            iteration=ids(tables.iteration[sender]),
            dead=flags(tables.silent[sender]),
            client=ids(client[carried_in]),
            step=ids(number[carried_in]),
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
