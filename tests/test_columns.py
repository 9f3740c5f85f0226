"""Columns: the order of row numbers is numpy's stable one; positions and keys are those of plain lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import by_key, ids, positions, stable_order


@given(st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 3), max_size=50))
def test_equal_numbers_keep_their_order(values: list[int]) -> None:
    column = ids(values)
    assert stable_order(column).tolist() == np.argsort(column, kind="stable").tolist()


@given(st.lists(st.integers(0, 20), unique=True))
def test_a_position_is_where_a_list_has_the_number(rows: list[int]) -> None:
    assert positions(rows, 21).tolist() == [rows.index(one) if one in rows else -1 for one in range(21)]


@given(st.lists(st.integers(0, 9)))
def test_rows_of_one_key_stand_together_in_their_order(keys: list[int]) -> None:
    order, first = by_key(ids(keys), 10)
    found = [order[first[key] : first[key + 1]].tolist() for key in range(10)]
    assert found == [[row for row, one in enumerate(keys) if one == key] for key in range(10)]
