"""The event loop with the controller of a training, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import int64, types, void

from simulator.columns import ints
from simulator.execution.arrays import Flows, SharedLinks, State, Tasks, Threads
from simulator.execution.caching import TRAINING
from simulator.execution.compiled.addressing import Addressed, tuple_of
from simulator.execution.compiled.backend import ARRAYS
from simulator.execution.compiled.kernel import inner, made
from simulator.execution.event_loop import event_loop
from simulator.training.control.arrays import WRITTEN, Control, Rules
from simulator.training.control.controller import controller_of
from simulator.training.control.durations import durations_of
from simulator.training.disturbances.noise import scaled, splitmix64
from simulator.training.disturbances.pauses import stretched

if TYPE_CHECKING:
    from simulator.columns import Ints

LATEST = 2**61  # a time above this is left to the plain loop
_splitmix64 = inner(splitmix64)


@inner
def _entry(seed: int, task: int, client: int, step: int) -> int:
    """`noise.entry`, of unsigned numbers."""
    drawn = _splitmix64(_splitmix64(np.uint64(seed)) ^ np.uint64(task))
    place: int = np.int64(_splitmix64(_splitmix64(drawn ^ np.uint64(client)) ^ np.uint64(step)) >> np.uint64(48))
    return place


_loop = event_loop(ARRAYS, controller_of(ARRAYS, durations_of(ARRAYS, _entry, inner(scaled), inner(stretched))))


def _go_on(
    tasks: Tasks,
    state: State,
    threads: Threads,
    flows: Flows,
    shared: SharedLinks,
    control: Control,
    order: int,
    tail: Ints,
    why: Ints,
) -> None:
    """Go on with the run without Python's lock; `why` [1]: the reason for which it stopped."""
    why[0] = _loop(tasks, state, threads, flows, shared, order, len(tasks.length), tail, LATEST, False, control)


def _signature() -> object:
    """The one type of `play`."""
    parts = [tuple_of(kind, readonly=False) for kind in (Tasks, State, Threads, Flows, SharedLinks)]
    control = [tuple_of(Rules, readonly=True), *(tuple_of(kind, readonly=False) for kind in WRITTEN)]
    tail = types.Array(int64, 1, "C", readonly=True)
    return void(*parts, Addressed(control, Control), int64, tail, int64[::1])


play, kept = made(_go_on, _signature(), TRAINING)


def go_on(run: Any, order: int) -> int:  # Any: `run.Run`, whose module imports this one
    """Go on with a run, all arrays of which are writable; the reason for which it stopped."""
    why = np.zeros(1, np.int64)
    play(*run, order, ints([]), why)
    return int(why[0])
