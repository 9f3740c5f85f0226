"""Shapes of restored variables. Rules: tensorflow/core/ops/io_ops.cc and util/saved_tensor_slice_util.cc."""

from __future__ import annotations

import re

from simulator.shapes.dims import Dims
from simulator.shapes.site import Outputs, Site

# the sides of a whole variable, then for each its begin and its length, or "-" for all of it
_PART = re.compile(rb"((?:\d{1,18} )+)((?:\d{1,18},\d{1,18}|-)(?::(?:\d{1,18},\d{1,18}|-))*)")


def part_of_variable(text: bytes) -> Dims:
    """The shape of the part that a text such as b"40 6 0,10:-" names; None where it names none."""
    found = _PART.fullmatch(text)
    if found is None:
        return None
    sides, parts = found[1].split(), found[2].split(b":")
    if len(sides) != len(parts):
        return None
    pairs = zip(sides, parts, strict=True)
    return tuple([int(side if part == b"-" else part.partition(b",")[2]) for side, part in pairs])


def restored(site: Site) -> Outputs:
    """RestoreV2 and RestoreSlice: the parts that the third input names; a variable as a whole shows no shape."""
    handle = site.handle(2, "parts")
    shapes = () if handle is None else handle.shapes
    return (*shapes, *shapes[-1:] * (site.outputs - len(shapes)))  # the last text stands for all that follow
