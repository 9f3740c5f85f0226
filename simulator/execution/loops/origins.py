"""The origin of a value, found back through ops that pass it on, Merges with one live input, loop variables and stacks.

Gradients read values of the forward pass from stacks. Version 1 of control flow has a Stack per value
(`control_flow_state.py`), version 2 a TensorList that is a loop variable (`while_v2.py`). The gradient's loop pops
the values that the forward loop pushed, the last one first. Lists of inner loops lie on the lists of outer ones. A
branch of version 2 wraps the values that its gradient reads in an Optional (`cond_v2.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from simulator.execution.loops.frames import Flow, Output
from simulator.execution.loops.iterations import IterationSpace
from simulator.execution.stored import LIST_POP, LIST_PUSH
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, STACK_POPS, STACK_PUSHES, SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS

LiveInputs: TypeAlias = "list[tuple[Output, int]]"  # inputs that are ever live, and the iterations in which they are

MAX_DEPTH = 100  # ops that a value is followed back through

SAME_VALUE = frozenset(
    {"Identity", "RefIdentity", "Snapshot", "StopGradient", "PreventGradient", "PlaceholderWithDefault"}
)
OPTIONAL = frozenset({"OptionalFromValue", "OptionalGetValue"})  # around the values of a branch that its gradient reads
NOTHING = frozenset({"FakeParam", "OptionalNone"})  # in the place of a value of a branch that was not taken
PASSED_ON = SAME_VALUE | OPTIONAL | {"LoopCond"} | SENDS | RECVS | SWITCHES  # outputs are the input in slot 0
HANDED_ON = PASSED_ON - {"LoopCond"}
_MAX_LOOPS = 10  # loops in loops that a value is followed through


def origin(flow: Flow, at: Output | None, kinds: Collection[str]) -> Output | None:
    """Follow an output back through ops of these kinds, which pass on the input in slot 0."""
    for _ in range(MAX_DEPTH):
        if at is None or flow.ops.kind[at[0]] not in kinds:
            return at
        at = flow.value(at[0])
    return None


def loop_variable(flow: Flow, merge: int) -> tuple[Output, Output] | None:
    """The initial value of a loop variable and the value that comes back each iteration; None: the Merge is none."""
    given = list(islice(flow.values(merge), 2))
    initial = [at for at in given if flow.ops.kind[at[0]] in ENTERS]
    back = [at for at in given if at not in initial]
    return (initial[0], back[0]) if len(initial) == len(back) == 1 else None


def initial(flow: Flow, merge: int, depth: int = 0) -> Output | None:
    """The initial value of a loop variable that never changes, else None."""
    pair = loop_variable(flow, merge)
    return pair[0] if pair is not None and _brought_back(flow, pair[1], depth) == (merge, 0) else None


def _brought_back(flow: Flow, at: Output | None, depth: int) -> Output | None:
    """The origin of a value that comes back, through the inner loops that do not change it."""
    for _ in range(MAX_DEPTH):
        at = origin(flow, at, HANDED_ON | NEXT_ITERATIONS)
        if at is None or flow.ops.kind[at[0]] not in EXITS:
            return at
        entered = loop_invariant(flow, at[0], depth + 1)
        if entered is None:
            return at
        at = flow.value(entered[0])
    return None


def loop_invariant(flow: Flow, exit_: int, depth: int = 0) -> Output | None:
    """The Enter of a value that leaves its loop as it came in, whatever the trips; None: it may have changed."""
    at = origin(flow, flow.value(exit_), HANDED_ON) if depth < _MAX_LOOPS else None
    if at is None or flow.ops.kind[at[0]] in ENTERS:
        return at
    return initial(flow, at[0], depth) if flow.ops.kind[at[0]] in MERGES else None


@dataclass(frozen=True, eq=False)
class Merged:
    """The live inputs of the Merges of branches, as far as the sides that were taken are known."""

    inputs: Mapping[int, LiveInputs] = field(default_factory=dict)  # by Merge; without those of which none is live
    spaces: Sequence[IterationSpace] = ()  # [frames] the iterations that the inputs' bits are
    unknown: set[int] = field(default_factory=set)  # Merges that `only` was asked about, whatever the answer was
    unsettled: frozenset[int] = frozenset()  # Merges whose live inputs hang on themselves

    def only(self, flow: Flow, merge: int) -> Output | None:
        """The one value that a Merge passes on: all other sides give nothing, or are never taken."""
        given = list(flow.values(merge))
        if any(flow.ops.kind[at[0]] in ENTERS for at in given):
            return None
        values = [at for at in given if not _is_nothing(flow, origin(flow, at, PASSED_ON))]
        if len(given) > 1 and len(values) == 1:
            return values[0]
        self.unknown.add(merge)
        live = self.inputs.get(merge, [])
        return live[0][0] if len(live) == 1 else None

    def is_mixed(self, merge: int) -> bool:
        """Tell whether more than one input of a Merge is ever live."""
        return len(self.inputs.get(merge, [])) > 1


def _is_nothing(flow: Flow, at: Output | None) -> bool:
    return at is not None and flow.ops.kind[at[0]] in NOTHING


def find_pops(flow: Flow, merged: Merged) -> dict[Output, Output]:
    """The popped output -> the pushed one; only where a single op pushes."""
    pushed: dict[Output | None, list[int]] = {}
    for op, kind in enumerate(flow.ops.kind):
        if kind in STACK_PUSHES:
            pushed.setdefault(_stack(flow, op), []).append(op)
    found: dict[Output, Output] = {}
    for op in flow.order:
        kind, port, pushes = flow.ops.kind[op], 0, list[int]()
        if kind in STACK_POPS:
            pushes = pushed.get(_stack(flow, op), [])
        elif kind == LIST_POP:
            port, push = 1, _last_push(flow, merged, found, flow.value(op))
            pushes = [] if push is None else [push]
        value = flow.value(pushes[0], 1) if len(pushes) == 1 else None
        if value is not None:
            found[op, port] = value
    return found


def _stack(flow: Flow, op: int) -> Output | None:
    """The handle of the stack that an op pushes to or pops from."""
    return origin(flow, flow.value(op), PASSED_ON | ENTERS)


def _last_push(flow: Flow, merged: Merged, pops: Mapping[Output, Output], at: Output | None) -> int | None:
    """The op that pushed the last element of a list."""
    for _ in range(MAX_DEPTH):
        at = origin(flow, at, PASSED_ON | ENTERS | EXITS)
        if at is None:
            return None
        kind = flow.ops.kind[at[0]]
        if kind == LIST_PUSH:
            return at[0]
        if kind == LIST_POP:
            at = flow.value(at[0]) if at[1] == 0 else pops.get(at)
        elif kind in MERGES and (only := merged.only(flow, at[0])) is not None:
            at = only
        elif kind in MERGES and (variable := loop_variable(flow, at[0])) is not None:
            back = origin(flow, variable[1], PASSED_ON | NEXT_ITERATIONS)
            if back is None:
                return None
            if flow.ops.kind[back[0]] == LIST_PUSH:
                return back[0]
            at = variable[0]
        else:
            return None
    return None
