"""Variables that a traced function captures become variables of its graph."""

from __future__ import annotations

from types import SimpleNamespace

from simulator import load
from simulator.graph.captured import captured, captures, fed_shapes, own_variables
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.importer import read_graph
from simulator.graph.tensors import HANDLE_SHAPES, shape_message, shape_of
from tests.strategies import Rows, shape_attr, shapes_attr, type_attr
from viz import run

RESOURCE = 20


def body(*, said: tuple[str, ...] = ("w", "v")) -> Graph:
    """x * w * v; files say the shapes of those alone that are `said`, and a third handle is a table's."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 8), _output_shapes=shapes_attr((4, 8)))
    for name in ("w", "v", "table"):
        made.add(name, "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
    value = "x"
    for name in ("w", "v"):
        sizes = {"_output_shapes": shapes_attr((8, 8))} if name in said else {}
        made.add(f"{name}/read", "ReadVariableOp", [name], dtype=type_attr(), **sizes)
        value = made.add(f"{name}/product", "MatMul", [value, f"{name}/read"], T=type_attr())
    made.add("rows", "LookupTableSizeV2", ["table"])
    return made.built(producer=1882)


def test_a_captured_variable_is_the_graphs_own_and_a_table_stays() -> None:
    graph = own_variables(body())
    assert [graph.ops[graph.row(name)] for name in ("w", "v", "table")] == ["VarHandleOp", "VarHandleOp", "Placeholder"]
    assert graph.notes[-1] == "2 variables that a function captured, handed in as resources, are taken as its own"
    assert (captured(graph), captures(graph), captures(body())) == ({}, True, True)
    assert own_variables(graph) is graph


def test_one_of_unknown_shape_stays_fed_until_a_feed_says_its_shape() -> None:
    source = body(said=("w",))
    graph = own_variables(source)
    assert [graph.ops[graph.row(name)] for name in ("w", "v")] == ["VarHandleOp", "Placeholder"]
    assert graph.notes[-1] == "1 variable that a function captured, handed in as a resource, is taken as its own"
    told = {"v:0": (8, 8), "x:0": (4, 8)}
    assert graph.names[graph.row("v")] in {source.names[row] for row in captured(graph)}
    assert captured(own_variables(source, told)) == {}
    assert dict(fed_shapes(source, told)) == {"x:0": (4, 8)}
    assert load(source, feeds=told).ops == own_variables(source, told).ops


def test_a_graph_in_memory_says_how_large_a_table_is_of_which_rows_are_gathered_alone() -> None:
    made = Rows()
    made.add("table", "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
    made.add("ids", "Placeholder", dtype=type_attr(3), shape=shape_attr(4))
    made.add("rows", "ResourceGather", ["table", "ids"], dtype=type_attr(), Tindices=type_attr(3))
    message = graph_def(made.built(producer=1882))
    held = SimpleNamespace(shape_and_type=[SimpleNamespace(shape=shape_message((20, 5)))])
    pairs = [(SimpleNamespace(_handle_data=held), SimpleNamespace(op=SimpleNamespace(name="table")))]
    function = SimpleNamespace(as_graph_def=lambda add_shapes: message, captures=pairs)
    graph = own_variables(read_graph(function))
    assert (graph.ops[0], shape_of(graph.attrs[0]["shape"].shape)) == ("VarHandleOp", (20, 5))
    assert HANDLE_SHAPES not in graph.attrs[0]


def test_slots_are_as_large_as_the_variable_that_is_updated_with_them() -> None:
    """Nothing else reads the slots of an optimizer whose update is one op, as those of `tf_keras.optimizers.legacy`."""
    made = Rows()
    for name in ("w", "m", "v", "table", "sum"):
        made.add(name, "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
    made.add("read", "ReadVariableOp", ["w"], dtype=type_attr(), _output_shapes=shapes_attr((3, 5)))
    scalars = [
        made.add(f"rate{i}", "Placeholder", dtype=type_attr(), shape=shape_attr(), _output_shapes=shapes_attr(()))
        for i in range(6)
    ]
    made.add("update", "ResourceApplyAdam", ["w", "m", "v", *scalars, "read"], T=type_attr())
    made.add("rows", "Placeholder", dtype=type_attr(3), shape=shape_attr(4), _output_shapes=shapes_attr((4,)))
    made.add("at", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 8), _output_shapes=shapes_attr((4, 8)))
    given = ["table", "sum", scalars[0], "at", "rows"]
    made.add("rare", "ResourceSparseApplyAdagrad", given, T=type_attr(), Tindices=type_attr(3))
    source = made.built(producer=1882)
    graph = own_variables(source)
    assert {source.names[row] for row in captured(graph)} == {"table", "sum"}
    sides = [[dim.size for dim in graph.attrs[graph.row(name)]["shape"].shape.dim] for name in ("w", "m", "v")]
    assert sides == [[3, 5]] * 3
    assert captured(own_variables(source, {"table": (100, 8)})) == {}


def test_weights_of_a_single_step_take_memory_and_nobody_feeds_them() -> None:
    scene = run(body(), fetches="v/product", cluster="1gpu")
    assert scene.step.feeds == ("x:0",)
    assert scene.trace.resident_bytes.sum() == 2 * 8 * 8 * 4
    unknown = run(body(said=()), fetches="v/product", cluster="1gpu", feeds={"w": (8, 8), "v": (8, 8)})
    assert unknown.trace.makespan == scene.trace.makespan
