"""The editor of graphs: what is not changed stays, and what is changed is what was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import GraphError
from simulator.graph.editor import CONTROL, edited
from simulator.graph.graph import Graph
from simulator.graph.inlining.expanding import inline
from simulator.shapes.filling import with_shapes
from tests.graph.inlining.functional import PLACEHOLDER, T, call, function
from tests.graph.inlining.functional import graph as functional_graph
from tests.partitioning.cases import random_graph
from tests.strategies import Rows, type_attr, typed

COLUMNS = ("names", "ops", "attrs", "requested", "tensor_shape")
ARRAYS = ("tensor_ptr", "tensor_dtype", "tensor_bytes", "in_ptr", "edge_src", "edge_dst", "edge_tensor", "edge_back")


def same(one: Graph, other: Graph) -> bool:
    arrays = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ARRAYS)
    return arrays and all(getattr(one, name) == getattr(other, name) for name in COLUMNS)


def chain() -> Graph:
    """c -> a -> b, and last waits for b."""
    rows = Rows()
    rows.add("c", "Const", **typed("Const", (2,)))
    rows.add("a", "Neg", ["c"], T=type_attr())
    rows.add("b", "Neg", ["a"], T=type_attr())
    rows.add("last", "NoOp", ["^b"])
    return rows.built()


@given(st.integers(0, 400), st.integers(0, 2))
def test_a_graph_without_changes_is_built_again_in_the_order_of_its_file(seed: int, loops: int) -> None:
    graph, _ = random_graph(seed, 3, loops=loops)
    assert same(edited(graph, as_made=False).built(), graph)


@given(st.integers(0, 400), st.integers(0, 2))
def test_in_tensorflows_order_edges_have_the_ranks_in_which_it_makes_them(seed: int, loops: int) -> None:
    graph, _ = random_graph(seed, 3, loops=loops)
    made = edited(graph).built(as_made=True)
    assert made.lowered is not None
    ends = zip(graph.edge_src.tolist(), graph.edge_dst.tolist(), strict=True)
    rank = sorted(zip(graph.creation.edge.tolist(), ends, strict=True))
    ends = zip(made.edge_src.tolist(), made.edge_dst.tolist(), strict=True)
    assert [pair for _, pair in sorted(zip(made.creation.edge.tolist(), ends, strict=True))] == [p for _, p in rank]
    assert made.order.tolist() == graph.order.tolist()


def test_readers_are_handed_over_and_the_node_is_taken_away() -> None:
    editor = edited(chain())
    row = editor.names.index("a")
    new = editor.add(editor.free("a"), "Identity", editor.inputs_of(row), attrs=editor.attrs[row])
    editor.redirect_readers(row, [new], new)
    editor.remove(row)
    made = editor.built()
    assert made.names == ("c", "b", "last", "a_1")
    assert made.node("b").inputs == ("a_1",)
    assert made.node("a_1").inputs == ("c",)


def test_an_edge_is_cut_led_and_waited_for() -> None:
    graph = chain()
    editor = edited(graph, as_made=False)
    first, second = graph.row("c"), graph.row("b")
    editor.redirect_input(second, 0, first)
    editor.remove_edge(next(edge for edge in editor.ins[graph.row("last")] if editor.edges[edge][3] == CONTROL))
    editor.add_control_edge(first, graph.row("last"))
    made = editor.built()
    assert (made.node("b").inputs, made.node("last").inputs) == (("c",), ("^c",))


def test_a_control_edge_that_is_made_twice_is_one() -> None:
    graph = chain()
    editor = edited(graph)
    editor.add_control_edge(graph.row("b"), graph.row("last"))
    assert editor.built().node("last").inputs == ("^b",)


def test_numbers_of_names_pass_over_those_that_are_taken() -> None:
    editor = edited(chain())
    editor.add("a/_1", "NoOp")
    assert [editor.numbered("a"), editor.numbered("a"), editor.free("b"), editor.free("new")] == [
        "a/_0",
        "a/_2",
        "b_1",
        "new",
    ]


def test_an_output_that_a_node_lacks_is_refused() -> None:
    editor = edited(chain())
    editor.add("reader", "Identity", [(0, 7)], attrs={"T": type_attr()})
    with pytest.raises(GraphError, match="has only 1 output"):
        editor.built()


def test_shapes_that_were_found_stay_when_functions_are_expanded() -> None:
    body = function("f", ["a"], [("m", "Mul", ["a", "a"], T)], ["m:z:0"])
    nodes = [("x", "Placeholder", [], PLACEHOLDER), ("c", "PartitionedCall", ["x"], call("f", 1))]
    made = with_shapes(functional_graph(nodes, [body]), feeds={"x:0": (3, 4)})
    row = made.row("x")
    assert made.tensor_shape[made.tensor_ptr[row]] == (3, 4)
    flat = inline(made)
    assert flat.tensor_shape[flat.tensor_ptr[flat.row("x")]] == (3, 4)
