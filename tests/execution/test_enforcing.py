"""An enforced order: worked by hand, lawful on any graph, never slower, and of no effect on other steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import read_graph
from simulator.columns import ints
from simulator.execution.enforcing import Enforced, enforce
from simulator.execution.laws import check_trace
from simulator.execution.memory import attained
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.graph.graph_def import graph_def
from simulator.partitioning.cut import partition
from simulator.partitioning.partitions import unconditional
from tests.execution.cases import apart, assigned, costs, dags, steps, whole, worlds
from tests.execution.test_engine import story
from tests.strategies import graphs

IN_ORDER = SimulationOptions(order="tensorflow")


def two_turns(first: str) -> Enforced:
    """Two ops on one device, of which `far` alone is needed on another; one of them has its turn first."""
    graph, on = story("x = Const", "far = Neg x", "near = Neg x", "there = Neg far").built(), apart(2)
    rows = [int(name == "there") for name in graph.names]
    placed = replace(assigned(on, rows), priority=ints([int(name != first) for name in graph.names]))
    pieces = partition(graph, placed, on, legal=False, step=whole(graph))
    priced = costs(graph, on, [0, 1000, 1000, 5000])
    planned = simulate(pieces, on, priced, SimulationOptions(order="priority"))
    return enforce(
        graph, whole(graph), pieces, planned, cluster=on,
        cut=lambda held: partition(held, placed, on, legal=False, step=whole(graph)),
        simulate=lambda some: simulate(some, on, priced, IN_ORDER),
    )  # fmt: skip


def test_the_op_that_others_wait_for_has_its_turn_first() -> None:
    good, bad = two_turns("far"), two_turns("near")
    assert good.planned_ns + 1000 == bad.planned_ns
    # TensorFlow's own order is one of both, so that one of them needs no edge, and the slower one gets none
    assert good.without_ns in (good.planned_ns, bad.planned_ns)
    assert good.trace.makespan == good.planned_ns
    assert bad.trace.makespan == bad.without_ns
    assert bad.edges == []
    assert good.edges == ([] if good.without_ns == good.planned_ns else [(1, 2)])


@settings(deadline=None, max_examples=35)
@given(st.data())
def test_an_enforced_order_is_lawful_and_never_slower(data: st.DataObject) -> None:
    graph = data.draw(st.one_of(graphs(), dags()))
    on, priced, rows, how = data.draw(worlds(graph))
    order = data.draw(st.permutations(range(len(graph))))
    step, placed = data.draw(steps(graph)), replace(assigned(on, rows), priority=ints(order))
    pieces = partition(graph, placed, on, step=step)
    planned = simulate(pieces, on, priced, replace(how, order="priority"))
    in_order = replace(how, order="tensorflow")
    found = enforce(
        graph, step, pieces, planned, cluster=on,
        cut=lambda held: partition(held, placed, on, step=step),
        simulate=lambda some: simulate(some, on, priced, in_order),
    )  # fmt: skip
    assert found.without_ns == simulate(pieces, on, priced, in_order).makespan
    assert found.trace.makespan == simulate(found.partitions, on, priced, in_order).makespan
    without = attained(simulate(pieces, on, priced, in_order), on)
    assert attained(found.trace, on) <= without
    assert check_trace(found.trace, found.partitions, on) == []
    assert bool(found.edges) == (attained(found.trace, on) < without)
    begun = dict(zip(planned.ops.node.tolist(), planned.ops.start_ns.tolist(), strict=True))
    ended = dict(zip(planned.ops.node.tolist(), planned.ops.end_ns.tolist(), strict=True))
    node = {int(pieces.origin[row]): row for row in np.flatnonzero(~pieces.inserted).tolist()}
    sure = unconditional(pieces)
    for first, then in found.edges:
        assert ended[node[first]] <= begun[node[then]]
        assert placed.device[first] == placed.device[then]
        assert sure[node[first]]
        assert sure[node[then]]


def test_an_evaluation_that_reads_the_loss_drags_no_update_in() -> None:
    """`eval` is outside of the step and needs `loss`, which on this device has its turn after an update."""
    graph = story("v = VariableV2", "g = Neg v", "x = Const", "loss = Neg x", "eval = Neg loss").built()
    message = graph_def(graph)
    message.node.add(name="new", op="ApplyGradientDescent", input=["v", "x", "g"]).attr["T"].type = 1
    edges = offered(message, ("eval",), {"g": 0, "new": 1, "loss": 2})
    assert ("new", "loss") not in edges
    assert all(then != "loss" for _, then in edges)


def offered(message: Any, elsewhere: tuple[str, ...], turns: dict[str, int]) -> set[tuple[str, str]]:
    """The edges that are offered on one device for ops that have these turns, of a step that lacks some nodes."""
    graph = read_graph(message.SerializeToString())
    step = replace(whole(graph), runs=np.array([name not in elsewhere for name in graph.names]))
    on = apart(1)
    priced = costs(graph, on, [1000 if name in turns else 0 for name in graph.names])
    placed = replace(assigned(on, [0] * len(graph)), priority=ints([turns.get(name, 0) for name in graph.names]))
    pieces = partition(graph, placed, on, legal=False, step=step)
    planned = simulate(pieces, on, priced, SimulationOptions(order="priority"))
    # any order takes as long on one device; a simulation that likes edges shows which ones are offered
    liking = [planned, replace(planned, makespan=planned.makespan - 1)]
    found = enforce(
        graph, step, pieces, planned, cluster=on,
        cut=lambda held: partition(held, placed, on, legal=False, step=step),
        simulate=lambda some: liking[some is not pieces],
    )  # fmt: skip
    return {(graph.names[first], graph.names[then]) for first, then in found.edges}


TURNS = {"target": 0, "hidden": 1, "logits": 2, "loss": 3}


@pytest.mark.parametrize("elsewhere", [(), ("summary",)])
def test_a_prediction_waits_for_no_op_that_needs_labels(elsewhere: tuple[str, ...]) -> None:
    """The labels have their turn first. A step that predicts has none of them to feed."""
    story_of = ["x = Placeholder", "y = Placeholder", "target = Neg y", "hidden = Neg x", "logits = Neg hidden"]
    draft = story(*story_of, "loss = AddN logits target", *(f"{name} = Neg loss" for name in elsewhere))
    message = graph_def(draft.built())
    edges = offered(message, elsewhere, TURNS)
    assert ("target", "hidden") not in edges
    assert ("target", "logits") not in edges
    next(node for node in message.node if node.name == "target").input[0] = "x"
    assert ("target", "hidden") in offered(message, elsewhere, TURNS)


def test_no_op_before_all_updates_waits_for_one() -> None:
    """A script may fetch `loss` to evaluate. It is within the step, and has its turn after an update."""
    message = graph_def(story("v = VariableV2", "g = Neg v", "x = Const", "loss = Neg x", "end = Neg x").built())
    message.node.add(name="new", op="ApplyGradientDescent", input=["v", "x", "g"]).attr["T"].type = 1
    next(node for node in message.node if node.name == "end").input.append("^new")
    edges = offered(message, (), {"g": 0, "new": 1, "loss": 2, "end": 3})
    assert ("new", "loss") not in edges
    assert ("g", "loss") in edges
    assert ("loss", "end") in edges


def test_no_op_that_makes_a_variable_waits() -> None:
    """The file has no initialiser, so another program assigns to `v`, perhaps before anything else can run."""
    graph = story("x = Const", "made = Neg x", "v = VarHandleOp", "read = Neg v").built()
    edges = offered(graph_def(graph), (), {"made": 0, "v": 1, "read": 2})
    assert edges == {("made", "read")}


def test_a_step_that_fits_goes_before_a_shorter_one_that_does_not() -> None:
    graph, on = story("far = Const", "x = Const", "a = Neg x", "b = Neg x").built(), apart(1)
    placed = replace(assigned(on, [0] * len(graph)), priority=ints(range(len(graph))))
    pieces = partition(graph, placed, on, legal=False, step=whole(graph))
    planned = simulate(pieces, on, costs(graph, on, 1000), SimulationOptions(order="priority"))
    (peak,) = planned.peak_bytes.tolist()
    shorter = replace(planned, makespan=planned.makespan - 1, peak_bytes=ints([peak + 1]))

    def edges(memory: int) -> list[tuple[int, int]]:
        less = replace(on, devices=(replace(on.devices[0], memory_bytes=memory),))
        return enforce(
            graph, whole(graph), pieces, planned, cluster=less,
            cut=lambda held: partition(held, placed, on, legal=False, step=whole(graph)),
            simulate=lambda some: planned if some is pieces else shorter,
        ).edges  # fmt: skip

    assert edges(peak + 1) != []
    assert edges(peak) == []
