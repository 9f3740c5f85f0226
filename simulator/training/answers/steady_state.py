"""The steady state of a run: the end of its warm-up, its rate with its confidence, and its cycle.

The series are times from one update to the next. They depend on each other: after a late update the next one comes
soon. The first times are those of a cluster whose queues are empty. A round has an update of each client that makes
some; differences within a round are no noise.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate
from math import fsum, sqrt
from typing import NamedTuple

import numpy as np

from simulator.columns import Ints, ints
from simulator.training.training import ResourceUsage, Training
from simulator.units import SECOND_NS, Nanos

BATCHES = (20, 10, 5)  # numbers of batches that are tried; an interval needs at least the last
MIN_BATCHES = BATCHES[-1]
CLEARLY = 3  # standard errors between the beginning and the rest
SETTLING = 3  # steps of each worker that are warm-up, if that is no more than a quarter of the run
FEW = 4  # an interval of n rounds is 1 + 4 / n times as wide, as few rounds say little of their own dependence

# Student's t, two-sided 95 %, by degrees of freedom from 4 to 19; any table has them.
_T95: tuple[float, ...] = (2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)
_T95 += (2.110, 2.101, 2.093)
_HALL = (2 * 1.96**2 + 1) / 6  # skewness moves one end of an interval by it, in standard deviations over n


class WarmUp(NamedTuple):
    """The observations to leave out at the beginning, and whether the rest looks steady."""

    cut: int
    settled: bool  # the cut lies in the first half, else the run is too short to tell


def warm_up(series: Ints, *, cycle: int = 1, least: int = 0) -> WarmUp:
    """The cut that makes the mean of the rest most certain, at least `least`, at most half of the series.

    This is MSER (White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69(6),
    1997). It leaves out the first d means of rounds of `cycle` observations, for the d that makes the standard error of
    the rest's mean smallest. In a short series noise often looks small somewhere by chance. So the cut is made only
    where the beginning differs clearly from the rest, by `CLEARLY` standard errors; else it is `least`. At least five
    rounds remain. Ties go to the shortest cut; sums are of integers, so nothing depends on rounding.
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
    """Tell whether the beginning's mean differs clearly from that of the rest, given its sum and sum of squares."""
    apart = sum(beginning) / len(beginning) - total / rest
    variance = max(0.0, (rest * square - total**2) / (rest * (rest - 1)))
    return apart**2 > CLEARLY**2 * variance * (1 / len(beginning) + 1 / rest)


class Mean(NamedTuple):
    """A mean and half of its 95 % confidence interval; none: too few observations to say."""

    mean: float
    half_width: float | None


def batch_means(series: Ints, *, cycle: int = 1, most: int = BATCHES[0]) -> Mean:
    """The mean of a steady series, with its confidence from the spread of the means of equal batches.

    Batches are whole rounds of `cycle` observations; the first observations, too few for one more round, count for the
    mean alone. With batches much longer than the series' memory their means are nearly independent and normal, so that
    Student's t holds. The source is Schmeiser, "Batch size effects in the analysis of simulation output", Operations
    Research 30(3), 1982. The length of the memory is unknown: of 20, 10 and 5 batches, no more than `most`, the number
    with the widest interval counts. Few rounds widen it (`FEW`). Skewness widens it at both ends (Hall, "On the removal
    of skewness by transformation", Journal of the Royal Statistical Society B 54(1), 1992).

    Raises ValueError for an empty series.
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
    """The numbers of batches to try of so many rounds: of two rounds or more each, unless there are too few."""
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


# ---- cycles ---------------------------------------------------------------------------------------------------------
# A run without chance may repeat itself: from some update on, the same updates in the same order at the same distances.
#
#     gaps   30  4  4  9 | 7  4  4  9 | 7  4  4  9 | 7  4  4  9          the cycle is 4 updates and 24 ns long
#
# Then the rate is known exactly, by whole cycles. Two updates are compared by all recorded facts: their time, client,
# gradients and examples, and the steps that ended before them with their lengths and waits.


class Cycle(NamedTuple):
    """A pattern that repeats until the end of a run."""

    updates: int  # of one repetition
    ns: Nanos  # that it lasts
    begin: int  # update with which the first repetition begins


def cycle_of(training: Training) -> Cycle | None:
    """The cycle of a run; None: chance has a part in the run, a single event happens in it, or no cycle is found.

    A cycle counts if its repetitions, at least two, fill at least half of the updates. A periodic pause must come a
    whole number of times in a cycle.
    """
    upsets = training.upsets
    if upsets.chance or any(begin < training.end_ns for begin, _ in upsets.once_ns):
        return None
    pattern, known = _pattern(training), dict[Hashable, int]()
    found = repetition([known.setdefault(one, len(known)) for one in pattern])
    if found is None or 2 * (len(pattern) - found[1]) < len(pattern):
        return None
    period, begin = found
    begin += (len(pattern) - begin) % period
    gaps = np.diff(training.update_ns, prepend=0)
    lasts = int(gaps[len(gaps) - period :].sum())
    if not lasts or any(lasts % one for one in upsets.periods_ns):
        return None
    return Cycle(period, lasts, begin)


def repetition(pattern: Sequence[Hashable]) -> tuple[int, int] | None:
    """Period and begin of the longest end of a pattern that repeats at least twice; None: there is none.

    The failure function of Knuth, Morris and Pratt is taken of the pattern read from its end. The smallest period of
    its first n is n less the longest border. Source: "Fast pattern matching in strings", SIAM Journal on Computing
    6(2), 1977.
    """
    back = pattern[::-1]
    border = [0] * len(back)
    best = None
    for at in range(1, len(back)):
        length = border[at - 1]
        while length and back[at] != back[length]:
            length = border[length - 1]
        border[at] = length + (back[at] == back[length])
        period = at + 1 - border[at]
        if at + 1 >= 2 * period:
            best = period, len(pattern) - at - 1
    return best


def _pattern(training: Training) -> list[Hashable]:
    """[U] all facts on each update, relative to the one before."""
    moments = training.update_ns.tolist()
    ended: list[list[tuple[int, ...]]] = [[] for _ in moments]
    rows = np.searchsorted(training.update_ns, training.step_end_ns).tolist()
    columns = (training.step_client, training.step_start_ns, training.step_end_ns, training.step_waiting_ns)
    for row, *step in zip(rows, *(column.tolist() for column in columns), strict=True):
        if row < len(moments):
            client, start, end, waiting = step
            ended[row].append((client, moments[row] - end, end - start, waiting))
    gaps = np.diff(training.update_ns, prepend=0).tolist()
    of_update = (training.update_client, training.update_staleness, training.update_gradients, training.update_examples)
    facts = zip(gaps, *(column.tolist() for column in of_update), strict=True)
    return [(*fact, *steps) for fact, steps in zip(facts, ended, strict=True)]


# ---- the steady part of a run, and its rate -------------------------------------------------------------------------


class SteadyState(NamedTuple):
    """The part of a run after its warm-up."""

    cycle: Cycle | None  # repeats until the end, so the rate is exact; None: none was found, or chance has a part
    cut: int  # updates that count as warm-up
    cut_ns: Nanos  # the end of the warm-up
    settled: bool  # False: the run is too short for its warm-up
    usage: ResourceUsage  # after the warm-up
    apart_ns: Ints | None  # times between updates into which no single event falls; None: there was no such event
    half_width: float | None  # of the 95 % confidence interval of the rate, relative to it; None: too few updates


def steady_state(training: Training) -> SteadyState:
    """The steady part of a run.

    The warm-up ends at a sample of the run (`Training.samples`), where its busy times are known. In a run of many
    updates, that is the first sample that is not too early. A single event, such as a crash, is no warm-up.
    """
    found = cycle_of(training) if len(training.update_ns) else None
    parting = _parting(training, found)
    found = None if parting else found
    upset = _first_upset(training)
    cut, settled = _cut(training, upset) if found is None else (_whole_cycles(training, found), True)
    samples = (one for one in training.samples if upset >= one.updates >= cut > 0 and one.ns < training.end_ns)
    sample = next(samples, None)
    cut, usage = (cut, training.usage) if sample is None else (sample.updates, training.usage.since(sample))
    apart = _apart_from_upsets(training, cut)
    half_width = 0.0 if found is not None else None if parting else _confidence(training, apart, cut)
    begin = int(training.update_ns[cut - 1]) if cut else 0
    return SteadyState(found, cut, begin, settled and not parting, usage, apart, half_width)


def _parting(training: Training, cycle: Cycle | None) -> bool:
    """Whether some workers leave others behind until a bound on their clocks will hold them, which makes a run slower.

    So it is in a cycle in which they take unlike numbers of steps. Without a cycle the largest lead shows it: the lead
    has grown by more than a step in half of the run. The bound must hold nobody so far. Chance and single events may
    make such a lead, too.
    """
    if training.bound is None or training.upsets.chance or training.upsets.once_ns:
        return False
    updates = len(training.update_client)
    since = updates - (updates // 2 if cycle is None else cycle.updates)
    before, after = (
        np.bincount(part, minlength=len(training.clients))[training.is_worker]
        for part in (training.update_client[:since], training.update_client[since:])
    )
    lead = int(np.ptp(before + after))
    return bool(np.ptp(after)) if cycle is not None else np.ptp(before) + 1 < lead < training.bound


def _gaps(training: Training) -> tuple[Ints, int]:
    """Times from one update to the next, the first from 0, and a round's length: one update per counting client."""
    gaps = np.diff(training.update_ns, prepend=0)
    return ints(gaps), max(1, len(np.unique(training.update_client)))


def _first_upset(training: Training) -> int:
    """Updates before the first single event, such as a crash; all where there is none."""
    begins = [begin for begin, _ in training.upsets.once_ns]
    return int(np.searchsorted(training.update_ns, min(begins))) if begins else len(training.update_ns)


def _cut(training: Training, upset: int) -> tuple[int, bool]:
    """Updates of the warm-up, at most those before the first single event, and whether the run has settled."""
    gaps, cycle = _gaps(training)
    if not len(gaps):
        return 0, False
    least = _first_steps(training, 1)
    least = max(least, min(_first_steps(training, SETTLING), len(gaps) // 4))
    cut, settled = warm_up(gaps[:upset], cycle=cycle, least=least)
    return min(cut, upset), settled or upset < len(gaps)


def _whole_cycles(training: Training, found: Cycle) -> int:
    """Updates before the first repetition that begins after each worker has ended a step, but at most half of them."""
    late = max(0, min(_first_steps(training, 1), len(training.update_ns) // 2) - found.begin)
    begin = found.begin + -(-late // found.updates) * found.updates
    return begin if 2 * begin <= len(training.update_ns) else found.begin


def _first_steps(training: Training, steps: int) -> int:
    """Updates until each worker has ended so many steps, or all of its steps; at least one."""
    worker = training.is_worker[training.step_client]
    client, end = training.step_client[worker], training.step_end_ns[worker]  # rows come in order of their ends
    ends = [of[min(steps, len(of)) - 1] for of in (end[client == row] for row in np.unique(client))]
    return max(1, int(np.searchsorted(training.update_ns, max(ends), side="right"))) if ends else 1


def _apart_from_upsets(training: Training, cut: int) -> Ints | None:
    """The times between updates after the warm-up that no single event falls into; None: there was no such event."""
    ends = training.update_ns[cut:]
    begins = np.concatenate([training.update_ns[cut - 1 : cut] if cut else [0], ends[:-1]])
    upset = np.zeros(len(ends), np.bool_)
    for begin, end in training.upsets.once_ns:
        upset |= (begins < end) & (ends > begin)
    return ints((ends - begins)[~upset]) if upset.any() else None


def _confidence(training: Training, apart: Ints | None, cut: int) -> float | None:
    """Half of the 95 % interval of the rate, relative to it; None: there are too few updates, or pauses.

    Single events are left out of the spread: they say nothing of how the rest varies. Each moves the count of updates
    by one. Without chance a count is off by up to half a round, as the run may be cut anywhere in a longer pattern.
    """
    gaps, cycle = _gaps(training)
    steady = gaps[cut:] if apart is None else apart
    if not len(steady) or not steady.any():
        return None
    most = int(steady.sum()) // max(training.upsets.periods_ns, default=1)
    mean = batch_means(steady, cycle=cycle, most=most)
    if mean.half_width is None:
        return None
    once = sum(begin < training.end_ns for begin, _ in training.upsets.once_ns)
    unseen = once + (0 if training.upsets.chance else cycle / 2)
    return mean.half_width / mean.mean + unseen / len(steady)


def rate(update_ns: Ints, count: int, cut: int) -> float | None:
    """Updates per second of the first `count` without the first `cut`, or without half of them; None: no time passes.

    It compares runs with one whose warm-up is known.
    """
    count = min(count, len(update_ns))
    first = skipped(count, cut)
    begin = int(update_ns[first - 1]) if first else 0
    return per_s(count - first, int(update_ns[count - 1]) - begin) if count else None


def skipped(count: int, cut: int) -> int:
    """The number of updates that `rate` leaves out of so many."""
    return min(cut, count // 2)


def per_s(count: int, nanos: Nanos) -> float | None:
    """A number of events per second; None: no time passes."""
    return count * SECOND_NS / nanos if nanos else None
