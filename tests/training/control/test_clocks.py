"""Clocks by hand: who waits for the slowest worker, and when it knows that it need not wait any longer."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.execution.cases import apart
from tests.training.reference_synchronisation import Clocks
from tests.training.workloads import chain, ran, spans

MESSAGE = 100  # ns on the way; the server takes one to send each


def test_bounded_clocks_hold_the_fast_worker_back() -> None:
    """Steps of 10 and 1000 ns, a bound of 1: from its third step on, the fast one waits for a message each time."""
    on = apart(2)
    workload = [chain(on, "fast", [(0, 10)], task=0), chain(on, "slow", [(1, 1000)], task=1)]
    run = ran(workload, on, steps=4, regime="ssp:bound=1")
    begins = [1000 * step + MESSAGE + 1 for step in (1, 2, 3)]
    assert spans(run, 0) == [(0, 10), (10, 20), *((begin, begin + 10) for begin in begins)]
    assert spans(run, 1) == [(0, 1000), (1000, 2000), (2000, 3000)]


def test_lockstep_is_a_bound_of_nothing() -> None:
    """The last one waits for a message, too: it does not know that it is the last."""
    on = apart(2)
    workload = [chain(on, "fast", [(0, 10)], task=0), chain(on, "slow", [(1, 1000)], task=1)]
    run = ran(workload, on, steps=2, regime="ssp:bound=0")
    assert spans(run, 0) == [(0, 10), (1000 + MESSAGE + 1, 1010 + MESSAGE + 1)]
    assert spans(run, 1) == [(0, 1000), (1000 + 2 * MESSAGE + 2, 2000 + 2 * MESSAGE + 2)]


def test_a_clock_is_known_when_its_last_message_is_there() -> None:
    """The first to end its step is far from the clocks: the last, which is beside them, still waits for its message."""
    on = apart(2)
    workload = [chain(on, "near", [(0, 1050)], task=0), chain(on, "far", [(1, 1000)], task=1)]
    run = ran(workload, on, steps=2, regime="ssp:bound=0")
    assert spans(run, 0) == [(0, 1050), (1000 + MESSAGE + 2, 2050 + MESSAGE + 2)]
    assert spans(run, 1) == [(0, 1000), (1000 + 2 * MESSAGE + 1, 2000 + 2 * MESSAGE + 1)]


@given(st.lists(st.integers(1, 900), min_size=2, max_size=4), st.integers(0, 4), st.integers(1, 8))
def test_no_worker_begins_further_ahead_than_the_bound(times: list[int], bound: int, steps: int) -> None:
    """A bound that nobody reaches changes nothing, but for what a worker waits to know of the slowest one."""
    on = apart(len(times))
    workers = [chain(on, f"worker:{k}", [(k, ns)], task=k) for k, ns in enumerate(times)]
    held, free, far = (
        ran(workers, on, steps=steps, regime=one) for one in (f"ssp:bound={bound}", "async", "ssp:bound=99")
    )
    ended = [[end for _, end in spans(held, k)] for k in range(len(times))]
    for _, number, begin in [
        *zip(held.step_client, held.step_number, held.step_start_ns, strict=True),
        *held.under_way,
    ]:
        slowest = min(sum(end <= begin for end in one) for one in ended)
        assert number - slowest <= bound
    for k, ns in enumerate(times):
        assert all(end - begin == ns for begin, end in spans(held, k))
        assert all(before <= after for (_, before), (after, _) in pairwise(spans(held, k)))
        assert spans(far, k) == spans(free, k)
    assert held.end_ns >= free.end_ns


def test_clocks_of_the_reference_let_all_go_that_a_tick_frees() -> None:
    clocks = Clocks([True, True, True], 0)
    assert [clocks.may(one) for one in range(3)] == [True] * 3
    assert clocks.tick(0) == []
    assert not clocks.may(0)
    assert clocks.tick(1) == []
    assert not clocks.may(1)
    assert clocks.tick(2) == [0, 1]
