"""How long a run takes to settle, and how sure its mean is: statistics of one long series.

The series here are times from one update to the next. They depend on each other (who was slow once makes the next
update come soon), and the first ones are of a cluster whose queues are empty.
"""

from __future__ import annotations

from itertools import accumulate
from math import fsum, sqrt
from typing import NamedTuple

from simulator.columns import Ints

MSER_BATCH = 5  # observations
MIN_BATCHES, MAX_BATCHES = 5, 20

# Student's t, two-sided 95 %, by degrees of freedom from 1 to MAX_BATCHES - 1; any table has them.
_T95: tuple[float, ...] = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160)
_T95 += (2.145, 2.131, 2.120, 2.110, 2.101, 2.093)


class WarmUp(NamedTuple):
    """How many observations to leave out at the beginning, and whether the rest looks steady."""

    cut: int
    settled: bool  # the cut lies in the first half, else the run is too short to tell


def warm_up(series: Ints, *, cycle: int = 1, least: int = 0) -> WarmUp:
    """The cut that makes the mean of the rest most certain, at least `least`, at most half of the series.

    MSER-5: of batch means of five, leave out the first d such that the standard error of the rest's mean is smallest
    (White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69(6), 1997;
    White, Cobb and Spratt, WSC 2000, for the batches). It needs no tuning and no eye on a plot; of the rules compared
    there and since it is among the best and the simplest. At least five batches remain. Where observations come in
    cycles of equal shape, batches are whole cycles, five observations or more, as what goes on within a cycle is no
    warm-up. Ties go to the shortest cut; sums are of integers, so nothing depends on rounding.
    """
    size = cycle * -(-MSER_BATCH // cycle)
    batches = [int(series[k : k + size].sum()) for k in range(0, len(series) - size + 1, size)]
    best: tuple[int, int, int] | None = None  # numerator and denominator of the squared error, batches cut
    totals = list(accumulate(reversed(batches)))[::-1]
    squares = list(accumulate(value * value for value in reversed(batches)))[::-1]
    last = max(0, min(len(batches) // 2, len(batches) - MIN_BATCHES))
    for d in range(last + 1 if batches else 0):
        rest = len(batches) - d
        error, scale = rest * squares[d] - totals[d] ** 2, rest**3
        if best is None or error * best[1] < best[0] * scale:
            best = error, scale, d
    found = best[2] if best is not None else 0
    half = len(series) // 2
    return WarmUp(min(max(found * size, least), half), not 0 < last == found and least <= half)


class Mean(NamedTuple):
    """A mean and half of its 95 % confidence interval; none: too few observations to say."""

    mean: float
    half_width: float | None


def batch_means(series: Ints, *, cycle: int = 1) -> Mean:
    """The mean of a steady series, with its confidence from the spread of the means of up to 20 equal batches.

    Batches are whole cycles where there are enough; the first observations, fewer than would add one to each batch,
    count for the mean alone. With batches much longer than the series' memory their means are nearly independent and
    nearly normal. Source: Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research
    30(3), 1982: more than 30 batches gain little.
    """
    count = len(series)
    if not count:
        raise ValueError("there is no mean of nothing")
    mean = int(series.sum()) / count
    cycles = count // cycle
    unit = cycle if cycles >= 2 * MIN_BATCHES else 1
    batches = min(MAX_BATCHES, count // unit // 2)
    if batches < MIN_BATCHES:
        return Mean(mean, None)
    size = count // unit // batches * unit
    kept = series[count - batches * size :]
    means = [int(kept[k : k + size].sum()) / size for k in range(0, len(kept), size)]
    centre = fsum(means) / batches
    variance = fsum((value - centre) ** 2 for value in means) / (batches - 1)
    return Mean(mean, _T95[batches - 2] * sqrt(variance / batches))
