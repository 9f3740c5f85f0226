"""Budgets, as they are read."""

from __future__ import annotations

from typing import Any

import pytest

from placement.effort import Effort, read_effort
from simulator.errors import SimvizError


def test_a_budget_is_a_time_or_a_number() -> None:
    assert [read_effort(text).seconds for text in ("2s", "500ms", "1.5 min", "1h")] == [2, 0.5, 90, 3600]
    assert (read_effort("20000").judged, read_effort("20000").seconds) == (20000, None)
    assert read_effort(str(2**40)).judged == 2**40
    assert read_effort("9" * 5000 + "h").seconds == 1e9
    assert read_effort("0" * 5000 + "7").judged == 7
    assert [str(read_effort(text)) for text in ("2s", "20000")] == ["2 s", "20,000 placements"]


@pytest.mark.parametrize("text", ["", "fast", "-1", "1.5", "3 days", "1s2"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SimvizError, match="no budget"):
        read_effort(text)


@pytest.mark.parametrize("text", ["9" * 5000, "1" * 19, str(2**40 + 1)])
def test_more_placements_than_the_limit_are_refused_with_its_name(text: str) -> None:
    with pytest.raises(SimvizError, match=r"more than 1,099,511,627,776 placements; --limit placements=N"):
        read_effort(text)


@pytest.mark.parametrize("wrong", [-1, 2.5, "3", True, float("nan")])
def test_what_is_no_number_of_placements_is_refused(wrong: Any) -> None:
    with pytest.raises(SimvizError, match=r"A budget of .* placements: give a whole number from 0\."):
        Effort(judged=wrong)


@pytest.mark.parametrize("wrong", [-1, -0.5, float("nan"), float("inf"), "3"])
def test_what_is_no_time_is_refused(wrong: Any) -> None:
    with pytest.raises(SimvizError, match=r"A budget of .* seconds: give a finite number from 0\."):
        Effort(seconds=wrong)
