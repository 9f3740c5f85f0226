"""HEFT: the paper's example, insertion, ties."""

from dataclasses import replace
from typing import Any

import pytest

from placement.algorithms.heft import heft, schedule
from placement.judging import makespan
from placement.ranks import upward_ranks
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks

# Topcuoglu, Hariri and Wu 2002: figure 2 and its table, ten tasks on three processors
EDGES = {
    (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16, (3, 7): 23, (4, 8): 27,
    (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11, (9, 10): 13,
}  # fmt: skip
TIMES = [
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
]  # fmt: skip


def paper() -> Any:
    graph = tasks({(f"t{a}", f"t{b}"): nbytes for (a, b), nbytes in EDGES.items()}, [f"t{n}" for n in range(1, 11)])
    cluster = cluster_of("ccc")  # one byte takes one nanosecond on every link
    return problem_of(graph, cluster, costs_of(cluster, TIMES))


def test_the_papers_upward_ranks() -> None:
    shown = [108.000, 77.000, 80.000, 80.000, 69.000, 63.333, 42.667, 35.667, 44.333, 14.667]  # table in the paper
    assert upward_ranks(paper()) == pytest.approx([1000 * rank for rank in shown], abs=2)


def test_the_papers_schedule_ends_at_80() -> None:
    problem = paper()
    table, start = schedule(problem)
    ends = [begun + problem.run[op][table.device[problem.group[op]]] for op, begun in enumerate(start)]
    assert max(ends) == 80
    # figure 3 (a) of the paper: t1, t3, t4 ... with processors numbered from 0
    assert start == [0, 27, 9, 18, 28, 26, 38, 57, 56, 73]
    assert [table.device[row] for row in problem.group] == [2, 0, 2, 1, 2, 1, 2, 0, 1, 1]


def test_an_op_slips_into_a_gap() -> None:
    # b waits for a's value from the other device; c has the lower rank but fits before b
    graph = tasks({("a", "b"): 10}, ["a", "b", "c"])
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(5, 99), (99, 20), (99, 10)]))
    assert sorted(range(3), key=upward_ranks(problem).__getitem__) == [2, 1, 0]
    table, start = schedule(problem)
    assert [table.device[row] for row in problem.group] == [0, 1, 1]
    assert start == [0, 15, 0]


def test_the_order_of_the_plan_is_kept_only_if_it_helps() -> None:
    problem = paper()
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
