"""How long work takes that begins now, as `lengths` has it, by the same functions of noise and pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.kernel import inner
from simulator.training.compiled.arrays import SEED
from simulator.training.compiled.owners import owner_of
from simulator.training.disturbances.noise import QUANTILES, scaled, splitmix64
from simulator.training.disturbances.pauses import stretched

if TYPE_CHECKING:
    from simulator.execution.flat import Flat, Work
    from simulator.training.compiled.arrays import Team

_splitmix64, _scaled, _stretched = inner(splitmix64), inner(scaled), inner(stretched)


@inner
def _entry(seed: int, task: int, client: int, step: int) -> int:
    """`noise.entry`, of unsigned numbers."""
    drawn = _splitmix64(_splitmix64(np.uint64(seed)) ^ np.uint64(task))
    place: int = np.int64(_splitmix64(_splitmix64(drawn ^ np.uint64(client)) ^ np.uint64(step)) >> np.uint64(48))
    return place


@inner
def lasting(crew: Team, task: int, who: int, number: int, taken: int, now: int) -> int:
    """How long work on a task lasts that begins now and usually takes that long, of a client's step or an item."""
    rules = crew.rules
    meets = rules.meets
    if meets.noise_of[task] >= 0:
        drawn = _entry(rules.numbers[SEED], task, who, number)
        taken = _scaled(taken, meets.noise[meets.noise_of[task] * QUANTILES + drawn])
    if meets.length_ns[task] > 0:
        taken = _stretched(now, taken, meets.phase_ns[task], meets.period_ns[task], meets.length_ns[task]) - now
    return taken


@inner
def length_of(crew: Team, flat: Flat, work: Work, job: int, here: int, now: int) -> int:
    """The time of a job that begins now."""
    rules, _, steps, sums, _ = crew
    taken: int = work.found.took_ns[job]
    if len(sums.took_ns) == 0:
        return taken
    client = owner_of(rules.clients, flat, work, job)
    taken = lasting(crew, rules.task_of[here], client, steps.number[client], taken, now)
    sums.took_ns[job] = taken
    return taken
