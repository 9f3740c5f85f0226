"""Work and bytes per op, by cases that are worked by hand."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import pytest

from simulator.costs.formulas.shaped_op import ShapedOp
from simulator.costs.rules import CATEGORIES, OTHER, RULES, category, rule
from simulator.graph import ops
from simulator.graph.messages import AttrValue

SIZE = 4  # float32
Shapes: TypeAlias = Sequence[tuple[int, ...] | None]


def instance(op: str, inputs: Shapes, outputs: Shapes, **attrs: Any) -> ShapedOp:
    sizes = [[0 if shape is None else SIZE * prod(shape) for shape in shapes] for shapes in (inputs, outputs)]
    return ShapedOp(op, tuple(inputs), tuple(outputs), tuple(sizes[0]), tuple(sizes[1]), attrs)


def flops(op: str, inputs: Shapes, outputs: Shapes, **attrs: Any) -> int:
    return RULES[op].flops(instance(op, inputs, outputs, **attrs))


def moved(op: str, inputs: Shapes, outputs: Shapes, **attrs: Any) -> int:
    return RULES[op].moved(instance(op, inputs, outputs, **attrs))


def numbers(*values: int) -> Any:
    attr = AttrValue()
    attr.list.i.extend(values)
    return attr


TRUE = AttrValue(b=True)
FALSE = AttrValue(b=False)


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "attrs", "expected"),
    [
        ("MatMul", [(5, 7), (7, 11)], [(5, 11)], {}, 2 * 5 * 7 * 11),
        ("MatMul", [(7, 5), (11, 7)], [(5, 11)], {"transpose_a": TRUE, "transpose_b": TRUE}, 2 * 5 * 7 * 11),
        ("MatMul", [(5, -1), (7, 11)], [(5, 11)], {}, 2 * 5 * 7 * 11),  # the inner dimension is said once
        ("MatMul", [(5, 6), (7, 11)], [(5, 11)], {}, 0),  # contradictory
        ("MatMul", [None, None], [None], {}, 2),
        ("BatchMatMulV2", [(3, 1, 5, 7), (4, 7, 2)], [(3, 4, 5, 2)], {}, 12 * 2 * 5 * 7 * 2),
        ("Einsum", [(2, 3, 4), (4, 5)], [(2, 3, 5)], {"equation": AttrValue(s=b"bij,jk->bik")}, 2 * 2 * 3 * 4 * 5),
        ("Einsum", [(2, 3, 4), (4, 5)], [(2, 3, 5)], {"equation": AttrValue(s=b"...j,jk->...k")}, 2 * 2 * 3 * 4 * 5),
        ("XlaDotV2", [(2, 4), (4, 5)], [(2, 5)], {"dimension_numbers": AttrValue(s=b"\n\1\1\x12\1\0")}, 2 * 2 * 4 * 5),
        # 3x3 over 8 channels to 16, on 4 images of 7x7: each output takes 72 multiplications and additions
        ("Conv2D", [(4, 14, 14, 8), (3, 3, 8, 16)], [(4, 7, 7, 16)], {}, 2 * 72 * 4 * 7 * 7 * 16),
        ("Conv2D", [(4, 8, 14, 14), (3, 3, 8, 16)], [(4, 16, 7, 7)], {}, 2 * 72 * 4 * 7 * 7 * 16),  # NCHW
        ("Conv2D", [(4, 7, 7, 8), (3, 3, 4, 16)], [(4, 7, 7, 16)], {}, 2 * 36 * 4 * 7 * 7 * 16),  # two groups
        ("Conv2DBackpropInput", [(4,), (3, 3, 8, 16), (4, 7, 7, 16)], [(4, 14, 14, 8)], {}, 2 * 72 * 4 * 7 * 7 * 16),
        ("Conv2DBackpropFilter", [(4, 14, 14, 8), (4,), (4, 7, 7, 16)], [(3, 3, 8, 16)], {}, 2 * 72 * 4 * 7 * 7 * 16),
        ("Conv3D", [(1, 4, 4, 4, 2), (3, 3, 3, 2, 5)], [(1, 4, 4, 4, 5)], {}, 2 * 54 * 64 * 5),
        ("QuantizedConv2DWithBias", [(4, 14, 14, 8), (3, 3, 8, 16)], [(4, 7, 7, 16), (16,)], {}, 2 * 72 * 4 * 49 * 16),
        ("QuantizedMatMulWithBias", [(5, 7), (7, 11), (11,)], [(5, 11), ()], {}, 2 * 5 * 7 * 11),
        ("UniformQuantizedDot", [(5, 7), (7, 11)], [(5, 11)], {}, 2 * 5 * 7 * 11),
        ("UniformQuantizedConvolution", [(4, 8, 14, 14), (16, 8, 3, 3)], [(4, 16, 7, 7)], {}, 2 * 72 * 4 * 49 * 16),
        ("XlaConvV2", [(4, 8, 14, 14), (16, 8, 3, 3)], [(4, 16, 7, 7)], {}, 0),  # it says no dimensions
        ("DepthwiseConv2dNative", [(4, 9, 9, 8), (3, 3, 8, 2)], [(4, 9, 9, 16)], {}, 2 * 9 * 4 * 81 * 16),
        ("Dilation2D", [(4, 9, 9, 8), (3, 3, 8)], [(4, 9, 9, 8)], {}, 2 * 9 * 4 * 81 * 8),
        ("Dilation2DBackpropInput", [(4, 9, 9, 8), (3, 3, 8), (4, 7, 7, 8)], [(4, 9, 9, 8)], {}, 2 * 9 * 4 * 49 * 8),
        ("MaxPool", [(1, 4, 4, 3)], [(1, 2, 2, 3)], {"ksize": numbers(1, 2, 2, 1)}, 12 * 3),
        ("MaxPoolV2", [(1, 4, 4, 3), (4,), (4,)], [(1, 2, 2, 3)], {}, 12 * 3),  # the window from the sizes
        ("Softmax", [(6, 10)], [(6, 10)], {}, 36 * 60 + 4 * 6),
        ("FusedBatchNormV3", [(2, 3, 3, 8), (8,)], [(2, 3, 3, 8)], {"is_training": FALSE}, 2 * 144),
        ("AddN", [(5, 5)] * 4, [(5, 5)], {}, 75),
        ("Mul", [(11, 1), (1, 13)], [None], {}, 143),  # what the inputs broadcast to
        ("Sum", [(11, 13), (1,)], [(11,)], {}, 143),
        ("Cholesky", [(2, 6, 6)], [(2, 6, 6)], {}, 2 * 72),
        ("MatrixDeterminant", [(6, 6)], [()], {}, 144),
        ("MatrixInverse", [(6, 6)], [(6, 6)], {}, 432),
        ("MatrixSolve", [(6, 6), (6, 2)], [(6, 2)], {}, 144 + 2 * 36 * 2),
        ("MatrixTriangularSolve", [(6, 6), (6, 2)], [(6, 2)], {}, 72),
        ("Qr", [(6, 3)], [(6, 3), (3, 3)], {}, 2 * (2 * 9 * (6 - 1))),
        ("Svd", [(6, 3)], [(3,), (6, 3), (3, 3)], {"compute_uv": FALSE}, 4 * 6 * 9 - 4 * 27 // 3),
        ("SelfAdjointEigV2", [(3, 3)], [(3,), (3, 3)], {}, 243),
        ("FFT", [(2, 8)], [(2, 8)], {}, 2 * 5 * 8 * 3),
        ("RFFT", [(2, 8), (1,)], [(2, 5)], {}, 2 * 5 * 8 * 3 // 2),
        ("RFFT", [(2, 100), (1,)], [(2, 4)], {}, 2 * 5 * 7 * 3 // 2),  # seven points, or six
        ("IRFFT", [(2, 65), (1,)], [(2, 8)], {}, 2 * 5 * 8 * 3 // 2),
        ("RFFT2D", [(2, 30, 40), (2,)], [(2, 8, 5)], {}, 2 * 5 * 72 * 7 // 2),
        ("RFFT", [(2, 8), (1,)], [(2, -1)], {}, 2 * 5 * 8 * 3 // 2),
        ("BiasAdd", [(2, 64, 7, 7), (64,)], [(2, 64, 7, 7)], {}, 2 * 64 * 7 * 7),  # NCHW: no broadcast of the last one
        ("Select", [(50,), (50, 3), (50, 3)], [(50, 3)], {}, 150),  # one condition per row
        ("Add", [(5, 1), (6,)], [None], {}, 30),  # what they broadcast to
        ("SparseAdd", [(50, 2), (50,), (2,), (60, 2), (60,), (2,), ()], [None, None, (2,)], {}, 2 * 120),  # not 50 x 60
        ("UnsortedSegmentSum", [(50, 3), (50,), ()], [(7, 3)], {}, 150),
        ("SegmentSum", [(50, 3), (50,)], [(-1, 3)], {}, 150),
        ("SparseSegmentMean", [(1000, 3), (50,), (50,)], [(7, 3)], {}, 2 * 150),
        ("SparseSegmentMeanGrad", [(7, 3), (50,), (50,), ()], [(1000, 3)], {}, 2 * 150),  # not each of 1,000
        ("LSTMBlockCell", [(2, 3), (2, 4), (2, 4), (7, 16)], [(2, 4)] * 7, {}, 2 * 2 * 7 * 16 + 201 * 8),
        ("CudnnRNN", [(5, 2, 3), (1, 2, 4), (1, 2, 4), (100,)], [(5, 2, 4)], {}, 2 * 5 * 2 * 100 + 201 * 5 * 8),
        ("ApplyGradientDescent", [(6, 7), (), (6, 7)], [(6, 7)], {}, 2 * 42),
        ("SparseApplyAdagrad", [(100, 7), (100, 7), (), (3, 7), (3,)], [(100, 7)], {}, 9 * 21),
    ],
)
def test_work(
    op: str,
    inputs: Shapes,
    outputs: Shapes,
    attrs: Mapping[str, Any],
    expected: int,
) -> None:
    assert flops(op, inputs, outputs, **attrs) == expected


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "elements"),
    [
        ("Add", [(5, 6), (6,)], [(5, 6)], 30 + 6 + 30),
        ("Reshape", [(5, 6), (2,)], [(6, 5)], 0),
        ("GatherV2", [(100, 9), (5,), ()], [(5, 9)], 2 * 45 + 5 + 1),  # not the 100 rows
        ("SparseSegmentSum", [(100, 9), (5,), (5,)], [(3, 9)], 5 * 9 + 3 * 9 + 5 + 5),
        ("SparseSegmentSum", [(100, 9), (5,), (5,)], [None], 5 * 9 + 5 + 5),  # of unknown rows
        ("SparseSegmentSumGrad", [(3, 9), (5,), (5,), ()], [(100, 9)], 5 * 9 + 100 * 9 + 5 + 5 + 1),
        ("ResourceStridedSliceAssign", [(), (2,), (2,), (2,), (5, 6)], [], 60),  # the value is the last input
        ("ResourceGather", [(), (5,)], [(5, 9)], 2 * 45 + 5),
        ("ScatterAdd", [(100, 7), (3,), (3, 7)], [(100, 7)], 3 + 3 * 21),
        ("Assign", [(6, 7), (6, 7)], [(6, 7)], 84),
        ("ApplyMomentum", [(6, 7), (6, 7), (), (6, 7), ()], [(6, 7)], 5 * 42),  # two slots read and written
        ("ResourceApplyAdam", [()] * 9 + [(6, 7)], [], 7 * 42),
        ("RFFT", [(2, 100), (1,)], [(2, 4)], 2 * 7 + 1 + 2 * 4),  # what is behind the asked length is not read
        ("IRFFT2D", [(2, 30, 21), (2,)], [(2, 6, 8)], 2 * 6 * 5 + 2 + 2 * 48),
        ("QueueEnqueueV2", [(), (6, 7)], [], 0),  # handed over
        ("QueueDequeueManyV2", [(), ()], [(32, 6)], 2 * 192),
        ("FusedBatchNormV3", [(2, 3, 3, 8)], [(2, 3, 3, 8)], 3 * 144),  # two passes to train
    ],
)
def test_bytes_moved(op: str, inputs: Shapes, outputs: Shapes, elements: int) -> None:
    assert moved(op, inputs, outputs) == SIZE * elements


def test_the_workspace_of_a_convolution_is_one_image_s_patches() -> None:
    patches = 7 * 7 * 3 * 3 * 8 * SIZE
    forward = instance("Conv2D", [(4, 14, 14, 8), (3, 3, 8, 16)], [(4, 7, 7, 16)])
    backward = instance("Conv2DBackpropFilter", [(4, 14, 14, 8), (4,), (4, 7, 7, 16)], [(3, 3, 8, 16)])
    assert RULES["Conv2D"].scratch(forward) == patches
    assert RULES["Conv2DBackpropFilter"].scratch(backward) == patches
    assert RULES["MatMul"].scratch(forward) == 0


def test_every_listed_op_is_one_of_tensorflow_s() -> None:
    assert [op for op in RULES if not ops.known(op)] == []


def test_every_category_is_used_and_named() -> None:
    assert {found.category for found in RULES.values()} == set(CATEGORIES)
    assert category("Conv2D") == "neural network"
    assert category("QueueDequeueManyV2") == "queue and synchronisation"
    assert category("NoSuchOp") == OTHER


def test_a_data_set_node_only_describes_a_pipeline() -> None:
    found = rule("ShuffleAndRepeatDatasetV2")
    assert found is not None
    assert not found.launches
    assert rule("NoSuchOp") is None


def test_no_formula_stumbles_over_missing_shapes() -> None:
    for op, found in RULES.items():
        for shapes in ((), (None,) * 3, ((-1, -1, -1, -1),) * 6, ((0,),) * 12, ((),)):
            nothing = (0,) * len(shapes)
            bare = ShapedOp(op, shapes, shapes, nothing, nothing, {})
            assert min(found.flops(bare), found.moved(bare), found.scratch(bare)) >= 0, (op, shapes)
