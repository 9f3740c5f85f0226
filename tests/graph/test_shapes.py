from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import GraphError, OracleError
from simulator.graph.graph import Graph, Shape
from simulator.graph.shapes import unknown_shapes, with_shapes
from simulator.graph.step import choose_step
from tests.strategies import Rows, graphs, shape_attr, shapes_attr, type_attr, typed, types_attr

Fed: TypeAlias = Mapping[str, Shape]


def chain(first: Shape = (-1, 784), second: Shape = (-1, 10)) -> Rows:
    """x -> MatMul with w -> Relu, as a file carries it when the batch is open."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", first))
    made.add("w", "Placeholder", **typed("Placeholder", (784, 10)))
    made.add("y", "MatMul", ["x", "w"], **typed("MatMul", second))
    made.add("z", "Relu", ["y"], **typed("Relu", second))
    made.add("end", "Neg", ["z"], **typed("Neg", second))
    return made


def shape(graph: Graph, name: str) -> Shape | None:
    return graph.tensor_shape[int(graph.tensor_ptr[graph.row(name)])]


def never(graph: Graph, feeds: Fed) -> NoReturn:
    raise AssertionError("nothing was to be asked")


class Answers:
    """An `infer` that knows some nodes, and remembers what it was asked."""

    def __init__(self, **shapes: Shape) -> None:
        self.shapes = shapes
        self.asked: list[Fed] = []

    def __call__(self, graph: Graph, feeds: Fed) -> list[Shape | None]:
        self.asked.append(dict(feeds))
        return [self.shapes.get(graph.names[node]) for node in graph.tensor_node]


def test_the_batch_fills_the_open_first_dimension() -> None:
    got = with_shapes(chain().built(), batch=32)
    assert [shape(got, name) for name in "xyz"] == [(32, 784), (32, 10), (32, 10)]
    assert got.tensor_bytes.tolist() == [32 * 784 * 4, 784 * 10 * 4, 1280, 1280, 1280]
    assert "batch 32 is the unknown first dimension of x:0" in got.notes
    assert "the first dimension of 3 tensors, which alone is unknown, follows batch 32" in got.notes


def test_a_graph_whose_sizes_are_known_is_returned_as_it_is_and_nobody_is_asked() -> None:
    given_graph = chain((8, 784), (8, 10)).built()
    got = with_shapes(given_graph, infer=never)
    assert got.tensor_shape == given_graph.tensor_shape
    assert got.notes == given_graph.notes


def test_inference_is_asked_once_when_sizes_stay_unknown() -> None:
    infer = Answers(y=(4, 10), z=(4, 10), end=(4, 10))
    got = with_shapes(chain().built(), batch=4, infer=infer)
    assert infer.asked == [{"x:0": (4, 784)}]
    assert shape(got, "z") == (4, 10)
    assert not any("follow" in note for note in got.notes)


def test_what_inference_does_not_know_stays_unknown() -> None:
    got = with_shapes(chain().built(), batch=4, infer=Answers(y=(4, 10)))
    assert unknown_shapes(got) == {"Relu": 1}


def test_a_feed_beats_the_batch_and_the_file() -> None:
    infer = Answers(y=(7, 10), z=(7, 10), end=(7, 10))
    got = with_shapes(chain((8, 784), (8, 10)).built(), feeds={"x": (7, 784)}, infer=infer)
    assert infer.asked == [{"x:0": (7, 784)}]
    assert [shape(got, name) for name in ("x", "y", "end")] == [(7, 784), (7, 10), (7, 10)]


def test_without_inference_what_hangs_on_a_contradicted_shape_is_unknown() -> None:
    got = with_shapes(chain((8, 784), (8, 10)).built(), feeds={"x:0": (7, 784)})
    assert [shape(got, name) for name in ("w", "y", "z")] == [(784, 10), None, None]
    assert unknown_shapes(got) == {"MatMul": 1, "Relu": 1}


def test_a_refusal_falls_back_and_says_so() -> None:
    def refuses(graph: Graph, feeds: Fed) -> NoReturn:
        raise OracleError("Op type not registered 'Mine'")

    got = with_shapes(chain().built(), batch=2, infer=refuses)
    assert shape(got, "z") == (2, 10)
    assert any("could not infer the shapes: Op type not registered 'Mine'" in note for note in got.notes)


def test_feeds_that_tensorflow_refuses_are_an_error_and_a_graph_that_it_refuses_anyway_is_not() -> None:
    def refuses_feeds(graph: Graph, feeds: Fed) -> list[Shape | None]:
        if "x:0" in feeds:
            refuses_all(graph, feeds)
        return list(graph.tensor_shape)

    def refuses_all(graph: Graph, feeds: Fed) -> NoReturn:
        raise OracleError("no", refusal="50 and 100")

    with pytest.raises(GraphError, match=r"\(x:0=3,784\); TensorFlow says: 50 and 100"):
        with_shapes(chain().built(), feeds={"x": (3, 784)}, infer=refuses_feeds)
    got = with_shapes(chain().built(), feeds={"x": (3, 784)}, infer=refuses_all)
    assert shape(got, "x") == (3, 784)
    assert any("could not infer the shapes" in note for note in got.notes)


def test_any_tensor_may_be_fed() -> None:
    got = with_shapes(chain().built(), feeds={"y": (3, 10), "x": (3, 784)}, infer=Answers(z=(3, 10), end=(3, 10)))
    assert shape(got, "y") == (3, 10)


@pytest.mark.parametrize(
    ("feeds", "said"),
    [
        ({"X": (1, 784)}, "has no node 'X'"),
        ({"xx": (1, 784)}, "Did you mean 'x'"),
        ({"x:3": (1, 784)}, "no output 3"),
        ({"x:99999999999": (1, 784)}, "no output"),
        ({"x": (1, 784, 3)}, r"has 2 dimensions .* \(\?,784\) but is fed 3 \(1,784,3\)"),
        ({"x": ()}, "a scalar"),
        ({"x": (-1, 784)}, "negative"),
    ],
)
def test_bad_feeds_get_a_sentence(feeds: Fed, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        with_shapes(chain().built(), feeds=feeds)


def test_a_placeholder_that_stays_open_is_named() -> None:
    got = with_shapes(chain((-1, -1), (-1, 10)).built(), batch=3)
    assert "the size of x:0 (3,?) is unknown, and so is what depends on it: give the shape as a feed" in got.notes
    assert not any("give the shape" in note for note in with_shapes(chain().built()).notes)


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(GraphError, match="a batch of 0"):
        with_shapes(chain().built(), batch=0)


def test_what_a_pipeline_hands_out_gets_the_batch_too() -> None:
    made = Rows()
    made.add("i", "IteratorGetNext", ["r"], output_types=types_attr(1, 3), _output_shapes=shapes_attr((-1, 9), (-1,)))
    made.add("r", "IteratorV2")
    made.add("z", "Neg", ["i"], T=type_attr(), _output_shapes=shapes_attr((-1, 9)))
    got = with_shapes(made.built(), batch=6)
    assert got.tensor_shape[:2] == ((6, 9), (6,))


def test_without_shapes_in_the_file_what_declares_one_has_it() -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(-1, 3))
    made.add("v", "VariableV2", dtype=type_attr(), shape=shape_attr(3, 2))
    made.add("k", "Const", dtype=type_attr(), value=typed("Const", (2, 2))["value"])
    got = with_shapes(made.built(producer=175), batch=5)
    assert got.tensor_shape == ((5, 3), (3, 2), (2, 2))


def test_the_scalar_of_an_old_placeholder_says_nothing() -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr())
    assert with_shapes(made.built(producer=21)).tensor_shape == (None,)
    assert with_shapes(made.built(producer=22)).tensor_shape == ((),)


def test_what_is_restored_has_the_variable_s_shape_and_nobody_is_asked() -> None:
    made = Rows()
    made.add("v", "VariableV2", dtype=type_attr(), shape=shape_attr(3, 2), _output_shapes=shapes_attr((3, 2)))
    made.add("h", "VarHandleOp", dtype=type_attr(), shape=shape_attr(4))
    made.add("restore", "RestoreV2", ["p", "p", "p"], dtypes=types_attr(1, 1), _output_shapes=shapes_attr(None, None))
    made.add("p", "Placeholder", dtype=type_attr(7))
    made.add("i", "Identity", ["restore:1"], T=type_attr(), _output_shapes=shapes_attr(None))
    made.add("a", "Assign", ["v", "restore"], T=type_attr(), _output_shapes=shapes_attr((3, 2)))
    made.add("b", "AssignVariableOp", ["h", "i"], dtype=type_attr())
    got = with_shapes(made.built(), infer=never)
    assert (shape(got, "restore"), got.tensor_shape[got.tensor_ptr[2] + 1], shape(got, "i")) == ((3, 2), (4,), (4,))


def test_what_depends_on_values_is_no_reason_to_ask() -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(10), shape=shape_attr(9), _output_shapes=shapes_attr((9,)))
    made.add("w", "Where", ["x"], T=type_attr(10), _output_shapes=shapes_attr((-1, 1)))
    made.add("s", "Squeeze", ["w"], T=type_attr(9), _output_shapes=shapes_attr((-1,)))
    made.add("n", "Neg", ["s"], T=type_attr(9), _output_shapes=shapes_attr((-1,)))
    assert unknown_shapes(with_shapes(made.built(), infer=never)) == {"Squeeze": 1, "Where": 1}


def test_strings_handles_and_what_nobody_reads_are_not_unknown() -> None:
    made = Rows()
    made.add("s", "Placeholder", dtype=type_attr(7))
    made.add("t", "Identity", ["s"], T=type_attr(7))
    made.add("h", "VarHandleOp", dtype=type_attr())
    made.add("r", "ReadVariableOp", ["h"], dtype=type_attr())
    assert unknown_shapes(made.built()) == {}


def test_only_the_nodes_of_the_step_count() -> None:
    graph = chain().built()
    assert unknown_shapes(graph) == {"MatMul": 1, "Placeholder": 1, "Relu": 1}
    step = choose_step(graph, fetches="z")
    assert unknown_shapes(graph, step) == {"MatMul": 1, "Placeholder": 1}, "what only others read does not count"
    step = choose_step(graph, fetches="z:0", feeds="y")
    assert unknown_shapes(graph, step) == {"MatMul": 1, "Relu": 1}, "what the client hands in and gets counts"


@pytest.mark.parametrize(
    "options", [{"batch": 1.5}, {"batch": "1"}, {"feeds": 3}, {"feeds": {"x": 3}}, {"feeds": {"x": (2.0, 784)}}]
)
def test_what_is_no_batch_and_no_shape_is_refused(options: Mapping[str, Any]) -> None:
    with pytest.raises(
        GraphError, match=r"batch of .* not possible|feeds maps the names|is fed the shape .* whole numbers"
    ):
        with_shapes(chain().built(), **options)


@given(graphs(), st.integers(1, 50), st.integers(1, 50))
def test_a_larger_batch_makes_no_tensor_smaller(graph: Graph, batch: int, more: int) -> None:
    small, large = (with_shapes(graph, batch=size) for size in (batch, batch + more))
    assert (small.tensor_bytes <= large.tensor_bytes).all()


@given(graphs())
def test_what_the_file_knows_stays(graph: Graph) -> None:
    got = with_shapes(graph)
    for before, after in zip(graph.tensor_shape, got.tensor_shape, strict=True):
        if before is not None:
            assert after is not None
            assert all(b in (a, -1) for a, b in zip(after, before, strict=True))
