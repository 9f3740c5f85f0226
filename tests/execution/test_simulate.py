"""From pieces to a trace: options, priorities, what is shown and what is noted."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import ints
from simulator.errors import ClusterError, SimvizError
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.execution.trace import Kind
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.partitioning.cut import partition
from simulator.partitioning.levels import FLAVOURS
from simulator.shapes.unknown import unknown_shapes
from simulator.wording import counted
from tests.execution.cases import apart, assigned, attrs_of, cluster, costs, dags, runs, steps, whole
from tests.execution.test_engine import story
from tests.strategies import Rows, type_attr

TWO = ("a:0/CPU:0", "b:0/CPU:0")
NODES = ("x = Const", "a = Neg x", "b = Neg x", "c = Neg b")


def test_the_trace_shows_the_ops_of_the_graph_and_not_what_was_inserted() -> None:
    graph, on = story(*NODES).built(), apart(2)
    pieces = partition(graph, assigned(on, [0, 0, 0, 1]), on, step=whole(graph))
    trace = simulate(pieces, on, costs(graph, on, 10))
    assert [pieces.graph.names[row] for row in trace.ops.node] == ["x", "a", "b", "c"]
    assert trace.busy_ns.tolist() == [20, 10]
    assert (trace.order, trace.contention, trace.notes) == ("fifo", "serial", ())
    assert trace.critical is not None
    kinds = [Kind.OP] * 3 + [Kind.LINK, Kind.LATENCY, Kind.OP]  # x, a in the lane, b, its transfer, c
    assert trace.tasks.kind[trace.critical].tolist() == kinds
    assert trace.critical[[0, 1, 2, 5]].tolist() == trace.ops.task.tolist()


def test_priorities_are_those_of_the_graph_that_was_cut() -> None:
    graph, on = story(*NODES).built(), apart(1)
    given = replace(assigned(on, [0] * 4), priority=ints([0, 9, 1, 2]))
    pieces = partition(graph, given, on, step=whole(graph))
    for order, shown, names in (
        ("auto", "priority", "xbca"),
        ("priority", "priority", "xbca"),
        ("fifo", "fifo", "xabc"),
    ):
        trace = simulate(pieces, on, costs(graph, on, 10), SimulationOptions(order=order))
        assert trace.order == shown
        assert [pieces.graph.names[row] for row in trace.ops.node] == list(names)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"trips": {"while": 3}}, "no loop 'while'; it has none"),
        ({"branches": {"p": True}}, "The step has no predicate 'p'"),
        ({"trips": {3: 3}}, "no loop 3; it has none"),
        ({"branches": {3: True}}, "The step has no predicate 3"),
        ({"order": "priority"}, "There are no priorities"),
    ],
)
def test_what_is_not_modelled_is_refused(options: dict[str, Any], sentence: str) -> None:
    graph, on = story(*NODES).built(), apart(1)
    pieces = partition(graph, assigned(on, [0] * 4), on, step=whole(graph))
    with pytest.raises(SimvizError, match=sentence):
        simulate(pieces, on, costs(graph, on), SimulationOptions(**options))


def test_what_is_guessed_is_counted() -> None:
    draft = story("x = Placeholder", "a = Neg x", size=-1)
    draft.add("p", "Placeholder", dtype=type_attr(10), shape=AttrValue())
    draft.add("s", "Switch", ["a", "p"], T=type_attr())
    draft.add("m", "Merge", ["s", "s:1"], **attrs_of("Merge", 2, -1))
    draft.add("end", "Neg", ["m"], **attrs_of("Neg", 1, -1))
    graph, on = draft.built(), apart(2)
    pieces = partition(graph, assigned(on, [0, 0, 0, 0, 0, 1]), on, step=whole(graph))
    assert simulate(pieces, on, costs(graph, on)).notes == (
        "Unknown predicates are taken as true, unknown cases as branch 0: 'p:0' true.",
        "1 transfer of unknown size, counted as 0 bytes.",
        "5 tensors of unknown size, without memory here.",
    )


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_missing_route_is_told_by_the_names_of_the_graph(flavour: str) -> None:
    graph, on = (
        story("x = Placeholder", "a = Neg x", "n = NoOp ^a", "m = NoOp ^x").built(),
        cluster(TWO, (), {(0, 1): None}),
    )
    for rows, what in (
        ([0, 1, 1, 0], "the tensor 'x:0'"),
        ([0, 0, 1, 0], "the control edge from 'a'"),
        ([0, 0, 0, 1], "the control edge from 'x'"),
    ):
        pieces = partition(graph, assigned(on, rows), on, legal=False, step=whole(graph), flavour=flavour)
        with pytest.raises(ClusterError, match=rf"no route from /job:a/.* to /job:b/.* {re.escape(what)} would have"):
            simulate(pieces, on, costs(graph, on))


@given(st.data(), dags(), st.sampled_from(FLAVOURS))
def test_what_has_no_size_counts_alike_in_the_step_and_in_its_pieces(
    data: st.DataObject, graph: Graph, flavour: str
) -> None:
    step = data.draw(steps(graph))
    on, priced, rows = data.draw(runs(graph))
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=step, flavour=flavour)
    unknown = sum(unknown_shapes(graph, step).values())
    said = f"{counted(unknown, 'tensor')} of unknown size, without memory here."
    assert [note for note in simulate(pieces, on, priced).notes if "without memory" in note] == [said] * (unknown > 0)


def test_an_empty_step_gives_an_empty_trace() -> None:
    graph, on = Rows().built(), apart(2)
    pieces = partition(graph, assigned(on, []), on, step=whole(graph))
    trace = simulate(pieces, on, costs(graph, on))
    assert (trace.makespan, len(trace.ops.node), trace.peak_bytes.tolist()) == (0, 0, [0, 0])
