"""Durations of work that begins now: its usual time, longer or shorter by the step's noise, stretched by pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.training.control.arrays import SEED
from simulator.training.disturbances.noise import QUANTILES, entry, scaled
from simulator.training.disturbances.pauses import stretched

if TYPE_CHECKING:
    from simulator.training.control.arrays import Control


def lasting(control: Control, task: int, who: int, number: int, taken: int, now: int) -> int:
    """The duration of work on a task of the cluster that begins now, of a client's step or of an item."""
    disturbances = control.rules.disturbances
    if disturbances.noise_of[task] >= 0:
        drawn = entry(control.rules.numbers[SEED], task, who, number)
        taken = scaled(taken, disturbances.noise[disturbances.noise_of[task] * QUANTILES + drawn])
    if disturbances.length_ns[task] > 0:
        taken = (
            stretched(
                now, taken, disturbances.phase_ns[task], disturbances.period_ns[task], disturbances.length_ns[task]
            )
            - now
        )
    return taken
