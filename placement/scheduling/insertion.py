"""Insertion: an op may slip into a gap between ops that were entered before it, as in HEFT."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from placement.plan import Plan, makespan
from placement.problem import Problem
from placement.scheduling.timetable import Timetable, arrivals, choices, close, open_timetable, settle
from simulator.units import Nanos


@dataclass(slots=True)
class Schedule:
    """A timetable with the busy times of every lane. Axes: n ops, D devices."""

    table: Timetable
    lanes: list[list[Lane]]  # [D] a row per lane
    start: list[Nanos]  # [n]


def open_schedule(problem: Problem) -> Schedule:
    """A schedule in which nothing is placed yet."""
    lanes = [[Lane([], []) for _ in range(count)] for count in problem.tables.lanes.tolist()]
    return Schedule(open_timetable(problem), lanes, [0] * len(problem.group))


def enter(
    schedule: Schedule, op: int, *, devices: Sequence[int] | None = None, after: Sequence[float] | None = None
) -> None:
    """Enter an op where it ends first: on one of `devices`, else on any that it may still use; of equals the first.

    `after` [D] is added to the end on each device, and the smallest sum wins.
    """
    table = schedule.table
    there, run = arrivals(table, op), table.problem.run[op]
    instant = table.problem.instant[op]
    best, begun, chosen = -1.0, 0, -1
    room: Lane | None = None
    for device in choices(table, op) if devices is None else devices:
        length, more = run[device], 0 if after is None else after[device]
        if best >= 0 and there[device] + length + more >= best:
            continue
        if instant:
            best, begun, chosen = there[device] + more, there[device], device
            continue
        for lane in schedule.lanes[device]:
            start = earliest(lane, there[device], length)
            if best < 0 or start + length + more < best:
                best, begun, chosen, room = start + length + more, start, device, lane
    end = begun if instant else begun + run[chosen]
    if room is not None:
        occupy(room, begun, end)
    schedule.start[op] = begun
    settle(table, op, chosen, end)


def plans(schedule: Schedule) -> tuple[Plan, Plan]:
    """The plan of a schedule in which all is entered, without an order of ops and with that of their starts."""
    plan = close(schedule.table)
    return plan, replace(plan, priority=by_start(schedule.table.problem, schedule.start))


def better(problem: Problem, found: tuple[Plan, Plan]) -> Plan:
    """Of a plan without and with an order the one that ends first in the simulator; of equals the first."""
    plan, ordered = found
    return ordered if makespan(problem, ordered) < makespan(problem, plan) else plan


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


# --- the busy times of a lane ----------------------------------------------------------------------------------------


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
