"""What the graph tells of its small values: constants, sizes, and counters that grow by the same amount each time.

A value is `start + step * i` in iteration i of the loop in which its op runs; a constant has the step 0. Only whole
numbers count: what adds up fractions may round. Values are followed through Identity, Enter, Switch and Exit, through
Send and Recv, through stacks, and through loop variables that never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np

from simulator.execution.loops.flow import Flow
from simulator.execution.loops.passing import MAX_DEPTH, PASSED_ON, Merged, followed
from simulator.graph.constants import elements
from simulator.graph.control_flow import ENTERS, EXITS, MERGES, NEXT_ITERATIONS
from simulator.partitioning.partitions import RECVS, SENDS

MAX_SIZE = 2**62  # beyond it a counter would have wrapped around

NEGATED: Mapping[str, str] = {
    "Less": "GreaterEqual",
    "GreaterEqual": "Less",
    "Greater": "LessEqual",
    "LessEqual": "Greater",
    "Equal": "NotEqual",
    "NotEqual": "Equal",
}


class Linear(NamedTuple):
    """`start + step * i`."""

    start: int
    step: int


@dataclass(frozen=True, eq=False)
class Values:
    """A flow with what is known of its values so far, and how often each frame's body runs where that is settled."""

    flow: Flow
    pops: Mapping[tuple[int, int], tuple[int, int]]  # what is taken from a stack -> what was laid on it
    merged: Merged
    trips: list[int | None]  # [frames]
    known: dict[tuple[int, int, int], Linear | None] = field(default_factory=dict)
    held: dict[tuple[int, bool], float | None] = field(default_factory=dict)  # by predicate and whether it is negated


def linear(values: Values, op: int, port: int, variable: int = -1, depth: int = 0) -> Linear | None:
    """A whole number, or None where the graph does not tell.

    With a loop's Merge as `variable`, the number as `start + step * variable`.
    """
    key = (op, port, variable)
    if key not in values.known:
        values.known[key] = None  # what depends on itself stays unknown
        found = _linear(values, op, port, variable, depth + 1) if depth < MAX_DEPTH else None
        if found is not None and max(abs(found.start), abs(found.step)) < MAX_SIZE:
            values.known[key] = found
    return values.known[key]


def _linear(values: Values, op: int, port: int, variable: int, depth: int) -> Linear | None:
    flow, kind = values.flow, values.flow.ops.kind[op]
    if op == variable:
        return Linear(0, 1) if port == 0 else None
    if kind == "Const":
        return _whole(constant(flow, op))
    if kind in MERGES:
        if port:
            return None
        only = values.merged.only(flow, op)
        return linear(values, *only, variable, depth) if only else _loop_variable(values, op, variable, depth)
    if kind in ("StridedSlice", "Size", "Rank"):
        return _whole(size_of_shape(flow, op, kind))
    if (op, port) in values.pops:
        pushed = linear(values, *values.pops[op, port], -1, depth)
        return pushed if pushed is not None and pushed.step == 0 else None
    given = [
        None if at is None else linear(values, *at, variable, depth)
        for at in (flow.value(op), flow.value(op, 1) if kind in _SUMS else None)
    ]
    if given[0] is None:
        return None
    if kind in PASSED_ON or (kind == "Cast" and _is_integer(flow, op)):
        return given[0]
    if kind in ENTERS:
        return given[0] if given[0].step == 0 else None  # else it changes from one entry to the next
    if kind in EXITS:
        trips = values.trips[flow.frame[op]]
        return None if trips is None or variable >= 0 else Linear(given[0].start + given[0].step * trips, 0)
    return _sum(kind, given[0], given[1])


_SUMS = frozenset({"Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum"})


def _sum(kind: str, a: Linear, b: Linear | None) -> Linear | None:
    if b is None:
        return None
    if kind in ("Add", "AddV2"):
        return Linear(a.start + b.start, a.step + b.step)
    if kind == "Sub":
        return Linear(a.start - b.start, a.step - b.step)
    if kind == "Mul" and not (a.step and b.step):
        return Linear(a.start * b.start, a.start * b.step + a.step * b.start)
    if kind in ("Maximum", "Minimum") and not (a.step or b.step):
        return max(a, b) if kind == "Maximum" else min(a, b)
    return None


def _loop_variable(values: Values, op: int, variable: int, depth: int) -> Linear | None:
    """A Merge of an Enter's and a NextIteration's value: what goes in, and what each iteration adds."""
    flow = values.flow
    enters = [at for slot in (0, 1) if (at := flow.value(op, slot)) and flow.ops.kind[at[0]] in ENTERS]
    added = step_of(values, op, depth)
    start = linear(values, *enters[0], -1, depth) if added is not None else None
    if start is None or added is None:
        return None
    return Linear(start.start, added) if variable < 0 or not added else None


def step_of(values: Values, merge: int, depth: int = 0) -> int | None:
    """What each iteration adds to a loop variable; None: it is none, or that changes or is not known."""
    flow = values.flow
    given = [at for slot in (0, 1) if (at := flow.value(merge, slot))]
    following = [at for at in given if flow.ops.kind[at[0]] not in ENTERS]
    if len(given) != 2 or len(following) != 1:
        return None
    passed_on = followed(flow, following[0], NEXT_ITERATIONS | SENDS | RECVS)
    added = linear(values, *passed_on, merge, depth) if passed_on is not None else None
    return added.start if added is not None and added.step == 1 else None


def constant(flow: Flow, op: int) -> list[float] | None:
    """The elements of a Const of numbers, if they are few."""
    return elements(flow.attrs(op))


def whole_number(flow: Flow, op: int) -> int | None:
    """The whole number or the truth that a Const holds, if it is a single one."""
    found = _whole(constant(flow, op))
    return None if found is None else found.start


def _whole(found: list[float] | None) -> Linear | None:
    if found is None or len(found) != 1 or not (isinstance(found[0], int) or float(found[0]).is_integer()):
        return None
    return Linear(int(found[0]), 0)


def _is_integer(flow: Flow, op: int) -> bool:
    kind = flow.attrs(op).get("DstT")
    return kind is not None and kind.type in (3, 9)


def size_of_shape(flow: Flow, op: int, kind: str) -> list[float] | None:
    """A size that is known before the step: `Size(x)`, `Rank(x)`, `Shape(x)[k]`."""
    shaped = op
    if kind == "StridedSlice":
        at = followed(flow, flow.value(op), PASSED_ON | ENTERS | {"Cast"})
        if at is None or flow.ops.kind[at[0]] != "Shape":
            return None
        shaped = at[0]
    edge = next((edge for edge in flow.inputs[shaped] if flow.data[edge]), -1)
    row = int(flow.edges.row[edge]) if edge >= 0 else -1
    shape = flow.graph.tensor_shape[row] if row >= 0 else None
    if shape is None:
        return None
    if kind == "Rank":
        return [len(shape)]
    if kind == "Size":
        return None if -1 in shape else [int(np.prod(shape, dtype=object))]
    place = _single_place(flow, op, len(shape))
    return None if place is None or shape[place] < 0 else [shape[place]]


def _single_place(flow: Flow, op: int, rank: int) -> int | None:
    """The place k that a StridedSlice of a vector takes out as a scalar."""
    masks = {name: int(attr.i) for name, attr in flow.attrs(op).items() if name.endswith("_mask")}
    if masks.get("shrink_axis_mask") != 1 or any(
        masks.get(f"{name}_mask") for name in ("begin", "ellipsis", "new_axis")
    ):
        return None
    at = followed(flow, flow.value(op, 1), PASSED_ON | ENTERS)
    found = constant(flow, at[0]) if at is not None and flow.ops.kind[at[0]] == "Const" else None
    if found is None or len(found) != 1:
        return None
    place = int(found[0]) + (rank if found[0] < 0 else 0)
    return place if 0 <= place < rank else None


def holds(values: Values, op: int, port: int, *, negated: bool = False, depth: int = 0) -> float | None:
    """In how many iterations from the first on a predicate holds, `inf` for all; None where the graph does not tell.

    Of an And of which one half is unknown, the other half says how many at most.
    """
    key = (op, negated)
    if key not in values.held:
        values.held[key] = None
        values.held[key] = _holds(values, op, port, negated, depth + 1) if depth < MAX_DEPTH else None
    return values.held[key]


def _holds(values: Values, op: int, port: int, negated: bool, depth: int) -> float | None:
    flow, kind = values.flow, values.flow.ops.kind[op]
    if kind == "Const":
        found = linear(values, op, port)
        return None if found is None else inf if bool(found.start) is not negated else 0
    given = [at for slot in (0, 1) if (at := flow.value(op, slot)) is not None]
    if given and (kind in PASSED_ON or kind in ENTERS or kind == "LogicalNot"):
        return holds(values, *given[0], negated=negated is not (kind == "LogicalNot"), depth=depth)
    if len(given) < 2:
        return None
    if kind in ("LogicalAnd", "LogicalOr"):
        return _both(
            (kind == "LogicalAnd") is not negated, [holds(values, *at, negated=negated, depth=depth) for at in given]
        )
    if kind not in NEGATED:
        return None
    a, b = (linear(values, *at) for at in given)
    if a is None or b is None:
        return None
    return _leading(NEGATED[kind] if negated else kind, a.start - b.start, a.step - b.step)


def _both(needed: bool, sides: list[float | None]) -> float | None:
    """How long both hold, or either."""
    known = [side for side in sides if side is not None]
    if len(known) == 2:
        return min(known) if needed else max(known)
    bounded = needed and known and known[0] < inf
    return known[0] if bounded else None


def _leading(kind: str, start: int, step: int) -> float:
    """For how many i from 0 on `start + step * i` compares to 0 as asked."""
    if kind == "Equal":
        return 0 if start else 1 if step else inf
    if kind == "NotEqual":
        meets = bool(step) and -start % step == 0 and -start // step >= 0
        return inf if not meets and start else -start // step if step else 0
    if kind in ("Greater", "GreaterEqual"):
        start, step = -start, -step
    if kind in ("LessEqual", "GreaterEqual"):
        start -= 1
    if start >= 0:
        return 0
    return inf if step <= 0 else -(start // step)
