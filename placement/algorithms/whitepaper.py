"""Greedy placement by simulation: TensorFlow's white paper describes it, and no release of TensorFlow does it.

Abadi et al., "TensorFlow: Large-Scale Machine Learning on Heterogeneous Distributed Systems", 2015, section 3.2.1.
The graph runs in simulation from its sources. When a node becomes ready, every device that may run it is tried: when
would its inputs be there, and how long would it take? It goes to the device on which it ends first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement.columns import Columns
from placement.plan import Plan
from placement.problem import Problem
from placement.scheduling.heaps import pop, push, replace_first
from placement.scheduling.readiness import Waits, begin, open_waits, released
from placement.scheduling.running import listed, runner_of
from placement.scheduling.timetable import (
    Timetable,
    arrival,
    close,
    floats,
    may_use,
    needed,
    open_timetable,
    require_room,
    settle,
)
from simulator.columns import Ints


def whitepaper(problem: Problem) -> Plan:
    """Give each ready op the device on which it ends first: max(device free, inputs there) + run time.

    Ready ops are taken by the time at which their last input ended, then by row. Among devices that end an op equally
    early the one that TensorFlow would prefer wins. The first member of a group decides for all. A constant costs
    nothing anywhere, so it goes where it is first used. Raises InfeasibleError when memory runs out on the way.
    """
    runner = runner_of(problem, enter_ready)
    table, lanes = open_timetable(problem, runner), problem.tables.lanes.tolist()
    count = len(problem.group)
    queue = Queue(
        of_device=runner.of(np.cumsum([0, *lanes])),
        free=runner.new(sum(lanes)),
        since=runner.new(count),
        op=runner.new(count),
    )
    runner.run(enter_ready, table, open_waits(runner), queue)
    require_room(problem, table)
    return Plan(listed(table.device), decider=listed(table.decider))


class Queue(NamedTuple):
    """Lanes, and the ops that are ready. Axes: n ops, D devices, L lanes."""

    of_device: Ints  # [D+1] first lane of each device
    free: Ints  # [L] a heap for each device: when each lane becomes free
    since: Ints  # [n] a heap: when the last input ended, op
    op: Ints  # [n]


def enter_ready(step: Columns, table: Timetable, waits: Waits, queue: Queue) -> None:
    """Enter all ops, the one that is ready first next. It runs over columns (`placement.scheduling.running`)."""
    size, fresh = 0, begin(step, waits)
    while size + fresh > 0:
        for at in range(fresh):
            push(queue.since, queue.op, 0, size + at, waits.since[waits.fresh[at]], waits.fresh[at])
        op = queue.op[0]
        size += fresh - 1
        pop(queue.since, queue.op, 0, size + 1)
        end = 0 if floats(step, table, op) else _place(step, table, queue, op)
        if table.failed[0] >= 0:
            return
        fresh = released(step, waits, op, end)
    close(step, table)


def _place(step: Columns, table: Timetable, queue: Queue, op: int) -> int:
    """Choose a device for an op and enter it there; returns when it ends."""
    group, least, best, chosen = step.group[op], needed(step, table, op), 0, -1
    which = step.allowed[group]
    for at in range(step.set_first[which], step.set_first[which + 1]):
        device = step.device[at]
        if not may_use(table, group, device, least):
            continue
        start = arrival(step, table, op, device)
        if not step.instant[op]:
            start = max(start, queue.free[queue.of_device[device]])
        end = start + step.run_ns[op * len(step.lanes) + device]
        if chosen < 0 or end < best:
            best, chosen = end, device
    if chosen >= 0:
        if not step.instant[op]:
            replace_first(queue.free, queue.of_device[chosen], queue.of_device[chosen + 1], best)
        settle(step, table, op, chosen, best)
    return best
