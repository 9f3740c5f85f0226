"""Cycles of runs, and of patterns that are drawn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import flags, ids
from simulator.training.answers.answers import answers, until_ci
from simulator.training.answers.steady_state import cycle_of, repetition
from simulator.training.disturbances.disturbance import Upsets, read_disturbance
from simulator.training.regimes import read_regime
from simulator.training.train import train
from tests.training.answers.test_runs import busy_ps, trained
from tests.training.runs import made

PATTERNS = st.lists(st.integers(0, 2), max_size=30)


def slowly(pattern: list[int]) -> tuple[int, int] | None:
    """The longest end that repeats at least twice, found by trying all; of its periods the smallest."""
    for begin in range(len(pattern)):
        end = pattern[begin:]
        for period in range(1, len(end) // 2 + 1):
            if all(end[at] == end[at - period] for at in range(period, len(end))):
                return period, begin
    return None


@given(PATTERNS)
def test_the_longest_repeating_end_is_found(pattern: list[int]) -> None:
    assert repetition(pattern) == slowly(pattern)


@given(PATTERNS, st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(2, 9))
def test_what_was_repeated_is_seen_to_repeat(before: list[int], cycle: list[int], times: int) -> None:
    found = repetition([*before, *cycle * times])
    assert found is not None
    assert found[1] <= len(before)


def test_a_pattern_must_fill_half_of_a_run() -> None:
    ends = [3, 7, 8, 14, 15, 22, 24, 30, 40, 50]
    assert cycle_of(made(ends)) is None
    assert cycle_of(made([*ends, *range(60, 200, 10)])) is not None


def test_chance_knows_no_cycle() -> None:
    ends = list(range(10, 200, 10))
    assert cycle_of(made(ends, upsets=Upsets(chance=True))) is None
    assert cycle_of(made(ends)) == (1, 10, 0)


@pytest.mark.parametrize("regime", ["async", "ssp:bound=1", "ssp:bound=3"])
@pytest.mark.parametrize("slow", [(), ("w:1=slow:2",), ("w:1=slow:5", "w:2=slow:3")])
def test_the_rate_of_a_cycle_is_that_of_a_run_of_a_hundred_times_as_many_steps(
    regime: str, slow: tuple[str, ...]
) -> None:
    on, workload = busy_ps(3, ps_ns=90)
    short, long = (trained(workload, on, steps, read_regime(regime), *slow) for steps in (30, 3000))
    found, truth = answers(short), answers(long)
    assert truth.steps_per_s is not None
    assert found.half_width is not None
    if found.cycle is not None:
        assert found.half_width == 0
        assert found.steps_per_s == pytest.approx(truth.steps_per_s, rel=1e-4)
    else:
        assert found.half_width > 0
        assert abs((found.steps_per_s or 0) - truth.steps_per_s) <= found.half_width * truth.steps_per_s


def test_a_lead_that_a_bound_will_end_is_no_cycle_and_leaves_no_interval() -> None:
    """A worker that updates twice as often is held back as soon as it is four steps ahead, and the rate is less."""
    ends = list(range(10, 400, 10))
    two: dict[str, Any] = {
        "clients": ("worker:0", "worker:1"),
        "client_task": ids([1, 1]),
        "is_worker": flags([True, True]),
        "update_client": ids([0, 0, 1] * 13),
        "step_client": ids([0, 0, 1] * 13),
    }
    free, bound = answers(made(ends, **two)), answers(made(ends, **two, bound=40))
    assert free.cycle is not None
    assert (free.half_width, free.settled) == (0, True)
    assert (bound.cycle, bound.half_width, bound.settled) == (None, None, False)


@pytest.mark.parametrize("slow", [("w:1=slow:5",), ("w:1=slow:1.3",)])
def test_a_run_goes_on_until_the_bound_holds_the_fastest_worker(slow: tuple[str, ...]) -> None:
    on, workload = busy_ps(3, ps_ns=90)
    regime = read_regime("ssp:bound=40")
    short = answers(trained(workload, on, 20, regime, *slow))
    truth = answers(trained(workload, on, 3000, regime, *slow)).steps_per_s
    assert truth is not None
    assert (short.cycle, short.half_width, short.settled) == (None, None, False)
    given = [client for client, _ in workload], on, [priced for _, priced in workload]
    how: dict[str, Any] = {
        "regime": regime,
        "steps": 20,
        "disturbances": [read_disturbance(text) for text in slow],
        "most": 10_000,
    }
    reached = until_ci(lambda extend: train(*given, **how, extend=extend), steps=20)
    assert reached.answers.steps_per_s == pytest.approx(truth, rel=0.02)
