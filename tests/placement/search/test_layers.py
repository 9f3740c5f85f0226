"""Layers: those of an unrolled network are found, whatever nodes are called, and start on devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.algorithms.search import search
from placement.effort import Effort
from placement.plan import Plan, makespan, verdict
from placement.problem import NEVER, Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.compiled import layered
from placement.search.decisions import Decisions, decisions_of
from placement.search.gathering import joined, layers_of, nets_of
from placement.search.judge import Judge
from placement.search.layers import Joined, Nets, join
from placement.search.order_cuts import ground
from placement.search.starting import _hopeless
from placement.search.starts import layers
from placement.search.walk import NEAR, Walker
from simulator.execution.choosing import load
from simulator.execution.flattening import workspace
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks
from tests.placement.search.test_search import problems

WEIGHT, VALUE, TIME = 500, 40, 100  # bytes take nanoseconds


def unrolled(depth: int, steps: int, devices: int, chance: int | None = None) -> tuple[Problem, list[str]]:
    """A network of so many layers, unrolled: two ops a cell, of which the second hands on. Also the ops by number.

    By `chance` nodes have another order, and names that tell nothing.
    """
    edges: dict[tuple[str, str], int | None] = {}
    for layer in range(depth):
        for step in range(steps):
            first, last = f"product_{layer}_{step}", f"state_{layer}_{step}"
            edges[f"weight_{layer}", first] = WEIGHT
            edges[first, last] = 2 * VALUE
            if layer:
                edges[f"state_{layer - 1}_{step}", first] = VALUE
            if step:
                edges[f"state_{layer}_{step - 1}", first] = VALUE
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    if chance is not None:
        names = [names[at] for at in np.random.default_rng(chance).permutation(len(names)).tolist()]
    number = {name: f"n{at}" for at, name in enumerate(names)} if chance is not None else {one: one for one in names}
    graph = tasks({(number[a], number[b]): size for (a, b), size in edges.items()}, list(number.values()))
    run = [[1 if name.startswith("weight") else TIME] * devices for name in names]
    on = cluster_of("g" * devices)
    return problem_of(graph, on, costs_of(on, run)), names


def decided(problem: Problem) -> Decisions:
    return decisions_of(problem, upward_ranks(problem), 0)


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 6), st.integers(3, 8), st.none() | st.integers(0, 99))
def test_layers_of_a_network_are_found(depth: int, steps: int, chance: int | None) -> None:
    problem, names = unrolled(depth, steps, 2, chance)
    made = decided(problem)
    found = layers_of(nets_of(made), made.work_ns.sum() * 1.1 / depth)
    of = [
        {int(one) for one, name in zip(found, names, strict=True) if name.split("_")[1] == str(layer)}
        for layer in range(depth)
    ]
    assert [len(some) for some in of] == [1] * depth
    assert len(set.union(*of)) == depth


@pytest.mark.parametrize("chance", [None, 3, 4])
def test_a_search_begins_with_a_layer_on_each_device_in_turn(chance: int | None) -> None:
    problem, names = unrolled(4, 6, 4, chance)
    made = decided(problem)
    first = next(layers(made, ground(made, [0] * len(problem.ops))))
    assert [first[row] for row, name in enumerate(names)] == [int(name.split("_")[1]) for name in names]


def test_processors_share_a_step_that_is_faster_on_them() -> None:
    """Two layers on two hosts, whose GPUs are slow: a layer for each processor."""
    graph = unrolled(2, 5, 2)[0].graph
    on = cluster_of("cgcg")
    problem = problem_of(graph, on, costs_of(on, [[TIME, 9 * TIME] * 2] * len(graph)))
    made = decided(problem)
    placed = {tuple(sorted(set(device.tolist()))) for device in layers(made, ground(made, [1] * len(problem.ops)))}
    assert (0, 2) in placed


@settings(deadline=None, max_examples=25)
@given(problems(), st.floats(0.05, 1.5))
def test_layers_keep_to_their_limit_and_machine_code_finds_the_same(problem: Problem, share: float) -> None:
    if not all(problem.allowed) or not len((made := decided(problem)).free):
        return
    count, most_ns = len(made.free), int(made.work_ns.sum() * share)

    def found(by: object) -> Joined:
        one = joined(count)
        by(nets_of(made), one, most_ns)  # type: ignore[operator]
        return one

    plain, fast = found(join), found(layered)
    assert plain.root.tolist() == fast.root.tolist()
    assert plain.cut_ns == fast.cut_ns == [_crossing(nets_of(made), plain)]
    work = np.bincount(plain.root, nets_of(made).work_ns, count)
    assert work.tolist() == [plain.whole_ns[one] if one in plain.root else 0 for one in range(count)]
    several = np.bincount(plain.root, minlength=count) > 1
    assert (work[several] <= most_ns + most_ns // 8).all()
    assert not plain.pull_ns.any()


def _crossing(nets: Nets, made: Joined) -> int:
    """What crosses: each value once for each layer but that of its maker."""
    total = 0
    for value, maker in enumerate(nets.maker.tolist()):
        readers = nets.reader[nets.first[value] : nets.first[value + 1]]
        total += len(set(made.root[readers].tolist()) - {int(made.root[maker])}) * int(nets.wire_ns[value])
    return total


@settings(deadline=None, max_examples=25)
@given(problems(), st.data())
def test_a_hopeless_start_is_slower_than_any_that_is_walked_from(problem: Problem, data: st.DataObject) -> None:
    if not all(problem.allowed):
        return
    made = decided(problem)
    one, other = ([data.draw(st.sampled_from(may)) for may in problem.allowed] for _ in range(2))
    with workspace(problem.tables, problem.options.contention, task=problem.handing) as own:
        judge = Judge(made, own, load().play, Effort())
        best = judge.judge("first", one)
        if _hopeless(judge, other):
            assert not best.over
            assert 100 * judge.judge("second", other).ns > NEAR * best.ns


@settings(deadline=None, max_examples=25)
@given(problems())
def test_a_walk_knows_the_members_of_each_layer(problem: Problem) -> None:
    if not all(problem.allowed) or not len((made := decided(problem)).free):
        return
    with workspace(problem.tables, problem.options.contention, task=problem.handing) as own:
        walker = Walker(Judge(made, own, load().play, Effort()), made, 0)
    groups = walker.groups
    count = len(made.free)
    for size, layer in enumerate(walker.layer):
        for group in range(count):
            begin, until = (int(part[size * count + group]) for part in (groups.begin, groups.until))
            inside = groups.member[size * count + begin : size * count + until].tolist()
            assert sorted(inside) == np.flatnonzero(layer == layer[group]).tolist()


def test_layers_move_as_one() -> None:
    """Four layers on four devices: the best of a walk of few judgements, with names that tell nothing."""
    problem, names = unrolled(4, 12, 4, 7)
    given = Plan([int(name.split("_")[1]) for name in names])
    found = search(replace(problem, effort=Effort(judged=300)))
    assert verdict(problem, found)[1] <= makespan(problem, given) < NEVER
