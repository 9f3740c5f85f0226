"""Walks side by side: they repeat, the first is the walk alone, counts are of all, and what ends one ends all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings

from placement import place
from placement.algorithms.search import search
from placement.effort import Effort
from placement.plan import Plan, verdict
from placement.problem import Problem, pose
from placement.search import judge as judging
from placement.search import walk, walks
from placement.search.judge import Candidate
from placement.search.tidying import tidied
from placement.search.walk import Progress, Walker, anneal
from placement.search.walks import walks_of
from simulator import choose_step, estimate, load, load_cluster, without_devices
from simulator.execution.preparing import prepare
from simulator.limits import raised
from simulator.placer.constraints import constrain
from simulator.progress import silent
from tests.execution.cases import TWO_BY_TWO, costs, whole
from tests.placement.search.test_search import problems, two_chains
from tests.strategies import Rows, typed
from tests.viz.scenes import EXAMPLE


@contextmanager
def walking(count: int) -> Iterator[None]:
    """So many walks where nobody says how long, each with the work of a moment."""
    with patch.object(walks, "_WALKS", count), patch.object(judging, "_DEFAULT", 20_000):
        yield


def found(problem: Problem, count: int) -> Plan:
    with walking(count):
        return search(replace(problem, effort=Effort()))


def test_a_time_has_a_walk_for_each_processor_and_all_else_repeats_everywhere() -> None:
    with patch.object(walks, "usable_cores", return_value=5):
        assert walks_of(Effort(seconds=1), 100) == 5
        assert walks_of(Effort(judged=10**9), 100) == 1
        assert walks_of(Effort(), 100) == 2
        assert walks_of(Effort(), 10**6) == walks_of(Effort(seconds=1), 10**6) == 1
    with patch.object(walks, "usable_cores", return_value=64):
        assert walks_of(Effort(seconds=1), 100) == 8


@settings(deadline=None, max_examples=15)
@given(problems())
def test_several_walks_repeat_and_are_never_worse_than_the_first(problem: Problem) -> None:
    if not all(problem.allowed):
        return
    problem = replace(problem, flavour="local")  # a master's cut may judge otherwise than the walks do
    one, three, again = found(problem, 1), found(problem, 3), found(problem, 3)
    assert (again.device, again.priority, again.search) == (three.device, three.priority, three.search)
    assert verdict(problem, three) <= verdict(problem, one)
    if one.search is not None and three.search is not None:
        assert three.search.judged >= one.search.judged
        assert all(before[0] <= after[0] for before, after in pairwise(three.search.better))
        assert all(judged <= three.search.judged for judged, _, _ in three.search.better)


@pytest.mark.parametrize("where", [0, 1])
def test_what_ends_a_walk_ends_all(where: int) -> None:
    """One walk of an endless time is interrupted; the other one has to hear of it."""
    went: list[Walker] = []

    def interrupted(walker: Walker, starts: Sequence[Candidate], progress: Progress) -> Any:  # Any: as `anneal`
        went.append(walker)
        first = walker.judge.effort.say is not silent
        if first == (where == 0):
            raise KeyboardInterrupt
        return anneal(walker, starts, progress) if where == 0 else []

    problem = replace(two_chains(), effort=Effort(seconds=1e9, say=lambda _: None))
    with (
        patch.object(walks, "usable_cores", return_value=2),
        patch.object(walks, "anneal", interrupted),
        raised({"patience": 2**40}),
        pytest.raises(KeyboardInterrupt),
    ):
        search(problem)
    assert [walker.judge.ended for walker in went if walker.judge.effort.say is silent] == [True]


def test_every_walk_judges_a_tensor_that_a_task_hands_on() -> None:
    """Two GPUs of another task read a value: a master sends it there once, so it comes to the second one later."""
    draft = Rows()
    draft.add("v", "Placeholder", device="/job:a/task:0", **typed("Placeholder", (1000,)))
    for at in range(2):
        draft.add(f"x{at}", "Neg", ["v"], device=f"/job:b/device:GPU:{at}", **typed("Neg", (1000,)))
        draft.add(f"y{at}", "Neg", [f"x{at}"], device="/job:b", **typed("Neg", (1000,)))
    graph, on = draft.built(), TWO_BY_TWO
    problem = pose(graph, prepare(graph, whole(graph), on, costs(graph, on, 1000)), on, constrain(graph, on))
    said: list[list[tuple[int, int]]] = []

    def judged(walker: Walker, starts: Sequence[Candidate], progress: Progress) -> list[Candidate]:
        said.append([walker.judge.judge("again", one.device, one.ops).rank for one in starts])
        return list(starts)

    with patch.object(walks, "anneal", judged):
        found(replace(problem, flavour="master"), 3)
        assert said[0] == said[1] == said[2]
        whole_trip = said[0]
        found(replace(problem, flavour="local"), 3)
    assert said[3] == said[4] == said[5] != whole_trip  # a local session hands nothing on


def test_a_walk_tidies_what_each_cycle_finds() -> None:
    """So the next cycle begins with groups beside their neighbours, and not only the last answer is tidy."""
    problem = replace(two_chains(), effort=Effort(judged=4000))
    with patch.object(walk, "tidied", side_effect=tidied) as tidy:
        record = search(problem).search
    assert record is not None
    assert 1 <= record.cycles - 1 <= tidy.call_count <= record.cycles


@pytest.mark.parametrize("judged", [200, 400])
def test_a_small_number_of_placements_has_a_walk(judged: int) -> None:
    """Starts took them all, as there are thousands of a step of few ops."""
    graph, on = without_devices(load(EXAMPLE)), load_cluster("4gpu")
    plan = place(
        graph, on, estimate(graph, on), step=choose_step(graph), algorithm="search", effort=Effort(judged=judged)
    )
    found = plan.search
    assert found is not None
    assert found.judged <= judged
    assert found.accepted > 0
