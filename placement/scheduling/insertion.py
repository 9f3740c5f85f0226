"""Insertion: an op may slip into a gap between ops that were entered before it, as in HEFT.

Functions over columns (`running`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from placement.columns import Columns
from placement.plan import Plan, makespan
from placement.problem import Problem
from placement.scheduling.running import Runner, listed
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
from simulator.units import PS_PER_NS, Nanos

_ROOM = 4  # intervals that a lane has room for at first


@dataclass(frozen=True, eq=False)
class Schedule:
    """A step that is scheduled, in columns of its runner. Axes: n ops, G groups."""

    problem: Problem
    device: Sequence[int] | Ints  # [G]
    decider: Sequence[int] | Ints  # [G] the op by which the group was decided, -1: by none
    start: Sequence[Nanos] | Ints  # [n]


class Lanes(NamedTuple):
    """The busy times of each lane: disjoint intervals in order, touching ones joined. Axes: L lanes, I intervals."""

    of_device: Ints  # [D+1] first lane of each device
    low: Ints  # [L] where the lane's intervals begin
    filled: Ints  # [L] how many
    most: Ints  # [L] for which there is room
    starts: Ints  # [I]
    ends: Ints  # [I]
    used: Ints  # [1] room that lanes have


class Wishes(NamedTuple):
    """The order of the ops, and what an algorithm asks for."""

    order: Ints  # [n] the ops, each after its inputs
    only: Ints  # [n] the device to which the op goes if it may, -1: any; empty: any
    after_ps: Ints  # [n * D] added to the end on each device, in picoseconds; empty: nothing


def open_lanes(runner: Runner, lanes: Sequence[int], ops: int) -> Lanes:
    """Lanes on which nothing runs, with room for so many ops."""
    count = sum(lanes)
    room = _ROOM * (count + ops) + _ROOM
    return Lanes(
        of_device=runner.of(np.cumsum([0, *lanes])),
        low=runner.of(np.arange(count) * _ROOM),
        filled=runner.new(count),
        most=runner.new(count, _ROOM),
        starts=runner.new(room),
        ends=runner.new(room),
        used=runner.new(1, count * _ROOM),
    )


def by_insertion(
    problem: Problem,
    runner: Runner,
    order: npt.ArrayLike,
    *,
    only: npt.ArrayLike = (),
    after_ps: Ints | None = None,
) -> Schedule:
    """Enter the ops in that order, each where it ends first: on its device in `only`, else on any that it may use.

    Of equals the first device counts. With `after_ps` [n * D] the smallest sum of it and the end wins.
    """
    table = open_timetable(problem, runner)
    lanes = open_lanes(runner, problem.tables.lanes.tolist(), len(problem.group))
    wishes = Wishes(runner.of(order), runner.of(only), runner.new(0) if after_ps is None else after_ps)
    runner.run(enter_all, table, lanes, wishes)
    return scheduled(problem, table)


def scheduled(problem: Problem, table: Timetable) -> Schedule:
    """The schedule of a timetable in which all is entered. Raises InfeasibleError where a group found no room."""
    require_room(problem, table)
    return Schedule(problem, table.device, table.decider, table.start)


def enter_all(step: Columns, table: Timetable, lanes: Lanes, wishes: Wishes) -> None:
    """Enter all ops."""
    for at in range(len(wishes.order)):
        op = wishes.order[at]
        if not floats(step, table, op):
            _enter(step, table, lanes, wishes, op)
        if table.failed[0] >= 0:
            return
    close(step, table)


def _enter(step: Columns, table: Timetable, lanes: Lanes, wishes: Wishes, op: int) -> None:
    """Enter an op where the sum of its end and what must follow is least."""
    group, devices, least = step.group[op], len(step.lanes), needed(step, table, op)
    low, high = step.set_first[step.allowed[group]], step.set_first[step.allowed[group] + 1]
    own = -1
    if len(wishes.only):
        for at in range(low, high):
            if step.device[at] == wishes.only[op] and may_use(table, group, step.device[at], least):
                own = step.device[at]
    best, best_ps, begun, chosen, room = 0, 0, 0, -1, -1
    for at in range(low, high):
        device = step.device[at]
        if not may_use(table, group, device, least) or (own >= 0 and device != own):
            continue
        length, more, rest = step.run_ns[op * devices + device], 0, 0
        if len(wishes.after_ps):
            entry = wishes.after_ps[op * devices + device]
            more, rest = entry // PS_PER_NS, entry % PS_PER_NS
        there = arrival(step, table, op, device)
        end = there + length + more
        if chosen >= 0 and (end > best or (end == best and rest >= best_ps)):
            continue
        if step.instant[op]:
            best, best_ps, begun, chosen = there + more, rest, there, device
            continue
        for lane in range(lanes.of_device[device], lanes.of_device[device + 1]):
            start = earliest(lanes, lane, there, length)
            end = start + length + more
            if chosen < 0 or end < best or (end == best and rest < best_ps):
                best, best_ps, begun, chosen, room = end, rest, start, device, lane
    if chosen < 0:
        return
    end = begun if step.instant[op] else begun + step.run_ns[op * devices + chosen]
    if room >= 0:
        occupy(lanes, room, begun, end)
    table.start[op] = begun
    settle(step, table, op, chosen, end)


def earliest(lanes: Lanes, lane: int, ready: int, length: int) -> int:
    """The first time from `ready` on at which the lane is free for so long; it may lie in a gap."""
    starts, ends, high = lanes.starts, lanes.ends, lanes.low[lane] + lanes.filled[lane]
    place, start = _behind(lanes, lane, ready), ready
    while place < high and start + length > starts[place]:
        if ends[place] > start:
            start = ends[place]
        place += 1
    return start


def _behind(lanes: Lanes, lane: int, when: int) -> int:
    """The place of the lane's first interval that ends later."""
    low = lanes.low[lane]
    high = low + lanes.filled[lane]
    while low < high:
        middle = (low + high) >> 1
        if lanes.ends[middle] <= when:
            low = middle + 1
        else:
            high = middle
    return low


def occupy(lanes: Lanes, lane: int, start: int, end: int) -> None:
    """Enter work that `earliest` found room for."""
    if start == end:
        return
    starts, ends = lanes.starts, lanes.ends
    place, low, high = _behind(lanes, lane, start), lanes.low[lane], lanes.low[lane] + lanes.filled[lane]
    before = place > low and ends[max(place - 1, 0)] == start
    after = place < high and starts[min(place, len(starts) - 1)] == end
    if before and after:
        ends[place - 1] = ends[place]
        for at in range(place, high - 1):
            starts[at], ends[at] = starts[at + 1], ends[at + 1]
        lanes.filled[lane] -= 1
    elif before:
        ends[place - 1] = end
    elif after:
        starts[place] = start
    else:
        if lanes.filled[lane] == lanes.most[lane]:
            place += _widened(lanes, lane)
        at = lanes.low[lane] + lanes.filled[lane]
        while at > place:
            starts[at], ends[at] = starts[at - 1], ends[at - 1]
            at -= 1
        starts[place], ends[place] = start, end
        lanes.filled[lane] += 1


def _widened(lanes: Lanes, lane: int) -> int:
    """Move a lane's intervals to where there is room for twice as many: how far."""
    low, to = lanes.low[lane], lanes.used[0]
    for at in range(lanes.filled[lane]):
        lanes.starts[to + at], lanes.ends[to + at] = lanes.starts[low + at], lanes.ends[low + at]
    lanes.low[lane] = to
    lanes.most[lane] *= 2
    lanes.used[0] += lanes.most[lane]
    return to - low


# --- plans ------------------------------------------------------------------------------------------------------------


def plans(schedule: Schedule) -> tuple[Plan, Plan]:
    """The plan of a schedule, without an order of ops and with that of their starts."""
    plan = Plan(listed(schedule.device), decider=listed(schedule.decider))
    return plan, replace(plan, priority=by_start(schedule.problem, schedule.start))


def better(schedule: Schedule) -> Plan:
    """Of the plans of a schedule the one that ends first in the simulator; of equals that without an order."""
    problem, (plan, ordered) = schedule.problem, plans(schedule)
    return ordered if makespan(problem, ordered) < makespan(problem, plan) else plan


def by_start(problem: Problem, start: Sequence[Nanos] | Ints) -> list[int]:
    """[N] nodes in the order in which they start, ties by row; one in a loop has the place of its first iteration.

    A node that never runs or takes no time comes last, for it never waits in a queue.
    """
    order = np.argsort(np.asarray(start), kind="stable")
    place = np.full(len(problem.graph), len(start))
    turns = np.flatnonzero(~problem.tables.instant[order])
    np.minimum.at(place, problem.tables.node[order[turns]], turns)
    return place.tolist()
