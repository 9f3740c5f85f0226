"""HEFT: the paper's example, insertion, ties."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.algorithms.heft import Lane, earliest, heft, occupy, schedule
from placement.plan import makespan
from placement.problem import upward_ranks
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
    plan, start = schedule(problem)
    ends = [begun + problem.run[op][plan.device[problem.group[op]]] for op, begun in enumerate(start)]
    assert max(ends) == 80
    # figure 3 (a) of the paper: t1, t3, t4 ... with processors numbered from 0
    assert start == [0, 27, 9, 18, 28, 26, 38, 57, 56, 73]
    assert [plan.device[row] for row in problem.group] == [2, 0, 2, 1, 2, 1, 2, 0, 1, 1]


def test_an_op_slips_into_a_gap() -> None:
    # b waits for a's value from the other device; c has the lower rank but fits before b
    graph = tasks({("a", "b"): 10}, ["a", "b", "c"])
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(5, 99), (99, 20), (99, 10)]))
    assert sorted(range(3), key=upward_ranks(problem).__getitem__) == [2, 1, 0]
    plan, start = schedule(problem)
    assert [plan.device[row] for row in problem.group] == [0, 1, 1]
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


# ---- lanes: the earliest free time, and what stays entered -----------------------------------------------------------


def lane_of(*busy: tuple[int, int]) -> Lane:
    lane = Lane([], [])
    for start, end in busy:
        occupy(lane, start, end)
    return lane


def test_an_empty_lane_is_free_at_once() -> None:
    assert earliest(lane_of(), 7, 100) == 7


def test_work_goes_into_the_first_gap_that_holds_it() -> None:
    lane = lane_of((0, 10), (15, 20), (40, 50))
    assert earliest(lane, 0, 5) == 10
    assert earliest(lane, 0, 6) == 20
    assert earliest(lane, 12, 4) == 20
    assert earliest(lane, 25, 15) == 25
    assert earliest(lane, 26, 15) == 50
    assert earliest(lane, 3, 0) == 10  # even work of no length needs the lane


def test_touching_work_is_joined() -> None:
    lane = lane_of((0, 10), (20, 30), (10, 20))
    assert (lane.starts, lane.ends) == ([0], [30])
    assert (lane_of((5, 9), (9, 12)).starts, lane_of((9, 12), (5, 9)).starts) == ([5], [5])


def test_work_of_no_length_leaves_no_trace() -> None:
    assert lane_of((5, 5)).starts == []


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=25))
def test_a_lane_agrees_with_a_row_of_single_instants(wanted: Sequence[tuple[int, int]]) -> None:
    lane = Lane([], [])
    taken = [False] * 1000
    for ready, length in wanted:
        start = ready
        while any(taken[start : start + length]) or (length == 0 and start and taken[start - 1] and taken[start]):
            start += 1  # work of no length fits at the border of other work, but not inside
        assert earliest(lane, ready, length) == start
        occupy(lane, start, start + length)
        taken[start : start + length] = [True] * length
    assert all(a < b for a, b in zip(lane.starts, lane.ends, strict=True))
    assert all(end < start for end, start in zip(lane.ends, lane.starts[1:], strict=False))
