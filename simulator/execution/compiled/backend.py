"""The event queue for the event loop over arrays: a heap that keeps times and tasks apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.backend import Backend
from simulator.execution.compiled.heaps import rise, sink, sort
from simulator.execution.compiled.kernel import inner

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.execution.arrays import State

    Events = tuple[Ints, Ids]


@inner
def _events(state: State) -> Events:
    return state.key, state.event


@inner
def _push(events: Events, size: int, when: int, task: int) -> int:
    return rise(events[0], events[1], size, when, task)


@inner
def _pop(events: Events, size: int) -> int:
    size -= 1
    sink(events[0], events[1], size, events[0][size], events[1][size])
    return size


@inner
def _replace(events: Events, size: int, when: int, task: int) -> None:
    sink(events[0], events[1], size, when, task)


@inner
def _first(events: Events) -> tuple[int, int]:
    return events[0][0], np.int64(events[1][0])


ARRAYS = Backend(inner, np.int64, _events, _push, _pop, _replace, _first, sort)
