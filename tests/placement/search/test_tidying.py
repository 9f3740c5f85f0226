"""Fewer transfers for the same makespan: never worse, and what lies off the critical path by chance goes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.effort import Effort
from placement.problem import NEVER, Problem
from placement.scheduling.ranks import upward_ranks
from placement.search import tidying
from placement.search.decisions import decisions_of
from placement.search.judge import Candidate, Judge
from placement.search.tidying import ValueEdges, tidied, values_of
from simulator.execution.choosing import load
from simulator.execution.flattening import workspace
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks
from tests.placement.search.test_search import problems


@contextmanager
def judging(problem: Problem) -> Iterator[Judge]:
    made = decisions_of(problem, upward_ranks(problem), 0)
    with workspace(problem.tables, problem.options.contention) as own:
        judge = Judge(made, own, load().play, Effort(judged=1000))
        judge.judged = 1000  # so that fifty remain
        yield judge


@settings(deadline=None, max_examples=25)
@given(problems(), st.data())
def test_nothing_gets_worse_and_less_moves(problem: Problem, data: st.DataObject) -> None:
    if not all(problem.allowed):
        return
    chosen = [data.draw(st.sampled_from(allowed)) for allowed in problem.allowed]
    with judging(problem) as judge:
        if not len(judge.decisions.free):
            return
        before = judge.judge("drawn", chosen)
        after = tidied(judge, before)
        values = values_of(judge.decisions)
        again = judge.judge("again", after.device, after.ops)
    assert after.rank == again.rank <= before.rank
    assert all(device in allowed for device, allowed in zip(after.device, problem.allowed, strict=True))
    moved, left = (values.moved_ns(judge.decisions.spread(one.device)) for one in (before, after))
    assert left < moved or (left == moved and used(after) < used(before)) or after is before
    if before.ns >= NEVER:
        assert after is before


def used(one: Candidate) -> int:
    return len(set(one.device.tolist()))


def test_a_device_that_hardly_works_hands_on_what_it_has() -> None:
    """Two long ops share two devices. A short one on a third waits for neither, and nothing reads it."""
    cluster = cluster_of("ggg")
    problem = problem_of(
        tasks({("a", "end"): 0, ("b", "end"): 0}, ["a", "b", "end", "short"]),
        cluster,
        costs_of(cluster, [[1000] * 3, [900] * 3, [1] * 3, [10] * 3]),
    )
    with judging(problem) as judge:
        names = [problem.graph.names[int(node)] for node in problem.tables.node]
        chosen = [0] * len(problem.allowed)
        for name, device in (("b", 1), ("short", 2)):
            chosen[int(judge.decisions.group[names.index(name)])] = device
        before = judge.judge("by hand", chosen)
        after = tidied(judge, before)
    assert after.ns <= before.ns
    assert used(after) == 2


def test_ops_off_the_critical_path_go_back_to_their_neighbours() -> None:
    """A long op decides; a chain beside it was scattered. One op at a time could not put the chain together again."""
    chain = {(f"c{at}", f"c{at + 1}"): 10 for at in range(6)}
    cluster = cluster_of("ccc")
    problem = problem_of(
        tasks({**chain, ("c6", "end"): 10, ("long", "end"): 10}), cluster, costs_of(cluster, [[5] * 3] * 9)
    )
    with judging(problem) as judge:
        names = [problem.graph.names[int(node)] for node in problem.tables.node]
        long_ = names.index("long")
        tables = problem.tables
        chosen = [0] * len(problem.allowed)
        for op, name in enumerate(names):
            chosen[int(judge.decisions.group[op])] = 2 if name == "long" else int(name == "c3")
        before = judge.judge("by hand", chosen)
        after = tidied(judge, before)
        assert after.ns <= before.ns
        assert (
            len(set(after.device[judge.decisions.group[[op for op in range(len(tables)) if op != long_]]].tolist()))
            == 1
        )


def test_a_tensor_counts_once_for_each_device() -> None:
    """Two readers on one device and one on another: two transfers of 7 ns, and one of 3 ns."""
    values = ValueEdges(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 1]), np.array([1, 2, 3, 3]), np.array([7, 7, 7, 3]))
    assert values.moved_ns(np.array([0, 1, 1, 2])) == 17
    assert values.moved_ns(np.array([0, 0, 0, 0])) == 0


@settings(deadline=None, max_examples=35)
@given(st.data())
def test_a_table_adds_up_what_a_sort_does(data: st.DataObject) -> None:
    tensors, ops, devices = (data.draw(st.integers(1, most)) for most in (5, 6, 4))
    edges = data.draw(st.lists(st.tuples(*(st.integers(0, most - 1) for most in (tensors, ops, ops))), max_size=12))
    wire_ns = np.array(data.draw(st.lists(st.integers(0, 9), min_size=tensors, max_size=tensors)), np.int64)
    tensor, source, target = np.array(edges, np.int64).reshape(-1, 3).T
    values = ValueEdges(tensor, source, target, wire_ns[tensor])
    where = np.array(data.draw(st.lists(st.integers(0, devices - 1), min_size=ops, max_size=ops)), np.int64)
    found = set[int]()
    for dense in (0, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tidying, "_DENSE", dense)
            found.add(values.moved_ns(where))
    sent = {(a, where[c]) for a, b, c in edges if where[b] != where[c]}
    assert found == {sum(int(wire_ns[a]) for a, _ in sent)}


def test_looks_that_lead_to_no_judgement_end_too() -> None:
    """In a large step each look takes as long as a simulation."""
    assert ValueEdges(*(np.zeros(200_000, np.int64) for _ in range(4))).looks == 40
    cluster = cluster_of("cc")
    problem = problem_of(tasks({("a", "b"): 10, ("a", "end"): 10}), cluster, costs_of(cluster, [[5] * 2] * 3))
    with judging(problem) as judge, pytest.MonkeyPatch.context() as patch:
        before = judge.judge("by hand", [0, 1, 0])
        patch.setattr(tidying, "_LOOKED", 0)
        assert tidied(judge, before) is before
        patch.undo()
        assert used(tidied(judge, before)) == 1
