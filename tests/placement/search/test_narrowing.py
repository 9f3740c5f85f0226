"""A search on some tasks alone: it decides what it would decide in a cluster of these tasks, and stays there."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import placement.algorithms.search as searching
from placement.effort import Effort
from placement.problem import Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.decisions import Decisions, decisions_of
from placement.search.judge import Judge
from placement.search.minimum_cut import besides
from placement.search.narrowing import SearchTasks, permitted
from placement.search.order_cuts import ground
from placement.search.reach import narrowed, within_reach, working
from placement.search.starting import started
from placement.search.starts import layers, packs
from placement.search.walk import CycleKind, Progress, Walker
from placement.search.walks import side_by_side
from simulator import load_cluster
from simulator.execution.choosing import load
from simulator.execution.flattening import workspace
from tests.placement.problems import costs_of, problem_of, tasks
from tests.placement.search.test_search import problems


def drawn(described: str, seed: int, count: int = 60) -> Problem:
    """Ops that read some of the twelve before them; one of seven is large, and all others are quicker on a CPU."""
    chance, on = np.random.default_rng(seed), load_cluster(described)
    edges: dict[tuple[str, str], int | None] = {}
    for op in range(1, count):
        for source in set(chance.integers(max(0, op - 12), op, 2).tolist()):
            edges[f"n{source}", f"n{op}"] = int(chance.choice([4, 400, 40_000]))
    large, small_ns = chance.random(count) < 1 / 7, chance.integers(3000, 6000, count)
    times = {"cpu": np.where(large, 400_000, small_ns), "a100": np.where(large, 30_000, 8000)}
    run = [[int(times[kind][op]) for kind in on.kinds] for op in range(count)]
    return problem_of(tasks(edges, [f"n{op}" for op in range(count)]), on, costs_of(on, run))


def decided(problem: Problem) -> Decisions:
    return decisions_of(problem, upward_ranks(problem), 0)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.sampled_from(["1x1gpu", "1x3gpu"]))
def test_on_one_task_all_is_decided_as_in_a_cluster_of_that_task(seed: int, one: str) -> None:
    """But for ranks, which are the means of all devices. Beside a single GPU its CPU works, too."""
    (alone,) = SearchTasks(decided(drawn(f"worker=2{one[1:]}", seed))).alone()
    small = drawn(f"worker={one}", seed)
    own = decisions_of(small, alone.ranks, 0)
    devices = len(small.capacity)
    assert working(alone.problem) == working(small)
    assert (alone.allowed[:, :devices] == own.allowed).all()
    assert not alone.allowed[:, devices:].any()
    for name in ("free", "wire_ns", "work_ns", "pair", "pair_ns", "orders"):
        assert np.array_equal(getattr(alone, name), getattr(own, name)), name
    first = [0] * len(small.ops)
    for (ours, device), (theirs, other) in zip(besides(alone, first), besides(own, first), strict=True):
        assert np.array_equal(device, other)
        assert np.array_equal(ours.work_ns, theirs.work_ns)
    for source in (layers, packs):
        assert np.array_equal([*source(alone, ground(alone, first))], [*source(own, ground(own, first))])


def test_one_task_of_each_sort_is_tried_where_several_do_the_work() -> None:
    def alone(described: str) -> list[list[str]]:
        found = SearchTasks(decided(drawn(described, 0))).alone()
        return [[one.problem.cluster.devices[at].short for at in within_reach(one.problem)] for one in found]

    assert alone("4gpu") == alone("ps=2,worker=1x2gpu") == []
    assert alone("ps=1,worker=2x1gpu") == [["worker:0/CPU:0", "worker:0/GPU:0"]]
    assert alone("worker=3") == []  # a single device leaves nothing to decide


@settings(deadline=None, max_examples=20)
@given(problems(), st.data())
def test_a_group_that_may_use_none_of_some_devices_keeps_the_first_of_its_own(
    problem: Problem, data: st.DataObject
) -> None:
    some = data.draw(st.sets(st.integers(0, len(problem.capacity) - 1), min_size=1))
    fewer = narrowed(problem, some)
    for before, after in zip(problem.allowed, fewer.allowed, strict=True):
        assert after == (tuple(device for device in before if device in some) or before[:1])
    if all(problem.allowed):
        there = permitted(decided(fewer), [allowed[-1] for allowed in problem.allowed])
        assert all(device in allowed for device, allowed in zip(there.tolist(), fewer.allowed, strict=True))


def test_a_walk_on_some_tasks_stays_there_until_it_finds_nothing_more() -> None:
    problem = drawn("worker=3x2gpu", 0)
    whole = decided(problem)
    over = SearchTasks(whole)
    with workspace(problem.tables, problem.options.contention, task=problem.handing) as own:
        judge = Judge(whole, own, load().play, Effort(judged=10**6))
        every = judge.judge("all", np.arange(len(problem.ops)) % len(problem.capacity))
        start = judge.judge("one device", [1] * len(problem.ops))
        assert start.ns < every.ns
        assert over.best_of_some([every, start]) == [start]
        assert over.best_of_some([every]) == []
        first, narrow = over.walk_starts([start, every], [start])
        assert (first.decisions, first.starts, narrow.starts) == (whole, [start, every], [start])
        walker = Walker(judge, narrow.decisions, 0)
        found = walker.cycle(start, 3000, CycleKind(100), Progress())
        assert over.used(found) == over.used(start)
        assert len(set(found.device.tolist())) > 1
        wide = walker.widened()
        assert wide.decisions is whole
        assert wide.widened() is wide
        assert over.walk_starts([start], [replace(start, over=1)]) == [first._replace(starts=[start])]


def test_a_search_on_two_hosts_has_starts_on_one_and_a_walk_that_stays_there() -> None:
    problem = replace(drawn("worker=2x1gpu", 4), effort=Effort(judged=800))
    with (
        patch.object(searching, "started", side_effect=started) as starting,
        patch.object(searching, "side_by_side", side_effect=side_by_side) as walking,
    ):
        assert searching.search(problem).search is not None
    (alone,) = starting.call_args.args[3]
    assert within_reach(alone.problem) == [0, 1]
    whole, narrow = walking.call_args.args[1]
    assert within_reach(whole.decisions.problem) == [0, 1, 2, 3]
    assert narrow.decisions is alone
    assert all(narrow.starts[0].device[alone.free] < 2)
