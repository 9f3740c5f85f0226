"""Python's event queue for the event loop; `compiled.backend` has the same functions over arrays.

The loop is written once and is handed these functions, so that it runs over lists as it stands and over arrays when it
is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from typing import Any, NamedTuple, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])  # Any: of every backend its own


class Backend(NamedTuple):
    """The functions that differ between lists and arrays. An event is a time and a task; ties are in no order."""

    inner: Callable[[Any], Any]  # compiles a function into its caller, or leaves it as it is
    whole: Callable[[int], int]  # a number of the one type that compiled functions take, which spares a second version
    events: Callable[..., Any]  # (state): its event queue, empty
    push: Callable[..., int]  # (events, size, when, task): the new size
    pop: Callable[..., int]  # (events, size): the new size; the first event is dropped
    replace: Callable[..., None]  # (events, size, when, task): the first event is dropped, this one is added
    first: Callable[..., tuple[int, int]]  # (events): time and task of the first event
    sort: Callable[..., None]  # (values, count): the first values, ascending


def _same(function: _F) -> _F:
    return function


def _events(state: Any) -> Any:  # Any: the times of a State are the queue itself here
    return state.key


def _push(events: list[tuple[int, int]], size: int, when: int, task: int) -> int:
    heappush(events, (when, task))
    return size + 1


def _pop(events: list[tuple[int, int]], size: int) -> int:
    heappop(events)
    return size - 1


def _replace(events: list[tuple[int, int]], size: int, when: int, task: int) -> None:
    heapreplace(events, (when, task))


def _first(events: list[tuple[int, int]]) -> tuple[int, int]:
    return events[0]


def _sort(values: list[int], count: int) -> None:
    values[:count] = sorted(values[:count])


PYTHON = Backend(_same, int, _events, _push, _pop, _replace, _first, _sort)
