"""Cuts that fill devices: few, within memory, with late weights on a processor."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.algorithms.search import search
from placement.problem import Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.decisions import Decisions, decisions_of
from placement.search.filling import filled, waited_late
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


def late(problem: Problem) -> list[str]:
    """Names of what a processor may hold."""
    made = decided(problem)
    return [problem.tables.names[made.ops[made.first[row]]] for row in np.flatnonzero(waited_late(made)).tolist()]


def test_a_late_embedding_goes_to_the_processor_and_layers_fill_devices() -> None:
    """With it on a GPU seven units would not fit; on the processor it is there in time, and there are two cuts."""
    problem = chain(UNIT)
    assert late(problem) == ["table"]
    first = next(filled(decided(problem), [0] * len(problem.ops), 0)).tolist()
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
    found = list(filled(decided(problem), base, 0))
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
    resident = np.array(problem.resident)
    for device in filled(decided(problem), [0] * len(problem.ops), 0):
        assert all(one in allowed for one, allowed in zip(device.tolist(), problem.allowed, strict=True))
        full = np.bincount(device, resident, len(on))
        # a single group may be all that a device holds; else memory holds each stretch
        assert (full[1:] <= room * UNIT * (1 + 1e-6)).all()
