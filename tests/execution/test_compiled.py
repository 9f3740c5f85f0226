"""The compiled loop says what the plain one says, bit for bit."""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.contention import CONTENTIONS
from simulator.columns import ids, ints
from simulator.errors import ClusterError, DeadlockError, InfeasibleError, SimvizError
from simulator.execution import engine
from simulator.execution.arrays import CODES, INFINITE, SAFE_BYTES
from simulator.execution.compiled.engine import play
from simulator.execution.discipline import discipline
from simulator.execution.evaluate import evaluate, evaluate_with_peaks
from simulator.execution.flattening import laid_out, workspace
from simulator.execution.lifetimes import allocations, usage
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import Prepared, prepare
from simulator.execution.simulate import simulate
from simulator.execution.tables import Tables, of_partitions, of_step
from simulator.execution.trace import Kind, TraceTasks
from simulator.execution.transfers import transfers_of
from simulator.graph.graph import Graph
from simulator.partitioning.cut import partition
from tests.execution.cases import (
    CLUSTERS,
    CORES,
    PROTOCOLS,
    apart,
    assigned,
    attrs_of,
    cluster,
    costs,
    crowded,
    dags,
    routed,
    runs,
    steps,
    whole,
    with_cores,
    worlds,
)
from tests.partitioning.cases import random_graph
from tests.strategies import Rows, graphs

FIELDS = [field.name for field in dataclasses.fields(TraceTasks) if field.name != "devices"]


def check_equal(
    tables: Tables, device: Any, priority: Any = None, options: SimulationOptions = SimulationOptions()
) -> None:
    """Every figure of a run, and the peaks."""
    theirs, complaint = outcome_of(engine.run, tables, device, priority, options)
    ours, our_complaint = outcome_of(partial(engine.run, compiled=True), tables, device, priority, options)
    assert our_complaint == complaint
    if ours is None or theirs is None:
        return
    assert ours.makespan == theirs.makespan
    for name in FIELDS:
        assert getattr(ours.tasks, name).dtype == getattr(theirs.tasks, name).dtype
        assert getattr(ours.tasks, name).tolist() == getattr(theirs.tasks, name).tolist(), name
    used = usage(tables, theirs, allocations(tables, theirs))
    prepared = Prepared(replace(tables, node=ids(range(len(tables)))), tables.names, (), options=options)
    priorities = priority if options.order_for(priority) == "priority" else None
    spans, peaks = evaluate_with_peaks(prepared, theirs.device[None], priorities=priorities)
    assert spans.tolist() == [theirs.makespan]
    assert peaks.tolist() == [used.peak_bytes.tolist()]
    bare: list[int] = evaluate(prepared, theirs.device[None], priorities=priorities).tolist()
    assert bare == [theirs.makespan], "without a record, mostly by the plain variant of the loop"


def outcome_of(
    run: Callable[..., engine.StepRun], tables: Tables, device: Any, priority: Any, options: SimulationOptions
) -> tuple[engine.StepRun | None, str]:
    """The outcome, or what is said instead."""
    try:
        return run(tables, device, priority, options), ""
    except SimvizError as error:
        return None, f"{type(error).__name__}: {error}"


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_run_is_the_same_as_of_the_plain_loop(data: st.DataObject) -> None:
    graph = data.draw(dags())
    on, priced, rows, options = data.draw(worlds(graph))
    priority = data.draw(st.none() | st.lists(st.integers(-2, 2), min_size=len(graph), max_size=len(graph)))
    tables = of_step(graph, whole(graph), on, priced)
    check_equal(tables, rows, priority, replace(options, order="auto") if priority else options)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_steps_of_any_graph_and_their_pieces_are_the_same(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    on, priced, rows, options = data.draw(worlds(graph))
    step, late = data.draw(steps(graph)), data.draw(st.booleans())
    tables = of_step(graph, step, on, priced)
    check_equal(tables, tables.placed(ids(rows)), None, options)
    flavour = "master" if late else "local"
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=step, flavour=flavour, recv_scheduling=late)
    check_equal(*of_partitions(pieces, on, priced), None, options)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(0, 3), CLUSTERS, st.sampled_from(["fifo", "tensorflow"]))
def test_loops_anywhere_and_their_pieces_are_the_same(seed: int, trips: int, on: Cluster, order: str) -> None:
    graph, rows = random_graph(seed, len(on), nodes=6, loops=2)
    priced = costs(graph, on, [seed % (row + 2) for row in range(len(graph))])
    options = SimulationOptions(order, trips={"*": trips})
    tables = of_step(graph, whole(graph), on, priced, options)
    check_equal(tables, tables.placed(ids(rows)), None, options)
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=whole(graph))
    check_equal(*of_partitions(pieces, on, priced, options), None, options)


@settings(deadline=None, max_examples=40)
@given(st.data(), crowded(), st.sampled_from(["fifo", "priority", "tensorflow"]), st.sampled_from(CONTENTIONS))
def test_lines_before_several_links_are_the_same(
    data: st.DataObject, crowd: tuple[Graph, Cluster, list[int], list[int]], order: str, contention: str
) -> None:
    graph, on, times, rows = crowd
    on = replace(on, between_tasks=data.draw(st.just(on.between_tasks) | PROTOCOLS))
    on = data.draw(st.just(on) | CORES.map(lambda cores: with_cores(on, cores)))
    priority = [-time for time in times] if order == "priority" else None
    options = SimulationOptions(order, contention)
    check_equal(of_step(graph, whole(graph), on, costs(graph, on, times)), rows, priority, options)


def test_a_message_without_bytes_keeps_its_place_before_one_that_begins_when_it_does() -> None:
    """All from p to q over a and b: z has both until 400; x comes at 10 and y, which has the lower number, at 20."""
    draft = Rows()
    draft.add("z", "Const", **attrs_of("Const", 1, 100))
    for name in "yx":
        draft.add(name, "Neg", ["z"], **attrs_of("Neg", 1, 25))
    for name, inputs in (("read_z", ["z"]), ("read_y", ["y"]), ("read_x", ["^x"])):
        draft.add(name, "NoOp" if name == "read_x" else "Neg", inputs, **attrs_of("Neg"))
    graph, links = draft.built(), [Link(name, 0, 10**9) for name in "ab"]
    on = cluster(["p:0/CPU:0", "q:0/CPU:0"], links, {(0, 1): (0, 1), (1, 0): (1, 0)}, lanes=2)
    times = [{"y": 20, "x": 10}.get(name, 5) for name in graph.names]
    tables, rows = of_step(graph, whole(graph), on, costs(graph, on, times)), [int("_" in name) for name in graph.names]
    check_equal(tables, rows)
    tasks = engine.run(tables, rows, compiled=True).tasks
    assert tasks.start_ns[tasks.kind == Kind.LINK].tolist() == [400, 0, 0, 400, 400, 400]  # first that of no bytes


def test_thousands_of_transfers_in_lines_are_the_same() -> None:
    """Long lines, before one link or the other: slow ones are the first, the last or in the middle of a route."""
    for seed in range(3):
        on = routed(random.Random(seed), 8)
        check_equal(*network(3000, seed, on=on), None, SimulationOptions("tensorflow" if seed else "fifo"))


@pytest.mark.parametrize("seed", range(6))
def test_thousands_of_flows_are_the_same(seed: int) -> None:
    """A flow that begins or ends changes the rates of some others, and by those of some more; caps are in between."""
    chance = random.Random(seed)
    rates = chance.choice([[10**8], [10**8, 3 * 10**7], [10**8, 10**8 + 7, 3 * 10**7, 10**9]])
    links = [Link(f"l{at}", 0, chance.choice(rates), chance.choice([None] * 5 + ["none"])) for at in range(14)]
    few = chance.choice([2, 3])
    routes = {(s, t): tuple(chance.sample(range(14), few)) for s in range(9) for t in range(9) if s != t}
    on = cluster([f"w:{at}/CPU:0" for at in range(9)], links, routes, lanes=4)
    check_equal(*network(1500, seed, on=on), options=SimulationOptions(contention="fair"))


def test_a_way_that_is_refused_for_one_contention_runs_with_another() -> None:
    """One of its links says that it is shared: memory was laid out for serial ones, whatever was asked for."""
    on = cluster(["p:0/CPU:0", "q:0/CPU:0"], [Link("a", 0, 10**9, "fair"), Link("b", 0, 10**9)], {(0, 1): (0, 1)})
    tables, rows = network(20, on=on)
    check_equal(tables, np.sort(rows), options=SimulationOptions(contention="fair"))
    with pytest.raises(ClusterError, match="but one route leads over both"):
        engine.run(tables, np.sort(rows), compiled=True)


def network(ops: int, seed: int = 0, devices: int = 8, on: Cluster | None = None) -> tuple[Tables, np.ndarray]:
    """Sums of one to three values from shortly before, at random on devices; without a cluster with a link per pair."""
    devices = devices if on is None else len(on)
    chance = random.Random(seed)
    draft = Rows()
    made = {arity: attrs_of("AddN", arity, 1000) for arity in (1, 2, 3)}
    for at in range(ops):
        if at < devices:
            draft.add(f"n{at}", "Const", **attrs_of("Const", 1, 1000))
            continue
        inputs = sorted({chance.randrange(max(0, at - 200), at) for _ in range(chance.randint(1, 3))})
        draft.add(f"n{at}", "AddN", [f"n{source}" for source in inputs], **made[len(inputs)])
    graph, on, drawn = draft.built(), on or apart(devices), np.random.default_rng(seed)
    tables = of_step(graph, whole(graph), on, costs(graph, on, drawn.integers(1_000, 100_000, ops)))
    return tables, drawn.integers(0, devices, ops)


def test_a_hundred_thousand_ops_are_the_same() -> None:
    tables, rows = network(100_000)
    check_equal(tables, rows)


def test_a_value_with_a_thousand_readers_is_the_same() -> None:
    draft = Rows()
    draft.add("x", "Const", **attrs_of("Const", 1, 10))
    draft.add("a", "Neg", ["x"], **attrs_of("Neg", 1, 10))
    for reader in range(1000):
        draft.add(f"r{reader}", "Neg", ["a"], **attrs_of("Neg", 1, 10))
    graph, on = draft.built(), apart(8, lanes=3)
    drawn = np.random.default_rng(0)
    check_equal(of_step(graph, whole(graph), on, costs(graph, on, 5)), drawn.integers(0, 8, len(graph)))


def test_values_too_large_for_64_bits_of_work_are_the_same() -> None:
    tables, rows = network(30, devices=3)
    sizes = np.array([SAFE_BYTES - 1, SAFE_BYTES, SAFE_BYTES + 1, 2**40 + 3, 17] * len(tables.tensor_op))
    check_equal(replace(tables, tensor_bytes=ints(sizes[: len(tables.tensor_op)])), rows)


def test_errors_are_those_of_the_plain_loop() -> None:
    draft = Rows()
    draft.add("x", "Const", **attrs_of("Const"))
    draft.add("a", "Neg", ["x"], **attrs_of("Neg"))
    draft.add("b", "Neg", ["a"], **attrs_of("Neg"))
    graph, on = draft.built(), apart(2)
    ring = of_step(graph, whole(graph), on, costs(graph, on, 5))
    ring = replace(ring, consumer=ids([2, 1]), in_edge=ids([1, 0]))  # x -> b, a -> a
    tables, rows = network(20, devices=2)
    rows[:2] = 0, 1
    lost = replace(tables.routes, route_of=ids(np.full(len(tables.routes.route_of), -1)))
    cases: list[tuple[Tables, object, type[SimvizError]]] = [
        (ring, [0, 0, 0], DeadlockError),
        (tables, rows[1:], SimvizError),
        (tables, rows + 1, SimvizError),
        (replace(tables, kind_ns=tables.kind_ns - 10**6), rows, InfeasibleError),
        (replace(tables, routes=lost), rows, ClusterError),
        (replace(tables, tensor_bytes=ints(np.full(len(tables.tensor_op), 2**62))), rows, ClusterError),
        (replace(tables, kind_ns=tables.kind_ns + 2**58), rows, SimvizError),
    ]
    for broken, device, kind in cases:
        with pytest.raises(kind) as ours:
            engine.run(broken, device, compiled=True)  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(kind) as theirs:
            engine.run(broken, device)  # type: ignore[arg-type]
        assert str(ours.value) == str(theirs.value)
    with pytest.raises(SimvizError, match="19 priorities for 20 ops"):
        engine.run(tables, rows, [0] * 19, compiled=True)


def many(count: int, ops: int = 300, seed: int = 0) -> tuple[Prepared, np.ndarray]:
    tables, _ = network(ops, seed, devices=4)
    return Prepared(tables, tables.names, ()), np.random.default_rng(seed).integers(0, 4, (count, ops))


def test_many_assignments_are_as_one_by_one_whatever_the_number_of_threads() -> None:
    prepared, rows = many(50)
    alone = [engine.makespan(prepared.tables, row) for row in rows]
    for threads in (1, 2, 3):
        spans, peaks = evaluate_with_peaks(prepared, rows, threads=threads)
        assert spans.tolist() == alone
        outcomes = [engine.run(prepared.tables, row) for row in rows[:5]]
        held = [usage(prepared.tables, one, allocations(prepared.tables, one)).peak_bytes.tolist() for one in outcomes]
        assert peaks[:5].tolist() == held
    assert evaluate(prepared, rows[:0]).tolist() == []


def test_priorities_are_one_row_for_all_or_one_each() -> None:
    prepared, rows = many(5)
    each = np.random.default_rng(1).integers(0, 3, rows.shape)
    alone = [engine.makespan(prepared.tables, row, own) for row, own in zip(rows, each, strict=True)]
    assert evaluate(prepared, rows, priorities=each).tolist() == alone
    alone = [engine.makespan(prepared.tables, row, each[0]) for row in rows]
    assert evaluate(prepared, rows, priorities=each[0]).tolist() == alone


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_evaluating_is_simulating_the_pieces(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    on, priced, rows = data.draw(runs(graph))
    contention = data.draw(st.sampled_from(CONTENTIONS))
    step = data.draw(steps(graph))
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=step)
    options = SimulationOptions(contention=contention, order=data.draw(st.sampled_from(["auto", "tensorflow"])))
    expected = simulate(pieces, on, priced, options)
    spans, peaks = evaluate_with_peaks(prepare(graph, step, on, priced, options), [rows, rows])
    assert spans.tolist() == [expected.makespan] * 2
    assert peaks.tolist() == [expected.peak_bytes.tolist()] * 2


def test_bad_input_is_refused_before_anything_runs() -> None:
    prepared, rows = many(3)
    with pytest.raises(SimvizError, match=r"\[3, 299\].*whole numbers \[B, 300\]"):
        evaluate(prepared, rows[:, 1:])
    with pytest.raises(SimvizError, match=r"float64.*whole numbers"):
        evaluate(prepared, rows * 1.0)  # type: ignore[arg-type]
    with pytest.raises(SimvizError, match="not equally long"):
        evaluate(prepared, [[0] * 300, [0]])
    rows[2, 5] = 4
    with pytest.raises(SimvizError, match=r"Assignment 2: node 'n5' is on device 4; the cluster has 4 devices"):
        evaluate(prepared, rows)
    rows[2, 5] = 0
    with pytest.raises(SimvizError, match="threads=0"):
        evaluate(prepared, rows, threads=0)
    with pytest.raises(SimvizError, match="There are no priorities"):
        evaluate(prepared.under(SimulationOptions("priority")), rows)
    with pytest.raises(SimvizError, match="makes no use of priorities"):
        evaluate(prepared.under(SimulationOptions("fifo")), rows, priorities=[0] * 300)
    with pytest.raises(SimvizError, match="other trips, branches or another seed; prepare the step"):
        prepared.under(SimulationOptions(seed=1))
    with pytest.raises(SimvizError, match=r"Priorities of shape \[2, 300\]"):
        evaluate(prepared, rows, priorities=rows[:2])
    for wrong in ([float("nan")] * 300, ["1"] * 300):
        with pytest.raises(SimvizError, match="one number per node"):
            evaluate(prepared, rows, priorities=wrong)  # type: ignore[arg-type]
    times = np.array(prepared.tables.run_ns)
    times[7, 2] = -1
    rows[:, 7] = 0, 2, 2
    each_its_kind = replace(prepared.tables, kind_ns=times, kind=ids(range(4)))
    with pytest.raises(InfeasibleError, match=r"Assignment 1: Node 'n7' has no kernel"):
        evaluate(replace(prepared, tables=each_its_kind), rows)
    apart_ = np.array(prepared.tables.routes.of)
    apart_[1, 2] = -1
    lost = replace(prepared.tables.routes, route_of=ids(apart_.reshape(-1)))
    with pytest.raises(ClusterError, match=r"Assignment 0: The cluster has no route"):
        evaluate(replace(prepared, tables=replace(prepared.tables, routes=lost)), rows)


def test_arrays_for_which_the_loop_is_not_compiled_are_refused() -> None:
    """It gets them by address, so that nothing would stop it later."""
    tables, _ = network(20)
    rows, nothing = ids(np.zeros((1, 20))), ids(np.zeros((0, 20)))
    makespan, peaks = np.zeros(1, np.int64), np.zeros((0, 0), np.int64)
    given = (rows, ids(range(20)), ids([0]), 0, nothing, ints([]), INFINITE, 0, makespan, peaks)
    with workspace(tables, "serial") as work:
        laid, own, waits = work.laid, work.arena, work.laid.nodes.waits
        play(laid, own, *given)
        others: list[Any] = [ints(waits), np.repeat(waits, 2)[::2], waits[:, None], laid.nodes.instant, None]
        for wrong in others:
            other = laid._replace(nodes=laid.nodes._replace(waits=wrong))
            with pytest.raises(TypeError):
                play(other, own, *given)
        unwritable = own._replace(tasks=own.tasks._replace(successor=laid.nodes.reader))
        with pytest.raises(TypeError):
            play(laid, unwritable, *given)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_works_in_memory_of_its_own() -> None:
    tables, _ = network(20)
    with workspace(tables, "serial") as work:
        own = work.arena
        own.state.idle[0] = 1
        child = os.fork()
        if not child:
            own.state.idle[0] = 2
            os._exit(0)
        os.waitpid(child, 0)
        assert own.state.idle[0] == 1


def test_tables_take_few_bytes_per_op() -> None:
    tables, _ = network(10_000)  # eight devices of one kind
    laid = laid_out(tables, "serial")
    columns = [*vars(tables).values(), *laid.nodes, *laid.held]
    sizes = {(column.ctypes.data, column.nbytes) for column in columns if isinstance(column, np.ndarray)}
    assert sum(nbytes for _, nbytes in sizes) < 165 * len(tables)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_the_work_of_a_step_is_that_of_its_ops_and_transfers(data: st.DataObject) -> None:
    """Where transfers share links, or where all pass, it counted none of their time on the wires."""
    graph = data.draw(dags())
    on, priced, rows, options = data.draw(worlds(graph))
    tables = of_step(graph, whole(graph), on, priced, options)
    device = tables.placed(ids(rows))
    try:
        crossing = transfers_of(tables, device)
    except ClusterError:
        return
    held = np.diff(discipline(tables.routes, options.contention).held.ptr)
    routes, expected = tables.routes, sum(int(tables.kind_ns[op, tables.kind[at]]) for op, at in enumerate(device))
    for tensor, source, route, wire_ns in zip(
        crossing.tensor, crossing.source, crossing.route, crossing.wire_ns.tolist(), strict=True
    ):
        pace, nbytes = routes.pace[route], int(tables.tensor_bytes[tensor])
        send_ns = int(routes.send_ns[pace]) - (-nbytes * int(routes.send_ps_per_byte[pace]) // 1000)
        if routes.dispatched[pace]:
            send_ns = int(tables.dispatch_ns[source])
        expected += send_ns + int(routes.receive_ns[pace]) - (-nbytes * int(routes.receive_ps_per_byte[pace]) // 1000)
        expected += wire_ns * max(int(held[route]), 1)
    with workspace(tables, options.contention) as own:
        columns, makespan, peaks = ids(np.arange(len(tables))), np.zeros(1, np.int64), np.zeros((0, len(on)), np.int64)
        ranked = ids(np.zeros((0, len(tables)), np.int32))
        own.run(
            play, device[None], columns, ids([0]), CODES[options.order], ranked, ints([]), 2**62, 0, makespan, peaks
        )
        assert makespan[0] < 0 or own.arena.found.work_ns.tolist() == [expected]
