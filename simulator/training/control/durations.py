"""Durations of work that begins now: its usual time, longer or shorter by the step's noise, stretched by pauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simulator.execution.backend import Backend
from simulator.training.control.arrays import SEED
from simulator.training.disturbances.noise import QUANTILES

if TYPE_CHECKING:
    from simulator.training.control.arrays import Control


def durations_of(
    backend: Backend,
    entry: Callable[[int, int, int, int], int],
    scaled: Callable[[int, int], int],
    stretched: Callable[[int, int, int, int, int], int],
) -> Callable[..., int]:
    """The function over what that backend runs on, given those of noise and pauses."""

    @backend.inner
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

    return lasting  # type: ignore[no-any-return]  # whatever compiles it
