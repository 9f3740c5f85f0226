"""The bound by memory along a path: worked by hand, and below every placement that fits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.plan import Plan, verdict
from placement.problem import Problem
from simulator import load_cluster
from simulator.assignment import Bound
from simulator.bounds import bound
from simulator.cluster.cluster import Cluster
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks

_REAL = tuple(load_cluster(text) for text in ("2gpu", "worker=2x1gpu", "worker=3", "1v100,2a100"))
_UNIT, _SENT = 10**6, 100_000  # bytes; a link takes as many nanoseconds


def bounded(problem: Problem) -> Bound:
    step = problem.prepared.given
    assert step is not None
    return bound(
        problem.graph,
        problem.cluster,
        step.costs,
        step=step.step,
        prepared=problem.prepared,
        constraints=problem.constraints,
        options=problem.options,
    )


def of_kinds(on: Cluster) -> Cluster:
    """The cluster with one kind of device for each type."""
    return replace(on, devices=tuple(replace(device, kind=device.type) for device in on.devices))


def chain(units: list[int], devices: str, *, slow: int, room: int = 2) -> Problem:
    """Layers of so many units of memory, one after the other; a processor is `slow` times as slow."""
    names = [f"n{at}" for at in range(len(units))]
    edges: dict[tuple[str, str], int | None] = dict.fromkeys(pairwise(names), _SENT)
    memory = [10**12 if kind == "c" else room * _UNIT + len(units) * _SENT for kind in devices]
    on = of_kinds(cluster_of(devices, memory=memory))
    run_ns = [[1_000 * (slow if kind == "CPU" else 1) for kind in on.kinds]] * len(units)
    return problem_of(tasks(edges, names), on, costs_of(on, run_ns, [size * _UNIT for size in units]))


@pytest.mark.parametrize(
    ("units", "slow", "cuts_ns"),
    [
        ([1] * 6, 10**6, 6_000 + 2 * _SENT),  # two layers on each device
        ([1] * 6, 2, 6 * 2_000),  # all on the processor
        ([1, 1, 0, 1, 1], 60, 5_000 + _SENT),
        ([2, 2, 1], 10**6, 3_000 + 2 * _SENT),
    ],
)
def test_a_chain_larger_than_a_device_crosses(units: list[int], slow: int, cuts_ns: int) -> None:
    found = bounded(chain(units, "cggg", slow=slow))
    assert found.fitting == Bound(cuts_ns, "the longest path, which memory cuts")
    assert found.ns <= len(units) * 1_000 * slow


def test_what_fits_a_device_has_no_such_bound() -> None:
    assert bounded(chain([1, 1], "cggg", slow=9)).fitting is None


def test_what_fits_nowhere_has_no_such_bound() -> None:
    assert bounded(chain([9, 9], "gg", slow=9)).fitting is None


def test_a_proof_that_is_larger_comes_first() -> None:
    found = Bound(5, "a path", Bound(9, "memory"))
    assert found.with_proof(Bound(7, "a proof")) == Bound(7, "a proof", Bound(9, "memory"))
    assert found.with_proof(Bound(9, "a proof")) == Bound(9, "a proof")
    assert found.with_proof(Bound(5, "a proof")) is found


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Small random graphs whose ops hold memory, on a few devices of one or two hosts."""
    on = draw(st.sampled_from([cluster_of("cgg"), cluster_of("ggg", latency_ns=500), cluster_of("ccg"), *_REAL]))
    on = draw(st.sampled_from([on, of_kinds(on)]))
    count = draw(st.integers(2, 5 if len(on) < 4 else 4))
    names = [f"n{at}" for at in range(count)]
    pairs = [(names[a], names[b]) for b in range(count) for a in range(b)]
    edges: dict[tuple[str, str], int | None] = {
        pair: draw(st.integers(1, 50_000)) for pair in draw(st.sets(st.sampled_from(pairs), min_size=1))
    }
    room = draw(st.integers(2, 5))
    sent = 4 * sum(nbytes or 0 for nbytes in edges.values())
    memory = [draw(st.integers(room, room + 3)) * _UNIT + sent for _ in on.devices]
    on = replace(
        on, devices=tuple(replace(one, memory_bytes=least) for one, least in zip(on.devices, memory, strict=True))
    )
    run_ns = [[draw(st.integers(1, 40_000)) for _ in on.kinds] for _ in names]
    held = [draw(st.integers(0, room)) * _UNIT for _ in names]
    return problem_of(tasks(edges, names), on, costs_of(on, run_ns, held))


# Bytes that count twice fail in the first examples.
@settings(max_examples=30, deadline=None)
@given(problems())
def test_no_placement_that_fits_takes_less(problem: Problem) -> None:
    found = bounded(problem)
    least = max(found.ns, 0 if found.fitting is None else found.fitting.ns)
    for device in product(range(len(problem.capacity)), repeat=len(problem.ops)):
        said = verdict(problem, Plan(list(device)))
        assert said.full or said.ns >= least
