"""Trip counts: how often the body of each loop runs: as requested, as observed, as the graph determines it, or once.

The graph determines it where the loop's condition compares counters with constant start, step and bound. This covers
`maximum_iterations`, which becomes such a comparison, and the loop of a gradient, which counts down from the count of
its forward loop. Any other loop is walked through (`walking`). So is a counted one whose other numbers may end a loop
in it or decide a branch. Where data may end a loop as well, its counters say how often it runs at most, and so often
it runs.

An observed loop that was entered several times shows how often its body ran in all. What the graph determines goes
before that if it adds up to as much, as trips may vary from entry to entry (`entries`). Else they are spread evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np

from simulator.columns import Ints
from simulator.execution.loops.entries import bodies, count_around, entry_walks, observed_by_entry, trips_by_entry
from simulator.execution.loops.frames import Flow, Output
from simulator.execution.loops.iterations import iteration_spaces
from simulator.execution.loops.observations import SeenTrips, observed_trips
from simulator.execution.loops.origins import Merged, find_pops, origin
from simulator.execution.loops.reasons import EVERY, NAMED, Reason, check_trips
from simulator.execution.loops.values import (
    KnownValues,
    ValueColumns,
    computed,
    entering,
    holds_for,
    trips_of_entries,
)
from simulator.execution.loops.walking import LoopRun, Numbers, walk
from simulator.execution.options import SimulationOptions
from simulator.graph.op_classes import EXITS, SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS
from simulator.wording import counted, some


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
        is_chosen, is_seen = frame.name in chosen, given is None and row in seen and seen[row].entered == 1
        count.append(seen[row].mean if is_seen else None if given is None else int(given))
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
            } or trips_by_entry(values, left, extra, ends, exact=bound is Reason.KNOWN)
            around = (at for row, _ in left for at in flow.loop_nest(row)[:-1])
            if not found and not _walk_through(values, {*around, *branching}, conditions, through, extra):
                waiting = [(len(flow.loop_nest(row)), row) for row in seen if count[row] is None]
                if not waiting:
                    break
                found = {min(waiting)[1]: -1}  # fits no observation
            for row, known in found.items():
                is_seen = row in seen and not seen[row].fits(known, ends.get(row))
                count[row] = _as_seen(values, row, seen[row], ends, extra) if is_seen else known
                reason[row] = Reason.OBSERVED if is_seen else bound
    final = [1 if one is None else one for one in count]
    values = KnownValues(flow, pops, merged, list(final), walked=walked, ends=ends, by_entry=by_entry)
    for row in [row for row in conditions if reason[row] is Reason.OBSERVED]:  # the order of its branches is known too
        if holds_for(values, *conditions[row], exact=True) is None:
            course = _course(values, row, conditions[row])
            if course is not None and course.trips == final[row]:
                walked.update(course.numbers)
    return Trips(final, reason, ends), values


def _as_seen(values: KnownValues, frame: int, seen: SeenTrips, ends: dict[int, Ints], extra: Sequence[int]) -> int:
    """The most trips of a loop as observed; `ends` gets those of each entry, and what followed from others goes."""
    for met in (values.walked, values.by_entry):
        for at in [at for at in met if values.flow.frame[at[0]] == frame]:
            del met[at]
    ends.pop(frame, None)
    trips = observed_by_entry(values, frame, seen, extra)
    if not seen.fits(seen.mean, None):
        ends[frame] = trips
    return int(trips.max(initial=0))


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
        elif course is None and (count := count_around(values, row)) is not None:
            columns = ValueColumns(values, iteration_spaces(values.flow, count, extra))
            runs = bodies(columns, values.flow.loop_nest(row)[:-1])
            walks = entry_walks(columns, row, conditions[row], runs)
            if walks is not None and np.array_equal(walks[0], np.where(runs, trips_of_entries(columns, row), 0)):
                values.by_entry.update(walks[1])
    return (len(values.walked), len(values.by_entry)) != known


def _known_trips(values: KnownValues, frame: int, condition: Output, bound: Reason) -> int | None:
    """The trips of a loop by its counters, else by a walk through it, else, as AT_MOST, by its counters alone."""
    found = holds_for(values, *condition, exact=True)
    if found is None and (course := _course(values, frame, condition)) is not None:
        values.walked.update(course.numbers)
        return course.trips
    if found is None and bound is Reason.AT_MOST:
        found = holds_for(values, *condition)
    return None if found is None or found == inf else int(found)


def _course(values: KnownValues, frame: int, condition: Output) -> LoopRun | None:
    return walk(values.flow, frame, condition, partial(entering, values), partial(computed, values))


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
