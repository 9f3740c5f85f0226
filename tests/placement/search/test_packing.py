"""Layers packed into devices: balance by Graham's bound, what they exchange by hand, and experts found whole."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.problem import Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.compiled import packed
from placement.search.decisions import decisions_of
from placement.search.gathering import bins_of, nets_of
from placement.search.order_cuts import ground
from placement.search.packing import SHARE_BITS, Bins, pack
from placement.search.starts import packs
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks


def step_of(work: list[int]) -> Problem:
    """A step of ops that exchange nothing."""
    on = cluster_of("gg")
    return problem_of(
        tasks({}, [f"task{at}" for at in range(len(work))]), on, costs_of(on, [[each] * 2 for each in work])
    )


@settings(deadline=None, max_examples=35)
@given(st.lists(st.integers(1, 50), min_size=2, max_size=7), st.integers(2, 3))
def test_no_bin_has_much_more_than_in_the_best_packing(work: list[int], count: int) -> None:
    """At most 4/3 - 1/(3 k) times as much: Graham 1969, theorem 2."""
    made = decisions_of((problem := step_of(work)), upward_ranks(problem), 0)
    layer, beside = np.arange(len(work)), np.zeros(len(work), bool)
    (chosen,) = bins_of(nets_of(made), layer, beside, np.ones(count), [0.0])
    found = np.bincount(chosen, work, count).max()
    best = min(np.bincount(one, work, count).max() for one in product(range(count), repeat=len(work)))
    assert best <= found <= best * (4 / 3 - 1 / (3 * count))


def test_a_slow_device_gets_less() -> None:
    made = decisions_of((problem := step_of([10] * 12)), upward_ranks(problem), 0)
    (chosen,) = bins_of(nets_of(made), np.arange(12), np.zeros(12, bool), np.array([1.0, 2.0]), [0.0])
    assert np.bincount(chosen).tolist() == [8, 4]


@pytest.mark.parametrize("slower", [2, 3, 5])
def test_kinds_of_devices_on_one_cpu_get_layers_by_their_speed(slower: int) -> None:
    """A device that takes so many times as long gets that much less, and the CPU beside them nothing."""
    count, on = 6 * (slower + 1), cluster_of("cgg")
    graph = tasks({}, [f"task{at}" for at in range(count)])
    problem = problem_of(graph, on, costs_of(on, [[10_000, 10, 10 * slower]] * count))
    made = decisions_of(problem, upward_ranks(problem), 0)
    first = next(packs(made, ground(made, [0] * count)))
    assert np.bincount(first).tolist() == [0, 6 * slower, 6]


def test_layers_that_exchange_much_come_together() -> None:
    """By work alone a comes with c, whose work is the least; pulled, it comes with b, to which it hands 90 bytes."""
    edges: dict[tuple[str, str], int | None] = {("a", "b"): 90, ("c", "d"): 90}
    on = cluster_of("gg")
    work = [[103] * 2, [100] * 2, [101] * 2, [102] * 2]
    problem = problem_of(tasks(edges, ["a", "c", "b", "d"]), on, costs_of(on, work))
    nets = nets_of(decisions_of(problem, upward_ranks(problem), 0))
    alone, pulled = (one.tolist() for one in bins_of(nets, np.arange(4), np.zeros(4, bool), np.ones(2), [0.0, 3.0]))
    assert (alone, pulled) == ([0, 0, 1, 1], [0, 1, 0, 1])


@settings(deadline=None, max_examples=35)
@given(st.data())
def test_machine_code_finds_the_same(data: st.DataObject) -> None:
    groups, count = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 4))
    numbers = st.integers(0, groups - 1)
    edges = {(f"t{min(a, b)}", f"t{max(a, b)}") for a, b in data.draw(st.sets(st.tuples(numbers, numbers))) if a != b}
    on = cluster_of("gg")
    graph = tasks({edge: data.draw(st.integers(0, 99)) for edge in sorted(edges)}, [f"t{at}" for at in range(groups)])
    problem = problem_of(graph, on, costs_of(on, [[data.draw(st.integers(0, 99))] * 2 for _ in range(groups)]))
    nets = nets_of(decisions_of(problem, upward_ranks(problem), 0))
    layers = data.draw(st.integers(1, groups))
    layer = np.sort(np.arange(groups) % layers)
    first = np.searchsorted(layer, np.arange(layers + 1))
    work = np.bincount(layer, nets.work_ns, layers).astype(np.int64)
    share = data.draw(st.integers(0, 3 << SHARE_BITS))
    beside = np.array(data.draw(st.lists(st.integers(0, 1), min_size=groups, max_size=groups)))

    def found(by: object) -> list[list[int]]:
        bins = Bins(
            layer=layer,
            beside=beside,
            order=np.argsort(-work, kind="stable"),
            first=first,
            member=np.arange(groups),
            work_ns=work,
            slow=np.full(count, 1 << SHARE_BITS),
            load_ns=np.zeros(count, np.int64),
            pull_ns=np.zeros(count, np.int64),
            chosen=np.full(layers, -1),
        )
        by(nets, bins, share)  # type: ignore[operator]
        return [one.tolist() for one in (bins.chosen, bins.load_ns, bins.pull_ns)]

    assert found(pack) == found(packed)


@pytest.mark.parametrize("experts", [3, 4])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_experts_come_to_devices_as_they_are(experts: int, seed: int | None) -> None:
    """Experts that share an input and a sum: one on each device, also where they are listed in another order."""
    edges: dict[tuple[str, str], int | None] = {}
    for expert in range(experts):
        edges["input", f"up_{expert}"] = 10
        edges[f"up_{expert}", f"down_{expert}"] = 900
        edges[f"down_{expert}", "sum"] = 10
        edges[f"down_{expert}", f"update_{expert}"] = 900
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    if seed is not None:
        names = [names[at] for at in np.random.default_rng(seed).permutation(len(names)).tolist()]
    on = cluster_of("g" * experts)
    times = [[1 if name in ("input", "sum") else 1000] * experts for name in names]
    problem = problem_of(tasks(edges, names), on, costs_of(on, times))
    made = decisions_of(problem, upward_ranks(problem), 0)
    places = [
        {
            frozenset(name for name, at in zip(names, device, strict=True) if at == one and "_" in name)
            for one in range(experts)
        }
        for device in packs(made, ground(made, [0] * len(problem.ops)))
    ]
    assert {frozenset(f"{part}_{one}" for part in ("up", "down", "update")) for one in range(experts)} in places
