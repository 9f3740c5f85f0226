"""The event queue of the event loop, over arrays that are there already: a heap that keeps times and tasks apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution import event_queue

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.execution.arrays import State

    Events = tuple[Ints, Ids]


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


def sort(values: Ids | Ints, count: int) -> None:
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


# in the place of the functions over lists
OVER_ARRAYS = {
    event_queue.events_of: _events_of,
    event_queue.push: _push,
    event_queue.pop: _pop,
    event_queue.replace: _replace,
    event_queue.first: _first,
    event_queue.sort: sort,
}
