"""Shapes of ops that lay tensors out anew: reshape, join, split, pad, fill. Rules: tensorflow/core/ops/array_ops.cc."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from simulator.graph.tensors import HANDLE_SHAPES, MAX_RANK
from simulator.shapes.dims import SYMBOLS, Dims, as_dim
from simulator.shapes.formulas.saved import part_of_variable
from simulator.shapes.origins import Origins
from simulator.shapes.site import Handle, Outputs, Rule, ShapeError, Site, written
from simulator.shapes.traced import Traced


def const(site: Site) -> Outputs:
    """The shape of the value in the attributes; texts may say which parts of variables are restored."""
    value = site.attrs.get("value")
    if value is None:
        return (None,)
    if any(texts := value.tensor.string_val):
        site.made[0] = Handle("parts", shapes=tuple(map(part_of_variable, texts)))
    return (site.of_message(value.tensor.tensor_shape, "value"),)


def declared(site: Site) -> Outputs:
    """The shape that the node declares; the handle of a variable may say the variable's."""
    if held := site.listed(HANDLE_SHAPES):
        site.made[0] = Handle("variable", site.name, held[:1])
    return (site.declared(),)


def given_by(slot: int) -> Rule:
    """The shape that an input holds as its value."""

    def rule(site: Site) -> Outputs:
        site.input_of_rank(slot, 1)
        return (site.dims(slot),)

    return rule


def with_seed(slot: int, then: Rule) -> Rule:
    """The rule of an op whose seed is two numbers (StatelessShape in tensorflow/core/ops/stateless_random_ops.cc)."""

    def rule(site: Site) -> Outputs:
        site.learn(slot, site.merged(site.shape(slot), (2,)))
        return then(site)

    return rule


def drawn_each(site: Site) -> Outputs:
    """RandomGamma: for each parameter of the second input as many numbers as the first one holds as a shape."""
    shape, parameters = site.dims(0), site.shape(1)
    return (None if shape is None or parameters is None else shape + parameters,)


def with_default(site: Site) -> Outputs:
    """PlaceholderWithDefault: the declared shape, which the default fits."""
    shape = site.declared()
    site.merged(shape, site.shape(0))
    return (shape,)


def ensured(site: Site) -> Outputs:
    """EnsureShape: the input has the declared shape."""
    site.learn(0, shape := site.merged(site.shape(0), site.declared()))
    return (shape,)


def shape_of(site: Site) -> Outputs:
    """Shape and ShapeN: a vector with an entry per dimension."""
    return [site.ranked(1) if shape is None else (len(shape),) for shape in site.shapes]


def reshape(site: Site) -> Outputs:
    """The asked shape; a dimension of -1 is what is left of the elements (`SetOutputShapeForReshape`)."""
    given, wanted = site.shape(0), site.dims(1)
    value = site.value(1)
    if wanted is None:
        return (None,)
    if given is None or value is None:
        return (wanted,)
    open_at = [at for at, one in enumerate(value) if one == -1]
    _laid_alike(site, given, wanted)
    total, algebra = site.algebra.product(given), site.algebra
    rest = algebra.product([side for at, side in enumerate(wanted) if at not in open_at])
    if len(open_at) == 1:
        if rest == 0 or (total == 0 and rest < 0):
            return (_of_none(site, given, wanted, open_at[0]),)
        if open_at == [0] and given[1 - len(wanted) :] == wanted[1:]:
            site.equate_all(given[1 - len(wanted) :], wanted[1:])  # the leading axes become one
        left = algebra.quotient(total, rest)
        if left == 1:
            _laid_alike(site, given, tuple([side for at, side in enumerate(wanted) if at not in open_at]))
        if left is not None:
            site.equate(algebra.times(left, rest), total)
            if open_at == [0] and site.origins is not None and site.origins.size > 1:
                site.origins.join(given, left)
            if open_at[0] == len(wanted) - 1 and given[-1:] == (left,) and isinstance(rest, Traced):
                site.equate(rest, algebra.product(given[:-1]))  # the last axis stays, and the leading ones part
            return ((*wanted[: open_at[0]], left, *wanted[open_at[0] + 1 :]),)
        if total >= 0 and rest >= 0:
            raise ShapeError(f"{written(given)} with {total} elements cannot be reshaped to {written(_asked(value))}")
        return (wanted,)
    site.equate(total, rest)
    if not open_at and total < 0 < rest and site.learning:
        site.algebra.bind(total, rest)  # the input's only unknown dimension, if there is one
    if not open_at and total != rest:
        return (_one_missing(total, wanted, given),)
    return (wanted,)


def _of_none(site: Site, given: tuple[int, ...], wanted: tuple[int, ...], at: int) -> tuple[int, ...]:
    """The shape of a tensor without elements whose dimension `at` is what is left, as of any number for each 0."""
    asked = [side for place, side in enumerate(wanted) if place != at]
    if given.count(0) != asked.count(0):
        return wanted
    total, rest = (site.algebra.product([side for side in one if side != 0]) for one in (given, asked))
    left = site.algebra.quotient(total, rest)
    return wanted if left is None else (*wanted[:at], left, *wanted[at + 1 :])


def _laid_alike(site: Site, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Shapes that begin alike have the same first dimension; all dimensions if they are alike but for those of 1."""
    if given[:1] == wanted[:1]:
        site.equate_all(given[:1], wanted[:1])
    if site.origins is not None and given and wanted:
        before, after = (tuple([side for side in one if side != 1 or type(side) is not int]) for one in (given, wanted))
        site.equate_all(before, after if before == after else None)
        if site.origins.size > 1:  # of 1 there are too many
            _laid_anew(site, site.origins, given, wanted)


def _laid_anew(site: Site, origins: Origins, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Equate sides that an op lays out anew: the last ones, as far as shapes end alike, and those of joined rows.

    Rows that were joined are parted again as they were. A side may give a part to the one before it, as heads do that
    stand beside the examples.
    """
    end = _alike(given[::-1], wanted[::-1])
    if end:
        site.equate_all(given[-end:], wanted[-end:])
    parts = origins.parts(given[0])
    if parts == wanted[: len(parts)]:
        site.equate_all(parts, wanted[: len(parts)])
    origins.join(given, wanted[0])
    begin = _alike(given, wanted)
    for one, other in ((given, wanted), (wanted, given)):
        if len(one) > begin + 1 < len(other):
            (x, y), (a, b) = one[begin : begin + 2], other[begin : begin + 2]
            if b > 0 and y > 0 and not y % b and a == x * (y // b):
                site.equate(a, x * (y // b))


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """The number of sides with which two shapes begin alike."""
    return next((at for at, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))


def _asked(value: tuple[int | float, ...]) -> tuple[int, ...]:
    return tuple([as_dim(one) for one in value])


def _one_missing(total: int, wanted: tuple[int, ...], given: Dims) -> Dims:
    """A single unknown dimension of the asked shape follows from the number of elements."""
    missing = [at for at, side in enumerate(wanted) if side < 0]
    if total < 0 or len(missing) > 1:
        return wanted
    rest = prod(side for side in wanted if side >= 0)
    if not missing or (rest and total % rest):
        raise ShapeError(f"{written(given)} with {total} elements cannot be reshaped to {written(wanted)}")
    if not rest:
        return wanted
    return (*wanted[: missing[0]], total // rest, *wanted[missing[0] + 1 :])


def expanded(site: Site) -> Outputs:
    """ExpandDims: a dimension of 1 at the axis that the second input names."""
    shape, axis = site.shape(0), site.whole(1)
    if shape is None:
        return (None,)
    if axis is None:
        return (site.ranked(len(shape) + 1),)
    at = site.axis(axis, len(shape) + 1)
    return ((*shape[:at], 1, *shape[at:]),)


def squeezed(site: Site) -> Outputs:
    """Squeeze: the named dimensions of 1 are dropped, or all."""
    shape = site.shape(0)
    axes = site.numbers("squeeze_dims") or site.numbers("axis")
    if shape is None:
        return (None,)
    if not axes:
        return (None if min(shape, default=0) < 0 else tuple([side for side in shape if side != 1]),)
    gone = {site.axis(axis, len(shape)) for axis in axes}
    for at in gone:
        if shape[at] > 1 or shape[at] == 0:
            raise ShapeError(f"can not squeeze dim[{at}], expected a dimension of 1, got {shape[at]}")
    return (tuple([side for at, side in enumerate(shape) if at not in gone]),)


def transposed(site: Site) -> Outputs:
    """Transpose: the dimensions in the order that the second input gives."""
    shape, order = site.shape(0), site.wholes(1)
    if shape is None:
        rank = site.input_of_rank(1, 1)[0]
        if order is None and not 0 <= rank <= MAX_RANK:
            return (None,)
        shape = site.input_of_rank(0, rank if order is None else len(order))
    if order is None:
        return (shape if len(shape) == 1 else site.ranked(len(shape)),)
    if sorted(at + len(shape) if at < 0 else at for at in order) != list(range(len(shape))):
        raise ShapeError(f"{written(order)} is no permutation of the {len(shape)} dimensions of {written(shape)}")
    return (tuple([shape[at] for at in order]),)


def joined(site: Site, parts: list[Dims], axis: int | None) -> Outputs:
    """Tensors are laid side by side along an axis (`ConcatShapeHelper`)."""
    rank = next((len(part) for part in parts if part is not None), None)
    if axis is None:
        if any(part is not None and len(part) != rank for part in parts):
            raise ShapeError(f"shapes must be equal rank: {', '.join(map(written, parts))}")
        return (None if rank is None else site.ranked(rank),)
    if rank is None:
        return (None,)
    if rank == 0:
        raise ShapeError("can't concatenate scalars (use Pack instead)")
    at = site.axis(axis, rank)
    along: int = 0
    around: Dims = site.ranked(rank)
    for part in parts:
        sides = site.of_rank(part, rank)
        along = site.algebra.plus(along, sides[at])
        around = site.merged(around, (*sides[:at], (around or ())[at], *sides[at + 1 :]))
    sides = around or ()
    return ((*sides[:at], along, *sides[at + 1 :]),)


def concat(site: Site) -> Outputs:
    """Concat: the axis comes first."""
    return joined(site, site.shapes[1:], site.whole(0))


def concat_v2(site: Site) -> Outputs:
    """ConcatV2: the axis comes last."""
    return joined(site, site.shapes[:-1], site.whole(-1))


def parallel_concat(site: Site) -> Outputs:
    """ParallelConcat: the declared shape."""
    return (site.declared(),)


def pack(site: Site) -> Outputs:
    """Inputs of one shape are stacked along a new axis."""
    shape = site.agreed(range(len(site.shapes)))
    if shape is None:
        return (None,)
    at = site.axis(site.number("axis"), len(shape) + 1)
    return ((*shape[:at], len(site.shapes), *shape[at:]),)


def unpack(site: Site) -> Outputs:
    """A tensor is taken apart along an axis, which is dropped."""
    shape = site.shape(0)
    if shape is None:
        return (None,) * site.outputs
    site.at_least(shape, 1)
    at = site.axis(site.number("axis"), len(shape))
    site.equal(shape[at], site.number("num"), shape)
    return [shape[:at] + shape[at + 1 :]] * site.outputs


def split(site: Site) -> Outputs:
    """Split: equal parts along the axis that the first input names."""
    shape, axis, parts = site.shape(1), site.whole(0), site.number("num_split", 1)
    if shape is None:
        return (None,) * parts
    if axis is None:
        return [site.ranked(len(shape))] * parts
    at = site.axis(axis, len(shape))
    size = site.algebra.quotient(shape[at], parts) if parts > 0 else None
    if size is None:
        if shape[at] >= 0:
            raise ShapeError(f"dimension {at} of {written(shape)} is not evenly divisible by {parts}")
        size = site.fresh()
    return [(*shape[:at], size, *shape[at + 1 :])] * parts


def split_v(site: Site) -> Outputs:
    """SplitV: parts of the sizes that the second input gives; one of -1 is what is left."""
    shape, sizes, axis = site.shape(0), site.value(1), site.whole(2)
    parts = site.number("num_split", 1)
    if shape is None:
        return (None,) * parts
    if parts == 1:
        return (shape,)
    if axis is None:
        return [site.ranked(len(shape)) for _ in range(parts)]
    at = site.axis(axis, len(shape))
    given = [SYMBOLS] * parts if sizes is None else [as_dim(one) for one in sizes]
    if len(given) != parts:
        raise ShapeError(f"{len(given)} sizes for {parts} parts")
    left = shape[at]
    for one in given:
        left = left if one == -1 else site.algebra.minus(left, one)
    if any(isinstance(one, Traced) for one in given) and -1 not in given:
        site.equate(sum(given), shape[at])
    if SYMBOLS < left < 0 or (left > 0 and -1 not in given and min(given) > SYMBOLS):
        raise ShapeError(f"parts of {written(tuple(given))} do not make up dimension {at} of {written(shape)}")
    filled = [left if one == -1 else one for one in given] if sizes is not None else [site.fresh() for _ in given]
    return [(*shape[:at], one, *shape[at + 1 :]) for one in filled]


def tiled(site: Site) -> Outputs:
    """Tile: each dimension as often as the second input says."""
    shape, times = site.shape(0), site.value(1)
    if times is None:
        count = site.input_of_rank(1, 1)[0]
        if shape is None and not 0 <= count <= MAX_RANK:
            return (None,)
        return (site.ranked(len(site.input_of_rank(0, count) if shape is None else shape)),)
    sides = site.input_of_rank(0, len(times))
    return (tuple([site.algebra.times(side, as_dim(one)) for side, one in zip(sides, times, strict=True)]),)


def padded(site: Site) -> Outputs:
    """Pad: the second input has how much comes before and after each dimension."""
    return (_padded(site, 1),)


def padded_gradient(site: Site) -> Outputs:
    """MirrorPadGrad: what was padded is taken off."""
    return (_padded(site, -1),)


def _padded(site: Site, sign: int) -> Dims:
    shape, pads = site.shape(0), site.value(1)
    table = site.shape(1)
    if table is not None and len(table) != 2:
        raise ShapeError(f"paddings must have two dimensions, not {written(table)}")
    if pads is None:
        if shape is None and not (table and 0 <= table[0] <= MAX_RANK):
            return None
        return site.ranked(len(site.input_of_rank(0, (table or (0,))[0]) if shape is None else shape))
    sides = site.input_of_rank(0, len(pads) // 2)
    made = []
    for at, side in enumerate(sides):
        both = site.algebra.plus(as_dim(pads[2 * at]), as_dim(pads[2 * at + 1]))
        made.append(site.algebra.plus(side, both) if sign > 0 else site.algebra.minus(side, both))
    if any(SYMBOLS < side < 0 for side in made):
        raise ShapeError(f"the paddings leave nothing of {written(shape)}")
    return tuple(made)


def one_hot(site: Site) -> Outputs:
    """OneHot: a new axis of the depth that the second input gives."""
    shape, depth = site.shape(0), site.single(1)
    if shape is None:
        return (None,)
    axis = site.number("axis", -1)
    at = len(shape) if axis == -1 else site.axis(axis, len(shape) + 1)
    return ((*shape[:at], depth, *shape[at:]),)


def counting(site: Site) -> Outputs:
    """Range: as many numbers as there are steps from start to limit (`RangeSize`, math_ops.cc)."""
    for slot in range(3):
        site.input_of_rank(slot, 0)
    ends = [site.value(slot) for slot in range(3)]
    if any(one is None or len(one) != 1 for one in ends):
        return (site.ranked(1),)
    start, limit, step = (one[0] for one in ends if one is not None)
    step = int(step) if isinstance(step, int) else step  # no batch
    if min(start, limit, step) > SYMBOLS:
        if step == 0 or (step > 0 and start > limit) or (step < 0 and start < limit):
            raise ShapeError(f"Range from {start} to {limit} in steps of {step}")
        whole = all(isinstance(one, int) for one in (start, limit, step))
        size = max(0, as_dim(-(-(limit - start) // step) if whole else ceil(abs((limit - start) / step))))
    elif step == 1:
        size = site.algebra.minus(as_dim(limit), as_dim(start))
    else:
        return (site.ranked(1),)
    if (start, step) == (0, 1):
        site.made[0] = Handle("places", length=size)
    return ((size,),)


def spaced(site: Site) -> Outputs:
    """LinSpace: as many numbers as the third input says."""
    return ((site.single(2),),)


def broadcast_to(site: Site) -> Outputs:
    """BroadcastTo: the shape that the second input holds."""
    wanted, given = site.dims(1), site.shape(0)
    if wanted is None and given is not None and site.shape(1) is None:
        return (None,)
    if wanted is not None and given is not None:
        if len(given) > len(wanted):
            raise ShapeError(f"{written(given)} can not be broadcast to {written(wanted)}")
        site.broadcast(given, wanted)
    return (wanted,)


def broadcast_args(site: Site) -> Outputs:
    """BroadcastArgs: a vector as long as the longer of two shapes."""
    a, b = site.shape(0), site.shape(1)
    if a is None or b is None or not a or not b or min(a[0], b[0]) < 0:
        return (site.ranked(1),)
    return ((max(a[0], b[0]),),)


def reversed_sequence(site: Site) -> Outputs:
    """ReverseSequence: as the first input, which has a length per row."""
    shape, lengths = site.shape(0), site.input_of_rank(1, 1)
    if shape is None:
        return (None,)
    at = site.axis(site.number("batch_dim"), len(shape))
    return ((*shape[:at], site.equal(shape[at], lengths[0]), *shape[at + 1 :]),)


def diagonal(site: Site) -> Outputs:
    """Diag: the dimensions twice."""
    shape = site.shape(0)
    return (None if shape is None else shape + shape,)


def diagonal_part(site: Site) -> Outputs:
    """DiagPart: the first half of the dimensions, which equals the second."""
    shape = site.shape(0)
    if shape is None:
        return (None,)
    half = len(shape) // 2
    if len(shape) % 2 or not shape:
        raise ShapeError(f"the input must have an even, non-zero rank: {written(shape)}")
    return (site.merged(shape[:half], shape[half:]),)


def matrix_diagonal(site: Site) -> Outputs:
    """MatrixDiag: the last dimension twice."""
    shape = site.at_least(site.shape(0), 1)
    return (None if shape is None else (*shape, shape[-1]),)


def matrix_diagonal_v2(site: Site) -> Outputs:
    """MatrixDiagV2 and V3 of a main diagonal: the last dimension twice; else matrices of unknown size."""
    shape, diagonals = site.shape(0), _diagonals(site)
    if shape is None or diagonals is None:
        return (None,)
    low, high = diagonals
    site.at_least(shape, 1 if low == high else 2)
    batch = shape[:-1] if low == high else shape[:-2]
    rows, columns = site.whole(2), site.whole(3)
    if low == high == 0 and rows in (None, -1) and columns in (None, -1) and None not in (rows, columns):
        return ((*batch, shape[-1], shape[-1]),)
    least = shape[-1]
    made = [max(given if given is not None else -1, -1) for given in (rows, columns)]
    if -1 in made and least >= 0 and None not in (rows, columns):
        sized = (least - min(high, 0), least + max(low, 0))
        made = [own if given == -1 else given for own, given in zip(sized, made, strict=True)]
        if made[0] >= 0 and made[1] >= 0 and rows == columns == -1:
            made = [max(made)] * 2
    return ((*batch, *[site.fresh() if side < 0 else side for side in made]),)


def _diagonals(site: Site) -> tuple[int, int] | None:
    """The lowest and the highest diagonal, which the second input holds."""
    found = site.wholes(1)
    if found is not None and len(found) not in (1, 2):
        raise ShapeError(f"input 1 must have 1 or 2 elements, not {len(found)}")
    return None if found is None else (found[0], found[-1])


def diagonal_set(site: Site) -> Outputs:
    """MatrixSetDiag: the matrices, of which there are as many as diagonals. The main diagonal is their shorter side."""
    shape, diagonals = site.shape(0), site.shape(1)
    if shape is not None and diagonals is not None:
        lead = min(len(shape) - 2, len(diagonals))
        site.equate_all(shape[:lead], diagonals[:lead])
        if len(diagonals) == len(shape) - 1 and site.wholes(2) in ((0,), None):
            site.equate_all((min(shape[-2:]),), diagonals[-1:])
    return (shape,)


def matrix_diagonal_part(site: Site) -> Outputs:
    """MatrixDiagPart: the smaller of the last two dimensions."""
    shape = site.at_least(site.shape(0), 2)
    if shape is None:
        return (None,)
    return ((*shape[:-2], min(shape[-2:]) if min(shape[-2:]) >= 0 else _smaller(site, *shape[-2:])),)


def _smaller(site: Site, a: int, b: int) -> int:
    return a if a == b else site.fresh()


def matrix_diagonal_part_v2(site: Site) -> Outputs:
    """MatrixDiagPartV2 and V3: a row per diagonal, as long as the longest of them."""
    shape, diagonals = site.at_least(site.shape(0), 2), _diagonals(site)
    if shape is None or diagonals is None:
        return (None,)
    low, high = diagonals
    rows, columns = shape[-2:]
    longest = min(rows + min(high, 0), columns - max(low, 0)) if min(rows, columns) >= 0 else site.fresh()
    return ((*shape[:-2], *([high - low + 1] if high != low else []), longest),)


def bitcast(site: Site) -> Outputs:
    """Bitcast: a type of another size adds or takes the last dimension."""
    from simulator.graph.dtypes import SIZE, base

    shape, wanted = site.shape(0), site.attrs.get("type")
    old, new = SIZE.get(site.dtype(0), 0), SIZE.get(base(wanted.type), 0) if wanted is not None else 0
    if shape is None or old <= 0 or new <= 0:
        return (None,)
    if old == new:
        return (shape,)
    if old > new:
        return ((*shape, old // new),)
    site.equal((site.at_least(shape, 1) or ())[-1], new // old, shape)
    return (shape[:-1],)


def blocks_to_batch(site: Site, forward: bool, inner: tuple[int, ...] | None, pads: tuple[int, ...] | None) -> Dims:
    """Blocks of space become examples, or the other way round; `pads` is what is added or cropped."""
    shape = site.shape(0)
    if inner is None:
        return None if shape is None else site.ranked(len(shape))
    count = len(inner)
    site.at_least(shape, count + 1)
    if pads is not None and len(pads) != 2 * count:
        raise ShapeError(f"{count} block sizes need {2 * count} paddings or crops, not {len(pads)}")
    if shape is None:
        return None
    block = 1
    for side in inner:
        block *= side
    if min(inner, default=1) < 1:
        raise ShapeError(f"block sizes must be positive: {written(inner)}")
    algebra, batch = site.algebra, shape[0]
    made = [algebra.times(batch, block) if forward else _exact(site, batch, block)]
    for at, side in enumerate(inner):
        both = None if pads is None else pads[2 * at] + pads[2 * at + 1]
        if both is None:
            made.append(site.fresh())
        elif forward:
            made.append(_exact(site, algebra.plus(shape[at + 1], both), side))
        else:
            made.append(algebra.minus(algebra.times(shape[at + 1], side), both))
    return (*made, *shape[count + 1 :])


def _exact(site: Site, dim: int, by: int) -> int:
    found = site.algebra.quotient(dim, by)
    if found is None and dim >= 0:
        raise ShapeError(f"dimension size must be evenly divisible by {by} but is {dim}")
    return site.fresh() if found is None else found


def space_to_batch_nd(site: Site) -> Outputs:
    """SpaceToBatchND: block shape, then paddings."""
    return (blocks_to_batch(site, True, site.wholes(1), site.wholes(2)),)


def batch_to_space_nd(site: Site) -> Outputs:
    """BatchToSpaceND: block shape, then crops."""
    return (blocks_to_batch(site, False, site.wholes(1), site.wholes(2)),)


def space_to_batch(site: Site) -> Outputs:
    """SpaceToBatch: square blocks, then paddings."""
    return (blocks_to_batch(site, True, (site.number("block_size"),) * 2, site.wholes(1)),)


def batch_to_space(site: Site) -> Outputs:
    """BatchToSpace: square blocks, then crops."""
    return (blocks_to_batch(site, False, (site.number("block_size"),) * 2, site.wholes(1)),)


def space_to_depth(site: Site) -> Outputs:
    """SpaceToDepth: blocks of space become channels."""
    return (_depth(site, True),)


def depth_to_space(site: Site) -> Outputs:
    """DepthToSpace: channels become blocks of space."""
    return (_depth(site, False),)


def _depth(site: Site, deeper: bool) -> Dims:
    block, form = site.number("block_size"), site.text("data_format", "NHWC")
    shape = site.of_rank(site.shape(0), 5 if form == "NCHW_VECT_C" else 4)
    if form == "NCHW_VECT_C":
        return site.ranked(5)
    height, width, depth = (1, 2, 3) if form == "NHWC" else (2, 3, 1)
    made, algebra = list(shape), site.algebra
    for at in (height, width):
        made[at] = _exact(site, shape[at], block) if deeper else algebra.times(shape[at], block)
    square = block * block
    made[depth] = algebra.times(shape[depth], square) if deeper else _exact(site, shape[depth], square)
    return tuple(made)


def exchanged(site: Site) -> Outputs:
    """AllToAll: one dimension is split among the members of a group, whose parts another one joins."""
    shape, count = site.shape(0), site.number("split_count")
    if shape is None:
        return (None,)
    made = list(shape)
    joined, parted = (site.axis(site.number(f"{name}_dimension"), len(made)) for name in ("concat", "split"))
    made[joined] = site.algebra.times(made[joined], count)
    part = site.algebra.quotient(made[parted], count)
    made[parted] = site.fresh() if part is None else part
    return (tuple(made),)
