from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import GraphError
from simulator.graph.building import build
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.limits import raised
from tests.strategies import Rows, graphs, loop, rows, shapes_attr, type_attr, typed


def chain(*names_and_inputs: tuple[str, ...], op: str = "NoOp") -> Rows:
    made = Rows()
    for name, *inputs in names_and_inputs:
        made.add(name, op, inputs)
    return made


def custom(*names_and_inputs: tuple[str, ...]) -> Rows:
    """Nodes of an op that nobody registers: any number of inputs and outputs."""
    return chain(*names_and_inputs, op="Custom")


def test_nodes_come_in_tensorflows_order() -> None:
    # the case that was tried on TensorFlow: rows c(a, b), b, a, d, e(c) become b, a, c, d, e
    graph = custom(("c", "a", "b"), ("b",), ("a",), ("d",), ("e", "c")).built()
    assert [graph.names[row] for row in graph.order] == ["b", "a", "c", "d", "e"]


def test_inputs_resolve_to_tensors_and_controls() -> None:
    graph = custom(("a",), ("b", "a:1", "a", "a:0", "^a")).built()
    assert graph.inputs_of(1) == ("a:1", "a", "a", "^a")
    assert graph.edge_tensor.tolist() == [1, 0, 0, -1]
    assert graph.tensor_ptr.tolist() == [0, 2, 2]


@given(rows(max_nodes=12), st.randoms(use_true_random=False))
def test_the_order_is_the_smallest_topological_one(made: Rows, random: Random) -> None:
    order = list(range(len(made.names)))
    random.shuffle(order)
    columns: tuple[list[Any], ...] = (made.names, made.ops, made.requested, made.inputs, made.attrs)
    for column in columns:
        column[:] = [column[row] for row in order]
    graph = made.built()
    index = {name: row for row, name in enumerate(made.names)}
    waits = [{index[text.lstrip("^")] for text in inputs} for inputs in made.inputs]
    done: set[int] = set()
    expected: list[int] = []
    while len(expected) < len(waits):
        row = min(row for row in range(len(waits)) if row not in done and waits[row] <= done)
        done.add(row)
        expected.append(row)
    assert graph.order.tolist() == expected
    assert not graph.edge_back.any()


def test_a_loop_is_no_cycle_and_its_back_edge_is_marked() -> None:
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder"))
    loop(made, start="x")
    graph = made.built()
    [edge] = graph.edge_back.nonzero()[0].tolist()
    assert (graph.names[graph.edge_src[edge]], graph.names[graph.edge_dst[edge]]) == (
        "while/NextIteration",
        "while/Merge",
    )
    assert graph.order.tolist() == list(range(len(graph)))


def test_a_loop_written_backwards_is_ordered_by_its_merge() -> None:
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder"))
    loop(made, start="x")
    columns: tuple[list[Any], ...] = (made.names, made.ops, made.requested, made.inputs, made.attrs)
    for column in columns:
        column.reverse()
    graph = made.built()
    places = {graph.names[row]: place for place, row in enumerate(graph.order.tolist())}
    assert places["x"] < places["while/Enter"] < places["while/Merge"] < places["while/NextIteration"]
    assert graph.edge_back.sum() == 1


@given(graphs())
def test_tensors_and_edges_point_at_rows(graph: Graph) -> None:
    assert graph.in_ptr[-1] == len(graph.edge_src) == len(graph.edge_dst) == len(graph.edge_tensor)
    assert graph.tensor_ptr[-1] == len(graph.tensor_node) == len(graph.tensor_shape) == len(graph.tensor_bytes)
    for edge, tensor in enumerate(graph.edge_tensor.tolist()):
        assert tensor < 0 or graph.tensor_node[tensor] == graph.edge_src[edge]
    assert not graph.tensor_bytes.flags.writeable


@pytest.mark.parametrize(
    ("made", "node", "sentence"),
    [
        (custom(("a",), ("b", "x"), ("c", "y:1", "x")), "b", "'b' takes its input from 'x', .* 3 inputs .* 2 nodes"),
        (custom(("alpha",), ("b", "alhpa")), "b", "Did you mean 'alpha'"),
        (custom(("a",), ("b",), ("a",)), "a", "'a' is that of more than one node"),
        (custom(("a", "b"), ("b", "c"), ("c", "a")), None, "a cycle of 3 nodes lies outside a loop: "),
        (custom(("a", "a")), "a", "a cycle of 1 node lies outside a loop: 'a' -> 'a'"),
        (custom(("a",), ("b", "^a", "a")), "b", "'b' has a data input after a control input"),
        (custom(("a",), ("b", "")), "b", "malformed input ''"),
        (custom(("a",), ("b", "a:x")), "b", "malformed input 'a:x'"),
        (custom(("a",), ("b", "a:-1")), "b", "malformed input"),
        (custom(("a b",)), "a b", "not a node name"),
        (custom(("",)), "", "not a node name"),
        (chain(("a",), op=""), "a", "has no op"),
        (custom(("a",), ("b", "a:999999999")), "b", "can't have more than"),
    ],
)
def test_refuses_what_tensorflow_refuses_and_says_where(made: Rows, node: str | None, sentence: str) -> None:
    with pytest.raises(GraphError, match=sentence) as refusal:
        made.built(source="g.pb")
    assert str(refusal.value).startswith("g.pb: ")
    assert node is None or refusal.value.node == node


def test_a_port_that_a_registered_op_does_not_have_is_refused() -> None:
    made = Rows()
    made.add("a", "Const", **typed("Const"))
    made.add("b", "Identity", ["a:1"], T=type_attr())
    with pytest.raises(GraphError, match="'b' reads 'a:1', but 'a' has only 1 output"):
        made.built()


def test_a_merge_that_only_its_own_loop_feeds_is_refused() -> None:
    made = Rows()
    made.add("merge", "Merge", ["next"], T=type_attr(), N=AttrValue(i=1))
    made.add("next", "NextIteration", ["merge"], T=type_attr())
    with pytest.raises(GraphError, match="no entry"):
        made.built()


@pytest.mark.parametrize("name", ["a", "A.b-c/d_e", ".x", "0", "a>b", "_x", "_x/_y>z", "a//b", "a/"])
def test_accepts_every_name_that_tensorflow_accepts(name: str) -> None:
    assert custom((name,)).built().names == (name,)


def test_types_and_sizes() -> None:
    made = Rows()
    made.add("v", "VariableV2", dtype=type_attr(2), shape=AttrValue(), _output_shapes=shapes_attr((3, 5)))
    made.add("s", "Const", dtype=type_attr(7), _output_shapes=shapes_attr((3,)))
    made.add("u", "Placeholder", dtype=type_attr(1), _output_shapes=shapes_attr((-1, 2)))
    made.add("r", "VarHandleOp", dtype=type_attr(1), shape=AttrValue())
    made.add("scalar", "Const", dtype=type_attr(9), _output_shapes=shapes_attr(()))
    graph = made.built()
    assert graph.tensor_dtype.tolist() == [102, 7, 1, 20, 9]  # a variable's output is a reference
    assert graph.tensor_bytes.tolist() == [120, -1, -1, 0, 8]
    assert graph.tensor_shape == ((3, 5), (3,), (-1, 2), None, ())


@pytest.mark.parametrize("shape", [(2**62,), (2**40, 2**40), (2**31, 2**31, 2**31), (2**55,)])
def test_an_absurd_size_is_unknown_and_said(shape: tuple[int, ...]) -> None:
    made = Rows()
    made.add("a", "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr(shape, shape))
    graph = made.built()
    assert graph.tensor_bytes.tolist() == [-1]
    assert any("1 tensor with a claim to more than" in note for note in graph.notes)


def test_a_dimension_of_zero_makes_no_bytes_however_large_the_others() -> None:
    made = Rows()
    made.add("a", "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr((2**62, 2**62, 0)))
    assert made.built().tensor_bytes.tolist() == [0]


def test_outputs_beyond_all_measure_are_refused() -> None:
    made = Rows()
    made.add("axis", "Const", **typed("Const"))
    for at in range(6):
        made.add(f"split{at}", "Split", ["axis", "axis"], num_split=AttrValue(i=3), T=type_attr())
    with raised({"tensors": 10}), pytest.raises(GraphError, match=r"claims more than 10 tensors.*--limit tensors=N"):
        made.built()


def test_a_graph_without_nodes_is_a_graph() -> None:
    graph = build([], [], [], [], [])
    assert len(graph) == 0
    assert graph.order.tolist() == []


def test_a_long_chain_backwards_is_ordered_without_recursion() -> None:
    count = 20_000
    graph = custom(*((f"n{i}", f"n{i + 1}") for i in range(count)), (f"n{count}",)).built()
    assert graph.order.tolist() == list(range(count, -1, -1))


def test_a_control_input_that_stands_twice_is_one_edge_and_stands_where_it_stood_first() -> None:
    graph = custom(("a",), ("b",), ("c", "a", "^b", "^a", "^b", "^a"), ("d", "^b")).built()
    assert [graph.inputs_of(row) for row in range(4)] == [(), (), ("a", "^b", "^a"), ("^b",)]
    assert graph.in_ptr.tolist() == [0, 0, 0, 3, 4]


def test_graphs_of_the_same_names_share_their_rows() -> None:
    graph = build(["a", "b"], ["NoOp", "NoOp"], ["", ""], [[], ["^a"]], [{}, {}])
    assert graph.index == {"a": 0, "b": 1}
    assert replace(graph, producer=21).index is graph.index
