"""The critical path of a run: back from the task that ended last, through whatever delayed each start.

A task starts when the last event that it needs has come, or later, when its resource is free. In the first case the
path goes on with the task whose event it was: if its end, with that task; if its start, with whatever delayed that
start. In the second case it goes on with the task that left the resource at that moment. So each task on the path ends
exactly when the next one starts, and their lengths add up to the makespan.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from simulator.columns import Ids, ids
from simulator.execution.trace import Event, TraceTasks

_END, _START, _FIRST = map(int, Event)  # compared faster than members


def critical_path(tasks: TraceTasks) -> Ids:
    """Rows of tasks in order of time, from one that starts at 0 to one that ends last; ties go to the lower row.

    Of several events of the last moment the path takes a start before an end, and then the first of `TraceTasks.need`.
    """
    if not len(tasks.kind):
        return ids([])
    causes, last = _causes(tasks), int(np.argmax(tasks.end_ns))
    after, pending = {last: last}, [last]  # after: the step towards the end; ~task: a task by its start alone
    while pending:
        at = pending.pop()
        found = causes(at if at >= 0 else ~at)
        if not found:
            break
        for cause in reversed(found):
            if cause not in after:
                after[cause] = at
                pending.append(cause)
    path = [at]
    while path[-1] != last:
        path.append(after[path[-1]])
    return ids([task for task in path if task >= 0])


def _causes(tasks: TraceTasks) -> Callable[[int], list[int]]:
    """The function that says what a task waited for last: tasks, or ~task: its start. [] for those that start first."""
    lasting = np.flatnonzero((tasks.end_ns > tasks.start_ns) & (tasks.resource >= 0))
    lasting = lasting[np.lexsort((-lasting, tasks.end_ns[lasting], tasks.resource[lasting]))]
    bounds = np.searchsorted(tasks.resource[lasting], np.arange(int(tasks.resource.max(initial=0)) + 2))
    ends: list[int] = bounds.tolist()
    left_ns, start, end = tasks.end_ns[lasting], tasks.start_ns, tasks.end_ns

    def causes(task: int) -> list[int]:
        begin, ready = start[task], tasks.ready_ns[task]
        if begin > ready:
            where = tasks.resource[task]
            return [int(lasting[bisect_right(left_ns, begin, ends[where], ends[where + 1]) - 1])]
        needed = slice(tasks.need_ptr[task], tasks.need_ptr[task + 1])
        needs = list(zip(tasks.need[needed].tolist(), tasks.event[needed].tolist(), strict=True))
        gates = [end[other] for other, event in needs if event == _FIRST]
        first = min(gates, default=ready)  # a value that came last, but not first, was not needed
        found = [~other for other, event in needs if event == _START and start[other] == ready]
        found += [other for other, event in needs if event == _END and end[other] == ready]
        if first == ready:
            found += [other for other, event in needs if event == _FIRST and end[other] == ready]
        return found

    return causes
