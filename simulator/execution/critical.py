"""The critical path of a run, and the slack of its tasks.

The path leads back from the task that ended last, through whatever delayed each start.

A task starts when the last event that it needs has come, or later, when its resource is free. In the first case the
path goes on with the task whose end that event was. If it was a start, the path goes on with whatever delayed that
start. In the second case it goes on with the task that left the resource at that moment. So each task on the path ends
exactly when the next one starts, and their lengths add up to the makespan.

Slack comes from ALAP times: the latest ends of all tasks that leave the step as long as it is. The step is walked from
its end backwards. A task may end when the first of those that follow it must start. Those need it, or came after it in
its lane or in the queue of its link, where nobody may overtake. An input that reaches a Merge after the one that woke
it gets no slack.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

import numpy as np

from simulator.columns import Ids, Ints, ids, ints, stable_order, topological
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
    """Give what a task waited for last: tasks, or ~task: its start. [] for those that start first."""
    lasting = np.flatnonzero((tasks.end_ns > tasks.start_ns) & (tasks.resource >= 0))
    lasting = lasting[stable_order(tasks.resource[lasting], tasks.end_ns[lasting], -lasting)]
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


def latest_ends(tasks: TraceTasks) -> Ints:
    """[J] the latest end of each task of one step, none before its actual one, none after the makespan."""
    start, end, count = tasks.start_ns.tolist(), tasks.end_ns.tolist(), len(tasks.kind)
    makespan = max(end, default=0)
    latest = list(end)  # what waits for itself by a Merge that did not wait for it has no latest time
    after: list[list[tuple[int, int]]] = [[] for _ in range(count)]  # follower, and from the end to its start
    fixed = set[int]()
    for task, follower, apart in (*_needed(tasks), *_in_turn(tasks)):
        if end[task] + apart > start[follower]:
            fixed.add(task)
        else:
            after[task].append((follower, apart))
    follows = np.array([follower for some in after for follower, _ in some], np.int64)
    for task in topological(follows, np.repeat(np.arange(count), [len(some) for some in after]), count):
        if task not in fixed:
            begins = (latest[follower] - (end[follower] - start[follower]) - apart for follower, apart in after[task])
            latest[task] = min([makespan, *begins])
    return ints(latest)


def _needed(tasks: TraceTasks) -> Iterator[tuple[int, int, int]]:
    """Task, one that needs it, and the least time from its end to that start: below 0 where its start is the event."""
    follower = np.repeat(np.arange(len(tasks.kind)), np.diff(tasks.need_ptr))
    length = tasks.end_ns - tasks.start_ns
    apart = np.where(tasks.event == Event.START, -length[tasks.need], 0)
    yield from zip(tasks.need.tolist(), follower.tolist(), apart.tolist(), strict=True)


def _in_turn(tasks: TraceTasks) -> Iterator[tuple[int, int, int]]:
    """The same of tasks in a lane or on a link; of those of no length at one moment nobody knows the order."""
    held = np.flatnonzero(tasks.lane >= 0)
    start, end = tasks.start_ns[held], tasks.end_ns[held]
    held = held[np.lexsort((held, end > start, start, tasks.lane[held], tasks.resource[held]))]
    last, until, where = -1, 0, (-1, -1)  # the last that took time
    since: list[int] = []  # what took no time after it
    columns = (tasks.resource, tasks.lane, tasks.start_ns, tasks.end_ns)
    rows = zip(held.tolist(), *(column[held].tolist() for column in columns), strict=True)
    for task, resource, lane, begin, ends in rows:
        if (resource, lane) != where:
            last, since, where = -1, [], (resource, lane)
        if last >= 0 and until <= begin:
            yield last, task, 0
        if ends == begin:
            since.append(task)
            continue
        yield from ((one, task, 0) for one in since)
        last, until, since = task, ends, []
