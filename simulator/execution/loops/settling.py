"""How a step runs under given trips and ways: found in rounds, as one answers what another one asks.

A Merge hands on what came from the side that was taken, which is known only when it is known what is live; a gradient's
loop counts and asks what such Merges hand on. And what follows a ControlTrigger may begin an iteration after a loop's
last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from simulator.errors import SimvizError, UnsupportedError
from simulator.execution.loops.branches import Branches, Choice, find_branches
from simulator.execution.loops.flow import Flow
from simulator.execution.loops.layout import path_to
from simulator.execution.loops.liveness import Grids, Liveness, arrived, grids, liveness, overrun
from simulator.execution.loops.passing import Merged, Mixed
from simulator.execution.loops.trips import Trips, find_trips
from simulator.wording import counted, printable

MAX_INSTANCES = 2_000_000  # ops inside loops: with few devices about 300 bytes each in tables, 700 while they run
_MAX_ROUNDS = 10
_MAX_MORE = 20  # iterations after a loop's last one, besides those that are in flight at once

_MAX_IN_FLIGHT = 100


class EndlessError(UnsupportedError):
    """A loop goes on for ever, with the ways of the predicates with which it does."""

    def __init__(self, message: str, frame: int, branches: Branches) -> None:
        super().__init__(message)
        self.frame = frame
        self.branches = branches


@dataclass(frozen=True, eq=False)
class Settled:
    """One way in which the step can run."""

    trips: Trips
    grids: Grids
    branches: Branches
    state: Liveness


def settle(
    flow: Flow,
    trips: Mapping[str, int] | None,
    branches: Mapping[str, Choice] | None,
    seed: int,
    chosen: Mapping[str, int],
) -> Settled:
    """The way that is asked for; `chosen` are counts of loops and ways of predicates that go before it.

    Raises SimvizError for names, counts and ways that are none and for trips beyond MAX_INSTANCES, EndlessError for a
    loop that goes on and on after its condition does not hold.
    """
    merged, more = Merged(), [0] * len(flow.frames)
    for _ in range(_MAX_ROUNDS * (_MAX_MORE + _MAX_IN_FLIGHT)):
        count, values = find_trips(flow, trips, merged, chosen)
        sizes = grids(flow, count.count, more)
        _check_size(flow, count.count, sizes)
        ways = find_branches(flow, sizes, values, count, branches, seed, chosen)
        state = liveness(flow, sizes, ways.taken)
        further = overrun(flow, sizes, state)
        if further:
            more = [extra + (row in further) for row, extra in enumerate(more)]
            _check_more(flow, more, ways)
            continue
        brought = {merge: _brought(flow, sizes, state, merge) for merge in sorted(merged.unknown)}
        live = {merge: found[0][0] for merge, found in brought.items() if len(found) == 1}
        mixed = {merge: found for merge, found in brought.items() if len(found) > 1}
        if (live, mixed) == (merged.live, merged.mixed):
            break
        merged = Merged(live, mixed, set(merged.unknown))
    return Settled(count, sizes, ways, state)


def _check_more(flow: Flow, more: list[int], ways: Branches) -> None:
    """Refuse a loop that goes on for ever."""
    for row, extra in enumerate(more):
        if extra > _MAX_MORE + min(flow.frames[row].parallel, _MAX_IN_FLIGHT):
            raise EndlessError(
                f"Loop '{printable(flow.frames[row].name)}' goes on for ever after its condition is false: one of its "
                "NextIterations depends on constants alone or follows a ControlTrigger; give it a value of the loop.",
                row,
                ways,
            )


def _brought(flow: Flow, sizes: Grids, state: Liveness, merge: int) -> Mixed:
    """The values of a Merge that are ever live, with the iterations in which they are."""
    return [
        ((flow.source[edge], flow.port[edge]), live)
        for edge in flow.inputs[merge]
        if flow.data[edge] and (live := arrived(flow, sizes, state, edge)[1])
    ]


def _check_size(flow: Flow, trips: list[int], sizes: Grids) -> None:
    """Refuse what would not fit, before anything is made."""
    members = Counter(flow.frame)
    of_frame = [members[row] * sizes.size[row] for row in range(len(flow.frames))]
    if sum(of_frame[1:]) <= MAX_INSTANCES:
        return
    heaviest = max(range(1, len(of_frame)), key=lambda row: (of_frame[row], -row))
    row = max(path_to(flow, heaviest), key=lambda row: trips[row])
    raise SimvizError(
        f"Loop '{printable(flow.frames[row].name)}' with {counted(trips[row], 'trip')} unrolls the step to "
        f"{sum(of_frame):,} ops, and {MAX_INSTANCES:,} is the limit; ask for fewer trips."
    )
