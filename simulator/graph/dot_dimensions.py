"""The dimensions of a product that XLA takes, as `XlaDot` has them: an encoded message in an attribute.

    lhs [8, 16, 64]  contracted 2        the output has the batch, what else the first operand has, what the second
    rhs [64, 4, 32]  contracted 0   ─▶   [8, 16, 4, 32]

The message is `DotDimensionNumbers` (xla/xla_data.proto). Its fields are lists of numbers, packed or not.
"""

from __future__ import annotations

from typing import NamedTuple

from simulator.graph.graph import Attrs

_FIELDS = 4
_VARINT, _PACKED = 0, 2  # wire types
_BITS = 63  # of the longest number
_MORE = 0x80  # the bit of a byte after which the number goes on


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


def dot_dimensions(attrs: Attrs) -> DotDimensions | None:
    """The dimensions of a product; None where the node does not say them, or says something else."""
    if "dimension_numbers" not in attrs:
        return None
    found: list[list[int]] = [[] for _ in range(_FIELDS)]
    data, at = attrs["dimension_numbers"].s, 0
    try:
        while at < len(data):
            key, at = _number(data, at)
            kind, field = key & 7, found[(key >> 3) - 1]
            if kind not in (_VARINT, _PACKED) or not key >> 3:
                return None
            size, after = _number(data, at)
            end = after if kind == _VARINT else after + size
            at = at if kind == _VARINT else after
            while at < end:
                number, at = _number(data, at)
                field.append(number)
    except IndexError:  # the message is cut short, or has other fields
        return None
    return DotDimensions(*map(tuple, found))


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a byte, seven bits a byte, and the byte after it; IndexError: there is none."""
    value = shift = 0
    while data[at] & _MORE:
        if shift > _BITS:
            raise IndexError
        value |= (data[at] & ~_MORE) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1
