"""m-SCT: favourites by hand, their laws, and devices that wait for them."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings

from placement.algorithms import m_etf
from placement.algorithms.m_sct import favourites, m_sct, schedule
from placement.effort import Effort
from placement.problem import Problem
from tests.placement.papers import length
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks
from tests.placement.test_etf import programs


def test_the_transfer_on_the_longest_path_is_spared() -> None:
    graph = tasks({("a", "b"): 5, ("a", "c"): 5, ("b", "d"): 5, ("c", "d"): 5})
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(10, 10), (30, 30), (9, 9), (10, 10)]))
    assert favourites(problem) == [1, 3, -1, -1]


def smallest(problem: Problem) -> int:
    """The least makespan on enough devices over all choices of favourites, in nanoseconds."""
    edges = [
        (int(problem.tables.tensor_op[tensor]), op, tensor) for op, row in enumerate(problem.inputs) for tensor in row
    ]
    best = None
    for spared in product((False, True), repeat=len(edges)):
        chosen = [edge for edge, free in zip(edges, spared, strict=True) if free]
        if len({op for op, _, _ in chosen}) < len(chosen) or len({reader for _, reader, _ in chosen}) < len(chosen):
            continue
        end = [times[0] for times in problem.run]
        for op in range(len(end)):
            into = [(edge, free) for edge, free in zip(edges, spared, strict=True) if edge[1] == op]
            end[op] += max((end[edge[0]] + (0 if free else problem.nbytes[edge[2]]) for edge, free in into), default=0)
        best = max(end) if best is None else min(best, max(end))
    assert best is not None
    return best


@settings(max_examples=16)
@given(problem=programs(most=5, equal=True))
def test_favourites_are_one_to_one_and_bring_at_most_what_the_best_ones_do(problem: Any) -> None:
    found = favourites(problem)
    assert found is not None
    pairs = {(op, reader) for op, reader in enumerate(found) if reader >= 0}
    assert len({reader for _, reader in pairs}) == len(pairs)
    end = [times[0] for times in problem.run]
    for op, row in enumerate(problem.inputs):
        arrive = [0]
        for tensor in row:
            source = int(problem.tables.tensor_op[tensor])
            arrive.append(end[source] + (0 if (source, op) in pairs else problem.nbytes[tensor]))
        end[op] += max(arrive)
    # rounding at one half gives up at most half of a transfer that the program spares: Hanen and Munier, theorem 1
    assert smallest(problem) <= max(end) <= 2 * smallest(problem)


def test_a_device_waits_for_the_favourite_of_its_last_op() -> None:
    # `c` is ready on both devices when `b`, which reads much of `a`, still waits for `x`
    edges = {("a", "b"): 50, ("x", "b"): 6, ("x", "c"): 6}
    graph = tasks(edges, ["a", "x", "b", "c"])
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(10, 10), (9, 9), (30, 30), (30, 30)]))
    assert (favourites(problem) or [])[:1] == [2]
    made = schedule(problem)
    assert made.start[2] == 15
    assert length(made) <= length(m_etf.schedule(problem))


def test_without_transfers_it_is_m_etf() -> None:
    graph = tasks({("a", "b"): 0, ("a", "c"): 0, ("b", "d"): 0, ("c", "d"): 0})
    cluster = cluster_of("cc")
    problem = problem_of(graph, cluster, costs_of(cluster, [(10, 10), (30, 30), (9, 9), (10, 10)]))
    assert favourites(problem) == [-1] * 4
    assert schedule(problem).start == m_etf.schedule(problem).start


def test_a_program_that_is_not_solved_in_its_iterations_or_its_time_leaves_no_favourites(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """3,000 ops, each of which reads the three before it, took minutes: iterations are bounded, and a note says so."""
    cluster = cluster_of("gg")
    names = [f"a{row}" for row in range(12)]
    reads = {(names[at], names[to]): 50 for to in range(12) for at in range(max(to - 3, 0), to)}
    problem = problem_of(tasks(reads, names), cluster, costs_of(cluster, [(10, 10)] * 12))
    assert favourites(problem) is not None
    assert not m_sct(problem).notes
    monkeypatch.setattr("placement.algorithms.m_sct._ITERATIONS", 0)
    assert favourites(problem) is None
    assert any("not solved" in note for note in m_sct(problem).notes)
    assert schedule(problem)
    monkeypatch.undo()
    assert favourites(replace(problem, effort=Effort(seconds=60.0))) is not None
    assert favourites(replace(problem, effort=Effort(seconds=0.0))) is None
