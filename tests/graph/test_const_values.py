"""Small constants, in each of the ways to write one."""

from __future__ import annotations

import pytest

from simulator.graph.const_values import elements
from simulator.graph.messages import AttrValue

INT32, INT64, STRING = 3, 9, 7


def written(dtype: int, shape: list[int], *, content: bytes = b"", **fields: list[int]) -> dict[str, AttrValue]:
    value = AttrValue()
    value.tensor.dtype = dtype
    value.tensor.tensor_shape.SetInParent()
    for size in shape:
        value.tensor.tensor_shape.dim.add(size=size)
    value.tensor.tensor_content = content
    for name, numbers in fields.items():
        getattr(value.tensor, name).extend(numbers)
    return {"value": value}


@pytest.mark.parametrize(
    ("attrs", "said"),
    [
        (written(INT32, [], int_val=[3]), [3]),
        (written(INT32, []), [0]),
        (written(INT64, [3], int64_val=[4, 5]), [4, 5, 5]),
        (written(INT32, [2], content=b"\1\0\0\0\2\0\0\0"), [1, 2]),
        (written(INT32, [2], content=b"\1\0\0\0"), None),
        (written(INT32, [0]), []),
        (written(INT32, [17]), None),
        (written(STRING, []), None),
        ({}, None),
    ],
)
def test_elements_of_a_constant(attrs: dict[str, AttrValue], said: list[float] | None) -> None:
    assert elements(attrs) == said
