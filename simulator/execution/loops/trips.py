"""Trip counts: how often the body of each loop runs: as requested, as observed, as the graph determines it, or once.

The graph determines it where the loop's condition compares counters with constant start, step and bound. This covers
`maximum_iterations`, which becomes such a comparison, and the loop of a gradient, which counts down from the count of
its forward loop. Any other loop is walked through (`walking`). So is a counted one whose other numbers may end a loop
in it or decide a branch. Where data may end a loop as well, its counters say how often it runs at most, and so often
it runs.

The trips of a loop may vary from entry to entry, as where a triangle of a matrix is gone through. Its start or bound
hangs on a counter around it, and the trips around it are known before. So all that enters it is a column with an entry
per iteration around it, and so is its condition. Else each set of numbers that enters is walked through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np

from simulator.columns import Flags, Ints
from simulator.execution.loops.frames import Flow, Output
from simulator.execution.loops.iterations import iteration_spaces
from simulator.execution.loops.observations import observed_trips
from simulator.execution.loops.origins import PASSED_ON, Merged, find_pops, origin
from simulator.execution.loops.reasons import EVERY, NAMED, Reason, check_trips
from simulator.execution.loops.values import (
    KnownValues,
    ValueColumns,
    column,
    computed,
    entering,
    holds_for,
    trips_of_entries,
)
from simulator.execution.loops.walking import Numbers, Walk, walk
from simulator.execution.options import SimulationOptions
from simulator.graph.op_classes import EXITS, SWITCHES
from simulator.limits import UNROLLED
from simulator.partitioning.partitions import RECVS, SENDS
from simulator.shapes.dims import Value
from simulator.wording import counted, some

_WIDER = 16  # times as many iterations are looked at next
_MAX_WALKS = 64  # sets of numbers that enter


@dataclass(frozen=True, slots=True)
class Trips:
    """The trip count of each frame, the most of its entries. Axis: frames, the root first."""

    count: list[int]
    reason: list[Reason]
    ends: Mapping[int, Ints]  # frame -> trips of each entry, where these vary


def find_trips(
    flow: Flow, options: SimulationOptions, merged: Merged, chosen: Mapping[str, int], extra: Sequence[int]
) -> tuple[Trips, KnownValues]:
    """The trips of every frame, and the values that were found on the way; `chosen` counts go before all others.

    `extra` iterations begin after the last one of each frame.
    """
    requested, seen = options.trips, observed_trips(flow, options.observed)
    check_trips(requested, [frame.name for frame in flow.frames[1:]])
    originals = _originals(flow)
    count: list[int | None] = [0]
    reason = [Reason.REQUESTED]
    for row, frame in enumerate(flow.frames[1:], start=1):
        said = [requested[name] for name in (frame.name, originals.get(row, frame.name), EVERY) if name in requested]
        given = chosen.get(frame.name, said[0] if said else None)
        is_chosen, is_seen = frame.name in chosen, given is None and row in seen
        count.append(seen[row] if is_seen else None if given is None else int(given))
        asked = Reason.DEFAULT if given is None else Reason.REQUESTED
        reason.append(Reason.CHOSEN if is_chosen else Reason.OBSERVED if is_seen else asked)
    conditions, pops = find_conditions(flow), find_pops(flow, merged)
    walked: Numbers = {}
    ends: dict[int, Ints] = {}
    through = set[int]()
    by_entry: dict[Output, Ints] = {}
    branching = set() if options.branches else {flow.frame[merge] for merge in merged.unknown}
    for bound in (Reason.KNOWN, Reason.AT_MOST):  # what hangs on a loop that may end before may end before, too
        while True:  # one loop may count down from the count of another
            values = KnownValues(flow, pops, merged, count, walked=walked, ends=ends, by_entry=by_entry)
            left = [(row, conditions[row]) for row, one in enumerate(count) if one is None and row in conditions]
            found = {
                row: known for row, at in left if (known := _known_trips(values, row, at, bound)) is not None
            } or _by_entry(values, left, extra, ends, exact=bound is Reason.KNOWN)
            around = (at for row, _ in left for at in flow.loop_nest(row)[:-1])
            if not found and not _walk_through(values, {*around, *branching}, conditions, through, extra):
                break
            for row, known in found.items():
                count[row], reason[row] = known, bound
    final = [1 if one is None else one for one in count]
    values = KnownValues(flow, pops, merged, list(final), walked=walked, ends=ends, by_entry=by_entry)
    for row in [row for row in conditions if reason[row] is Reason.OBSERVED]:  # the order of its branches is known too
        if holds_for(values, *conditions[row], exact=True) is None:
            course = _course(values, row, conditions[row])
            if course is not None and course.trips == final[row]:
                walked.update(course.numbers)
    return Trips(final, reason, ends), values


def _originals(flow: Flow) -> dict[int, str]:
    """Frame -> the name of the loop of which replication made a copy."""
    copies, found = flow.graph.copies, dict[int, str]()
    for enter, row in flow.child.items():
        name = flow.graph.names[int(flow.ops.node[enter])]
        prefix = name.removesuffix(copies.get(name, name))
        if prefix:
            found[row] = flow.frames[row].name.removeprefix(prefix)
    return found


def find_conditions(flow: Flow) -> dict[int, Output]:
    """Frame -> the predicate that keeps its loop going: its LoopCond, or that of the Switch before an Exit."""
    found: dict[int, Output] = {}
    for op in flow.order:
        if flow.ops.kind[op] == "LoopCond" and flow.frame[op]:
            found.setdefault(flow.frame[op], (op, 0))
    for op in flow.order:
        if flow.ops.kind[op] in EXITS and flow.frame[op] not in found:
            at = flow.value(op)
            stops = at is not None and flow.ops.kind[at[0]] in SWITCHES and at[1] == 0
            condition = origin(flow, flow.value(at[0], 1) if stops and at is not None else None, SENDS | RECVS)
            if condition is not None and flow.frame[condition[0]] == flow.frame[op]:
                found[flow.frame[op]] = condition
    return found


def _by_entry(
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
        trips = _trips_by_entry(values, row, condition, extra, exact=exact)
        if trips is not None:
            found[row] = int(trips.max(initial=0))
            if (trips != found[row]).any():
                ends[row] = trips
    return found


def _walk_through(
    values: KnownValues, asked: Iterable[int], conditions: Mapping[int, Output], through: set[int], extra: Sequence[int]
) -> bool:
    """Walk through more of the loops that are asked for, whose trips are known without that; True: one was.

    Counters said how often such a loop runs. Other numbers that it computes may end a loop in it, or decide a branch.
    """
    new = [row for row in sorted(set(asked) - through) if values.trips[row] is not None and row in conditions]
    through.update(new)
    known = len(values.walked), len(values.by_entry)
    for row in new:
        course = _course(values, row, conditions[row])
        if course is not None and row not in values.ends and course.trips == values.trips[row]:
            values.walked.update(course.numbers)
        elif course is None and (count := _count_around(values, row)) is not None:
            columns = ValueColumns(values, iteration_spaces(values.flow, count, extra))
            runs = _bodies(columns, values.flow.loop_nest(row)[:-1])
            walks = _entry_walks(columns, row, conditions[row], runs)
            if walks is not None and np.array_equal(walks[0], np.where(runs, trips_of_entries(columns, row), 0)):
                values.by_entry.update(walks[1])
    return (len(values.walked), len(values.by_entry)) != known


def _count_around(values: KnownValues, frame: int) -> list[int] | None:
    """The trips of all loops, 0 where unknown; None where they are unknown around this one, or it is in no other."""
    nest = values.flow.loop_nest(frame)[:-1]
    known = nest and all(values.trips[row] is not None for row in nest)
    return [0 if one is None else one for one in values.trips] if known else None


def _known_trips(values: KnownValues, frame: int, condition: Output, bound: Reason) -> int | None:
    """The trips of a loop by its counters, else by a walk through it, else, as AT_MOST, by its counters alone."""
    found = holds_for(values, *condition, exact=True)
    if found is None and (course := _course(values, frame, condition)) is not None:
        values.walked.update(course.numbers)
        return course.trips
    if found is None and bound is Reason.AT_MOST:
        found = holds_for(values, *condition)
    return None if found is None or found == inf else int(found)


def _course(values: KnownValues, frame: int, condition: Output) -> Walk | None:
    return walk(values.flow, frame, condition, partial(entering, values), partial(computed, values))


def _trips_by_entry(
    values: KnownValues, frame: int, condition: Output, extra: Sequence[int], *, exact: bool
) -> Ints | None:
    """[iterations around the loop] how often its body runs when it is entered there, 0 where it is not entered.

    None for a loop that is in no other, and where the graph does not determine it. Of an And of which one half is
    unknown, the other half gives an upper bound, which is no answer if it must be exact.
    """
    nest, count = values.flow.loop_nest(frame)[:-1], _count_around(values, frame)
    if count is None:
        return None
    limit = UNROLLED.most // iteration_spaces(values.flow, count, extra)[frame].outer
    while count[frame] < limit:
        count[frame] = min(limit, _WIDER * max(1, count[frame]))
        columns = ValueColumns(values, iteration_spaces(values.flow, count, extra))
        runs, held = _bodies(columns, nest), _held(columns, condition, exact=exact)
        if held is None or len(held) != columns.spaces[frame].size:
            walks = _entry_walks(columns, frame, condition, runs)
            if walks is not None:
                values.by_entry.update(walks[1])
            return None if walks is None else walks[0]
        holds = held.reshape(len(runs), -1) != 0
        if not holds[runs].all(axis=1).any():
            return np.where(runs, holds.argmin(axis=1), 0)
    return None


def _bodies(columns: ValueColumns, nest: Sequence[int]) -> Flags:
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


def _entry_walks(
    columns: ValueColumns, frame: int, condition: Output, runs: Flags
) -> tuple[Ints, dict[Output, Ints]] | None:
    """As `_trips_by_entry`, and [entries, iterations] the numbers met, by a walk for each set of numbers that enters.

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


def trip_notes(flow: Flow, trips: Trips) -> list[str]:
    """A note per reason, with the loops and their counts; those that were chosen have notes of their own."""
    notes = []
    for reason, head in (
        (Reason.REQUESTED, "Loops run as asked"),
        (Reason.KNOWN, "Loops run as their constants say"),
        (Reason.AT_MOST, "Loops run as often as their counters allow, though their data may end them before"),
        (Reason.OBSERVED, "Loops run as observed"),
        (Reason.DEFAULT, "Loops of unknown trips run once"),
    ):
        rows = [row for row in range(1, len(trips.count)) if trips.reason[row] is reason]
        names = [flow.loop(row) for row in rows]
        if reason is not Reason.DEFAULT:
            names = [f"{name} {_times(trips, row)}" for name, row in zip(names, rows, strict=True)]
        if rows:
            notes.append(f"{head}: {some(sorted(names), NAMED)}.")
    return notes


def _times(trips: Trips, row: int) -> str:
    if row not in trips.ends:
        return counted(trips.count[row], "time")
    return f"up to {counted(trips.count[row], 'time')}, {int(trips.ends[row].sum()):,} in all"
