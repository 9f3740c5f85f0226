"""TensorFlow's element types: their numbers, names and sizes (`tensorflow/core/framework/types.proto`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REF = 100  # added to a type: a reference to a variable of that type

# Name and bytes per element; the position is DataType's number. Strings have no fixed size (-1); a resource or a
# variant is a handle that the runtime passes by reference (0). Types of less than a byte are stored one per byte.
_TYPES = (
    "INVALID -1, FLOAT 4, DOUBLE 8, INT32 4, UINT8 1, INT16 2, INT8 1, STRING -1, COMPLEX64 8, INT64 8, BOOL 1, "
    "QINT8 1, QUINT8 1, QINT32 4, BFLOAT16 2, QINT16 2, QUINT16 2, UINT16 2, COMPLEX128 16, HALF 2, RESOURCE 0, "
    "VARIANT 0, UINT32 4, UINT64 8, FLOAT8_E5M2 1, FLOAT8_E4M3FN 1, FLOAT8_E4M3FNUZ 1, FLOAT8_E4M3B11FNUZ 1, "
    "FLOAT8_E5M2FNUZ 1, INT4 1, UINT4 1, INT2 1, UINT2 1, FLOAT4_E2M1FN 1"
)
_ROWS = [row.split() for row in _TYPES.split(", ")]

SIZE: Mapping[int, int] = MappingProxyType({number: int(size) for number, (_, size) in enumerate(_ROWS)})
"""Bytes per element by DataType; -1 where an element has no fixed size."""

NAMES: Mapping[int, str] = MappingProxyType(
    {number: f"DT_{name}" for number, (name, _) in enumerate(_ROWS)}
    | {number + REF: f"DT_{name}_REF" for number, (name, _) in enumerate(_ROWS) if number}
)
"""TensorFlow's name of each DataType's number, references included."""

# types that rules name
FLOAT, DOUBLE, INT32, STRING, COMPLEX64, INT64, BOOL, BFLOAT16 = 1, 2, 3, 7, 8, 9, 10, 14
COMPLEX128, HALF, RESOURCE, VARIANT = 18, 19, 20, 21

TRAINED = frozenset((FLOAT, DOUBLE, BFLOAT16, HALF))
"""The types that optimizers train, and of which losses and gradients are."""

_NUMBER = {name: number for number, (name, _) in enumerate(_ROWS)}


def number_of(name: str) -> int:
    """The number of a type by its name without "DT_"; KeyError for an unknown one."""
    return _NUMBER[name]


def base(dtype: int) -> int:
    """The type without the mark of a reference."""
    return dtype - REF if dtype > REF else dtype
