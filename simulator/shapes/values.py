"""The values that shapes depend on: shapes as vectors, constants, and what is computed of them.

A value is followed only where a rule reads it. Structure (joining, slicing, gathering) is the same for numbers and
symbols. Arithmetic knows sums, differences, products and quotients of symbols; other ops want numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.graph.const_values import elements
from simulator.graph.dtypes import BFLOAT16, BOOL, DOUBLE, FLOAT, HALF, INT64
from simulator.shapes.dims import SYMBOLS, Algebra, Dims, Number, Value, as_dim, known
from simulator.shapes.formulas.images import lengths_of_ranges
from simulator.shapes.formulas.indexing import counted, strided_entries
from simulator.shapes.origins import ELEMENT
from simulator.shapes.ranges import BOUNDING, ordered
from simulator.shapes.site import MAX_ELEMENTS, Outputs, ShapeError, Site

# The elements of each output, given the shapes that the rule found; None: they are not followed.
ValueRule: TypeAlias = Callable[[Site, Outputs], "Sequence[Value | None]"]
Objects: TypeAlias = npt.NDArray[Any]  # Any: numbers of Python, symbols included

_NONE: tuple[None] = (None,)
_FLOATS = frozenset((FLOAT, DOUBLE, BFLOAT16, HALF))
_WIDEST = 2**31  # a larger whole number may have wrapped around


# ---- from shapes ----------------------------------------------------------------------------------------------------


def shapes(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Shape and ShapeN: the dimensions."""
    return site.shapes


def rank(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Rank: the number of dimensions."""
    shape = site.shape(0)
    return _NONE if shape is None else ((len(shape),),)


def size(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Size: the number of elements."""
    shape = site.shape(0)
    return _NONE if shape is None else ((site.algebra.product(shape),),)


def variable_shape(site: Site, out: Outputs) -> Sequence[Value | None]:
    """VariableShape: the dimensions of the variable."""
    handle = site.handle(0, "variable")
    return _NONE if handle is None or not handle.shapes else (handle.shapes[0],)


def array_size(site: Site, out: Outputs) -> Sequence[Value | None]:
    """TensorArraySize and TensorListLength: the number of elements, where it is fixed."""
    handle = site.handles[0] if site.handles else None
    return _NONE if handle is None or handle.length == SYMBOLS else ((handle.length,),)


def popped(site: Site, out: Outputs) -> Sequence[Value | None]:
    """StackPop and TensorListPopBack: what was put in, if that was always the same."""
    handle = site.handles[0] if site.handles else None
    if handle is None:
        return (None,) * site.outputs
    if handle.kind == "list":
        return None, handle.value
    return (site.contents.values.get(handle.key),)


def const(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Const: the numbers in the attributes."""
    found = elements(site.attrs, MAX_ELEMENTS)
    if found is None:
        return _NONE
    if site.origins is not None and all(isinstance(one, int) for one in found):
        entry = site.origins.entry
        found = [entry(site.node, "value", ELEMENT, at, as_dim(one), len(found)) for at, one in enumerate(found)]
        return (tuple(found),)
    return (tuple([_followed(site, one) for one in found]),)


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def _truncated(a: Number, b: Number) -> Number:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _divided(a: Number, b: Number) -> Number:
    return _truncated(a, b) if isinstance(a, int) and isinstance(b, int) else a / b


def _rounded(a: Number) -> Number:
    return float(np.rint(a))


def _power(a: Number, b: Number) -> Number:
    return a**b if not (isinstance(a, int) and b < 0) and abs(b) <= 64 else SYMBOLS


_TWO: Mapping[str, Callable[[Any, Any], Number]] = {  # Any: two numbers of one type
    "Add": operator.add,
    "AddV2": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": _divided,
    "RealDiv": operator.truediv,
    "DivNoNan": lambda a, b: a / b if b else 0.0,
    "FloorDiv": operator.floordiv,
    "TruncateDiv": _truncated,
    "FloorMod": operator.mod,
    "Mod": math.fmod,
    "TruncateMod": math.fmod,
    "Maximum": max,
    "Minimum": min,
    "Pow": _power,
    "SquaredDifference": lambda a, b: (a - b) * (a - b),
    "Equal": operator.eq,
    "NotEqual": operator.ne,
    "Less": operator.lt,
    "LessEqual": operator.le,
    "Greater": operator.gt,
    "GreaterEqual": operator.ge,
    "LogicalAnd": lambda a, b: a and b,
    "LogicalOr": lambda a, b: a or b,
}
_ONE: Mapping[str, Callable[[Any], Number]] = {  # Any: a number
    "Neg": operator.neg,
    "Abs": abs,
    "Sign": lambda a: (a > 0) - (a < 0),
    "Square": lambda a: a * a,
    "Floor": lambda a: float(math.floor(a)),
    "Ceil": lambda a: float(math.ceil(a)),
    "Round": _rounded,
    "Rint": _rounded,
    "Sqrt": math.sqrt,
    "Rsqrt": lambda a: 1 / math.sqrt(a),
    "Exp": math.exp,
    "Log": math.log,
    "LogicalNot": operator.not_,
    "Reciprocal": lambda a: 1 / a,
    "Inv": lambda a: 1 / a,
}
_OF_SYMBOLS: Mapping[str, Callable[[Algebra, int, int], int]] = {
    "Add": Algebra.plus,
    "AddV2": Algebra.plus,
    "Sub": Algebra.minus,
    "Mul": Algebra.times,
    "FloorDiv": Algebra.floor_divided,
}
ONE, TWO = tuple(_ONE), tuple(_TWO)


def unary(site: Site, out: Outputs) -> Sequence[Value | None]:
    """An op of one number, for each element."""
    value, function = site.value(0), _ONE[site.op]
    if value is None:
        return _NONE
    return (tuple([_checked(site, function, one) for one in value]),)


def binary(site: Site, out: Outputs) -> Sequence[Value | None]:
    """An op of two numbers, for each element; a single one is stretched."""
    a, b = site.value(0), site.value(1)
    left, right = site.shape(0), site.shape(1)
    if (a is None) is not (b is None) and site.op in BOUNDING:
        a, b = _or_fresh(site)
    if a is None or b is None:
        return _NONE
    if len(a) != len(b) or (left != right and left and right):
        pair = _stretched(a, left, b, right)
        if pair is None:
            return _NONE
        a, b = pair
    return (tuple([_joined(site, site.op, x, y) for x, y in zip(a, b, strict=True)]),)


def added(site: Site, out: Outputs) -> Sequence[Value | None]:
    """AddN: the sum of all inputs, for each element."""
    values = [value for value in site.values if value is not None]
    if len(values) < len(site.values) or len({len(value) for value in values}) != 1:
        return _NONE
    sums = [reduce(lambda x, y: _joined(site, "AddV2", x, y), one) for one in zip(*values, strict=True)]
    return (tuple(sums),)


def _joined(site: Site, op: str, x: Number, y: Number) -> Number:
    """The result of an op of two numbers; of symbols a symbol."""
    if x > SYMBOLS and y > SYMBOLS:
        return _checked(site, _TWO[op], x, y)
    if op in _OF_SYMBOLS and isinstance(x, int) and isinstance(y, int):
        return _OF_SYMBOLS[op](site.algebra, x, y)
    return _of_unknown(site, op, x, y)


def _of_unknown(site: Site, op: str, x: Number, y: Number) -> Number:
    """Join two numbers of which one is not known: a dimension is neither negative nor another one."""
    if op in BOUNDING and (pair := ordered(site, x, y)) is not None:
        return pair[op == "Maximum"]
    if op in ("Equal", "NotEqual") and x == y:
        return op == "Equal"
    if op == "Mul" and 0 in (x, y):
        return 0
    return site.algebra.symbol(op, x, y)


def _checked(site: Site, function: Callable[..., Number], *numbers: Number) -> Number:
    """The result in the type of the op; a symbol where there is none."""
    if min(numbers) <= SYMBOLS:
        return site.algebra.symbol(site.op, *numbers)
    try:
        made = function(*numbers)
    except (ArithmeticError, ValueError):  # TensorFlow refuses it, or gives a number that no shape has
        return site.fresh()
    if isinstance(made, bool):
        return int(made)
    if isinstance(made, float):
        made = _followed(site, made)
        if made <= SYMBOLS:
            return made
        if site.dtype(0) == FLOAT:
            return float(np.float32(made))
        return made if site.dtype(0) in _FLOATS else int(made)
    return made if abs(made) < (_WIDEST**2 if site.dtype(0) == INT64 else _WIDEST) else site.fresh()


def of_whole_numbers(op: str, numbers: Sequence[int]) -> int | None:
    """The result of an op of one or two whole numbers, if it is one that does not wrap around."""
    if op == "Div" or len(numbers) not in (1, 2):  # of numbers that were cast to fractions it is another one
        return None
    function = (_ONE if len(numbers) == 1 else _TWO).get("FloorDiv" if op == "//" else op)
    try:
        made = None if function is None else function(*numbers)
    except (ArithmeticError, ValueError):  # TensorFlow refuses it
        return None
    return int(made) if isinstance(made, int) and abs(made) < _WIDEST else None


def _followed(site: Site, number: Number) -> Number:
    """A number that no symbol is; of a float that is larger than all sizes, infinite or none at all a symbol."""
    return number if isinstance(number, int) or abs(number) < -SYMBOLS else site.fresh()


def _stretched(a: Value, left: Dims, b: Value, right: Dims) -> tuple[Value, Value] | None:
    if len(a) == 1 or len(b) == 1:
        wide = max(len(a), len(b)) if a and b else 0
        return (a * wide if len(a) == 1 else a), (b * wide if len(b) == 1 else b)
    x, y = _array(a, left), _array(b, right)
    if x is None or y is None:
        return None
    try:
        both = np.broadcast_arrays(x, y)
    except ValueError:  # the rule of the shapes has said so
        return None
    return (_flat(both[0]), _flat(both[1])) if both[0].size <= MAX_ELEMENTS else None


def cast(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Cast: whole numbers from fractions are cut towards 0."""
    value, wanted = site.value(0), site.attrs.get("DstT")
    if value is None or wanted is None:
        return _NONE
    to = wanted.type

    def one(number: Number) -> Number:
        if number <= SYMBOLS:
            return number
        if to == BOOL:
            return int(number != 0)
        if to == FLOAT:
            return float(np.float32(number))
        return float(number) if to in _FLOATS else as_dim(number)

    return (tuple([one(number) for number in value]),)


def reduction(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Prod, Sum, Max, Min, Mean, All and Any of a small tensor."""
    value, axes, shape = site.value(0), site.wholes(1), site.shape(0)
    if value is None or axes is None or shape is None or out[0] is None or min(out[0], default=0) < 0:
        return _NONE
    whole = len({axis % max(1, len(shape)) for axis in axes}) == len(shape)
    if not axes:
        return (value,)
    if whole:
        return ((_reduced(site, value),),)
    given = _array(value, shape)
    if given is None:
        return _NONE
    gone = sorted({site.axis(axis, len(shape)) for axis in axes})
    kept = [at for at in range(len(shape)) if at not in gone]
    rows = given.transpose([*kept, *gone]).reshape(math.prod(shape[at] for at in kept), -1)
    return (tuple([_reduced(site, tuple(row)) for row in rows.tolist()]),)


def _reduced(site: Site, row: Value) -> Number:
    if site.op == "Prod" and all(isinstance(one, int) for one in row):
        return site.algebra.product([as_dim(one) for one in row])
    if site.op == "Sum" and all(isinstance(one, int) for one in row):
        total = 0
        for one in row:
            total = site.algebra.plus(total, as_dim(one))
        return total
    if not known(row) or (not row and site.op in ("Max", "Min", "Mean")):
        return site.fresh()
    functions: Mapping[str, Callable[[Value], Number]] = {
        "Max": max,
        "Min": min,
        "Sum": sum,
        "Prod": math.prod,
        "All": lambda some: int(all(some)),
        "Any": lambda some: int(any(some)),
        "Mean": lambda some: sum(some) / len(some),
    }
    return _checked(site, lambda *some: functions[site.op](some), *row)


def chosen(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Select: elements of one case or the other."""
    condition, a, b = (site.value(slot) for slot in range(3))
    if condition is None or a is None or b is None or not known(condition):
        return _NONE
    count = max(len(condition), len(a), len(b)) if condition and a and b else 0
    if any(len(one) not in (1, count) for one in (condition, a, b)):
        return _NONE
    wide = [one * count if len(one) == 1 else one for one in (condition, a, b)]
    return (tuple([x if which else y for which, x, y in zip(*wide, strict=True)]),)


def clipped(site: Site, out: Outputs) -> Sequence[Value | None]:
    """ClipByValue: between the second input and the third."""
    value = _or_fresh(site)[0]
    low, high = site.value(1), site.value(2)
    if value is None or low is None or high is None or len(low) != 1 or len(high) != 1:
        return _NONE
    above = [_joined(site, "Maximum", one, low[0]) for one in value]
    return (tuple([_joined(site, "Minimum", one, high[0]) for one in above]),)


# ---- structure ------------------------------------------------------------------------------------------------------


def kept(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Ops that lay the same elements out anew."""
    return (site.value(0),)


def packed(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Pack: single elements become a vector, vectors a matrix."""
    if all(shape == () for shape in site.shapes):
        return (tuple([SYMBOLS if one is None else one[0] for one in _or_fresh(site)]),)
    return _structured(site, out, lambda parts: np.stack(parts, site.number("axis")))


def _or_fresh(site: Site) -> list[Value | None]:
    """The values of the inputs; of unknown ones of a known small size, symbols."""
    found: list[Value | None] = []
    for value, shape in zip(site.values, site.shapes, strict=True):
        if value is None and shape is not None and min(shape, default=0) >= 0 and math.prod(shape) <= MAX_ELEMENTS:
            value = tuple([site.fresh() for _ in range(math.prod(shape))])
        found.append(value)
    return found


def concatenated(site: Site, out: Outputs) -> Sequence[Value | None]:
    """ConcatV2: the elements of vectors, one behind the other."""
    parts, axis = site.shapes[:-1], site.whole(-1)
    if axis is None or out[0] is None or any(shape is None or min(shape, default=0) < 0 for shape in parts):
        return _NONE
    given = [_array(value, shape) for value, shape in zip(_or_fresh(site)[:-1], parts, strict=True)]
    found = [part for part in given if part is not None]
    return _NONE if len(found) < len(given) else (_flat(np.concatenate(found, axis)),)


def first_concatenated(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Concat: the same, the axis first."""
    site.shapes = [*site.shapes[1:], site.shapes[0]]
    site.values = [*site.values[1:], site.values[0]]
    return concatenated(site, out)


def unpacked(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Unpack: the slices along an axis."""
    given = _array(site.value(0), site.shape(0))
    if given is None or not given.ndim:
        return _NONE
    return [_flat(one) for one in np.moveaxis(given, site.number("axis"), 0)]


def parted(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Split and SplitV: the parts along an axis."""
    tensor, axes = (1, 0) if site.op == "Split" else (0, 2)
    given, axis = _array(site.value(tensor), site.shape(tensor)), site.whole(axes)
    if given is None or axis is None or any(shape is None or min(shape, default=0) < 0 for shape in out):
        return _NONE
    ends = np.cumsum([(shape or ())[axis] for shape in out])[:-1]
    return [_flat(part) for part in np.split(given, ends, axis)]


def sliced(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Slice: from begins on, of the sizes that the rule found."""
    given, begins, sizes = _array(site.value(0), site.shape(0)), site.wholes(1), out[0]
    if given is None or begins is None or sizes is None or min(sizes, default=0) < 0:
        return _NONE
    return (_flat(given[tuple(slice(at, at + count) for at, count in zip(begins, sizes, strict=True))]),)


def strided(site: Site, out: Outputs) -> Sequence[Value | None]:
    """StridedSlice: what the rule takes of each dimension."""
    given = _array(site.value(0), site.shape(0))
    entries = strided_entries(site, site.shape(0))
    if given is None or entries is None:
        return _NONE
    index: list[Any] = []  # Any: what numpy takes as an index
    for kind, begin, stride, count in entries:
        if begin <= SYMBOLS or count < 0:
            return _NONE
        if kind == "new":
            index.append(None)
        elif kind == "drop":
            index.append(begin)
        else:
            index.append(np.arange(begin, begin + stride * count, stride))
    if len(entries) == 1:
        return (_flat(given[index[0]]),)
    return (_flat(_one_by_one(given, index)),)


def _one_by_one(given: Objects, index: Sequence[Any]) -> Objects:
    """Index each dimension by itself."""
    axis = 0
    for one in index:
        if one is None:
            given = np.expand_dims(given, axis)
            axis += 1
        elif isinstance(one, int):
            given = given.take(one, axis)
        else:
            given = given.take(one, axis)
            axis += 1
    return given


def gathered(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Gather and GatherV2: the elements at the indices."""
    given, index = _array(site.value(0), site.shape(0)), site.wholes(1)
    axis = 0 if site.op == "Gather" else site.whole(2)
    if given is None or index is None or axis is None or not given.ndim or site.number("batch_dims"):
        return _NONE
    side = given.shape[axis]
    if any(not 0 <= at < side for at in index):
        return _NONE
    return (_flat(given.take(np.array(index, np.int64).reshape(site.shape(1) or ()), axis)),)


def transposed(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Transpose: in the order that the second input gives."""
    given, order = _array(site.value(0), site.shape(0)), site.wholes(1)
    return _NONE if given is None or order is None else (_flat(given.transpose(order)),)


def reversed_(site: Site, out: Outputs) -> Sequence[Value | None]:
    """ReverseV2: backwards along the named axes."""
    given, axes = _array(site.value(0), site.shape(0)), site.wholes(1)
    return _NONE if given is None or axes is None else (_flat(np.flip(given, axes)),)


def rolled(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Roll: shifted along the named axes, and what is shifted out comes in on the other side."""
    given, shifts, axes = _array(site.value(0), site.shape(0)), site.wholes(1), site.wholes(2)
    if given is None or shifts is None or axes is None or len(shifts) != len(axes):
        return _NONE
    return (_flat(np.roll(given, tuple(shifts), tuple(axes))),)


def tiled(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Tile: as often as the second input says."""
    given, times = _array(site.value(0), site.shape(0)), site.wholes(1)
    if given is None or times is None or given.size * math.prod(times) > MAX_ELEMENTS:
        return _NONE
    return (_flat(np.tile(given, times)),)


def padded(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Pad and PadV2: zeros, or the third input, around."""
    given, pads = _array(site.value(0), site.shape(0)), site.wholes(1)
    filler = site.value(2) if site.op == "PadV2" else (0,)
    if given is None or pads is None or filler is None or _count(out[0]) is None:
        return _NONE
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    return (_flat(np.pad(given, pairs, constant_values=filler[0])),)


def filled(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Fill: the second input, as often as the shape has elements."""
    count, one = _count(out[0]), site.value(1)
    return _NONE if count is None or one is None or len(one) != 1 else (one * count,)


def alike(number: int) -> ValueRule:
    """ZerosLike and OnesLike."""

    def rule(site: Site, out: Outputs) -> Sequence[Value | None]:
        count = _count(out[0])
        return _NONE if count is None else ((number,) * count,)

    return rule


def counting(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Range: the numbers themselves."""
    count, start, step = _count(out[0]), site.value(0), site.value(2)
    if count is None or start is None or step is None or not known(start) or not known(step):
        return _NONE
    return (tuple([_checked(site, lambda at: start[0] + at * step[0], at) for at in range(count)]),)


def one_hot(site: Site, out: Outputs) -> Sequence[Value | None]:
    """OneHot of a single index: one element differs from all others."""
    count, at, on, off = _count(out[0]), site.whole(0), site.value(2), site.value(3)
    if count is None or at is None or site.shape(0) != () or not (on and off):
        return _NONE
    return (tuple([on[0] if one == at else off[0] for one in range(count)]),)


def broadcast_to(site: Site, out: Outputs) -> Sequence[Value | None]:
    """BroadcastTo: stretched to the shape."""
    given = _array(site.value(0), site.shape(0))
    if given is None or _count(out[0]) is None:
        return _NONE
    return (_flat(np.broadcast_to(given, out[0] or ())),)


def broadcast_args(site: Site, out: Outputs) -> Sequence[Value | None]:
    """BroadcastArgs: the shape to which two shapes are stretched."""
    a, b = site.value(0), site.value(1)
    if a is None or b is None:
        return _NONE
    try:
        return (site.broadcast(tuple(map(as_dim, a)), tuple(map(as_dim, b))),)
    except ShapeError:  # it is refused when it runs
        return _NONE


def reshaped_sparse(site: Site, out: Outputs) -> Sequence[Value | None]:
    """SparseReshape: the second output is the new shape, in which -1 is all that is left."""
    old, new = site.value(1), site.value(2)
    if new is None or new.count(-1) > 1 or (-1 in new and old is None):
        return (None, None)
    if -1 not in new:
        return (None, new)
    rest = site.algebra.product([as_dim(side) for side in new if side != -1])
    left = site.algebra.quotient(site.algebra.product(list(map(as_dim, old or ()))), rest)
    return (None, None if left is None else tuple([left if side == -1 else side for side in new]))


def inverted(site: Site, out: Outputs) -> Sequence[Value | None]:
    """InvertPermutation: the place of each number."""
    order = site.wholes(0)
    if order is None or sorted(order) != list(range(len(order))):
        return _NONE
    made = [0] * len(order)
    for at, one in enumerate(order):
        made[one] = at
    return (tuple(made),)


def axis_in_format(site: Site, out: Outputs) -> Sequence[Value | None]:
    """DataFormatDimMap: the same axes in the other data format (tensorflow/core/kernels/data_format_ops.h)."""
    order, axes = _places(site), site.wholes(0)
    if order is None or axes is None or any(not -len(order) <= axis < len(order) for axis in axes):
        return _NONE
    return (tuple([order.index(axis % len(order)) for axis in axes]),)


def in_format(site: Site, out: Outputs) -> Sequence[Value | None]:
    """DataFormatVecPermute: a row for each axis in the order of the other data format; sizes alone have no N and C."""
    order, given = _places(site), _array(site.value(0), site.shape(0))
    if order is None or given is None or not given.ndim:
        return _NONE
    if len(given) < len(order):
        spatial = [axis for axis in range(len(order)) if site.text("src_format", "NHWC")[axis] not in "NC"]
        order = [spatial.index(axis) for axis in order if axis in spatial]
    return (_flat(given.take(order, 0)),) if len(given) == len(order) else _NONE


def _places(site: Site) -> list[int] | None:
    """The axis in the data format that comes in, of each axis in the one that goes out."""
    given, made = site.text("src_format", "NHWC"), site.text("dst_format", "NCHW")
    return [given.index(axis) for axis in made] if len(set(given)) == len(given) and set(given) == set(made) else None


def offsets(site: Site, out: Outputs) -> Sequence[Value | None]:
    """ConcatOffset: where each part begins."""
    axis, parts = site.whole(0), site.values[1:]
    if axis is None or any(part is None or not -len(part) <= axis < len(part) for part in parts):
        return [None] * site.outputs
    begin, made = 0, []
    for part in parts:
        if part is not None:
            at = axis % len(part)
            made.append((*[0] * at, begin, *[0] * (len(part) - at - 1)))
            begin = site.algebra.plus(begin, as_dim(part[at]))
    return made


def stitched(site: Site, out: Outputs) -> Sequence[Value | None]:
    """DynamicStitch: each row at its index; a later one counts."""
    parts = len(site.shapes) // 2
    count = _count(out[0])
    if count is None or out[0] is None or not out[0] or not out[0][0]:
        return _NONE
    width = count // out[0][0]
    made: list[Number] = [site.fresh() for _ in range(count)] if count <= MAX_ELEMENTS else []
    for at in range(parts):
        index, rows = site.wholes(at), site.value(at + parts)
        if index is None or rows is None or len(rows) != width * len(index):
            return _NONE
        for place, row in enumerate(index):
            made[row * width : (row + 1) * width] = rows[place * width : (place + 1) * width]
    return (tuple(made),)


def scattered(site: Site, out: Outputs) -> Sequence[Value | None]:
    """TensorScatterUpdate of a vector: other numbers at some places."""
    given, index, updates, shape = site.value(0), site.wholes(1), site.value(2), site.shape(0)
    if given is None or index is None or updates is None or shape is None or len(shape) != 1:
        return _NONE
    made = dict(enumerate(given)) | dict(zip(index, updates, strict=False))
    return _NONE if len(index) != len(updates) or len(made) != len(given) else (tuple(made.values()),)


def crossed(site: Site, out: Outputs) -> Sequence[Value | None]:
    """SparseCross of matrices alone: the third output is the shape of the matrix of combinations, a row for each."""
    count = out[1][0] if out[1] else SYMBOLS
    rows = (site.shape(0) or (0,))[0]
    return (None, None, None if min(count, rows - 1) < 0 else (rows, count // rows))


def ranges(site: Site, out: Outputs) -> Sequence[Value | None]:
    """RaggedRange: where each row begins, and the numbers of all rows."""
    counts, starts, steps = lengths_of_ranges(site), site.value(0), site.value(2)
    if counts is None or starts is None or steps is None or sum(counts) > MAX_ELEMENTS:
        return (None, None)
    starts, steps = (one * len(counts) if len(one) == 1 else one for one in (starts, steps))
    each = zip(counts, starts, steps, strict=True)
    numbers = [start + step * at for count, start, step in each for at in range(count)]
    return tuple(accumulate(counts, initial=0)), tuple(numbers)


def broadcast_axes(site: Site, out: Outputs) -> Sequence[Value | None]:
    """BroadcastGradientArgs: the axes along which each of two shapes was stretched."""
    found = reduced_axes(site)
    return (None, None) if found is None else found


def reduced_axes(site: Site) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The axes of the broadcast shape to sum over for each input (`BCast`, tensorflow/core/util/bcast.h)."""
    a, b = site.value(0), site.value(1)
    if a is None or b is None:
        return None
    longest = max(len(a), len(b))
    left, right = (1,) * (longest - len(a)) + a, (1,) * (longest - len(b)) + b
    for x, y in zip(left, right, strict=True):
        if x == y != 1:  # neither is stretched, whatever the batch
            site.equate(as_dim(x), as_dim(y))
    if a == b:
        return (), ()
    first: list[int] = []
    second: list[int] = []
    for at, (x, y) in enumerate(zip(left, right, strict=True)):
        if x == y == 1:
            first.append(at)
            second.append(at)
        elif x == y:
            continue
        elif min(x, y) <= SYMBOLS:
            return None  # it may be 1
        else:
            (first if x == 1 else second).append(at)
    return tuple(first), tuple(second)


def axes_shapes(site: Site) -> Outputs:
    """The shapes of BroadcastGradientArgs: vectors, whose lengths only the values show."""
    found = reduced_axes(site)
    return [site.ranked(1), site.ranked(1)] if found is None else [(len(axes),) for axes in found]


def differing(site: Site, out: Outputs) -> Sequence[Value | None]:
    """ListDiff: what is in the first list and not in the second, and where it was."""
    a, b = site.wholes(0), site.wholes(1)
    if a is None or b is None:
        return (None, None)
    gone = set(b)
    left = [(one, at) for at, one in enumerate(a) if one not in gone]
    return tuple([one for one, _ in left]), tuple([at for _, at in left])


def places(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Where: the places of the true elements, a row each."""
    given = _array(counted(site, 0), site.shape(0))
    return _NONE if given is None else (_flat(np.argwhere(given.astype(bool))),)


def distinct(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Unique: the different elements in the order of their first places, for each element its place, and how many."""
    found = counted(site, 0)
    if found is None:
        return (None,) * site.outputs
    place = {one: at for at, one in enumerate(dict.fromkeys(found))}
    each = tuple([place[one] for one in found])
    return tuple(place), each, tuple([each.count(at) for at in place.values()])


def summed_up(site: Site, out: Outputs) -> Sequence[Value | None]:
    """Cumsum of a vector: the sum up to each element, perhaps without it."""
    found, shape = site.value(0), site.shape(0)
    if found is None or not known(found) or shape is None or len(shape) != 1 or site.flag("reverse"):
        return _NONE
    sums = list(accumulate(found, initial=0))
    return (tuple(sums[:-1] if site.flag("exclusive") else sums[1:]),)


def differing_shapes(site: Site) -> Outputs:
    """The shapes of ListDiff: vectors, whose length only the values show."""
    found = differing(site, ())[0]
    count = site.fresh() if found is None else len(found)
    return ((count,), (count,))


# ---- arrays ---------------------------------------------------------------------------------------------------------


def _array(value: Value | None, shape: Dims) -> Objects | None:
    """The value as an array of Python's numbers."""
    if value is None or shape is None or min(shape, default=0) < 0:
        return None
    made = np.empty(len(value), object)
    made[:] = value
    return made.reshape(shape) if math.prod(shape) == len(value) else None


def _flat(array: Any) -> Value:  # Any: an array, or the element that numpy takes out of one
    return tuple(array.reshape(-1).tolist()) if isinstance(array, np.ndarray) else (array,)


def _structured(site: Site, out: Outputs, lay: Callable[[list[Objects]], Objects]) -> Sequence[Value | None]:
    parts = [_array(value, shape) for value, shape in zip(site.values, site.shapes, strict=True)]
    found = [part for part in parts if part is not None]
    return _NONE if len(found) < len(parts) else (_flat(lay(found)),)


def _count(shape: Dims) -> int | None:
    """The number of elements, where it is known and small."""
    if shape is None or min(shape, default=0) < 0:
        return None
    count = math.prod(shape)
    return count if count <= MAX_ELEMENTS else None
