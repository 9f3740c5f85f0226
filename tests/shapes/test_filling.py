from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from simulator.errors import GraphError
from simulator.graph.const_values import elements
from simulator.graph.graph import Graph, Shape
from simulator.graph.messages import AttrValue
from simulator.graph.step import choose_step
from simulator.loading import load
from simulator.shapes.filling import with_shapes
from simulator.shapes.unknown import unknown_shapes
from tests.execution.loops.cases import begun, counting
from tests.execution.loops.cases import number as constant
from tests.shapes.test_rules import scalar, vector
from tests.strategies import INT32, Rows, graphs, shape_attr, shapes_attr, type_attr, typed, types_attr

Fed: TypeAlias = Mapping[str, Shape]
TRAINING = load("examples/ps_training.pbtxt")


def const(*values: int) -> Any:
    """The attribute of an int32 vector."""
    value = AttrValue()
    value.tensor.dtype = 3
    value.tensor.int_val.extend(values)
    value.tensor.tensor_shape.dim.add(size=len(values))
    return value


def chain(first: Shape = (-1, 784), second: Shape = (-1, 10)) -> Rows:
    """x -> MatMul with w -> Relu, as a file carries it when the batch is open."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", first))
    made.add("w", "Placeholder", **typed("Placeholder", (784, 10)))
    made.add("y", "MatMul", ["x", "w"], **typed("MatMul", second))
    made.add("z", "Relu", ["y"], **typed("Relu", second))
    made.add("end", "Neg", ["z"], **typed("Neg", second))
    return made


@pytest.mark.parametrize(
    ("batch", "node"),
    [(2**31, "size"), (2**62, "size"), (2**29, "rows")],
)
def test_a_batch_for_which_the_numbers_of_a_file_have_no_room_is_refused(batch: int, node: str) -> None:
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (6, 4)))
    made.add("size", "Const", dtype=type_attr(3), value=const(6, 2, 2))
    made.add("rows", "Const", dtype=type_attr(3), value=const(*[0] * 24))
    made.attrs[-1]["value"].tensor.tensor_shape.CopyFrom(shape_attr(6, 4).shape)
    made.add("y", "Reshape", ["x", "size"], **typed("Reshape", (6, 2, 2)))
    made.add("z", "AddV2", ["x", "rows"], **typed("AddV2", (6, 4)))
    with pytest.raises(GraphError, match="have no room for it") as found:
        with_shapes(made.built(), batch=batch)
    assert found.value.node == node


def shape(graph: Graph, name: str) -> Shape | None:
    return graph.tensor_shape[int(graph.tensor_ptr[graph.row(name)])]


def test_the_batch_fills_the_open_first_dimension() -> None:
    got = with_shapes(chain().built(), batch=32)
    assert [shape(got, name) for name in "xyz"] == [(32, 784), (32, 10), (32, 10)]
    assert got.tensor_bytes.tolist() == [32 * 784 * 4, 784 * 10 * 4, 1280, 1280, 1280]
    assert "batch 32 is the unknown first dimension of x:0" in got.notes


def test_a_graph_whose_sizes_are_known_is_returned_as_it_is() -> None:
    given_graph = chain((8, 784), (8, 10)).built()
    got = with_shapes(given_graph)
    assert got.tensor_shape == given_graph.tensor_shape
    assert got.notes == given_graph.notes


def test_what_is_only_fetched_gets_its_size_though_all_that_is_read_has_one() -> None:
    """A product of two placeholders counted nothing on its way to the client."""
    made = Rows()
    for name in "ab":
        made.add(name, "Placeholder", dtype=type_attr(), shape=shape_attr(5, 5))
    made.add("c", "MatMul", ["a", "b"], T=type_attr())
    assert shape(with_shapes(made.built()), "c") == (5, 5)


def test_what_no_rule_tells_stays_unknown() -> None:
    made = chain()
    made.add("own", "OpOfMyOwn", ["z"], _output_shapes=shapes_attr((-1, 10)))
    made.add("last", "Neg", ["own"], **typed("Neg", (-1, 10)))
    got = with_shapes(made.built(), batch=4)
    assert (shape(got, "z"), shape(got, "own")) == ((4, 10), (-1, 10))
    assert unknown_shapes(got) == {"OpOfMyOwn": 1}


def test_a_feed_beats_the_batch_and_the_file() -> None:
    got = with_shapes(chain((8, 784), (8, 10)).built(), batch=3, feeds={"x": (7, 784)})
    assert [shape(got, name) for name in ("x", "y", "end")] == [(7, 784), (7, 10), (7, 10)]


def test_what_hangs_on_a_contradicted_shape_is_not_believed_and_the_rest_is() -> None:
    made = chain((8, 784), (8, 10))
    made.add("own", "OpOfMyOwn", ["z"], _output_shapes=shapes_attr((8, 10)))
    made.add("other", "OpOfMyOwn", ["w"], _output_shapes=shapes_attr((5,)))
    got = with_shapes(made.built(), feeds={"x:0": (7, 784)})
    assert [shape(got, name) for name in ("w", "y", "z", "own", "other")] == [(784, 10), (7, 10), (7, 10), None, (5,)]


def test_ops_that_refuse_their_inputs_in_the_file_itself_are_told_and_the_rest_is_found() -> None:
    made = chain()
    made.add("v", "Placeholder", dtype=type_attr(), shape=shape_attr(50, 7))
    made.add("bad", "MatMul", ["y", "v"], T=type_attr())
    made.add("after", "Neg", ["bad"], T=type_attr())
    made.add("end2", "Neg", ["after"], T=type_attr())
    got = with_shapes(made.built(), batch=2)
    assert (shape(got, "z"), shape(got, "bad"), shape(got, "after")) == ((2, 10), None, None)
    said = (
        "1 op refuses its inputs, first 'bad' (MatMul): dimensions must be equal, but are 10 and 50: [2,10] and [50,7]"
    )
    assert said in got.notes


def test_feeds_that_do_not_fit_are_refused_with_the_op_and_a_graph_that_is_broken_anyway_is_not() -> None:
    made = chain()
    made.add("v", "Placeholder", dtype=type_attr(), shape=shape_attr(50, 7))
    made.add("bad", "MatMul", ["y", "v"], T=type_attr())
    graph = made.built()
    with pytest.raises(
        GraphError, match=r"does not fit x:0=3,700: 'y' \(MatMul\) refuses .* equal, but are 700 and 784"
    ):
        with_shapes(graph, feeds={"x": (3, 700)})
    assert shape(with_shapes(graph, feeds={"x": (3, 784)}), "y") == (3, 10)


def test_a_batch_that_does_not_fit_is_refused_with_the_op_if_it_was_asked_for() -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(-1, 3))
    made.add("k", "Const", dtype=type_attr(3), value=const(2, -1, 3))
    made.add("pairs", "Reshape", ["x", "k"], T=type_attr(), Tshape=type_attr(3))
    made.add("z", "Neg", ["pairs"], T=type_attr())
    made.add("end", "Neg", ["z"], T=type_attr())
    graph = made.built(producer=1000)
    assert shape(with_shapes(graph, batch=8), "z") == (2, 4, 3)
    with pytest.raises(GraphError, match=r"does not fit a batch of 5: 'pairs' \(Reshape\)"):
        with_shapes(graph, batch=5)
    got = with_shapes(graph)
    assert any("1 op refuses its inputs, first 'pairs'" in note for note in got.notes), "nobody asked for one example"
    assert unknown_shapes(got) == {"Neg": 1, "Reshape": 1}


def test_a_refused_batch_names_the_tensors_that_it_went_to() -> None:
    """One of them may have no row per example, such as the values of a ragged tensor."""
    made = Rows()
    for name in ("x", "values"):
        made.add(name, "Placeholder", dtype=type_attr(), shape=shape_attr(-1))
    made.add("all", "ConcatV2", ["x", "values", "axis"], T=type_attr(), Tidx=type_attr(3), N=AttrValue(i=2))
    made.add("axis", "Const", dtype=type_attr(3), value=const(0))
    made.add("weights", "Placeholder", dtype=type_attr(), shape=shape_attr(11))
    made.add("sum", "AddV2", ["all", "weights"], T=type_attr())
    graph = made.built()
    with pytest.raises(GraphError, match=r"a batch of 4: 'sum' .*Feed the shape of what has no row per example.*x:0"):
        with_shapes(graph, batch=4)
    assert shape(with_shapes(graph, batch=4, feeds={"values": (7,)}), "sum") == (11,)


def test_any_tensor_may_be_fed() -> None:
    got = with_shapes(chain().built(), feeds={"y": (3, 12), "x": (3, 784)})
    assert (shape(got, "y"), shape(got, "z")) == ((3, 12), (3, 12))


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


def test_a_batch_that_is_asked_for_takes_the_place_of_one_that_the_file_fixes() -> None:
    got = with_shapes(chain((8, 784), (8, 10)).built(), batch=3)
    assert [shape(got, name) for name in ("x", "w", "z")] == [(3, 784), (784, 10), (3, 10)]
    assert "batch 3 takes the place of 8 in the file's first dimension of x:0" in got.notes
    assert with_shapes(chain((8, 784), (8, 10)).built(), batch=8).notes == ()


def with_constant(*values: int) -> Graph:
    """The chain, reshaped to the value of a constant."""
    made = chain((8, 784), (8, 10))
    made.add("k", "Const", dtype=type_attr(3), value=const(*values))
    made.add("pairs", "Reshape", ["z", "k"], T=type_attr(), Tshape=type_attr(3), _output_shapes=shapes_attr(values))
    return made.built()


@pytest.mark.parametrize(("op", "batch"), [("Sub", 6), ("Reshape", 1)])
def test_an_open_batch_beside_a_fixed_one_is_that_where_an_op_takes_no_other(op: str, batch: int) -> None:
    """A difference takes no other rows than those of the other input; a new layout takes any."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (6, 2)))
    made.add("y", "Placeholder", **typed("Placeholder", (-1, 2)))
    made.add("size", "Const", dtype=type_attr(3), value=const(-1, 1))
    made.add(
        "z",
        op,
        ["y", "x" if op == "Sub" else "size"],
        T=type_attr(),
        _output_shapes=shapes_attr((-1, 2 if op == "Sub" else 1)),
    )
    found = with_shapes(made.built())
    assert (shape(found, "x"), shape(found, "y")) == ((6, 2), (batch, 2))
    other = with_shapes(made.built(), batch=3)
    assert (shape(other, "x"), shape(other, "y")) == ((3 if op == "Sub" else 6, 2), (3, 2))


@pytest.mark.parametrize(
    ("old", "new"), [((8, 5, 2), (3, 5, 2)), ((16, 5), (6, 5)), ((80,), (30,)), ((2, 8, 5), (2, 3, 5))]
)
def test_a_constant_that_repeats_the_batch_changes_with_it(old: Shape, new: Shape) -> None:
    got = with_shapes(with_constant(*old), batch=3)
    assert shape(got, "pairs") == new
    assert elements(got.node("k").attrs) == list(new)
    assert "batch 3 takes the place of 8 in the file's first dimension of x:0, and in 1 constant" in got.notes


@pytest.mark.parametrize("other", [(8, 10), (1, 10), (8, 1), (10,)])
def test_shapes_that_a_gradient_compares_follow_the_batch_together(other: Shape) -> None:
    """Of two constants one alone followed, so that a sum over the batch was taken, and the next op refused it."""
    made = chain((8, 784), (8, 10))
    made.add("own", "Const", dtype=type_attr(3), value=const(8, 10))
    made.add("other", "Const", dtype=type_attr(3), value=const(*other))
    made.add("axes", "BroadcastGradientArgs", ["other", "own"], T=type_attr(3))
    made.add("sum", "Sum", ["z", "axes:1"], T=type_attr(), Tidx=type_attr(3), keep_dims=AttrValue(b=True))
    made.add("back", "Reshape", ["sum", "own"], T=type_attr(), Tshape=type_attr(3), _output_shapes=shapes_attr((8, 10)))
    got = with_shapes(made.built(), batch=3)
    assert shape(got, "back") == (3, 10)
    assert elements(got.node("other").attrs) == [3 if side == 8 else side for side in other]


def _in_parts(*ends: int) -> Graph:
    """12 examples, cut by slices from one of the ends to the next one."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(12, 5))
    step = made.add("step", "Const", dtype=type_attr(3), value=const(1))
    places = [made.add(f"at{end}", "Const", dtype=type_attr(3), value=const(end)) for end in ends]
    for number, (low, high) in enumerate(pairwise(places)):
        made.add(f"part{number}", "StridedSlice", ["x", low, high, step], T=type_attr(), Index=type_attr(3))
    return made.built(producer=1882)


@pytest.mark.parametrize("batch", [24, 9, 13])
def test_equal_parts_of_a_batch_stay_equal_and_the_last_one_ends_with_it(batch: int) -> None:
    got = with_shapes(_in_parts(0, 4, 8, 12), batch=batch)
    assert [shape(got, f"part{number}") for number in range(3)] == [
        (batch // 3, 5), (batch // 3, 5), (batch - batch // 3 * 2, 5),
    ]  # fmt: skip
    assert not any("how many rows" in note for note in got.notes)


@pytest.mark.parametrize("ends", [(0, 4, 12), (0, 4, 8), (4, 8, 12)])
def test_other_parts_of_a_batch_stay_and_are_named(ends: tuple[int, ...]) -> None:
    before, got = _in_parts(*ends), with_shapes(_in_parts(*ends), batch=24)
    for number in range(2):
        assert shape(got, f"part{number}") == shape(with_shapes(before), f"part{number}")
    (note,) = got.notes
    assert note.endswith("constants still say how many rows these take: part0, part1")


def test_a_feed_that_gives_what_the_batch_gives_changes_nothing() -> None:
    graph = with_constant(8, 5, 2)
    one, other = with_shapes(graph, batch=3), with_shapes(graph, batch=3, feeds={"x": (3, 784)})
    assert (one.tensor_shape, one.notes) == (other.tensor_shape, other.notes)
    with pytest.raises(GraphError, match="does not fit"):
        with_shapes(graph, batch=3, feeds={"x": (4, 784)})


def test_feeds_that_give_another_batch_than_the_file_are_refused_with_the_batch_that_fits() -> None:
    graph = with_constant(8, 5, 2)
    with pytest.raises(GraphError, match=r"a batch of 3 changes them \(--batch 3\)"):
        with_shapes(graph, feeds={"x": (3, 784)})
    assert with_shapes(graph, feeds={"x": (3, 784)}, batch=3).tensor_shape == with_shapes(graph, batch=3).tensor_shape
    with pytest.raises(GraphError, match=r"refuses its inputs: [^.]*$"):
        with_shapes(graph, feeds={"x": (3, 700)})


def test_a_fixed_batch_is_refused_at_the_op_that_holds_it() -> None:
    with pytest.raises(GraphError, match=r"does not fit a batch of 3: 'pairs' \(Reshape\) refuses its inputs"):
        with_shapes(with_constant(4, 20), batch=3)


def test_a_batch_that_nothing_gives_is_told() -> None:
    made = Rows()
    made.add("x", "Const", dtype=type_attr(), value=typed("Const", (2, 2))["value"])
    made.add("y", "Neg", ["x"], T=type_attr())
    assert any("batch 3 changes nothing" in note for note in with_shapes(made.built(), batch=3).notes)


def test_what_a_reader_asks_of_a_placeholder_is_known() -> None:
    got = with_shapes(chain((-1, -1), (-1, 10)).built(), batch=3)
    assert shape(got, "x") == (3, 784), "the product would be refused with any other number"


def test_what_a_reader_asks_is_asked_through_all_ops_that_keep_a_shape() -> None:
    """As of a variable without a shape, which a function of its own gradient takes before the product does."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(8, 16))
    made.add("handle", "Placeholder", dtype=type_attr(20))
    made.add("read", "ReadVariableOp", ["handle"], dtype=type_attr())
    made.add("sign", "Sign", ["read"], T=type_attr())
    made.add("both", "IdentityN", ["sign", "read"], T=types_attr(1, 1))
    made.add("product", "MatMul", ["x", "both"], T=type_attr())
    got = with_shapes(made.built())
    assert [shape(got, name) for name in ("both", "sign", "read")] == [(16, -1)] * 3


def test_what_is_asked_in_a_branch_is_known_of_what_the_branch_makes() -> None:
    """An optimizer that scales its loss clips and updates in a branch. What enters the branch may be another size."""
    made = Rows()
    made.add("go", "Placeholder", dtype=type_attr(10), shape=shape_attr())
    made.add("handle", "Placeholder", dtype=type_attr(20))
    made.add("read", "ReadVariableOp", ["handle"], dtype=type_attr())
    made.add("w", "Placeholder", dtype=type_attr(), shape=shape_attr(2, 3))
    made.add("in", "Switch", ["read", "go"], T=type_attr())
    made.add("w_in", "Switch", ["w", "go"], T=type_attr())
    made.add("made", "Neg", ["in:1"], T=type_attr())
    made.add("sum", "AddN", ["made", "w_in:1"], T=type_attr(), N=AttrValue(i=2))
    made.add("out", "Merge", ["in:0", "sum"], T=type_attr(), N=AttrValue(i=2))
    got = with_shapes(made.built())
    assert [shape(got, name) for name in ("made", "sum")] == [(2, 3)] * 2
    assert [shape(got, name) for name in ("in", "read", "out")] == [None] * 3


def test_the_elements_of_a_reshape_tell_the_only_dimension_that_its_input_lacks() -> None:
    """As many rows as are stitched, where those of an embedding in parts get the shape of the indices again."""
    made = Rows()
    made.add("index", "Placeholder", dtype=type_attr(3), shape=shape_attr(-1))
    made.add("rows", "Placeholder", dtype=type_attr(), shape=shape_attr(-1, 4))
    made.add("stitched", "ParallelDynamicStitch", ["index", "rows"], T=type_attr(), N=AttrValue(i=1))
    value = AttrValue()
    value.tensor.dtype = 3
    value.tensor.tensor_shape.dim.add(size=3)
    value.tensor.int_val.extend([6, 26, 4])
    made.add("sides", "Const", dtype=type_attr(3), value=value)
    made.add("again", "Reshape", ["stitched", "sides"], T=type_attr(), Tshape=type_attr(3))
    got = with_shapes(made.built(), batch=5)
    assert shape(got, "stitched") == (156, 4)
    assert shape(got, "again") == (6, 26, 4)


@pytest.mark.parametrize(("op", "inputs"), [("StatelessRandomGetKeyCounter", []), ("StatelessRandomUniform", ["k"])])
def test_the_seed_of_a_random_op_is_two_numbers(op: str, inputs: list[str]) -> None:
    """Also before a cast, where its variable says no shape: Keras draws a dropout from such a seed."""
    made = Rows()
    made.add("handle", "Placeholder", dtype=type_attr(20))
    made.add("state", "ReadVariableOp", ["handle"], dtype=type_attr(3))
    made.add("seed", "Cast", ["state"], SrcT=type_attr(3), DstT=type_attr(9))
    made.add("k", "Placeholder", dtype=type_attr(3), shape=shape_attr(2))
    made.add("draw", op, [*inputs, "seed"], Tseed=type_attr(9), T=type_attr(3), dtype=type_attr())
    got = with_shapes(made.built())
    assert (shape(got, "state"), shape(got, "seed")) == ((2,), (2,))


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


@pytest.mark.parametrize("op", ["QueueDequeueManyV2", "QueueDequeueUpToV2"])
@pytest.mark.parametrize("said", [True, False])
def test_as_many_examples_are_taken_from_a_queue_as_its_op_says_and_else_the_batch(op: str, said: bool) -> None:
    made = Rows()
    made.add("queue", "FIFOQueueV2", shapes=AttrValue(list={"shape": [{"dim": [{"size": 9}]}]}))
    if said:
        count = AttrValue(tensor={"dtype": 3, "int_val": [32], "tensor_shape": {}})
        made.add("count", "Const", dtype=type_attr(3), value=count)
    else:
        made.add("count", "Placeholder", dtype=type_attr(3), shape=shape_attr())
    made.add("taken", op, ["queue", "count"], component_types=types_attr(1), _output_shapes=shapes_attr((-1, 9)))
    made.add("w", "Const", dtype=type_attr(), _output_shapes=shapes_attr((9, 4)))
    made.add("end", "MatMul", ["taken", "w"], T=type_attr(), _output_shapes=shapes_attr((-1, 4)))
    graph = made.built(producer=1882)
    assert shape(with_shapes(graph), "end") == (32 if said else 1, 4)
    assert shape(with_shapes(graph, batch=64), "end") == (64, 4)


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


def test_what_a_file_says_of_borders_between_fractional_pools_is_not_believed_behind_an_identity() -> None:
    """It has the shapes that TensorFlow infers, and a kernel makes one border more."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (2, 32, 32, 3)))
    ratios = AttrValue()
    ratios.list.f.extend([1.0, 1.5, 2.0, 1.0])
    given = shapes_attr((2, 21, 16, 3), (21,), (16,))
    made.add("pool", "FractionalMaxPool", ["x"], T=type_attr(), pooling_ratio=ratios, _output_shapes=given)
    made.add("borders", "Identity", ["pool:1"], T=type_attr(9), _output_shapes=shapes_attr((21,)))
    assert shape(with_shapes(made.built()), "borders") == (22,)


def test_what_is_restored_has_the_variable_s_shape() -> None:
    made = Rows()
    made.add("v", "VariableV2", dtype=type_attr(), shape=shape_attr(3, 2), _output_shapes=shapes_attr((3, 2)))
    made.add("h", "VarHandleOp", dtype=type_attr(), shape=shape_attr(4))
    made.add("restore", "RestoreV2", ["p", "p", "p"], dtypes=types_attr(1, 1), _output_shapes=shapes_attr(None, None))
    made.add("p", "Placeholder", dtype=type_attr(7))
    made.add("i", "Identity", ["restore:1"], T=type_attr(), _output_shapes=shapes_attr(None))
    made.add("a", "Assign", ["v", "restore"], T=type_attr(), _output_shapes=shapes_attr((3, 2)))
    made.add("b", "AssignVariableOp", ["h", "i"], dtype=type_attr())
    got = with_shapes(made.built())
    assert (shape(got, "restore"), got.tensor_shape[got.tensor_ptr[2] + 1], shape(got, "i")) == ((3, 2), (4,), (4,))


@pytest.mark.parametrize("count", [2, 64, 65, 200])
def test_what_is_restored_has_its_shape_however_many_variables_there_are(count: int) -> None:
    """The shapes of a node's outputs change one by one; those behind the 64th were unknown."""
    made = Rows()
    made.add("p", "Placeholder", dtype=type_attr(7))
    made.add("restore", "RestoreV2", ["p", "p", "p"], dtypes=types_attr(*[1] * count))
    for at in range(count):
        made.add(f"h{at}", "VarHandleOp", dtype=type_attr(), shape=shape_attr(at + 1))
        made.add(f"i{at}", "Identity", [f"restore:{at}"], T=type_attr())
        made.add(f"a{at}", "AssignVariableOp", [f"h{at}", f"i{at}"], dtype=type_attr())
    got = with_shapes(made.built())
    row = got.row("restore")
    assert [got.tensor_shape[tensor] for tensor in got.outputs(row)] == [(at + 1,) for at in range(count)]


def test_what_depends_on_values_stays_unknown_and_so_does_what_follows() -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(10), shape=shape_attr(9), _output_shapes=shapes_attr((9,)))
    made.add("w", "Where", ["x"], T=type_attr(10), _output_shapes=shapes_attr((-1, 1)))
    made.add("s", "Squeeze", ["w"], T=type_attr(9), squeeze_dims=AttrValue(list={"i": [1]}))
    made.add("n", "Neg", ["s"], T=type_attr(9))
    got = with_shapes(made.built())
    assert unknown_shapes(got) == {"Squeeze": 1, "Where": 1}
    assert shape(got, "n") == (-1,)


def test_a_file_that_contradicts_itself_is_believed() -> None:
    """It was TensorFlow that wrote its shapes."""
    made = chain((-1, 784), (-1, 10))
    made.add("odd", "Neg", ["z"], **typed("Neg", (-1, 11)))
    made.add("after", "Neg", ["odd"], T=type_attr())
    got = with_shapes(made.built(), batch=2)
    assert (shape(got, "odd"), shape(got, "after")) == ((2, 11), (2, 11))


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
    try:
        small, large = (with_shapes(graph, batch=size) for size in (batch, batch + more))
    except GraphError:  # the batch does not fit a drawn shape
        reject()
    known = (small.tensor_bytes >= 0) & (large.tensor_bytes >= 0)
    assert (small.tensor_bytes <= large.tensor_bytes)[known].all()


@given(graphs())
def test_what_the_file_knows_stays(graph: Graph) -> None:
    got = with_shapes(graph)
    for before, after in zip(graph.tensor_shape, got.tensor_shape, strict=True):
        if before is not None:
            assert after is not None
            assert all(b in (a, -1) for a, b in zip(after, before, strict=True))


def test_what_a_branch_reads_of_a_captured_variable_keeps_its_shape_with_another_batch() -> None:
    """As in a training with a scaled loss: whether the updates run hangs on the gradients, their shapes do not."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (4, 3)))
    made.add("finite", "IsFinite", ["x"], T=type_attr())
    made.add("axes", "Const", dtype=type_attr(3), value=const(0, 1))
    made.add("whether", "All", ["finite", "axes"], Tidx=type_attr(3))
    made.add("variable", "Placeholder", dtype=type_attr(20), shape=shape_attr())
    made.add("way", "Switch", ["variable", "whether"], T=type_attr(20))
    made.add("read", "ReadVariableOp", ["way:1"], dtype=type_attr(), _output_shapes=shapes_attr((8,)))
    made.add("end", "Neg", ["read"], T=type_attr())
    graph = with_shapes(made.built(), batch=7)
    assert (shape(graph, "x"), shape(graph, "read"), shape(graph, "end")) == ((7, 3), (8,), (8,))


@pytest.mark.parametrize(
    ("sides", "taken", "said"),
    [
        ((32, 17), 0, ", and in 1 constant"),
        ((32, 17), 1, ", and in 1 constant"),
        ((32, 18), 0, "; loops that end at 32 still do: bound"),
        ((32, 18), 1, ""),
    ],
)
def test_a_loop_follows_a_side_of_the_shape_of_the_examples_and_is_named_with_another(
    sides: tuple[int, int], taken: int, said: str
) -> None:
    """A script shuffles `tf.range(tf.shape(x)[0])`, and takes a part of it in each turn of a loop."""
    made = begun()
    made.add("images", "Placeholder", dtype=type_attr(), shape=shape_attr(32, 17), _output_shapes=shapes_attr((32, 17)))
    made.add("w", "Placeholder", dtype=type_attr(), shape=shape_attr(17, 3), _output_shapes=shapes_attr((17, 3)))
    made.add("product", "MatMul", ["images", "w"], T=type_attr())
    constants = {"shape": sides, "from": (taken,), "to": (taken + 1,), "by": (1,)}
    for name, values in constants.items():
        made.add(name, "Const", dtype=type_attr(INT32), value=vector(*values))
    picked = {"T": type_attr(INT32), "Index": type_attr(INT32), "shrink_axis_mask": AttrValue(i=1)}
    made.add("bound", "StridedSlice", [*constants], **picked)
    made.add("order", "Range", [constant(made, "zero", 0), "bound", constant(made, "one", 1)], Tidx=type_attr(INT32))
    counting(made, "loop", "x", 32, step=8)
    made.inputs[made.names.index("loop/bound/Enter")] = ["bound"]
    notes = with_shapes(made.built(producer=1882), batch=16).notes
    assert [note for note in notes if note.startswith("batch")] == [
        f"batch 16 takes the place of 32 in the file's first dimension of images:0{said}"
    ]


def test_a_refusal_names_the_table_of_which_nothing_says_how_large_it_is() -> None:
    """Rows that are gathered of it are unknown, so nothing may tie constants to the batch."""
    made = Rows()
    made.add("table", "Placeholder", dtype=type_attr(20), shape=shape_attr())
    made.add("ids", "Placeholder", dtype=type_attr(INT32), shape=shape_attr(4))
    made.add("rows", "ResourceGather", ["table", "ids"], dtype=type_attr(), Tindices=type_attr(INT32))
    made.add("sides", "Const", value=const(2, 2), dtype=type_attr(INT32))
    made.add("square", "Reshape", ["ids", "sides"], T=type_attr(INT32))
    with pytest.raises(GraphError, match=r"'square' \(Reshape\) .* how large table is; .*--feed NAME=6,8"):
        with_shapes(made.built(), batch=8)


def test_a_dataset_that_is_reduced_begins_with_as_many_examples_as_it_gives() -> None:
    """The best of all candidates, found one part after the other: a row per example, at first none in it."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (8, 3)))
    made.add("shape", "Const", dtype=type_attr(3), value=const(8, 3))  # of x, folded
    for name, at in (("begin", 0), ("end_", 1), ("step", 1)):
        made.add(name, "Const", dtype=type_attr(3), value=const(at))
    made.add(
        "first",
        "StridedSlice",
        ["shape", "begin", "end_", "step"],
        T=type_attr(3),
        Index=type_attr(3),
        shrink_axis_mask=AttrValue(i=1),
    )
    made.add("nil", "Const", dtype=type_attr(3), value=scalar(0))
    made.add("sides", "Pack", ["first", "nil"], N=AttrValue(i=2), T=type_attr(3), axis=AttrValue(i=0))
    made.add("zero", "Const", dtype=type_attr(), value=scalar(0))
    made.add("none", "Fill", ["sides", "zero"], T=type_attr(), index_type=type_attr(3))
    made.add("dataset", "Placeholder", dtype=type_attr(21), shape=shape_attr())
    made.add("best", "ReduceDataset", ["dataset", "none"], output_shapes=shapes_attr((8, -1)))
    made.add("joined", "ConcatV2", ["x", "best", "axis"], N=AttrValue(i=2), T=type_attr(), Tidx=type_attr(3))
    made.add("axis", "Const", dtype=type_attr(3), value=scalar(1))
    made.add("end", "Neg", ["joined"], T=type_attr())
    graph = with_shapes(made.built(), batch=7)
    assert (shape(graph, "none"), shape(graph, "best"), shape(graph, "end")) == ((7, 0), (7, -1), (7, -1))


def looked_up_in_parts() -> Graph:
    """Rows of a table in two parts, put together in the order of eight examples, beside each example."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (8, 3)))
    made.add("order", "Placeholder", dtype=type_attr(INT32), shape=shape_attr(8))
    made.add("found", "Placeholder", dtype=type_attr(), shape=shape_attr(8, 2))
    made.add("which", "Placeholder", dtype=type_attr(INT32), shape=shape_attr(8))
    for name, dtype in (("order", INT32), ("found", 1)):
        split = {"num_partitions": AttrValue(i=2), "T": type_attr(dtype)}
        made.add(f"{name}_parts", "DynamicPartition", [name, "which"], **split)
    parts = ["order_parts", "order_parts:1", "found_parts", "found_parts:1"]
    made.add("stitched", "DynamicStitch", parts, N=AttrValue(i=2), T=type_attr())
    made.add("sides", "Const", dtype=type_attr(INT32), value=const(8, 2))
    made.add("rows", "Reshape", ["stitched", "sides"], T=type_attr(), Tshape=type_attr(INT32))
    made.add("axis", "Const", dtype=type_attr(INT32), value=scalar(1))
    made.add("joined", "ConcatV2", ["x", "rows", "axis"], N=AttrValue(i=2), T=type_attr(), Tidx=type_attr(INT32))
    return made.built()


@pytest.mark.parametrize(
    "graph", [looked_up_in_parts(), chain((8, 784), (8, 10)).built(), with_constant(8, 5, 2), with_constant(2, 8, 5)]
)
@given(batch=st.integers(1, 20))
def test_a_graph_whose_shapes_were_inferred_takes_another_batch_as_its_file_does(graph: Graph, batch: int) -> None:
    """The rows of a table had a number of their own, and microbatches were refused."""
    again = with_shapes(with_shapes(graph), batch=batch)
    assert again.tensor_shape == with_shapes(graph, batch=batch).tensor_shape


@given(first=st.integers(1, 512), batch=st.integers(1, 512))
def test_an_open_batch_can_be_given_twice(first: int, batch: int) -> None:
    """The whole one and then that of microbatches, in a file whose constants hold 128."""
    once = with_shapes(TRAINING, batch=batch)
    assert with_shapes(with_shapes(TRAINING, batch=first), batch=batch).tensor_shape == once.tensor_shape


@pytest.mark.parametrize(("batch", "ones"), [(12, 6), (2, 1), (4, 2)])
def test_ones_that_the_loss_of_a_tower_counts_are_as_many_as_its_examples(batch: int, ones: int) -> None:
    """Nothing ties them to the batch; they stayed as many, and a gradient was divided by their old number."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(8, 3))
    made.add("axis", "Const", dtype=type_attr(INT32), value=scalar(0))
    made.add("towers", "Split", ["axis", "x"], num_split=AttrValue(i=2), T=type_attr())
    made.add("sides", "Const", dtype=type_attr(INT32), value=const(4, 3))
    for at in range(2):
        made.add(f"rows_{at}", "Reshape", [f"towers:{at}", "sides"], T=type_attr(), Tshape=type_attr(INT32))
        made.add(f"few_{at}", "Const", dtype=type_attr(INT32), value=const(4))
        made.add(f"ones_{at}", "Fill", [f"few_{at}", "axis"], T=type_attr(INT32), index_type=type_attr(INT32))
        made.add(f"present_{at}", "Sum", [f"ones_{at}", "axis"], T=type_attr(INT32), Tidx=type_attr(INT32))
    graph = with_shapes(made.built(), batch=batch)
    assert [shape(graph, name) for name in ("rows_0", "rows_1", "ones_0", "ones_1")] == [(ones, 3)] * 2 + [(ones,)] * 2


@pytest.mark.parametrize("examples", [-1, 8])
@pytest.mark.parametrize(("batch", "said"), [(6, False), (12, True)])
def test_a_batch_beside_a_feed_that_says_another_is_said_to_change_nothing(
    examples: int, batch: int, said: bool
) -> None:
    """`--feed x=6,3 --batch 12` was simulated with six examples, and nothing said so."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(examples, 3))
    made.add("end", "Neg", ["x"], T=type_attr())
    graph = with_shapes(made.built(), batch=batch, feeds={"x": (6, 3)})
    assert shape(graph, "end") == (6, 3)
    assert ("batch 12 changes nothing: what brings examples is fed other shapes" in graph.notes) == said
