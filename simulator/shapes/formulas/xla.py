"""Shapes of products that XLA takes: xla_ops.cc below tensorflow/compiler/tf2xla/ops/."""

from __future__ import annotations

from simulator.graph.dot_dimensions import dot_dimensions
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
