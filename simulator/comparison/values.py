"""The value of a tensor, whichever of the ways to write it was taken.

TensorFlow writes the elements packed or one by one, leaves out those at the end that repeat the last, and a master
writes a value anew where that is shorter (`tensorflow/core/framework/tensor.cc`, `tensor_util.cc`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.graph.dtypes import SIZE, STRING
from simulator.graph.messages import Proto

# field -> how its numbers are stored in a tensor; int_val and half_val hold several types, by their size
_NUMBERS = {
    "float_val": "<f4",
    "double_val": "<f8",
    "int64_val": "<i8",
    "uint32_val": "<u4",
    "uint64_val": "<u8",
    "bool_val": "?",
    "scomplex_val": "<f4",
    "dcomplex_val": "<f8",
}
_BY_SIZE = {1: "<u1", 2: "<u2", 4: "<u4"}


def written_alike(ours: Proto, theirs: Proto) -> bool:
    """Whether two TensorProtos hold the same elements in the same shape."""
    if (ours.dtype, ours.tensor_shape) != (theirs.dtype, theirs.tensor_shape):
        return False
    return _elements(ours) == _elements(theirs)


def _elements(tensor: Proto) -> list[bytes]:
    """The elements up to the last that is not a repetition; none if all are zero or empty."""
    found = list(_strings(tensor) if tensor.dtype == STRING else _numbers(tensor))
    while len(found) > 1 and found[-1] == found[-2]:
        found.pop()
    return [] if len(found) == 1 and not any(found[0]) else found


def _strings(tensor: Proto) -> Iterator[bytes]:
    """Packed strings stand behind their lengths, each a varint (`core/lib/core/coding.cc`)."""
    if not tensor.tensor_content:
        yield from tensor.string_val
        return
    content, count, at = tensor.tensor_content, 1, 0
    for dim in tensor.tensor_shape.dim:
        count *= dim.size
    lengths: list[int] = []
    while len(lengths) < count and at < len(content):
        length = shift = 0
        while at < len(content):
            length |= (content[at] & 127) << shift
            shift += 7
            at += 1
            if content[at - 1] < 128:
                break
        lengths.append(length)
    for length in lengths:
        yield content[at : at + length]
        at += length


def _numbers(tensor: Proto) -> Iterator[bytes]:
    size = SIZE.get(tensor.dtype, 0)
    content = tensor.tensor_content
    if not content:
        for field, values in ((field.name, values) for field, values in tensor.ListFields()):
            if field in _NUMBERS:
                content = np.array(values, _NUMBERS[field]).tobytes()
            elif field in ("int_val", "half_val") and size in _BY_SIZE:
                content = (np.array(values, np.int64) % (1 << 8 * size)).astype(_BY_SIZE[size]).tobytes()
            elif field == "float8_val":
                content = values
    if size <= 0:  # of a type without a fixed size, that is not made of strings: as it stands
        yield tensor.SerializeToString(deterministic=True)
        return
    for at in range(0, len(content), size):
        yield content[at : at + size]
