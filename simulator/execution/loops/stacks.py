"""What is taken from a stack, by what was laid on it: so gradients remember values of the forward pass.

Version 1 keeps them on a Stack per value (`control_flow_state.py`), version 2 in a TensorList that goes round the loop
(`while_v2.py`). What one iteration pushes, the gradient's takes back, the last one first; lists of inner loops lie
on the lists of outer ones.
"""

from __future__ import annotations

from simulator.execution.loops.flow import Flow
from simulator.execution.loops.passing import MAX_DEPTH, PASSED_ON, Merged, Output, followed
from simulator.graph.control_flow import ENTERS, EXITS, MERGES, NEXT_ITERATIONS

STACK_POPS, STACK_PUSHES = frozenset({"StackPop", "StackPopV2"}), frozenset({"StackPush", "StackPushV2"})
LIST_POP, LIST_PUSH = "TensorListPopBack", "TensorListPushBack"


def find_pops(flow: Flow, merged: Merged) -> dict[Output, Output]:
    """What a pop gives out -> the output that was pushed; only where a single op pushes."""
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
    """The handle that an op on a stack is given."""
    return followed(flow, flow.value(op), PASSED_ON | ENTERS)


def _last_push(flow: Flow, merged: Merged, pops: dict[Output, Output], at: Output | None) -> int | None:
    """The op that laid the last element on a list."""
    for _ in range(MAX_DEPTH):
        at = followed(flow, at, PASSED_ON | ENTERS | EXITS)
        if at is None:
            return None
        kind = flow.ops.kind[at[0]]
        if kind == LIST_PUSH:
            return at[0]
        if kind == LIST_POP:
            at = flow.value(at[0]) if at[1] == 0 else pops.get(at)
        elif kind in MERGES and (only := merged.only(flow, at[0])) is not None:
            at = only
        elif kind in MERGES:
            back = _way_back(flow, at[0])
            if back is None:
                return None
            if flow.ops.kind[back[0]] == LIST_PUSH:
                return back[0]
            at = _way_in(flow, at[0])
        else:
            return None
    return None


def _way_in(flow: Flow, merge: int) -> Output | None:
    given = [at for slot in (0, 1) if (at := flow.value(merge, slot)) is not None]
    return next((at for at in given if flow.ops.kind[at[0]] in ENTERS), None)


def _way_back(flow: Flow, merge: int) -> Output | None:
    """What a loop variable is made of in each iteration; None: it is none."""
    if _way_in(flow, merge) is None:
        return None
    given = [at for slot in (0, 1) if (at := flow.value(merge, slot)) is not None]
    back = next((at for at in given if flow.ops.kind[at[0]] not in ENTERS), None)
    return followed(flow, back, PASSED_ON | NEXT_ITERATIONS)
