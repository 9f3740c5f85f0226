"""How often each loop runs: as asked, else as the graph says, else once.

The graph says it where the loop's condition compares counters with constant start, step and bound; so also
`maximum_iterations`, which becomes such a comparison, and a gradient's loop, which counts down what its forward loop
counted up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from simulator.errors import SimvizError
from simulator.execution.loops.flow import Flow
from simulator.execution.loops.passing import Merged, followed
from simulator.execution.loops.stacks import find_pops
from simulator.execution.loops.values import Values, holds
from simulator.graph.control_flow import EXITS, SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS
from simulator.units import is_whole
from simulator.wording import counted, near, printable, some

EVERY = "*"  # stands for every loop
ASKED, TOLD, CHOSEN, UNKNOWN = "asked", "told", "chosen", "unknown"
NAMED = 3  # loops that a note names


class UnknownLoopError(SimvizError):
    """Trips are given for a loop that the step does not have."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True, slots=True)
class Trips:
    """How often each frame's body runs. Axis: frames, the root first."""

    count: list[int]
    why: list[str]  # ASKED, TOLD, CHOSEN or UNKNOWN


def check_trips(trips: Mapping[str, int] | None, frames: Iterable[str]) -> None:
    """Raise SimvizError for a count that is none, or a loop that the step does not have."""
    known = list(frames)
    for name, count in (trips or {}).items():
        if not is_whole(count) or count < 0:
            raise SimvizError(f"A loop runs a whole number of times, 0 or more; trips[{name!r}] is {count!r}.")
        if name != EVERY and name not in known:
            listed = f"its loops are {some([_quoted(one) for one in known])}" if known else "it has none"
            raise UnknownLoopError(f"The step has no loop {name!r}; {listed}.{near(name, known)}", name)


def find_trips(
    flow: Flow, trips: Mapping[str, int] | None, merged: Merged, chosen: Mapping[str, int]
) -> tuple[Trips, Values]:
    """The trips of every frame, and the values that were found on the way; `chosen` counts go before all others."""
    check_trips(trips, [frame.name for frame in flow.frames[1:]])
    asked = trips or {}
    count: list[int | None] = [0]
    for frame in flow.frames[1:]:
        given = chosen.get(frame.name, asked.get(frame.name, asked.get(EVERY)))
        count.append(None if given is None else int(given))
    why = [UNKNOWN if one is None else ASKED for one in count]
    for row, frame in enumerate(flow.frames):
        if frame.name in chosen:
            why[row] = CHOSEN
    conditions = find_conditions(flow)
    pops = find_pops(flow, merged)
    values = Values(flow, pops, merged, count)
    while True:  # one loop's count may be what another one counts down
        values = Values(flow, pops, merged, values.trips)
        found = {row: _told(values, conditions.get(row)) for row, one in enumerate(values.trips) if one is None}
        settled = {row: told for row, told in found.items() if told is not None}
        if not settled:
            break
        for row, told in settled.items():
            values.trips[row], why[row] = told, TOLD
    final = [1 if one is None else one for one in values.trips]
    return Trips(final, why), Values(flow, pops, merged, list(final))


def find_conditions(flow: Flow) -> dict[int, tuple[int, int]]:
    """Frame -> the predicate that keeps its loop going: its LoopCond, or what the Switch before an Exit is told."""
    found: dict[int, tuple[int, int]] = {}
    for op in flow.order:
        if flow.ops.kind[op] == "LoopCond" and flow.frame[op]:
            found.setdefault(flow.frame[op], (op, 0))
    for op in flow.order:
        if flow.ops.kind[op] in EXITS and flow.frame[op] not in found:
            at = flow.value(op)
            stops = at is not None and flow.ops.kind[at[0]] in SWITCHES and at[1] == 0
            told = flow.value(at[0], 1) if stops and at is not None else None
            origin = followed(flow, told, SENDS | RECVS)
            if origin is not None and flow.frame[origin[0]] == flow.frame[op]:
                found[flow.frame[op]] = origin
    return found


def _told(values: Values, condition: tuple[int, int] | None) -> int | None:
    found = holds(values, *condition) if condition is not None else None
    return None if found is None or found == inf else int(found)


def unused_trips(trips: Mapping[str, int] | None, frames: Sequence[object]) -> tuple[str, ...]:
    """A note where trips were asked for and there is no loop."""
    return ("The step has no loop, so trips change nothing.",) if trips and not frames else ()


def trip_notes(flow: Flow, trips: Trips) -> list[str]:
    """Which count was used for which loop, and why."""
    notes = []
    for why, said in (
        (ASKED, "Loops run as asked"),
        (TOLD, "Loops run as their constants say"),
        (UNKNOWN, "Loops whose trips nothing says run once"),
    ):
        rows = [row for row in range(1, len(trips.count)) if trips.why[row] == why]
        names = [_quoted(flow.frames[row].name) for row in rows]
        if why != UNKNOWN:
            names = [f"{name} {counted(trips.count[row], 'time')}" for name, row in zip(names, rows, strict=True)]
        if rows:
            notes.append(f"{said}: {some(sorted(names), NAMED)}.")
    return notes


def _quoted(name: str) -> str:
    return f"'{printable(name)}'"
