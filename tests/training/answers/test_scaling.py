"""Tables of runs with more and more workers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import ids, ints
from simulator.errors import SimvizError
from simulator.training.answers.scaling import ScalingRow, read_workers, scale
from simulator.training.training import Training
from tests.training.runs import made


def shared_link(workers: int) -> Training:
    """Each worker takes 100 ns per step, 25 of them on a link that all share: from four on the link sets the pace."""
    period = max(100 // workers, 25)
    count = 20 * workers
    ends = [100 + period * k for k in range(count)]
    return made(ends, link_busy_ns=ints([25 * count, 5 * count]), link_bytes=ints([count, count]))


def test_a_link_that_all_share_bounds_the_efficiency() -> None:
    rows = scale([1, 2, 4, 8], shared_link)
    assert [row.workers for row in rows] == [1, 2, 4, 8]
    assert [row.efficiency for row in rows] == pytest.approx([1, 1, 1, 0.5])
    assert [row.steps_per_s for row in rows] == pytest.approx([1e7, 2e7, 4e7, 4e7])
    assert [row.examples_per_s for row in rows] == pytest.approx([32e7, 64e7, 128e7, 128e7])
    assert {row.link for row in rows} == {"ps0 nic out"}
    assert [row.link_share for row in rows] == pytest.approx([0.25, 0.5, 1, 1], rel=0.05)


def test_synchronous_updates_count_the_gradients_that_they_average() -> None:
    def run(workers: int) -> Training:
        ends = [100 * (k + 1) for k in range(20)]
        gradients = {"update_gradients": ids([workers] * 20), "update_examples": ints([32 * workers] * 20)}
        return made(ends, regime="sync", **gradients)

    one, eight = scale([1, 8], run)
    examples: Any = pytest.approx(8 * (one.examples_per_s or 0))
    assert eight == ScalingRow(8, one.steps_per_s, 0.0, examples, 1.0, "", 0.0)


def test_efficiency_is_relative_to_the_first_row() -> None:
    assert [row.efficiency for row in scale([8, 4], shared_link)] == pytest.approx([1, 2])


def test_runs_in_which_no_time_passes_have_no_efficiency() -> None:
    assert [row.efficiency for row in scale([1, 2], lambda workers: made([0] * workers))] == [None, None]


@given(st.lists(st.integers(1, 1024), min_size=1, unique=True, max_size=20))
def test_lists_of_workers_are_read(workers: list[int]) -> None:
    assert read_workers(" , ".join(map(str, workers))) == tuple(workers)


@pytest.mark.parametrize("text", ["", "1,", "0", "-1", "1.5", "1025", "9" * 5000, "²", "a,1", "1;2"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(SimvizError, match="is no number of workers from 1 to 1,024; write for instance 1,2,4,8"):
        read_workers(text)


def test_a_number_comes_once() -> None:
    with pytest.raises(SimvizError, match="has 2 twice"):
        read_workers("1,2,4,2")
