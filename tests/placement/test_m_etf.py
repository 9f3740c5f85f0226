"""m-ETF: that of ETF where there is room, and what values take."""

from unittest.mock import patch

import pytest
from hypothesis import given

from placement.algorithms import etf
from placement.algorithms.m_etf import m_etf, schedule
from placement.problem import Problem
from placement.scheduling import earliest_start
from placement.scheduling.insertion import Schedule
from placement.scheduling.running import plain
from placement.scheduling.timetable import Timetable, may_use, needed, open_timetable, settle
from tests.placement.papers import arabnejad, topcuoglu
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks
from tests.placement.search.test_search import problems


def test_with_room_for_all_it_is_etf() -> None:
    for problem in (topcuoglu(), arabnejad()):
        assert schedule(problem).start == etf.schedule(problem).start


@pytest.mark.parametrize(("memory", "device"), [(100, 0), (99, 1)])
def test_a_pair_counts_only_with_room_for_what_the_op_makes(memory: int, device: int) -> None:
    graph = tasks({("a", "b"): 60, ("b", "c"): 40})
    cluster = cluster_of("cc", memory=(memory, 1000))
    problem = problem_of(graph, cluster, costs_of(cluster, [(1, 9)] * 3))
    assert m_etf(problem).device[:2] == [0, device]


def test_a_value_takes_room_until_its_last_reader() -> None:
    graph = tasks({("a", "b"): 60, ("a", "c"): 20, ("b", "d"): 10}, ["a", "b", "c", "d"])
    cluster = cluster_of("cc", memory=(100, 100))
    problem = problem_of(graph, cluster, costs_of(cluster, [(1, 1)] * 4))
    runner = plain(problem)
    table = open_timetable(problem, runner, values=True)
    left = []
    for op, device in ((0, 0), (1, 0), (2, 1), (3, 0)):
        settle(runner.step, table, op, device, 1)
        left.append(tuple(table.room))
    assert left == [(20, 100), (70, 100), (90, 100), (100, 100)]


def test_where_values_fit_nowhere_what_stays_decides() -> None:
    graph = tasks({("a", "b"): 500})
    cluster = cluster_of("cc", memory=(100, 200))
    problem = problem_of(graph, cluster, costs_of(cluster, [(1, 1)] * 2, resident=(150, 0)))
    assert m_etf(problem).device[0] == 1
    runner = plain(problem)
    table = open_timetable(problem, runner, values=True)
    least = needed(runner.step, table, 0)
    assert [may_use(table, 0, device, least) for device in (0, 1)] == [False, True]


@given(problems())
def test_no_value_gives_back_room_that_it_did_not_take(problem: Problem) -> None:
    """Not even in loops, where a Merge runs before all that it reads."""
    tables = []

    def scheduled(of: Problem, table: Timetable) -> Schedule:
        tables.append(table)
        return Schedule(of, [], [], [])

    if all(problem.allowed):
        with patch.object(earliest_start, "scheduled", scheduled):
            schedule(problem)
        assert all(left <= most for left, most in zip(tables[0].room, problem.capacity, strict=True))
