"""Cuts of an order: the least that crosses among all cuts of that balance, found by trying them all."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.effort import Effort
from placement.scheduling.ranks import upward_ranks
from placement.search.decisions import decisions_of
from placement.search.judge import Judge
from placement.search.order_cuts import best_cut, ground, speeds_of, subsets, teams
from placement.search.starting import started
from placement.search.starts import cuts
from simulator import estimate, load_cluster
from simulator.columns import ints
from simulator.execution.choosing import load
from simulator.execution.flattening import workspace
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks


@settings(deadline=None)
@given(st.data())
def test_no_cut_of_that_balance_lets_less_cross(data: st.DataObject) -> None:
    count, k = data.draw(st.integers(2, 9)), data.draw(st.integers(2, 4))
    numbers = st.integers(0, 9)
    crossing = np.array([data.draw(numbers) for _ in range(count - 1)], float)
    weight = np.array([data.draw(st.integers(1, 9)) for _ in range(count)], float)
    slack = data.draw(st.sampled_from([0.02, 0.3, 0.8]))
    most = max(weight.sum() * (1 + slack) / k, weight.max())
    cost = np.concatenate([[0.0], crossing, [0.0]])

    def taken(bounds: tuple[int, ...]) -> float:
        ends = [0, *bounds, count]
        heavy = any(weight[a:b].sum() > most * (1 + 1e-9) for a, b in pairwise(ends))
        return float("inf") if heavy else float(sum(cost[at] for at in set(bounds)))

    best = min(taken(bounds) for bounds in combinations_with_replacement(range(count + 1), k - 1))
    found = tuple(best_cut(crossing, weight, np.ones(k), slack).tolist())
    if best < float("inf"):
        assert taken(found) < float("inf")
        assert sum(cost[at] for at in found) >= best
        assert len(set(found)) < k - 1 or taken(found) == best


def test_a_chain_is_cut_where_it_is_thin() -> None:
    names = [f"n{at}" for at in range(8)]
    sizes = [100, 100, 100, 1, 100, 100, 100]
    edges: dict[tuple[str, str], int | None] = dict(zip(pairwise(names), sizes, strict=True))
    on = cluster_of("gg")
    problem = problem_of(tasks(edges, names), on, costs_of(on, [(10, 10)] * 8))
    made = decisions_of(problem, ints([80 - 10 * at for at in range(8)]), 0)
    first = next(cuts(made, ground(made, [0] * 8), tight=False))
    assert first.tolist() in ([0] * 4 + [1] * 4, [1] * 4 + [0] * 4)


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=20, max_size=60), st.integers(2, 4))
def test_a_stretch_is_in_proportion_to_the_speed_of_its_device(weight: list[int], fast: int) -> None:
    speeds = np.array([1.0, fast])
    bounds = best_cut(np.zeros(len(weight) - 1), np.array(weight, float), speeds, 0.3)
    most = np.maximum(1.3 * sum(weight) * speeds / speeds.sum(), max(weight)) * (1 + 1e-6)
    assert sum(weight[: bounds[0]]) <= most[0]
    assert sum(weight[bounds[0] :]) <= most[1]


def test_of_unequal_devices_the_fastest_are_taken_first() -> None:
    speeds = np.array([0.1, 0.5, 1.0, 0.5, 1.0])
    assert teams([1, 2, 3, 4], speeds) == [[1, 2, 3, 4], [1, 2, 4], [2, 4]]
    on = cluster_of("gggg")
    problem = problem_of(tasks({("a", "b"): 1}), on, costs_of(on, [[9, 9, 3, 3]] * 2))
    speeds = speeds_of(decisions_of(problem, ints([0, 0]), 0))
    assert (speeds[:2] < speeds[2:]).all()
    assert speeds.max() == 1


def test_list_schedules_come_on_a_single_task_before_some_gpus_of_all() -> None:
    """The task of the fastest GPUs comes first, so that it is judged where few lists are."""
    graph, on = tasks({("a", "b"): 1}), load_cluster("worker=2x1v100,worker=1x2a100")
    speeds = np.where([device.kind == "a100" for device in on.devices], 1.0, 0.5)
    found = subsets(problem_of(graph, on, estimate(graph, on)), speeds)
    assert found[0] == tuple(range(len(on.devices)))
    assert [{on.task_of[device] for device in some} for some in found[1:3]] == [{2}, {0}]


def test_large_steps_have_sixty_starts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop counts once per iteration, so its step is large, and twelve starts were used up by the first cuts."""
    monkeypatch.setattr("placement.search.starting._STARTS", 0)
    on = cluster_of("cgggg")
    graph = tasks({(f"a{at}", f"a{at + 1}"): 1000 for at in range(40)} | {(f"a{at}", f"b{at}"): 9 for at in range(40)})
    problem = problem_of(graph, on, costs_of(on, [[3000, *[1000 + at] * 4] for at in range(81)]))
    ranks = upward_ranks(problem)
    with workspace(problem.tables, problem.options.contention) as own:
        judge = Judge(decisions_of(problem, ranks, 0), own, load().play, Effort(judged=1000))
        started(judge, ranks, [])
    by_rank = 40  # at most so many starts are judged again in order of ranks
    assert 60 - 2 <= judge.judged <= 60 + by_rank
