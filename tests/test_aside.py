"""Work aside: its result comes when it is asked for, under the limits of the caller, and so does its error."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, get_ident

import pytest

from simulator import limits
from simulator.aside import ahead, aside
from simulator.errors import SimvizError


def test_work_aside_is_in_another_thread_under_the_same_limits() -> None:
    with limits.raised({"nodes": 7}):
        begun = aside(lambda: (get_ident(), limits.NODES.most))
    assert begun() == begun()
    assert begun()[0] != get_ident()
    assert begun()[1] == 7


def test_an_error_aside_is_raised_where_the_result_is_asked_for() -> None:
    def fail() -> None:
        raise SimvizError("no")

    begun = aside(fail)
    with pytest.raises(SimvizError, match="no"):
        begun()


def test_each_item_is_made_ahead_of_its_use_and_in_order() -> None:
    begun = [Event() for _ in range(3)]

    def items() -> Iterator[tuple[int, int, int]]:
        for at, event in enumerate(begun):
            event.set()
            yield at, get_ident(), limits.NODES.most

    with limits.raised({"nodes": 7}):
        found = ahead(items())
        assert not begun[0].is_set()
        assert next(found)[0] == 0
        assert begun[1].wait(10)
        rest = list(found)
    assert [at for at, _, _ in rest] == [1, 2]
    assert all(thread != get_ident() and most == 7 for _, thread, most in rest)


def test_an_error_ahead_is_raised_where_the_item_is_asked_for() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise SimvizError("no")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(SimvizError, match="no"):
        next(found)
