"""The event loop with the controller of a training, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.columns import ints
from simulator.execution.arrays import TIMES, Flows, SharedLinks, State, Tasks, Threads
from simulator.execution.choosing import TRAINING
from simulator.execution.compiled.kernel import Parameter, made
from simulator.execution.compiled.translation import INT, Array, Table
from simulator.execution.event_loop import event_loop
from simulator.training.control.arrays import LATEST, RECORDED, WRITTEN, Control
from simulator.training.control.controller import HOOKS
from simulator.training.disturbances.noise import entry, splitmix64

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.columns import Ints


def _entry(seed: int, task: int, client: int, step: int) -> int:
    """`noise.entry`, of unsigned numbers."""
    drawn = splitmix64(splitmix64(np.uint64(seed)) ^ np.uint64(task))
    place: int = np.int64(splitmix64(splitmix64(drawn ^ np.uint64(client)) ^ np.uint64(step)) >> np.uint64(48))
    return place


_loop = event_loop(HOOKS)


def _go_on(
    tasks: Tasks,
    state: State,
    threads: Threads,
    flows: Flows,
    shared: SharedLinks,
    control: Control,
    order: int,
    rest_ns: Ints,
    why: Ints,
) -> None:
    """Go on with the run without Python's lock; `why` [1]: the reason for which it stopped."""
    notes = TIMES if control.rules.numbers[RECORDED] > 0 else 0
    why[0] = _loop(tasks, state, threads, flows, shared, order, len(tasks.length), rest_ns, LATEST, notes, control)


_LOOPS = [Parameter(Table(kind), (kind,)) for kind in (Tasks, State, Threads, Flows, SharedLinks)]
_COLUMN, _WHY = Parameter(Array("int64", 1)), Parameter(Array("int64", 1), (Array,))
play = made(
    _go_on,
    [*_LOOPS, Parameter(Table(Control), WRITTEN), Parameter(INT), _COLUMN, _WHY],
    TRAINING,
    instead={entry: _entry},
)


def going_on(run: Any, order: int) -> Callable[[], int]:  # Any: a `layout.LoopArrays`
    """A function that goes on with a run, all arrays of which are writable; it returns the reason why it stopped.

    A run stops once for each recorded step and each sample; to look up all its arrays takes longer than to go on.
    """
    why = np.zeros(1, np.int64)
    go = play.partial(*run, order, ints([]), why)

    def go_on() -> int:
        go()
        return int(why[0])

    return go_on
