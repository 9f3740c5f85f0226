"""Updates in branches: where these end, and trainings in which one side is taken or the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placement import clients
from simulator import distributed, estimate_each, load_cluster, read_regime, train
from simulator.execution.options import SimulationOptions
from simulator.graph.attributes import COLOCATION, colocated_with, colocation
from simulator.graph.graph import Graph
from simulator.training.recognition.anatomy import anatomy
from simulator.training.recognition.parts import ends_of_branches, separate, sides_of
from tests.strategies import Rows, shape_attr, shapes_attr, type_attr
from tests.training.queues import PS, WORKER, number

BOOL = 10
SIZED: dict[str, Any] = {"_output_shapes": shapes_attr((4, 2))}


def branching(*, nested: bool = False, merged: bool = True) -> Graph:
    """Where `full` holds w -= sum + g and sum = 0, else sum += g: Keras's accumulation of gradients.

    A `nested` update is made only if it is finite. Without `merged` nothing joins the two sides.
    """
    made = Rows()

    def on_ps(name: str, op: str, inputs: list[str], dtype: int = 1, **attrs: Any) -> str:
        key = "dtype" if "Variable" in op or op == "VarHandleOp" else "T"
        return made.add(name, op, inputs, device=PS, **{key: type_attr(dtype), **attrs})

    def merge(name: str, *inputs: str) -> str:
        return on_ps(name, "Merge", list(inputs), BOOL, N=number(2))

    for name, dtype, shape in (("w", 1, (4, 2)), ("sum", 1, (4, 2)), ("full", BOOL, ()), ("finite", BOOL, ())):
        on_ps(name, "VarHandleOp", [], dtype, shape=shape_attr(*shape), _output_shapes=shapes_attr(()))
    for name in ("full", "finite"):
        on_ps(f"{name}/read", "ReadVariableOp", [name], BOOL, _output_shapes=shapes_attr(()))
    made.add(
        "x", "Placeholder", device=WORKER, dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr((4, 4))
    )
    on_ps("w/read", "ReadVariableOp", ["w"], **SIZED)
    made.add("g", "MatMul", ["x", "w/read"], device=WORKER, T=type_attr(), **SIZED)
    on_ps("side", "Switch", ["full/read", "full/read"], BOOL)
    made.add("g/side", "Switch", ["g", "full/read"], device=WORKER, T=type_attr())
    given, begin = "g/side:1", "side:1"
    if nested:
        on_ps("finite/side", "Switch", [begin, "finite/read"], BOOL)
        on_ps("g/finite", "Switch", [given, "finite/read"])
        given = "g/finite:1"
    on_ps("sum/read", "ReadVariableOp", ["sum"], **SIZED)
    on_ps("total", "AddV2", [given, "sum/read"], **SIZED)
    on_ps("w/update", "AssignSubVariableOp", ["w", "total"])
    on_ps("zero", "ZerosLike", ["total"], **SIZED)
    on_ps("sum/reset", "AssignVariableOp", ["sum", "zero", "^w/update"])
    on_ps("sum/add", "AssignAddVariableOp", ["sum", "g/side"])
    if nested:
        begin = merge("finite/end", "finite/side:1", "finite/side", "^sum/reset")
    if merged:
        merge("end", begin, "side", "^sum/reset", "^sum/add")
    ends = ["^end"] if merged else ["^sum/reset", "^sum/add"]
    made.add("loss", "Identity", ["g", *ends], device=WORKER, T=type_attr(), **SIZED)
    return made.built()


def test_what_is_on_a_side_is_known_until_both_are_merged() -> None:
    graph = branching(nested=True)
    sides = dict(zip(graph.names, sides_of(graph), strict=True))
    full, finite = (int(graph.tensor_ptr[graph.row(f"{name}/read")]) for name in ("full", "finite"))
    assert sides["sum/add"] == {(full, 0)}
    assert sides["w/update"] == sides["sum/reset"] == {(full, 1), (finite, 1)}
    assert sides["finite/end"] == {(full, 1)}
    assert all(not sides[name] for name in ("g", "side", "g/side", "sum/read", "end", "loss"))


@pytest.mark.parametrize("nested", [False, True])
def test_a_branch_ends_at_the_merge_that_runs_either_way(nested: bool) -> None:
    graph = branching(nested=nested)
    sides = sides_of(graph)
    for name, ends in (("w/update", ["end"]), ("sum/add", ["end"]), ("g", []), ("end", [])):
        assert [graph.names[row] for row in ends_of_branches(graph, graph.row(name), sides)] == ends


@pytest.mark.parametrize(("merged", "ends"), [(True, {"end"}), (False, {"w/update", "sum/reset", "sum/add"})])
def test_an_update_ends_where_its_branch_does(merged: bool, ends: set[str]) -> None:
    graph = branching(merged=merged)
    parted = separate(graph, anatomy(graph, fetches=["loss"]))
    assert {graph.names[row] for row in parted.ends} == ends


def test_a_branch_of_an_update_is_where_its_gradient_is_taken() -> None:
    """A lowered branch has its Switches beside their values: the mean would go to the worker, and back."""
    graph = branching()
    attrs = list(graph.attrs)
    attrs[graph.row("g/side")] = {**attrs[graph.row("g/side")], COLOCATION: colocation(["g"])}
    graph = replace(graph, attrs=tuple(attrs))
    chief = distributed(graph, load_cluster("ps=1,worker=2"), regime=read_regime("sync"), fetches=["loss"])[-1].graph
    row = chief.row("g/side")
    assert (chief.requested[row], colocated_with(chief.attrs[row])) == (PS, ("w",))
    assert chief.inputs_of(row)[0] == "sync_replicas/w/take"


@pytest.mark.parametrize("regime", ["sync", "sync:aggregate=1,total=2", "async", "ssp:bound=1"])
@pytest.mark.parametrize("full", [False, True])
def test_workers_go_on_whichever_side_an_update_takes(regime: str, full: bool) -> None:
    """The chief's tokens once waited for both sides."""
    cluster, known = load_cluster("ps=1,worker=2"), read_regime(regime)
    programs = distributed(branching(), cluster, regime=known, fetches=["loss"])
    costs = estimate_each(programs, cluster)
    options = SimulationOptions(branches={"full/read": full})
    run = train(clients(programs, cluster, costs), cluster, costs, regime=known, steps=4, options=options)
    assert len(run.update_ns) >= 4
