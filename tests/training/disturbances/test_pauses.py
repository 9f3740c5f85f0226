"""Pauses stretch work; held against a count nanosecond by nanosecond."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simulator.training.disturbances.noise import Pauses, stretched


@st.composite
def pauses(draw: st.DrawFn) -> Pauses:
    length = draw(st.integers(1, 9))
    period = draw(st.one_of(st.just(0), st.integers(length + 1, length + 9)))
    return Pauses(draw(st.integers(0, 30)), period, length)


def counted(now: int, work: int, pause: Pauses) -> int:
    """Pass moment by moment until the work is done."""
    while work:
        since = now - pause.phase_ns
        still = since >= 0 and (since % pause.period_ns if pause.period_ns else since) < pause.length_ns
        work -= not still
        now += 1
    return now


@given(st.integers(0, 60), st.integers(0, 60), pauses())
def test_work_ends_when_a_count_of_the_moments_awake_says(now: int, work: int, pause: Pauses) -> None:
    assert stretched(now, work, *pause) == counted(now, work, pause)


@given(st.integers(0, 2**52), st.integers(1, 2**52), st.integers(0, 2**52), st.integers(0, 2**30), pauses())
def test_what_begins_later_or_takes_longer_ends_no_earlier(
    now: int, work: int, later: int, more: int, p: Pauses
) -> None:
    end = stretched(now, work, *p)
    assert end >= now + work
    assert stretched(now + later, work, *p) >= end
    assert stretched(now, work + more, *p) >= end


@given(st.integers(0, 2**52), st.integers(0, 2**40), st.integers(0, 2**40), pauses())
def test_work_may_be_cut_in_two(now: int, first: int, second: int, pause: Pauses) -> None:
    assert stretched(stretched(now, first, *pause), second, *pause) == stretched(now, first + second, *pause)


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_before_the_first_pause_nothing_is_stretched(now: int, work: int) -> None:
    assert stretched(now, work, now + work, 0, 5) == now + work


def test_by_hand() -> None:
    # Awake 0..2, still 3..4, awake 5..7, still 8..9, ..
    assert [stretched(0, work, 3, 5, 2) for work in range(8)] == [0, 1, 2, 3, 6, 7, 8, 11]
