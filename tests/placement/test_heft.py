"""HEFT: the paper's example, insertion, ties."""

from dataclasses import replace

import pytest

from placement.algorithms.heft import heft, schedule
from placement.plan import makespan
from placement.scheduling.insertion import plans
from placement.scheduling.ranks import upward_ranks
from tests.placement.papers import length, topcuoglu
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks


def test_the_papers_upward_ranks() -> None:
    shown = [108.000, 77.000, 80.000, 80.000, 69.000, 63.333, 42.667, 35.667, 44.333, 14.667]  # table in the paper
    assert upward_ranks(topcuoglu()) == pytest.approx([1000 * rank for rank in shown], abs=2)


def test_the_papers_schedule_ends_at_80() -> None:
    problem = topcuoglu()
    made = schedule(problem)
    plan, start = plans(made)[0], made.start
    assert length(made) == 80
    # figure 3 (a) of the paper: t1, t3, t4 ... with processors numbered from 0
    assert start == [0, 27, 9, 18, 28, 26, 38, 57, 56, 73]
    assert [plan.device[row] for row in problem.group] == [2, 0, 2, 1, 2, 1, 2, 0, 1, 1]


def test_an_op_slips_into_a_gap() -> None:
    # b waits for a's value from the other device; c has the lower rank but fits before b
    graph = tasks({("a", "b"): 10}, ["a", "b", "c"])
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(5, 99), (99, 20), (99, 10)]))
    assert sorted(range(3), key=upward_ranks(problem).__getitem__) == [2, 1, 0]
    made = schedule(problem)
    plan, start = plans(made)[0], made.start
    assert [plan.device[row] for row in problem.group] == [0, 1, 1]
    assert start == [0, 15, 0]


def test_the_order_of_the_plan_is_kept_only_if_it_helps() -> None:
    problem = topcuoglu()
    plan = heft(problem)
    assert plan.priority is None
    assert makespan(problem, plan) <= makespan(problem, replace(plan, priority=list(range(10))))


def test_a_long_op_is_not_kept_waiting_by_a_short_one_that_was_ready_before_it() -> None:
    # on one device: `late` becomes ready while `short` is queued, but a long tail hangs on it
    edges = {("first", "late"): 0, ("late", "tail"): 0, ("second", "short"): 0}
    graph = tasks(edges, ["second", "first", "short", "late", "tail"])
    cluster = cluster_of("cc")
    never = 10**6
    problem = problem_of(
        graph,
        cluster,
        costs_of(cluster, [(1, never), (2, never), (50, never), (10, never), (never, 100)]),
    )
    plan = heft(problem)
    fifo = makespan(problem, replace(plan, priority=None))
    assert plan.priority is not None
    assert makespan(problem, plan) == 112 < fifo == 163
