"""Variants of a kernel, which take other times at equal counts: in a format, by the layout of tensors, by rows.

    bfloat16 broadcasting rows of 4
    format   layout       numbers that lie in a row, and are computed or copied at once

A kernel does something for each row, too. A million numbers in rows of four take up to twelve times as long as in rows
of 64. Vector units do not help with so few. Rows are told by shapes alone. So are windows, of which the size counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple

from simulator.costs.formulas.contraction import Contraction
from simulator.costs.formulas.neural import convolved, window_taps
from simulator.costs.formulas.shaped_op import ShapedOp, at, elements, flag
from simulator.costs.kernels import over_batch
from simulator.costs.rules import ELEMENTWISE, Rule
from simulator.graph.graph import Shape

BFLOAT16 = "bfloat16"  # it has units of its own, or is converted number by number
BY_ROWS = "rows of "  # before the length of rows
_DIGITS = 15  # of a length in a profile, at most


def variant(rule: Rule, instance: ShapedOp, number: str, einsum: Contraction | None = None) -> str:
    """The variant of a kernel that computes in that number format; "" for the usual one."""
    layout = _layout(rule, instance, einsum)
    row = _row(instance, layout)
    told = (BFLOAT16 if number == BFLOAT16 else "", layout, f"{BY_ROWS}{row}" if row else "")
    return " ".join(filter(None, told))


def parted(variant: str) -> tuple[str, int | None]:
    """A variant without its rows, and their length; None where no shape says it."""
    rest, told, length = variant.rpartition(BY_ROWS)
    if not told or not length.isdecimal() or len(length) > _DIGITS:
        return variant, None
    return rest.strip(), max(1, int(length))


def names(op: str, variant: str) -> tuple[str, ...]:
    """The names under which a variant of an op, without its rows, may have been measured, the likest first."""
    plain = variant.removeprefix(BFLOAT16).strip()
    formats = (BFLOAT16, "") if plain != variant else ("",)
    return tuple(" ".join(filter(None, (op, *told))) for form in formats for told in ((form, plain), (form,)))


# --- layouts ---------------------------------------------------------------------------------------------------------


def _layout(rule: Rule, instance: ShapedOp, einsum: Contraction | None) -> str:
    """The layout.

    Operands of an elementwise op may differ in shape, rows or columns be repeated, or one be a number. A reduction may
    leave the last axis, or nothing. Matrices of a product may be transposed. A normalisation may take statistics that
    it is given.
    """
    if instance.op in _REDUCING:
        return _left_over(instance)
    if rule.category == ELEMENTWISE and instance.op not in _ROWS and instance.op not in _ON_LAST_AXIS:
        return _repeated(instance)
    if instance.op.startswith("FusedBatchNorm"):
        return " ".join(filter(None, ("" if over_batch(instance) else "in inference", _lanes(_channels(instance)))))
    flips = [any(flag(instance, name) for name in names) for _, names in _FLIPS] if einsum is None else einsum.flips
    flipped = [side for (side, _), flips_it in zip(_FLIPS, flips, strict=True) if flips_it]
    return f"transposed {' '.join(flipped)}" if flipped else ""


def _lanes(channels: int) -> str:
    """The numbers that a normalisation takes at once: sixteen, unless their number allows fewer."""
    return next(
        (name for lanes, name in ((16, ""), (8, "in eights"), (4, "in fours")) if channels % lanes == 0), "uneven"
    )


_FLIPS = (("a", ("transpose_a", "adj_x")), ("b", ("transpose_b", "adj_y")))
_REDUCING = frozenset(("Sum", "Mean", "Max", "Min", "Prod"))
_FEW_ROWS = 512  # that one sum joins


def _repeated(instance: ShapedOp) -> str:
    """The operands that an elementwise op repeats: a number, columns, or others; leading axes of one row are none."""
    shapes = {_without_leading_ones(shape) for shape in instance.inputs if shape is not None}
    arrays = shapes - {()}
    if len(arrays) > 1:
        return "broadcasting columns" if len({shape[-1] for shape in arrays}) > 1 else "broadcasting"
    return "by a number" if arrays and len(shapes) > 1 else ""


def _without_leading_ones(shape: Shape) -> Shape:
    first = next((axis for axis, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:]


def _left_over(instance: ShapedOp) -> str:
    """The axes that a reduction leaves: not the last one as usual, "outer" the last one, "whole" none.

    "outer few" joins few rows. Many narrow ones, read column by column, are beyond the near caches.
    """
    taken, given = instance.inputs[:1], instance.outputs[:1]
    if not taken or not given or not taken[0] or given[0] is None:
        return ""
    if all(size == 1 for size in given[0]):
        return "whole"
    if given[0][-1] != taken[0][-1] or taken[0][-1] <= 1:
        return ""
    return "outer few" if prod(taken[0]) <= _FEW_ROWS * prod(given[0]) else "outer"


# --- rows ------------------------------------------------------------------------------------------------------------


def _row(instance: ShapedOp, layout: str) -> int:
    """Numbers that lie in a row; 0 if that does not matter, or a shape is not known."""
    if instance.op in _ON_LAST_AXIS:
        return _last_axis(instance)
    rows = _repeated_rows if layout.startswith("broadcasting") else _ROWS.get(instance.op)
    first = (*instance.inputs[:1], *instance.outputs[:1])
    if rows is None or len(first) < 2 or any(one is None or -1 in one for one in first):
        return 0
    return 0 if layout in ("whole", "outer few") else rows(instance)


_ON_LAST_AXIS = frozenset(
    (
        *("Softmax", "LogSoftmax", "ArgMax", "SparseSoftmaxCrossEntropyWithLogits", "TopKV2", "ReverseV2"),
        *("Gather", "GatherV2", "ResourceGather", "ResourceScatterAdd", "ResourceScatterSub", "ScatterAdd"),
        *("ScatterSub", "ResourceSparseApplyAdagrad", "ResourceSparseApplyAdagradV2", "SparseApplyAdagrad"),
    )
)


_CHOOSING = frozenset(("ArgMax", "TopKV2"))  # some numbers of a row, which the output does not show


def _last_axis(instance: ShapedOp) -> int:
    tensors = (*instance.inputs, *(() if instance.op in _CHOOSING else instance.outputs))
    shape = next((shape for shape in tensors[::-1] if shape and len(shape) > 1), None)
    return max(1, shape[-1]) if shape else 0


def _channels(instance: ShapedOp) -> int:
    """The channels of a pixel; the pixels of a channel if the attribute puts channels first."""
    shape = next((shape for shape in (*instance.outputs, *instance.inputs) if shape and len(shape) > 1), ())
    form = instance.attrs.get("data_format")
    return (prod(shape[2:]) if form is not None and form.s.startswith(b"NC") else shape[-1]) if shape else 0


def _bias(instance: ShapedOp) -> int:
    """The same of a bias; one of a single channel is added as a number is."""
    row = _channels(instance)
    return row if row > 1 else 0


def _shared(one: Shape, other: Shape) -> int:
    """The number of last axes in which two shapes are equal."""
    sizes = list(zip(one[::-1], other[::-1], strict=False))
    return next((row for row, (a, b) in enumerate(sizes) if a != b), len(sizes))


def _from_where_they_differ(shape: Shape, other: Shape) -> int:
    """Numbers of a shape behind each other before its last difference from another one counts."""
    return prod(shape[max(0, len(shape) - 1 - _shared(shape, other)) :])


def _joined(instance: ShapedOp) -> int:
    """The numbers of a part, in the mean: parts are joined along an axis, or stacked along a new one."""
    whole = instance.outputs[0] or ()
    parts = [shape or () for shape in instance.inputs if instance.op == "Pack" or len(shape or ()) == len(whole)]
    other = next((shape for shape in parts if shape != whole), whole)
    return _from_where_they_differ(whole, other) // max(1, len(parts))


def _split(instance: ShapedOp) -> int:
    """The numbers of a part, in the mean; parts of single numbers are picked as quickly as long ones are copied."""
    whole = max((shape or () for shape in instance.inputs), key=len)
    other = next((shape or () for shape in instance.outputs if shape != whole), whole)
    row = _from_where_they_differ(whole, other) // len(instance.outputs)
    return row if row > 1 else 0


def _taken(instance: ShapedOp) -> int:
    return _from_where_they_differ(instance.outputs[0] or (), instance.inputs[0] or ())


def _put(instance: ShapedOp) -> int:
    return _from_where_they_differ(instance.inputs[0] or (), instance.outputs[0] or ())


def _tiled(instance: ShapedOp) -> int:
    """The same; a number that is repeated along the last axis makes a row."""
    row = _put(instance)
    return row if row > 1 or not instance.outputs[0] else instance.outputs[0][-1]


def _reduced(instance: ShapedOp) -> int:
    """The numbers that lie side by side in a row that is summed, or that stay side by side."""
    taken, given = instance.inputs[0] or (), instance.outputs[0] or ()
    shared = _shared(taken, given)
    return prod(taken[len(taken) - shared :]) if shared else prod(taken) // max(1, prod(given))


def _transposed(instance: ShapedOp) -> int:
    """The numbers that stay side by side; equal shapes do not tell the axes."""
    taken, given = instance.inputs[0] or (), instance.outputs[0] or ()
    return 0 if taken == given else prod(taken[len(taken) - _shared(taken, given) :])


def _of_indices(instance: ShapedOp) -> int:
    """The numbers that an index stands for; single ones are summed as quickly as long rows."""
    data, indices = instance.inputs[0] or (), at(instance.inputs, 1) or ()
    if instance.op == "GatherNd":
        return prod(instance.outputs[0] or ()) // max(1, prod(indices[:-1]))
    row = prod(data) // max(1, prod(indices))
    return row if row > 1 else 0


def _repeated_rows(instance: ShapedOp) -> int:
    """The numbers of the last axes over which the same operands are repeated."""
    given = instance.outputs[0] or ()
    operands = [(1,) * (len(given) - len(shape or ())) + (shape or ()) for shape in instance.inputs]
    row, first = 1, None
    for axis in reversed(range(len(given))):
        repeated = [shape[axis] == 1 for shape in operands if len(shape) == len(given)]
        if given[axis] == 1:
            continue
        if repeated != (first := first or repeated):
            break
        row *= given[axis]
    return row


_ROWS: Mapping[str, Callable[[ShapedOp], int]] = {
    op: rows
    for rows, ops in (
        (_bias, "BiasAdd BiasAddGrad"),
        (_channels, "ResizeBilinear ResizeNearestNeighbor"),
        (_channels, "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3"),
        (_channels, "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3"),
        (_joined, "ConcatV2 Concat Pack"),
        (_split, "Split SplitV Unpack"),
        (_taken, "Slice StridedSlice"),
        (_put, "Pad PadV2 MirrorPad"),
        (_tiled, "Tile"),
        (_transposed, "Transpose ConjugateTranspose"),
        (_reduced, "Sum Mean Max Min Prod"),
        (_of_indices, "GatherNd UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd"),
    )
    for op in ops.split()
}


# --- windows ---------------------------------------------------------------------------------------------------------


class Window(NamedTuple):
    """A window that slides over each channel of images by itself."""

    pixels: int  # of all images, pooled or convolved
    channels: int  # of these
    spread: int  # pixels of an image for each of them
    taps: int


_POOLS = frozenset(("MaxPool", "MaxPoolGrad", "AvgPool", "AvgPoolGrad"))
_DEPTHWISE = ("DepthwiseConv2dNative", "_FusedDepthwiseConv2dNative")


def window_of(instance: ShapedOp) -> Window | None:
    """The window of a depthwise convolution, of pooling, or of a gradient; None for others and for unknown shapes."""
    if instance.op.startswith(_DEPTHWISE):
        found = convolved(instance)
        if found is None:
            return None
        made, taken = found.height * found.width, found.input_height * found.input_width
        return Window(found.images * made, found.filters, max(1, taken // made), prod(found.taps))
    images = [shape for shape in (*instance.inputs, *instance.outputs) if shape and len(shape) == 4 and min(shape) > 0]
    if instance.op not in _POOLS or len(images) < 2:
        return None
    layout = instance.attrs.get("data_format")
    sizes = [elements(shape) for shape in images]
    least = images[sizes.index(min(sizes))]
    channels = least[1 if layout is not None and layout.s == b"NCHW" else 3]
    return Window(min(sizes) // channels, channels, max(1, max(sizes) // min(sizes)), window_taps(instance))
