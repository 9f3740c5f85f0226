"""The event queue of the event loop, over lists. An event is a time and a task; ties are in no order.

`compiled.event_queue` has the same functions over arrays. They stand in the place of these where the loop is compiled.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import Any


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
