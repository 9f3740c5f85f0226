"""The look ahead: never above what the simulation takes, and what it refuses the simulation would refuse."""

from __future__ import annotations

from itertools import pairwise
from math import log

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.problem import Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.ahead import add_up_bytes, ahead_of, look_ahead
from placement.search.decisions import decisions_of
from placement.search.walk import _COLD, _COOLING, _HOT, _SHARE_BITS
from simulator.columns import ids, ints
from simulator.execution.arrays import CODES, GIVEN_UP, INSTANTS
from simulator.execution.choosing import load
from simulator.execution.flattening import workspace
from tests.execution.cases import attrs_of
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks
from tests.placement.search.test_search import problems
from tests.strategies import INT32, Rows, shapes_attr, type_attr

LATER = 2**60


@settings(deadline=None, max_examples=25)
@given(problems(), st.data())
def test_no_step_is_faster_than_the_look_ahead_says(problem: Problem, data: st.DataObject) -> None:
    """Also: with what it found, a simulation gives up exactly where the step ends past the limit."""
    if not all(problem.allowed):
        return
    made = decisions_of(problem, upward_ranks(problem), 0)
    chosen = [data.draw(st.sampled_from(allowed)) for allowed in problem.allowed]
    device, ahead = ids(made.spread(chosen)), ahead_of(made)
    order = CODES["fifo" if problem.options.order == "auto" else problem.options.order]

    def ends(tail: np.ndarray[tuple[int], np.dtype[np.int64]], limit: int) -> int:
        found = np.zeros(1, np.int64)
        ranked = ids(np.arange(len(device)))[None]
        with workspace(problem.tables, problem.options.contention) as own:
            columns = ids(np.arange(len(device)))
            given = (device[None], columns, ids([0]), order, ranked, tail, limit, 0, found, np.zeros((0, 0), np.int64))
            own.run(load().play, *given)
        return int(found[0])

    took = ends(ints([]), LATER)
    if took < 0:
        return  # it has no route, or hangs
    least = min(limit for limit in range(took + 1) if look_ahead(ahead, device, limit, LATER))
    assert least <= took
    for limit in {least, (least + took) // 2, max(took - 1, least), took, took + 1}:
        assert look_ahead(ahead, device, limit, LATER)
        assert ends(ints(ahead.rest_ns), limit) == (took if took <= limit else GIVEN_UP)


@settings(deadline=None, max_examples=25)
@given(problems(), st.data())
def test_no_device_holds_more_than_the_look_ahead_says(problem: Problem, data: st.DataObject) -> None:
    if not all(problem.allowed):
        return
    made = decisions_of(problem, upward_ranks(problem), 0)
    device = ids(made.spread([data.draw(st.sampled_from(allowed)) for allowed in problem.allowed]))
    ahead, found, peaks = ahead_of(made), np.zeros(1, np.int64), np.zeros((1, len(problem.capacity)), np.int64)
    columns, nobody = ids(np.arange(len(device))), ids(np.zeros((0, len(device)), np.int32))
    with workspace(problem.tables, problem.options.contention, task=problem.handing) as own:
        given = (device[None], columns, ids([0]), CODES["fifo"], nobody, ints([]), LATER, INSTANTS, found, peaks)
        own.run(load().play, *given)
    if found[0] >= 0:
        add_up_bytes(ahead, device)
        assert (ahead.held_bytes >= peaks[0]).all()


def test_all_that_a_device_ever_holds_is_added_up() -> None:
    """Of a chain over two devices: values of 5, 7 and 9 bytes, one of which crosses, and a weight of 100."""
    names = ["a", "b", "c", "d"]
    edges: dict[tuple[str, str], int | None] = {("a", "b"): 5, ("b", "c"): 7, ("c", "d"): 9}
    on = cluster_of("gg")
    problem = problem_of(tasks(edges, names), on, costs_of(on, [(10, 10)] * 4, [0, 0, 0, 100]))
    made = decisions_of(problem, upward_ranks(problem), 0)
    ahead = ahead_of(made)
    add_up_bytes(ahead, ids([0, 0, 1, 1]))
    assert ahead.held_bytes.tolist() == [12, 116]


def test_a_busy_device_and_a_long_chain_are_seen() -> None:
    names = ["a", "b", "c", "x", "y", "z"]
    edges: dict[tuple[str, str], int | None] = dict.fromkeys(pairwise(names[:3]), 1)
    on = cluster_of("gg")
    problem = problem_of(tasks(edges, names), on, costs_of(on, [(10, 10)] * 6))
    made = decisions_of(problem, upward_ranks(problem), 0)
    ahead = ahead_of(made)
    for chosen, least in (([0] * 6, 60), ([0, 0, 0, 1, 1, 1], 30), ([0, 1, 0, 1, 1, 1], 40)):
        device = ids(made.spread([*chosen, *[0] * (len(problem.allowed) - 6)]))
        assert look_ahead(ahead, device, least, LATER)
        assert not look_ahead(ahead, device, least - 1, LATER)


def test_ops_wait_for_a_lane_in_the_order_in_which_they_start() -> None:
    """Behind y there is a longer chain than behind x, so the step is shorter where y goes first."""
    names = ["x", "y", "z"]
    on = cluster_of("gg", latency_ns=1)
    edges: dict[tuple[str, str], int | None] = {("y", "z"): 0}
    problem = problem_of(tasks(edges, names), on, costs_of(on, [(10, 10), (10, 10), (50, 50)]))
    made = decisions_of(problem, upward_ranks(problem), 0)
    ahead = ahead_of(made)
    device = ids(made.spread([0, 0, 1, *[0] * (len(problem.allowed) - 3)]))
    for latest_first, longest in (([2, 1, 0], 71), ([2, 0, 1], 61)):
        ahead.order[:] = [*latest_first, *ahead.order[ahead.order > 2]]
        assert look_ahead(ahead, device, 61, longest)
        assert not look_ahead(ahead, device, 61, longest - 1)


def test_a_value_in_host_memory_of_a_gpu_crosses_no_link() -> None:
    rows, on = Rows(), cluster_of("cg", latency_ns=1000)
    rows.add("x", "Const", **attrs_of("Const", 1, 100))
    rows.add("shape", "Shape", ["x"], T=type_attr(), out_type=type_attr(INT32), _output_shapes=shapes_attr((1,)))
    rows.add("same", "Identity", ["shape"], T=type_attr(INT32), _output_shapes=shapes_attr((1,)))
    problem = problem_of(rows.built(), on, costs_of(on, [(0, 0), (10, 10), (10, 10)]))
    made = decisions_of(problem, upward_ranks(problem), 0)
    device = ids(made.spread([0, 0, 1, *[0] * (len(problem.allowed) - 3)]))
    assert look_ahead(ahead_of(made), device, 10 + on.handover_ns + 10, LATER)


def test_no_temperature_depends_on_the_last_bit_of_a_logarithm() -> None:
    from placement.search.moves import ODD_BITS, ODDS

    exact = [-log((at + 0.5) / ODDS) * 2**ODD_BITS for at in range(ODDS)]
    exact += [_HOT * (_COLD / _HOT) ** (at / 64) * 2**_SHARE_BITS for at in range(len(_COOLING))]
    assert min(abs(one % 1 - 0.5) for one in exact) > 1e-5
