"""An observed step fits its own graph alone; its shapes, trips, ways and times count, in copies too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import Graph, ObservedStep, SimulationOptions, choose_step, estimate, load_cluster, with_shapes
from simulator.costs.table import MEASURED
from simulator.errors import GraphError
from simulator.execution.loops.observations import spread
from simulator.execution.tables import of_step
from simulator.graph.graph import Shape
from simulator.observed.fitting import digest, fitted, measured_times, with_observed_costs
from simulator.observed.observed_step import ObservedNode, SeenShape
from tests.execution.cases import costs
from tests.execution.loops.cases import begun, conditional, counting, live_counts, predicate
from tests.shapes.test_filling import const
from tests.strategies import Rows, type_attr, typed

CLUSTER = load_cluster("1cpu")


def looped() -> Graph:
    """A loop around a branch, whose predicate is fed."""
    rows = begun()
    predicate(rows)
    rows.add("out", "Neg", [counting(rows, "loop", "x", 5)], **typed("Neg", ()))
    rows.add("branch", "Neg", [conditional(rows, "cond", "x", "p")], **typed("Neg", ()))
    return rows.built()


def node(op: str, runs: int, *sides: int, ns: int = 7) -> ObservedNode:
    """A node with outputs that were alive so often; 0: that output never was."""
    outputs = {port: (SeenShape(alive, ()),) for port, alive in enumerate(sides) if alive}
    return ObservedNode(op, runs, ns, 0, outputs)


def observed(graph: Graph, nodes: Mapping[str, ObservedNode], feeds: Mapping[str, Shape] | None = None) -> ObservedStep:
    return ObservedStep(
        graph="g",
        tensorflow="2",
        machine="m",
        digest=digest(graph, nodes),
        feeds=feeds or {},
        fetches=(),
        synthetic=(),
        step_ns=0,
        traced_ns=0,
        nodes=nodes,
    )


def renamed(graph: Graph) -> Graph:
    """A graph of copies alone, as replication names them."""
    return replace(
        graph,
        names=tuple(f"tower_1/{name}" for name in graph.names),
        copies={f"tower_1/{name}": name for name in graph.names},
    )


def runs(graph: Graph, options: SimulationOptions) -> Counter[str]:
    step = choose_step(graph, fetches=[name for name in graph.names if name.endswith(("out", "branch"))])
    tables = of_step(graph, step, CLUSTER, costs(graph, CLUSTER, 1000), options)
    return Counter({name.removeprefix("tower_1/"): count for name, count in live_counts(tables).items()})


LOOP = {
    "loop/i/Enter": node("Enter", 1, 1),
    "loop/bound/Enter": node("Enter", 1, 1),
    "loop/LoopCond": node("LoopCond", 9, 9),
}


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize(("holds", "ran"), [(True, "cond/true"), (False, "cond/false")])
def test_loops_and_branches_run_as_observed(copy: bool, holds: bool, ran: str) -> None:
    graph = looped()
    step = observed(graph, {**LOOP, "cond/Switch": node("Switch", 1, int(not holds), int(holds))})
    found = runs(renamed(graph) if copy else graph, SimulationOptions(observed=step))
    assert (found["loop/x/Neg"], found["loop/LoopCond"]) == (8, 9)
    assert [name for name in ("cond/true", "cond/false") if found[name]] == [ran]


def test_what_is_asked_for_goes_before_what_was_observed() -> None:
    graph = looped()
    step = observed(graph, {**LOOP, "cond/Switch": node("Switch", 1, 1, 0)})
    found = runs(graph, SimulationOptions(trips={"loop": 2}, branches={"p": True}, observed=step))
    assert (found["loop/x/Neg"], found["cond/true"], found["cond/false"]) == (2, 1, 0)


def test_a_loop_that_was_entered_several_times_has_its_mean() -> None:
    graph = looped()
    nodes = {name: replace(one, runs=4) if one.op == "Enter" else one for name, one in LOOP.items()}
    nodes["loop/LoopCond"] = node("LoopCond", 4 + 10, 14)  # ten trips in four visits: 2.5
    assert runs(graph, SimulationOptions(observed=observed(graph, nodes)))["loop/x/Neg"] == 3


@given(st.integers(0, 9), st.integers(1, 9))
def test_a_loop_is_entered_as_often_as_what_its_first_test_reads(more: int, entered: int) -> None:
    """Where a branch passes the loop by, a sum that begins at 0 comes to it all the same."""
    graph = looped()
    nodes = {name: replace(one, runs=entered) if one.op == "Enter" else one for name, one in LOOP.items()}
    nodes |= {"loop/x/Enter": node("Enter", entered + more, entered + more)}
    nodes |= {"loop/LoopCond": node("LoopCond", 3 * entered, 3 * entered)}
    assert runs(graph, SimulationOptions(observed=observed(graph, nodes)))["loop/x/Neg"] == 2


@pytest.mark.parametrize(("ran", "each"), [(0 + 1 + 2 + 3, [0, 1, 2, 3]), (9, [2, 2, 2, 3])])
def test_trips_of_an_observed_loop_vary_by_counters_else_evenly(ran: int, each: list[int]) -> None:
    """A loop up to the counter around it has 0 to 3 trips, if it ran so often in all."""
    rows = begun()
    inner = partial(counting, rows, "inner", trips=9, inside="outer/i/Identity")
    rows.add("out", "Neg", [counting(rows, "outer", "x", 4, lambda value, _: inner(value))], **typed("Neg", ()))
    rows.inputs[rows.names.index("inner/bound/Enter")] = ["outer/i/Identity"]
    graph = rows.built()
    nodes = {name: node("Enter", 1, 1) for name in ("outer/i/Enter", "outer/bound/Enter")}
    nodes |= {name: node("Enter", 4, 4) for name in ("inner/i/Enter", "inner/bound/Enter")}
    nodes |= {f"{name}/LoopCond": node("LoopCond", tests, tests) for name, tests in (("outer", 5), ("inner", 4 + ran))}
    options = SimulationOptions(observed=observed(graph, nodes))
    tables = of_step(graph, choose_step(graph, fetches=["out"]), CLUSTER, costs(graph, CLUSTER, 1000), options)
    live = np.flatnonzero(~tables.silent)
    around = Counter(tables.iterations[tables.iteration[op]][0] for op in live if tables.names[op] == "inner/x/Neg")
    assert [around[at] for at in range(4)] == each


def test_a_node_of_another_op_says_nothing() -> None:
    graph = looped()
    step = observed(graph, {**LOOP, "loop/LoopCond": node("Identity", 9, 9)})
    assert runs(graph, SimulationOptions(observed=step))["loop/x/Neg"] == 5


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(0, 9))
def test_a_share_is_spread_evenly_over_bodies(held: int, other: int, outer: int, trips: int) -> None:
    """In each run of consecutive bodies it holds as often as its share says, but for less than one."""
    share = Fraction(held, held + other)
    body = np.arange(outer * (trips + 1)) % (trips + 1) < max(trips, 1)
    values = spread(share, body)
    live = values[body].tolist()
    assert set(live) <= {0, 1}
    assert values.sum() == sum(live)
    for end in range(len(live) + 1):
        for begin in range(end):
            assert abs(sum(live[begin:end]) - share * (end - begin)) < 1


# --- shapes ----------------------------------------------------------------------------------------------------------


def line(shape: Shape | None = (2, 3), op: str = "Exp") -> Graph:
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", shape))
    rows.add("y", op, ["x"], **typed(op, None))
    rows.add("z", "Neg", ["y"], **typed("Neg", None))
    return rows.built()


def seen(*shapes: tuple[int, Shape]) -> ObservedNode:
    return ObservedNode("Exp", sum(count for count, _ in shapes), 5, 0, {0: tuple(SeenShape(*one) for one in shapes)})


def shape_of(graph: Graph, name: str) -> Shape | None:
    return graph.tensor_shape[int(graph.tensor_ptr[graph.row(name)])]


def test_an_observed_shape_counts_before_the_rules_and_reaches_what_follows() -> None:
    graph = line()
    known = fitted(graph, observed(graph, {"y": seen((1, (9, 3)))}, {"x:0": (2, 3)}))
    assert [shape_of(known, name) for name in "xyz"] == [(2, 3), (9, 3), (9, 3)]
    assert "1 tensor has the shape of an observed step" in known.notes[-1]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 99)), min_size=1, max_size=5, unique_by=lambda one: one[1]))
def test_of_several_shapes_the_one_nearest_the_mean_counts(sizes: list[tuple[int, int]]) -> None:
    graph = line()
    found = shape_of(fitted(graph, observed(graph, {"y": seen(*((count, (size,)) for count, size in sizes))})), "y")
    assert found is not None
    mean = sum(count * size for count, size in sizes) / sum(count for count, _ in sizes)
    assert abs(found[0] - mean) <= min(abs(size - mean) for _, size in sizes) + 1e-9


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (line(op="Log"), r"is an observation of another graph \(g\): 0 of its 1 node are|0 of its 1 node"),
        (looped(), "0 of its 1 node"),
    ],
)
def test_another_graph_is_refused(other: Graph, said: str) -> None:
    graph = line()
    with pytest.raises(GraphError, match=said):
        fitted(other, observed(graph, {"y": seen((1, (2, 3)))}))


def test_the_same_names_with_other_inputs_are_refused() -> None:
    graph = line()
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (2, 3)))
    rows.add("w", "Placeholder", **typed("Placeholder", (2, 3)))
    rows.add("y", "Exp", ["w"], **typed("Exp", None))
    with pytest.raises(GraphError, match="their inputs or attributes differ"):
        fitted(rows.built(), observed(graph, {"y": seen((1, (2, 3)))}))


def fixed(batch: int) -> Graph:
    """A file that fixes its batch, in a Reshape's constant, too."""
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (batch, 6)))
    rows.add("sides", "Const", dtype=type_attr(3), value=const(batch, 2, 3))
    rows.add("y", "Reshape", ["x", "sides"], **typed("Reshape", None))
    return rows.built()


def test_a_batch_in_the_place_of_a_fixed_one_is_that_of_the_observed_step() -> None:
    graph = with_shapes(fixed(32), batch=7)
    ran = {"y": replace(seen((1, (7, 2, 3))), op="Reshape"), "sides": replace(seen((1, (3,))), op="Const")}
    told = observed(graph, ran, {"x:0": (7, 6)})
    known = fitted(fixed(32), told, batch=7)
    assert [shape_of(known, name) for name in ("x", "y")] == [(7, 6), (7, 2, 3)]
    assert not any("refuse" in note for note in known.notes)
    assert len(set(known.notes)) == len(known.notes)
    with pytest.raises(GraphError, match="with x:0 of the shape 7,6, which would be 8,6"):
        fitted(fixed(32), told, batch=8)
    with pytest.raises(GraphError, match="Give the batch with which it was observed"):
        fitted(fixed(32), told)


@pytest.mark.parametrize("feed", ["q:0", "x:1", "x", "x:-1", "x:9999999999999"])
def test_a_fed_tensor_that_the_graph_lacks_is_refused(feed: str) -> None:
    graph = line()
    with pytest.raises(GraphError, match="it fed or fetched "):
        fitted(graph, observed(graph, {"y": seen((1, (2, 3)))}, {feed: (2, 3)}))


@pytest.mark.parametrize(
    "asked", [{"batch": 4}, {"feeds": {"x:0": (4, 3)}}, {"feeds": {"x": (4, 3)}}, {"feeds": {"y": (4, 3)}}]
)
def test_another_batch_or_feed_is_refused(asked: dict[str, Any]) -> None:
    graph = line((-1, 3))
    step = observed(graph, {"y": seen((1, (2, 3)))}, {"x:0": (2, 3)})
    with pytest.raises(GraphError, match=r"was observed with (x|y):0 of the shape 2,3, which would be 4,3"):
        fitted(graph, step, **asked)


@pytest.mark.parametrize("asked", [{}, {"batch": 2}, {"feeds": {"x": (2, 3)}}])
def test_the_same_batch_fits_and_none_means_that_of_the_observation(asked: dict[str, Any]) -> None:
    graph = line((-1, 3))
    step = observed(graph, {"y": seen((1, (2, 3)))}, {"x:0": (2, 3)})
    assert shape_of(fitted(graph, step, **asked), "x") == (2, 3)


# --- times -----------------------------------------------------------------------------------------------------------


def test_times_count_on_cpus_and_in_copies() -> None:
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (2, 3)))
    rows.add("y", "Exp", ["x"], **typed("Exp", None))
    rows.add("tower_1/y", "Exp", ["x"], **typed("Exp", None))
    graph = replace(with_shapes(rows.built()), copies={"tower_1/y": "y"})
    step = observed(graph, {"y": replace(seen((1, (2, 3))), ns=12_345, scratch_bytes=99)})
    for on, scratch in ((CLUSTER, 99), (load_cluster("1gpu"), 0)):
        table = with_observed_costs(estimate(graph, on), step, graph, on)
        for row in (1, 2):
            kinds = [next(d for d in on.devices if d.kind == kind).type for kind in table.kinds]
            assert [took == 12_345 for took in table.run_ns[row].tolist()] == [kind == "CPU" for kind in kinds]
            assert (table.source[row], table.scratch_bytes[row]) == (MEASURED, scratch)


def test_what_tracing_added_is_taken_off_and_a_made_up_source_has_no_time() -> None:
    graph = line()
    step = observed(graph, {"y": seen((3, (2, 3))), "z": node("Neg", 1, 1, ns=-1)})
    for step_ns, wanted in ((0, 5), (15, 5), (14, 5), (8, 3)):  # three runs of 5 ns each
        shorter = replace(step, step_ns=step_ns, traced_ns=200)
        assert [(one.node, one.ns) for one in measured_times(shorter).samples] == [("y", wanted)]
