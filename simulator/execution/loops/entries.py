"""Trips that vary from entry to entry of a loop, as where a triangle of a matrix is gone through.

The start or bound of such a loop hangs on a counter around it, and the trips around it are known before. So all that
enters it is a column with an entry per iteration around it, and so is its condition. Else each set of numbers that
enters is walked through. Those of an observed loop add up to what it ran in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from simulator.columns import Flags, Ints
from simulator.execution.loops.frames import Output
from simulator.execution.loops.iterations import iteration_spaces
from simulator.execution.loops.observations import SeenTrips, dealt
from simulator.execution.loops.origins import PASSED_ON, origin
from simulator.execution.loops.values import (
    KnownValues,
    ValueColumns,
    column,
    computed,
    entering,
    trips_of_entries,
)
from simulator.execution.loops.walking import walk
from simulator.limits import UNROLLED
from simulator.shapes.dims import Value

_WIDER = 16  # times as many iterations are looked at next
_MAX_WALKS = 64  # sets of numbers that enter


def trips_by_entry(
    values: KnownValues,
    left: Sequence[tuple[int, Output]],
    extra: Sequence[int],
    ends: dict[int, Ints],
    *,
    exact: bool,
) -> dict[int, int]:
    """The most trips of the loops whose trips are known of each entry; `ends` gets those that vary."""
    found = dict[int, int]()
    for row, condition in left:
        trips = _trips_of_each(values, row, condition, extra, exact=exact)
        if trips is not None:
            found[row] = int(trips.max(initial=0))
            if (trips != found[row]).any():
                ends[row] = trips
    return found


def count_around(values: KnownValues, frame: int) -> list[int] | None:
    """The trips of all loops, 0 where unknown; None where they are unknown around this one, or it is in no other."""
    nest = values.flow.loop_nest(frame)[:-1]
    known = nest and all(values.trips[row] is not None for row in nest)
    return [0 if one is None else one for one in values.trips] if known else None


def _trips_of_each(
    values: KnownValues, frame: int, condition: Output, extra: Sequence[int], *, exact: bool
) -> Ints | None:
    """[iterations around the loop] how often its body runs when it is entered there, 0 where it is not entered.

    None for a loop that is in no other, and where the graph does not determine it. Of an And of which one half is
    unknown, the other half gives an upper bound, which is no answer if it must be exact.
    """
    nest, count = values.flow.loop_nest(frame)[:-1], count_around(values, frame)
    if count is None:
        return None
    limit = UNROLLED.most // iteration_spaces(values.flow, count, extra)[frame].outer
    while count[frame] < limit:
        count[frame] = min(limit, _WIDER * max(1, count[frame]))
        columns = ValueColumns(values, iteration_spaces(values.flow, count, extra))
        runs, held = bodies(columns, nest), _held(columns, condition, exact=exact)
        if held is None or len(held) != columns.spaces[frame].size:
            walks = entry_walks(columns, frame, condition, runs)
            if walks is not None:
                values.by_entry.update(walks[1])
            return None if walks is None else walks[0]
        holds = held.reshape(len(runs), -1) != 0
        if not holds[runs].all(axis=1).any():
            return np.where(runs, holds.argmin(axis=1), 0)
    return None


def observed_by_entry(values: KnownValues, frame: int, seen: SeenTrips, extra: Sequence[int]) -> Ints:
    """[iterations around the loop] trips that add up to what was seen, spread evenly.

    Where it was not entered in each iteration around it, all entries have the mean.
    """
    count = count_around(values, frame)
    if count is None:
        return np.array([seen.mean])
    columns = ValueColumns(values, iteration_spaces(values.flow, count, extra))
    runs = bodies(columns, values.flow.loop_nest(frame)[:-1])
    whole, among = (seen.ran, seen.entered) if int(runs.sum()) == seen.entered else (seen.mean, 1)
    return np.where(runs, dealt(whole, among, np.cumsum(runs)), 0)


def bodies(columns: ValueColumns, nest: Sequence[int]) -> Flags:
    """[iterations of the innermost loop of a nest] whether its body runs then, and those around it."""
    runs = np.ones(1, np.bool_)
    for row in nest:
        trips = trips_of_entries(columns, row)[:, None]
        runs = ((np.arange(columns.spaces[row].width) < trips) & runs[:, None]).reshape(-1)
    return runs


def _held(columns: ValueColumns, condition: Output, *, exact: bool) -> Ints | None:
    """The truth of a condition in each iteration; of half an And where that is enough."""
    flow, found = columns.values.flow, column(columns, *condition)
    joint = origin(flow, condition, PASSED_ON)
    if found is None and not exact and joint is not None and flow.ops.kind[joint[0]] == "LogicalAnd":
        halves = [column(columns, *at) for at in flow.values(joint[0])]
        return next((half for half in halves if half is not None), None)
    return found


def entry_walks(
    columns: ValueColumns, frame: int, condition: Output, runs: Flags
) -> tuple[Ints, dict[Output, Ints]] | None:
    """As `_trips_of_each`, and [entries, iterations] the numbers met, by a walk for each set of numbers that enters.

    Of many sets nothing is found.
    """
    values, flow = columns.values, columns.values.flow
    enters = [op for op, row in flow.child.items() if row == frame]
    brought = {op: given.reshape(len(runs), -1)[:, 0] for op in enters if (given := column(columns, op, 0)) is not None}
    table = np.stack([*brought.values(), np.zeros(len(runs), np.int64)], axis=1)
    sets, which = np.unique(table[runs], axis=0, return_inverse=True)
    if not 1 <= len(sets) <= _MAX_WALKS:
        return None
    bring = [partial(_entering, values, dict(zip(brought, numbers, strict=False))) for numbers in sets.tolist()]
    found = [walk(flow, frame, condition, one, partial(computed, values), len(sets)) for one in bring]
    courses = [course for course in found if course is not None]
    if len(courses) < len(found):
        return None
    trips = np.zeros(len(runs), np.int64)
    trips[runs] = np.array([course.trips for course in courses])[which.reshape(-1)]
    longest, met = max(course.trips for course in courses) + 1, dict[Output, Ints]()
    for at in courses[0].numbers:
        of_sets = [course.numbers.get(at, []) for course in courses]
        if all(of_sets):
            met[at] = np.zeros((len(runs), longest), np.int64)
            padded = [numbers + numbers[-1:] * (longest - len(numbers)) for numbers in of_sets]
            met[at][runs] = np.array(padded)[which.reshape(-1)]
    return trips, met


def _entering(values: KnownValues, numbers: dict[int, int], enter: int) -> Value | None:
    return (numbers[enter],) if enter in numbers else entering(values, enter)
