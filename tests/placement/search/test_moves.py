"""Moves of a walk: they go where groups may go, and of placements that are as quick the one with less work is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from placement.algorithms.search import search
from placement.effort import Effort
from placement.problem import Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.decisions import decisions_of
from placement.search.judge import Judge
from placement.search.moves import ACCEPTED, PER_BYTE, TRIED
from placement.search.walk import CycleKind, Progress, Walker
from simulator.execution.choosing import load
from simulator.execution.flattening import workspace
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks


@contextmanager
def walking(problem: Problem) -> Iterator[Walker]:
    """A walk over the problem, with a budget that does not end it."""
    made = decisions_of(problem, upward_ranks(problem), 0)
    with workspace(problem.tables, problem.options.contention) as own:
        yield Walker(Judge(made, own, load().play, Effort(judged=10**9)), made, 0)


def chains(devices: int) -> Problem:
    """Two chains of ten ops on a cluster of so many devices, of which each op may use the first two."""
    cluster = cluster_of("g" * devices)
    names = [f"{chain}{at}" for chain in "ab" for at in range(10)]
    edges: dict[tuple[str, str], int | None] = {
        (f"{chain}{at}", f"{chain}{at + 1}"): 10 for chain in "ab" for at in range(9)
    }
    made = problem_of(tasks(edges, names), cluster, costs_of(cluster, [[100] * devices] * len(names)))
    return replace(made, allowed=[(0, 1)] * len(made.allowed))


def walked(devices: int) -> tuple[list[int], list[int], int]:
    """The counts, the placement and the first length of a cycle on so many devices."""
    with walking(chains(devices)) as walker:
        start = walker.judge.judge("by hand", [0] * len(walker.decisions.problem.allowed))
        best = walker.cycle(start, 1000, CycleKind(10), Progress())
        return walker.walk.counts.tolist(), best.device.tolist(), walker.first


def test_devices_that_no_group_may_use_change_no_walk() -> None:
    """Nearly all moves led to them, so a search of a pinned graph on a large cluster took tens of seconds."""
    few, many = walked(2), walked(40)
    assert few == many
    assert few[0][TRIED] > 1000 > few[0][ACCEPTED] > 0


def test_of_placements_that_are_as_quick_the_one_with_less_work_is_kept() -> None:
    """Twenty short ops, ten times as slow on the first device, wait for nothing, and nothing waits for them."""
    cluster, names = cluster_of("ggg"), [f"short{at}" for at in range(20)]
    times = [[100, 10, 10_000]] * 20 + [[10_000, 10_000, 5_000]]
    problem = problem_of(tasks({}, [*names, "long"]), cluster, costs_of(cluster, times))
    plan = search(replace(problem, effort=Effort()))
    where = dict(zip(problem.tables.names, np.array(plan.device)[problem.group].tolist(), strict=True))
    assert where == {**dict.fromkeys(names, 1), "long": 2}


def test_what_a_device_lacks_costs_as_much_beside_a_large_host() -> None:
    """With a price by the memory of the host a walk lost itself in placements that were quick and far too full."""
    prices = []
    for host_bytes in (10**6, 10**12):
        cluster = cluster_of("cgg", memory=[host_bytes, 1_000, 2_000])
        costs = costs_of(cluster, [[900, 100, 100]] * 3, [800] * 3)
        with walking(problem_of(tasks({("a", "b"): 10, ("b", "c"): 10}), cluster, costs)) as walker:
            start = walker.judge.judge("by hand", [0] * len(walker.decisions.problem.allowed))
            walker.cycle(start, 1, CycleKind(10), Progress())
            prices.append(int(walker.walk.rules[PER_BYTE]))
    assert prices[0] == prices[1] > 0
