"""Ops that hand on a value as it is, and what it goes back to (`cond_v2.py` has what a branch keeps for later)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from simulator.execution.loops.flow import Flow
from simulator.graph.control_flow import ENTERS, SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS

Output: TypeAlias = "tuple[int, int]"  # op and port

Mixed: TypeAlias = "list[tuple[Output, int]]"

MAX_DEPTH = 100  # ops that a value is followed back through

SAME_VALUE = frozenset(
    {"Identity", "RefIdentity", "Snapshot", "StopGradient", "PreventGradient", "PlaceholderWithDefault"}
)
OPTIONAL = frozenset({"OptionalFromValue", "OptionalGetValue"})  # around what a branch hands to its gradient
NOTHING = frozenset({"FakeParam", "OptionalNone"})  # in the place of a value of a branch that was not taken
PASSED_ON = SAME_VALUE | OPTIONAL | {"LoopCond"} | SENDS | RECVS | SWITCHES  # what comes in slot 0 goes out


def followed(flow: Flow, at: Output | None, kinds: Collection[str]) -> Output | None:
    """The output that an output of ops of these kinds, which pass on what comes in slot 0, goes back to."""
    for _ in range(MAX_DEPTH):
        if at is None or flow.ops.kind[at[0]] not in kinds:
            return at
        at = flow.value(at[0])
    return None


@dataclass(frozen=True, eq=False)
class Merged:
    """What the Merges of branches hand on, as far as it is known which of their sides was taken."""

    live: Mapping[int, Output] = field(default_factory=dict)  # Merge -> the only one of its values that is ever live
    mixed: Mapping[int, Mixed] = field(default_factory=dict)  # Merge -> its values, with the iterations of each
    unknown: set[int] = field(default_factory=set)  # Merges that were asked about, whatever the answer was

    def only(self, flow: Flow, merge: int) -> Output | None:
        """The value of a Merge that is handed nothing from all its sides but one, or takes the same side always."""
        given, slot = list[Output](), 0
        while (at := flow.value(merge, slot)) is not None:
            if flow.ops.kind[at[0]] in ENTERS:
                return None
            origin = followed(flow, at, PASSED_ON)
            if origin is None or flow.ops.kind[origin[0]] not in NOTHING:
                given.append(at)
            slot += 1
        if slot > 1 and len(given) == 1:
            return given[0]
        self.unknown.add(merge)
        return self.live.get(merge)
