"""CPOP: the paper's example, and paths that may not stay together."""

from dataclasses import replace

import pytest

from placement.algorithms.cpop import cpop, critical, processor, schedule
from placement.scheduling.insertion import plans
from placement.scheduling.ranks import downward_ranks, upward_ranks
from tests.placement.papers import length, topcuoglu
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks


def test_the_papers_downward_ranks_and_critical_path() -> None:
    problem = topcuoglu()
    down = downward_ranks(problem)
    shown = [0, 31, 25, 22, 24, 27, 62.333, 66.667, 63.667, 93.333]  # table 1 of the paper, by its equation 6
    assert down == pytest.approx([1000 * rank for rank in shown], abs=4)
    priority = [up + more for up, more in zip(upward_ranks(problem), down, strict=True)]
    path = critical(problem, priority)
    assert path == [0, 1, 8, 9]
    assert processor(problem, path) == 1


def test_the_papers_schedule_ends_at_86() -> None:
    made = schedule(topcuoglu())
    assert length(made) == 86
    device = plans(made)[0].device
    assert [device[op] for op in (0, 1, 8, 9)] == [1] * 4


def test_an_op_of_the_path_that_may_not_use_its_device_goes_where_it_ends_first() -> None:
    graph = replace(tasks({("a", "b"): 10, ("b", "c"): 10}), requested=("", "/cpu:0", ""))
    cluster = cluster_of("ccc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(9, 2, 3), (9, 9, 9), (9, 4, 1)]))
    plan = cpop(problem)
    assert [plan.device[row] for row in problem.group] == [2, 0, 2]
