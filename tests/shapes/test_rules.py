"""Shapes that were worked out by hand, an op each; TensorFlow judges them in tests/oracle/test_random_shapes.py."""

from typing import Any

import pytest

from simulator.graph import ops, registry
from simulator.graph.graph import Graph, Shape
from simulator.graph.messages import AttrValue
from simulator.shapes.filling import with_shapes
from simulator.shapes.formulas import elementwise
from simulator.shapes.rules import PASSING, RULES, VALUES
from tests.strategies import Rows, shape_attr, type_attr

INT32, FLOAT = 3, 1


def ints(*values: int) -> AttrValue:
    made = AttrValue()
    made.list.i.extend(values)
    return made


def text(value: str) -> AttrValue:
    return AttrValue(s=value.encode())


def number(value: int) -> AttrValue:
    return AttrValue(i=value)


def true() -> AttrValue:
    return AttrValue(b=True)


def vector(*values: int) -> Any:
    """The value of an int32 vector, for an input that a rule reads."""
    made = AttrValue()
    made.tensor.dtype = INT32
    made.tensor.int_val.extend(values)
    made.tensor.tensor_shape.dim.add(size=len(values))
    return made


def scalar(value: int) -> Any:
    made = AttrValue()
    made.tensor.dtype = INT32
    made.tensor.int_val.append(value)
    made.tensor.tensor_shape.SetInParent()
    return made


def inferred(op: str, inputs: list[Any], **attrs: Any) -> list[Shape | None]:
    """The shapes of an op's outputs; an input is a shape, or the value of a constant."""
    got = graph_of(op, inputs, **attrs)
    first, last = got.tensor_ptr[got.row("op") : got.row("op") + 2].tolist()
    return list(got.tensor_shape[first:last])


def graph_of(op: str, inputs: list[Any], **attrs: Any) -> Graph:
    """The op between its inputs, of which the last may be left out where no shape follows from them, and readers."""
    made = Rows()
    names = []
    for at, one in enumerate(inputs):
        name = f"in{at}"
        if isinstance(one, tuple):
            made.add(name, "Placeholder", dtype=type_attr(FLOAT), shape=shape_attr(*one))
        else:
            made.add(name, "Const", dtype=type_attr(INT32), value=one)
        names.append(name)
    declared = [one for one in registry.registered(op).inputs if not (one.number_attr or one.list_attr)]
    names += [made.add(f"in{at}", "Placeholder", dtype=type_attr()) for at in range(len(names), len(declared))]
    made.add("op", op, names, **attrs)
    outputs = ops.outputs(op, attrs, {}) or (FLOAT,)
    for port in range(len(outputs)):
        made.add(f"end{port}", "Identity", [f"op:{port}"], T=type_attr(outputs[port] or FLOAT))
        made.add(f"after{port}", "Identity", [f"end{port}"], T=type_attr(outputs[port] or FLOAT))
    graph: Graph = made.built(producer=1882)
    return with_shapes(graph)


CONV = {"strides": ints(1, 2, 2, 1), "dilations": ints(1, 1, 1, 1), "T": type_attr()}
FIRST = {"strides": ints(1, 1, 2, 2), "dilations": ints(1, 1, 1, 1), "T": type_attr(), "data_format": text("NCHW")}
# UniformQuantizedConvolutionDimensionNumbersAttr with channels last, and filters behind their channels
NHWC = b"\x10\3\x1a\2\1\2 \2(\3" + b"2\2\0\1@\3J\2\1\2"
F = {"T": type_attr()}
CASES = [
    ("Multinomial", [(7, 5), scalar(3)], F, [(7, 3)]),
    ("RandomGamma", [vector(2, 3), (4, 1)], {"S": type_attr(INT32), "T": type_attr()}, [(2, 3, 4, 1)]),
    ("ExtractGlimpse", [(7, 28, 28, 3), vector(9, 8), (7, 2)], {}, [(7, 9, 8, 3)]),
    ("LowerBound", [(2, 9), (2, 5)], F, [(2, 5)]),
    ("SparseSlice", [(9, 3), (9,), (3,), (3,), (3,)], F, [(-1, 3), (-1,), (3,)]),
    ("SparseConcat", [(9, 2), (8, 2), (9,), (8,), (2,), (2,)], {**F, "N": number(2)}, [(17, 2), (17,), (2,)]),
    (
        "SparseSplit",
        [(), (9, 2), (9,), (2,)],
        {**F, "num_split": number(2)},
        [(-1, 2), (-1, 2), (-1,), (-1,), (2,), (2,)],
    ),
    ("AddV2", [(3, 1, 5), (4, 1)], F, [(3, 4, 5)]),
    ("SelectV2", [(3, 1), (1, 4), ()], F, [(3, 4)]),
    ("MatMul", [(3, 4), (5, 4)], {**F, "transpose_b": true()}, [(3, 5)]),
    ("BatchMatMulV2", [(7, 1, 2, 3), (5, 3, 4)], F, [(7, 5, 2, 4)]),
    ("Einsum", [(2, 3, 4), (4, 5)], {**F, "equation": text("bij,jk->bik"), "N": number(2)}, [(2, 3, 5)]),
    ("Einsum", [(2, 6, 3), (2, 1, 3)], {**F, "equation": text("...i,...i->..."), "N": number(2)}, [(2, 6)]),
    ("Conv2D", [(8, 28, 28, 3), (5, 5, 3, 16)], {**CONV, "padding": text("SAME")}, [(8, 14, 14, 16)]),
    ("Conv2D", [(8, 28, 28, 3), (5, 5, 3, 16)], {**CONV, "padding": text("VALID")}, [(8, 12, 12, 16)]),
    ("Conv2D", [(8, 3, 28, 28), (5, 5, 3, 16)], {**FIRST, "padding": text("SAME")}, [(8, 16, 14, 14)]),
    (
        "Conv2D",
        [(8, 28, 28, 4), (3, 3, 4, 16)],
        {**CONV, "padding": text("EXPLICIT"), "explicit_paddings": ints(0, 0, 1, 2, 3, 0, 0, 0)},
        [(8, 15, 15, 16)],
    ),
    ("DepthwiseConv2dNative", [(8, 9, 9, 4), (3, 3, 4, 2)], {**CONV, "padding": text("SAME")}, [(8, 5, 5, 8)]),
    (
        "MaxPool",
        [(8, 28, 28, 3)],
        {**F, "ksize": ints(1, 3, 3, 1), "strides": ints(1, 2, 2, 1), "padding": text("VALID")},
        [(8, 13, 13, 3)],
    ),
    (
        "Conv2DBackpropFilter",
        [(8, 28, 28, 3), vector(5, 5, 3, 16), (8, 14, 14, 16)],
        {**CONV, "padding": text("SAME")},
        [(5, 5, 3, 16)],
    ),
    ("BiasAddGrad", [(8, 16, 5, 5)], {**F, "data_format": text("NCHW")}, [(16,)]),
    ("SparseSoftmaxCrossEntropyWithLogits", [(8, 10), (8,)], {**F, "Tlabels": type_attr()}, [(8,), (8, 10)]),
    ("Sum", [(3, 4, 5), vector(0, -1)], F, [(4,)]),
    ("Sum", [(3, 4, 5), vector(1)], {**F, "keep_dims": true()}, [(3, 1, 5)]),
    ("ArgMax", [(3, 4, 5), scalar(1)], F, [(3, 5)]),
    ("Reshape", [(3, 4, 5), vector(6, -1)], F, [(6, 10)]),
    ("Reshape", [(0, 5, 6), vector(0, -1)], F, [(0, 30)]),
    ("Transpose", [(3, 4, 5), vector(2, 0, 1)], F, [(5, 3, 4)]),
    ("ExpandDims", [(3, 4), scalar(-1)], F, [(3, 4, 1)]),
    ("Squeeze", [(3, 1, 4, 1)], {**F, "squeeze_dims": ints(1)}, [(3, 4, 1)]),
    ("ConcatV2", [(3, 4), (3, 6), scalar(-1)], {**F, "N": number(2)}, [(3, 10)]),
    ("Pack", [(3, 4), (3, 4)], {**F, "N": number(2), "axis": number(1)}, [(3, 2, 4)]),
    ("Unpack", [(3, 2, 4)], {**F, "num": number(2), "axis": number(1)}, [(3, 4), (3, 4)]),
    ("Split", [scalar(1), (3, 6)], {**F, "num_split": number(2)}, [(3, 3), (3, 3)]),
    ("SplitV", [(3, 6), vector(2, -1), scalar(1)], {**F, "num_split": number(2)}, [(3, 2), (3, 4)]),
    ("Tile", [(3, 4), vector(2, 1)], F, [(6, 4)]),
    ("OneHot", [(3, 4), scalar(9), (), ()], {**F, "axis": number(-1)}, [(3, 4, 9)]),
    ("Fill", [vector(3, 4), ()], F, [(3, 4)]),
    ("Range", [scalar(2), scalar(11), scalar(3)], {"Tidx": type_attr(INT32)}, [(3,)]),
    ("Slice", [(3, 4), vector(1, 1), vector(-1, 2)], F, [(2, 2)]),
    (
        "StridedSlice",
        [(9, 4, 5), vector(1, 0, 0), vector(8, 0, 2), vector(2, 1, 1)],
        {**F, "shrink_axis_mask": number(2), "end_mask": number(4)},
        [(4, 5)],
    ),
    ("GatherV2", [(9, 4, 5), (3, 2), scalar(1)], F, [(9, 3, 2, 5)]),
    ("GatherNd", [(9, 4, 5), (7, 2)], F, [(7, 5)]),
    ("TopKV2", [(3, 9), scalar(4)], F, [(3, 4), (3, 4)]),
    ("UnsortedSegmentSum", [(8, 3), (8,), scalar(5)], F, [(5, 3)]),
    ("SpaceToDepth", [(2, 6, 6, 3)], {**F, "block_size": number(2)}, [(2, 3, 3, 12)]),
    ("ResizeBilinear", [(2, 6, 6, 3), vector(12, 9)], F, [(2, 12, 9, 3)]),
    ("MatrixDiag", [(2, 3)], F, [(2, 3, 3)]),
    ("Qr", [(5, 3)], F, [(5, 3), (3, 3)]),
    ("XlaDynamicUpdateSlice", [(4, 8), (2, 8), vector(0, 0)], F, [(4, 8)]),
    ("XlaDynamicSlice", [(4, 8), vector(0, 0), vector(2, 3)], F, [(2, 3)]),
    ("XlaScatter", [(4, 8), (1, 1), (2, 8)], F, [(4, 8)]),
    ("XlaDotV2", [(8, 16, 64), (64, 4, 32)], {"dimension_numbers": AttrValue(s=b"\n\1\2\x12\1\0")}, [(8, 16, 4, 32)]),
    (
        "XlaDotV2",
        [(8, 16, 4, 32), (8, 10, 4, 32)],
        {"dimension_numbers": AttrValue(s=b'\x08\3\x10\3\x1a\2\0\2"\2\0\2')},
        [(8, 4, 16, 10)],
    ),
    # fields 7, 8 and 11 for the image, 3, 4 and 6 for the filters, 9, 10 and 12 for the output
    (
        "XlaConvV2",
        [(2, 9, 8, 3), (3, 3, 3, 5), vector(2, 1), vector(1, 1, 0, 0), vector(1, 2), vector(1, 1), scalar(1)],
        {"dimension_numbers": AttrValue(s=b"8\0@\3Z\2\1\2\x18\2 \3" + b"2\2\0\1H\0P\3b\2\1\2")},
        [(2, 5, 13, 5)],
    ),
    ("XlaPad", [(3, 8), (), vector(1, -1), vector(0, 2), vector(2, 0)], F, [(8, 9)]),
    ("XlaReduce", [(3, 4, 5), ()], {**F, "dimensions_to_reduce": ints(0, 2)}, [(4,)]),
    # offsets 0 and 2, collapsed 1, an index in the dimension behind the last
    (
        "XlaGather",
        [(8, 9, 7), (6, 5), vector(3, 1, 7)],
        {"dimension_numbers": AttrValue(s=b"\n\2\0\2\x12\1\1\x1a\1\1 \2")},
        [(3, 6, 7, 5)],
    ),
    (
        "XlaGather",
        [(8, 9), (2, 6), vector(1, 9)],
        {"dimension_numbers": AttrValue(s=b"\n\1\1\x12\1\0\x1a\2\0\1")},
        [(6, 9)],
    ),
    ("UniformQuantizedAdd", [(3, 1), (4,), (4,), (4,), (), (), (), ()], {}, [(3, 4)]),
    ("UniformQuantizedDot", [(3, 4), (4, 5), (), (), (5,), (5,), (5,), (5,)], {}, [(3, 5)]),
    (
        "UniformQuantizedConvolution",
        [(2, 3, 9, 8), (5, 3, 3, 3), (), (), (), (), (), ()],
        {"padding": text("SAME"), "window_strides": ints(2, 1)},
        [(2, 5, 5, 8)],
    ),
    (
        "UniformQuantizedConvolutionHybrid",
        [(2, 9, 8, 3), (3, 3, 3, 5), (), ()],
        {"padding": text("EXPLICIT"), "explicit_padding": ints(1, 1, 0, 0), "dimension_numbers": AttrValue(s=NHWC)},
        [(2, 9, 6, 5)],
    ),
    (
        "QuantizedConv2DWithBiasAndRelu",
        [(8, 28, 28, 3), (5, 5, 3, 16), (16,), (), (), (16,), (16,)],
        {**CONV, "padding": text("SAME")},
        [(8, 14, 14, 16), (16,), (16,)],
    ),
    (
        "QuantizedConv2DPerChannel",
        [(8, 28, 28, 3), (5, 5, 3, 16), (), (), (), ()],
        {**CONV, "padding": text("SAME")},
        [(8, 14, 14, 16), (), ()],
    ),
    ("XlaEinsum", [(3, 4), (4, 5)], {"equation": AttrValue(s=b"ab,bc->ca")}, [(5, 3)]),
    ("XlaKeyValueSort", [(4, 8), (4, 8)], {"K": type_attr(), "V": type_attr()}, [(4, 8), (4, 8)]),
]


@pytest.mark.parametrize(("op", "inputs", "attrs", "outputs"), CASES)
def test_shapes(op: str, inputs: list[Any], attrs: Any, outputs: list[Shape | None]) -> None:
    assert inferred(op, inputs, **attrs) == outputs


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "said"),
    [
        ("MatMul", [(3, 4), (5, 4)], F, "dimensions must be equal, but are 4 and 5"),
        ("AddV2", [(3, 4), (5, 4)], F, "dimensions must be equal, but are 3 and 5"),
        ("Reshape", [(3, 4), vector(5, -1)], F, "12 elements cannot be reshaped"),
        ("ConcatV2", [(3, 4), (2, 4), scalar(1)], {**F, "N": number(2)}, "must be equal, but are 3 and 2"),
        ("BiasAdd", [(3, 4), (5,)], F, "but are 4 and 5"),
        ("Squeeze", [(3, 4)], {**F, "squeeze_dims": ints(1)}, "expected a dimension of 1, got 4"),
        ("Slice", [(3, 4), vector(1, 1), vector(3, 2)], F, "does not fit dimension 0"),
        ("XlaDotV2", [(3,), (3, 4)], {"dimension_numbers": AttrValue(s=b"\n\1\1\x12\1\0")}, "lack the dimensions"),
        ("UniformQuantizedConvolution", [(2, 3, 9, 8), (5, 3, 3)], {}, "lack the dimensions of the convolution"),
        (
            "UniformQuantizedConvolution",
            [(2, 3, 9, 8), (5, 3, 3, 3)],
            {"window_strides": ints(2)},
            "attribute window_strides must list 2 numbers, not 1",
        ),
        ("XlaPad", [(3, 8), (), vector(1), vector(0), vector(2)], F, "as many dimensions as the padding"),
        ("XlaReduce", [(3, 4), ()], {**F, "dimensions_to_reduce": ints(2)}, "lacks a dimension"),
        (
            "XlaGather",
            [(8, 9), (6, 1), vector(1, 9)],
            {"dimension_numbers": AttrValue(s=b"\n\1\4\x12\1\0 \1")},
            "do not have the dimensions of the output",
        ),
        ("Pad", [(3, 4), vector(1, 1, 0, 2)], F, "paddings must have two dimensions"),
        ("Slice", [(3, 4), vector(1), vector(3, 2)], F, "input 1 must have 2 elements, not 1"),
        (
            "StridedSliceGrad",
            [vector(3), vector(1), vector(3, 2), vector(1), (2,)],
            F,
            "input 2 must have 1 element, not 2",
        ),
        ("ResizeBilinear", [(2, 8, 8, 3), vector(4)], F, "input 1 must have 2 elements, not 1"),
        ("QueueDequeueManyV2", [(), vector()], {}, "input 1 must have 1 element, not 0"),
        ("BatchToSpaceND", [(4, 2, 2), vector(2), vector(0)], F, "1 block sizes need 2 paddings or crops, not 1"),
        ("ExtractImagePatches", [(2, 8, 8, 3)], {"ksizes": ints(1)}, "attribute ksizes must list 4 numbers, not 1"),
    ],
)
def test_what_tensorflow_refuses_is_refused(op: str, inputs: list[Any], attrs: Any, said: str) -> None:
    (note,) = graph_of(op, inputs, **attrs).notes
    assert note.startswith(f"1 op refuses its inputs, first 'op' ({op}): ")
    assert said in note


@pytest.mark.parametrize(("long", "short"), [((5000,), (1,)), ((80, 80), (80, 80))])
def test_elements_beside_a_part_that_is_too_long_to_follow_are_not_taken_for_all(long: Shape, short: Shape) -> None:
    made = Rows()
    made.add("long", "Placeholder", dtype=type_attr(INT32), shape=shape_attr(*long))
    made.add("seven", "Const", dtype=type_attr(INT32), value=vector(7))
    made.add("size", "Const", dtype=type_attr(INT32), value=vector(*short))
    made.add("axis", "Const", dtype=type_attr(INT32), value=scalar(0))
    made.add("short", "Reshape", ["seven" if short == (1,) else "long", "size"], T=type_attr(INT32))
    made.add("joined", "ConcatV2", ["long", "short", "axis"], T=type_attr(INT32), N=number(2))
    made.add("flat", "Reshape", ["joined", "all"], T=type_attr(INT32))
    made.add("all", "Const", dtype=type_attr(INT32), value=vector(-1))
    made.add("largest", "Max", ["flat", "axis"], T=type_attr(INT32))
    made.add("sizes", "Pack", ["largest"], T=type_attr(INT32), N=number(1))
    made.add("filled", "Fill", ["sizes", "axis"], T=type_attr(INT32))
    made.add("end", "Identity", ["filled"], T=type_attr(INT32))
    got = with_shapes(made.built(producer=1882))
    assert got.tensor_shape[got.tensor_ptr[got.row("filled")]] == (-1,)


def test_every_row_is_of_an_op_that_tensorflow_has() -> None:
    """A name that is misspelt would never be found."""
    unknown = [op for op in {*RULES, *VALUES, *PASSING} if registry.facts(op) is None]
    assert sorted(unknown) == []


def test_a_dataset_is_a_single_variant() -> None:
    made = {op: row.rule for op, row in RULES.items() if op.endswith(("Dataset", "DatasetV2", "DatasetV3"))}
    del made["ReduceDataset"]  # hands on what a dataset comes to
    assert len(made) > 100
    assert set(made.values()) == {elementwise.scalar}


def test_bucketize_keeps_the_shape() -> None:
    assert inferred("Bucketize", [(3, -1)], T=type_attr(FLOAT)) == [(3, -1)]


def test_gradients_of_limits_have_the_shapes_of_the_limits() -> None:
    shapes: list[Any] = [(5, 16), (5, 16), (16,), (16,)]
    op = "FakeQuantWithMinMaxVarsPerChannelGradient"
    assert inferred(op, shapes) == [(5, 16), (16,), (16,)]


def test_sparse_tensors_that_are_joined_have_all_entries() -> None:
    parts: list[Any] = [(4, 2), (3, 2), (4,), (3,), (2,), (2,)]
    assert inferred("SparseConcat", parts, N=number(2), T=type_attr(FLOAT)) == [(7, 2), (7,), (2,)]
    parts[0] = (-1, 2)
    assert inferred("SparseConcat", parts, N=number(2), T=type_attr(FLOAT)) == [(4, 2), (4,), (2,)], "a batch of one"


SPARSE: list[Any] = [(9, 2), (9,), vector(4, 6)]
LISTED = AttrValue()
LISTED.list.s.extend([b"FIRST_DIM_SIZE", b"VALUE_ROWIDS"])


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "shapes"),
    [
        ("NotEqual", [(-1, 5), ()], {**F, "incompatible_shape_error": AttrValue(b=False)}, [(1, 5)]),
        ("NotEqual", [(3, 5), (3, 4)], {**F, "incompatible_shape_error": AttrValue(b=False)}, [None]),
        ("SparseReduceSum", [*SPARSE, vector(1)], F, [(4,)]),
        ("SparseReduceSum", [*SPARSE, vector(-2)], {**F, "keep_dims": true()}, [(1, 6)]),
        ("SparseDenseCwiseMul", [*SPARSE, (4, 6)], F, [(9,)]),
        ("SparseSegmentSumGradV2", [(3, 8), (9,), (9,), ()], F, [(-1, 8), (-1,)]),
        ("RaggedBincount", [(4,), (9,), scalar(5), (0,)], F, [(3, 5)]),
        ("UnravelIndex", [(7,), (3,)], F, [(3, 7)]),
        ("Fingerprint", [(4, 9), ()], F, [(4, 8)]),
        ("ApproxTopK", [(3, 20)], {**F, "k": number(5)}, [(3, 5), (3, 5)]),
        ("QuantizedReshape", [(4, 6), vector(3, -1), (), ()], F, [(3, 8), (), ()]),
        ("QuantizedConcat", [scalar(1), (4, 6), (4, 2), *[()] * 4], {**F, "N": number(2)}, [(4, 8), (), ()]),
        ("QuantizeV2", [(4, 6), (), ()], {}, [(4, 6), (), ()]),
        ("QuantizeV2", [(4, 6), (6,), (6,)], {"axis": number(1)}, [(4, 6), (6,), (6,)]),
        ("QuantizeAndDequantizeV4Grad", [(4, 6), (4, 6), (6,), (6,)], F, [(4, 6), (6,), (6,)]),
        (
            "QuantizedDepthwiseConv2D",
            [(2, 9, 9, 3), (3, 3, 3, 2), *[()] * 4],
            {**CONV, "padding": text("SAME")},
            [(2, 5, 5, 6), (), ()],
        ),
        (
            "FusedPadConv2D",
            [(2, 8, 8, 3), (4, 2), (3, 3, 3, 4)],
            {**CONV, "padding": text("VALID")},
            [(-1, -1, -1, 4)],
        ),
        ("BandedTriangularSolve", [(7, 1, 2, 5), (3, 5, 4)], F, [(7, 3, 5, 4)]),
        ("AudioSpectrogram", [(900, 2)], {"window_size": number(200), "stride": number(100)}, [(2, 8, 129)]),
        ("Mfcc", [(2, 8, 129), ()], {}, [(2, 8, 13)]),
        ("GenerateBoundingBoxProposals", [(2, 8, 8, 3)], {"post_nms_topn": number(50)}, [(2, 50, 4), (2, 50)]),
        ("DecodePaddedRaw", [(7,), scalar(8)], {"out_type": type_attr(FLOAT)}, [(7, 2)]),
        ("StringNGrams", [(9,), (4,)], {}, [(-1,), (4,)]),
        (
            "RaggedTensorToTensor",
            [vector(-1, 7, 5), (9, 5), (), (), (9,)],
            {**F, "row_partition_types": LISTED},
            [(-1, 7, 5)],
        ),
        ("SetSize", SPARSE, F, [(4,)]),
        ("DenseToDenseSetOperation", [(4, 6), (4, 2)], F, [(-1, 2), (-1,), (2,)]),
        ("EditDistance", [*SPARSE, *SPARSE], F, [(4,)]),
        ("CollectiveGather", [(3, 4)], {**F, "group_size": number(2)}, [(6, 4)]),
        ("StatelessRandomPoisson", [vector(3, 2), (2,), (2,)], F, [(3, 2)]),
    ],
)
def test_ops_of_sparse_and_ragged_tensors_sounds_and_sets(
    op: str, inputs: list[Any], attrs: Any, shapes: list[Shape | None]
) -> None:
    assert inferred(op, inputs, **attrs)[: len(shapes)] == shapes


def types(*listed: int) -> AttrValue:
    made = AttrValue()
    made.list.type.extend(listed)
    return made


def shapes(*listed: tuple[int, ...]) -> AttrValue:
    made = AttrValue()
    for sides in listed:
        made.list.shape.add().CopyFrom(shape_attr(*sides).shape)
    return made


BLOCK: list[Any] = [(), (6, 4, 5), (4, 8), (4, 8), (13, 32), (8,), (8,), (8,), (32,)]
SEQUENCES = {
    **dict.fromkeys(("Ncontext_sparse", "Nfeature_list_sparse", "Nfeature_list_dense"), number(1)),
    "Tcontext_dense": types(FLOAT),
    "feature_list_dense_types": types(FLOAT),
    "context_ragged_split_types": types(FLOAT),
    "feature_list_ragged_split_types": types(FLOAT),
    "context_sparse_types": types(FLOAT),
    "context_dense_shapes": shapes((3,)),
    "context_ragged_value_types": types(FLOAT),
    "feature_list_sparse_types": types(FLOAT),
    "feature_list_dense_shapes": shapes((4,)),
    "feature_list_ragged_value_types": types(FLOAT),
}
OF_BATCH = [(-1, 2), (-1,), (2,), (5, 3), (-1,), (6,), (-1, 3), (-1,), (3,), (5, -1, 4), (5,), (-1,), (6,), (-1,)]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "shapes"),
    [
        ("BlockLSTMGrad", BLOCK, F, [one or () for one in BLOCK[1:]]),
        ("LSTMBlockCellGrad", [(4, 3), (4, 5)], F, [(4, 5), (4, 20), (5,), (5,), (5,)]),
        ("GRUBlockCellGrad", [(4, 3), (4, 5), (8, 10)], F, [(4, 3), (4, 5), (4, 5), (4, 10)]),
        ("CudnnRNNParamsToCanonical", [(), (), (), (9,)], {**F, "num_params": number(1)}, [(-1, -1), (-1,)]),
        ("FFTND", [(4, 8), vector(8), vector(1)], {}, [(4, 8)]),
        ("ParseSequenceExampleV2", [(5,)], SEQUENCES, OF_BATCH),
        (
            "ParseSingleSequenceExample",
            [()],
            {name: one for name, one in SEQUENCES.items() if "ragged" not in name},
            [(-1, 1), (-1,), (1,), (3,), (-1, 2), (-1,), (2,), (-1, 4)],
        ),
        ("DecodeProtoV2", [(4,)], {"field_names": LISTED, "output_types": types(FLOAT, FLOAT)}, [(4, 2), (4, -1)]),
        ("GenerateVocabRemapping", [(), ()], {"num_new_vocab": number(6)}, [(6,), ()]),
        ("LoadAndRemapMatrix", [()], {"num_rows": number(5), "num_cols": number(4)}, [(5, 4)]),
        ("RaggedRange", [(7,), (), (7,)], {}, [(8,), (-1,)]),
        ("RaggedRange", [(), (), ()], {}, [(2,), (-1,)]),
        (
            "RaggedGather",
            [(5,), (9, 4), (3, 2)],
            {"PARAMS_RAGGED_RANK": number(1), "OUTPUT_RAGGED_RANK": number(2), "Tsplits": type_attr()},
            [(4,), (7,), (-1, 4)],
        ),
        ("RaggedTensorToSparse", [(5,), (7, 3)], {"RAGGED_RANK": number(1)}, [(21, 3), (21,), (3,)]),
        ("RaggedFillEmptyRows", [(7,), (7,), scalar(5), ()], F, [(-1,), (-1,), (5,), (7,)]),
        (
            "RaggedCross",
            [(7,), (6,), (5, 2)],
            {"ragged_values_types": types(FLOAT), "dense_types": types(FLOAT)},
            [(-1,), (6,)],
        ),
        ("SparseFillEmptyRowsGrad", [(7,), (9,)], F, [(7,), ()]),
        ("SparseAddGrad", [(9,), (4, 2), (6, 2), (9, 2)], F, [(4,), (6,)]),
        ("SparseSliceGrad", [(9,), (11, 2), (2,), (9, 2)], F, [(11,)]),
        ("SparseBincount", [(7, 2), (7,), vector(3, 4), scalar(6), (7,)], F, [(3, 6)]),
        ("SobolSample", [scalar(3), scalar(4), ()], {}, [(4, 3)]),
        ("Unbatch", [(4, 3), (4, 3), ()], F, [(-1, 3)]),
        ("CollectiveGatherV2", [(2, 3), scalar(4)], F, [(8, 3)]),
        ("CollectiveReduceScatterV2", [(8, 3), scalar(4)], F, [(2, 3)]),
        ("ExtractVolumePatches", [(2, 8, 9, 7, 3)],
         {**F, "ksizes": ints(1, 2, 3, 2, 1), "strides": ints(1, 2, 2, 1, 1), "padding": text("VALID")},
         [(2, 4, 4, 6, 36)]),
        ("MatrixSetDiagV3", [(4, 6, 6), (4, 6), ()], F, [(4, 6, 6)]),
        ("RandomIndexShuffle", [(), (5, 3), ()], {}, [(5,)]),
    ],
)  # fmt: skip
def test_gradients_of_cells_sequences_and_ragged_tensors(
    op: str, inputs: list[Any], attrs: Any, shapes: list[Shape | None]
) -> None:
    assert inferred(op, inputs, **attrs)[: len(shapes)] == shapes


def test_sparse_matrices_know_their_dense_shape() -> None:
    """As `tf.linalg.experimental.sparse` has them: a batch of 7 matrices of 4 rows and 6 columns."""
    made = Rows()
    made.add("dense", "Placeholder", dtype=type_attr(), shape=shape_attr(7, 4, 6))
    made.add("places", "Placeholder", dtype=type_attr(), shape=shape_attr(9, 3))
    made.add("right", "Placeholder", dtype=type_attr(), shape=shape_attr(7, 5, 6))
    made.add("a", "DenseToCSRSparseMatrix", ["dense", "places"], T=type_attr())
    made.add("turned", "SparseMatrixTranspose", ["a"], type=type_attr())
    made.add("kept", "SparseMatrixSoftmax", ["a"], type=type_attr())
    made.add("square", "SparseMatrixSparseMatMul", ["kept", "turned"], type=type_attr())
    made.add("sum", "SparseMatrixAdd", ["square", "square", "zero", "zero"], T=type_attr())
    found = {
        "product": made.add("product", "SparseMatrixMatMul", ["a", "right"], T=type_attr(), transpose_b=true()),
        "back": made.add("back", "CSRSparseMatrixToDense", ["sum"], type=type_attr()),
        "entries": made.add("entries", "CSRSparseMatrixToSparseTensor", ["turned"], type=type_attr()),
        "parts": made.add("parts", "CSRSparseMatrixComponents", ["turned", "zero"], type=type_attr()),
        "number": made.add("number", "SparseMatrixNNZ", ["a"]),
        "order": made.add("order", "SparseMatrixOrderingAMD", ["square"]),
    }
    made.add("zero", "Const", dtype=type_attr(INT32), value=scalar(0))
    for name in found:
        made.add(f"end {name}".replace(" ", "_"), "Identity", [name], T=type_attr())
        made.add(f"after_{name}", "Identity", [f"end_{name}"], T=type_attr())
    got = with_shapes(made.built(producer=1882))
    assert {name: got.tensor_shape[got.tensor_ptr[got.row(name)]] for name in found} == {
        "product": (7, 4, 5),
        "back": (7, 4, 4),
        "entries": (-1, 3),
        "parts": (7,),
        "number": (7,),
        "order": (7, 4),
    }


def test_the_values_of_a_table_of_tensors_have_its_shape() -> None:
    made = Rows()
    made.add("table", "MutableHashTableOfTensorsV2", value_shape=shape_attr(2), value_dtype=type_attr())
    made.add("keys", "Placeholder", dtype=type_attr(), shape=shape_attr(7))
    made.add("found", "LookupTableFindV2", ["table", "keys", "keys"], Tin=type_attr(), Tout=type_attr())
    made.add("end", "Identity", ["found"], T=type_attr())
    got = with_shapes(made.built(producer=1882))
    assert got.tensor_shape[got.tensor_ptr[got.row("found")]] == (7, 2)


@pytest.mark.parametrize(("default", "found"), [((), (7,)), ((2,), None), ((7,), None)])
def test_a_captured_table_has_a_value_for_each_key_if_its_default_is_a_single_one(
    default: tuple[int, ...], found: tuple[int, ...] | None
) -> None:
    """A default of as many values as keys may be one for each key, or one of that length."""
    made = Rows()
    made.add("table", "Placeholder", dtype=type_attr(20), shape=shape_attr())
    made.add("keys", "Placeholder", dtype=type_attr(), shape=shape_attr(7))
    made.add("default", "Placeholder", dtype=type_attr(), shape=shape_attr(*default))
    made.add("found", "LookupTableFindV2", ["table", "keys", "default"], Tin=type_attr(), Tout=type_attr())
    made.add("end", "Identity", ["found"], T=type_attr())
    got = with_shapes(made.built(producer=1882))
    assert got.tensor_shape[got.tensor_ptr[got.row("found")]] == found


def test_a_shape_that_two_shapes_are_stretched_to_is_followed() -> None:
    made = Rows()
    made.add("a", "Const", dtype=type_attr(INT32), value=vector(7, 1, 3))
    made.add("b", "Const", dtype=type_attr(INT32), value=vector(5, 1))
    made.add("both", "BroadcastArgs", ["a", "b"], T=type_attr(INT32))
    made.add("zero", "Const", dtype=type_attr(INT32), value=scalar(0))
    made.add("filled", "Fill", ["both", "zero"], T=type_attr(INT32), index_type=type_attr(INT32))
    made.add("end", "Identity", ["filled"], T=type_attr(INT32))
    got = with_shapes(made.built(producer=1882))
    assert got.tensor_shape[got.tensor_ptr[got.row("filled")]] == (7, 5, 3)


@pytest.mark.parametrize(("new", "rows"), [((8, 3), 8), ((-1, 3), 8), ((6, -1), 6)])
def test_the_shape_of_a_sparse_tensor_is_followed(new: tuple[int, ...], rows: int) -> None:
    made = Rows()
    made.add("indices", "Placeholder", dtype=type_attr(), shape=shape_attr(9, 2))
    made.add("values", "Placeholder", dtype=type_attr(), shape=shape_attr(9))
    made.add("old", "Const", dtype=type_attr(INT32), value=vector(4, 6))
    made.add("new", "Const", dtype=type_attr(INT32), value=vector(*new))
    made.add("reshaped", "SparseReshape", ["indices", "old", "new"])
    made.add("filled", "SparseFillEmptyRows", ["reshaped", "values", "reshaped:1", "values"], T=type_attr())
    made.add("end", "Identity", ["filled:2"], T=type_attr())
    got = with_shapes(made.built(producer=1882))
    assert got.tensor_shape[got.tensor_ptr[got.row("filled")] + 2] == (rows,)


@pytest.mark.parametrize(
    ("op", "flag", "shapes"), [("Svd", "compute_uv", [(0,), (0,)]), ("SelfAdjointEigV2", "compute_v", [(0,)])]
)
def test_vectors_that_are_not_computed_are_none_of_any_matrix(op: str, flag: str, shapes: list[Shape]) -> None:
    assert inferred(op, [], **{flag: AttrValue(b=False)}) == [None, *shapes]
