"""Plans: placement's estimate of a transfer, and a verdict that is the simulator's."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.algorithms.heft import heft, schedule
from placement.algorithms.single import single
from placement.algorithms.whitepaper import whitepaper
from placement.placing import place
from placement.plan import Plan, makespan, verdict
from placement.problem import NEVER
from placement.scheduling.insertion import by_start
from placement.scheduling.ranks import upward_ranks
from simulator.cluster.cluster import Cluster
from simulator.cluster.contention import CONTENTIONS
from simulator.cluster.protocols import Protocol
from simulator.columns import ints
from simulator.execution.options import ORDERS, SimulationOptions
from simulator.execution.simulate import simulate
from simulator.partitioning.cut import partition
from tests.execution.loops.cases import counting
from tests.placement.problems import cluster_of, costs_of, problem_of, tasks, whole
from tests.strategies import Rows, typed

PACKED = Protocol("packed", 0, 30, 40, 500, 1250)  # 82 ns of work for 4 bytes at the sender, 85 at the receiver


def tasks_of(types: str, protocol: Protocol, **options: Any) -> Cluster:
    """As `cluster_of`, but each device is a task of its own."""
    on = cluster_of(types, **options)
    devices = tuple(
        replace(device, name=f"/job:w/replica:0/task:{row}/device:CPU:0", host=f"h{row}")
        for row, device in enumerate(on.devices)
    )
    return replace(on, devices=devices, between_tasks=protocol)


@given(
    st.builds(
        Protocol,
        st.just("p"),
        *[st.integers(0, 90)] * 3,
        *[st.integers(0, 3000)] * 2,
        latency_ns=st.integers(0, 90),
    ),
    st.integers(0, 10**6),
)
def test_a_lone_transfer_takes_what_placement_thinks(protocol: Protocol, nbytes: int) -> None:
    on = tasks_of("cc", protocol, latency_ns=7)
    problem = problem_of(tasks({("a", "b"): nbytes}), on, costs_of(on, [(200, 200), (5, 5)]))
    stays, moves = problem.transfers_ns(0, nbytes)
    assert stays == 0
    # the request, of at most 90 ns, has arrived long before a's value is there
    assert makespan(problem, Plan([0, 1], [0, 0])) == 200 + moves + 5


def test_where_no_way_leads_nothing_arrives() -> None:
    on = replace(cluster_of("cc"), routes=(((), None), ((0,), ())))
    problem = problem_of(tasks({("a", "b"): 3}), on, costs_of(on, [(1, 1)] * 2))
    assert [problem.transfers_ns(row, 3) for row in range(2)] == [[0, NEVER], [3, 0]]


@pytest.mark.parametrize("algorithm", [whitepaper, heft])
def test_the_work_of_packing_can_keep_a_value_where_it_is(algorithm: Callable[..., Any]) -> None:
    graph = tasks({("a", "b"): 4})
    for protocol, device in ((Protocol("plain"), [0, 1]), (PACKED, [0, 0])):
        on = tasks_of("cc", protocol)
        problem = problem_of(graph, on, costs_of(on, [(1, 900), (60, 1)]))
        assert algorithm(problem).device == device


def test_ranks_count_packing_and_unpacking() -> None:
    graph = tasks({("a", "b"): 4})
    for protocol, between in ((Protocol("plain"), 4), (PACKED, 4 + 30 + 40 + 2 + 5)):
        on = tasks_of("cc", protocol)
        assert upward_ranks(problem_of(graph, on, costs_of(on, [(1, 1), (10, 10)])))[0] == (1 + between + 10) * 1000


@pytest.mark.parametrize(("contention", "used"), [("none", "whitepaper"), ("serial", "single"), ("fair", "single")])
def test_plans_are_judged_by_the_contention_of_the_simulation(contention: str, used: str) -> None:
    # four values of 25 ns each leave together: alone they are fast, over one link slower than two lanes of the CPU
    graph = tasks({("a", f"b{row}"): 25 for row in range(4)})
    on = cluster_of("cgggg", shared=True, lanes=2)
    costs = costs_of(on, [(1, *[200] * 4), *[(30, *[1] * 4)] * 4])
    assert (
        place(
            graph,
            on,
            costs,
            options=SimulationOptions(contention=contention),
            step=whole(graph),
            algorithm="whitepaper",
        ).used
        == used
    )


def test_priorities_are_given_only_where_the_order_heeds_them() -> None:
    graph = tasks({("a", "b"): None, ("c", "d"): None, ("e", "f"): None})
    on = cluster_of("c")
    costs = costs_of(on, [(time,) for time in (9, 1, 1, 9, 5, 5)])
    for order in ("fifo", "tensorflow"):
        placed = place(graph, on, costs, options=SimulationOptions(order=order), step=whole(graph), algorithm="heft")
        assert placed.priority is None


@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(1, 90), st.integers(1, 90)), min_size=6, max_size=6),
    st.sampled_from(CONTENTIONS),
    st.sampled_from(ORDERS),
)
def test_the_single_device_is_the_best_one_whatever_the_order_and_contention(
    times: Sequence[tuple[int, int, int]], contention: str, order: str
) -> None:
    edges = {("a", "b"): 9, ("a", "c"): 50, ("b", "d"): 30, ("c", "e"): 7, ("d", "f"): 3, ("e", "f"): 80}
    on = tasks_of("ccc", PACKED, shared=True)
    problem = problem_of(tasks(edges), on, costs_of(on, times), options=SimulationOptions(order, contention))
    alone = [makespan(problem, Plan([device] * 6, [0] * 6)) for device in range(3)]
    assert makespan(problem, single(problem)) == min(alone)


@given(st.integers(0, 999), st.integers(1, 4), st.sampled_from(CONTENTIONS))
def test_an_order_is_judged_as_it_will_run_though_a_node_runs_again_and_again(
    seed: int, trips: int, contention: str
) -> None:
    rows = Rows()
    rows.add("x", "Const", device="/cpu:0", **typed("Const", ()))
    counting(rows, "loop", "x", trips, device="/cpu:0")
    for name in ("a", "b", "c"):
        rows.add(name, "Neg", ["x"], device="/cpu:0", **typed("Neg", ()))
        rows.add(f"{name}/next", "Neg", [name], **typed("Neg", ()))
    graph, on = rows.built(), cluster_of("cc")
    draw = np.random.default_rng(seed)
    costs = costs_of(on, draw.integers(1, 900, (len(graph), 2)).tolist())
    order = draw.permutation(len(graph)).tolist()
    problem = problem_of(graph, on, costs, options=SimulationOptions(contention=contention))
    placed = place(
        graph,
        on,
        costs,
        options=SimulationOptions(contention=contention),
        step=whole(graph),
        algorithm="heft",
        fallback=False,
    )
    pieces = partition(graph, replace(placed, priority=ints(order)), on, step=whole(graph))
    plan = replace(heft(problem), priority=order)
    assert makespan(problem, plan) == simulate(pieces, on, costs, SimulationOptions(contention=contention)).makespan


def test_in_a_loop_a_node_has_the_place_of_its_first_iteration() -> None:
    rows = Rows()
    rows.add("x", "Const", **typed("Const", ()))
    counting(rows, "loop", "x", 3)
    graph, on = rows.built(), cluster_of("c")
    problem = problem_of(graph, on, costs_of(on, [(10,)] * len(graph)))
    tables, start = problem.tables, schedule(problem).start
    first: dict[int, tuple[int, int]] = {}
    for op in np.flatnonzero(~tables.instant).tolist():
        first[tables.node[op]] = min((start[op], op), first.get(tables.node[op], (NEVER, op)))
    assert len(first) < (~tables.instant).sum()
    place_of = by_start(problem, start)
    assert sorted(first, key=first.__getitem__) == sorted(first, key=place_of.__getitem__)
    assert {place_of[node] for node in range(len(graph)) if node not in first} == {len(tables)}


@pytest.mark.parametrize("room", [2**40, 400])
def test_plans_are_judged_alike_by_either_engine(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    graph = tasks({("a", "b"): 90, ("a", "c"): 50, ("b", "d"): 300, ("c", "d"): 70})
    on = cluster_of("ccc", memory=(room,) * 3)
    problem = problem_of(graph, on, costs_of(on, [(5, 7, 9)] * 4))
    plans = [Plan(list(device), [0] * 4) for device in itertools.product(range(3), repeat=4)]
    plans += [replace(plan, priority=[3, 1, 2, 0]) for plan in plans]
    verdicts = {}
    for compiled in (True, False):
        monkeypatch.setattr("placement.plan.choose", lambda engine, events, compiled=compiled: compiled)
        verdicts[compiled] = [verdict(problem, plan) for plan in plans]
    assert verdicts[True] == verdicts[False]
    assert {over for over, _ in verdicts[True]} == {False, room == 400}


def test_twins_that_talk_by_another_protocol_are_tried_both() -> None:
    # "fixed" runs on device 0 alone; device 1 is of its task, device 2 of another
    graph = replace(tasks({("fixed", "free"): 100}, ["fixed", "free"]), requested=("/task:0/cpu:0", ""))
    on = tasks_of("ccc", PACKED)
    first, near, far = on.devices[0], "/job:w/replica:0/task:0/device:CPU:1", on.devices[2].name
    for names, best in (((far, near), 2), ((near, far), 1)):
        twins = [replace(on.devices[1], name=name) for name in names]
        cluster = replace(on, devices=(first, *twins))
        placed = place(graph, cluster, costs_of(cluster, [(1, 1), (900, 1)]), step=whole(graph), algorithm="single")
        assert placed.device.tolist() == [0, best]
