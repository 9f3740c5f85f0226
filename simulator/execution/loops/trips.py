"""Trip counts: how often the body of each loop runs: as requested, as observed, as the graph determines it, or once.

The graph determines it where the loop's condition compares counters with constant start, step and bound. This covers
`maximum_iterations`, which becomes such a comparison, and the loop of a gradient, which counts down from the count of
its forward loop. Any other loop is walked through (`walking`). Where its data may end it as well, its counters say how
often it runs at most, and so often it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from math import inf

from simulator.errors import SimvizError
from simulator.execution.loops.frames import Flow, Output
from simulator.execution.loops.observations import observed_trips
from simulator.execution.loops.origins import Merged, find_pops, origin
from simulator.execution.loops.values import KnownValues, computed, entering, holds_for
from simulator.execution.loops.walking import Numbers, Walk, walk
from simulator.execution.options import SimulationOptions
from simulator.graph.op_classes import EXITS, SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS
from simulator.wording import counted, near, printable, some

EVERY = "*"  # stands for every loop
NAMED = 3  # loops or predicates that a note names


class Reason(Enum):
    """The reason for a trip count or for the side of a branch."""

    REQUESTED = "requested by the caller"
    DRAWN = "drawn with the probability that the caller gave"
    KNOWN = "determined by the graph"
    AT_MOST = "at most so often by the graph, and its data may end it before"
    OBSERVED = "as in a step that ran"
    CHOSEN = "chosen so that the fetches run"
    DEFAULT = "not determined: one trip, a predicate that holds"


class UnknownNameError(SimvizError):
    """The step has no loop or predicate of a name in `trips` or `branches`."""

    def __init__(self, message: str, option: str, name: str) -> None:
        super().__init__(message)
        self.option = option  # "trips" or "branches"
        self.name = name


@dataclass(frozen=True, slots=True)
class Trips:
    """The trip count of each frame. Axis: frames, the root first."""

    count: list[int]
    reason: list[Reason]


def check_trips(trips: Mapping[str, int], frames: Iterable[str]) -> None:
    """Raise SimvizError for a loop that the step does not have."""
    known = list(frames)
    for name in trips:
        if name != EVERY and name not in known:
            listed = f"its loops are {some([quoted(one) for one in known])}" if known else "it has none"
            raise UnknownNameError(f"The step has no loop {name!r}; {listed}.{near(name, known)}", "trips", name)


def find_trips(
    flow: Flow, options: SimulationOptions, merged: Merged, chosen: Mapping[str, int]
) -> tuple[Trips, KnownValues]:
    """The trips of every frame, and the values that were found on the way; `chosen` counts go before all others."""
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
    for bound in (Reason.KNOWN, Reason.AT_MOST):  # what hangs on a loop that may end before may end before, too
        while True:  # one loop may count down from the count of another
            values = KnownValues(flow, pops, merged, count, walked=walked)
            found = {
                row: known
                for row, one in enumerate(count)
                if one is None and (known := _known_trips(values, row, conditions.get(row), bound)) is not None
            }
            if not found:
                break
            for row, known in found.items():
                count[row], reason[row] = known, bound
    final = [1 if one is None else one for one in count]
    values = KnownValues(flow, pops, merged, list(final), walked=walked)
    for row in [row for row in conditions if reason[row] is Reason.OBSERVED]:  # the order of its branches is known too
        if holds_for(values, *conditions[row], exact=True) is None:
            course = _course(values, row, conditions[row])
            if course is not None and course.trips == final[row]:
                walked.update(course.numbers)
    return Trips(final, reason), values


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


def _known_trips(values: KnownValues, frame: int, condition: Output | None, bound: Reason) -> int | None:
    """The trips of a loop by its counters, else by a walk through it, else, as AT_MOST, by its counters alone."""
    if condition is None:
        return None
    found = holds_for(values, *condition, exact=True)
    if found is None and (course := _course(values, frame, condition)) is not None:
        values.walked.update(course.numbers)
        return course.trips
    if found is None and bound is Reason.AT_MOST:
        found = holds_for(values, *condition)
    return None if found is None or found == inf else int(found)


def _course(values: KnownValues, frame: int, condition: Output) -> Walk | None:
    return walk(values.flow, frame, condition, partial(entering, values), partial(computed, values))


def unused_trips(trips: Mapping[str, int], frames: Sequence[object]) -> tuple[str, ...]:
    """A note where trips were requested and there is no loop."""
    return ("The step has no loop, so trips change nothing.",) if trips and not frames else ()


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
            names = [f"{name} {counted(trips.count[row], 'time')}" for name, row in zip(names, rows, strict=True)]
        if rows:
            notes.append(f"{head}: {some(sorted(names), NAMED)}.")
    return notes


def quoted(name: str) -> str:
    """The name for messages."""
    return f"'{printable(name)}'"
