"""The white paper's greedy simulation, by hand."""

from dataclasses import replace
from typing import Any

import pytest

from placement.algorithms.whitepaper import whitepaper
from placement.plan import Plan, completed, makespan
from placement.problem import Problem
from simulator.assignment import COST, ONLY
from simulator.columns import ints
from simulator.errors import InfeasibleError
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks
from tests.strategies import Rows, colocation, typed


def devices_of(problem: Problem, plan: Plan) -> list[int]:
    return [plan.device[row] for row in problem.group]


def test_independent_ops_spread_over_the_devices() -> None:
    graph = tasks({}, ["a", "b", "c"])
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(10, 10)] * 3))
    assert devices_of(problem, whitepaper(problem)) == [0, 1, 0]


def test_an_op_stays_where_its_input_is_when_the_transfer_takes_longer() -> None:
    graph = tasks({("a", "b"): 100, ("a", "c"): 5}, ["a", "b", "c"])
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(10, 10), (50, 50), (50, 50)]))
    # b: 60 here, 160 there; c: 110 here, 65 there
    plan = whitepaper(problem)
    assert devices_of(problem, plan) == [0, 0, 1]
    assert makespan(problem, plan) == 65


def test_a_value_reaches_a_device_once() -> None:
    # c reads what b has brought to the second device already: 1 + 100 + 1 + 1
    rows = Rows()
    rows.add("a", "Task")
    rows.add("b", "Task", ["a:0"])
    rows.add("c", "Task", ["a:0", "b:0"])
    graph = rows.built()
    graph = replace(graph, tensor_bytes=ints([100] * len(graph.tensor_bytes)))
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(1, -1), (-1, 1), (1, 1)]))
    plan = whitepaper(problem)
    assert devices_of(problem, plan) == [0, 1, 1]
    assert makespan(problem, plan) == 103


def test_ready_ops_are_taken_by_time_then_row() -> None:
    # z and y are ready at once, y has the smaller row and takes the fast device
    graph = tasks({}, ["y", "z"])
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(1, 10), (1, 2)]))
    assert devices_of(problem, whitepaper(problem)) == [0, 0]
    problem = problem_of(graph, cluster, costs_of(cluster, [(3, 10), (1, 2)]))
    assert devices_of(problem, whitepaper(problem)) == [0, 1]


def test_equal_devices_are_taken_in_tensorflows_order() -> None:
    graph = tasks({}, ["a"])
    cluster = cluster_of("cgg")
    problem = problem_of(graph, cluster, costs_of(cluster, [(5, 5, 5)]))
    assert devices_of(problem, whitepaper(problem)) == [1]  # a GPU before a CPU, the first before the second


def test_several_lanes_run_as_many_ops_at_a_time() -> None:
    graph = tasks({}, ["a", "b", "c"])
    cluster = cluster_of("cc", lanes=2)
    problem = problem_of(graph, cluster, costs_of(cluster, [(10, 11)] * 3))
    assert devices_of(problem, whitepaper(problem)) == [0, 0, 1]


def test_the_first_member_decides_for_its_group() -> None:
    rows = Rows()
    rows.add("a", "Task")
    rows.add("b", "Task", ["a:0"], _class=colocation("a"))
    graph = rows.built()
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(9, 10), (100, 1)]))
    plan = whitepaper(problem)
    assert devices_of(problem, plan) == [0, 0]
    assert plan.decider == [0]
    assert completed(problem, plan).rule == [COST]


def test_a_group_has_only_devices_with_costs_for_all_members() -> None:
    rows = Rows()
    rows.add("a", "Task")
    rows.add("b", "Task", ["a:0"], _class=colocation("a"))
    cluster = cluster_of("ccc")
    problem = problem_of(rows.built(), cluster, costs_of(cluster, [(9, 10, -1), (-1, 1, 1)]))
    plan = whitepaper(problem)
    assert devices_of(problem, plan) == [1, 1]
    assert completed(problem, plan).rule == [ONLY]


def test_a_constant_goes_where_it_is_first_used() -> None:
    rows = Rows()
    rows.add("const", "Const", **typed("Const", (1000,)))
    rows.add("slow", "Task", ["const"])
    graph = rows.built()
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(0, 0), (9, 1)]))
    assert devices_of(problem, whitepaper(problem)) == [1, 1]


def test_a_constant_that_no_other_device_holds_is_waited_for() -> None:
    rows = Rows()
    rows.add("const", "Const", **typed("Const", (1000,)))
    rows.add("user", "Task", ["const"])
    graph = replace(rows.built(), requested=("/cpu:0", ""))
    cluster = cluster_of("cc")  # 4000 bytes take 4000 ns
    problem = problem_of(graph, cluster, costs_of(cluster, [(0, 0), (9, 1)]))
    plan = whitepaper(problem)
    assert devices_of(problem, plan) == [0, 0]
    assert makespan(problem, plan) == 9


def test_a_device_without_room_is_not_taken() -> None:
    graph = tasks({}, ["a", "b"])
    cluster = cluster_of("cc", memory=(10, 10))
    problem = problem_of(graph, cluster, costs_of(cluster, [(1, 5), (1, 5)], resident=(6, 6)))
    assert devices_of(problem, whitepaper(problem)) == [0, 1]


def test_it_says_when_no_room_is_left() -> None:
    graph = tasks({}, ["a", "b", "c"])
    cluster = cluster_of("cc", memory=(10, 10))
    problem = problem_of(graph, cluster, costs_of(cluster, [(1, 5)] * 3, resident=(6, 6, 6)))
    with pytest.raises(InfeasibleError, match="No device has room for the 6 B that stay resident with 'c'") as caught:
        whitepaper(problem)
    assert caught.value.members == ("c",)


def test_a_merge_is_ready_at_its_first_value() -> None:
    rows = Rows()
    rows.add("early", "Task")
    rows.add("late", "Task")
    rows.add("merge", "Merge", ["early:0", "late:0"], T=typed("Neg")["T"], N=_two())
    graph = rows.built()
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(5, 5), (50, 50), (1, 1)]))
    assert makespan(problem, whitepaper(problem)) == 50


def _two() -> Any:
    attr = typed("Neg")["T"]
    attr.Clear()
    attr.i = 2
    return attr
