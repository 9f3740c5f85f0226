"""Noise: the hash by its known numbers, the tables by their laws."""

from __future__ import annotations

from collections import Counter
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.columns import Ints
from simulator.execution.choosing import CompiledSources
from simulator.execution.compiled.kernel import Parameter, made
from simulator.execution.compiled.translation import Array
from simulator.training.disturbances.noise import (
    ONE,
    QUANTILES,
    empirical,
    entry,
    exponential,
    lognormal,
    scaled,
    splitmix64,
)

GAMMA = 0x9E3779B97F4A7C15
WORD = st.integers(0, 2**64 - 1)


def test_the_hash_draws_the_published_numbers() -> None:
    """The first numbers of SplitMix64 from the seed 1234567, as its authors' C program prints them."""
    states = [(1234567 + k * GAMMA) % 2**64 for k in range(5)]
    assert [splitmix64(state) for state in states] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def draw(words: Ints, factors: Ints, drawn: Ints) -> None:
    """As a training draws, of unsigned numbers."""
    for at in range(len(words)):
        drawn[at] = np.int64(splitmix64(np.uint64(words[at])))
        factors[at] = scaled(words[at] >> 20, factors[at])


def test_the_same_hash_and_scaling_are_compiled() -> None:
    column = Array("int64", 1)
    kinds = [Parameter(column), Parameter(column, (Array,)), Parameter(column, (Array,))]
    compiled = made(draw, kinds, CompiledSources("A test", 1, "", "draw", ()))
    words = np.arange(-100, 100) * 0x1234567_89AB
    factors = np.arange(200) << 9
    drawn, times = np.zeros(200, np.int64), factors.copy()
    compiled(words, times, drawn)
    assert [number % 2**64 for number in drawn.tolist()] == [splitmix64(word % 2**64) for word in words.tolist()]
    pairs = zip(words.tolist(), factors.tolist(), strict=True)
    assert times.tolist() == [scaled(word >> 20, factor) for word, factor in pairs]


@given(WORD, WORD)
def test_the_hash_is_one_to_one(one: int, other: int) -> None:
    assert (splitmix64(one) == splitmix64(other)) == (one == other)


def chi_square(counts: Counter[int], cells: int) -> float:
    expected = sum(counts.values()) / cells
    return sum((counts[cell] - expected) ** 2 for cell in range(cells)) / expected


@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_entries_are_uniform(seed: int) -> None:
    drawn = Counter(
        entry(seed, task, client, step) >> 8 for task in range(4) for client in range(8) for step in range(800)
    )
    assert abs(chi_square(drawn, 256) - 255) < 4 * sqrt(2 * 255)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_neighbours_are_independent(axis: int) -> None:
    """Of each argument: pairs of entries at k and k + 1 fill the square evenly."""
    pairs: Counter[int] = Counter()
    for k in range(6000):
        at = [7, 2, 3, 5]
        at[axis] = 2 * k
        one = entry(*at)
        at[axis] += 1
        pairs[(one >> 12) * 16 + (entry(*at) >> 12)] += 1
    assert abs(chi_square(pairs, 256) - 255) < 4 * sqrt(2 * 255)


def test_arguments_do_not_stand_for_each_other() -> None:
    drawn = {entry(a, b, c, d) for a in range(3) for b in range(3) for c in range(3) for d in range(3)}
    assert len(drawn) >= 80  # of 81; two of 65,536 may meet


@pytest.mark.parametrize(
    "table", [lognormal(0.5), lognormal(2), exponential(), exponential(0.25), empirical([3, 1, 2])]
)
def test_the_mean_factor_is_one(table: np.ndarray) -> None:
    assert len(table) == QUANTILES
    assert int(table.sum()) == ONE * QUANTILES
    assert table.min() >= 0
    assert np.diff(table).min() >= -2  # ascending but for rounding


def test_no_noise_changes_nothing() -> None:
    for table in (lognormal(0), exponential(0), empirical([7.25])):
        assert set(table.tolist()) == {ONE}


@given(st.integers(0, 2**45))
def test_a_factor_of_one_changes_nothing(work: int) -> None:
    assert scaled(work, ONE) == work


@given(st.integers(0, 2**45), st.integers(0, 2**30))
def test_scaled_work_is_exact_and_rounded_up(work: int, factor: int) -> None:
    assert scaled(work, factor) == -(-work * factor // ONE)


def test_the_laws_have_the_spread_that_they_are_asked_for() -> None:
    share = lognormal(0.5) / ONE
    assert np.isclose(share.std(), sqrt(exp(0.25) - 1), rtol=0.01)
    assert np.isclose(np.median(share), exp(-0.125), rtol=0.001)
    assert np.isclose((exponential(0.25) / ONE).std(), 0.25, rtol=0.01)
    assert np.isclose(np.median(exponential() / ONE), log(2), rtol=0.001)


@settings(max_examples=15)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30).filter(any), st.integers(1, 10**9))
def test_measured_times_come_as_often_as_they_were_measured(values: list[int], unit: int) -> None:
    table, mean = empirical(values), sum(values) / len(values)
    assert table.tolist() == empirical([value * unit for value in values]).tolist()
    for value, count in Counter(values).items():
        close = np.abs(table - value / mean * ONE) <= 2 + value / mean * ONE * len(values) / QUANTILES
        assert close.sum() >= QUANTILES * count / len(values) - 2


@pytest.mark.parametrize("wrong", [[], [0, 0], [0] * 10**6 + [1], [1, -1], [float("nan")], [1, float("inf")]])
def test_what_is_no_duration_is_refused(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="number"):
        empirical(wrong)


def test_outliers_that_are_no_noise_are_refused() -> None:
    with pytest.raises(ValueError, match="times the mean"):
        empirical([1e-9] * 30_000 + [1])
    for sigma in (-0.1, 2.1, float("nan")):
        with pytest.raises(ValueError, match="sigma"):
            lognormal(sigma)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="share"):
            exponential(share)
