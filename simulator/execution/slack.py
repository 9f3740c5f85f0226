"""ALAP times: the latest ends of all tasks of a simulated step that leave the step as long as it is.

The step is walked from its end backwards: a task may end when the first of those that follow it must start. A task is
followed by those that need it, and by those that came after it in its lane or in the queue of its link, where nobody
may overtake. An input that reaches a Merge after the one that woke it gets no slack.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.columns import Ints, ints
from simulator.execution.trace import Event, TraceTasks


def latest_ends(tasks: TraceTasks) -> Ints:
    """[J] the latest end of each task of one step, none before its actual one, none after the makespan."""
    start, end, count = tasks.start_ns.tolist(), tasks.end_ns.tolist(), len(tasks.kind)
    latest, waits = [max(end, default=0)] * count, [0] * count
    before: list[list[tuple[int, int]]] = [[] for _ in range(count)]  # task, and from its end to the follower's start
    fixed = set[int]()
    for task, follower, apart in (*_needed(tasks), *_in_turn(tasks)):
        if end[task] + apart > start[follower]:
            fixed.add(task)
        else:
            before[follower].append((task, apart))
            waits[task] += 1
    free = [task for task in range(count) if not waits[task]]
    while free:
        task = free.pop()
        if task in fixed:
            latest[task] = end[task]
        begin = latest[task] - (end[task] - start[task])
        for earlier, apart in before[task]:
            latest[earlier] = min(latest[earlier], begin - apart)
            waits[earlier] -= 1
            if not waits[earlier]:
                free.append(earlier)
    # what waits for itself by a Merge that did not wait for it has no latest time
    return ints([end[task] if waits[task] else latest[task] for task in range(count)])


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
