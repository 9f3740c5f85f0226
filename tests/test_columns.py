"""Columns: orders of rows are numpy's stable ones; positions and keys are those of plain lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import (
    alike,
    by_key,
    different,
    flags,
    ids,
    joined,
    lists,
    positions,
    smallest_topological,
    stable_order,
    topological,
)


@given(st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 3), max_size=50))
def test_equal_numbers_keep_their_order(values: list[int]) -> None:
    column = ids(values)
    assert stable_order(column).tolist() == np.argsort(column, kind="stable").tolist()


WHOLE = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)  # in one column such numbers need more than 64 bits


@given(st.lists(st.tuples(WHOLE, WHOLE), max_size=30), st.booleans())
def test_rows_are_ordered_by_the_first_column(rows: list[tuple[int, int]], small: bool) -> None:
    one, other = np.array(rows, np.int64).reshape(-1, 2).T // (2**61 if small else 1)
    assert stable_order(one, other).tolist() == np.lexsort((other, one)).tolist()


@given(st.lists(st.tuples(*[st.integers(-2, 6)] * 4), min_size=1, max_size=40))
def test_many_rows_of_few_numbers_are_counted_to_the_same_order(rows: list[tuple[int, ...]]) -> None:
    columns = np.array(rows, np.int64).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simulator.columns._COUNTED", 0)
        found = [stable_order(*columns[:count]).tolist() for count in (1, 2, 3, 4)]
    assert found == [np.lexsort(columns[:count][::-1]).tolist() for count in (1, 2, 3, 4)]


@given(st.lists(WHOLE, max_size=30))
def test_different_numbers_rise(values: list[int]) -> None:
    assert different(np.array(values, np.int64)).tolist() == sorted(set(values))


@given(st.lists(st.integers(0, 20), unique=True))
def test_a_position_is_where_a_list_has_the_number(rows: list[int]) -> None:
    assert positions(rows, 21).tolist() == [rows.index(one) if one in rows else -1 for one in range(21)]


@given(st.lists(st.integers(0, 9)))
def test_rows_of_one_key_stand_together_in_their_order(keys: list[int]) -> None:
    order, first = by_key(ids(keys), 10)
    found = [order[first[key] : first[key + 1]].tolist() for key in range(10)]
    assert found == [[row for row, one in enumerate(keys) if one == key] for key in range(10)]


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 1), st.integers(-(2**62), 2**62)), max_size=30))
def test_equal_rows_have_one_number_and_the_first_of_them(rows: list[tuple[int, int, int]]) -> None:
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    first, number = alike(*columns)
    different = sorted(set(rows))
    assert [rows[row] for row in first.tolist()] == different
    assert first.tolist() == [rows.index(one) for one in different]
    assert number.tolist() == [different.index(one) for one in rows]


LISTS = st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6)


@given(LISTS, st.data())
def test_lists_in_columns_are_a_sequence_of_tuples(given_: list[list[int]], data: st.DataObject) -> None:
    made, plain = lists(given_), [tuple(one) for one in given_]
    assert (len(made), list(made), made[:]) == (len(plain), plain, tuple(plain))
    assert [made[row] for row in range(-len(plain), len(plain))] == plain + plain
    assert (made.sizes.tolist(), made.of.tolist()) == (
        [len(one) for one in plain],
        [row for row, one in enumerate(plain) for _ in one],
    )
    rows = data.draw(st.lists(st.integers(-1, len(plain) - 1)))
    assert list(made.at(ids(rows))) == [() if row < 0 else plain[row] for row in rows]
    assert list(made.where(flags(made.item > 4))) == [tuple(item for item in one if item > 4) for one in plain]


@given(st.lists(st.tuples(*[st.lists(st.integers(0, 9), max_size=3)] * 3)))
def test_lists_are_joined_one_by_one(rows: list[tuple[list[int], list[int], list[int]]]) -> None:
    parts = [lists([row[at] for row in rows]) for at in range(3)]
    assert list(joined(*parts)) == [(*a, *b, *c) for a, b, c in rows]


def test_rows_come_after_all_that_leads_to_them_and_those_of_a_cycle_do_not_come() -> None:
    source, target = np.array([3, 0, 0, 4, 5, 5]), np.array([1, 1, 2, 5, 4, 6])
    assert topological(source, target, 7) == [0, 3, 2, 1]  # 4 and 5 wait for each other, and 6 for them


@given(st.integers(1, 9), st.data())
def test_of_ready_rows_the_smallest_comes_first(count: int, data: st.DataObject) -> None:
    row = st.integers(0, count - 1)
    edges = data.draw(st.lists(st.tuples(row, row, st.booleans()), max_size=20))
    source, target = np.array([edge[:2] for edge in edges], np.int64).reshape(-1, 2).T
    merging = np.array([edge[2] for edge in edges], bool)
    waits = np.bincount(target[~merging], minlength=count)
    waits[target[merging]] += 1  # a row waits for the first of such edges alone
    expected: list[int] = []
    while ready := [row for row in range(count) if row not in expected and _is_ready(row, edges, expected)]:
        expected.append(ready[0])
    assert smallest_topological(waits, source, target, merging) == expected


def _is_ready(row: int, edges: list[tuple[int, int, bool]], done: list[int]) -> bool:
    first = [source in done for source, target, merging in edges if target == row and merging]
    return any(first or [True]) and all(
        source in done for source, target, merging in edges if (target, merging) == (row, False)
    )
