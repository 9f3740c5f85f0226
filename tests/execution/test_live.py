"""What a step never runs is not missed: no tensor there makes its time a lower bound, and no predicate is guessed."""

from __future__ import annotations

import numpy as np

from simulator import choose_step, load_cluster
from simulator.execution.live import live_step
from simulator.execution.simulate import simulate
from simulator.partitioning.cut import partition
from simulator.shapes.unknown import unsized_of
from tests.execution.cases import assigned, costs
from tests.execution.loops.cases import begun, conditional, number, predicate, scalars
from tests.strategies import BOOL, INT32, shapes_attr, type_attr


def test_what_is_on_a_side_that_is_never_taken_counts_as_no_tensor_of_unknown_size() -> None:
    """The predicate of the outer branch is a constant, behind a branch that joins constants."""
    rows = begun()
    rows.add(
        "three", "Less", [number(rows, "1", 1), number(rows, "2", 2)], T=type_attr(INT32), _output_shapes=scalars(1)
    )
    rows.add("ways", "Switch", [number(rows, "0", 0), "three"], T=type_attr(INT32), _output_shapes=scalars(2))
    numbers = {"T": type_attr(INT32), "_output_shapes": scalars(1)}
    rows.add("one", "Identity", ["ways:1"], **numbers)
    rows.add("other", "Identity", ["ways"], **numbers)
    joined = rows.add("joined", "Merge", ["other", "one"], **{**numbers, "_output_shapes": scalars(2)})
    rows.add("packed", "Pack", [joined, "1"], T=type_attr(INT32), _output_shapes=shapes_attr((2,)))
    rows.add("sum", "Max", ["packed", "0"], T=type_attr(INT32), _output_shapes=scalars(1))
    rows.add("above", "Less", ["sum", "1"], T=type_attr(INT32), _output_shapes=scalars(1))  # 1 < 1
    conditional(rows, "c", "x", "above")
    predicate(rows)
    rows.add("p/side", "Switch", ["p", "above"], T=type_attr(BOOL), _output_shapes=scalars(2))
    conditional(rows, "inner", "c/Switch:1", "p/side:1")
    rows.attrs[rows.names.index("inner/true")]["_output_shapes"] = shapes_attr((-1,))
    rows.inputs[rows.names.index("c/true")] = ["inner/Merge"]
    graph, cluster = rows.built(), load_cluster("1cpu")
    step = choose_step(graph, fetches=["c/Merge"])
    pieces = partition(graph, assigned(cluster, [0] * len(graph)), cluster, step=step)
    trace = simulate(pieces, cluster, costs(graph, cluster))
    live = live_step(graph, step, pieces, trace)
    gone = {graph.names[row] for row in np.flatnonzero(step.runs & ~live.runs).tolist()}
    assert gone >= {"inner/true", "inner/false", "inner/Merge", "c/true"}
    assert gone.isdisjoint({"x", "c/false", "joined", "packed"})
    assert (unsized_of(graph, step).tensors, unsized_of(graph, live).tensors) == (1, 0)
    assert not any(note.startswith("Unknown predicates") for note in trace.notes)
