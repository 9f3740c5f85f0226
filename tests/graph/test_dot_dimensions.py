"""The dimensions of XLA's products, read from any bytes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from simulator.graph.dot_dimensions import DotDimensions, dot_dimensions
from simulator.graph.messages import AttrValue

places = st.lists(st.integers(0, 300), max_size=4)


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def encoded(field: int, numbers: Sequence[int], packed: bool) -> bytes:
    """A list of numbers as protobuf writes it (developers' guide, "Encoding")."""
    if not packed:
        return b"".join(varint(field << 3) + varint(number) for number in numbers)
    content = b"".join(map(varint, numbers))
    return varint(field << 3 | 2) + varint(len(content)) + content


@given(st.lists(st.tuples(places, st.booleans()), min_size=4, max_size=4))
def test_lists_are_read_packed_or_not(given: list[tuple[list[int], bool]]) -> None:
    data = b"".join(encoded(field, numbers, packed) for field, (numbers, packed) in enumerate(given, 1))
    found = dot_dimensions({"dimension_numbers": AttrValue(s=data)})
    assert found == DotDimensions(*(tuple(numbers) for numbers, _ in given))


@given(st.binary(max_size=40))
def test_other_bytes_say_nothing_or_dimensions(data: bytes) -> None:
    found = dot_dimensions({"dimension_numbers": AttrValue(s=data)})
    assert found is None or len(found) == 4
    assert dot_dimensions({}) is None
    assert dot_dimensions({"dimension_numbers": AttrValue(s=b"\x80" * 40)}) is None
