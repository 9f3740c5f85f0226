"""The cut of the warm-up and the confidence interval, held against plain formulas and processes whose mean is known."""

from __future__ import annotations

from fractions import Fraction
from statistics import fmean, pvariance, variance

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import ints
from simulator.training.answers.steady_state import MIN_BATCHES, batch_means, warm_up

SERIES = st.lists(st.integers(0, 1000), max_size=150)


def mser(series: list[int], size: int, least: int) -> int:
    """White's statistic, spelled out, and the test whether its cut is more than noise."""
    means = [Fraction(sum(series[k : k + size])) for k in range(0, len(series) - size + 1, size)]
    first = -(-least // size)
    errors = {}
    for d in range(first, min(len(means) // 2, len(means) - MIN_BATCHES) + 1):
        rest = means[d:]
        errors[d] = (pvariance(rest) / len(rest), d)
    best = min(errors.values(), default=(0, first))[1]
    if best == first:
        return least
    cut, rest = means[first:best], means[best:]
    error = float(variance(rest)) * (1 / len(cut) + 1 / len(rest))
    clearly = float(fmean(cut) - fmean(rest)) ** 2 > 9 * error
    return max(best * size, least) if clearly else least


@given(SERIES, st.integers(1, 12), st.integers(0, 40))
def test_the_cut_is_where_the_standard_error_of_the_rest_is_least(series: list[int], cycle: int, least: int) -> None:
    found = warm_up(ints(series), cycle=cycle, least=least)
    assert found.cut == min(mser(series, cycle, least), len(series) // 2)
    assert found.settled or found.cut > 0 or least > 0


@given(st.integers(0, 10**15), st.integers(0, 200), st.integers(1, 9))
def test_a_constant_series_needs_no_cut(value: int, count: int, cycle: int) -> None:
    assert warm_up(ints([value] * count), cycle=cycle) == (0, True)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=8), st.integers(2, 30))
def test_what_repeats_is_steady_whatever_its_cycle(cycle: list[int], times: int) -> None:
    series = ints(cycle * times)
    assert warm_up(series, cycle=len(cycle)).cut == 0
    found = batch_means(series, cycle=len(cycle))
    rounding = 1e-9 * max(cycle)  # means are floats
    assert found.half_width is None or times < 2 * MIN_BATCHES or found.half_width <= rounding


def test_a_slow_beginning_is_cut_off() -> None:
    noise = np.random.default_rng(1).integers(90, 111, 300)
    noise[:40] += np.arange(400, 0, -10)
    found = warm_up(ints(noise))
    assert 35 <= found.cut <= 50
    assert found.settled


def test_a_series_that_never_settles_says_so() -> None:
    assert not warm_up(ints(range(1000, 0, -5))).settled
    assert not warm_up(ints([7] * 20), least=15).settled


@given(SERIES.filter(bool), st.integers(1, 7))
def test_the_mean_is_that_of_the_whole_series(series: list[int], cycle: int) -> None:
    assert batch_means(ints(series), cycle=cycle).mean == pytest.approx(sum(series) / len(series))


def test_an_interval_by_hand() -> None:
    """Five batches of two: means 1, 2, 3, 4, 5; t of 4 degrees is 2.776; their variance is 2.5, ten rounds make it 1.4
    times as wide; and the rounds lie evenly around their mean, so there is nothing to correct for.
    """
    found = batch_means(ints([0, 2, 1, 3, 2, 4, 3, 5, 4, 6]))
    assert found.half_width == pytest.approx(1.4 * 2.776 * (2.5 / 5) ** 0.5)
    assert batch_means(ints([0, 2, 1, 3])).half_width is None
    assert batch_means(ints([0, 2, 1, 3, 2, 4, 3, 5, 4, 6]), most=4).half_width is None


def test_skewness_widens_an_interval() -> None:
    """Nineteen rounds of 0 and one of 20: a spread of 19 ** 0.5, and a skewness of 18 / 19 ** 0.5."""
    series = ints([0] * 19 + [20])
    skewed = (2 * 1.96**2 + 1) / 6 * 18 / 20
    assert batch_means(series).half_width == pytest.approx(
        2.776 * 1.2 + skewed
    )  # each number of batches: an error of 1


def test_nothing_has_no_mean() -> None:
    with pytest.raises(ValueError, match="nothing"):
        batch_means(ints([]))


def autoregressive(rng: np.random.Generator, count: int, memory: float) -> npt.NDArray[np.int64]:
    """x[k] = 1000 + memory (x[k-1] - 1000) + noise, from its stationary law."""
    noise = rng.normal(0, 100, count)
    noise[0] /= np.sqrt(1 - memory**2)
    values = [float(noise[0])]
    for one in noise[1:].tolist():
        values.append(memory * values[-1] + one)
    made: npt.NDArray[np.int64] = np.rint(1000 + np.array(values)).astype(np.int64)
    return made


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8, -0.5])
def test_intervals_cover_the_mean_of_a_known_process_as_often_as_they_say(memory: float) -> None:
    rng = np.random.default_rng(12)
    covered = 0
    for _ in range(200):
        found = batch_means(ints(autoregressive(rng, 1000, memory)))
        assert found.half_width is not None
        covered += abs(found.mean - 1000) <= found.half_width
    assert covered >= 184  # 95 % of 200 are 190; two standard deviations less
