"""What the graph tells of its small values in every single iteration: truths and whole numbers, as columns.

`values` knows counters before it is known how often loops run; here that is known, so that a comparison with a counter
of any loop around has its value wherever it is computed, and what a gradient takes from a stack is what its forward
pass laid there, in the opposite order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.execution.loops import masks
from simulator.execution.loops.flow import Flow
from simulator.execution.loops.layout import path_to
from simulator.execution.loops.liveness import Grids
from simulator.execution.loops.passing import MAX_DEPTH, PASSED_ON
from simulator.execution.loops.values import MAX_SIZE, Values, size_of_shape, step_of, whole_number
from simulator.graph.control_flow import ENTERS, EXITS, MERGES
from simulator.graph.dtypes import BOOL

Column: TypeAlias = "npt.NDArray[np.int64]"
_COMPARISONS: Mapping[str, Callable[[Column, Column], npt.NDArray[np.bool_]]] = {
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
}
_ARITHMETIC: Mapping[str, Callable[[Column, Column], Column]] = {
    "Add": np.add,
    "AddV2": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "FloorMod": np.mod,
    "FloorDiv": np.floor_divide,
}
_DIVIDES = frozenset({"FloorMod", "FloorDiv"})
_MAX_FACTOR = 2**30  # products of smaller numbers do not wrap around


@dataclass(frozen=True, eq=False)
class Columns:
    """A flow whose trips are known, with the columns found so far."""

    values: Values
    grids: Grids
    known: dict[tuple[int, int], Column | None] = field(default_factory=dict)  # what was chosen, too

    @property
    def flow(self) -> Flow:
        """The flow whose values these are."""
        return self.values.flow

    def forget_unknown(self) -> None:
        """Look again for what was not found, as more is known by now."""
        for key in [key for key, found in self.known.items() if found is None]:
            del self.known[key]


def column(columns: Columns, op: int, port: int, depth: int = 0) -> Column | None:
    """[places of the frame in which it is read] a value, truths as 0 and 1; None where the graph does not tell.

    Meaningless where the op does not run.
    """
    key = (op, port)
    if key not in columns.known:
        columns.known[key] = None  # what depends on itself stays unknown
        found = _column(columns, op, port, depth + 1) if depth < MAX_DEPTH else None
        if found is not None and (not len(found) or int(np.abs(found).max()) < MAX_SIZE):
            columns.known[key] = found
    return columns.known[key]


def _column(columns: Columns, op: int, port: int, depth: int) -> Column | None:
    flow, grids, kind, frame = columns.flow, columns.grids, columns.flow.ops.kind[op], columns.flow.frame[op]
    size = grids.size[frame]
    if kind == "Const":
        return _same(whole_number(flow, op), size)
    if kind in ("StridedSlice", "Size", "Rank") and (found := size_of_shape(flow, op, kind)) is not None:
        return np.full(size, int(found[0]))
    if (op, port) in columns.values.pops:
        pushed = columns.values.pops[op, port]
        laid = column(columns, *pushed, depth)
        return None if laid is None else backwards(flow, grids, laid, flow.read_in(pushed[0]), frame)
    if kind in MERGES:
        only = columns.values.merged.only(flow, op)
        if port:
            return None
        if only is not None:
            return column(columns, *only, depth)
        return _mixed(columns, op, depth) if op in columns.values.merged.mixed else _loop_variable(columns, op, depth)
    given = [None if at is None else column(columns, *at, depth) for at in (flow.value(op), flow.value(op, 1))]
    a, b = given
    if kind in ("LogicalAnd", "LogicalOr"):
        return _joined(a, b, 0 if kind == "LogicalAnd" else 1)
    if a is None:
        return None
    if kind == "LogicalNot":
        return 1 - a
    if kind in ENTERS:
        return np.repeat(a, grids.width[flow.child[op]])
    if kind in EXITS:
        return a.reshape(grids.outer[frame], grids.width[frame])[:, grids.trips[frame]]
    if kind == "Cast":
        return (a != 0).astype(np.int64) if flow.attrs(op)["DstT"].type == BOOL else a
    if kind in PASSED_ON:
        return a if len(a) == size else None
    return _of_two(kind, a, b)


def _same(number: int | None, size: int) -> Column | None:
    return None if number is None else np.full(size, number)


def _of_two(kind: str, a: Column, b: Column | None) -> Column | None:
    if b is None or len(a) != len(b):
        return None
    if kind in _COMPARISONS:
        return _COMPARISONS[kind](a, b).astype(np.int64)
    if kind not in _ARITHMETIC or (kind in _DIVIDES and not b.all()):
        return None
    if kind == "Mul" and max(np.abs(a).max(initial=0), np.abs(b).max(initial=0)) > _MAX_FACTOR:
        return None
    return _ARITHMETIC[kind](a, b)


def _joined(a: Column | None, b: Column | None, decides: int) -> Column | None:
    """And or Or of two truths, of which one may be unknown where the other one decides."""
    for one, other in ((a, b), (b, a)):
        if one is not None and (other is None or len(other) != len(one)):
            return one if (one == decides).all() else None
    if a is None or b is None:
        return None
    return np.minimum(a, b) if decides == 0 else np.maximum(a, b)


def _mixed(columns: Columns, op: int, depth: int) -> Column | None:
    """What a Merge hands on that takes now one side, now another."""
    size = columns.grids.size[columns.flow.frame[op]]
    found = np.zeros(size, np.int64)
    for at, live in columns.values.merged.mixed[op]:
        given = column(columns, *at, depth)
        if given is None or len(given) != size or live >> size:
            return None
        where = masks.rows([live], size)[0]
        found[where] = given[where]
    return found


def _loop_variable(columns: Columns, op: int, depth: int) -> Column | None:
    """What goes in, and what each iteration adds, where that is always the same."""
    flow, grids, frame = columns.flow, columns.grids, columns.flow.frame[op]
    given = [at for slot in (0, 1) if (at := flow.value(op, slot)) is not None]
    enters = [at for at in given if flow.ops.kind[at[0]] in ENTERS]
    added = step_of(columns.values, op)
    start = column(columns, *enters[0], depth) if len(enters) == 1 and added is not None else None
    if start is None or added is None or len(start) != grids.size[frame]:
        return None
    first = start.reshape(grids.outer[frame], grids.width[frame])[:, :1]
    return (first + added * np.arange(grids.width[frame])).reshape(-1)


def backwards(flow: Flow, grids: Grids, given: Column, there: int, here: int) -> Column | None:
    """What the loops of a gradient take back, in their own iterations, of what those of a forward pass laid down.

    None where the one has not as many loops around as the other, or these do not run as often.
    """
    paths = [path_to(flow, frame) for frame in (there, here)]
    trips, others = ([grids.trips[row] for row in path] for path in paths)
    if trips != others or len(given) != grids.size[there]:
        return None
    found = given.reshape([grids.width[row] for row in paths[0]])
    for axis, (count, row) in enumerate(zip(trips, paths[1], strict=True)):
        order = [*range(count - 1, -1, -1), *[count] * (grids.width[row] - count)]
        found = found.take(order, axis=axis)
    return found.reshape(-1)
