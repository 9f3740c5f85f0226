"""Cuts that fill devices: few, within memory, with late weights on a processor."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.algorithms.search import search
from placement.problem import Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.decisions import Decisions, decisions_of
from placement.search.filling import filled, waited_late
from placement.search.order_cuts import best_chain, held_by
from simulator import estimate, load, load_cluster, without_devices
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks
from tests.viz.scenes import EXAMPLE

UNIT = 10**6


def chain(embedding: int, *, slow: int = 1, reader: int = 4, units: int = 6) -> Problem:
    """Six layers of a unit of memory each on three GPUs of two units, and an embedding that one of them reads."""
    names = [*(f"n{at}" for at in range(units)), "table"]
    edges: dict[tuple[str, str], int | None] = dict.fromkeys(pairwise(names[:units]), 50000)
    edges[("table", f"n{reader}")] = 1_000
    memory = [10**12, *[2 * UNIT + units * 50_000 + 1_000] * 3]
    on = cluster_of("cggg", memory=memory)
    run_ns = [[1_000_000, 100_000, 100_000, 100_000]] * units + [[1_000 * slow, 1_000, 1_000, 1_000]]
    return problem_of(tasks(edges, names), on, costs_of(on, run_ns, [UNIT] * units + [embedding]))


def decided(problem: Problem) -> Decisions:
    return decisions_of(problem, upward_ranks(problem), 0)


def all_bytes(made: Decisions) -> int:
    """The bytes of a step that frees nothing."""
    return int(held_by(made).sum())


def late(problem: Problem) -> list[str]:
    """Names of what a processor may hold."""
    made = decided(problem)
    return [problem.tables.names[made.ops[made.first[row]]] for row in np.flatnonzero(waited_late(made)).tolist()]


def test_a_late_embedding_goes_to_the_processor_and_layers_fill_devices() -> None:
    """With it on a GPU seven units would not fit; on the processor it is there in time, and there are two cuts."""
    problem = chain(UNIT)
    assert late(problem) == ["table"]
    made = decided(problem)
    first = next(filled(made, [0] * len(problem.ops), all_bytes(made))).tolist()
    assert first[problem.group[problem.tables.names.index("table")]] == 0
    layers = [first[problem.group[problem.tables.names.index(f"n{at}")]] for at in range(6)]
    assert layers == [1, 1, 2, 2, 3, 3]
    found = search(problem)
    assert found.search is not None
    assert found.search.better[-1][2] == 6 * 100_000 + 2 * 50_000


@pytest.mark.parametrize("problem", [chain(UNIT, slow=400), chain(UNIT, reader=0, slow=10), chain(UNIT // 100)])
def test_what_would_make_the_step_longer_or_is_small_stays(problem: Problem) -> None:
    assert late(problem) == []


@pytest.mark.parametrize("where", ["worker=2x2gpu", "ps=2,worker=2x1gpu", "1v100,2a100", "worker=3"])
@pytest.mark.parametrize("strings", [True, False])
def test_groups_stay_where_they_may_be_with_several_tasks_and_device_strings(where: str, strings: bool) -> None:
    graph, on = load(EXAMPLE), load_cluster(where)
    if not strings or "ps" not in where:
        graph = without_devices(graph)
    on = replace(on, devices=tuple(replace(device, memory_bytes=40 * UNIT) for device in on.devices))
    problem = problem_of(graph, on, estimate(graph, on))
    base = [allowed[0] for allowed in problem.lawful]
    made = decided(problem)
    found = list(filled(made, base, all_bytes(made)))
    assert found
    for device in found:
        assert all(one in allowed for one, allowed in zip(device.tolist(), problem.lawful, strict=True))


@settings(max_examples=15)
@given(st.lists(st.integers(1, 9), min_size=3, max_size=12), st.integers(2, 4), st.integers(0, 3))
def test_stretches_are_within_memory_and_on_allowed_devices(sizes: list[int], gpus: int, spare: int) -> None:
    names = [f"n{at}" for at in range(len(sizes))]
    edges: dict[tuple[str, str], int | None] = dict.fromkeys(pairwise(names), 10)
    room = max(-(-sum(sizes) // gpus) + spare, max(sizes))
    on = cluster_of("c" + "g" * gpus, memory=[10**12] + [room * UNIT] * gpus)
    run_ns = [[1_000_000] + [1_000] * gpus] * len(sizes)
    problem = problem_of(tasks(edges, names), on, costs_of(on, run_ns, [size * UNIT for size in sizes]))
    resident, made = np.array(problem.resident), decided(problem)
    for device in filled(made, [0] * len(problem.ops), all_bytes(made)):
        assert all(one in allowed for one, allowed in zip(device.tolist(), problem.allowed, strict=True))
        full = np.bincount(device, resident, len(on))
        # a single group may be all that a device holds; else memory holds each stretch
        assert (full[1:] <= room * UNIT * (1 + 1e-6)).all()


def test_a_stretch_that_no_device_holds_goes_to_the_processor() -> None:
    """Two devices hold two layers each. Least crosses around the two in the middle, and a processor runs these fast."""
    names = [f"n{at}" for at in range(6)]
    edges: dict[tuple[str, str], int | None] = dict.fromkeys(pairwise(names), 500_000)
    edges["n1", "n2"] = edges["n3", "n4"] = 100_000
    on = cluster_of("cgg", memory=[10**12, *[8 * UNIT + 1] * 2])
    run_ns = [[1_000_000, 1_000, 1_000]] * 2 + [[20_000, 1_000, 1_000]] * 2
    problem = problem_of(tasks(edges, names), on, costs_of(on, run_ns + run_ns[:2], [3 * UNIT] * 6))
    made = decided(problem)
    found = [device[problem.group].tolist() for device in filled(made, [0] * len(problem.ops), all_bytes(made))]
    assert [1, 1, 0, 0, 2, 2] in found
    best = search(problem).search
    assert best is not None
    assert best.better[-1][2] == 4 * 1_000 + 2 * 20_000 + 2 * 100_000


def test_outputs_that_are_freed_count_by_the_peak_of_a_step() -> None:
    """All outputs together are twelve units, but no more than two are there at once, which one device holds."""
    names = [f"n{at}" for at in range(12)]
    edges: dict[tuple[str, str], int | None] = dict.fromkeys(pairwise(names), UNIT)
    on = cluster_of("cgg", memory=[10**12, 2 * UNIT, 2 * UNIT])
    problem = problem_of(tasks(edges, names), on, costs_of(on, [[10**9, 1_000, 1_000]] * 12, [1] * 12))
    made, nothing = decided(problem), [0] * len(problem.ops)
    by_peak = next(filled(made, nothing, 2 * UNIT))
    assert len(set(by_peak.tolist())) == 1
    assert len(set(next(filled(made, nothing, all_bytes(made))).tolist())) == 3


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_best_chain_is_the_best_of_all(data: st.DataObject) -> None:
    count, devices = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    whole = st.integers(0, 9)
    cut, home, weight = (
        np.array(data.draw(st.lists(whole, min_size=size, max_size=size)), np.float64)
        for size in (count - 1, count - 1, count)
    )
    room = np.array(data.draw(st.lists(st.integers(3, 12), min_size=devices, max_size=devices)), np.float64)
    work = np.array([[data.draw(whole) for _ in range(devices + 1)] for _ in range(count)])

    def takes(places: tuple[int, ...]) -> float:
        """The time of a chain on these devices; endless where it does not fit, or takes devices out of turn."""
        used = [one for one, _ in groupby(places) if one < devices]
        if used != sorted(set(used)) or (np.bincount(places, weight, devices + 1)[:devices] > room).any():
            return float("inf")
        crossed = sum(
            home[at] if devices in pair else cut[at] for at, pair in enumerate(pairwise(places)) if pair[0] != pair[1]
        )
        return float(crossed + sum(work[at, one] for at, one in enumerate(places)))

    in_turn = [  # without a device that is left out between others, which pays for its cut
        one
        for one in product(range(devices + 1), repeat=count)
        if set(one) - {devices} == set(range(len(set(one) - {devices})))
    ]
    found = best_chain(cut, home, weight, room, work)
    assert found is not None
    assert takes(tuple(found.tolist())) <= min(map(takes, in_turn))
