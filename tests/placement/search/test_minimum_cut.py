"""Minimum cuts: as Stone's assignment to two processors, found by trying them all."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.algorithms.search import search
from placement.effort import Effort
from placement.problem import Problem
from placement.scheduling.ranks import upward_ranks
from placement.search import minimum_cut
from placement.search.decisions import Decisions, decisions_of, wire_times
from placement.search.minimum_cut import for_cpus
from simulator.columns import Flags
from tests.execution.cases import cluster, dags
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks


def total_ns(decisions: Decisions, cpus: Flags, share: float) -> float:
    """The time of all ops and of a share of all transfers, with these groups on the CPU and the others on a device.

    Each op is on the fastest of its devices. What is pinned elsewhere, such as on a parameter server, costs nothing.
    """
    problem, tables = decisions.problem, decisions.problem.tables
    busy = np.flatnonzero(~np.array(problem.cpu))
    home = np.array(problem.home)[busy]
    wire_ns = np.rint((wire_times(problem, busy, home) + wire_times(problem, home, busy)) / 2 * share)
    pins = [allowed[0] for allowed in problem.allowed]
    side = np.array([1 if pin in home else 0 if pin in busy else -1 for pin in pins])
    side[decisions.free] = cpus
    of_op, free = side[decisions.group], decisions.row[decisions.group] >= 0
    slow, fast = (tables.kind_ns[:, tables.kind[some]].min(axis=1) for some in (home, busy))
    edges = zip(tables.edge_tensor.tolist(), tables.consumer.tolist(), strict=True)
    both = {(tensor, of_op[tables.tensor_op[tensor]], of_op[reader]) for tensor, reader in edges}
    crossing = {tensor for tensor, maker, reader in both if {maker, reader} == {0, 1}}
    return float(np.where(of_op, slow, fast)[free & ~tables.instant].sum() + wire_ns[list(crossing)].sum())


TASKS = (
    ("worker:0/CPU:0", "worker:0/GPU:0"),
    ("ps:0/CPU:0", "worker:0/CPU:0", "worker:0/GPU:0", "worker:0/GPU:1"),
    ("ps:0/CPU:0", "worker:0/CPU:0", "worker:0/GPU:0", "worker:1/CPU:0", "worker:1/GPU:0"),
)


@st.composite
def mixed(draw: st.DrawFn) -> Problem:
    """Small steps on CPUs and GPUs of some tasks, any of which may be the fastest for an op; some groups are pinned."""
    graph, names, times = draw(dags(max_nodes=7)), draw(st.sampled_from(TASKS)), st.integers(0, 400)
    on = cluster(names)
    on = replace(
        on,
        devices=tuple(replace(one, kind=name) for one, name in zip(on.devices, names, strict=True)),
        links=tuple(replace(link, latency_ns=draw(st.integers(0, 30))) for link in on.links),
    )
    problem = problem_of(graph, on, costs_of(on, [[draw(times) for _ in names] for _ in range(len(graph))]))
    pins = [draw(st.none() | st.integers(0, len(names) - 1)) if len(names) > 2 else None for _ in problem.allowed]
    allowed = [one if pin is None else (pin,) for one, pin in zip(problem.allowed, pins, strict=True)]
    return replace(problem, allowed=allowed)


@settings(deadline=None, max_examples=50)
@given(mixed())
def test_no_other_set_of_groups_takes_less_time_in_all(problem: Problem) -> None:
    decisions = decisions_of(problem, upward_ranks(problem), 0)
    count = len(decisions.free)
    every = [np.array(one, bool) for one in product([False, True], repeat=count)]
    masks = [*for_cpus(decisions), np.zeros(count, bool)]  # the last one where a cut leaves nothing to the CPU
    for share in (1.0, 0.25):
        least = min(total_ns(decisions, one, share) for one in every)
        assert any(total_ns(decisions, one, share) == least for one in masks)


@settings(deadline=None, max_examples=25)
@given(mixed())
def test_the_dearer_a_cpu_is_the_less_comes_to_it(problem: Problem) -> None:
    """Whichever kinds of devices share it: minimum cuts are nested in a price (Gallo, Grigoriadis, Tarjan 1989)."""
    decisions = decisions_of(problem, upward_ranks(problem), 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minimum_cut, "_SHARES", (1.0,))
        found = list(for_cpus(decisions))
    for cheaper, dearer in pairwise(found):
        assert not (dearer & ~cheaper).any()
        assert dearer.sum() < cheaper.sum()


def decay(count: int) -> tuple[Problem, list[str]]:
    """An update of a variable, and so many small ops before it: a GPU takes 7 us for each op, a CPU 1 us; and names.

    A transfer takes 100 us, so no small op pays for one of its own.
    """
    small = [f"scalar{at}" for at in range(count)]
    edges: dict[tuple[str, str], int | None] = dict.fromkeys(pairwise(small), 4)
    edges |= {(small[-1], "update"): 4, ("gradient", "update"): 4}
    names, on = [*small, "gradient", "update"], cluster_of("cg", latency_ns=100_000)
    times = [[1_000, 7_000]] * count + [[10**8, 7_000]] * 2
    return problem_of(tasks(edges, names), on, costs_of(on, times)), names


@pytest.mark.parametrize(("count", "masks"), [(3, 0), (30, 1)])
def test_small_ops_come_to_the_cpu_all_at_once(count: int, masks: int) -> None:
    problem, names = decay(count)
    found = for_cpus(decisions_of(problem, upward_ranks(problem), 0))
    assert [one.tolist() for one in found] == [[name.startswith("scalar") for name in names]] * masks


def test_what_has_to_be_on_the_device_parts_them() -> None:
    """Those before it pay for one transfer, those after it would pay for two."""
    problem, names = decay(41)
    kept = names.index("scalar20")
    pinned = replace(problem, allowed=[(1,) if group == kept else one for group, one in enumerate(problem.allowed)])
    decisions = decisions_of(pinned, upward_ranks(pinned), 0)
    found = next(for_cpus(decisions))
    assert [names[group] for group in decisions.free[found]] == names[:kept]


def test_a_parameter_server_draws_nothing_to_the_cpu_beside_a_device() -> None:
    """It is as far from both."""
    graph, on = tasks({("weights", "read"): 1000}), cluster(TASKS[1])
    on = replace(on, devices=tuple(replace(one, kind=one.short) for one in on.devices))
    problem = problem_of(graph, on, costs_of(on, [[9, 9, 9, 9], [9, 6, 5, 5]]))
    problem = replace(problem, allowed=[(0,), problem.allowed[1]])
    assert list(for_cpus(decisions_of(problem, upward_ranks(problem), 0))) == []


def test_a_search_finds_them() -> None:
    problem, names = decay(200)
    found = search(replace(problem, effort=Effort(judged=12))).device
    assert [names[group] for group, device in enumerate(found) if device == 1] == ["gradient", "update"]


def test_cpus_get_as_much_as_each_of_their_devices() -> None:
    """A CPU is faster by 1 to 100 ns for each of 100 ops, but four devices share it.

    With m ops for them the CPU has 10 (100 - m) ns, a device a quarter of 10 m + m (m + 1) / 2 ns. That is even between
    52 and 53 ops, at 480 and 475 or 470 and 490 ns.
    """
    count, on = 100, cluster_of("cgggg")
    times = [[10, *[10 + faster] * 4] for faster in range(1, count + 1)]
    problem = problem_of(tasks({}, [f"task{at}" for at in range(count)]), on, costs_of(on, times))
    found = list(for_cpus(decisions_of(problem, upward_ranks(problem), 0)))
    assert found[0].all()  # the least time in all
    longest = [
        max(10 * one.sum(), sum(of[1] for of, cpu in zip(times, one, strict=True) if not cpu) / 4) for one in found
    ]
    assert 480 <= min(longest) <= 480 * 1.05
    # At a price p the ops stay that are slower by more than 10 p - 10 ns on a device. Prices between are p to the 4 to
    # 7 eighths, of the last one.
    sizes = [int(one.sum()) for one in found]
    price = (110 - sizes[-1]) / 10
    assert sizes[1:-1] == pytest.approx([110 - 10 * price ** (eighths / 8) for eighths in (4, 5, 6, 7)], abs=1.5)
    assert all(one.tolist() == sorted(one.tolist()) for one in found)  # those that are slowest on devices stay
