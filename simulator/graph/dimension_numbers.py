"""The dimensions of products and convolutions that name them by number: an encoded message in an attribute.

    lhs [8, 16, 64]  contracted 2        the output has the batch, what else the first operand has, what the second
    rhs [64, 4, 32]  contracted 0   ─▶   [8, 16, 4, 32]

`XlaDot` has a `DotDimensionNumbers`, `XlaConv` a `ConvolutionDimensionNumbers` (xla/xla_data.proto), and a quantised
convolution a message of the same fields under other numbers (tensorflow/core/util/quantization/
uniform_quant_ops_attr.proto). Their fields are numbers and lists of numbers, packed or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simulator.graph.graph import Attrs

_VARINT, _PACKED = 0, 2  # wire types
_BITS = 63  # of the longest number
_MORE = 0x80  # the bit of a byte after which the number goes on
_DOT = (1, 2, 3, 4)  # the number of each field of `DotDimensions`
# of the fields of `ConvolutionDimensions`
_XLA_CONVOLUTION = (7, 8, 11, 3, 4, 6, 9, 10, 12)
_UNIFORM_CONVOLUTION = (1, 2, 3, 4, 5, 6, 7, 8, 9)
_GATHER = (1, 2, 4, 3)  # of `GatherDimensions`, and where indices point, which no shape depends on


class DotDimensions(NamedTuple):
    """Places of dimensions, those of both operands in the same order."""

    lhs_contracted: tuple[int, ...]
    rhs_contracted: tuple[int, ...]
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]

    def fit(self, lhs: int, rhs: int) -> bool:
        """Tell whether operands of these ranks have the dimensions, each once, and as many of both."""
        left, right = (*self.lhs_contracted, *self.lhs_batch), (*self.rhs_contracted, *self.rhs_batch)
        pairs = len(self.lhs_contracted) == len(self.rhs_contracted) and len(self.lhs_batch) == len(self.rhs_batch)
        sides = ((left, lhs), (right, rhs))
        return pairs and all(len(set(at)) == len(at) and all(one < rank for one in at) for at, rank in sides)


class ConvolutionDimensions(NamedTuple):
    """Places of dimensions, those of space in the same order."""

    images: int
    channels: int
    space: tuple[int, ...]
    filter_channels: int
    filters: int
    taps: tuple[int, ...]
    output_images: int
    output_channels: int
    output_space: tuple[int, ...]

    def fit(self, image: int, taps: int) -> bool:
        """Tell whether operands of these ranks have the dimensions, each once, and the output as many as the image."""
        sides = (
            ((self.images, self.channels, *self.space), image),
            ((self.filter_channels, self.filters, *self.taps), taps),
            ((self.output_images, self.output_channels, *self.output_space), image),
        )
        return image == taps and all(sorted(at) == list(range(rank)) for at, rank in sides)


class GatherDimensions(NamedTuple):
    """Places of dimensions: of the slices in the output, of the operand without these, of an index in the indices."""

    offsets: tuple[int, ...]
    collapsed: tuple[int, ...]
    indices: int


def dot_dimensions(attrs: Attrs) -> DotDimensions | None:
    """The dimensions of a product; None where the node does not say them, or says something else."""
    if "dimension_numbers" not in attrs:
        return None
    found = _fields(attrs["dimension_numbers"].s, _DOT)
    return None if found is None else DotDimensions(*found)


def convolution_dimensions(op: str, attrs: Attrs, rank: int) -> ConvolutionDimensions | None:
    """The dimensions of a convolution; None where the node does not say them, or says something else.

    A quantised one that says nothing has images and channels, filters and their channels first.
    """
    data = attrs["dimension_numbers"].s if "dimension_numbers" in attrs else b""
    space = tuple(range(2, rank))
    if not data:
        return None if op.startswith("Xla") else ConvolutionDimensions(0, 1, space, 1, 0, space, 0, 1, space)
    found = _fields(data, _XLA_CONVOLUTION if op.startswith("Xla") else _UNIFORM_CONVOLUTION)
    if found is None:
        return None
    if any(len(found[at]) > 1 for at in (0, 1, 3, 4, 6, 7)):
        return None
    single = [one[0] if one else 0 for one in found]  # protobuf leaves out a 0
    return ConvolutionDimensions(
        *(single[0], single[1], found[2]), *(single[3], single[4], found[5]), *(single[6], single[7], found[8])
    )


def gather_dimensions(attrs: Attrs) -> GatherDimensions | None:
    """The dimensions of XlaGather; None where the node does not say them, or says something else."""
    found = _fields(attrs["dimension_numbers"].s, _GATHER) if "dimension_numbers" in attrs else None
    if found is None or len(found[2]) > 1:
        return None
    return GatherDimensions(found[0], found[1], found[2][0] if found[2] else 0)


def _fields(data: bytes, numbers: Sequence[int]) -> tuple[tuple[int, ...], ...] | None:
    """The numbers of a message under each of these fields; None: it is cut short, or has other fields."""
    found: dict[int, list[int]] = {number: [] for number in numbers}
    at = 0
    try:
        while at < len(data):
            key, at = _number(data, at)
            kind, field = key & 7, found[key >> 3]
            if kind not in (_VARINT, _PACKED):
                return None
            size, after = _number(data, at)
            end = after if kind == _VARINT else after + size
            at = at if kind == _VARINT else after
            while at < end:
                number, at = _number(data, at)
                field.append(number)
    except LookupError:  # it ends early, or has a field that is none of these
        return None
    return tuple(map(tuple, found.values()))


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a byte, seven bits a byte, and the byte after it; IndexError: there is none."""
    value = shift = 0
    while data[at] & _MORE:
        if shift > _BITS:
            raise IndexError
        value |= (data[at] & ~_MORE) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1
