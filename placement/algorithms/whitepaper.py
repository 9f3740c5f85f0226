"""Greedy placement by simulation: TensorFlow's white paper describes it, and no release of TensorFlow does it.

Abadi et al., "TensorFlow: Large-Scale Machine Learning on Heterogeneous Distributed Systems", 2015, section 3.2.1.
The graph runs in simulation from its sources. When a node becomes ready, every device that may run it is tried: when
would its inputs be there, and how long would it take? It goes to the device on which it ends first.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace

from placement.plan import Plan
from placement.problem import Problem
from placement.scheduling.readiness import at_once, open_waits, released
from placement.scheduling.timetable import Timetable, arrivals, choices, close, floats, open_timetable, settle
from simulator.units import Nanos


def whitepaper(problem: Problem) -> Plan:
    """Give each ready op the device on which it ends first: max(device free, inputs there) + run time.

    Ready ops are taken by the time at which their last input ended, then by row; among devices that end it equally
    early the one that TensorFlow would prefer wins. The first member of a group decides for all. A constant costs
    nothing anywhere, so it goes where it is first used. Raises InfeasibleError when memory runs out on the way.
    """
    table = open_timetable(problem)
    free = [[0] * lanes for lanes in problem.tables.lanes.tolist()]  # [D] heaps: when each lane becomes free
    waits = open_waits(problem)
    queue = [(0, op) for op in at_once(waits)]
    heapify(queue)
    while queue:
        _, op = heappop(queue)
        end = 0 if floats(table, op) else _place(table, free, op)
        for reader in released(waits, op, end):
            heappush(queue, (waits.since[reader], reader))
    return close(table)


def _place(table: Timetable, free: list[list[Nanos]], op: int) -> Nanos:
    """Choose a device for an op and enter it there; returns when it ends."""
    there, run = arrivals(table, op), table.problem.run[op]
    instant = table.problem.instant[op]
    best, chosen = -1, -1
    for device in choices(table, op):
        start = there[device]
        if not instant and free[device][0] > start:
            start = free[device][0]
        end = start + run[device]
        if best < 0 or end < best:
            best, chosen = end, device
    if not instant:
        heapreplace(free[chosen], best)
    settle(table, op, chosen, best)
    return best
