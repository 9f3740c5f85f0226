"""Sizes that hang on the values of constants, and values of lists within lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simulator.graph.graph import Graph, Shape
from simulator.graph.messages import AttrValue
from simulator.shapes.filling import with_shapes
from tests.shapes.test_rules import FLOAT, INT32, inferred, number, scalar, vector
from tests.strategies import BOOL, Rows, shape_attr, type_attr

VARIANT, STRING = 21, 7
INTS = {"T": type_attr(INT32)}


def matrix(*rows: tuple[int, ...]) -> AttrValue:
    made = vector(*[one for row in rows for one in row])
    del made.tensor.tensor_shape.dim[:]
    for size in (len(rows), len(rows[0])):
        made.tensor.tensor_shape.dim.add(size=size)
    return made


def texts(*said: bytes) -> AttrValue:
    made = AttrValue()
    made.tensor.dtype = STRING
    made.tensor.string_val.extend(said)
    made.tensor.tensor_shape.dim.add(size=len(said))
    return made


def shape_of(graph: Graph, name: str) -> Shape | None:
    node, _, port = name.partition(":")
    shape: Shape | None = graph.tensor_shape[int(graph.tensor_ptr[graph.row(node)]) + int(port or 0)]
    return shape


def partitions(*kinds: str) -> dict[str, AttrValue]:
    return {**INTS, "row_partition_types": AttrValue(list={"s": [kind.encode() for kind in kinds]})}


ENTRIES = matrix((0, 2), (3, 0), (3, 1))
UNRANKED = scalar(-1)
TWICE = partitions("ROW_SPLITS", "ROW_SPLITS")
ONCE = {**INTS, "PARAMS_RAGGED_RANK": number(1), "OUTPUT_RAGGED_RANK": number(1)}
OF_TWO = {**INTS, "PARAMS_RAGGED_RANK": number(2), "OUTPUT_RAGGED_RANK": number(1)}
DENSE = {"dense_types": AttrValue(list={"type": [9, 9]})}
POOLED = {"T": type_attr(FLOAT), "pooling_ratio": AttrValue(list={"f": [1, 1.5, 2, 1]})}


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "shapes"),
    [
        ("Where", [vector(0, 3, 5)], INTS, [(2, 1)]),
        ("Where", [matrix((0, 3), (1, 1))], INTS, [(3, 2)]),
        ("Where", [(4, 6)], INTS, [(-1, 2)]),
        ("Unique", [vector(7, 7, 2)], INTS, [(2,), (3,)]),
        ("UniqueWithCounts", [vector(7, 7, 2)], INTS, [(2,), (3,), (2,)]),
        ("Unique", [(3,)], INTS, [(-1,), (3,)]),
        (
            "DynamicPartition",
            [(4, 5), vector(0, 2, 0, 0)],
            {**INTS, "num_partitions": number(3)},
            [(3, 5), (0, 5), (1, 5)],
        ),
        ("SparseFillEmptyRows", [ENTRIES, (3,), vector(5, 4), ()], INTS, [(6, 2), (6,), (5,), (3,)]),
        ("SparseFillEmptyRows", [(3, 2), (3,), vector(5, 4), ()], INTS, [(-1, 2), (-1,), (5,), (3,)]),
        ("SegmentSum", [(5, 4), vector(0, 0, 1, 3, 3)], INTS, [(4, 4)]),
        ("SegmentMax", [(5, 4), (5,)], INTS, [(-1, 4)]),
        ("SparseSegmentMean", [(9, 4), (3,), vector(0, 2, 2)], INTS, [(3, 4)]),
        ("SegmentSum", [(0, 4), vector()], INTS, [(0, 4)]),
        ("SparseCross", [(4, 2), (4, 3)], {**DENSE, "N": number(0)}, [(24, 2), (24,), (2,)]),
        ("SparseCross", [(7, 2), (7,), (2,), (4, 3), (4, 2)], {**DENSE, "N": number(1)}, [(-1, 2), (-1,), (2,)]),
        ("RaggedCross", [(4, 2), (4, 3)], DENSE, [(24,), (5,)]),
        ("RaggedTensorToTensor", [UNRANKED, (6, 3), (), vector(0, 2, 6)], partitions("ROW_SPLITS"), [(2, 4, 3)]),
        ("RaggedTensorToTensor", [UNRANKED, (6, 3), (), (3,)], partitions("ROW_SPLITS"), [(2, -1, 3)]),
        (
            "RaggedTensorToTensor",
            [UNRANKED, (4,), (), scalar(3), vector(0, 1, 1, 1)],
            partitions("FIRST_DIM_SIZE", "VALUE_ROWIDS"),
            [(3, 3)],
        ),
        ("RaggedTensorToTensor", [UNRANKED, (4,), (), vector(0, 1, 2), vector(0, 1, 4)], TWICE, [(2, 1, 3)]),
        ("RaggedRange", [vector(0, 5, 9), vector(3, 5, 4), scalar(-2)], INTS, [(4,), (3,)]),
        ("RaggedRange", [scalar(0), vector(3, 4), scalar(2)], INTS, [(3,), (4,)]),
        ("RaggedRange", [(3,), vector(3, 5, 4), scalar(1)], INTS, [(4,), (-1,)]),
        ("RaggedGather", [vector(0, 2, 2, 6), (6, 5), vector(2, 0, 2)], ONCE, [(4,), (10, 5)]),
        ("RaggedGather", [vector(0, 2, 3), vector(0, 1, 4, 9), (9,), scalar(0)], OF_TWO, [(-1,), (4,)]),
        ("DecodeAndCropJpeg", [(), vector(2, 3, 40, 50)], {"channels": number(3)}, [(40, 50, 3)]),
        ("FractionalMaxPool", [(2, 32, 32, 3)], POOLED, [(2, 21, 16, 3), (22,), (17,)]),
        ("AllToAll", [(8, 3), (1, 4)], {**INTS, "split_count": number(4), "concat_dimension": number(1)}, [(2, 12)]),
        ("SdcaFprint", [(7,)], {}, [(7, 2)]),
        ("StatefulStandardNormal", [(), vector(3, 4)], {"dtype": type_attr(FLOAT)}, [(3, 4)]),
    ],
)
def test_sizes_by_value(op: str, inputs: list[Any], attrs: Any, shapes: list[Shape | None]) -> None:
    assert inferred(op, inputs, **attrs)[: len(shapes)] == shapes


@pytest.mark.parametrize(
    ("op", "given", "shape"),
    [
        ("Where", vector(0, 1, 1, 0, 1), (1, 2, 4)),
        ("Unique", vector(7, 2, 7), (7, 2)),
        ("Cumsum", vector(2, 7), (2, 9)),
        ("Roll", vector(2, 7, 5), (5, 2, 7)),
    ],
)
def test_what_was_found_is_a_value_too(op: str, given: AttrValue, shape: Shape) -> None:
    """A shape that is laid out of the elements that an op gives."""
    made = Rows()
    made.add("given", "Const", dtype=type_attr(INT32), value=given)
    made.add("axis", "Const", dtype=type_attr(INT32), value=scalar(0))
    made.add("one", "Const", dtype=type_attr(INT32), value=scalar(1))
    further = {"Cumsum": ["axis"], "Roll": ["one", "axis"]}.get(op, [])
    made.add("found", op, ["given", *further], **INTS)
    made.add("flat", "Const", dtype=type_attr(INT32), value=vector(-1))
    made.add("sides", "Reshape", ["found", "flat"], **INTS)
    made.add("filled", "Fill", ["sides", "axis"], **INTS, index_type=type_attr(INT32))
    made.add("end", "Identity", ["filled"], **INTS)
    assert shape_of(with_shapes(made.built(producer=1882)), "filled") == shape


@pytest.mark.parametrize(("least", "most", "length"), [(10, 10, 10), (12, 10, 10), (0, 10, -1)])
@pytest.mark.parametrize("clipped", [True, False])
def test_a_number_of_bins_is_known_between_equal_limits(least: int, most: int, length: int, clipped: bool) -> None:
    """As `tf.math.bincount` with a `minlength` that is its `maxlength`: the largest element does not matter."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(INT32), shape=shape_attr(30))
    for name, value in (("axis", vector(0)), ("least", scalar(least)), ("most", scalar(most)), ("none", vector(0))):
        made.add(name, "Const", dtype=type_attr(INT32), value=value)
    made.add("largest", "Max", ["x", "axis"], **INTS, Tidx=type_attr(INT32))
    if clipped:
        made.add("bins", "ClipByValue", ["largest", "least", "most"], **INTS)
    else:
        made.add("more", "Maximum", ["least", "largest"], **INTS)
        made.add("bins", "Minimum", ["more", "most"], **INTS)
    made.add("count", "DenseBincount", ["x", "bins", "none"], Tidx=type_attr(INT32), T=type_attr(INT32))
    made.add("end", "Identity", ["count"], **INTS)
    assert shape_of(with_shapes(made.built(producer=1882)), "count") == (length,)


@pytest.mark.parametrize("most", [float(2**64), 3.4028234663852886e38, float("inf"), float("nan")])
@pytest.mark.parametrize("op", ["Maximum", "Minimum", "Mul"])
def test_a_number_that_is_larger_than_all_sizes_is_no_size(op: str, most: float) -> None:
    """As the least float32, from which `tf.linalg.expm` takes a maximum. It was looked up among unknown sizes."""
    least = vector(0)
    least.tensor.dtype, least.tensor.float_val[:] = FLOAT, [-most]
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr())
    made.add("least", "Const", dtype=type_attr(), value=least)
    made.add("size", op, ["least", "least" if op == "Mul" else "x"], T=type_attr())
    made.add("whole", "Cast", ["size"], SrcT=type_attr(), DstT=type_attr(INT32))
    made.add("filled", "Fill", ["whole", "x"], T=type_attr(), index_type=type_attr(INT32))
    made.add("end", "Identity", ["filled"], T=type_attr())
    assert shape_of(with_shapes(made.built(producer=1882)), "filled") == (-1,)


def test_segments_of_examples_are_as_many_as_these_in_another_batch() -> None:
    """As each example is a segment of its own."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(5, 6))
    for name, value in (("none", scalar(0)), ("all", scalar(5)), ("one", scalar(1))):
        made.add(name, "Const", dtype=type_attr(INT32), value=value)
    made.add("ids", "Range", ["none", "all", "one"], Tidx=type_attr(INT32))
    made.add("sum", "SegmentSum", ["x", "ids"], T=type_attr(), Tindices=type_attr(INT32))
    made.add("end", "Identity", ["sum"], T=type_attr())
    assert shape_of(with_shapes(made.built(producer=1882), batch=8), "sum") == (8, 6)


def test_a_shape_in_which_one_number_is_set_is_followed() -> None:
    """As `take_along_axis` of TensorFlow's numpy stretches all dimensions but one."""
    made = Rows()
    for name, value in (("sides", vector(1, 1)), ("where", matrix((0,))), ("set", vector(9)), ("zero", scalar(0))):
        made.add(name, "Const", dtype=type_attr(INT32), value=value)
    made.add("shape", "TensorScatterUpdate", ["sides", "where", "set"], **INTS, Tindices=type_attr(INT32))
    made.add("filled", "Fill", ["shape", "zero"], **INTS, index_type=type_attr(INT32))
    made.add("end", "Identity", ["filled"], **INTS)
    assert shape_of(with_shapes(made.built(producer=1882)), "filled") == (9, 1)


def test_combinations_of_columns_have_a_shape() -> None:
    """As a layer that crosses features makes a dense tensor of the combinations."""
    made = Rows()
    for name in ("a", "b"):
        made.add(name, "Placeholder", dtype=type_attr(9), shape=shape_attr(4, 2 if name == "a" else 3))
    made.add("crossed", "SparseCross", ["a", "b"], **DENSE, N=number(0), out_type=type_attr(9))
    made.add("zero", "Const", dtype=type_attr(9), value=scalar(0))
    dense = ["crossed", "crossed:2", "crossed:1", "zero"]
    made.add("dense", "SparseToDense", dense, T=type_attr(9), Tindices=type_attr(9))
    made.add("end", "Identity", ["dense"], T=type_attr(9))
    assert shape_of(with_shapes(made.built(producer=1882)), "dense") == (4, 6)


@pytest.mark.parametrize(("ratio", "shape"), [(1, (7, 9, 3)), (2, (-1, -1, 3))])
def test_a_picture_that_was_encoded_beside_has_its_size(ratio: int, shape: Shape) -> None:
    """As `tf.image.adjust_jpeg_quality` encodes and decodes."""
    made = Rows()
    made.add("picture", "Placeholder", dtype=type_attr(4), shape=shape_attr(7, 9, 3))
    made.add("text", "EncodeJpeg", ["picture"])
    made.add("same", "Identity", ["text"], T=type_attr(STRING))
    made.add("again", "DecodeJpeg", ["same"], channels=number(3), ratio=number(ratio))
    made.add("end", "Identity", ["again"], T=type_attr(4))
    graph = with_shapes(made.built(producer=1882))
    assert shape_of(graph, "again") == tuple(max(side, 1) if ratio == 1 else side for side in shape)


LIST = {"element_dtype": type_attr(), "shape_type": type_attr(INT32)}


@pytest.mark.parametrize(("said", "form"), [(scalar(-1), ()), (vector(3), (1,)), (vector(-1), (1,))])
def test_the_shape_of_a_list_s_elements_is_a_scalar_where_it_was_made_without_one(said: AttrValue, form: Shape) -> None:
    """TensorFlow infers a vector as soon as there are elements, and its kernel makes what the list was made with."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 3))
    made.add("said", "Const", dtype=type_attr(INT32), value=said)
    made.add("list", "TensorListFromTensor", ["x", "said"], **LIST)
    made.add("asked", "TensorListElementShape", ["list"], shape_type=type_attr(INT32))
    made.add("end", "Identity", ["asked"], T=type_attr(INT32))
    graph = made.built(producer=1882)
    claimed: list[Shape | None] = [None] * len(graph.tensor_node)
    claimed[graph.tensor_ptr[graph.row("asked")]] = (2,)
    assert shape_of(with_shapes(replace(graph, tensor_shape=tuple(claimed))), "asked") == form


def test_parts_of_a_list_that_are_known_one_by_one_are_joined() -> None:
    """As a TensorArray in which Python writes tensors of different lengths, and one that is split."""
    made = Rows()
    for name, value in (("any", scalar(-1)), ("two", scalar(2)), ("none", scalar(0)), ("one", scalar(1))):
        made.add(name, "Const", dtype=type_attr(INT32), value=value)
    made.add("short", "Placeholder", dtype=type_attr(), shape=shape_attr(3, 6))
    made.add("long", "Placeholder", dtype=type_attr(), shape=shape_attr(5, 6))
    made.add("reserved", "TensorListReserve", ["any", "two"], **LIST)
    made.add("first", "TensorListSetItem", ["reserved", "none", "short"], element_dtype=type_attr())
    made.add("both", "TensorListSetItem", ["first", "one", "long"], element_dtype=type_attr())
    made.add("lead", "Const", dtype=type_attr(9), value=vector(0))
    made.add("joined", "TensorListConcatV2", ["both", "any", "lead"], **LIST)
    made.add("taken", "TensorListGetItem", ["both", "one", "any"], element_dtype=type_attr())
    made.add("sizes", "Const", dtype=type_attr(9), value=vector(1, 4))
    made.add("split", "TensorListSplit", ["long", "any", "sizes"], **LIST)
    made.add("last", "TensorListGetItem", ["split", "one", "any"], element_dtype=type_attr())
    made.add("again", "TensorListConcatV2", ["split", "any", "lead"], **LIST)
    for name in ("joined", "taken", "last", "again"):
        made.add(f"{name}_end", "Identity", [name], T=type_attr())
    graph = with_shapes(made.built(producer=1882))
    shapes = [shape_of(graph, name) for name in ("joined", "taken", "last", "again")]
    assert shapes == [(8, 6), (5, 6), (4, 6), (5, 6)]
    assert shape_of(graph, "joined:1") == (2,)


@pytest.mark.parametrize("summands", [1, 2, 3])
@pytest.mark.parametrize("known", [True, False])
def test_a_sum_of_many_sizes_is_a_size(summands: int, known: bool) -> None:
    """AddN of shapes: of known sides numbers, of unknown ones a symbol, taken for 1 in the end."""
    made = Rows()
    for at in range(summands):
        made.add(f"given/{at}", "Placeholder", dtype=type_attr(), shape=shape_attr(5 if known else -1, 2 + at))
        made.add(f"shape/{at}", "Shape", [f"given/{at}"], T=type_attr(), out_type=type_attr(INT32))
    shapes = [f"shape/{at}" for at in range(summands)]
    made.add("sum", "AddN", shapes, T=type_attr(INT32), N=number(summands))
    made.add("zero", "Const", dtype=type_attr(FLOAT), value=scalar(0))
    for name in ("one", "other"):
        made.add(name, "Fill", ["sum", "zero"], T=type_attr(), index_type=type_attr(INT32))
    made.add("end", "AddV2", ["one", "other"], T=type_attr())
    sides = sum(2 + at for at in range(summands))
    assert shape_of(with_shapes(made.built(producer=1882)), "end") == ((5 if known else 1) * summands, sides)


@pytest.mark.parametrize(
    ("said", "shape"),
    [
        (b"40 6 0,10:-", (10, 6)),
        (b"40 6 -:2,3", (40, 3)),
        (b"40 -", (40,)),
        (b"", None),
        (b"40 6 0,10", None),
        (b"40 6", None),
        (b"a b -:-", None),
    ],
)
def test_a_restored_part_has_the_shape_that_its_text_says(said: bytes, shape: Shape | None) -> None:
    made = Rows()
    for name, value in (("prefix", texts(b"m")), ("names", texts(b"v", b"w")), ("parts", texts(said, b"7 -"))):
        made.add(name, "Const", dtype=type_attr(STRING), value=value)
    types = AttrValue(list={"type": [FLOAT, FLOAT]})
    made.add("saved", "RestoreV2", ["prefix", "names", "parts"], dtypes=types)
    for port in range(2):
        made.add(f"end{port}", "Identity", [f"saved:{port}"], T=type_attr())
    got = with_shapes(made.built(producer=1882))
    assert (shape_of(got, "saved"), shape_of(got, "saved:1")) == (shape, (7,))


def test_elements_of_a_priority_queue_have_their_priority_first() -> None:
    made = Rows()
    made.add("queue", "PriorityQueueV2", shapes=AttrValue(list={"shape": [{"dim": [{"size": 3}]}]}))
    types = AttrValue(list={"type": [9, FLOAT]})
    made.add("taken", "QueueDequeueV2", ["queue"], component_types=types)
    made.add("end", "Identity", ["taken:1"], T=type_attr())
    got = with_shapes(made.built(producer=1882))
    assert (shape_of(got, "taken"), shape_of(got, "taken:1")) == ((), (3,))


def test_the_elements_of_a_list_of_lists_are_followed() -> None:
    """As the gradient of a loop in a loop keeps the values of the inner one."""
    made, inner, outer = Rows(), {"element_dtype": type_attr()}, {"element_dtype": type_attr(VARIANT)}
    made.add("any", "Const", dtype=type_attr(INT32), value=scalar(-1))
    made.add("value", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 6))
    for name, attrs in (("inner", inner), ("outer", outer)):
        made.add(name, "EmptyTensorList", ["any", "any"], shape_type=type_attr(INT32), **attrs)
    made.add("one", "TensorListPushBack", ["inner", "value"], **inner)
    made.add("both", "TensorListPushBack", ["outer", "one"], **outer)
    made.add("back", "TensorListPopBack", ["both", "any"], **outer)
    made.add("found", "TensorListPopBack", ["back:1", "any"], **inner)
    made.add("end", "Identity", ["found:1"], T=type_attr())
    made.add("after", "Identity", ["end"], T=type_attr())
    assert shape_of(with_shapes(made.built(producer=1882)), "found:1") == (4, 6)


def test_a_shape_that_a_loop_keeps_in_a_list_is_known_when_it_is_taken_out() -> None:
    """As a recurrent layer keeps the shapes of its sums: of an empty list of vectors, nothing is known yet."""
    made, of_shapes = Rows(), {"element_dtype": type_attr(INT32)}
    made.add("pair", "Const", dtype=type_attr(INT32), value=vector(2))
    made.add("sum", "Placeholder", dtype=type_attr(), shape=shape_attr(3, 64))
    made.add("rank", "Shape", ["sum"], T=type_attr(), out_type=type_attr(INT32))
    made.add("empty", "EmptyTensorList", ["pair", "pair"], shape_type=type_attr(INT32), **of_shapes)
    made.add("more", "Placeholder", dtype=type_attr(10), shape=shape_attr())
    made.add("enter", "Enter", ["empty"], T=type_attr(VARIANT), frame_name=AttrValue(s=b"loop"))
    made.add("merge", "Merge", ["enter", "next"], T=type_attr(VARIANT), N=number(2))
    made.add("cond", "LoopCond", ["more"])
    made.add("switch", "Switch", ["merge", "cond"], T=type_attr(VARIANT))
    made.add("push", "TensorListPushBack", ["switch:1", "rank"], **of_shapes)
    made.add("next", "NextIteration", ["push"], T=type_attr(VARIANT))
    made.add("exit", "Exit", ["switch"], T=type_attr(VARIANT))
    made.add("pop", "TensorListPopBack", ["exit", "pair"], **of_shapes)
    made.add("axes", "BroadcastGradientArgs", ["pop:1", "rank"], T=type_attr(INT32))
    made.add("end", "Identity", ["axes"], T=type_attr(INT32))
    assert shape_of(with_shapes(made.built(producer=1882)), "axes") == (0,)


@pytest.mark.parametrize("taken", [0, 1])
def test_what_a_branch_wraps_for_its_gradient_is_known_when_it_is_unwrapped(taken: int) -> None:
    """As `tf.cond` keeps what the gradient of a branch reads, and nothing in the other."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(5, 8))
    made.add("which", "Placeholder", dtype=type_attr(10), shape=shape_attr())
    made.add("switch", "Switch", ["x", "which"], T=type_attr())
    wrapped = AttrValue(list={"type": [FLOAT]})
    made.add("some", "OptionalFromValue", ["switch:1"], Toutput_types=wrapped)
    made.add("none", "OptionalNone", ["^switch"])
    made.add("merge", "Merge", ["some", "none"] if taken else ["none", "some"], T=type_attr(VARIANT), N=number(2))
    shapes = AttrValue(list={"shape": [{"dim": [{"size": -1}, {"size": 8}]}]})
    made.add("value", "OptionalGetValue", ["merge"], output_types=wrapped, output_shapes=shapes)
    made.add("end", "Identity", ["value"], T=type_attr())
    assert shape_of(with_shapes(made.built(producer=1882)), "value") == (5, 8)


@pytest.mark.parametrize("other", [(FLOAT, ()), (10, (5, 8))])
@pytest.mark.parametrize("first", ["some", "other"])
def test_branches_wrap_what_differs_in_one_slot_and_each_gradient_takes_its_own(
    other: tuple[int, tuple[int, ...]], first: str
) -> None:
    """A branch that holds a conditional of its own wraps its predicate where the other one wraps its activations."""
    dtype, sides = other
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(5, 8))
    made.add("y", "Placeholder", dtype=type_attr(dtype), shape=shape_attr(*sides))
    types = {"some": AttrValue(list={"type": [FLOAT]}), "other": AttrValue(list={"type": [dtype]})}
    made.add("some", "OptionalFromValue", ["x"], Toutput_types=types["some"])
    made.add("other", "OptionalFromValue", ["y"], Toutput_types=types["other"])
    second = "other" if first == "some" else "some"
    made.add("merge", "Merge", [first, second], T=type_attr(VARIANT), N=number(2))
    open_ = AttrValue(list={"shape": [{"dim": [{"size": -1}, {"size": 8}]}]})
    same = AttrValue(list={"shape": [{"dim": [{"size": -1}] * len(sides)}]})
    made.add("value", "OptionalGetValue", ["merge"], output_types=types["some"], output_shapes=open_)
    made.add("another", "OptionalGetValue", ["merge"], output_types=types["other"], output_shapes=same)
    made.add("end", "Identity", ["value"], T=type_attr())
    made.add("other_end", "Identity", ["another"], T=type_attr(dtype))
    graph = with_shapes(made.built(producer=1882))
    assert shape_of(graph, "value") == (5, 8)
    assert shape_of(graph, "another") == sides


def test_zeros_and_sums_of_lists_are_lists() -> None:
    """The gradient of a loop that reads a list begins with zeros like it, and adds a list in each iteration."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(3, 6))
    made.add("row", "Const", dtype=type_attr(INT32), value=vector(6))
    made.add("list", "TensorListFromTensor", ["x", "row"], element_dtype=type_attr(), shape_type=type_attr(INT32))
    made.add("zeros", "ZerosLike", ["list"], T=type_attr(VARIANT))
    made.add("sum", "AddN", ["zeros", "list"], T=type_attr(VARIANT), N=number(2))
    made.add("stack", "TensorListStack", ["sum", "row"], element_dtype=type_attr(), num_elements=number(-1))
    made.add("end", "Identity", ["stack"], T=type_attr())
    assert shape_of(with_shapes(made.built(producer=1882)), "stack") == (3, 6)


def test_a_sum_of_lists_has_the_elements_of_which_more_is_known() -> None:
    """The gradient of an array that is stacked and joined is a sum of two, of which one has rows of unknown number."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(3, 6, 2))
    made.add("long", "Placeholder", dtype=type_attr(), shape=shape_attr(18, 2))
    made.add("sizes", "Placeholder", dtype=type_attr(9), shape=shape_attr(3))
    made.add("any", "Const", dtype=type_attr(INT32), value=scalar(-1))
    made.add("rows", "TensorListFromTensor", ["x", "any"], **LIST)
    made.add("parts", "TensorListSplit", ["long", "any", "sizes"], **LIST)
    made.add("sum", "AddN", ["parts", "rows"], T=type_attr(VARIANT), N=number(2))
    made.add("stack", "TensorListStack", ["sum", "any"], element_dtype=type_attr(), num_elements=number(-1))
    made.add("end", "Identity", ["stack"], T=type_attr())
    assert shape_of(with_shapes(made.built(producer=1882)), "stack") == (3, 6, 2)


def test_the_conjugate_of_a_matrix_of_sparse_rows_is_one() -> None:
    made = Rows()
    made.add("dense", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 6))
    made.add("places", "Placeholder", dtype=type_attr(), shape=shape_attr(9, 2))
    made.add("rows", "DenseToCSRSparseMatrix", ["dense", "places"], T=type_attr())
    made.add("turned", "Conj", ["rows"], T=type_attr(VARIANT))
    made.add("back", "CSRSparseMatrixToDense", ["turned"], type=type_attr())
    made.add("end", "Identity", ["back"], T=type_attr())
    assert shape_of(with_shapes(made.built(producer=1882)), "back") == (4, 6)


def rebatched(made: Rows, name: str) -> Shape | None:
    return shape_of(with_shapes(made.built(producer=1882), batch=7), name)


def test_each_image_has_its_own_transformation() -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 8, 8, 3))
    made.add("each", "Const", dtype=type_attr(INT32), value=matrix(*[(1, 0, 0, 0, 1, 0, 0, 0)] * 4))
    made.add("size", "Const", dtype=type_attr(INT32), value=vector(5, 6))
    made.add("turned", "ImageProjectiveTransformV3", ["x", "each", "size", "size"], dtype=type_attr())
    made.add("end", "Identity", ["turned"], T=type_attr())
    assert rebatched(made, "each") == (7, 8)


def test_a_quotient_that_is_exact_ties_what_is_divided() -> None:
    """The gradient of a dilated mean: its sixteen pictures are four blocks of each example."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 6, 6, 2))
    made.add("shape", "Const", dtype=type_attr(INT32), value=vector(16, 3, 3, 2))
    made.add("zero", "Const", dtype=type_attr(INT32), value=scalar(0))
    made.add("grown", "Fill", ["shape", "zero"], **INTS, index_type=type_attr(INT32))
    made.add("back", "AvgPoolGrad", ["shape", "grown"], T=type_attr())
    made.add("block", "Const", dtype=type_attr(INT32), value=vector(2, 2))
    made.add("crops", "Const", dtype=type_attr(INT32), value=matrix((0, 0), (0, 0)))
    made.add("whole", "BatchToSpaceND", ["back", "block", "crops"], T=type_attr())
    made.add("sum", "AddN", ["x", "whole"], N=number(2), T=type_attr())
    made.add("end", "Identity", ["sum"], T=type_attr())
    assert rebatched(made, "back") == (28, 3, 3, 2)


@pytest.mark.parametrize("sides", [(-1, 4, 4), (1, 4, 4), (4, 1, 4)])
def test_a_shape_that_gains_dimensions_of_one_keeps_the_others(sides: tuple[int, ...]) -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 3))
    made.add("square", "MatMul", ["x", "x"], T=type_attr(), transpose_b=AttrValue(b=True))
    made.add("sides", "Const", dtype=type_attr(INT32), value=vector(*sides))
    made.add("wide", "Reshape", ["square", "sides"], T=type_attr(), Tshape=type_attr(INT32))
    made.add("end", "Identity", ["wide"], T=type_attr())
    assert rebatched(made, "wide") == tuple({4: 7, -1: 1}.get(side, side) for side in sides)


@pytest.mark.parametrize(
    ("op", "given", "formats", "found"),
    [
        ("DataFormatDimMap", vector(0, 1, 2, 3), ("NHWC", "NCHW"), (0, 2, 3, 1)),
        ("DataFormatDimMap", vector(-1, -2), ("NHWC", "NCHW"), (1, 3)),
        ("DataFormatDimMap", vector(4), ("NHWC", "NCHW"), None),
        ("DataFormatVecPermute", vector(7, 8, 9, 10), ("NHWC", "NCHW"), (7, 10, 8, 9)),
        ("DataFormatVecPermute", vector(7, 8), ("NHWC", "NCHW"), (7, 8)),
        ("DataFormatVecPermute", vector(7, 8), ("NHWC", "NWHC"), (8, 7)),
        ("DataFormatVecPermute", vector(7, 8, 9), ("NDHWC", "NCWHD"), (9, 8, 7)),
        ("DataFormatVecPermute", vector(7, 8, 9), ("NHWC", "NCHW"), None),
        ("DataFormatVecPermute", vector(7, 8), ("NHHC", "NCHW"), None),
    ],
)
def test_sizes_in_another_data_format(op: str, given: AttrValue, formats: tuple[str, str], found: Shape | None) -> None:
    """By raw ops of TensorFlow 2.21; what it refuses is not followed."""
    made = Rows()
    made.add("given", "Const", dtype=type_attr(INT32), value=given)
    names = zip(("src_format", "dst_format"), formats, strict=True)
    made.add("sides", op, ["given"], **INTS, **{name: AttrValue(s=said.encode()) for name, said in names})
    made.add("zero", "Const", dtype=type_attr(FLOAT), value=scalar(0))
    made.add("filled", "Fill", ["sides", "zero"], T=type_attr(), index_type=type_attr(INT32))
    made.add("end", "Identity", ["filled"], T=type_attr())
    shape = shape_of(with_shapes(made.built(producer=1882)), "filled")
    assert shape == (found or (-1,) * given.tensor.tensor_shape.dim[0].size)


@pytest.mark.parametrize(("side", "found"), [(64, 64), (65, -1)])
def test_a_table_of_each_number_beside_each_is_no_longer_than_other_values(side: int, found: int) -> None:
    """As a mask of boxes, which a suppression of overlaps compares in loops: it was computed element by element."""
    made = Rows()
    made.add("numbers", "Const", dtype=type_attr(INT32), value=vector(*range(side)))
    made.add("upright", "Const", dtype=type_attr(INT32), value=vector(-1, 1))
    made.add("column", "Reshape", ["numbers", "upright"], **INTS)
    made.add("same", "Equal", ["column", "numbers"], **INTS)
    made.add("places", "Where", ["same"], T=type_attr(BOOL))
    made.add("end", "Identity", ["places"], T=type_attr(9))
    assert shape_of(with_shapes(made.built(producer=1882)), "places") == (found, 2)


@pytest.mark.parametrize("op", ["Minimum", "ClipByValue"])
def test_bounds_of_more_numbers_than_are_followed_are_unknown(op: str) -> None:
    """They counted as no numbers at all: their sum was 0, and a lookup by them crashed."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(INT32), shape=shape_attr(5000))
    made.add("scale", "Const", dtype=type_attr(INT32), value=vector(*range(4)))
    for name, value in (("least", 0), ("most", 3), ("axis", 0), ("one", 1)):
        made.add(name, "Const", dtype=type_attr(INT32), value=scalar(value))
    made.add("bounded", op, ["x", "most"] if op == "Minimum" else ["x", "least", "most"], **INTS)
    looked_up = {"Tparams": type_attr(INT32), "Tindices": type_attr(INT32), "Taxis": type_attr(INT32)}
    made.add("found", "GatherV2", ["scale", "bounded", "axis"], **looked_up)
    made.add("total", "Sum", ["bounded", "axis"], **INTS, Tidx=type_attr(INT32))
    made.add("range", "Range", ["axis", "total", "one"], Tidx=type_attr(INT32))
    graph = with_shapes(made.built(producer=1882))
    assert (shape_of(graph, "found"), shape_of(graph, "range")) == ((5000,), (-1,))
