"""PEFT: the paper's example, and the table where devices are not free to choose."""

from dataclasses import replace

from placement.algorithms import heft
from placement.algorithms.peft import schedule
from placement.scheduling.ranks import optimistic_costs
from tests.placement.papers import arabnejad, length, topcuoglu
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks

# table 2 of the paper: the optimistic costs, a row per task
SHOWN = [
    [64, 68, 86], [42, 39, 42], [27, 41, 43], [42, 39, 50], [28, 37, 28],
    [42, 39, 44], [13, 16, 22], [13, 16, 33], [13, 16, 20], [0, 0, 0],
]  # fmt: skip


def test_the_papers_table() -> None:
    assert list(optimistic_costs(arabnejad())) == [1000 * cost for row in SHOWN for cost in row]


def test_the_papers_schedule_ends_at_122_where_hefts_ends_at_133() -> None:
    assert length(schedule(arabnejad())) == 122
    assert length(heft.schedule(arabnejad())) == 133
    assert length(schedule(topcuoglu())) == 85


def test_the_table_knows_what_may_not_be_chosen() -> None:
    graph = replace(tasks({("a", "b"): 10}), requested=("", "/cpu:1"))
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(1, 1), (5, 8)]))
    assert list(optimistic_costs(problem)) == [18000, 8000, 0, 0]
