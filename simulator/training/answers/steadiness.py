"""How long a run takes to settle, and how sure its mean is: statistics of one long series.

The series here are times from one update to the next. They depend on each other (who was slow once makes the next
update come soon), and the first ones are of a cluster whose queues are empty. A round is as many updates as there are
clients that make some: what goes on within it is no noise.
"""

from __future__ import annotations

from itertools import accumulate
from math import fsum, sqrt
from typing import NamedTuple

from simulator.columns import Ints

BATCHES = (20, 10, 5)  # numbers of batches that are tried; the last is the least of which an interval is made
MIN_BATCHES = BATCHES[-1]
CLEARLY = 3  # standard errors between the beginning and the rest
FEW = 4  # an interval of n rounds is 1 + 4 / n times as wide: what so few say of their own dependence is little

# Student's t, two-sided 95 %, by degrees of freedom from 4 to 19; any table has them.
_T95: tuple[float, ...] = (2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)
_T95 += (2.110, 2.101, 2.093)
_HALL = (2 * 1.96**2 + 1) / 6  # what skewness adds to one end of an interval, in standard deviations over n


class WarmUp(NamedTuple):
    """How many observations to leave out at the beginning, and whether the rest looks steady."""

    cut: int
    settled: bool  # the cut lies in the first half, else the run is too short to tell


def warm_up(series: Ints, *, cycle: int = 1, least: int = 0) -> WarmUp:
    """The cut that makes the mean of the rest most certain, at least `least`, at most half of the series.

    MSER: of the means of rounds of `cycle` observations, leave out the first d such that the standard error of the
    rest's mean is smallest (White, "An effective truncation heuristic for bias reduction in simulation output",
    Simulation 69(6), 1997). In a short series that is often where noise happens to look small. So the cut is made only
    where what is left out differs clearly from the rest, by `CLEARLY` standard errors; else it is `least`. At least
    five rounds remain. Ties go to the shortest cut; sums are of integers, so nothing depends on rounding.
    """
    rounds = [int(series[k : k + cycle].sum()) for k in range(0, len(series) - cycle + 1, cycle)]
    totals = [*list(accumulate(reversed(rounds)))[::-1], 0]
    squares = [*list(accumulate(value * value for value in reversed(rounds)))[::-1], 0]
    first = -(-least // cycle)
    last = min(len(rounds) // 2, len(rounds) - MIN_BATCHES)
    best: tuple[int, int, int] | None = None  # numerator and denominator of the squared error, rounds cut
    for d in range(first, last + 1):
        rest = len(rounds) - d
        error, scale = rest * squares[d] - totals[d] ** 2, rest**3
        if best is None or error * best[1] < best[0] * scale:
            best = error, scale, d
    found = best[2] if best is not None else first
    made = found > first and _differs(rounds[first:found], len(rounds) - found, totals[found], squares[found])
    half = len(series) // 2
    cut = max(found * cycle, least) if made else least
    return WarmUp(min(cut, half), not (made and found == last) and least <= half)


def _differs(beginning: list[int], rest: int, total: int, square: int) -> bool:
    """Whether the mean of the beginning lies clearly beside that of the rest, which has that sum and sum of squares."""
    apart = sum(beginning) / len(beginning) - total / rest
    variance = max(0.0, (rest * square - total**2) / (rest * (rest - 1)))
    return apart**2 > CLEARLY**2 * variance * (1 / len(beginning) + 1 / rest)


class Mean(NamedTuple):
    """A mean and half of its 95 % confidence interval; none: too few observations to say."""

    mean: float
    half_width: float | None


def batch_means(series: Ints, *, cycle: int = 1, most: int = BATCHES[0]) -> Mean:
    """The mean of a steady series, with its confidence from the spread of the means of equal batches.

    Batches are whole rounds of `cycle` observations; the first observations, fewer than would fill one more, count for
    the mean alone. With batches much longer than the series' memory their means are nearly independent and nearly
    normal, and Student's t holds (Schmeiser, "Batch size effects in the analysis of simulation output", Operations
    Research 30(3), 1982). How long the memory is nobody knows: of 20, 10 and 5 batches, no more than `most`, what says
    the widest interval counts. Few rounds widen it (`FEW`), and so does skewness, by Hall's correction ("On the removal
    of skewness by transformation", Journal of the Royal Statistical Society B 54(1), 1992) at both ends.
    """
    count = len(series)
    if not count:
        raise ValueError("there is no mean of nothing")
    mean = int(series.sum()) / count
    total = count // cycle
    numbers = [k for k in _numbers(total) if k <= most]
    if not numbers:
        return Mean(mean, None)
    rounds = [int(series[k : k + cycle].sum()) / cycle for k in range(count - total * cycle, count, cycle)]
    widest = max(_half_width(rounds, k) for k in numbers)
    centre = fsum(rounds) / total
    spread = sqrt(fsum((one - centre) ** 2 for one in rounds) / total)
    third = fsum((one - centre) ** 3 for one in rounds) / total
    skew = abs(third) / spread**3 if spread else 0.0
    return Mean(mean, widest * (1 + FEW / total) + _HALL * skew * spread / total)


def _numbers(rounds: int) -> list[int]:
    """How many batches to make of so many rounds: of two rounds or more, unless there are too few."""
    if rounds < 2 * MIN_BATCHES:
        return [rounds] if rounds >= MIN_BATCHES else []
    return sorted({min(number, rounds // 2) for number in BATCHES})


def _half_width(rounds: list[float], batches: int) -> float:
    size = len(rounds) // batches
    kept = rounds[len(rounds) - batches * size :]
    means = [fsum(kept[k : k + size]) / size for k in range(0, len(kept), size)]
    centre = fsum(means) / batches
    variance = fsum((value - centre) ** 2 for value in means) / (batches - 1)
    return _T95[batches - MIN_BATCHES] * sqrt(variance / batches)
