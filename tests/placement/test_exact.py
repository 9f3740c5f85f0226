"""The exact algorithm: its proof holds for every plan, and it finds the optimum that trying everything finds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, product

import pytest
from hypothesis import given, settings

from placement.algorithms.exact import exact
from placement.algorithms.search import search
from placement.effort import Effort
from placement.plan import Plan, verdict
from placement.problem import NEVER, Problem
from simulator.errors import InfeasibleError, UnsupportedError
from simulator.limits import raised
from tests.placement.papers import arabnejad, topcuoglu
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks
from tests.placement.search.test_search import problems

TRIED = 300  # plans of a problem
FEW = Effort(judged=200)


@settings(max_examples=12)
@given(problems())
def test_no_plan_takes_less_than_the_proof_and_it_is_never_worse_than_a_search(problem: Problem) -> None:
    if not all(problem.allowed):
        return
    try:
        plan = exact(problem)
    except InfeasibleError:
        assert verdict(problem, search(problem))[0]
        return
    assert verdict(problem, plan) <= verdict(problem, search(problem))
    assert plan.proven is not None
    assert all(device in allowed for device, allowed in zip(plan.device, problem.allowed, strict=True))
    for device in islice(product(*problem.allowed), TRIED):
        over, taken_ns = verdict(problem, Plan(list(device)))
        assert over or taken_ns >= plan.proven.ns
    again = exact(problem)
    assert (again.device, again.priority, again.proven) == (plan.device, plan.priority, plan.proven)


@pytest.mark.parametrize("shared", [False, True])
def test_it_finds_what_trying_everything_finds(shared: bool) -> None:
    """Two chains that cross once, on two unequal devices: 64 placements."""
    edges: dict[tuple[str, str], int | None] = {
        ("a", "c"): 30,
        ("b", "d"): 5,
        ("c", "e"): 20,
        ("d", "e"): 70,
        ("b", "c"): 9,
    }
    on = cluster_of("cg", latency_ns=4, shared=shared)
    problem = problem_of(tasks(edges), on, costs_of(on, [(90, 40), (60, 50), (30, 80), (70, 20), (40, 35)]))
    problem = replace(problem, effort=FEW)
    best = min(verdict(problem, Plan(list(device))) for device in product(*problem.allowed))
    plan = exact(problem)
    assert plan.proven is not None
    assert verdict(problem, plan) == best == (False, plan.proven.ns)


@pytest.mark.parametrize(
    ("paper", "contention", "taken", "proven", "listed"),
    [
        (topcuoglu, "none", 73, 73, 80),
        (arabnejad, "none", 113, 113, 122),
        (topcuoglu, "serial", 75, 75, 80),
        (arabnejad, "serial", 118, 113, 122),  # the model's devices may wait for a better op, the simulator's never do
    ],
)
def test_the_examples_of_papers_are_solved(
    paper: Callable[[], Problem], contention: str, taken: int, proven: int, listed: int
) -> None:
    problem = paper()
    prepared = problem.prepared.under(replace(problem.options, contention=contention))
    problem = replace(problem, prepared=prepared, effort=FEW)
    plan = exact(problem)
    assert plan.proven is not None
    assert (verdict(problem, plan), plan.proven.ns) == ((False, taken), proven)
    assert taken < listed


def test_what_stays_and_fits_nowhere_is_refused() -> None:
    on = cluster_of("gg", memory=(100, 100))
    graph = tasks({("a", "b"): 1, ("b", "c"): 1})
    problem = problem_of(graph, on, costs_of(on, [(10, 10)] * 3, [70, 70, 70]))
    with pytest.raises(InfeasibleError, match="No placement holds"):
        exact(replace(problem, effort=FEW))


def test_a_budget_in_seconds_ends_it() -> None:
    plan = exact(replace(topcuoglu(), effort=Effort(seconds=0.02)))
    assert plan.proven is not None
    assert plan.proven.ns <= verdict(topcuoglu(), plan)[1] < NEVER


def test_a_large_step_is_refused_with_the_way_out() -> None:
    with raised({"exact-pairs": 10}), pytest.raises(UnsupportedError, match=r"use search.*--limit exact-pairs=N"):
        exact(topcuoglu())


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'simviz\[exact\]'"):
        exact(topcuoglu())
