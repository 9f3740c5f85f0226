"""What kernels of scalar code take of a core, and that no work counts as free without its being written down."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.notation import read_notation
from simulator.costs.estimate import estimate
from simulator.costs.formulas.shaped_op import ShapedOp, nothing
from simulator.costs.roofline import EXECUTOR_NS, time_of, work_of
from simulator.costs.rules import HOST, RULES, rule
from simulator.costs.table import FALLBACK, STATIC
from simulator.graph import ops, registry
from simulator.graph.dtypes import BFLOAT16, COMPLEX64, HALF, INT32, INT64
from simulator.graph.messages import AttrValue
from tests.costs.test_estimate import CPU, GPU, cluster
from tests.strategies import Rows, shapes_attr, type_attr

STRING, FLOAT = 7, 1
HOST_OPS = sorted({op for *_, names in HOST for op in names.split()})

# Ops that start a kernel and do nothing worth counting: a number or a handle.
SMALL = frozenset(
    {
        "CountUpTo", "OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone", "ResourceCountUpTo",
        "RngReadAndSkip", "RngSkip", "StatelessRandomGetAlg", "StatelessRandomGetKeyCounter",
        "StatelessRandomGetKeyCounterAlg",
    }
)  # fmt: skip


def took(op: str, inputs: Any, outputs: Any, dtype: int = FLOAT, cores: int = 1, **attrs: Any) -> int:
    sizes = [[0] * len(inputs), [0] * len(outputs)]
    types = (dtype,) * len(inputs), (dtype,) * len(outputs)
    one = ShapedOp(op, tuple(inputs), tuple(outputs), tuple(sizes[0]), tuple(sizes[1]), attrs, *types)
    return time_of(work_of(RULES[op], one), replace(CPU, cores=cores, launch_ns=0))


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "cores", "expected"),
    [
        ("DecodeJpeg", [()], [(224, 224, 3)], 20, 13_000 + 2_500 * 224 * 224 * 3 // 1000),
        ("DecodeJpeg", [()], [(-1, -1, 3)], 20, 13_000 + 2_500 * 500 * 375 * 3 // 1000),
        ("DecodeJpeg", [()], [None], 1, 13_000 + 2_500 * 500 * 375 * 3 // 1000),
        ("DecodePng", [()], [(-1, -1, 1)], 1, 10_000 + 6_900 * 500 * 375 // 1000),
        ("AdjustHue", [(10, 10, 3), ()], [(10, 10, 3)], 10, 300 * 2_600 // 10_000),  # all cores
        ("AsString", [(1000,)], [(1000,)], 20, 500 + 73_000),  # one core
        ("RegexReplace", [(100,), (), ()], [(100,)], 20, 800 + 44_000),
        ("LookupTableFindV2", [(), (1000,), ()], [(1000,)], 20, 100 + 53_000),
        ("TopKV2", [(4, 1000), ()], [(4, 10), (4, 10)], 20, (500 + 4 * 5_800 + 40 * 48) // 4),  # a row per core
        ("TopKV2", [(1000,), ()], [(10,), (10,)], 20, 500 + 5_800 + 480),
        ("GatherV2", [(50, 1), (1000,), ()], [(1000, 1)], 1, 3_800),
        ("GatherV2", [(1000, 50), (20,), ()], [(1000, 20)], 2, 20 * 3_800 // 2),
        ("GatherV2", [(10, 50, 8), (10, 20), ()], [(10, 20, 8)], 1, 200 * 38 // 10),
        ("Multinomial", [(100, 50), ()], [(100, 30)], 1, 600 + 36 * 500 + 7 * 6 * 3000),
        ("NonMaxSuppressionV3", [(1000, 4), (1000,)], [(100,)], 20, 500 + 36_000 + 13 * 5000),
        ("NonMaxSuppressionV3", [(1000, 4), (1000,)], [(-1,)], 20, 500 + 36_000 + 13 * 5000),
        ("NonMaxSuppressionV3", [(10, 4), (10,)], [(-1,)], 20, 500 + 360 + 13 * 50),
        ("DecodeRaw", [()], [(-1,)], 20, 500 + 70 * 110),
        ("DynamicPartition", [(1000,), (1000,)], [(-1,)] * 2, 20, 1_500 + 2_000),
        ("DynamicPartition", [(1000, 4), (1000,)], [(-1, 4)] * 2, 20, 1_500 + 43_000),
        ("SparseTensorDenseMatMul", [(100, 2), (100,), (2,), (8, 16)], [(100, 16)], 20, 500 + 3200 * 190 // 1000),
        ("SparseTensorDenseMatMul", [(100, 2), (100,), (2,), (8, 64)], [(100, 64)], 20, 500 + 12_800 * 950 // 1000),
        ("ScatterNd", [(100, 1), (100,), (1,)], [(100,)], 20, 900 + 2_500 + 75),
        ("ParseExampleV2", [(32,), ()], [(32, 1)] * 8, 20, (3_000 + 70 * 32 * 8 + 300 * 256 // 1000) // 20 + 1),
        ("RandomUniform", [(1,)], [(10_000,)], 20, (600 + 40_000) // 20),
        ("QueueDequeueV2", [()], [(3,)], 20, 1_600),
        ("QueueDequeueManyV2", [(), ()], [(32, 3), (32,)], 20, 700 + 107 * 32),
        ("IteratorGetNext", [()], [(32, 224, 224, 3)], 20, 8_000),
        ("Svd", [(300, 300)], [(300,), (300, 300), (300, 300)], 20, 750 + 5_400_000 + (12 * 22 * 27_000 + 95 * 72_000)),
        (
            "Svd",
            [(4, 300, 300)],
            [(4, 300), (4, 300, 300), (4, 300, 300)],
            20,
            125 + 250 + 5_400_000 + (12 * 22 * 27_000 + 95 * 72_000),  # each a thread's
        ),
        ("SelfAdjointEigV2", [(300, 300)], [(300,), (300, 300)], 20, 750 + 1_800_000 + 17 * 9 * 27_000 + 62 * 36_000),
        ("MatrixInverse", [(300, 300)], [(300, 300)], 20, 750 + 540_000 + 30 * 54_000),
        ("MatrixInverse", [(100, 2, 2)], [(100, 2, 2)], 1, 500 + 100 * (250 + 24) + 30 * 1_600 // 1000),  # calls
        ("Cholesky", [(300, 300)], [(300, 300)], 20, 750 + 180_000 + 45 * 9_000),
        ("Cholesky", [(40, 300, 300)], [(40, 300, 300)], 20, 25 + 2 * (250 + 180_000 + 45 * 9_000)),  # 20 cores
        ("MatrixTriangularSolve", [(100, 100), (100, 1)], [(100, 1)], 20, 750 + 1_000 + 120),
        ("Pow", [(1000,), (1000,)], [(1000,)], 1, 500 + 11_000),
        ("Pow", [(1000,), (1000,)], [(1000,)], 20, (500 + 11_000) // 20),
        ("FloorMod", [(1000,), (1000,)], [(1000,)], 1, 13_000),
        ("Softmax", [(50, 10)], [(50, 10)], 1, 500 + 200 + 50 * 19),
        ("SparseSoftmaxCrossEntropyWithLogits", [(50, 10), (50,)], [(50,), (50, 10)], 1, 500 + 2_050 + 50 * 45),
        ("LowerBound", [(1, 1000), (1, 50)], [(1, 50)], 1, 500 + 10 * 50 * 4_600 // 1000),  # ten comparisons
        ("UpperBound", [(8, 100), (8, 50)], [(8, 50)], 20, (500 + 7 * 400 * 4_600 // 1000) // 20),
        ("CumulativeLogsumexp", [(100,), ()], [(100,)], 20, 500 + 2_900),  # one row, one core
        ("CumulativeLogsumexp", [(20, 100), ()], [(20, 100)], 20, (500 + 58_000) // 20),
        ("UnsortedSegmentSum", [(50, 8), (50,), ()], [(9, 8)], 1, 500 + 560),
        ("SegmentMax", [(50, 8), (50,)], [(-1, 8)], 20, 500 + 100 + 48),
        ("SparseSegmentMean", [(90, 8), (50,), (50,)], [(-1, 8)], 20, 500 + 52 + 400),
        ("Dilation2D", [(1, 10, 10, 4), (3, 3, 4)], [(1, 10, 10, 4)], 20, 500 + 2 * 400 * 9 * 550 // 1000),
        ("Dilation2DBackpropFilter", [(1, 9, 9, 4), (3, 3, 4), (1, 9, 9, 4)], [(3, 3, 4)], 1, 501 + 18 * 324 * 7 // 10),
        ("ExtractImagePatches", [(1, 8, 8, 4)], [(1, 4, 4, 16)], 1, 501 + 256 * 18 // 10),  # four numbers at once
        ("ExtractImagePatches", [(1, 8, 8, 3)], [(1, 4, 4, 12)], 1, 500 + 192 * 6),
        ("ResizeBilinear", [(1, 5, 5, 64), (2,)], [(1, 10, 10, 64)], 20, 1_100 + 200 + 160 * 6_400 // 1000),
        ("CropAndResizeGradBoxes", [(2, 5, 5, 8), (1, 9, 9, 8)], [(2, 4)], 20, 1_100 + 50 * 4 + 34 * 40),
        ("SparseSegmentSumGrad", [(5, 8), (50,), (50,), ()], [(90, 8)], 20, 500 + 1_300 * 400 // 1000),
        ("ScatterAdd", [(90, 8), (50,), (50, 8)], [(90, 8)], 1, 500 + 20 * 50 + 11 * 40),
        ("ScatterNd", [(4, 25, 1), (4, 25), (1,)], [(100,)], 20, 900 + 2_500 + 75),  # each list of indices a row
        ("ResourceStridedSliceAssign", [(), (2,), (2,), (2,), (5, 20)], [], 1, 500 + 450),
        ("DynamicStitch", [(30,), (20,), (30, 2), (20, 2)], [(-1, 2)], 20, 700 + 50 * 3_800 // 1000),
        ("SparseSlice", [(100, 2), (100,), (2,), (2,), (2,)], [(-1, 2), (-1,), (2,)], 20, 1_000 + 530),
        ("DenseCountSparseOutput", [(10, 10), (0,)], [(-1, 2), (-1,), (2,)], 20, 1_000 + 3_600),
        ("ReverseSequence", [(5, 20, 8), (5,)], [(5, 20, 8)], 1, 500 + 1_100 + 1_600),
        ("InTopKV2", [(50, 10), (50,), ()], [(50,)], 20, 500 + 2_000),
    ],
)
def test_by_hand(op: str, inputs: Any, outputs: Any, cores: int, expected: int) -> None:
    assert took(op, inputs, outputs, cores=cores) == expected


def test_the_rest_of_a_division_of_floats_takes_the_c_library() -> None:
    numbers = [(1000,), (1000,)], [(1000,)]
    assert took("FloorMod", *numbers, dtype=3) == 1_800
    assert took("FloorMod", *numbers) == 13_000


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "dtype", "units_ps"),
    [
        ("Conv2DBackpropFilter", [(2, 9, 9, 8), (4,), (2, 9, 9, 4)], [(3, 3, 8, 4)], HALF, 2 * 648 * 9 * 8 * 3_600),
        (
            "DepthwiseConv2dNativeBackpropInput",
            [(4,), (3, 3, 8, 1), (1, 9, 9, 8)],
            [(1, 9, 9, 8)],
            HALF,
            2 * 648 * 9 * 470,
        ),
        ("MatMul", [(50, 40), (40, 30)], [(50, 30)], INT64, 2 * 50 * 40 * 30 * 155),
        ("BatchMatMulV2", [(5, 50, 40), (5, 40, 30)], [(5, 50, 30)], INT32, 2 * 5 * 50 * 40 * 30 * 50),
        ("Acos", [(1000,)], [(1000,)], BFLOAT16, 9_000_000),
        ("Cos", [(1000,)], [(1000,)], COMPLEX64, 29_000_000),
    ],
)
def test_a_number_format_without_vector_code_takes_its_time(
    op: str, inputs: Any, outputs: Any, dtype: int, units_ps: int
) -> None:
    """As gradients of filters in float16, which took as long as in float32; on a core they take hundreds of times."""
    assert took(op, inputs, outputs, dtype=dtype) == -(-units_ps // 1000)
    assert took(op, inputs, outputs) < units_ps // 10_000


@pytest.mark.parametrize(("steps", "expected"), [((1, 1), 0), ((1, 2), 43 * 320 // 10), ((-1, 1), 43 * 640 // 10)])
def test_a_slice_that_leaps_takes_its_numbers_one_by_one(steps: tuple[int, ...], expected: int) -> None:
    """A constant says how far; what no leap takes is copied, at next to nothing."""
    made, count = Rows(), 640 // abs(steps[1])
    made.add("x", "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr((10, 64)))
    for name, numbers in (("begin", (0, 0)), ("end", (10, 64)), ("steps", steps)):
        attr = AttrValue()
        attr.tensor.dtype = INT32
        attr.tensor.int_val.extend(numbers)
        attr.tensor.tensor_shape.dim.add(size=2)
        made.add(name, "Const", dtype=type_attr(INT32), value=attr, _output_shapes=shapes_attr((2,)))
    shape = shapes_attr((10, count // 10))
    made.add("y", "StridedSlice", ["x", "begin", "end", "steps"], T=type_attr(), _output_shapes=shape)
    graph = made.built()
    ns = int(estimate(graph, cluster(replace(CPU, cores=1, launch_ns=0))).run_ns[graph.row("y"), 0])
    assert expected <= ns <= expected + 1 + count * 4 * 2 * 10**9 // CPU.bytes_per_s + EXECUTOR_NS


def test_an_update_of_rows_takes_time_by_its_indices_wherever_they_stand() -> None:
    """The indices are the vector of integers, and the gradient is before it; a step count is no vector."""

    def took_by(op: str, inputs: Any, types: Any) -> int:
        sizes = (0,) * len(inputs)
        one = ShapedOp(op, tuple(inputs), (), sizes, (), {}, types, ())
        return time_of(work_of(RULES[op], one), replace(CPU, cores=1, launch_ns=0))

    var, grad, rows = (90, 8), (50, 8), (50,)
    momentum = took_by("SparseApplyMomentum", [var, var, (), grad, rows, ()], (1, 1, 1, 1, 3, 1))
    assert momentum == 1_000 + 50 * 40 + 400 * 4
    dual = took_by(
        "ResourceSparseApplyAdagradDA", [(), (), (), grad, rows, (), (), (), ()], (20, 20, 20, 1, 9, 1, 1, 1, 9)
    )
    assert dual == 1_000 + 50 * 120 + 400 * 5


def test_strings_take_longer_to_look_up_than_numbers() -> None:
    assert took("Unique", [(1000,)], [None, (1000,)]) == 500 + 14_000
    assert took("Unique", [(1000,)], [None, (1000,)], STRING) == 500 + 36_000


def test_attributes_count() -> None:
    images = [(), (64, 10, 10, 3)]
    assert took("ImageSummary", images, [()]) == 10_000 + 60 * 3 * 300
    assert took("ImageSummary", images, [()], max_images=AttrValue(i=8)) == 10_000 + 60 * 8 * 300
    wide = took("CTCBeamSearchDecoder", [(10, 1, 50)], [None])
    assert took("CTCBeamSearchDecoder", [(10, 1, 50)], [None], beam_width=AttrValue(i=10)) < wide


@given(st.sampled_from(HOST_OPS), st.integers(1, 300), st.integers(1, 5), st.integers(1, 128), st.integers(1, 128))
def test_more_takes_longer_and_more_cores_never_do(op: str, rows: int, times: int, cores: int, more: int) -> None:
    few, many = ([(size, 4)] * 6 for size in (rows, rows * times))
    assert took(op, few, few) <= took(op, many, many)
    assert took(op, few, few, cores=cores + more) <= took(op, few, few, cores=cores)
    assert took(op, few, few) <= took(op, few, few, cores=cores) * cores


def test_each_row_is_of_ops_that_a_cpu_has_and_that_have_a_category() -> None:
    listed = [op for *_, names in HOST for op in names.split()]
    assert len(listed) == len(set(listed))
    for op in listed:
        facts = registry.facts(op)
        assert facts is not None, op
        if facts.kernels:
            assert {"CPU", "DEFAULT"} & {kernel.device_type for kernel in facts.kernels}, op
        assert RULES[op].launches, op


def test_what_starts_a_kernel_and_costs_nothing_else_is_written_down() -> None:
    free = {op for op, found in RULES.items() if found.launches and free_of_work(op)}
    assert free == SMALL


def free_of_work(op: str) -> bool:
    found = RULES[op]
    return found.flops is nothing and found.moved is nothing and found.core_ps is nothing


def test_strings_are_never_free() -> None:
    """Strings have no size: a kernel on nothing else costs nothing unless a core's time is known."""
    moved = {
        "MergeV2Checkpoints", "ShardedFilename", "ShardedFilespec",  # the names of checkpoints' files
    }  # fmt: skip
    for op, found in RULES.items():
        facts = registry.facts(op)
        if facts is None or not found.launches or found.flops is not nothing or found.core_ps is not nothing:
            continue
        typed = [argument.dtype for argument in (*facts.inputs, *facts.outputs)]
        if typed and all(dtype == STRING for dtype in typed):
            assert op in moved, op


def test_one_gets_a_note_for_what_is_assumed() -> None:
    made = Rows()
    made.add("file", "Placeholder", dtype=type_attr(STRING), _output_shapes=shapes_attr(()))
    made.add("image", "DecodeJpeg", ["file"], _output_shapes=shapes_attr((-1, -1, 3)))
    made.add("sized", "DecodeJpeg", ["file"], _output_shapes=shapes_attr((8, 8, 3)))
    made.add("files", "Placeholder", dtype=type_attr(STRING), _output_shapes=shapes_attr((100,)))
    made.add("lower", "StringLower", ["files"], _output_shapes=shapes_attr((100,)))
    made.add("lower_one", "StringLower", ["file"], _output_shapes=shapes_attr(()))
    notes = estimate(made.built(), cluster(CPU, GPU)).notes
    assert any("images of 500 x 375 are assumed for 1: DecodeJpeg 1" in note for note in notes)
    assert any("strings of 16 bytes are assumed for 1: StringLower 1" in note for note in notes)


def test_python_is_named_and_its_call_priced() -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), _output_shapes=shapes_attr(()))
    for name in ("reader", "writer"):
        made.add(name, "PyFunc", ["x"], _output_shapes=shapes_attr(()))
    costs = estimate(made.built(), cluster(CPU, GPU))
    assert costs.run_ns[1:].tolist() == [[EXECUTOR_NS + 28_000, -1]] * 2
    assert costs.source.tolist() == [STATIC, FALLBACK, FALLBACK]
    assert any("PyFunc 2" in note and "reader, writer" in note and "--costs" in note for note in costs.notes)
    assert not any("fallback cost" in note for note in costs.notes)


def test_a_pipeline_that_runs_within_a_step_is_no_description() -> None:
    for op in ("ReduceDataset", "DatasetToTFRecord", "DatasetToSingleElement"):
        found = rule(op)
        assert found is not None
        assert found.opaque
        assert ops.known(op)


def test_a_decoded_image_takes_a_millisecond_on_any_processor() -> None:
    made = Rows()
    made.add("file", "Placeholder", dtype=type_attr(STRING), _output_shapes=shapes_attr(()))
    made.add("image", "DecodeJpeg", ["file"], _output_shapes=shapes_attr((-1, -1, 3)))
    for text in ("1cpu", "4cpu", "worker=1x32cpu"):
        on = read_notation(text)
        assert set(estimate(made.built(), on).run_ns[1].tolist()) == {130 + 1_419_250}


def test_on_a_gpu_a_scalar_kernel_in_host_memory_takes_a_core_of_the_host() -> None:
    made = Rows()
    for name, dtype in (("words", STRING), ("numbers", 9)):
        made.add(name, "Placeholder", dtype=type_attr(dtype), _output_shapes=shapes_attr((1000,)))
        shapes = shapes_attr((-1,), (1000,))
        made.add(f"{name}_once", "Unique", [name], T=type_attr(dtype), out_idx=type_attr(3), _output_shapes=shapes)
    costs = estimate(made.built(), cluster(CPU, GPU))
    assert costs.run_ns[1].tolist() == [EXECUTOR_NS + 36_500] * 2
    assert costs.run_ns[3].tolist() == [EXECUTOR_NS + 14_500, GPU.launch_ns + 12]  # 8,000 and 4,000 bytes there
