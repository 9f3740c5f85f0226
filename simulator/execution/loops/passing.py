"""Ops that hand on a value as it is, and what it goes back to (`cond_v2.py` has what a branch keeps for later)."""

from __future__ import annotations

from collections.abc import Collection

from simulator.execution.loops.flow import Flow
from simulator.graph.control_flow import SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS

MAX_DEPTH = 100  # ops that a value is followed back through

SAME_VALUE = frozenset(
    {"Identity", "RefIdentity", "Snapshot", "StopGradient", "PreventGradient", "PlaceholderWithDefault"}
)
OPTIONAL = frozenset({"OptionalFromValue", "OptionalGetValue"})  # around what a branch hands to its gradient
NOTHING = frozenset({"FakeParam", "OptionalNone"})  # in the place of a value of a branch that was not taken
PASSED_ON = SAME_VALUE | OPTIONAL | {"LoopCond"} | SENDS | RECVS | SWITCHES  # what comes in slot 0 goes out


def followed(flow: Flow, at: tuple[int, int] | None, kinds: Collection[str]) -> tuple[int, int] | None:
    """The output that an output of ops of these kinds, which pass on what comes in slot 0, goes back to."""
    for _ in range(MAX_DEPTH):
        if at is None or flow.ops.kind[at[0]] not in kinds:
            return at
        at = flow.value(at[0])
    return None


def only_value(flow: Flow, merge: int) -> tuple[int, int] | None:
    """What a Merge gives that is handed nothing from all its sides but one, else None."""
    given, slot = list[tuple[int, int]](), 0
    while (at := flow.value(merge, slot)) is not None:
        origin = followed(flow, at, PASSED_ON)
        if origin is None or flow.ops.kind[origin[0]] not in NOTHING:
            given.append(at)
        slot += 1
    return given[0] if slot > 1 and len(given) == 1 else None
