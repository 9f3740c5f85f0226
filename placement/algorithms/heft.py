"""HEFT: heterogeneous earliest finish time.

Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing", IEEE
Transactions on Parallel and Distributed Systems 13(3), 2002. Ops are taken by falling upward rank; each goes to the
device on which it ends first, where it may slip into a gap between ops that were placed before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from placement.plan import Plan, makespan
from placement.problem import Problem, topological, upward_ranks
from placement.timetable import Timetable, arrivals, choices, close, floats, open_timetable, settle
from simulator.units import Nanos


def heft(problem: Problem) -> Plan:
    """Place by rank with insertion; the plan says in which order each device should take its ops, if that helps.

    Ties in rank go to the op that comes first in topological order, ties between devices to the one that TensorFlow
    would prefer. The first member of a group decides for all. Raises InfeasibleError when memory runs out on the way.
    """
    plan, ordered = both(problem)
    return ordered if makespan(problem, ordered) < makespan(problem, plan) else plan


def both(problem: Problem) -> tuple[Plan, Plan]:
    """The plan without an order, and the one with it."""
    plan, start = schedule(problem)
    return plan, replace(plan, priority=by_start(problem, start))


def by_start(problem: Problem, start: Sequence[Nanos]) -> list[int]:
    """[N] nodes in the order in which they start, ties by row; one in a loop has the place of its first iteration.

    A node that never runs or takes no time comes last, for it never waits in a queue.
    """
    place = [len(start)] * len(problem.graph)
    node = problem.tables.node.tolist()
    for turn, op in enumerate(sorted(range(len(start)), key=start.__getitem__)):  # stable
        if not problem.instant[op]:
            place[node[op]] = min(place[node[op]], turn)
    return place


def schedule(problem: Problem) -> tuple[Plan, list[Nanos]]:
    """The plan without an order, and [n] the start of each op."""
    ranks = upward_ranks(problem)
    table = open_timetable(problem)
    lanes = [[Lane([], []) for _ in range(count)] for count in problem.tables.lanes.tolist()]
    start = [0] * len(ranks)
    for op in sorted(topological(problem), key=lambda op: -ranks[op]):  # stable: an op never overtakes its inputs
        if not floats(table, op):
            start[op] = _place(table, lanes, op)
    return close(table), start


def _place(table: Timetable, lanes: list[list[Lane]], op: int) -> Nanos:
    """Choose a device and a time for an op and enter it there; returns when it starts."""
    there, run = arrivals(table, op), table.problem.run[op]
    instant = table.problem.instant[op]
    best, begun, chosen = -1, 0, -1
    room: Lane | None = None
    for device in choices(table, op):
        length = run[device]
        if best >= 0 and there[device] + length >= best:
            continue
        if instant:
            best, begun, chosen = there[device], there[device], device
            continue
        for lane in lanes[device]:
            start = earliest(lane, there[device], length)
            if best < 0 or start + length < best:
                best, begun, chosen, room = start + length, start, device, lane
    if room is not None:
        occupy(room, begun, best)
    settle(table, op, chosen, best)
    return begun


# --- insertion --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Lane:
    """The busy times of one lane: disjoint intervals in order, touching ones joined."""

    starts: list[Nanos]
    ends: list[Nanos]


def earliest(lane: Lane, ready: Nanos, length: Nanos) -> Nanos:
    """The first time from `ready` on at which the lane is free for so long; it may lie in a gap."""
    starts, ends = lane.starts, lane.ends
    place = bisect_right(ends, ready)
    start = ready
    while place < len(starts) and start + length > starts[place]:
        if ends[place] > start:
            start = ends[place]
        place += 1
    return start


def occupy(lane: Lane, start: Nanos, end: Nanos) -> None:
    """Enter work that `earliest` found room for."""
    if start == end:
        return
    starts, ends = lane.starts, lane.ends
    place = bisect_right(ends, start)
    joins_before = place > 0 and ends[place - 1] == start
    joins_after = place < len(starts) and starts[place] == end
    if joins_before and joins_after:
        ends[place - 1] = ends.pop(place)
        del starts[place]
    elif joins_before:
        ends[place - 1] = end
    elif joins_after:
        starts[place] = start
    else:
        starts.insert(place, start)
        ends.insert(place, end)
