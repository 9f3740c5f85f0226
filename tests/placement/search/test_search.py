"""The search: never worse than what it was given, the same again for a number of placements, and memory first."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement import place
from placement.algorithms import load
from placement.algorithms.search import search
from placement.effort import Effort
from placement.plan import Plan, lacking, largest_alone, verdict
from placement.problem import NEVER, Problem, pose
from placement.search import starting
from placement.search.starts import ALWAYS, LISTED, ask, fitting, plans_of, whom
from simulator import choose_step, estimate, load_cluster
from simulator.bounds import bound
from simulator.columns import ids
from simulator.errors import InfeasibleError
from simulator.execution.evaluate import evaluate
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.graph.dtypes import STRING
from simulator.limits import PATIENCE, raised
from simulator.placer.constraints import constrain
from tests.execution.cases import dags, runs, whole
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks
from tests.strategies import Rows, type_attr


def asked(problem: Problem, judged: int) -> Problem:
    return replace(problem, effort=Effort(judged=judged))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Small steps on clusters of all sorts, under options of all sorts; sometimes memory is short."""
    graph = draw(dags(max_nodes=12))
    on, priced, _ = draw(runs(graph))
    if draw(st.booleans()):
        room = draw(st.sampled_from([60, 100, 200, 1000]))
        on = replace(on, devices=tuple(replace(one, memory_bytes=room) for one in on.devices))
    options = SimulationOptions(
        order=draw(st.sampled_from(["auto", "fifo", "tensorflow", "priority"])),
        contention=draw(st.sampled_from(["serial", "fair", "none"])),
        seed=draw(st.integers(0, 3)),
    )
    prepared = prepare(graph, whole(graph), on, priced, options)
    return pose(graph, prepared, on, constrain(graph, on), effort=Effort(judged=draw(st.integers(1, 300))))


@settings(deadline=None, max_examples=25)
@given(problems())
def test_a_search_is_never_worse_than_a_listed_algorithm_and_repeats(problem: Problem) -> None:
    if not all(problem.allowed):
        return
    listed = []
    for name in LISTED:
        try:
            listed.append((verdict(problem, load(name)(problem)), name))
        except InfeasibleError:
            continue
    plan = search(problem)
    assert all(device in allowed for device, allowed in zip(plan.device, problem.allowed, strict=True))
    for reached, name in listed:
        assert verdict(problem, plan) <= reached, name
    if problem.options.order == "priority" and verdict(problem, plan)[1] < NEVER:
        assert plan.priority is not None  # else the step could not be simulated
    again = search(problem)
    assert (again.device, again.priority, again.search) == (plan.device, plan.priority, plan.search)
    below = bound(
        problem.graph,
        problem.cluster,
        problem.prepared.given.costs,  # type: ignore[union-attr]
        step=problem.prepared.given.step,  # type: ignore[union-attr]
        prepared=problem.prepared,
        constraints=problem.constraints,
        options=problem.options,
    )
    assert below.ns <= verdict(problem, plan)[1]


@settings(deadline=None, max_examples=20)
@given(problems())
def test_what_the_walk_claims_is_what_the_simulator_says(problem: Problem) -> None:
    if not all(problem.allowed):
        return
    problem = replace(problem, flavour="local")
    plan = search(problem)
    if plan.search is None:
        return  # nothing to decide
    if plan.search.better and not verdict(problem, plan)[0]:
        assert verdict(problem, plan)[1] == plan.search.better[-1][2]
    assert plan.search.judged <= (problem.effort.judged or 0) + 4 * len(LISTED)  # these are judged in any case


def test_layers_that_fit_no_device_are_spread() -> None:
    """Four layers of 60 bytes, each in a chain of its own; two fit a device. Only the last result is fetched."""
    names = [f"{layer}{step}" for layer in "abcd" for step in range(3)]
    edges: dict[tuple[str, str], int | None] = dict.fromkeys(pairwise(names), 1)
    on = cluster_of("gg", memory=(130, 130))
    resident = [60 if name.endswith("0") else 0 for name in names]
    problem = problem_of(tasks(edges, names), on, costs_of(on, [(10, 10)] * 12, resident))
    with pytest.raises(InfeasibleError):
        load("single")(problem)
    plan = search(asked(problem, 500))
    assert verdict(problem, plan) == (False, 121)  # one crossing of a byte
    assert plan.device[:6] == [plan.device[0]] * 6


def test_the_best_that_does_not_fit_says_what_is_missing() -> None:
    on = cluster_of("cc", memory=(100, 100))
    graph = tasks({("a", "b"): 110, ("b", "c"): 10})
    problem = problem_of(graph, on, costs_of(on, [(10, 10)] * 3))
    plan = search(asked(problem, 200))
    assert verdict(problem, plan)[0]
    assert sorted(lacking(problem, plan)) == [0, 20]  # b reads 110 bytes and makes 10
    (note,) = plan.notes
    assert note.startswith("no placement fits: b alone holds 120 B while it runs, and localhost:0/CPU:0 has 100 B;")
    assert "CPU:" in note


def test_a_walk_sees_what_lives_at_once() -> None:
    """Of four pairs two values of 60 bytes fit a device, by ready times all first ops run first."""
    names = [f"{op}{pair}" for pair in range(4) for op in "ab"]
    values: dict[tuple[str, str], int | None] = {(f"a{pair}", f"b{pair}"): 60 for pair in range(4)}
    on, options = cluster_of("gg", memory=(130, 130)), SimulationOptions(order="fifo")
    problem = problem_of(tasks(values, names), on, costs_of(on, [(10, 30)] * 8), options=options)
    plan = search(asked(problem, 400))
    assert verdict(problem, plan) == (False, 100)
    assert plan.search is not None
    assert plan.search.better[-1][2] == 100


@settings(deadline=None, max_examples=35)
@given(problems(), st.data())
def test_an_op_that_is_said_to_fit_nowhere_fits_nowhere(problem: Problem, data: st.DataObject) -> None:
    if not all(problem.allowed) or (alone := largest_alone(problem)) is None:
        return
    device = [data.draw(st.sampled_from(may)) for may in problem.allowed]
    _, taken_ns = verdict(problem, Plan(device))
    if taken_ns >= NEVER:
        return
    where = device[problem.group[alone[0]]]
    assert lacking(problem, Plan(device))[where] >= alone[1] - problem.capacity[where] > 0


def test_four_independent_chains_take_four_devices() -> None:
    names = [f"{chain}{step}" for chain in "abcd" for step in range(5)]
    edges: dict[tuple[str, str], int | None] = {
        (f"{chain}{step}", f"{chain}{step + 1}"): 100 for chain in "abcd" for step in range(4)
    }
    on = cluster_of("gggg", latency_ns=1000)
    problem = problem_of(tasks(edges, names), on, costs_of(on, [(100,) * 4] * 20))
    plan = search(asked(problem, 2000))
    assert verdict(problem, plan) == (False, 500)
    assert plan.search is not None
    assert plan.search.better[-1][2] == 500


def test_an_op_that_follows_the_client_leaves_nothing_to_decide() -> None:
    """A NextIteration without a loop runs beside who reads it, though its group may be on any device."""
    made = Rows()
    made.add("text", "Const", dtype=type_attr(STRING))
    made.add("summary", "HistogramSummary", ["text", "text"], T=type_attr())
    made.add("next", "NextIteration", ["summary"], T=type_attr(STRING))
    graph, on = made.built(), load_cluster("4gpu")
    step = choose_step(graph, fetches=["next:0"])
    placed = place(graph, on, estimate(graph, on), step=step, algorithm="search")
    assert {on.devices[row].type for row in placed.device.tolist()} == {"CPU"}


def test_priorities_are_given_only_where_they_may_be_used() -> None:
    """A long chain and some short ops on one device: the chain has to begin first, which ready times do not say."""
    names = ["s1", "s2", "s3", "l1", "l2"]
    graph = tasks({("l1", "l2"): 1}, names)
    on = cluster_of("cg")
    run = [(50, 50), (50, 50), (50, 50), (10, 10), (1000, 30)]
    problem = problem_of(graph, on, costs_of(on, run))
    free = search(asked(problem, 500))
    fixed = replace(problem, prepared=problem.prepared.under(SimulationOptions(order="fifo")))
    bound_to = search(asked(fixed, 500))
    assert bound_to.priority is None
    assert verdict(problem, free)[1] <= verdict(fixed, bound_to)[1]
    if free.priority is not None:
        rows = np.array(free.device)[problem.constraints.group][None]
        judged = evaluate(problem.prepared, rows, priorities=ids(free.priority))
        assert int(judged[0]) == verdict(problem, free)[1]


def test_algorithms_of_papers_are_asked_where_they_fit() -> None:
    """On five devices a second is enough for all of them with 3,000 ops, for all but the dearest with 9,000."""
    assert fitting(3_000, 5, Effort()) == LISTED
    assert fitting(9_000, 5, Effort()) == LISTED[:-1]
    assert fitting(9_000, 5, Effort(seconds=7)) == LISTED
    assert fitting(20_000, 5, Effort(seconds=10)) == LISTED[:-1]  # a linear program's time grows faster than a step
    assert fitting(9_000, 5, Effort(seconds=1)) == LISTED[:-1]
    assert fitting(30_000, 5, Effort(seconds=1)) == (*ALWAYS, "cpop", "peft")  # the search needs its half
    assert fitting(9_000, 5, Effort(judged=1)) == LISTED[:-1]
    assert fitting(10**6, 5, Effort()) == ALWAYS


def test_a_dense_step_counts_by_its_reads() -> None:
    """200 ops that each of 200 others waits for: the linear program of 40,000 pairs took longer than all else."""
    sources, waiting = [f"a{row}" for row in range(200)], [f"b{row}" for row in range(200)]
    cluster = cluster_of("gg")
    reads = {(one, other): 1 for one in sources for other in waiting}
    dense = problem_of(tasks(reads, sources + waiting), cluster, costs_of(cluster, [(10, 10)] * 400))
    assert (two_chains().size, dense.size) == (4, 40_000 // 4)
    record = search(asked(dense, 3)).search
    assert record is not None
    assert record.left_out == ("m_sct",)


def two_chains() -> Problem:
    """Two ops after one another, twice, on two devices."""
    cluster = cluster_of("gg")
    reads = {("a", "b"): 100, ("c", "d"): 100}
    return problem_of(tasks(reads, ["a", "b", "c", "d"]), cluster, costs_of(cluster, [(10, 10)] * 4))


def test_the_first_answer_waits_for_no_other_algorithm() -> None:
    """`single` is judged before the next algorithm is asked, so a sentence on it is there at once."""
    problem = two_chains()
    said: list[str] = []
    asked = whom(problem)
    assert next(plans_of(problem, asked)).algorithm == "single"
    assert len(asked.found) == 1
    plan = load("search")(replace(problem, effort=Effort(judged=1, say=said.append)))
    assert "1 placements judged" in said[0]
    assert plan.search is not None
    assert plan.search.better[0][:2] == (1, "single")


@settings(deadline=None, max_examples=15)
@given(problems())
def test_plans_and_starts_that_are_made_ahead_are_the_same(problem: Problem) -> None:
    """As in a large step, in which a thread makes the next one while this one is judged."""
    if not all(problem.allowed):
        return
    alone = search(problem)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(starting, "_LARGE", 0)
        made = search(problem)
    assert (made.device, made.priority, made.search) == (alone.device, alone.priority, alone.search)


def test_other_algorithms_count_in_a_time() -> None:
    """A time that is over as soon as it begins leaves their plans alone, and a plan is there all the same."""
    problem = two_chains()
    plan = load("search")(replace(problem, effort=Effort(seconds=0.0)))
    assert plan.search is not None
    assert plan.search.judged == len(ask(replace(problem, effort=Effort(seconds=0.0))).found)
    assert plan.search.cycles == 0


@pytest.mark.parametrize("effort", [Effort(judged=2**40), Effort(seconds=1e9)])
def test_a_search_without_hope_ends_before_its_budget(effort: Effort) -> None:
    patience = PATIENCE.default // 10
    with raised({"patience": patience}):
        found = load("search")(replace(two_chains(), effort=effort)).search
        assert found is not None
        assert found.hopeless
        best = found.better[-1][0]
        assert found.judged > patience * best
        shorter = load("search")(asked(two_chains(), patience * best)).search
    assert shorter is not None
    assert not shorter.hopeless
    assert shorter.better == found.better
