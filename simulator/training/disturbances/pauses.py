"""Pauses of a task, and the end of work that only goes on between them. `stretched` is compiled as well."""

from __future__ import annotations

from typing import NamedTuple

from simulator.units import Nanos


class Pauses(NamedTuple):
    """A task stands still for `length_ns`, from `phase_ns` on, and again after every period.

    The length is above 0 and, where there is a period, below it.
    """

    phase_ns: Nanos  # since the start of the run
    period_ns: Nanos  # from the start of a pause to that of the next; 0: it stands still once
    length_ns: Nanos


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
