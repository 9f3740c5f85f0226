"""Hubs: by their definition, pair by pair, and gradients of several devices that pass through one identity."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.plan import Plan, verdict
from placement.problem import Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.decisions import Decisions, decisions_of
from placement.search.gathering import layers_of, nets_of
from placement.search.hubs import hubs_of
from placement.search.minimum_cut import besides
from placement.search.starts import packs
from simulator import load_cluster
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks

EXPERTS, GRADIENT = 4, 25_000_000


def experts(*, joined: bool = True, on: str = "4gpu") -> Problem:
    """Four chains of a product and an update, whose gradients pass through one identity; else each has its own.

    On a GPU each op takes 1 ms, and some 1 ms each gradient on the wire. On the CPU an identity takes nothing, too.
    """
    edges: dict[tuple[str, str], int | None] = {}
    for at in range(EXPERTS):
        hub = "identity" if joined else f"identity{at}"
        edges |= {(f"product{at}", hub): GRADIENT, (hub, f"update{at}"): GRADIENT}
        edges |= {(f"weight{at}", f"product{at}"): 4 * GRADIENT, (f"weight{at}", f"update{at}"): 4 * GRADIENT}
    names, machine = list(dict.fromkeys(name for edge in edges for name in edge)), load_cluster(on)
    light = ("identity", "weight")
    times = [[0, 0] if name.startswith(light) else [10**8, 10**6] for name in names]
    return problem_of(tasks(edges, names), machine, costs_of(machine, times))


def made(problem: Problem) -> Decisions:
    return decisions_of(problem, upward_ranks(problem), 0)


def test_an_identity_of_all_gradients_is_a_hub_and_one_of_each_is_none() -> None:
    decisions = made(experts())
    assert [name for name, hub in zip(names_of(decisions), hubs_of(decisions).tolist(), strict=True) if hub] == [
        "identity"
    ]
    assert not hubs_of(made(experts(joined=False))).any()


@pytest.mark.parametrize(
    ("on", "found"), [("2gpu", 1), ("8gpu", 1), ("worker=4x1gpu", 1), ("dgx-a100", 0), ("1gpu", 0)]
)
def test_wires_of_a_device_that_are_faster_than_those_of_all_to_cpus_make_no_hubs(on: str, found: int) -> None:
    """NVLink brings a GPU 300 GB/s; eight GPUs of a DGX send their CPUs 100 GB/s, by four switches."""
    assert hubs_of(made(experts(on=on))).sum() == found


def names_of(decisions: Decisions) -> list[str]:
    """[M] the name of each group's first op."""
    return [decisions.problem.tables.names[op] for op in decisions.ops[decisions.first[:-1]].tolist()]


def test_a_hub_joins_no_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chain is a layer of its own. If the identity were no hub, gradients would tie chains together."""

    def chains() -> list[set[int]]:
        decisions = made(experts())
        layer = dict(zip(names_of(decisions), layers_of(nets_of(decisions), 4_500_000).tolist(), strict=True))
        return [{layer[f"{part}{at}"] for part in ("weight", "product", "update")} for at in range(EXPERTS)]

    assert [len(one) for one in chains()] == [1] * EXPERTS
    assert len(set.union(*chains())) == EXPERTS
    monkeypatch.setattr("placement.search.gathering.hubs_of", lambda *_: np.zeros(1 + 3 * EXPERTS, bool))
    assert len(set.union(*chains())) < EXPERTS


def test_on_the_cpu_each_device_sends_what_is_its_own() -> None:
    """On a GPU, gradients of three others come over its link and leave over its link, one after the other."""
    problem = experts()
    decisions = made(problem)
    best = {
        int(own.beside.sum()): min(verdict(problem, Plan(one.tolist())).ns for one in packs(decisions, own))
        for own, _ in besides(decisions, [0] * len(problem.ops))
    }
    assert best[1] < best[0] - 3_000_000


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_hubs_are_those_of_the_definition(data: st.DataObject) -> None:
    """A second implementation, over pairs in dictionaries."""
    count = data.draw(st.integers(6, 14))
    names, sizes = [f"n{at}" for at in range(count)], st.sampled_from([None, 0, 10, 10, 12, 60])
    middle = data.draw(st.integers(3, count - 3))
    edges: dict[tuple[str, str], int | None] = {
        (names[a], names[b]): data.draw(sizes)
        for a in range(count)
        for b in range(a + 1, count)
        if middle in (a, b) or data.draw(st.integers(0, 5)) == 0
    }
    on = cluster_of("cgg")
    times = [[data.draw(st.sampled_from([0, 0, 1, 50])), *[data.draw(st.integers(0, 20))] * 2] for _ in names]
    decisions = made(problem_of(tasks(edges, names), on, costs_of(on, times)))
    row = decisions.row[decisions.group].tolist()
    came, left = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for (one, other), nbytes in edges.items():
        came[row[names.index(other)], row[names.index(one)]] += nbytes or 0  # a byte takes a nanosecond
        left[row[names.index(one)], row[names.index(other)]] += nbytes or 0
    for group, hub in enumerate(hubs_of(decisions).tolist()):
        op = int(decisions.ops[decisions.first[group]])
        through = []
        for side in (came, left):
            each = [wire for (mine, _), wire in side.items() if mine == group]
            through.append(sum(each) if sum(each) >= 4 * max(each, default=0) else 0)
        assert hub == (min(through) > max(10 * times[op][0], 0.25 * sum(min(one) for one in times) / 2))
