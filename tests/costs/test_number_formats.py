"""An op takes as long as its number format says: products on tensor cores, all else on plain units."""

from dataclasses import replace
from math import ceil, prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.chips import FITTED
from simulator.cluster.cluster import Device
from simulator.cluster.description import load_cluster
from simulator.cluster.models import find_model
from simulator.cluster.notation import read_notation
from simulator.cluster.peaks import FORMATS, Peaks, peak, read_peaks
from simulator.costs.estimate import estimate
from simulator.costs.formulas.shaped_op import ShapedOp
from simulator.costs.roofline import number_format, time_of, work_of
from simulator.costs.rules import RULES, Rule
from simulator.graph.dtypes import NAMES, SIZE
from tests.costs.test_estimate import CPU, GPU, cluster, device
from tests.strategies import Rows, shapes_attr, type_attr

TYPE = {name.removeprefix("DT_"): number for number, name in NAMES.items()}
MODELS = (
    "cpu", "dgx1-host", "dgx-a100-host", "hgx-host", "p100", "v100", "v100-16gb", "v100-sxm3", "t4", "a10", "l4",
    "a100-40gb", "a100", "h100", "h200", "b200",
)  # fmt: skip


def on(model: str) -> Any:
    found = find_model(model)
    return device(
        type=found.type,
        kind=model,
        flop_per_s=found.flop_per_s,
        bytes_per_s=found.bytes_per_s,
        launch_ns=0,
        peaks=found.peaks,
    )


def instance(op: str, shapes: tuple[tuple[int, ...], ...], name: str) -> ShapedOp:
    """As many inputs as shapes and one output, all of one type."""
    dtype = TYPE[name]
    sizes = tuple(SIZE[dtype] * prod(shape) for shape in shapes)
    types = (dtype,) * len(shapes)
    return ShapedOp(op, shapes, shapes[:1], sizes, sizes[:1], {}, types, types[:1])


def price(rule: Rule, of: ShapedOp, place: Device) -> int:
    return time_of(work_of(rule, of), place)


def by_format(op: str) -> bool:
    """Whether a CPU's core takes another time in some format, for which its kernel has no vector code."""
    names = ("COMPLEX128", "COMPLEX64", "DOUBLE", "FLOAT", "HALF")
    return len({RULES[op].core_ps(instance(op, ((64, 64),) * 5, name)) for name in names}) > 1


ROOFED = [op for op in sorted(RULES) if not by_format(op)]
SHAPES = st.lists(st.integers(1, 300), min_size=2, max_size=4).map(tuple)


@given(SHAPES, st.integers(1, 6), st.sampled_from(ROOFED), st.sampled_from(MODELS))
def test_wider_numbers_never_take_less_time(shape: tuple[int, ...], inputs: int, op: str, model: str) -> None:
    place = on(model)
    took = [
        price(RULES[op], instance(op, (shape,) * inputs, name), place)
        for name in ("COMPLEX128", "COMPLEX64", "FLOAT", "HALF")
    ]
    assert took == sorted(took, reverse=True)
    assert price(RULES[op], instance(op, (shape,) * inputs, "DOUBLE"), place) >= took[2]


def test_every_op_on_every_model_in_every_format() -> None:
    for op in ROOFED:
        for model in MODELS:
            took = [
                price(RULES[op], instance(op, ((64, 64),) * 5, name), on(model)) for name in ("DOUBLE", "FLOAT", "HALF")
            ]
            assert took == sorted(took, reverse=True), (op, model)


TENSOR_CORES = {("v100", "HALF"), ("t4", "HALF"), *(("a100", name) for name in ("DOUBLE", "FLOAT", "HALF", "BFLOAT16"))}


def product(name: str, side: int = 4096) -> Rows:
    made = Rows()
    attrs = {"_output_shapes": shapes_attr((side, side))}
    made.add("a", "Placeholder", dtype=type_attr(TYPE[name]), **attrs)
    made.add("c", "MatMul", ["a", "a"], T=type_attr(TYPE[name]), **attrs)
    made.add("d", "Mul", ["c", "c"], T=type_attr(TYPE[name]), **attrs)
    return made


@pytest.mark.parametrize(
    ("model", "name", "tera"),
    [
        ("a100", "DOUBLE", 19.5),
        ("a100", "FLOAT", 156),  # TF32
        ("a100", "HALF", 312),
        ("a100", "BFLOAT16", 312),
        ("a100", "COMPLEX64", 19.5 / 4),
        ("v100", "FLOAT", 15.7),
        ("v100", "HALF", 125),
        ("v100", "BFLOAT16", 15.7),
        ("t4", "HALF", 65),
        ("p100", "HALF", 10.6),
        ("cpu", "DOUBLE", 0.8),
        ("cpu", "HALF", 1.6),
        ("hgx-host", "BFLOAT16", 229.376),
    ],
)
def test_a_product_by_hand(model: str, name: str, tera: float) -> None:
    named = find_model(model)
    costs = estimate(product(name).built(), read_notation(f"1{model}") if named.type == "GPU" else cluster(on(model)))
    part, launch_ns, starts_ns = 1.0, 0, 0.0
    if (chip := named.chip) is not None:  # 32 x 32 tiles of 128 x 128, in many waves, of which half a one is lost
        waves, part, launch_ns = 32 * 32 / chip.multiprocessors, chip.products, named.launch_ns
        lost = 0.5 / waves
        if (model, name) in TENSOR_CORES:  # 32 x 16 tiles of 128 x 256, which load a quarter less
            waves /= 2
            lost = (ceil(waves) / waves if waves < 8 else 1 + 0.5 / waves) - 1
            part = chip.matrix_products({"FLOAT": "float32"}.get(name, name)) / (1 - FITTED.loading / 4)
            starts_ns = waves * (1 + lost) * FITTED.starting_ns * {"FLOAT": 2, "DOUBLE": 4}.get(name, 1)
        part /= 1 + lost
    assert costs.run_ns[1, -1] - launch_ns == pytest.approx(2 * 4096**3 / tera / part / 1e3 + starts_ns, abs=1)


def test_an_elementwise_op_moves_half_the_bytes_and_has_no_tensor_cores() -> None:
    single, half = (estimate(product(name).built(), read_notation("1a100")) for name in ("FLOAT", "HALF"))
    assert single.moved_bytes[2] == 2 * half.moved_bytes[2] == 12 * 4096**2
    heavy = RULES["Pow"]
    bare = replace(on("a100"), bytes_per_s=10**15)
    took = [price(heavy, instance("Pow", ((1000, 1000),), name), bare) for name in ("FLOAT", "HALF")]
    assert took == [-(-85 * 10**15 // int(19.5e12)), -(-85 * 10**15 // int(78e12))]


@pytest.mark.parametrize(
    ("op", "taken", "given_out", "expected"),
    [
        ("SparseMatMul", ("BFLOAT16", "FLOAT"), "FLOAT", "float32"),
        ("QuantizedMatMul", ("QUINT8", "QINT8", "FLOAT", "FLOAT"), "QINT32", "int8"),
        ("BatchMatMulV3", ("INT8", "INT8"), "INT32", "int8"),
        ("FusedBatchNormV3", ("HALF", "FLOAT", "FLOAT"), "HALF", "float32"),
        ("Cast", ("HALF",), "DOUBLE", "float64"),
        ("GatherV2", ("HALF", "INT64", "INT32"), "HALF", "float16"),
        ("Add", ("INT64", "INT64"), "INT64", "float32"),
        ("CudnnRNN", ("HALF",) * 4, "HALF", "float16"),
        ("RFFT", ("DOUBLE", "INT32"), "COMPLEX128", "float64"),
    ],
)
def test_the_widest_number_counts(op: str, taken: tuple[str, ...], given_out: str, expected: str) -> None:
    shapes = ((4, 4),) * len(taken)
    types = tuple(TYPE[name] for name in taken)
    one = ShapedOp(op, shapes, shapes[:1], (), (), {}, types, (TYPE[given_out],))
    assert number_format(RULES[op], one) == expected
    references = replace(one, input_types=tuple(dtype + 100 for dtype in types))
    assert number_format(RULES[op], references) == expected


def test_fourier_transforms_count_real_operations() -> None:
    shape = (1024,)
    signal = instance("FFT", (shape,), "COMPLEX64")
    flops = RULES["FFT"].flops(signal)
    slow = device(flop_per_s=10**9, bytes_per_s=10**15, launch_ns=0)
    assert price(RULES["FFT"], signal, slow) == flops == 5 * 1024 * 10
    other = instance("Mul", (shape, shape), "COMPLEX64")
    assert price(RULES["Mul"], other, slow) == 4 * 1024


def test_speeds_that_are_not_given_are_assumed_and_counted() -> None:
    for name, words in (("DOUBLE", "float64 2"), ("HALF", "float16 2")):
        notes = estimate(product(name).built(), cluster(CPU, GPU)).notes
        assert [note for note in notes if words in note and ("cpu" in note or "gpu" in note)], name
    assert not any("number formats" in note for note in estimate(product("FLOAT").built(), cluster(CPU, GPU)).notes)
    assert not any("number formats" in note for note in estimate(product("HALF").built(), read_notation("2a100")).notes)


@given(st.integers(1, 2**50), st.lists(st.integers(0, 2**50), min_size=9, max_size=9))
def test_what_is_given_is_believed(flop_per_s: int, speeds: list[int]) -> None:
    given_peaks = Peaks(*speeds)
    for number in FORMATS:
        for matrix in (False, True):
            found, assumed = peak(flop_per_s, given_peaks, number, matrix=matrix)
            assert found > 0
            if number != "float32":
                told = [getattr(given_peaks, number)] + [getattr(given_peaks, f"matrix_{number}")] * matrix
                assert assumed == (not any(told))
    assert peak(flop_per_s, Peaks(matrix_float32=7 * flop_per_s), "float16", matrix=True)[0] == 7 * flop_per_s


def test_a_table_of_speeds() -> None:
    table = {"compute": {"float32": "2 TFLOP/s", "float64": "1 TFLOP/s"}, "matrix_compute": {"int8": "9 TOP/s"}}
    assert read_peaks(table) == (2 * 10**12, Peaks(float64=10**12, matrix_int8=9 * 10**12))
    assert read_peaks({"compute": "19.5 TFLOP/s"}) == (195 * 10**11, Peaks())
    for wrong, words in (
        ({"compute": {"float64": "1 TFLOP/s"}}, "lacks the key 'float32'"),
        ({"compute": {"float32": "1 TFLOP/s", "fp16": "1 TFLOP/s"}}, "no number format 'fp16'"),
        ({"compute": {"float32": "1 GB/s"}}, "compute: float32"),
        ({"compute": "0 TFLOP/s"}, "is not above zero"),
        ({"compute": "1 TFLOP/s", "matrix_compute": "2 TFLOP/s"}, "matrix_compute"),
    ):
        with pytest.raises((KeyError, ValueError), match=words):
            read_peaks(wrong)


def test_a_share_of_a_processor_has_its_share_of_every_speed() -> None:
    whole = load_cluster("hgx-h100").devices[0]
    part = whole.share(4)
    for number in FORMATS:
        for matrix in (False, True):
            one = peak(part.flop_per_s, part.peaks, number, matrix=matrix)[0]
            assert 4 * one == peak(whole.flop_per_s, whole.peaks, number, matrix=matrix)[0]


@pytest.mark.parametrize(
    ("name", "matrix"), [("INT32", False), ("INT64", False), ("COMPLEX64", False), ("INT8", True), ("FLOAT", True)]
)
def test_matrix_units_take_floats_and_bytes(name: str, matrix: bool) -> None:
    """A Conv2D of int32, which TensorFlow runs on GPUs, has no TF32."""
    for op, found in RULES.items():
        if found.on_matrix_units:
            of = instance(op, ((64, 64, 64, 64),) * 3, name)
            assert work_of(found, of).matrix == matrix, op
            with_sizes = replace(of, input_types=(TYPE["INT32"], *of.input_types[1:]))
            assert work_of(found, with_sizes).matrix == matrix, op
