"""Runs without chance that repeat themselves: from some update on, the same in the same order at the same distances.

    gaps   30  4  4  9 | 7  4  4  9 | 7  4  4  9 | 7  4  4  9          the cycle is 4 updates and 24 ns long

Then the rate is known exactly, by whole cycles. What is compared is all that a run tells of an update: when it came,
who made it, of what, and which steps ended before it, how long they were and how long they waited.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from simulator.training.training import Training
from simulator.units import Nanos


class Cycle(NamedTuple):
    """A pattern that repeats until the end of a run."""

    updates: int  # of one repetition
    ns: Nanos  # that it lasts
    begin: int  # update with which the first repetition begins


def cycle_of(training: Training) -> Cycle | None:
    """The cycle of a run; None where there is chance in it, where something comes once, or where none is seen.

    It is seen if it fills at least half of the updates, at least twice over. What pauses again and again must do so a
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

    By the failure function of Knuth, Morris and Pratt ("Fast pattern matching in strings", SIAM Journal on Computing
    6(2), 1977), of the pattern read from its end: the smallest period of its first n is n less the longest border.
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
    """[U] what is told of each update, relative to the one before."""
    moments = training.update_ns.tolist()
    ended: list[list[tuple[int, ...]]] = [[] for _ in moments]
    rows = np.searchsorted(training.update_ns, training.step_end_ns).tolist()
    columns = (training.step_client, training.step_start_ns, training.step_end_ns, training.step_waiting_ns)
    for row, *step in zip(rows, *(column.tolist() for column in columns), strict=True):
        if row < len(moments):
            client, start, end, waiting = step
            ended[row].append((client, moments[row] - end, end - start, waiting))
    gaps = np.diff(training.update_ns, prepend=0).tolist()
    told = (training.update_client, training.update_staleness, training.update_gradients, training.update_examples)
    facts = zip(gaps, *(column.tolist() for column in told), strict=True)
    return [(*fact, *steps) for fact, steps in zip(facts, ended, strict=True)]
