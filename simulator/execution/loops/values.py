"""Small values that the graph determines: constants, sizes, counters, and the results of ops on them.

What follows from constants and shapes alone is the same in every iteration, and computed by the rules of `shapes`.
Before trips are known, any other value is `start + step * i` in iteration i of its loop (`linear`). Only whole numbers
count, since sums of fractions may round. When trips are known, a value is a column with an entry per iteration of its
frame (`column`). So a comparison with the counter of any loop around has a value in every iteration. So has an element
of a known array, such as those that `tf.map_fn` and `tf.scan` go through. A gradient's pop has the values that the
forward pass pushed, in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import NamedTuple

import numpy as np

from simulator.columns import Flags, Ints
from simulator.execution.loops.frames import Flow, Output
from simulator.execution.loops.iterations import IterationSpace
from simulator.execution.loops.origins import MAX_DEPTH, PASSED_ON, SAME_VALUE, Merged, initial, loop_variable, origin
from simulator.execution.loops.walking import Numbers
from simulator.graph.const_values import elements
from simulator.graph.dtypes import BOOL, INT32, INT64
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS
from simulator.shapes.dims import SYMBOLS, Algebra, Dims, Value
from simulator.shapes.rules import VALUES
from simulator.shapes.site import Contents, ShapeError, Site
from simulator.shapes.variables import NEGATED, iterations

_MAX_SIZE = 2**62  # beyond it a counter would have wrapped around
_MAX_FACTOR = 2**30  # products of smaller numbers do not wrap around
_MAX_BRANCH = 200  # ops of a branch in which the Switch before them is looked for
_COMPARISONS: Mapping[str, Callable[[Ints, Ints], Flags]] = {
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
}
_ARITHMETIC: Mapping[str, Callable[[Ints, Ints], Ints]] = {
    "Add": np.add,
    "AddV2": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "FloorMod": np.mod,
    "FloorDiv": np.floor_divide,
}
_DIVISIONS = frozenset({"FloorMod", "FloorDiv"})
_SUMS = (_ARITHMETIC.keys() - _DIVISIONS) | {"AddN"}


class Linear(NamedTuple):
    """`start + step * i`."""

    start: int
    step: int


def _site() -> Site:
    algebra = Algebra()
    return Site(algebra, Contents(algebra))


@dataclass(frozen=True, eq=False)
class KnownValues:
    """A flow with the values known so far, and the trips of each frame that are known."""

    flow: Flow
    pops: Mapping[Output, Output]  # popped output -> pushed output
    merged: Merged
    trips: list[int | None]  # [frames]
    known: dict[tuple[int, int, int], Linear | None] = field(default_factory=dict)  # by op, port and variable
    fixed: dict[Output, Value | None] = field(default_factory=dict)  # elements that are the same in every iteration
    site: Site = field(default_factory=_site)  # where these are computed
    # by predicate, negation, and whether an upper bound is no answer
    holding: dict[tuple[int, bool, bool], float | None] = field(default_factory=dict)
    walked: Numbers = field(default_factory=dict)  # of loops that were walked
    ends: Mapping[int, Ints] = field(default_factory=dict)  # frame -> trips of each entry, where these vary
    # [entries, iterations] the numbers of loops that were walked once for each set of numbers that enters
    by_entry: dict[Output, Ints] = field(default_factory=dict)


def linear(values: KnownValues, op: int, port: int, variable: int = -1, depth: int = 0) -> Linear | None:
    """A whole number, or None where the graph does not determine it.

    With a loop's Merge as `variable`, the number as `start + step * variable`.
    """
    key = (op, port, variable)
    if key not in values.known:
        values.known[key] = None  # a value that depends on itself stays unknown
        found = _linear(values, op, port, variable, depth + 1) if depth < MAX_DEPTH else None
        if found is not None and max(abs(found.start), abs(found.step)) < _MAX_SIZE:
            values.known[key] = found
    return values.known[key]


def _linear(values: KnownValues, op: int, port: int, variable: int, depth: int) -> Linear | None:
    flow, kind = values.flow, values.flow.ops.kind[op]
    if op == variable:
        return Linear(0, 1) if port == 0 else None
    if (number := _fixed_number(values, op, port)) is not None:
        return Linear(number, 0)
    if kind in MERGES:
        if port:
            return None
        only = values.merged.only(flow, op)
        return linear(values, *only, variable, depth) if only else _counter(values, op, variable, depth)
    if (op, port) in values.pops:
        pushed = linear(values, *values.pops[op, port], -1, depth)
        return pushed if pushed is not None and pushed.step == 0 else None
    read = flow.values(op) if kind in _SUMS else islice(flow.values(op), 1)
    given = [linear(values, *at, variable, depth) for at in read]
    known = [one for one in given if one is not None]
    if not known or len(known) < len(given):
        return None
    if kind in PASSED_ON or (kind == "Cast" and _cast_type(flow, op) in (INT32, INT64)):
        return known[0]
    if kind in ENTERS:
        # without a variable it would change from one entry to the next
        return known[0] if variable >= 0 or known[0].step == 0 else None
    if kind in EXITS:
        return _left_with(values, op, known[0], variable)
    return _sum(kind, known) if kind in _SUMS else None


def _left_with(values: KnownValues, exit_: int, last: Linear, variable: int) -> Linear | None:
    """The value with which a loop ends; what no iteration changes, such as an option handed through, needs no trips."""
    frame = values.flow.frame[exit_]
    if variable >= 0:  # of a loop around it: `_counter` has let pass nothing that this loop changes
        return last if values.flow.frame[variable] != frame else None
    trips = values.trips[frame] if last.step else 0
    return None if trips is None or (last.step and frame in values.ends) else Linear(last.start + last.step * trips, 0)


def _sum(kind: str, given: Sequence[Linear]) -> Linear | None:
    if kind in ("Add", "AddV2", "AddN"):
        return Linear(sum(one.start for one in given), sum(one.step for one in given))
    if len(given) != 2:
        return None
    a, b = given
    if kind == "Sub":
        return Linear(a.start - b.start, a.step - b.step)
    if kind == "Mul" and not (a.step and b.step):
        return Linear(a.start * b.start, a.start * b.step + a.step * b.start)
    if kind in ("Maximum", "Minimum") and not (a.step or b.step):
        return max(a, b) if kind == "Maximum" else min(a, b)
    return None


def _counter(values: KnownValues, merge: int, variable: int, depth: int) -> Linear | None:
    """A loop variable that grows by the same amount in each iteration."""
    pair, step = loop_variable(values.flow, merge), _increment(values, merge, depth)
    if pair is None or step is None or (step and variable >= 0):
        return None
    start = linear(values, *pair[0], -1 if step else variable, depth)
    return Linear(start.start, step) if start is not None and step else start


def _increment(values: KnownValues, merge: int, depth: int = 0) -> int | None:
    """The amount by which a loop variable grows in each iteration; None: it varies, or is not known."""
    pair = loop_variable(values.flow, merge)
    back = origin(values.flow, pair[1], NEXT_ITERATIONS | SENDS | RECVS) if pair is not None else None
    after = linear(values, *back, merge, depth) if back is not None else None
    return after.start if after is not None and after.step == 1 else None


def _cast_type(flow: Flow, op: int) -> int | None:
    attr = flow.attrs(op).get("DstT")
    return None if attr is None else int(attr.type)


def _fixed_number(values: KnownValues, op: int, port: int) -> int | None:
    """The whole number or truth value that follows from constants and shapes alone, if it is a single one."""
    found = _fixed(values, op, port)
    if found is None or len(found) != 1 or found[0] <= SYMBOLS or not float(found[0]).is_integer():
        return None
    return int(found[0])


def _fixed(values: KnownValues, op: int, port: int, depth: int = 0) -> Value | None:
    """The elements of a small tensor that follow from constants, shapes and walked loops alone."""
    key = (op, port)
    if key not in values.fixed:
        values.fixed[key] = None
        if depth < MAX_DEPTH:
            values.fixed[key] = _computed(values, op, port, depth + 1)
    return values.fixed[key]


def _computed(values: KnownValues, op: int, port: int, depth: int) -> Value | None:
    flow, kind = values.flow, values.flow.ops.kind[op]
    if kind in PASSED_ON or kind in ENTERS:
        at = flow.value(op)
        return None if at is None else _fixed(values, *at, depth)
    if kind in MERGES:
        only = None if port else initial(flow, op) or values.merged.only(flow, op)
        return None if only is None else _fixed(values, *only, depth)
    if kind in EXITS:
        left = values.walked.get(origin(flow, flow.value(op), SWITCHES) or (op, 0))
        return None if left is None else (left[-1],)
    return (
        computed(values, op, port, [_fixed(values, *at, depth) for at in flow.values(op)]) if kind in VALUES else None
    )


def computed(values: KnownValues, op: int, port: int, given: Sequence[Value | None]) -> Value | None:
    """The elements of an output of an op whose inputs have these."""
    flow, kind = values.flow, values.flow.ops.kind[op]
    if kind not in VALUES:
        return None
    graph, node, site = flow.graph, int(flow.ops.node[op]), values.site
    outputs = graph.outputs(node)
    site.at(node, graph.names[node], kind, graph.attrs[node], len(outputs))
    site.values, site.handles = list(given), [None] * len(given)
    rows = [int(flow.edges.row[edge]) for edge in flow.inputs[op] if flow.data[edge]]
    site.types = [int(graph.tensor_dtype[row]) if row >= 0 else 0 for row in rows]

    def shape(row: int) -> Dims:
        sides = graph.tensor_shape[row] if row >= 0 else None
        return None if sides is None else tuple([site.fresh() if side < 0 else side for side in sides])

    site.shapes = [shape(row) for row in rows]
    try:
        found = VALUES[kind](site, [shape(row) for row in outputs])
    except ShapeError:  # noted where shapes are inferred
        return None
    return found[port] if port < len(found) else None


def entering(values: KnownValues, enter: int) -> Value | None:
    """The elements that an Enter brings, where they are the same each time that the loop is entered."""
    found = _fixed(values, enter, 0)
    if found is None and (number := linear(values, enter, 0)) is not None:
        found = (number.start,)
    return found


def holds_for(
    values: KnownValues, op: int, port: int, *, negated: bool = False, exact: bool = False, depth: int = 0
) -> float | None:
    """The number of iterations, from the first on, in which a predicate holds; `inf` for all, None where unknown.

    Of an And of which one half is unknown, the other half gives an upper bound, which is no answer if it must be exact.
    """
    key = (op, negated, exact)
    if key not in values.holding:
        values.holding[key] = None
        values.holding[key] = _holds_for(values, op, port, negated, exact, depth + 1) if depth < MAX_DEPTH else None
    return values.holding[key]


def _holds_for(values: KnownValues, op: int, port: int, negated: bool, exact: bool, depth: int) -> float | None:
    flow, kind = values.flow, values.flow.ops.kind[op]
    if kind == "Const":
        found = linear(values, op, port)
        return None if found is None else inf if bool(found.start) is not negated else 0
    given = list(islice(flow.values(op), 2))
    if given and (kind in PASSED_ON or kind in ENTERS or kind == "LogicalNot"):
        opposite = negated is not (kind == "LogicalNot")
        return holds_for(values, *given[0], negated=opposite, exact=exact, depth=depth)
    if len(given) < 2:
        return None
    if kind in ("LogicalAnd", "LogicalOr"):
        return _joined(values, kind, [(at, negated) for at in given], negated, exact, depth)
    if kind in MERGES and (read := _as_logic(flow, op)) is not None:
        joint, halves = read
        return _joined(values, joint, [(at, turned is not negated) for at, turned in halves], negated, exact, depth)
    if kind not in NEGATED:
        return None
    a, b = (linear(values, *at) for at in given)
    if a is None or b is None:
        return None
    return iterations(NEGATED[kind] if negated else kind, a.start - b.start, a.step - b.step)


def _joined(
    values: KnownValues, kind: str, halves: Sequence[tuple[Output, bool]], negated: bool, exact: bool, depth: int
) -> float | None:
    """As `holds_for`, of a LogicalAnd or LogicalOr of two predicates, each with whether its opposite is meant."""
    found = [holds_for(values, *at, negated=turned, exact=exact, depth=depth) for at, turned in halves]
    known = [half for half in found if half is not None]
    both = (kind == "LogicalAnd") is not negated
    if len(known) == 2:
        return min(known) if both else max(known)
    return known[0] if both and known and known[0] < inf and not exact else None


def _as_logic(flow: Flow, merge: int) -> tuple[str, list[tuple[Output, bool]]] | None:
    """A branch whose value is a LogicalAnd or LogicalOr: one side is a constant, or the predicate of the branch.

    Loops of AutoGraph with a `break` end on such values: where the counter is in range, whether to go on, else false.
    """
    sides = list(flow.values(merge))
    if len(sides) != 2 or any(flow.ops.kind[at[0]] in ENTERS | NEXT_ITERATIONS for at in sides):
        return None
    one, other = (_guards(flow, at[0]) for at in sides)
    for predicate, way in sorted(one - other):
        opposite = predicate, 1 - way
        if opposite in one or opposite not in other:
            continue
        for goes, (at, instead) in ((way, sides), (1 - way, sides[::-1])):
            decided = _decided(flow, at, predicate, goes)
            if decided is not None:
                kind = "LogicalOr" if decided else "LogicalAnd"
                return kind, [(predicate, decided is not bool(goes)), (instead, False)]
    return None


def _guards(flow: Flow, op: int) -> set[tuple[Output, int]]:
    """The predicates of Switches behind an op, each with the output that leads to it; those of loops are no guards."""
    found, seen, left = set[tuple[Output, int]](), {op}, [op]
    while left and len(seen) < _MAX_BRANCH:
        for edge in flow.inputs[left.pop()]:
            source = flow.source[edge]
            predicate = flow.value(source, 1) if flow.ops.kind[source] in SWITCHES - {"_SwitchN"} else None
            predicate = origin(flow, predicate, SAME_VALUE | RECVS | SENDS)
            if predicate is not None and flow.ops.kind[predicate[0]] != "LoopCond":
                found.add((predicate, flow.port[edge]))
            elif source not in seen and flow.frame[source] == flow.frame[op]:
                seen.add(source)
                left.append(source)
    return found


def _decided(flow: Flow, at: Output, predicate: Output, way: int) -> bool | None:
    """The truth of one side of a branch where its predicate goes that way; None: it depends on more."""
    start = origin(flow, at, PASSED_ON)
    if start == predicate:
        return bool(way)
    found = elements(flow.attrs(start[0])) if start is not None and flow.ops.kind[start[0]] == "Const" else None
    return None if found is None or len(found) != 1 else bool(found[0])


@dataclass(frozen=True, eq=False)
class ValueColumns:
    """A flow whose trips are known, with the columns found so far."""

    values: KnownValues
    spaces: Sequence[IterationSpace]  # [frames]
    known: dict[Output, Ints | None] = field(default_factory=dict)  # the values of chosen predicates included

    def forget_unknown(self) -> None:
        """Drop the outputs without a column, so that they are looked for again."""
        for key in [key for key, found in self.known.items() if found is None]:
            del self.known[key]


def trips_of_entries(columns: ValueColumns, frame: int) -> Ints:
    """[outer] how often the body of a loop runs each time that it is entered."""
    space = columns.spaces[frame]
    return columns.values.ends.get(frame, np.full(space.outer, space.trips))


def column(columns: ValueColumns, op: int, port: int, depth: int = 0) -> Ints | None:
    """[size of the frame in which it is read] a value, truths as 0 and 1; None where the graph does not determine it.

    Entries of iterations in which the op does not run have no meaning.
    """
    key = (op, port)
    if key not in columns.known:
        columns.known[key] = None  # a value that depends on itself stays unknown
        found = _column(columns, op, port, depth + 1) if depth < MAX_DEPTH else None
        if found is not None and (not len(found) or int(np.abs(found).max()) < _MAX_SIZE):
            columns.known[key] = found
    return columns.known[key]


def _column(columns: ValueColumns, op: int, port: int, depth: int) -> Ints | None:
    values, flow = columns.values, columns.values.flow
    kind, frame = flow.ops.kind[op], flow.frame[op]
    space = columns.spaces[frame]
    if (number := _fixed_number(values, op, port)) is not None:
        return np.full(columns.spaces[flow.output_frame(op)].size, number)
    if (found := values.walked.get((op, port))) is not None and len(found) > space.trips:
        one = np.array(found, np.int64)[np.minimum(np.arange(space.width), len(found) - 1)]
        return np.tile(one, space.outer)
    if (table := values.by_entry.get((op, port))) is not None and len(table) == space.outer:
        return table[:, np.minimum(np.arange(space.width), table.shape[1] - 1)].reshape(-1)
    if (op, port) in values.pops:
        at = values.pops[op, port]
        pushed = column(columns, *at, depth)
        return None if pushed is None else popped(columns, pushed, flow.output_frame(at[0]), frame)
    if kind in MERGES:
        only = values.merged.only(flow, op)
        if port:
            return None
        if only is not None:
            return column(columns, *only, depth)
        return _mixed(columns, op, depth) if values.merged.is_mixed(op) else _counter_column(columns, op, depth)
    if kind in _ELEMENTS:
        return _element(columns, op, depth)
    given = [column(columns, *at, depth) for at in islice(flow.values(op), None if kind == "AddN" else 2)]
    a, b = [*given, None, None][:2]
    if kind in ("LogicalAnd", "LogicalOr"):
        return _logical(a, b, 0 if kind == "LogicalAnd" else 1)
    if a is None:
        return None
    if kind == "LogicalNot":
        return 1 - a
    if kind in ENTERS:
        return np.repeat(a, columns.spaces[flow.child[op]].width)
    if kind in EXITS:
        if values.trips[frame] is None:
            return None
        return a.reshape(space.outer, space.width)[np.arange(space.outer), trips_of_entries(columns, frame)]
    if kind == "Cast":
        return (a != 0).astype(np.int64) if _cast_type(flow, op) == BOOL else a
    if kind in PASSED_ON:
        return a if len(a) == space.size else None
    return _arithmetic(kind, given)


def _element(columns: ValueColumns, op: int, depth: int) -> Ints | None:
    """The element of an array that is the same in every iteration, at the place that each iteration takes."""
    flow = columns.values.flow
    read = _ELEMENTS[flow.ops.kind[op]](columns.values, op)
    if read is None:
        return None
    found, places = _fixed(columns.values, *read[0]), column(columns, *read[1], depth)
    if not found or places is None or not all(one > SYMBOLS and float(one).is_integer() for one in found):
        return None
    from_the_start = np.where(places < 0, places + len(found), places)
    return np.take(np.array([int(one) for one in found], np.int64), from_the_start, mode="clip")


def _list_element(values: KnownValues, op: int) -> tuple[Output, Output] | None:
    """The array and the place of a TensorListGetItem: the list is an array's rows."""
    flow = values.flow
    of, place = islice(flow.values(op), 2)
    made = _unchanged(flow, of)
    array = flow.value(made[0]) if made is not None and flow.ops.kind[made[0]] == "TensorListFromTensor" else None
    return None if array is None else (array, place)


def _array_element(values: KnownValues, op: int) -> tuple[Output, Output] | None:
    """Those of a TensorArrayReadV3: an array was scattered into it in order."""
    flow = values.flow
    made, place = _unchanged(flow, flow.value(op, 2)), flow.value(op, 1)
    if made is None or place is None or flow.ops.kind[made[0]] != "TensorArrayScatterV3":
        return None
    order, array = flow.value(made[0], 1), flow.value(made[0], 2)
    found = None if order is None else _fixed(values, *order)
    return (array, place) if array is not None and found and found == tuple(range(len(found))) else None


def _gathered_element(values: KnownValues, op: int) -> tuple[Output, Output] | None:
    """Those of a Gather of one place; of more than a vector a row is no single number."""
    array, place = islice(values.flow.values(op), 2)
    return (array, place) if _ranks(values.flow, op) == [1, 0] else None


def _sliced_element(values: KnownValues, op: int) -> tuple[Output, Output] | None:
    """Those of a StridedSlice that takes one element, as `array[i]` does."""
    flow = values.flow
    attrs, begin = flow.attrs(op), origin(flow, flow.value(op, 1), PASSED_ON)
    array, single = flow.value(op), {"shrink_axis_mask": 1, "begin_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0}
    if any((attrs[name].i if name in attrs else 0) != mask for name, mask in single.items()):
        return None
    if array is None or begin is None or flow.ops.kind[begin[0]] != "Pack" or _ranks(flow, op) != [1, 1]:
        return None
    places = list(flow.values(begin[0]))
    return (array, places[0]) if len(places) == 1 else None


def _unchanged(flow: Flow, at: Output | None) -> Output | None:
    """The origin of what no loop changes on the way."""
    for _ in range(MAX_DEPTH):
        at = origin(flow, at, PASSED_ON | ENTERS)
        before = initial(flow, at[0]) if at is not None and flow.ops.kind[at[0]] in MERGES else None
        if before is None:
            return at
        at = before
    return None


def _ranks(flow: Flow, op: int) -> list[int | None]:
    """The number of dimensions of the first two inputs."""
    rows = [int(flow.edges.row[edge]) for edge in flow.inputs[op] if flow.data[edge]][:2]
    shapes = [flow.graph.tensor_shape[row] if row >= 0 else None for row in rows]
    return [None if shape is None else len(shape) for shape in shapes]


_ELEMENTS: Mapping[str, Callable[[KnownValues, int], tuple[Output, Output] | None]] = {
    "TensorListGetItem": _list_element,
    "TensorArrayReadV3": _array_element,
    "Gather": _gathered_element,
    "GatherV2": _gathered_element,
    "StridedSlice": _sliced_element,
}


def _arithmetic(kind: str, given: Sequence[Ints | None]) -> Ints | None:
    known = [one for one in given if one is not None]
    if not known or len(known) < len(given) or len({len(one) for one in known}) > 1:
        return None
    if kind == "AddN":
        return sum(known[1:], known[0]) if sum(int(np.abs(one).max(initial=0)) for one in known) < _MAX_SIZE else None
    if len(known) != 2:
        return None
    a, b = known
    if kind in _COMPARISONS:
        return _COMPARISONS[kind](a, b).astype(np.int64)
    if kind not in _ARITHMETIC or (kind in _DIVISIONS and not b.all()):
        return None
    if kind == "Mul" and max(np.abs(a).max(initial=0), np.abs(b).max(initial=0)) > _MAX_FACTOR:
        return None
    return _ARITHMETIC[kind](a, b)


def _logical(a: Ints | None, b: Ints | None, decides: int) -> Ints | None:
    """And or Or of two truth values; one may be unknown where the other one decides."""
    for one, other in ((a, b), (b, a)):
        if one is not None and (other is None or len(other) != len(one)):
            return one if (one == decides).all() else None
    if a is None or b is None:
        return None
    return np.minimum(a, b) if decides == 0 else np.maximum(a, b)


def _mixed(columns: ValueColumns, merge: int, depth: int) -> Ints | None:
    """The value of a Merge whose live input varies from iteration to iteration; 0 in those that were not looked at."""
    flow, merged = columns.values.flow, columns.values.merged
    space, seen = columns.spaces[flow.frame[merge]], merged.spaces[flow.frame[merge]]
    if seen.outer != space.outer or seen.width > space.width:
        return None
    found = np.zeros((space.outer, space.width), np.int64)
    for at, live in merged.inputs[merge]:
        given = column(columns, *at, depth)
        if given is None or len(given) != space.size or live >> seen.size:
            return None
        where = np.zeros(found.shape, np.bool_)
        where[:, : seen.width] = seen.grid(live)
        found[where] = given.reshape(found.shape)[where]
    return found.reshape(-1)


def _counter_column(columns: ValueColumns, merge: int, depth: int) -> Ints | None:
    """A loop variable that grows by the same amount in each iteration."""
    flow = columns.values.flow
    space = columns.spaces[flow.frame[merge]]
    pair, step = loop_variable(flow, merge), _increment(columns.values, merge)
    start = column(columns, *pair[0], depth) if pair is not None and step is not None else None
    if start is None or step is None or len(start) != space.size:
        return None
    return (start.reshape(space.outer, space.width)[:, :1] + step * np.arange(space.width)).reshape(-1)


def popped(columns: ValueColumns, pushed: Ints, there: int, here: int) -> Ints | None:
    """The values that loops of a gradient pop, of those that the loops of the forward pass pushed.

    None where the loop nests of the two frames differ in depth or trips.
    """
    places = _mirrored(columns, there, here)
    return None if places is None or len(pushed) != columns.spaces[there].size else pushed[places]


def have_equal_trips(columns: ValueColumns, there: int, here: int) -> bool:
    """Tell whether the loop nests of two frames have the same depth, and the one the trips of the other mirrored."""
    return _mirrored(columns, there, here) is not None


def _mirrored(columns: ValueColumns, there: int, here: int) -> Ints | None:
    """[size of `here`] the iteration of `there` that stands for each iteration, the last for the first."""
    flow, spaces = columns.values.flow, columns.spaces
    nests = flow.loop_nest(there), flow.loop_nest(here)
    if len(nests[0]) != len(nests[1]) or any(columns.values.trips[row] is None for nest in nests for row in nest):
        return None
    places = np.zeros(1, np.int64)
    for forth, back in zip(*nests, strict=True):
        trips = trips_of_entries(columns, back)
        if not np.array_equal(trips, trips_of_entries(columns, forth)[places]):
            return None
        iteration, ends = np.arange(spaces[back].width), trips[:, None]
        mirrored = np.where(iteration < ends, ends - 1 - iteration, ends)
        places = (places[:, None] * spaces[forth].width + mirrored).reshape(-1)
    return places
