"""The dimensions of products and convolutions, read from any bytes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from simulator.graph.dimension_numbers import (
    ConvolutionDimensions,
    DotDimensions,
    convolution_dimensions,
    dot_dimensions,
)
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


FIELDS = {"XlaConvV2": (7, 8, 11, 3, 4, 6, 9, 10, 12), "UniformQuantizedConvolution": tuple(range(1, 10))}


@given(st.sampled_from(sorted(FIELDS)), st.permutations(range(4)), st.permutations(range(4)), st.booleans())
def test_a_convolution_is_read_by_its_fields(op: str, image: list[int], taps: list[int], packed: bool) -> None:
    of_taps, of_image = ((one[0], one[1], tuple(one[2:])) for one in (taps, image))
    found = ConvolutionDimensions(*of_image, *of_taps, *of_image)
    data = b""
    for field, value in zip(FIELDS[op], found, strict=True):
        if isinstance(value, tuple):
            data += encoded(field, value, packed)
        elif isinstance(value, int) and value:  # protobuf leaves out a 0
            data += encoded(field, [value], packed=False)
    assert convolution_dimensions(op, {"dimension_numbers": AttrValue(s=data)}, 4) == found
    assert found.fit(4, 4)
    assert not found.fit(4, 3)
    assert not found.fit(5, 5)


@given(st.binary(max_size=40), st.sampled_from(sorted(FIELDS)), st.integers(0, 5))
def test_other_bytes_say_nothing_or_a_convolution(data: bytes, op: str, rank: int) -> None:
    found = convolution_dimensions(op, {"dimension_numbers": AttrValue(s=data)}, rank)
    assert found is None or isinstance(found.fit(rank, rank), bool)
