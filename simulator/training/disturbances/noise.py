"""Noise and pauses of a task: what makes its work take longer than the work alone.

Noise is a random factor of a step's work, one per task, client and step. A factor is an entry of a table of 65,536
quantiles in fixed point, FACTOR_BITS after the point, whose mean is 1. A hash of seed, task, client and step picks the
entry. So a factor needs no memory, does not depend on the order of calls, and is the same in every engine.
`splitmix64`, `scaled` and `stretched` are compiled as well, the first for unsigned 64-bit numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import exp, fsum, isfinite, log1p
from statistics import NormalDist
from typing import NamedTuple

from simulator.columns import Ints, ints
from simulator.units import Nanos

FACTOR_BITS = 16
ONE = 1 << FACTOR_BITS  # the factor 1
QUANTILES = 1 << 16
MAX_FACTOR = 1 << 14  # of a table's entry, so that scaled times stay far from 2^63

_GAMMA = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd
_MASK = 0xFFFFFFFFFFFFFFFF


def splitmix64(state: int) -> int:
    """The number that SplitMix64 draws in that state; its next state is `state` + 0x9e3779b97f4a7c15.

    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014; constants of Vigna's version.
    """
    z = (state + _GAMMA) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def entry(seed: int, task: int, client: int, step: int) -> int:
    """The row of the quantile that a client's step draws on a task. Arguments are from 0 to 2^64 - 1."""
    return splitmix64(splitmix64(splitmix64(splitmix64(seed) ^ task) ^ client) ^ step) >> 48


def scaled(work: Nanos, factor: int) -> Nanos:
    """Work times a factor in fixed point, rounded up; in two parts, so that 64 bits hold it."""
    return (work >> 16) * factor + (((work & 0xFFFF) * factor + 0xFFFF) >> 16)


def lognormal(sigma: float) -> Ints:
    """[QUANTILES] factors whose logarithm is normal with that standard deviation.

    Raises ValueError for a sigma below 0 or so large that the mean rests on a few quantiles.
    """
    if not 0 <= sigma <= 2:
        raise ValueError(f"sigma is {sigma:g}; give a number from 0 to 2")
    normal = NormalDist()
    return _table([exp(sigma * normal.inv_cdf(at)) for at in _places()])


def exponential(share: float = 1.0) -> Ints:
    """[QUANTILES] factors of which `share` is exponential and the rest constant. Raises ValueError outside 0 to 1."""
    if not 0 <= share <= 1:
        raise ValueError(f"the share is {share:g}; give a number from 0 to 1")
    return _table([1 - share - share * log1p(-at) for at in _places()])


def empirical(values: Sequence[float]) -> Ints:
    """[QUANTILES] factors as often as they were measured, in any unit: only their ratio to the mean counts.

    Raises ValueError for no values, one that is negative or not finite, and where all quantiles are 0.
    """
    wrong = next((value for value in values if not (isfinite(value) and value >= 0)), None)
    if wrong is not None:
        raise ValueError(f"{wrong} is no duration; give numbers of 0 or more")
    ordered, count = sorted(values), len(values)
    drawn = [ordered[int(at * count)] for at in _places()] if values else [0.0]
    if not any(drawn):
        raise ValueError("its numbers are 0, all or nearly all; give durations")
    return _table([value / drawn[-1] for value in drawn])  # in this unit no sum overflows


def _places() -> list[float]:
    """The middles of QUANTILES equal parts of 0 to 1: exact in binary."""
    return [(2 * k + 1) / (2 * QUANTILES) for k in range(QUANTILES)]


def _table(values: Sequence[float]) -> Ints:
    """In fixed point, in their order, with a mean of exactly 1: rounding errors are carried on, not added up."""
    total = fsum(values)
    if max(values) * QUANTILES > MAX_FACTOR * total:
        raise ValueError(f"the largest is more than {MAX_FACTOR:,} times the mean; leave out values that are no noise")
    rising = [round(reached / total * ONE * QUANTILES) for reached in accumulate(values)]
    rising[-1] = ONE * QUANTILES
    return ints([upper - lower for lower, upper in zip([0, *rising], rising, strict=False)])


class Pauses(NamedTuple):
    """A task stands still for `length_ns`, from `phase_ns` on, and again after every period.

    The length is below the period, where there is one; 0: it never stands still.
    """

    phase_ns: Nanos  # since the start of the run
    period_ns: Nanos  # from the start of a pause to that of the next; 0: it stands still once
    length_ns: Nanos


NO_PAUSE = Pauses(0, 0, 0)


def stretched(now: Nanos, work: Nanos, phase: Nanos, period: Nanos, length: Nanos) -> Nanos:
    """The end of work that begins now: the first moment at which the task was awake for that long since now.

    Work of no length ends now, in a pause as well. A pause that begins at the very end of work does not delay it.
    """
    if work == 0:
        return now
    awake = period - length  # of each period
    since = now - phase
    if since > 0:  # count time awake since the first pause began
        whole = since // period if period else 0
        since = whole * awake + max(0, since - whole * period - length)
    target = since + work
    if target <= 0:
        return phase + target
    whole = (target - 1) // awake if period else 0
    return phase + whole * period + length + target - whole * awake
