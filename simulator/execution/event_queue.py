"""The event queue of the event loop. An event is a time and a task; ties are in no order.

Its functions are there twice: over lists, and over arrays (`OVER_ARRAYS`), a heap that keeps times and tasks apart.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.execution.arrays import State

    Events = tuple[Ints, Ids]


def events_of(state: Any) -> Any:  # Any: the times of a State are the queue itself here
    """The event queue, empty."""
    return state.key


def push(events: list[tuple[int, int]], size: int, when: int, task: int) -> int:
    """Add an event; the new size."""
    heappush(events, (when, task))
    return size + 1


def pop(events: list[tuple[int, int]], size: int) -> int:
    """Drop the first event; the new size."""
    heappop(events)
    return size - 1


def replace(events: list[tuple[int, int]], size: int, when: int, task: int) -> None:
    """Drop the first event and add this one."""
    heapreplace(events, (when, task))


def first(events: list[tuple[int, int]]) -> tuple[int, int]:
    """Time and task of the first event."""
    return events[0]


def sort(values: Any, count: int) -> None:  # Any: a list in the place of an array
    """Sort the first values, ascending."""
    values[:count] = sorted(values[:count])


def _events_of(state: State) -> Events:
    return state.key, state.event


def _push(events: Events, size: int, when: int, task: int) -> int:
    return _rise(events[0], events[1], size, when, task)


def _pop(events: Events, size: int) -> int:
    size -= 1
    _sink(events[0], events[1], size, events[0][size], events[1][size])
    return size


def _replace(events: Events, size: int, when: int, task: int) -> None:
    _sink(events[0], events[1], size, when, task)


def _first(events: Events) -> tuple[int, int]:
    return events[0][0], events[1][0]


def _sort(values: Ids | Ints, count: int) -> None:
    """Sort the first values: by insertion, as they are few or nearly in order; by heap where that takes long."""
    budget = 16 * count
    for i in range(1, count):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
        budget -= i - j
        if budget < 0:
            break
    if budget >= 0:
        return
    for turn in range(2 * count - 1):  # first build the heap, from the last parent up; then take the largest, in turn
        size = min(count, 2 * count - 1 - turn)
        root = max(count - 1 - turn, 0)
        value = values[root]
        if turn >= count:
            value = values[size]
            values[size] = values[0]
        child = 2 * root + 1
        while child < size:
            if child + 1 < size and values[child + 1] > values[child]:
                child += 1
            if values[child] <= value:
                break
            values[root] = values[child]
            root = child
            child = 2 * root + 1
        values[root] = value


def _rise(key: Ints, task: Ids, size: int, when: int, what: int) -> int:
    """Add an entry to a heap by key; its new size."""
    hole = size
    while hole > 0:
        above = (hole - 1) >> 1
        if key[above] <= when:
            break
        key[hole], task[hole] = key[above], task[above]
        hole = above
    key[hole], task[hole] = when, what
    return size + 1


def _sink(key: Ints, task: Ids, size: int, when: int, what: int) -> None:
    """Put an entry in the place of the first."""
    hole, child = 0, 1
    while child < size:
        child = child + (child + 1 < size and key[child + 1] < key[child])
        if key[child] >= when:
            break
        key[hole], task[hole] = key[child], task[child]
        hole = child
        child = 2 * hole + 1
    key[hole], task[hole] = when, what


# in the place of those over lists where the loop is compiled
OVER_ARRAYS = {
    events_of: _events_of,
    push: _push,
    pop: _pop,
    replace: _replace,
    first: _first,
    sort: _sort,
}
