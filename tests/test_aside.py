"""Work aside: its result comes when it is asked for, under the limits of the caller, and so does its error."""

from __future__ import annotations

from threading import get_ident

import pytest

from simulator import limits
from simulator.aside import aside
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
