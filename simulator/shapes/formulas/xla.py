"""Shapes of products and convolutions that name their dimensions by number.

Those of XLA are in xla_ops.cc below tensorflow/compiler/tf2xla/ops/, quantised ones in uniform_quant_ops.cc below
tensorflow/core/ops/.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.graph.dimension_numbers import (
    ConvolutionDimensions,
    convolution_dimensions,
    dot_dimensions,
    gather_dimensions,
)
from simulator.shapes.dims import Dims
from simulator.shapes.formulas.neural import windowed
from simulator.shapes.site import Outputs, ShapeError, Site, written


def dot(site: Site) -> Outputs:
    """A product over any dimensions: the batch, then what else the first operand has, then the second."""
    found, a, b = dot_dimensions(site.attrs), site.shape(0), site.shape(1)
    if found is None or a is None or b is None:
        return (None,)
    if not found.fit(len(a), len(b)):
        raise ShapeError(f"{written(a)} and {written(b)} lack the dimensions of the product")
    for x, y in zip(found.lhs_contracted, found.rhs_contracted, strict=True):
        site.equal(a[x], b[y], a, b)
    batch = [site.equal(a[x], b[y], a, b) for x, y in zip(found.lhs_batch, found.rhs_batch, strict=True)]
    left, right = (*found.lhs_contracted, *found.lhs_batch), (*found.rhs_contracted, *found.rhs_batch)
    free = [side for place, side in enumerate(a) if place not in left]
    other = [side for place, side in enumerate(b) if place not in right]
    return ((*batch, *free, *other),)


def uniform_convolution(site: Site) -> Outputs:
    """A convolution of quantised numbers, whose windows are attributes."""
    found = _dimensions(site)
    if found is None:
        return (None,)
    count = len(found.space)
    strides, spread, taps = (
        site.numbers(name) or [1] * count for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    pads = site.numbers("explicit_padding") or [0] * (2 * count)
    for name, one in (("window_strides", strides), ("lhs_dilation", spread), ("rhs_dilation", taps)):
        if len(one) != count:
            raise ShapeError(f"attribute {name} must list {count} numbers, not {len(one)}")
    return _convolved(site, found, (strides, pads, spread, taps), site.number("batch_group_count", 1))


def convolution(site: Site) -> Outputs:
    """XlaConv: its windows are inputs: strides, padding at both ends, and how far pixels and taps are spread."""
    found = _dimensions(site)
    if found is None:
        return (None,)
    windows = [site.wholes(slot) for slot in range(2, 6)]
    return _convolved(site, found, windows, site.number("batch_group_count", 1))


def _dimensions(site: Site) -> ConvolutionDimensions | None:
    image, filters = site.shape(0), site.shape(1)
    if image is None or filters is None:
        return None
    found = convolution_dimensions(site.op, site.attrs, len(image))
    if found is not None and not found.fit(len(image), len(filters)):
        raise ShapeError(f"{written(image)} and {written(filters)} lack the dimensions of the convolution")
    return found


def _convolved(
    site: Site, found: ConvolutionDimensions, windows: Sequence[Sequence[int] | None], batch_groups: int
) -> Outputs:
    """The output by strides, padding at both ends, and what spreads pixels and taps; of unknown ones space is, too."""
    image, filters = site.shape(0) or (), site.shape(1) or ()
    padding, algebra = site.text("padding", "EXPLICIT"), site.algebra
    made = [0] * len(image)
    made[found.output_images] = algebra.floor_divided(image[found.images], max(1, batch_groups))
    made[found.output_channels] = filters[found.filters]
    strides, pads, spread, taps = windows
    for at, (to, axis, tap) in enumerate(zip(found.output_space, found.space, found.taps, strict=True)):
        if strides is None or pads is None or spread is None or taps is None:
            made[to] = site.fresh()
            continue
        wide = image[axis]
        if spread[at] > 1:
            wide = algebra.plus(algebra.times(algebra.minus(wide, 1), spread[at]), 1)
        own = pads[2 * at : 2 * at + 2]
        made[to] = windowed(site, wide, filters[tap], strides[at], padding, own, taps[at])
    return (tuple(made),)


def padded(site: Site) -> Outputs:
    """XlaPad: so many numbers before, behind, and between each two; fewer where that is negative."""
    shape = site.shape(0)
    low, high, between = (site.wholes(slot) for slot in (2, 3, 4))
    if shape is None or low is None or high is None or between is None:
        return (None if shape is None else site.ranked(len(shape)),)
    if not len(low) == len(high) == len(between) == len(shape):
        raise ShapeError(f"{written(shape)} does not have as many dimensions as the padding")
    algebra = site.algebra
    inner = [algebra.times(algebra.minus(side, 1), gap) if gap else 0 for side, gap in zip(shape, between, strict=True)]
    around = zip(shape, inner, low, high, strict=True)
    return (tuple(algebra.plus(algebra.plus(side, more), a + b) for side, more, a, b in around),)


def reduced(site: Site) -> Outputs:
    """XlaReduce, and of several tensors XlaVariadicReduce: all without the dimensions that an attribute names."""
    gone = site.numbers("dimensions_to_reduce")
    return [_without(site.shape(slot), gone) for slot in range(site.outputs)]


def _without(shape: Dims, places: Sequence[int]) -> Dims:
    if shape is None:
        return None
    if any(not 0 <= place < len(shape) for place in places):
        raise ShapeError(f"{written(shape)} lacks a dimension of {written(tuple(places))}")
    return tuple(side for place, side in enumerate(shape) if place not in places)


def gathered(site: Site) -> Outputs:
    """XlaGather: the dimensions of the indices, and between them those of a slice that are not left out."""
    found, indices, sizes = gather_dimensions(site.attrs), site.shape(1), site.dims(2)
    if found is None or indices is None or sizes is None:
        return (None,)
    slices, batch = list(_without(sizes, found.collapsed) or ()), list(_without((*indices, 1), [found.indices]) or ())
    batch = batch if found.indices == len(indices) else batch[:-1]
    rank = len(slices) + len(batch)
    if len(found.offsets) != len(slices) or any(place >= rank for place in found.offsets):
        raise ShapeError(f"slices of {written(sizes)} do not have the dimensions of the output")
    return (tuple((slices if place in found.offsets else batch).pop(0) for place in range(rank)),)
