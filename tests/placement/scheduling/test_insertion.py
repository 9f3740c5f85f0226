"""Lanes: the earliest free time, and what stays entered."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from placement.columns import Columns
from placement.scheduling.insertion import Lanes, earliest, occupy, open_lanes
from placement.scheduling.running import Runner

_LISTS = Runner(Columns(*([] for _ in Columns._fields)), False)  # type: ignore[arg-type]  # lists do, too


def empty() -> Lanes:
    """Three lanes; the one in the middle is used."""
    return open_lanes(_LISTS, [1, 2], 25)


def lane_of(*busy: tuple[int, int]) -> Lanes:
    lanes = empty()
    for start, end in busy:
        occupy(lanes, 1, start, end)
    return lanes


def busy(lanes: Lanes) -> list[tuple[int, int]]:
    low, high = lanes.low[1], lanes.low[1] + lanes.filled[1]
    return list(zip(lanes.starts[low:high], lanes.ends[low:high], strict=True))


def test_an_empty_lane_is_free_at_once() -> None:
    assert earliest(lane_of(), 1, 7, 100) == 7


def test_work_goes_into_the_first_gap_that_holds_it() -> None:
    lane = lane_of((0, 10), (15, 20), (40, 50))
    assert earliest(lane, 1, 0, 5) == 10
    assert earliest(lane, 1, 0, 6) == 20
    assert earliest(lane, 1, 12, 4) == 20
    assert earliest(lane, 1, 25, 15) == 25
    assert earliest(lane, 1, 26, 15) == 50
    assert earliest(lane, 1, 3, 0) == 10  # even work of no length needs the lane


def test_touching_work_is_joined() -> None:
    lane = lane_of((0, 10), (20, 30), (10, 20))
    assert busy(lane) == [(0, 30)]
    assert busy(lane_of((5, 9), (9, 12))) == busy(lane_of((9, 12), (5, 9))) == [(5, 12)]


def test_work_of_no_length_leaves_no_trace() -> None:
    assert busy(lane_of((5, 5))) == []


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=25))
def test_a_lane_agrees_with_a_row_of_single_instants(wanted: Sequence[tuple[int, int]]) -> None:
    lane = empty()
    taken = [False] * 1000
    for ready, length in wanted:
        start = ready
        while any(taken[start : start + length]) or (length == 0 and start and taken[start - 1] and taken[start]):
            start += 1  # work of no length fits at the border of other work, but not inside
        assert earliest(lane, 1, ready, length) == start
        occupy(lane, 1, start, start + length)
        taken[start : start + length] = [True] * length
    assert all(a < b for a, b in busy(lane))
    assert all(end < start for (_, end), (start, _) in pairwise(busy(lane)))
