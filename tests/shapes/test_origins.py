"""Numbers that carry where they come from, and the equations between them."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.shapes.dims import Algebra
from simulator.shapes.origins import ELEMENT, Origins
from simulator.shapes.traced import Traced, form_of

OPERATIONS: list[Callable[[int, int], int]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a // b,
    lambda a, b: -(-a // b),
    lambda a, b: a % b,
    lambda a, b: abs(a - b),
]


def numbers(size: int, *values: int) -> tuple[Origins, list[int]]:
    """Numbers of as many constants, the first of which is the batch."""
    origins = Origins(Algebra(), size)
    return origins, [origins.entry(node, "value", ELEMENT, 0, value) for node, value in enumerate(values)]


def solved(origins: Origins, root: int, batch: int, *asked: int) -> list[int]:
    assert origins.solve([form_of(root)], ())
    return [origins.number(form_of(one), {form_of(root): batch}) for one in asked]


@example(size=1, steps=[(OPERATIONS[5], 1)], batch=2)  # a rest of 0 was 1 less the batch
@given(
    st.integers(1, 9),
    st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(1, 6)), max_size=6),
    st.integers(1, 9),
)
def test_a_traced_number_is_the_number_itself_and_its_form_that_of_another_batch(
    size: int, steps: list[tuple[Callable[[int, int], int], int]], batch: int
) -> None:
    origins, (traced,) = numbers(size, size)
    plain, other, number = size, batch, traced
    for operation, constant in steps:
        plain, other, number = operation(plain, constant), operation(other, constant), operation(number, constant)
        if operation is OPERATIONS[-1] and (plain < 0 or other < 0 or abs(plain) != plain):
            return
    assert number == plain
    if not any(operation is OPERATIONS[-1] for operation, _ in steps):
        assert origins.number(form_of(number), {form_of(traced): batch}) == other


def test_a_multiple_follows_the_batch() -> None:
    origins, (batch, rows) = numbers(8, 8, 56)
    origins.equate(batch * 7, rows)
    assert solved(origins, batch, 3, rows) == [21]


def test_a_share_of_the_batch_is_odd_where_nothing_traced_it() -> None:
    """Of 8 examples either of two towers has 4, which is no multiple of 8."""
    origins, (batch, share) = numbers(8, 8, 4)
    origins.equate(batch // 2, share)
    assert not origins.solve([form_of(batch)], ())
    assert origins.odd([form_of(batch)]) == {4}


def test_a_share_of_the_batch_follows_it() -> None:
    origins = Origins(Algebra(), 8, also={4})
    batch, share, again = (origins.entry(node, "value", ELEMENT, 0, number) for node, number in enumerate((8, 4, 4)))
    origins.equate(batch // 2, share)
    origins.equate(again * 2, batch)
    assert solved(origins, batch, 6, share, again) == [3, 3]


def test_a_side_of_a_table_is_traced_where_the_number_of_its_elements_hangs_on_the_batch() -> None:
    origins = Origins(Algebra(), 11, also={44 * 32})
    batch, side = (origins.entry(0, "value", ELEMENT, place, number) for place, number in ((0, 11), (1, 44)))
    assert not isinstance(origins.entry(0, "value", ELEMENT, 1, 55), Traced)
    origins.equate(batch * 128, side * 32)
    assert solved(origins, batch, 3, side) == [12]


def test_a_table_of_each_example_by_each_has_the_batch_twice() -> None:
    origins = Origins(Algebra(), 8)
    batch, one, other = (origins.entry(node, "value", ELEMENT, place, 8) for node, place in ((0, 0), (1, 0), (1, 2)))
    origins.equate(batch * batch * 15, one * 5 * other * 3)
    assert solved(origins, batch, 6, one, other) == [6, 6]


def test_two_shares_of_the_batch_that_are_equal_are_found() -> None:
    """The second equation takes the half for the other one, and the third the other one for the half."""
    origins = Origins(Algebra(), 6, also={3})
    batch, half, other = (origins.entry(node, "value", ELEMENT, 0, number) for node, number in enumerate((6, 3, 3)))
    origins.equate(half * 2, batch)
    origins.equate(half * 5, other * 5)
    origins.equate(other * 2, batch)
    assert solved(origins, batch, 10, half, other) == [5, 5]


def test_of_a_sum_the_parts_that_equal_the_batch_are_it() -> None:
    origins, (batch, noise, both) = numbers(8, 8, 8, 16)
    origins.equate(batch + noise, both)
    assert solved(origins, batch, 3, noise, both) == [3, 6]


def test_of_a_product_the_first_place_is_the_batch() -> None:
    origins, (batch,) = numbers(8, 8)
    first, last = (origins.entry(1, "value", ELEMENT, place, 8, 2) for place in range(2))
    origins.equate(batch * 8, first * last)
    assert solved(origins, batch, 3, first, last) == [3, 8]


def test_rows_that_are_as_long_as_the_batch_are_it_though_nothing_else_tells() -> None:
    origins, (batch, rows) = numbers(4, 4, 4)
    origins.equate(batch // rows * rows, batch)
    assert solved(origins, batch, 7, rows, batch // rows) == [7, 1]


def test_of_a_batch_and_as_many_heads_the_first_of_a_shape_is_the_batch() -> None:
    origins, (batch, heads, width) = numbers(4, 4, 4, 4)
    rows = origins.entry(9, "value", ELEMENT, 0, 4, 3)
    origins.equate(rows * heads * width, batch * 16)
    origins.equate(rows, batch)
    assert solved(origins, batch, 7, rows, heads, width) == [7, 4, 4]


def test_what_is_rounded_of_a_number_does_not_tell_it() -> None:
    origins, (batch, whole, part) = numbers(4, 4, 80, 20)
    origins.equate(whole // part * part, whole)
    assert solved(origins, batch, 7, whole, part, whole // part) == [80, 20, 4]


@pytest.mark.parametrize("late", [False, True])
def test_a_quotient_is_exact_once_its_divisor_is_known(late: bool) -> None:
    """Rows of heads, laid out anew: a head of the variable is one of the shape, as an op says before or afterwards."""
    origins, (batch, repeated) = numbers(8, 8, 8)
    sides = [origins.entry(node, "shape", -1, 2, 8, 3) for node in range(2, 6)]
    for a, b in [] if late else [sides[:2], sides[2:]]:
        origins.equate(a, b)
    origins.equate(repeated * sides[0] * 2 // (sides[1] * 2), batch * sides[2] * 32 // (sides[3] * 32))
    for a, b in [sides[:2], sides[2:]] if late else []:
        origins.equate(a, b)
    assert solved(origins, batch, 6, repeated, sides[0]) == [6, 8]


def test_a_batch_that_equals_a_number_of_the_op_fits_no_other() -> None:
    origins, (batch,) = numbers(8, 8)
    origins.equate(batch * 10, 80)
    assert not origins.solve([form_of(batch)], ())


@pytest.mark.parametrize(
    ("number", "place", "traced"), [(8, 3, True), (16, 0, True), (16, 1, False), (0, 0, False), (9, 0, False)]
)
def test_numbers_that_may_be_multiples_of_the_batch_are_traced(number: int, place: int, traced: bool) -> None:
    assert isinstance(Origins(Algebra(), 8).entry(0, "value", ELEMENT, place, number), Traced) is traced
