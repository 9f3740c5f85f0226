"""What kernels of scalar code take of a core, and that no work counts as free without its being written down."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.notation import read_notation
from simulator.costs.estimate import estimate
from simulator.costs.formulas.shaped_op import ShapedOp, nothing
from simulator.costs.roofline import time_of, work_of
from simulator.costs.rules import HOST, RULES, rule
from simulator.costs.table import FALLBACK, STATIC
from simulator.graph import ops, registry
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
        ("NonMaxSuppressionV3", [(1000, 4), (1000,)], [(100,)], 20, 500 + 36_000 + 13 * 5000),
        ("NonMaxSuppressionV3", [(1000, 4), (1000,)], [(-1,)], 20, 500 + 36_000 + 13 * 5000),
        ("NonMaxSuppressionV3", [(10, 4), (10,)], [(-1,)], 20, 500 + 360 + 13 * 50),
        ("DecodeRaw", [()], [(-1,)], 20, 500 + 70 * 110),
        ("DynamicPartition", [(1000,), (1000,)], [(-1,)] * 2, 20, 1_500 + 2_000),
        ("DynamicPartition", [(1000, 4), (1000,)], [(-1, 4)] * 2, 20, 1_500 + 43_000),
        ("SparseTensorDenseMatMul", [(100, 2), (100,), (2,), (8, 16)], [(100, 16)], 20, 500 + 3200 * 190 // 1000),
        ("SparseTensorDenseMatMul", [(100, 2), (100,), (2,), (8, 64)], [(100, 64)], 20, 500 + 12_800 * 950 // 1000),
        ("ScatterNd", [(100, 1), (100,), (1,)], [(100,)], 20, 900 + 2_500),
        ("ParseExampleV2", [(32,), ()], [(32, 1)] * 8, 20, (3_000 + 70 * 32 * 8 + 300 * 256 // 1000) // 20 + 1),
        ("RandomUniform", [(1,)], [(10_000,)], 20, (600 + 40_000) // 20),
        ("QueueDequeueV2", [()], [(3,)], 20, 1_600),
        ("QueueDequeueManyV2", [(), ()], [(32, 3), (32,)], 20, 700 + 107 * 32),
        ("IteratorGetNext", [()], [(32, 224, 224, 3)], 20, 8_000),
        ("Svd", [(300, 300)], [(300,), (300, 300), (300, 300)], 20, 500 + (12 * 22 * 27_000 + 95 * 72_000)),
        ("Svd", [(4, 300, 300)], [(4, 300), (4, 300, 300), (4, 300, 300)], 20, 125 + (12 * 22 * 27_000 + 95 * 72_000)),
        ("SelfAdjointEigV2", [(300, 300)], [(300,), (300, 300)], 20, 500 + 17 * 9 * 27_000 + 62 * 36_000),
        ("MatrixInverse", [(300, 300)], [(300, 300)], 20, 500 + 37 * 54_000),
        ("Cholesky", [(300, 300)], [(300, 300)], 20, 500 + 54 * 9_000),
        (
            "Cholesky",
            [(40, 300, 300)],
            [(40, 300, 300)],
            20,
            40 * (54 * 9_000) // 20 + 25,
        ),  # 20 cores share 40 matrices
    ],
)
def test_by_hand(op: str, inputs: Any, outputs: Any, cores: int, expected: int) -> None:
    assert took(op, inputs, outputs, cores=cores) == expected


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
    assert costs.run_ns[1:].tolist() == [[1000 + 28_000, -1]] * 2
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
    assert costs.run_ns[1].tolist() == [1000 + 36_500] * 2
    assert costs.run_ns[3].tolist() == [1000 + 14_500, GPU.launch_ns + 12]  # 8,000 and 4,000 bytes there
