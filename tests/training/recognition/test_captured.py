"""Graphs of functions that capture their variables, with optimizers made of plain ops."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from simulator import choose_step, load_cluster
from simulator.errors import GraphError
from simulator.graph.captured import captured, own_variables
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.shapes.filling import with_shapes
from simulator.training.pipelines.pipelined import pipeline
from simulator.training.programs.replicated import Replication, replicate
from simulator.training.recognition.anatomy import anatomy
from simulator.training.recognition.captured import with_variables
from simulator.training.recognition.plain_updates import plain_updates
from simulator.training.recognition.variables import variable_shape
from simulator.training.recognition.ways_back import through_any, through_rows
from simulator.training.regimes import read_regime
from tests.strategies import Rows, loop, shape_attr, shapes_attr, type_attr, typed, types_attr

RESOURCE, INT64, STRING = 20, 9, 7


def read(made: Rows, name: str, handle: str, *controls: str, shape: tuple[int, ...] | None = (), dtype: int = 1) -> str:
    sizes = {} if shape is None else {"_output_shapes": shapes_attr(shape)}
    return made.add(name, "ReadVariableOp", [handle, *controls], dtype=type_attr(dtype), **sizes)


def assign(made: Rows, name: str, kind: str, handle: str, value: str, *controls: str, dtype: int = 1) -> str:
    return made.add(name, f"Assign{kind}VariableOp", [handle, value, *controls], dtype=type_attr(dtype))


def step(
    *, said: bool = True, saved: bool = False, ordered: bool = False, scaled: bool = False, late: bool = False
) -> Graph:
    """m += (g - m) * a; s += (g * g - s) * a; w -= m * s; with a moving average of y and a count of steps.

    All may be `saved` to a path that is fed; the count may be `ordered` after the update, as in TensorFlow 1. With a
    `scaled` loss the update is a branch, taken if the gradient is finite. A `late` update waits for y, as a branch may.
    """
    made, shape = Rows(), (4, 2) if said else None
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(8, 4), _output_shapes=shapes_attr((8, 4)))
    for name in ("w", "m", "s", "average", "count"):
        made.add(name, "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
    made.add("a", "Const", **typed("Const"))
    made.add("one", "Const", dtype=type_attr(INT64), value=typed("Const")["value"])
    read(made, "w/read", "w", shape=shape)
    made.add("y", "MatMul", ["x", "w/read"], T=type_attr(), _output_shapes=shapes_attr((8, 2)))
    made.add("g", "MatMul", ["x", "y"], T=type_attr())
    given = {name: name for name in ("g", "w", "m", "s")}
    if scaled:
        made.add("finite", "IsFinite", ["g"], T=type_attr())
        for name in given:
            made.add(f"{name}/switch", "Switch", [name, "finite"], T=type_attr(1 if name == "g" else RESOURCE))
            given[name] = f"{name}/switch:1"
    updates = []
    for name in ("m", "s"):
        if name == "s":
            made.add("g2", "Mul", [given["g"], given["g"]], T=type_attr())
        read(made, f"{name}/read", given[name], *(["^y"] if late else []), shape=shape)
        made.add(f"{name}/less", "Sub", [given["g"] if name == "m" else "g2", f"{name}/read"], T=type_attr())
        made.add(f"{name}/part", "Mul", [f"{name}/less", "a"], T=type_attr())
        updates.append(assign(made, f"{name}/update", "Add", given[name], f"{name}/part", f"^{name}/read"))
        read(made, f"{name}/now", given[name], f"^{name}/update", shape=shape)
    made.add("change", "Mul", ["m/now", "s/now"], T=type_attr())
    updates.append(assign(made, "w/update", "Sub", given["w"], "change", "^w/read"))
    read(made, "average/read", "average", shape=(8, 2))
    made.add("average/old", "Mul", ["average/read", "a"], T=type_attr())
    made.add("average/new", "Mul", ["y", "a"], T=type_attr())
    made.add("average/sum", "AddV2", ["average/old", "average/new"], T=type_attr())
    updates.append(assign(made, "average/update", "", "average", "average/sum"))
    read(made, "count/read", "count", dtype=INT64)
    made.add("count/sum", "AddV2", ["count/read", "one"], T=type_attr(INT64))
    after = ["^w/update"] if ordered else []
    updates.append(assign(made, "count/update", "", "count", "count/sum", *after, dtype=INT64))
    if saved:
        made.add("path", "Placeholder", dtype=type_attr(STRING), shape=shape_attr())
        kept = [read(made, f"{name}/kept", name, shape=shape) for name in ("w", "m", "s")]
        made.add("save", "SaveV2", ["path", "a", "a", *kept], dtypes=types_attr(1, 1, 1))
    made.add("NoOp", "NoOp", [f"^{name}" for name in updates])
    return made.built()


def test_what_a_function_captured_becomes_a_variable_of_its_size() -> None:
    graph = with_variables(step())
    assert [graph.ops[graph.row(name)] for name in ("x", "w", "m", "count")] == ["Placeholder", *["VarHandleOp"] * 3]
    assert [variable_shape(graph, graph.row(name)) for name in ("w", "s", "average", "count")] == [
        (4, 2),
        (4, 2),
        (8, 2),
        (),
    ]
    assert graph.attrs[graph.row("count")]["dtype"].type == INT64
    assert graph.attrs[graph.row("m")]["shared_name"].s == b"m"
    assert "5 variables" in graph.notes[-1]
    assert captured(graph) == {}
    assert with_variables(graph) is graph


def test_an_optimizer_of_plain_ops_has_one_gradient_and_slots_and_an_average_is_none() -> None:
    graph = with_variables(step())
    found = anatomy(graph)
    (gradient,) = found.gradients
    assert graph.names[gradient.variable] == "w"
    entering = {(graph.names[graph.edge_src[edge]], graph.names[graph.edge_dst[edge]]) for edge in gradient.values}
    assert entering == {("g", "m/less"), ("g", "g2")}
    assert {graph.names[one]: graph.names[of] for one, of in found.slot_of.items()} == {"m": "w", "s": "w"}
    assert [graph.names[row] for row in found.counts] == ["count/update"]
    assert found.step.fetches == ("NoOp",)


def test_a_branch_that_depends_on_examples_leaves_slots_what_they_are() -> None:
    graph = with_variables(step(scaled=True))
    found = anatomy(graph)
    (gradient,) = found.gradients
    assert graph.names[gradient.variable] == "w"
    assert {graph.names[graph.edge_dst[edge]] for edge in gradient.values} == {"m/less", "g2"}
    assert {graph.names[one]: graph.names[of] for one, of in found.slot_of.items()} == {"m": "w", "s": "w"}


def test_an_update_is_made_where_its_variable_is() -> None:
    graph = replicate(step(), load_cluster("ps=3,worker=2"))[0].graph
    home = graph.requested[graph.row("w")]
    beside = ("m", "s", "m/less", "g2", "change", "w/update", "s/update")
    assert {graph.requested[graph.row(name)] for name in beside} == {home}
    assert graph.requested[graph.row("g")] == "/job:worker/task:0"


def test_what_a_checkpoint_saves_is_a_slot_all_the_same() -> None:
    graph = replicate(step(saved=True), load_cluster("ps=3,worker=2"), fetch=("NoOp",))[0].graph
    home = graph.requested[graph.row("w")]
    beside = ("m", "s", "m/less", "m/part", "m/update", "s/part", "s/update", "change", "w/update")
    assert {graph.requested[graph.row(name)] for name in beside} == {home}


def test_a_count_for_which_no_update_comes_first_is_no_end_of_an_update() -> None:
    cluster = load_cluster("ps=1,worker=2")
    assert anatomy(with_variables(step())).ends == ()
    assert {one.counts for one in replicate(step(), cluster)} == {()}
    assert {one.counts for one in replicate(step(ordered=True), cluster)} == {("count/update",)}


def test_gradients_of_towers_and_workers_are_averaged_before_anything_is_squared() -> None:
    (program,) = replicate(step(), load_cluster("2gpu"), how="in")
    graph = program.graph
    assert graph.inputs_of(graph.row("average/w/sum")) == ("g", "tower_1/g")
    assert {name for name in graph.names if "average/w" in graph.inputs_of(graph.row(name))} == {"m/less", "g2"}
    worker, *_ = replicate(step(), load_cluster("ps=1,worker=2"), regime=read_regime("sync"))
    graph = worker.graph
    taken = "sync_replicas/w/take"
    assert {name for name in graph.names if taken in graph.inputs_of(graph.row(name))} == {"m/less", "g2"}


def test_an_update_of_many_workers_comes_after_its_gradients_where_its_count_comes_first() -> None:
    cluster = load_cluster("ps=1,worker=2")
    chiefs = [replicate(step(ordered=ordered), cluster, regime=read_regime("sync"))[-1] for ordered in (False, True)]
    assert [chief.counts for chief in chiefs] == [("sync_replicas/tokens/step",), ("count/update",)]


def test_what_waits_for_a_replica_without_its_values_is_no_part_of_it() -> None:
    worker, *_ = replicate(step(late=True), load_cluster("ps=1,worker=2"), regime=read_regime("sync"))
    graph = worker.graph
    assert set(graph.inputs_of(graph.row("sync_replicas/token"))[1:]) == {"^sync_replicas/w/push", "^average/update"}


def test_whether_gradients_are_finite_is_found_out_where_their_means_are_taken() -> None:
    """The chief once computed the model for it, and a worker handed in nothing where its branch was not taken."""
    worker, *_, chief = replicate(step(scaled=True), load_cluster("ps=1,worker=2"), regime=read_regime("sync"))
    graph, taken = chief.graph, "sync_replicas/w/take"
    assert {name for name in graph.names if taken in graph.inputs_of(graph.row(name))} == {"finite", "g/switch"}
    assert graph.inputs_of(graph.row("sync_replicas/w/push"))[2] == "g"
    runs = choose_step(graph, feeds=chief.feeds, fetches=chief.fetches).runs
    assert chief.feeds == ()
    assert not runs[[graph.row(name) for name in ("y", "g")]].any()
    assert worker.feeds == ("x:0",)


def test_a_variable_of_unknown_size_is_named_and_can_be_told() -> None:
    with pytest.raises(GraphError, match=r"how large 3 of these 3 are: w, m, s"):
        pipeline(step(said=False), load_cluster("2gpu"), microbatches=2)
    with pytest.raises(GraphError, match=r"how large 3 of these 5 are: w, m, s.*add_shapes=True.*--feed") as refusal:
        with_variables(step(said=False))
    assert refusal.value.node == "w"
    graph = with_variables(step(said=False), {"w": (4, 2), "m:0": (4, 2), "s": (4, 2)})
    assert variable_shape(graph, graph.row("m")) == (4, 2)
    with pytest.raises(GraphError, match=r"how large 1 of these 5 are: m\."):
        with_variables(step(said=False), {"w": (4, 2), "m": (4, -1), "s": (4, 2)})


def by_hand(*, scaled: bool = False) -> Graph:
    """w = w - g * a, or w * g - g: there no gradient can be told from the new value."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(8, 4), _output_shapes=shapes_attr((8, 4)))
    handle = {"dtype": type_attr(), "shape": shape_attr(4, 2), "_output_shapes": shapes_attr(())}
    made.add("w", "VarHandleOp", **handle)
    made.add("a", "Const", **typed("Const"))
    read(made, "w/read", "w", shape=(4, 2))
    made.add("y", "MatMul", ["x", "w/read"], T=type_attr(), _output_shapes=shapes_attr((8, 2)))
    made.add("g", "MatMul", ["x", "y"], T=type_attr(), _output_shapes=shapes_attr((4, 2)))
    made.add("h", "Sum", ["y", "a"], T=type_attr())
    made.add("part", "Mul", ["g", "a"], T=type_attr())
    made.add("kept", "Mul", ["w/read", "h"], T=type_attr())
    made.add("new", "Sub", ["kept" if scaled else "w/read", "part"], T=type_attr())
    assign(made, "update", "", "w", "new")
    return made.built()


@pytest.mark.parametrize(("scaled", "source"), [(False, "part"), (True, "new")])
def test_what_is_taken_from_a_variable_is_its_gradient_and_not_its_new_value(scaled: bool, source: str) -> None:
    graph = by_hand(scaled=scaled)
    (gradient,) = anatomy(graph).gradients
    assert graph.names[graph.edge_src[gradient.values[0]]] == source


def test_towers_of_workers_can_be_synchronous_with_an_update_by_hand() -> None:
    worker, *_, chief = replicate(by_hand(), load_cluster("ps=1,worker=2x2gpu"), how="both", regime=read_regime("sync"))
    graph = chief.graph
    assert graph.inputs_of(graph.row("new")) == ("w/read", "sync_replicas/w/take")
    assert graph.inputs_of(graph.row("sync_replicas/w/push"))[2] == "average/w"
    assert worker.graph is graph


def multiplied(*, watched: bool) -> Graph:
    """m += g; w -= m @ (m + g): such as a momentum that an optimizer makes orthogonal by products of matrices.

    Without a loss that is `watched` nothing tells which of the two is trained, as both change both.
    """
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(8, 4), _output_shapes=shapes_attr((8, 4)))
    for name in ("w", "m"):
        made.add(name, "VarHandleOp", dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr(()))
        read(made, f"{name}/read", name, shape=(4, 4))
    made.add("y", "MatMul", ["x", "w/read"], T=type_attr(), _output_shapes=shapes_attr((8, 4)))
    made.add("g", "MatMul", ["x", "y"], T=type_attr(), _output_shapes=shapes_attr((4, 4)))
    made.add("sum", "AddV2", ["m/read", "g"], T=type_attr(), _output_shapes=shapes_attr((4, 4)))
    assign(made, "m/update", "", "m", "sum")
    read(made, "m/now", "m", "^m/update", shape=(4, 4))
    made.add("turned", "MatMul", ["m/now", "sum"], T=type_attr(), _output_shapes=shapes_attr((4, 4)))
    assign(made, "w/update", "Sub", "w", "turned")
    made.add("loss", "Neg" if watched else "Shape", ["y"], T=type_attr())
    return made.built()


@pytest.mark.parametrize("kind", ["ReadVariableOp", "ResourceGather"])
def test_a_file_with_shapes_is_asked_for_where_it_says_the_size(kind: str) -> None:
    """A table of which rows are gathered alone is of unknown size in a file with all shapes, too."""
    made = Rows()
    made.add("w", "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
    rows = [made.add("rows", "Placeholder", dtype=type_attr(3))] if kind == "ResourceGather" else []
    made.add("read", kind, ["w", *rows], dtype=type_attr())
    with pytest.raises(GraphError, match=r"how large 1 of these 1 are: w\.") as refusal:
        with_variables(made.built())
    assert ("add_shapes=True" in str(refusal.value)) == (kind == "ReadVariableOp")


def test_a_handle_beside_which_no_shape_is_written_has_that_of_its_reads() -> None:
    """A file may hold the attribute that a graph in memory has, with nothing in it."""
    made = Rows()
    empty = {"_handle_shapes": AttrValue(list={})}
    made.add("w", "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr(), **empty)
    read(made, "w/read", "w", shape=(4, 2))
    graph = with_variables(made.built())
    assert variable_shape(graph, graph.row("w")) == (4, 2)


def test_rows_of_a_table_of_unknown_size_have_the_sides_that_the_file_says() -> None:
    """The file leaves the length of a sequence open, and a feed says it; what was gathered by it stayed unknown."""
    made = Rows()
    made.add("ids", "Placeholder", dtype=type_attr(3), shape=shape_attr(2, -1), _output_shapes=shapes_attr((2, -1)))
    made.add("table", "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
    sizes = {"_output_shapes": shapes_attr((2, -1, 8))}
    made.add("rows", "ResourceGather", ["table", "ids"], dtype=type_attr(), Tindices=type_attr(3), **sizes)
    graph = with_shapes(own_variables(made.built()), feeds={"ids": (2, 5)})
    assert graph.tensor_shape[graph.tensor_ptr[graph.row("rows")]] == (2, 5, 8)


def test_a_gradient_behind_an_update_of_its_step_is_refused_where_workers_wait() -> None:
    with pytest.raises(GraphError, match=r"'turned', which updates 'w', comes after another update.*async"):
        replicate(multiplied(watched=False), load_cluster("ps=1,worker=2"), regime=read_regime("sync"))


@pytest.mark.parametrize("how", ["in", "both"])
def test_a_gradient_behind_an_update_of_its_step_is_refused_by_towers(how: Replication) -> None:
    """Several epochs in one step: of the first alone there were towers, and the rest ran once."""
    with pytest.raises(GraphError, match=r"'turned', which updates 'w', comes after another update.*towers.*async"):
        replicate(multiplied(watched=False), load_cluster("ps=1,worker=2x2gpu"), how=how)


@pytest.mark.parametrize(("how", "said"), [("in", "towers"), ("allreduce:ring", "replicas")])
def test_an_update_in_a_loop_is_refused_where_replicas_are_averaged(how: Replication, said: str) -> None:
    """Each replica has a loop of its own, and no tensor goes from one loop to another."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(8, 4), _output_shapes=shapes_attr((8, 4)))
    made.add("w", "VarHandleOp", dtype=type_attr(), shape=shape_attr(8, 4), _output_shapes=shapes_attr(()))
    frame = {"frame_name": AttrValue(s=b"while"), "is_constant": AttrValue(b=True)}
    made.add("w/in", "Enter", ["w"], T=type_attr(RESOURCE), **frame)
    made.add("x/in", "Enter", ["x"], T=type_attr(), _output_shapes=shapes_attr((8, 4)), **frame)
    read(made, "read", "w/in", shape=(8, 4))
    made.add("g", "Mul", ["x/in", "read"], T=type_attr(), _output_shapes=shapes_attr((8, 4)))
    made.add("update", "ResourceApplyGradientDescent", ["w/in", "g", "g"], T=type_attr())
    with pytest.raises(GraphError, match=rf"'g', which updates 'w', is made in a loop. So {said}.*async or ssp"):
        replicate(made.built(), load_cluster("worker=2x1gpu"), how=how)


def test_an_optimizer_that_multiplies_matrices_has_one_gradient() -> None:
    """Muon's counted once before the momentum and once after the products, so twice as many bytes travelled."""
    graph = multiplied(watched=True)
    (gradient,) = anatomy(graph).gradients
    ends = [(graph.names[graph.edge_src[edge]], graph.names[graph.edge_dst[edge]]) for edge in gradient.values]
    assert (graph.names[gradient.variable], ends) == ("w", [("g", "sum")])
    (update,) = plain_updates(graph, range(len(graph)))
    assert [graph.names[row] for row in update.slots] == ["m"]
    assert {graph.names[row] for row in update.nodes} == {"sum", "turned", "m/update", "w/update"}
    worker, *_ = replicate(graph, load_cluster("ps=1,worker=2"), regime=read_regime("sync"))
    assert [name for name in worker.graph.names if name.endswith("/push")] == ["sync_replicas/w/push"]


def test_what_hands_on_all_gradients_at_once_hands_on_each_by_itself() -> None:
    """Keras's accumulated gradients came back from the parameter servers to pass through one op."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr((4, 4)))
    for name in ("w", "v", "sum"):
        made.add(name, "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
        read(made, f"{name}/read", name, shape=(4, 4))
    for name in ("w", "v"):
        made.add(f"{name}/g", "MatMul", ["x", f"{name}/read"], T=type_attr(), _output_shapes=shapes_attr((4, 4)))
    made.add("w/total", "AddV2", ["w/g", "sum/read"], T=type_attr(), _output_shapes=shapes_attr((4, 4)))
    made.add("all", "IdentityN", ["w/total", "v/g"], T=types_attr(1, 1), _output_shapes=shapes_attr((4, 4), (4, 4)))
    for port, name in enumerate(("w", "v")):
        made.add(f"{name}/step", "Neg", [f"all:{port}"], T=type_attr())
        assign(made, f"{name}/update", "Sub", name, f"{name}/step")
    made.add("zeros", "Fill", ["dims", "zero"], T=type_attr(), _output_shapes=shapes_attr((4, 4)))
    made.add("dims", "Const", **typed("Const"))
    made.add("zero", "Const", **typed("Const"))
    assign(made, "sum/more", "Add", "sum", "w/g")
    assign(made, "sum/reset", "", "sum", "zeros", "^w/update")
    made.add("train", "NoOp", ["^sum/reset", "^sum/more", "^v/update", "^all"])
    graph = replicate(made.built(), load_cluster("ps=2,worker=2"), fetch=("train",))[0].graph
    on = dict(zip(graph.names, graph.requested, strict=True))
    assert "all" not in on
    assert "all/all" in on
    assert graph.inputs_of(graph.row("v/step")) == ("all/1",)
    assert on["w"] != on["v"]
    beside = ("w/total", "all/0", "w/step", "w/update", "sum", "sum/reset", "sum/more", "zeros")
    assert {on[name] for name in beside} == {on["w"]}
    assert on["all/1"] == on["v/g"] == "/job:worker/task:0"


def test_what_a_loop_hands_on_at_once_stays_one_op() -> None:
    """Loops of TensorFlow 2 hand on their variables, too; each value had an op of its own in every iteration."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr((4, 4)))
    for name in ("w", "v"):
        made.add(name, "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
        read(made, f"{name}/read", name, shape=(4, 4))
    shapes = shapes_attr((4, 4), (4, 4), (4, 4))
    made.add("loop", "IdentityN", ["x", "w/read", "v/read"], T=types_attr(1, 1, 1), _output_shapes=shapes)
    for port, name in enumerate(("w", "v"), 1):
        made.add(f"{name}/g", "MatMul", ["loop", f"loop:{port}"], T=type_attr(), _output_shapes=shapes_attr((4, 4)))
        assign(made, f"{name}/update", "Sub", name, f"{name}/g")
    made.add("train", "NoOp", ["^w/update", "^v/update"])
    graph = with_variables(made.built())
    assert graph.inputs_of(graph.row("w/g")) == ("loop", "loop:1")


def test_what_an_update_computes_without_examples_and_averages_of_weights_are_beside_them() -> None:
    """LAMB's norms and Keras's averages of weights were on the worker, so both came there, and an average went back."""
    made, sized = Rows(), {"T": type_attr(), "_output_shapes": shapes_attr((4, 4))}
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr((4, 4)))
    for name in ("w", "v", "m", "ema"):
        made.add(name, "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
        read(made, f"{name}/read", name, shape=(4, 4))
    made.add("y", "MatMul", ["x", "v/read"], **sized)
    made.add("g", "MatMul", ["y", "w/read"], **sized)
    made.add("h", "MatMul", ["g", "x"], **sized)
    assign(made, "m/update", "Add", "m", "g")
    read(made, "m/now", "m", "^m/update", shape=(4, 4))
    made.add("axes", "Const", **typed("Const"))
    made.add("norm", "Sum", ["m/now", "axes"], T=type_attr())
    made.add("step", "RealDiv", ["g", "norm"], **sized)
    assign(made, "w/update", "Sub", "w", "step")
    assign(made, "v/update", "Sub", "v", "h")
    read(made, "w/now", "w", "^w/update", shape=(4, 4))
    made.add("old", "Mul", ["ema/read", "axes"], **sized)
    made.add("new", "Mul", ["w/now", "axes"], **sized)
    made.add("sum", "AddV2", ["old", "new"], **sized)
    assign(made, "ema/update", "", "ema", "sum")
    made.add("loss", "Neg", ["h"], T=type_attr())
    made.add("train", "NoOp", ["^ema/update", "^v/update", "^loss"])
    graph = replicate(made.built(), load_cluster("ps=2,worker=2"), fetch=("train",))[0].graph
    on = dict(zip(graph.names, graph.requested, strict=True))
    assert {on[name] for name in ("m", "ema", "norm", "step", "old", "new", "sum", "ema/update")} == {on["w"]}
    assert on["v"] != on["w"]
    assert on["axes"] == on["g"] == "/job:worker/task:0"


def test_sums_of_gradients_that_are_clipped_by_the_norm_of_all_have_the_gradients_that_are_added() -> None:
    """Keras's accumulation with `global_clipnorm` counted a gradient for each slot, and a synchronous training hung."""
    made, sized = Rows(), {"T": type_attr(), "_output_shapes": shapes_attr((4, 4))}
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr((4, 4)))
    for name in ("w", "v", "w/sum", "v/sum"):
        made.add(name, "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
        read(made, f"{name}/read", name, shape=(4, 4))
    made.add("y", "MatMul", ["x", "w/read"], **sized)
    made.add("loss", "MatMul", ["y", "v/read"], **sized)
    for name, of in (("w", "v/read"), ("v", "y")):
        made.add(f"{name}/g", "MatMul", ["x", of], **sized)
        made.add(f"{name}/all", "AddV2", [f"{name}/g", f"{name}/sum/read"], **sized)
        made.add(f"{name}/square", "Square", [f"{name}/all"], **sized)
        made.add(f"{name}/norm", "Max", [f"{name}/square", "axes"], T=type_attr())
        assign(made, f"{name}/sum/add", "Add", f"{name}/sum", f"{name}/g")
    made.add("axes", "Const", **typed("Const"))
    made.add("norm", "AddV2", ["w/norm", "v/norm"], T=type_attr())
    for name in ("w", "v"):
        made.add(f"{name}/step", "RealDiv", [f"{name}/all", "norm"], **sized)
        assign(made, f"{name}/update", "Sub", name, f"{name}/step")
    updates = plain_updates(graph := with_variables(made.built()), range(len(graph)))
    ends = [
        {(graph.names[graph.edge_src[at]], graph.names[graph.edge_dst[at]]) for at in one.values} for one in updates
    ]
    assert ends == [{(f"{name}/g", f"{name}/all"), (f"{name}/g", f"{name}/sum/add")} for name in ("w", "v")]
    for one, name in zip(updates, ("w", "v"), strict=True):
        assert [graph.names[row] for row in one.slots] == [f"{name}/sum"]
        own = {f"{name}/{part}" for part in ("all", "square", "norm", "step", "update", "sum/add")}
        assert own <= {graph.names[row] for row in one.nodes} <= own | {"norm"}


def test_rows_that_a_momentum_makes_dense_are_the_gradient() -> None:
    """A table of 13 MB went to the parameter servers, and not the rows of a batch."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(8, 2), _output_shapes=shapes_attr((8, 2)))
    made.add("ids", "Placeholder", dtype=type_attr(INT64), shape=shape_attr(8), _output_shapes=shapes_attr((8,)))
    for name in ("w", "m"):
        made.add(name, "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
        read(made, f"{name}/read", name, shape=(100, 2))
    made.add("axis", "Const", **typed("Const"))
    made.add(
        "y", "GatherV2", ["w/read", "ids", "axis"], Tparams=type_attr(), Tindices=type_attr(INT64), Taxis=type_attr()
    )
    made.add("rows", "MatMul", ["y", "x"], T=type_attr())
    made.add("scaled", "Mul", ["rows", "axis"], T=type_attr())
    made.add("dense", "UnsortedSegmentSum", ["scaled", "ids", "axis"], T=type_attr(), Tindices=type_attr(INT64))
    made.add("new", "Sub", ["m/read", "dense"], T=type_attr())
    assign(made, "m/update", "", "m", "new")
    read(made, "m/now", "m", "^m/update", shape=(100, 2))
    assign(made, "w/update", "Add", "w", "m/now")
    (update,) = plain_updates(graph := with_variables(made.built()), range(len(graph)))
    assert [graph.names[graph.edge_src[edge]] for edge in update.values] == ["scaled"]
    assert [graph.names[graph.edge_src[edge]] for edge in update.indices] == ["ids"]


def layered(layers: int) -> Graph:
    """m += g; w -= m, of so many variables; then m = 0."""
    made = Rows()
    made.add("zero", "Const", **typed("Const"))
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr((4, 4)))
    for at in range(layers):
        for name in (f"w{at}", f"m{at}"):
            made.add(name, "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
            read(made, f"{name}/read", name, shape=(4, 4))
        made.add(f"g{at}", "MatMul", ["x", f"w{at}/read"], T=type_attr(), _output_shapes=shapes_attr((4, 4)))
        assign(made, f"m{at}/update", "Add", f"m{at}", f"g{at}")
        read(made, f"m{at}/now", f"m{at}", f"^m{at}/update", shape=(4, 4))
        assign(made, f"w{at}/update", "Sub", f"w{at}", f"m{at}/now")
        assign(made, f"m{at}/reset", "", f"m{at}", "zero", f"^w{at}/update")
    return made.built()


def stacked(layers: int) -> Graph:
    """So many layers, each behind the one before, with an optimizer's ops; a metric adds up what comes of them.

    All gradients are divided by the sum of their squares.
    """
    made, sized = Rows(), {"T": type_attr(), "_output_shapes": shapes_attr((4, 4))}
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr((4, 4)))
    made.add("rate", "Const", **typed("Const"))
    for name in ("metric", *(f"w{at}" for at in range(layers))):
        made.add(name, "VarHandleOp", dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr(()))
        read(made, f"{name}/read", name, shape=(4, 4))
    value = "x"
    for at in range(layers):
        value = made.add(f"y{at}", "MatMul", [value, f"w{at}/read"], **sized)
    assign(made, "metric/add", "Add", "metric", value)
    for at in reversed(range(layers)):
        value = made.add(f"g{at}", "MatMul", [value, f"w{at}/read"], **sized)
        made.add(f"g{at}/square", "Square", [value], **sized)
    made.add("norm", "AddN", [f"g{at}/square" for at in range(layers)], N=AttrValue(i=layers), **sized)
    for at in range(layers):
        made.add(f"w{at}/clip", "RealDiv", [f"g{at}", "norm"], **sized)
        made.add(f"w{at}/update", "ResourceApplyGradientDescent", [f"w{at}", "rate", f"w{at}/clip"], T=type_attr())
    return made.built()


def synchronous(graph: Graph) -> object:
    return replicate(graph, load_cluster("ps=1,worker=2"), regime=read_regime("sync"))


def towers(graph: Graph) -> object:
    return replicate(graph, load_cluster("2gpu"), how="in")


@pytest.mark.parametrize(
    ("function", "make", "run"),
    [
        ("recognition.variable_flow.variable_of", layered, synchronous),
        ("programs.accumulators.colocated_with", layered, synchronous),
        ("recognition.anatomy.sources_of", stacked, synchronous),
        ("recognition.clipping.values_in", stacked, towers),
    ],
)
def test_the_work_of_recognition_grows_with_the_variables_and_not_with_their_square(
    monkeypatch: pytest.MonkeyPatch, function: str, make: Callable[[int], Graph], run: Callable[[Graph], object]
) -> None:
    """Parts of EfficientNet, with 1613 variables, took 20 s to find, and now take 2 s."""
    module, _, name = f"simulator.training.{function}".rpartition(".")
    looked_up = getattr(import_module(module), name)

    def times(layers: int) -> int:
        asked = list[Any]()

        def counted(*given: Any) -> Any:
            asked.append(given)
            return looked_up(*given)

        with monkeypatch.context() as patched:
            patched.setattr(import_module(module), name, counted)
            run(make(layers))
        return len(asked)

    assert 0 < times(16) <= 2.5 * times(8)


def test_a_walk_back_through_any_ops_ends_at_a_loop() -> None:
    made = Rows()
    made.add("v", "VariableV2", **typed("VariableV2", (4,)))
    made.add("x", "Placeholder", **typed("Placeholder", (4,)))
    made.add("w", "Neg", [loop(made, start="x")], **typed("Neg", (4,)))
    graph = made.built()
    edge, live = int(graph.in_ptr[graph.index["w"]]), np.ones(len(graph), bool)
    assert through_any(graph, graph.index["v"], [edge], live, ~live) is None


@pytest.mark.parametrize(("columns", "found"), [(5, ("x", "ids")), (4, None)])
def test_a_walk_back_through_any_ops_ends_at_rows_and_their_numbers(
    columns: int, found: tuple[str, str] | None
) -> None:
    """The numbers are used where the rows are changed, too, and another tensor of numbers is made of them."""
    made = Rows()
    made.add("v", "VariableV2", dtype=type_attr(), shape=shape_attr(20, columns))
    made.add("ids", "Placeholder", dtype=type_attr(3), shape=shape_attr(8), _output_shapes=shapes_attr((8,)))
    made.add("x", "Placeholder", **typed("Placeholder", (8, 5)))
    made.add("square", "Square", ["x"], **typed("Square", (8, 5)))
    made.add("others", "Neg", ["ids"], T=type_attr(3), _output_shapes=shapes_attr((8,)))
    made.add("picked", "Gather", ["square", "others"], _output_shapes=shapes_attr((8, 5)))
    made.add("change", "Mul", ["picked", "x"], **typed("Mul", (8, 5)))
    made.add("scatter", "Bundle", ["change", "ids"])
    graph = made.built()
    live, of_model = np.ones(len(graph), bool), np.array([name == "x" for name in graph.names])
    edges = [*graph.in_edges(graph.index["scatter"])]
    walk = through_rows(graph, graph.index["v"], edges, live, of_model)
    ends = (
        []
        if walk is None
        else [{graph.names[graph.edge_src[edge]] for edge in at} for at in (walk.stopped, walk.indices)]
    )
    assert ends == [{one} for one in found or ()]
    assert walk is None or {graph.names[row] for row in walk.nodes} == {"change", "picked", "others", "square"}


@pytest.mark.parametrize(("port", "found"), [(0, True), (1, False)])
def test_of_what_is_handed_on_at_once_that_of_examples_alone_is_a_gradient(port: int, found: bool) -> None:
    """The bias of a critic that compares two means has a gradient of constants, beside those of its weights."""
    made = Rows()
    made.add("v", "VariableV2", dtype=type_attr(), shape=shape_attr(4))
    made.add("x", "Placeholder", **typed("Placeholder", (4,)))
    made.add("c", "Const", **typed("Const", (4,)))
    made.add("both", "IdentityN", ["x", "c"], T=types_attr(1, 1), _output_shapes=shapes_attr((4,), (4,)))
    made.add("w", "Neg", [f"both:{port}"], **typed("Neg", (4,)))
    graph = made.built()
    live = np.array([name in ("x", "both", "w") for name in graph.names])
    edge, every = int(graph.in_ptr[graph.index["w"]]), np.ones(len(graph), bool)
    assert (through_any(graph, graph.index["v"], [edge], live, every) is not None) == found


def test_rows_that_occur_twice_are_the_gradient_before_they_are_added_up() -> None:
    """The squares of Adam's sums, of a graph that trains a table alone, were those of each replica by itself."""
    made, numbers = Rows(), {"T": type_attr(3)}
    made.add("x", "Placeholder", **typed("Placeholder", (8, 5)))
    made.add("ids", "Placeholder", dtype=type_attr(3), shape=shape_attr(8), _output_shapes=shapes_attr((8,)))
    for name in ("w", "m"):
        made.add(name, "VarHandleOp", dtype=type_attr(), shape=shape_attr(20, 5))
        read(made, f"{name}/read", name, shape=(20, 5))
    made.add("axis", "Const", **typed("Const"))
    kinds = {"Tparams": type_attr(), "Tindices": type_attr(3), "Taxis": type_attr()}
    made.add("y", "GatherV2", ["w/read", "ids", "axis"], **kinds, _output_shapes=shapes_attr((8, 5)))
    made.add("rows", "Mul", ["y", "x"], **typed("Mul", (8, 5)))
    made.add("unique", "Unique", ["ids"], **numbers, out_idx=type_attr(3), _output_shapes=shapes_attr((-1,), (8,)))
    made.add("count", "Size", ["unique"], **numbers, out_type=type_attr(3))
    sized = {"T": type_attr(), "_output_shapes": shapes_attr((-1, 5))}
    made.add("sum", "UnsortedSegmentSum", ["rows", "unique:1", "count"], **sized, Tindices=type_attr(3))
    made.add("square", "Square", ["sum"], **sized)
    made.add("m/update", "ResourceScatterAdd", ["m", "unique", "square"], dtype=type_attr(), Tindices=type_attr(3))
    read(made, "m/now", "m", "^m/update", shape=(20, 5))
    assign(made, "w/update", "Sub", "w", "m/now")
    (update,) = plain_updates(graph := with_variables(with_shapes(made.built())), range(len(graph)))
    ends = [[(graph.names[graph.edge_src[at]], graph.names[graph.edge_dst[at]]) for at in edges]
            for edges in (update.values, update.indices)]  # fmt: skip
    assert ends == [[("rows", "sum")], [("ids", "unique")]]
    assert {"unique", "count", "sum", "square"} <= {graph.names[row] for row in update.nodes}
