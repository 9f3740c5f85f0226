"""Lanes: the earliest free time, and what stays entered."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from placement.scheduling.insertion import Lane, earliest, occupy


def lane_of(*busy: tuple[int, int]) -> Lane:
    lane = Lane([], [])
    for start, end in busy:
        occupy(lane, start, end)
    return lane


def test_an_empty_lane_is_free_at_once() -> None:
    assert earliest(lane_of(), 7, 100) == 7


def test_work_goes_into_the_first_gap_that_holds_it() -> None:
    lane = lane_of((0, 10), (15, 20), (40, 50))
    assert earliest(lane, 0, 5) == 10
    assert earliest(lane, 0, 6) == 20
    assert earliest(lane, 12, 4) == 20
    assert earliest(lane, 25, 15) == 25
    assert earliest(lane, 26, 15) == 50
    assert earliest(lane, 3, 0) == 10  # even work of no length needs the lane


def test_touching_work_is_joined() -> None:
    lane = lane_of((0, 10), (20, 30), (10, 20))
    assert (lane.starts, lane.ends) == ([0], [30])
    assert (lane_of((5, 9), (9, 12)).starts, lane_of((9, 12), (5, 9)).starts) == ([5], [5])


def test_work_of_no_length_leaves_no_trace() -> None:
    assert lane_of((5, 5)).starts == []


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=25))
def test_a_lane_agrees_with_a_row_of_single_instants(wanted: Sequence[tuple[int, int]]) -> None:
    lane = Lane([], [])
    taken = [False] * 1000
    for ready, length in wanted:
        start = ready
        while any(taken[start : start + length]) or (length == 0 and start and taken[start - 1] and taken[start]):
            start += 1  # work of no length fits at the border of other work, but not inside
        assert earliest(lane, ready, length) == start
        occupy(lane, start, start + length)
        taken[start : start + length] = [True] * length
    assert all(a < b for a, b in zip(lane.starts, lane.ends, strict=True))
    assert all(end < start for end, start in zip(lane.ends, lane.starts[1:], strict=False))
