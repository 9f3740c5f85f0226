"""Columns: the order of row numbers is numpy's stable one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import ids, stable_order


@given(st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 3), max_size=50))
def test_equal_numbers_keep_their_order(values: list[int]) -> None:
    column = ids(values)
    assert stable_order(column).tolist() == np.argsort(column, kind="stable").tolist()
