"""Ops and the iterations in which they run, against an executor that goes token by token, and worked by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.bounds import lower_bound
from simulator.cluster.cluster import Cluster
from simulator.columns import ids
from simulator.errors import DeadlockError, SimvizError, UnsupportedError
from simulator.execution.engine import run
from simulator.execution.laws import check_trace
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.execution.simulate import simulate
from simulator.execution.tables import Tables, of_partitions, of_step
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.partitioning.cut import partition
from simulator.partitioning.levels import FLAVOURS
from tests.execution.cases import CLUSTERS, apart, assigned, cluster, costs, whole
from tests.execution.loops.cases import begun, conditional, counting, live_counts, predicate, scalars
from tests.execution.loops.executor import Executor, Tag
from tests.partitioning.cases import random_graph
from tests.strategies import BOOL, INT32, Rows, loop, type_attr, typed


def tables_of(graph: Graph, **options: Any) -> Tables:
    return of_step(graph, whole(graph), apart(1), costs(graph, apart(1), 10), SimulationOptions(**options))


@given(st.integers(0, 2**32), st.integers(0, 3))
def test_the_same_runs_as_token_by_token(seed: int, trips: int) -> None:
    graph, _ = random_graph(seed, 1, nodes=8, loops=2)
    switches = {row for row, op in enumerate(graph.ops) if op == "Switch"}
    asks = {row: int(graph.edge_src[graph.in_ptr[row] + 1]) for row in switches}
    held = {graph.names[row]: True for row in asks.values() if graph.ops[row] != "LoopCond"}
    tables = tables_of(graph, trips={"*": trips}, branches=held)

    def goes(node: int, tag: Tag) -> int:
        return int(graph.ops[asks[node]] != "LoopCond" or tag[-1][1] < trips)

    theirs = Executor(graph, goes).ran
    found = {}
    for op in range(len(tables)):
        key = int(tables.node[op]), tables.iterations[tables.iteration[op]]
        if tables.bound[op] < 0 and key not in found:  # signals come last
            found[key] = not tables.silent[op]
    expected = {(node, tuple(i for _, i in tag)): live for (node, tag), live in theirs.items()}
    assert {key: live for key, live in found.items() if whole(graph).runs[key[0]]} == {
        key: live for key, live in expected.items() if whole(graph).runs[key[0]]
    }


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), CLUSTERS, st.integers(0, 3), st.sampled_from(FLAVOURS))
def test_traces_of_loops_anywhere_are_lawful(seed: int, on: Cluster, trips: int, flavour: str) -> None:
    graph, rows = random_graph(seed, len(on), nodes=6, loops=2)
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=whole(graph), flavour=flavour)
    trace = simulate(pieces, on, costs(graph, on, 10), SimulationOptions(trips={"*": trips}))
    assert check_trace(trace, pieces, on) == []
    prepared = prepare(graph, whole(graph), on, costs(graph, on, 10), SimulationOptions(trips={"*": trips}))
    assert lower_bound(graph, on, costs(graph, on, 10), step=whole(graph), prepared=prepared) <= trace.makespan
    there = Counter(
        pieces.origin[row] for row in trace.ops.node.tolist()
    )  # a constant that was copied has no row of its own left
    here = live_counts(tables_of(graph, trips={"*": trips}))
    assert all(here[graph.names[row]] == count for row, count in there.items())


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), CLUSTERS, st.integers(0, 3))
def test_a_whole_step_with_loops_anywhere_ends_in_every_order(seed: int, on: Cluster, trips: int) -> None:
    graph, rows = random_graph(seed, len(on), nodes=6, loops=2)
    tables = of_step(graph, whole(graph), on, costs(graph, on, 10), SimulationOptions(trips={"*": trips}))
    for order in ("fifo", "tensorflow"):
        outcome = run(tables, tables.placed(ids(rows)), options=SimulationOptions(order))
        assert (outcome.start_ns >= outcome.ready_ns).all()


def test_a_stream_waits_for_the_end_of_an_iteration_elsewhere() -> None:
    rows = begun()
    counting(rows, "loop", "x", 3, lambda value, _: rows.add("other", "Tanh", [value], **typed("Tanh", ())), parallel=1)
    graph, on = rows.built(), cluster(["w:0/CPU:0", "w:0/GPU:0", "w:0/GPU:1"])
    tables = of_step(graph, whole(graph), on, costs(graph, on, 10))
    device = tables.placed(ids([2 if name == "other" else int("loop/x" in name) for name in graph.names]))
    ends = [run(tables, device, options=SimulationOptions(order)).makespan for order in ("fifo", "tensorflow")]
    assert min(ends) > 3 * (2 * 100 + 10)  # there and back, and what is done there


def test_nested_loops_are_counted_by_hand() -> None:
    rows = begun()

    def body(value: str, pivot: str) -> str:
        return counting(rows, "inner", value, 2, inside=pivot)

    counting(rows, "outer", "x", 3, body)
    tables = tables_of(rows.built())
    counts = live_counts(tables)
    assert counts["outer/LoopCond"] == 4  # three trips, and once to find that there is no fourth
    assert counts["outer/x/Identity"] == 3
    assert counts["inner/LoopCond"] == 3 * 3
    assert counts["inner/x/Neg"] == 3 * 2
    assert counts["inner/x/Exit"] == 3
    assert counts["outer/x/Exit"] == 1
    tags = {tables.iterations[tables.iteration[op]] for op, n in enumerate(tables.names) if n == "inner/x/Neg"}
    assert {tag for tag in tags if tag[0] < 3} >= {(i, j) for i in range(3) for j in range(2)}
    assert tables.notes == ("Loops run as their constants say: 'inner' 2 times, 'outer' 3 times.",)


def test_what_is_dead_crosses_and_takes_no_bytes() -> None:
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (1000,)))
    predicate(rows)
    conditional(rows, "c", "x", "p", other="there")
    graph, on = rows.built(), apart(2)
    placed = assigned(on, [int(name == "there") for name in graph.requested])
    pieces = partition(graph, placed, on, step=whole(graph), legal=False)  # "there" is no device
    trace = simulate(pieces, on, costs(graph, on, 10), SimulationOptions(branches={"p": True}))
    assert trace.transfers.dead.tolist() == [True, True]  # there and back
    assert (trace.moments.arrived_ns - trace.moments.sent_ns).tolist() == [100, 100]  # its latency alone
    assert trace.makespan == 10 + 200  # the Switch and the way
    live = simulate(pieces, on, costs(graph, on, 10), SimulationOptions(branches={"p": False}))
    assert not live.transfers.dead.any()


@pytest.mark.parametrize(("parallel", "makespan"), [(1, 4 * 60), (2, 130), (10, 90)])
def test_iterations_overlap_as_far_as_they_may(parallel: int, makespan: int) -> None:
    """Every 10 ns the next iteration may begin; each has a tail of 60 ns, and nothing waits for it but its end.

    One at a time: 4 times 60. Two: at 0 and 10, when these have ended at 60 and 70, which ends at 130. All at once: the
    last tail begins at 30.
    """
    rows = begun()
    counting(rows, "loop", "x", 4, lambda value, _: value, parallel=parallel)
    rows.add("loop/tail", "Neg", ["loop/x/Identity"], **typed("Neg", ()))
    graph, on = rows.built(), apart(1, lanes=8)
    took = [{"loop/i/Identity": 10, "loop/tail": 60}.get(name, 0) for name in graph.names]
    tables = of_step(graph, whole(graph), on, costs(graph, on, took))
    assert run(tables, tables.placed(np.zeros(len(graph), np.int32))).makespan == makespan


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"trips": {"lop": 2}}, "no loop 'lop'; its loops are 'loop'. Did you mean 'loop'"),
        ({"trips": {"*": 10**12}}, "'loop' with 1,000,000,000,000 trips unrolls the step to .* 2,000,000 is the limit"),
        ({"branches": {"q": True}}, "The step has no predicate 'q'; its predicates are 'p'"),
        ({"branches": {"p": 2}}, "branches\\['p'\\] is 2; give True, False or a probability"),
        ({"branches": {"p": float("nan")}}, "is nan"),
        ({"branches": {"loop/LoopCond": True}}, "is a loop's condition; say with trips"),
        ({"branches": {"p": True, "p:0": False}}, "are one predicate"),
    ],
)
def test_what_cannot_be_is_said_before_any_work(options: dict[str, Any], sentence: str) -> None:
    rows = begun()
    predicate(rows)
    conditional(rows, "c", counting(rows, "loop", "x", 3), "p")
    with pytest.raises(SimvizError, match=sentence):
        tables_of(rows.built(), **options)


@given(st.integers(0, 50), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from(FLAVOURS))
def test_chance_is_the_same_in_whole_and_pieces(seed: int, probability: float, flavour: str) -> None:
    rows = begun()
    predicate(rows)
    rows.add("p/Neg", "LogicalNot", ["p"])
    counting(rows, "loop", conditional(rows, "c", "x", "p/Neg"), 3)
    graph, on = rows.built(), apart(2)
    options: dict[str, Any] = {"branches": {"p": probability}, "seed": seed}
    placed = assigned(on, [row % 2 for row in range(len(graph))])
    pieces = partition(graph, placed, on, step=whole(graph), flavour=flavour, legal=False)
    cut, _ = of_partitions(pieces, on, costs(graph, on), SimulationOptions(**options))
    counts = live_counts(tables_of(graph, **options))
    assert counts["c/true"] + counts["c/false"] == 1
    assert (counts["c/true"], counts["c/false"]) == (live_counts(cut)["c/true"], live_counts(cut)["c/false"])
    if probability in (0.0, 1.0):
        assert counts["c/false"] == probability  # the Switch is told the opposite


def test_a_predicate_in_a_loop_is_drawn_anew_in_every_iteration() -> None:
    rows = begun()
    predicate(rows, "q")

    def body(value: str, _: str) -> str:
        rows.add("drawn", "IsFinite", [value], T=type_attr(), _output_shapes=scalars(1))
        first = conditional(rows, "one", value, "drawn")
        return conditional(rows, "two", first, "drawn")

    counting(rows, "loop", "x", 40, body)
    graph = rows.built()
    counts = live_counts(tables_of(graph, branches={"drawn": 0.5}, seed=1))
    assert 5 < counts["one/true"] < 35
    assert counts["one/false"] == 40 - counts["one/true"]
    assert counts["two/true"] == counts["one/true"]  # they ask the same predicate
    assert counts != live_counts(tables_of(graph, branches={"drawn": 0.5}, seed=2))
    assert counts["loop/x/Exit"] == 1


def test_trips_of_a_step_without_loops_are_noted() -> None:
    rows = begun()
    assert tables_of(rows.built(), trips={"*": 3}).notes == ("The step has no loop, so trips change nothing.",)
    predicate(rows)
    conditional(rows, "c", "x", "p")
    assert "The step has no loop, so trips change nothing." in tables_of(rows.built(), trips={"*": 3}).notes
    assert not any("no loop" in note for note in tables_of(rows.built()).notes)


def test_a_case_takes_one_of_its_branches() -> None:
    rows = begun()
    rows.add("k", "Placeholder", dtype=type_attr(INT32), _output_shapes=scalars(1))
    rows.add("s", "_SwitchN", ["x", "k"], T=type_attr(), num_outs=AttrValue(i=3), _output_shapes=scalars(3))
    for side in range(3):
        rows.add(f"b{side}", "Neg", [f"s:{side}"], **typed("Neg", ()))
    merged = {"N": AttrValue(i=3), "T": type_attr(), "_output_shapes": scalars(2)}
    rows.add("m", "Merge", ["b0", "b1", "b2"], **merged)
    graph = rows.built()
    for taken, branches in ((0, {}), (2, {"k": 2}), (1, {"k:0": 1})):
        counts = live_counts(tables_of(graph, branches=branches))
        assert [counts[f"b{side}"] for side in range(3)] == [int(side == taken) for side in range(3)]
    for wrong in (3, True, 0.5):
        with pytest.raises(SimvizError, match="'k' chooses among 3 branches: give a number from 0 to 2"):
            tables_of(graph, branches={"k": wrong})


def test_what_a_loop_never_gives_is_said() -> None:
    """Its Exit hangs on a branch that is not taken when it ends, so that what comes after has nothing to wait for."""
    rows = begun()
    counting(rows, "loop", "x", 2)
    rows.inputs[rows.names.index("loop/x/Next")] = ["loop/stop"]
    predicate(rows)
    enter = {**rows.attrs[rows.names.index("loop/bound/Enter")], "T": type_attr(BOOL)}
    rows.add("p/Enter", "Enter", ["p"], **enter)
    rows.add("loop/stop", "Switch", ["loop/x/Neg", "p/Enter"], T=type_attr(), _output_shapes=scalars(2))
    rows.add("after", "Neg", ["loop/x/Exit"], **typed("Neg", ()))
    graph, on = rows.built(), apart(2)
    assert live_counts(tables_of(graph, branches={"p": False}))["after"] == 1
    assert live_counts(tables_of(graph))["after"] == 1
    without = tables_of(graph, branches={"p": True})
    assert live_counts(without)["after"] == 0
    assert "'after' does not run" in without.notes[0]
    pieces = partition(graph, assigned(on, [int(name == "after") for name in graph.names]), on, step=whole(graph))
    with pytest.raises(DeadlockError, match="waits for ever: with these trips and branches nothing comes from"):
        of_partitions(pieces, on, costs(graph, on, 10), SimulationOptions(branches={"p": True}))


@pytest.mark.parametrize("count", [0, 3])
def test_recvs_that_wait_for_a_moment_inside_a_loop_are_refused(count: int) -> None:
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", (4,)))
    last = loop(draft, start="x")
    for at in range(12):
        last = draft.add(f"n{at}", "Neg", [last], **typed("Neg", (4,)))
    graph, on = draft.built(), cluster(["w:0/CPU:0", "w:0/CPU:1", "w:1/CPU:0"])
    rows = [int(name[1:]) % 2 if name[0] == "n" else 0 for name in graph.names]
    pieces = partition(
        graph, assigned(on, rows), on, legal=False, step=whole(graph), flavour="master", recv_scheduling=True
    )
    with pytest.raises(
        UnsupportedError, match=r"wait for 'synch_\d+_G\d+', which follows a node inside the loop 'while'"
    ):
        simulate(pieces, on, costs(graph, on, 10), SimulationOptions(trips={"*": count}))
