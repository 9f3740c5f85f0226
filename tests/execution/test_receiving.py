"""Late Recvs: worked by hand, lawful on any graph, never slower and never higher, and what the times allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.costs.table import CostTable
from simulator.errors import GraphError
from simulator.execution.critical import latest_ends
from simulator.execution.laws import check_trace
from simulator.execution.options import SimulationOptions
from simulator.execution.receiving import Received, copies_held, receive_late
from simulator.execution.simulate import simulate
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.partitioning.cut import partition
from simulator.partitioning.laws import partition_laws
from simulator.partitioning.levels import FLAVOURS
from simulator.partitioning.partitions import Partitions, with_waits
from tests.execution.cases import apart, assigned, costs, dags, steps, whole, worlds
from tests.execution.test_engine import story
from tests.partitioning.cases import random_graph
from tests.strategies import BOOL, Rows, graphs, shapes_attr, type_attr, typed


def running(
    on: Cluster, priced: CostTable, how: SimulationOptions = SimulationOptions()
) -> Callable[[Partitions], Trace]:
    return lambda pieces: simulate(pieces, on, priced, how)


def layers(count: int, *, size: int = 25) -> Graph:
    """A chain of sums, each with a variable of its own, read as vr1, vr2, ..."""
    draft = Rows()
    state = typed("VariableV2", (size,))
    state["shape"].shape.dim.add(size=size)  # which TensorFlow compares with the other
    draft.add("h", "VariableV2", **state)
    last = "h"
    for at in range(1, count + 1):
        draft.add(f"v{at}", "VariableV2", **state)
        draft.add(f"vr{at}", "Identity", [f"v{at}"], **typed("Identity", (size,)))
        last = draft.add(f"m{at}", "AddV2", [last, f"vr{at}"], **typed("AddV2", (size,)))
    return draft.built()


def served(count: int, *, run_ns: int = 1000, size: int = 25) -> tuple[Received, Cluster, Graph]:
    """The layers on a worker, task 1, and their variables on a server, task 0; reading a variable takes no time."""
    graph, on = layers(count, size=size), apart(2)
    rows = [0 if name.startswith("v") else 1 for name in graph.names]
    priced = costs(graph, on, [0 if name.startswith("v") else run_ns for name in graph.names])
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=whole(graph))
    return receive_late(pieces, on, running(on, priced)), on, graph


def lives(trace: Trace, pieces: Partitions) -> dict[str, tuple[int, int]]:
    """When each received copy is held."""
    held = trace.allocations
    assert held is not None
    rows = np.flatnonzero(held.transfer >= 0).tolist()
    return {
        pieces.graph.tensor_name(int(held.tensor[row])): (int(held.start_ns[row]), int(held.end_ns[row]))
        for row in rows
    }


def test_copies_come_one_layer_before_they_are_read() -> None:
    found, _, _ = served(4)
    # all four are asked for at 0 and come one after the other, 100 ns of bytes each; h and every sum take 1000 ns;
    # all sums are written over the first copy
    assert lives(found.without, found.cut) == {
        "vr1:0": (0, 5000),
        "vr2:0": (100, 3000),
        "vr3:0": (200, 4000),
        "vr4:0": (300, 5000),
    }
    # v1 is needed at 1000, and nothing on the worker ends before; each other one comes while the layer before runs
    assert lives(found.trace, found.partitions) == {
        "vr1:0": (0, 5000),
        "vr2:0": (1000, 3000),
        "vr3:0": (2000, 4000),
        "vr4:0": (3000, 5000),
    }
    waits = [found.partitions.graph.inputs_of(row) for row in found.partitions.recv.tolist()]
    assert waits == [(), ("^h",), ("^m1",), ("^m2",)]
    assert found.trace.makespan == found.without.makespan == 5000
    # at 1000: four copies; then the sum, the copy that is read and the one that comes
    assert (found.without.peak_bytes[1], found.trace.peak_bytes[1]) == (400, 300)
    assert copies_held(found.without) == 100 * (5000 + 2900 + 3800 + 4700)
    assert copies_held(found.trace) == 100 * (5000 + 3 * 2000)


@pytest.mark.parametrize("count", [3, 8, 20])
def test_the_peak_of_a_worker_no_longer_grows_with_its_layers(count: int) -> None:
    found, _, _ = served(count, run_ns=10_000)
    assert found.without.peak_bytes[1] == 100 * count
    assert found.trace.peak_bytes[1] == 300
    assert found.trace.makespan == found.without.makespan


def test_what_costs_time_is_not_done() -> None:
    found, _, _ = served(4, run_ns=100)  # the wire is busy throughout: every copy is late
    assert found.trace.makespan == found.without.makespan
    assert found.partitions is found.cut
    assert len(found.delayed) == 0


def test_a_recv_that_waits_already_stays_as_it_is() -> None:
    found, on, graph = served(4)
    again = receive_late(found.partitions, on, running(on, costs(graph, on, 1000)))
    assert set(again.delayed.tolist()).isdisjoint(found.delayed.tolist())


@pytest.mark.parametrize("spoilt", ["vr2", "vr3", "vr4"])
def test_a_recv_whose_delay_costs_time_is_left_out_and_the_others_wait(spoilt: str) -> None:
    plain, on, graph = served(4)
    cut, names = plain.cut, [plain.cut.graph.inputs_of(row)[0] for row in plain.cut.send.tolist()]
    victim = int(cut.recv[names.index(spoilt)])
    run = running(on, costs(graph, on, [0 if name.startswith("v") else 1000 for name in graph.names]))

    def grudging(pieces: Partitions) -> Trace:
        trace = run(pieces)
        return replace(trace, makespan=trace.makespan + 1) if pieces.graph.inputs_of(victim) else trace

    found = receive_late(cut, on, grudging)
    assert [names[row] for row in found.delayed.tolist()] == [name for name in ("vr2", "vr3", "vr4") if name != spoilt]
    assert found.trace.makespan == found.without.makespan


def test_no_more_is_simulated_than_allowed() -> None:
    plain, on, graph = served(4)
    run, count = running(on, costs(graph, on, [0 if name.startswith("v") else 1000 for name in graph.names])), 0

    def counting(pieces: Partitions) -> Trace:
        nonlocal count
        count += 1
        trace = run(pieces)
        return replace(trace, makespan=trace.makespan + count)  # each is worse than the one before

    found = receive_late(plain.cut, on, counting, trials=3)
    assert count == 4
    assert found.partitions is plain.cut
    assert len(found.delayed) == 0


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_layers_of_any_size_and_speed_never_hold_more(data: st.DataObject) -> None:
    """On a wire for each pair of devices, or one for all; every copy that may come later does."""
    count = data.draw(st.integers(2, 8))
    graph = layers(count, size=data.draw(st.integers(1, 500)))
    on = apart(2, shared=data.draw(st.booleans()), lanes=data.draw(st.integers(1, 2)))
    rows = [0 if name.startswith("v") else 1 for name in graph.names]
    took = [0 if name.startswith("v") else data.draw(st.integers(1, 5000)) for name in graph.names]
    priced = costs(graph, on, took, scratch=[data.draw(st.sampled_from([0, 100])) for _ in took])
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=whole(graph))
    found = receive_late(pieces, on, running(on, priced))
    assert found.trace.makespan == found.without.makespan
    assert (found.trace.peak_bytes <= found.without.peak_bytes).all()
    assert copies_held(found.trace) <= copies_held(found.without)
    if len(found.delayed):
        assert copies_held(found.trace) < copies_held(found.without)


def test_nobody_waits_for_what_may_not_run() -> None:
    """Neither for a branch, nor for what comes after a Merge, which may be early one day and late the next."""
    draft = Rows()
    draft.add("p", "Placeholder", dtype=type_attr(BOOL), _output_shapes=shapes_attr(()))
    draft.add("h", "VariableV2", **typed("VariableV2", (25,)))
    draft.add("s", "Switch", ["h", "p"], T=type_attr(), _output_shapes=shapes_attr((25,), (25,)))
    draft.add("a", "Neg", ["s"], **typed("Neg", (25,)))
    draft.add("b", "Neg", ["s:1"], **typed("Neg", (25,)))
    draft.add("m", "Merge", ["a", "b"], N=AttrValue(i=2), T=type_attr(), _output_shapes=shapes_attr((25,), ()))
    draft.add("c", "Neg", ["m"], **typed("Neg", (25,)))
    draft.add("v", "VariableV2", **typed("VariableV2", (25,)))
    draft.add("vr", "Identity", ["v"], **typed("Identity", (25,)))
    draft.add("d", "AddV2", ["c", "vr"], **typed("AddV2", (25,)))
    graph, on = draft.built(), apart(2)
    rows = [0 if name in ("p", "v", "vr") else 1 for name in graph.names]
    priced = costs(graph, on, [0 if name in ("v", "vr") else 1000 for name in graph.names])
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=whole(graph))
    found = receive_late(pieces, on, running(on, priced))
    late = found.partitions.graph
    assert [late.inputs_of(int(found.partitions.recv[row])) for row in found.delayed.tolist()] == [("^h",)]


def looping(seed: int) -> tuple[Received, Cluster, list[str]]:
    """Random loops across three devices, three times round each, with late Recvs; the laws that the pieces break."""
    graph, devices = random_graph(seed, 3, loops=2)
    on, step = apart(3), whole(graph)
    assignment, priced = assigned(on, devices), costs(graph, on, [7 * row % 11 * 100 for row in range(len(graph))])
    pieces = partition(graph, assignment, on, step=step)
    found = receive_late(pieces, on, lambda cut: simulate(cut, on, priced, SimulationOptions(trips={"*": 3})))
    return found, on, partition_laws(graph, step, on, assignment, found.partitions)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_outside_of_loops_may_wait_and_what_is_inside_stays(seed: int) -> None:
    found, on, broken = looping(seed)
    assert broken == []
    assert check_trace(found.trace, found.partitions, on) == []
    assert found.trace.makespan <= found.without.makespan
    often = np.bincount(found.without.transfers.row, minlength=len(found.cut.send)) > 1
    assert not often[found.delayed].any()


def test_some_of_them_do_wait() -> None:
    assert sum(len(looping(seed)[0].delayed) for seed in range(3)) > 0


def test_only_nodes_of_one_device_wait_for_each_other() -> None:
    found, _, _ = served(2)
    graph = found.cut.graph
    with pytest.raises(GraphError, match="is on another device"):
        with_waits(found.cut, [(graph.row("vr1"), graph.row("m1"))])
    with pytest.raises(GraphError):
        with_waits(found.cut, [(graph.row("m2"), graph.row("m1"))])


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_late_recvs_are_lawful_never_slower_and_never_higher(data: st.DataObject) -> None:
    graph = data.draw(st.one_of(graphs(), dags()))
    on, priced, rows, how = data.draw(worlds(graph))
    step, assignment = data.draw(steps(graph)), assigned(on, rows)
    pieces = partition(graph, assignment, on, step=step, flavour=data.draw(st.sampled_from(FLAVOURS)))
    found = receive_late(pieces, on, running(on, priced, how))
    assert partition_laws(graph, step, on, assignment, found.partitions) == []
    assert check_trace(found.trace, found.partitions, on) == []
    assert found.trace.makespan <= found.without.makespan
    assert (found.trace.peak_bytes <= found.without.peak_bytes).all()
    assert copies_held(found.trace) <= copies_held(found.without)
    assert simulate(found.partitions, on, priced, how).makespan == found.trace.makespan
    cut, late = pieces.graph, found.partitions.graph
    changed = [row for row in range(len(cut)) if cut.inputs_of(row) != late.inputs_of(row)]
    assert changed == sorted(pieces.recv[found.delayed].tolist())


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_recv_may_wait_for_a_send(engine: str) -> None:
    """TensorFlow's rule lets the Recv of `k`, read after a long way round, wait for the Send of `r` to go that way."""
    hops = [f"Neg a{at - 1}" if at else "Neg r" for at in range(60)]
    way = [f"a{at} = {made}" for at, made in enumerate(hops)]
    graph, on = story("x = Const", "r = Neg x", *way, "k = Const", "s = AddN a59 k").built(), apart(2)
    rows = [int(name not in ("x", "r", "s")) for name in graph.names]
    placed = assigned(on, rows)
    pieces = partition(graph, placed, on, legal=False, step=whole(graph), flavour="master", recv_scheduling=True)
    trace = simulate(pieces, on, costs(graph, on, 10), SimulationOptions(engine=engine))
    assert check_trace(trace, pieces, on) == []
    assert min(trace.moments.asked_ns) == 10


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_latest_times_lie_between_the_end_and_the_makespan_and_what_is_critical_has_no_slack(
    data: st.DataObject,
) -> None:
    graph = data.draw(st.one_of(graphs(), dags()))
    on, priced, rows, how = data.draw(worlds(graph))
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=data.draw(steps(graph)))
    trace = simulate(pieces, on, priced, how)
    latest = latest_ends(trace.tasks)
    assert (trace.tasks.end_ns <= latest).all()
    assert (latest <= trace.makespan).all()
    assert trace.critical is not None
    assert (latest[trace.critical] == trace.tasks.end_ns[trace.critical]).all()
