"""An enforced order: worked by hand, lawful on any graph, never slower, and of no effect on other steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
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
        graph, whole(graph), on, pieces, planned,
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


@settings(deadline=None, max_examples=60)
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
        graph, step, on, pieces, planned,
        cut=lambda held: partition(held, placed, on, step=step),
        simulate=lambda some: simulate(some, on, priced, in_order),
    )  # fmt: skip
    assert found.without_ns == simulate(pieces, on, priced, in_order).makespan
    assert found.trace.makespan == simulate(found.partitions, on, priced, in_order).makespan
    without = attained(simulate(pieces, on, priced, in_order), pieces, on)
    assert attained(found.trace, found.partitions, on) <= without
    assert check_trace(found.trace, found.partitions, on) == []
    assert bool(found.edges) == (attained(found.trace, found.partitions, on) < without)
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
    graph, on = story("v = VariableV2", "g = Neg v", "x = Const", "loss = Neg x", "eval = Neg loss").built(), apart(1)
    message = graph_def(graph)
    message.node.add(name="new", op="ApplyGradientDescent", input=["v", "x", "g"]).attr["T"].type = 1
    graph = read_graph(message.SerializeToString())
    step = replace(whole(graph), runs=np.array([name not in ("eval",) for name in graph.names]))
    priced = costs(graph, on, [0 if op in ("Const", "VariableV2") else 1000 for op in graph.ops])
    turns = [{"g": 0, "new": 1, "loss": 2}.get(name, 0) for name in graph.names]
    placed = replace(assigned(on, [0] * len(graph)), priority=ints(turns))
    pieces = partition(graph, placed, on, legal=False, step=step)
    planned = simulate(pieces, on, priced, SimulationOptions(order="priority"))
    # any order takes as long on one device; a simulation that likes edges shows which ones are offered
    liking = [planned, replace(planned, makespan=planned.makespan - 1)]
    found = enforce(
        graph, step, on, pieces, planned,
        cut=lambda held: partition(held, placed, on, legal=False, step=step),
        simulate=lambda some: liking[some is not pieces],
    )  # fmt: skip
    names = [(graph.names[first], graph.names[then]) for first, then in found.edges]
    assert ("new", "loss") not in names
    assert all(then != "loss" for _, then in names)
