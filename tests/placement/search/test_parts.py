"""Parts of a step that share little: the towers of data parallelism are found whatever nodes are called."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.algorithms.search import search
from placement.effort import Effort
from placement.plan import Plan, verdict
from placement.problem import Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.decisions import Decisions, decisions_of
from placement.search.order_cuts import ground
from placement.search.parts import of_groups, parts_of, spread
from placement.search.starts import apart
from simulator.columns import ints
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks

LAYERS, VALUE, TIME = 6, 100, 1000


def towers(
    count: int, devices: int, *, weight: int = VALUE, chance: int | None = None, ends: bool = False
) -> tuple[Problem, list[str]]:
    """The training of a chain of layers in towers, which read shares of a batch and end in one loss; and its ops.

    Bytes take nanoseconds. By `chance` nodes have another order, and names that tell nothing. With `ends` the last op
    reads the first tower and all updates, as a fetched summary does.
    """
    edges: dict[tuple[str, str], int | None] = {}
    for tower in range(count):
        forward = [f"forward_{tower}_{layer}" for layer in range(LAYERS)]
        backward = [f"backward_{tower}_{layer}" for layer in range(LAYERS)]
        edges |= dict.fromkeys(pairwise(["split", *forward, "loss", *backward[::-1]]), VALUE)
        if tower:
            edges[f"forward_{tower - 1}_3", forward[5]] = None  # it is not far ahead
        for layer in range(LAYERS):
            edges[forward[layer], backward[layer]] = VALUE
            for reader in (forward[layer], backward[layer]):
                edges[f"weight_{layer}", reader] = weight
            edges[backward[layer], f"sum_{layer}"] = weight
    for layer in range(LAYERS):
        edges[f"sum_{layer}", f"update_{layer}"] = weight
        edges[f"update_{layer}", "train"] = VALUE if ends else None
    if ends:
        edges["backward_0_0", "train"] = VALUE
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    if chance is not None:
        names = [names[at] for at in np.random.default_rng(chance).permutation(len(names)).tolist()]
    number = {name: f"n{at}" for at, name in enumerate(names)} if chance is not None else {one: one for one in names}
    graph = tasks({(number[a], number[b]): size for (a, b), size in edges.items()}, list(number.values()))
    run = [[TIME if name.startswith(("forward", "backward")) else 10] * devices for name in names]
    resident = [weight if name.startswith("weight") else 0 for name in names]
    on = cluster_of("g" * devices)
    return problem_of(graph, on, costs_of(on, run, resident)), names


def decided(problem: Problem) -> Decisions:
    return decisions_of(problem, upward_ranks(problem), 0)


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 9), st.integers(2, 4), st.none() | st.integers(0, 99))
def test_each_tower_is_a_part_and_what_they_share_is_none(count: int, devices: int, chance: int | None) -> None:
    problem, names = towers(count, devices, chance=chance)
    part = dict(zip(names, decided(problem).part.tolist(), strict=True))
    of_tower = [
        {part[name] for name in names if name.split("_")[1:2] == [str(tower)] and "ward" in name}
        for tower in range(count)
    ]
    assert sorted(min(found) for found in of_tower) == list(range(count))
    assert all(len(found) == 1 for found in of_tower)
    assert {part[name] for name in names if "ward" not in name} == {-1}


@pytest.mark.parametrize("chance", [None, 1])
def test_an_op_that_ends_the_step_brings_no_updates_into_the_part_that_it_reads(chance: int | None) -> None:
    problem, names = towers(4, 4, chance=chance, ends=True)
    work_ns = np.array([TIME if "ward" in name else 10 for name in names], float)
    found = parts_of(problem, work_ns, decided(problem).wire_ns > 0, 4)
    part = dict(zip(names, found.tolist(), strict=True))
    assert part["train"] == part["backward_0_0"] >= 0
    assert {part[name] for name in names if name.startswith(("weight", "sum", "update"))} == {-1}


def test_a_step_of_one_part_has_no_such_start() -> None:
    problem, names = towers(1, 3)
    made = decided(problem)
    assert set(made.part.tolist()) == {0}
    assert not list(apart(made, ground(made, [0] * len(names))))


@pytest.mark.parametrize("chance", [None, 1])
def test_towers_are_placed_apart_and_their_weights_spread(chance: int | None) -> None:
    problem, names = towers(3, 3, chance=chance)
    made = decided(problem)
    first = next(apart(made, ground(made, [0] * len(names))))
    where = dict(zip(names, first.tolist(), strict=True))
    assert sorted(where[f"forward_{tower}_0"] for tower in range(3)) == [0, 1, 2]
    for tower in range(3):
        assert len({where[name] for name in names if f"ward_{tower}_" in name}) == 1
    assert sorted(where[f"weight_{layer}"] for layer in range(LAYERS)) == [0, 0, 1, 1, 2, 2]
    for layer in range(LAYERS):
        assert where[f"sum_{layer}"] == where[f"update_{layer}"]


def test_where_weights_are_dear_what_uses_them_comes_to_them() -> None:
    problem, names = towers(2, 2, weight=100_000)
    made = decided(problem)
    apart_, pulled = (
        verdict(problem, Plan(start.tolist()))[1] for start in apart(made, ground(made, [0] * len(names)))
    )
    assert pulled < apart_


def test_more_devices_than_towers_are_left_idle_first_and_then_used() -> None:
    problem, names = towers(2, 4)
    made = decided(problem)
    used = [len(set(start.tolist())) for start in apart(made, ground(made, [0] * len(names)))]
    assert used[0] == 2
    assert max(used) == 4


@pytest.mark.parametrize("starts", [0, 600_000])
def test_a_search_begins_with_towers_apart(starts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No plan of a list, and no cut of an order, takes less than 18 us; large steps have other plans alone."""
    monkeypatch.setattr("placement.search.starting._STARTS", starts)
    problem, _ = towers(8, 8, weight=2000, chance=3)
    found = search(replace(problem, effort=Effort(judged=60))).search
    assert found is not None
    assert ("parts", 16_380) in [(how, ns) for _, how, ns in found.better]


def test_a_group_of_ops_of_several_parts_is_shared() -> None:
    """Groups: ops of parts 7 and 9; of part 9; of none, beside the second; of none, behind it."""
    part, row = ints([7, 9, 9, -1, -1]), ints([0, 0, 1, 2, 3])
    assert of_groups(part, row, np.array([[1, 2]]), 4).tolist() == [-1, 9, 9, -1]
    assert of_groups(part, row, np.array([[1, 2], [2, 3]]), 4).tolist() == [-1, 9, 9, 9]
    both = ints([7, 9, -1])
    assert of_groups(both, ints([0, 1, 2]), np.array([[0, 2], [1, 2]]), 3).tolist() == [7, 9, -1]


def test_what_is_shared_is_spread_by_its_bytes() -> None:
    """Weights of 5, 3 and 2 bytes; a sum that goes to the first, and what hangs on nothing."""
    device, resident = ints([1, -1, -1, -1, -1, -1]), ints([9, 5, 3, 2, 0, 0])
    pair, pair_ns = np.array([[0, 4], [1, 4]]), np.array([7.0, 1.0])
    assert spread(device, pair, pair_ns, resident, 2).tolist() == [1, 0, 1, 1, 0, 0]


def test_a_sum_goes_to_its_weight_by_way_of_what_scales_it() -> None:
    """Groups: two towers; a weight on the second device; a factor beside it; the sum that the factor scales."""
    device, resident = ints([0, 1, -1, -1, -1, -1]), ints([9, 9, 8, 9, 0, 0])
    pair = np.array([[0, 5], [1, 5], [5, 4], [4, 2]])
    pair_ns = np.array([9.0, 8.0, 1.0, 1.0])
    assert spread(device, pair, pair_ns, resident, 2).tolist() == [0, 1, 1, 0, 1, 1]
