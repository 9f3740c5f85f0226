"""A profile: its file, what is refused of it, and the prices that it gives."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator import choose_step, estimate, load_cluster, partition, simulate
from simulator.cluster.cluster import Cluster, with_protocol
from simulator.cluster.protocols import GRPC
from simulator.columns import flags, ids
from simulator.costs.estimate import works_of
from simulator.costs.estimates.profiled import Coldness, Pricing, code_parts, data_parts
from simulator.costs.formulas.matrix import Product
from simulator.costs.likeness import Surface
from simulator.costs.matching import with_measured
from simulator.costs.measured import MeasuredTimes, Sample, for_other_batch
from simulator.costs.profile import FIGURES, Figure, KernelTime, Profile, read_profile, summary, with_messages
from simulator.costs.roofline import OpWork
from simulator.costs.rules import rule
from simulator.costs.table import PROFILED, SOURCES, PriceErrors
from simulator.costs.variants import BY_ROWS
from simulator.errors import ClusterError
from simulator.execution.interval import interval
from simulator.graph.dtypes import INT32, number_of
from simulator.graph.graph import Graph
from simulator.graph.handing_on import handed_on
from simulator.graph.messages import AttrValue
from simulator.graph.traversal import loop_depths
from tests.execution.cases import assigned
from tests.execution.loops.cases import begun, counting
from tests.strategies import FLOAT, Rows, shapes_attr, type_attr, typed
from viz import figures, run

SIDES = (8, 33, 120, 512)
BFLOAT16 = number_of("BFLOAT16")


def speed(m: int, n: int, k: int) -> float:
    """Nanoseconds of a product on a made-up machine: 50 operations per nanosecond where the sides are large."""
    return 500 + 2 * m * n * k / 50 * (1 + 8 / min(m, n)) * (1 + 16 / k)


def both(ns: float, warm: float = 1.0) -> tuple[float, float, float]:
    """A cold time, its spread, and the warm time."""
    return ns, 0.01, warm * ns


def made(cores: int = 1, noise: float = 0.0) -> Profile:
    """A profile of the made-up machine, whose all cores halve each time."""
    chance = random.Random(1)

    def off() -> float:
        return math.exp(chance.gauss(0, noise)) if noise else 1.0

    kernels = [
        KernelTime(
            "MatMul", used, *both(speed(m, n, k) * off() / used), 2 * m * n * k, 4 * (m * k + k * n + m * n), m, n, k, 1
        )
        for used in dict.fromkeys((1, cores))
        for m in SIDES
        for n in SIDES
        for k in SIDES
    ]
    kernels += [
        KernelTime(op, used, *both(each * (300 + size / 10) / used), size // 4, size)
        for used in dict.fromkeys((1, cores))
        for op, each in (("Neg", 1.0), ("Exp", 3.0), ("Tanh", 2.0))
        for size in (2**12, 2**16, 2**20, 2**24)
    ]
    figures = {name: Figure(max(low, 50_000.0 if high > 10**6 else 0.5), 0.02) for name, (low, high) in FIGURES.items()}
    figures["dispatch"] = Figure(150.0, 0.02)
    streams = ((2**22, 0.25), (2**28, 0.25))  # as if nothing were farther than in the calibration
    return Profile("a made-up machine", cores, "2.21.0", False, "2026-11-22", 2**21, streams, figures, tuple(kernels))


def graph(side: int = 64) -> Graph:
    rows = Rows()
    rows.add("a", "Placeholder", **typed("Placeholder", (side, side)))
    rows.add("b", "Neg", ["a"], **typed("Neg", (side, side)))
    rows.add("c", "Sqrt", ["b"], **typed("Sqrt", (side, side)))
    return rows.built()


def test_another_batch_changes_a_measured_time_alone_and_not_the_profile_s_price_beside_it() -> None:
    small, large, cluster, profile = graph(), graph(4096), load_cluster("1gpu"), made()
    priced = estimate(large, cluster, profile)
    measured = MeasuredTimes((Sample("b", "a100", 100_000),), "a file")
    costs = for_other_batch(with_measured(priced, measured, large, cluster), large, small, cluster, profile)
    cpu, gpu = costs.kinds.index("cpu"), costs.kinds.index("a100")
    assert costs.run_ns[1, cpu] == priced.run_ns[1, cpu]
    there = estimate(small, cluster, profile)
    assert costs.run_ns[1, gpu] == round(100_000 * priced.run_ns[1, gpu] / there.run_ns[1, gpu])


@pytest.mark.parametrize(("framed", "reads", "hands_on"), [(False, 330, 150), (True, 390, 210)])
def test_reading_a_variable_takes_longer_than_handing_on_and_both_more_beside_branches(
    framed: bool, reads: int, hands_on: int
) -> None:
    """Dispatches of 150 ns: 2.2 for a read and 1 for an Identity, and 0.4 more where the executor keeps frames."""
    rows = Rows()
    rows.add("v", "VarHandleOp", dtype=type_attr())
    rows.add("read", "ReadVariableOp", ["v"], **typed("ReadVariableOp", (4,)))
    rows.add("same", "Identity", ["read"], **typed("Identity", (4,)))
    if framed:
        rows.add("either", "Merge", ["same", "same"], T=type_attr())
    costs = estimate(rows.built(), load_cluster("worker=1"), made())
    assert costs.run_ns[1:3, 0].tolist() == [reads, hands_on]


@pytest.mark.parametrize(
    ("stay", "summed", "inverted", "moves"),
    [
        ((0, 1), (2,), False, False),
        ((0, 1), (2,), True, False),
        ((0, 2), (1,), False, True),
        ((0, 2), (1,), True, True),
        ((0, 0), (2,), True, True),  # no order of axes: TensorFlow refuses it
    ],
)
def test_a_transpose_that_moves_nothing_takes_more_than_an_identity(
    stay: Sequence[int], summed: Sequence[int], inverted: bool, moves: bool
) -> None:
    """Its order is joined from the axes that stay and those that a Tensordot sums; 3.2 dispatches of 150 ns."""
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (8, 8, 8)))
    for name, numbers in (("stay", stay), ("summed", summed), ("axis", (0,))):
        value = AttrValue()
        value.tensor.dtype = INT32
        value.tensor.int_val.extend(numbers)
        value.tensor.tensor_shape.dim.add(size=len(numbers))
        rows.add(name, "Const", value=value, dtype=type_attr(INT32), _output_shapes=shapes_attr((len(numbers),)))
    rows.add("order", "ConcatV2", ["stay", "summed", "axis"], T=type_attr(INT32), N=AttrValue(i=2))
    if inverted:  # in the gradient
        rows.add("back", "InvertPermutation", ["order"], T=type_attr(INT32), _output_shapes=shapes_attr((3,)))
    order = "back" if inverted else "order"
    rows.add("y", "Transpose", ["x", order], T=type_attr(), _output_shapes=shapes_attr((8, 8, 8)))
    costs = estimate(rows.built(), load_cluster("worker=1"), made())
    assert (costs.run_ns[-1, 0] == 480) != moves


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    first = made(cores=2)
    first.write(tmp_path / "host.toml")
    second = read_profile(tmp_path / "host.toml")
    assert second.to_toml() == first.to_toml()
    (tmp_path / "edited.toml").write_bytes(BOM_UTF8 + (tmp_path / "host.toml").read_bytes())
    assert read_profile(tmp_path / "edited.toml").to_toml() == first.to_toml()
    assert second.source == str(tmp_path / "host.toml")
    assert [one.op for one in second.kernels] == [one.op for one in first.kernels]
    assert f"{len(first.kernels)} kernels timed" in summary(second)


def test_a_command_without_a_profile_waits_for_no_solver() -> None:
    """Scipy's solvers took 0.3 s to import, of every command."""
    code = "import sys, viz, simulator.costs.estimate; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_part_of_a_profile_is_used_alone(tmp_path: Path) -> None:
    """Whatever is cut off its end."""
    text = made().to_toml()
    file = tmp_path / "host.toml"
    lines = text.splitlines(keepends=True)
    for end in (*range(0, len(lines), 7), len(lines) - 1):
        file.write_text("".join(lines[:end]))
        with pytest.raises(ClusterError, match=r"no whole profile|not whole|is no profile"):
            read_profile(file)
    for end in range(0, len(text) - 2, 211):
        file.write_text(text[:end])
        with pytest.raises(ClusterError) as told:
            read_profile(file)
        assert str(told.value).count("\n") == 0


ROW = '["MatMul", 1, '


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('simviz = "profile 5"', 'simviz = "profile 2"', "of another version of simviz; make a new one"),
        ('simviz = "profile 5"', 'simviz = "result 1"', "does not say simviz"),
        ("cache_bytes = 2097152", "cache_bytes = 0", "not a number of bytes"),
        ("cache_bytes = 2097152", "", "'cache_bytes' is missing"),
        ("[268435456, 0.25]]", "[4194304, 0.25]]", "do not come after 4194304"),
        ("[268435456, 0.25]]", "[0, 0.25]]", "not \\[bytes, nanoseconds per byte\\]"),
        ("[268435456, 0.25]]", "[268435456, -1]]", "takes -1 ns"),
        ("[268435456, 0.25]]", "7]", "not \\[bytes, nanoseconds per byte\\]"),
        (", [268435456, 0.25]]", "]", "not from 2 to 64 pairs"),
        ("cores = 1", "cores = 0", "not a number of cores"),
        ("cores = 1", "cores = true", "not a number of cores"),
        ('machine = "a made-up machine"', 'machine = ""', "not a line of text"),
        ("dispatch = [150.0, 0.02]", "dispatch = [0, 0.02]", "not from 1 to"),
        ("dispatch = [150.0, 0.02]", "dispatch = [-5.0, 0.02]", "not from 1 to"),
        ("dispatch = [150.0, 0.02]", "dispatch = [nan, 0.02]", "takes nan ns"),
        ("dispatch = [150.0, 0.02]", "dispatch = [150.0, inf]", "spread of inf"),
        ("dispatch = [150.0, 0.02]", 'dispatch = "150 ns"', "not \\[nanoseconds, spread\\]"),
        ("dispatch = [150.0, 0.02]", "dispatch = [true, 0.02]", "takes True ns"),
        ("dispatch = [150.0, 0.02]", "", "lacks 'dispatch'"),
        ("hop = ", "hope = ", "lacks 'hop'"),
        (f"{ROW}", '["MatMul", 7, ', "is of 7 cores, and the machine has 1"),
        (f"{ROW}", '["MatMul", 1.5, ', "a count that is none"),
        (f"{ROW}", '["MatMul", 1, 3e16, ', "has not 13 columns"),
        ("[kernels]", "[kernel]", "'kernels' is missing"),
        ('date = "2026-11-22"', 'date = "2026-11-22"\nextra = 1', "not a key of a profile"),
    ],
)
def test_an_absurd_profile_is_refused_in_a_sentence(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = made().to_toml()
    assert old in text
    file = tmp_path / "host.toml"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(ClusterError, match=said) as told:
        read_profile(file)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("ns", ["0", "-1.0", "1e18", "nan", "'fast'"])
def test_kernels_of_no_time_or_of_years_are_refused(tmp_path: Path, ns: str) -> None:
    lines = made().to_toml().splitlines()
    at = next(row for row, line in enumerate(lines) if line.startswith(f"  {ROW}"))
    cells = lines[at].split(", ")
    lines[at] = ", ".join([*cells[:2], ns, *cells[3:]])
    (tmp_path / "host.toml").write_text("\n".join(lines))
    with pytest.raises(ClusterError, match="row 1 of"):
        read_profile(tmp_path / "host.toml")


@pytest.mark.parametrize("text", ["", "[[host]]\nname = 'box'\n", "\x00\xff", "a,cpu,1\n", "x = " + "9" * 5000])
def test_another_file_is_no_profile(tmp_path: Path, text: str) -> None:
    (tmp_path / "other").write_text(text, encoding="latin-1")
    with pytest.raises(ClusterError, match=r"is no (whole )?profile"):
        read_profile(tmp_path / "other")
    with pytest.raises(ClusterError, match="is a folder"):
        read_profile(tmp_path)


def test_products_between_measured_sizes_are_priced_within_their_errors() -> None:
    """Nine of ten of them, of a machine whose times scatter by a twentieth."""
    pricing = Pricing(made(noise=0.05), 1)
    matmul = rule("MatMul")
    assert matmul is not None
    chance = random.Random(2)
    within, count, errors = 0, 200, []
    for _ in range(count):
        m, n, k = (round(math.exp(chance.uniform(math.log(8), math.log(512)))) for _ in range(3))
        moved = 4 * (m * k + k * n + m * n)
        work = OpWork(2 * m * n * k, moved, 0, 0, 1, "float32", True, "", False, matmul, Product(m, n, k), False, "")
        ns, error, family = pricing.price("MatMul", work)
        assert family == "MatMul"
        within += 1 / (1 + error) <= speed(m, n, k) / ns <= 1 + error
        errors.append(error)
    assert within >= 0.85 * count
    assert sorted(errors)[count // 2] < 0.2


@pytest.mark.parametrize("padded", [True, False], ids=["registers are filled", "rows meet in a cache"])
def test_traits_of_sides_count_beside_their_lengths(padded: bool) -> None:
    """Two made-up libraries: one works on sixteens whatever a side is, one is slow where rows are a power of two."""

    def took_ns(m: int, n: int, k: int) -> float:
        filled = math.prod(-(-side // 16) * 16 for side in (m, n, k))
        return 500 + (filled if padded else m * n * k * (1 + math.gcd(k, 1024) / 128)) / 20

    def kernel(m: int, n: int, k: int) -> KernelTime:
        return KernelTime("MatMul", 1, *both(took_ns(m, n, k)), 2 * m * n * k, 4 * (m * k + k * n + m * n), m, n, k, 1)

    chance = random.Random(4)
    sides = [16, 17, 31, 48, 100, 128, 208, 225, 300, 448, 512, 1000, 1024]
    drawn = [tuple(chance.choice(sides) for _ in range(3)) for _ in range(80)]
    surface = Surface([kernel(*of) for of in drawn[:60]])
    off = [abs(math.log(surface.price((*of, 1, 0), 2 * math.prod(of), kernel(*of).moved_bytes, 1)[0] / took_ns(*of)))
           for of in drawn[60:]]  # fmt: skip
    assert sum(off) / len(off) < (0.1 if padded else 0.15)


def test_ops_are_priced_by_the_bytes_that_they_move() -> None:
    """On the line between measured sizes, and by the middle of their category where they were not measured."""
    on = load_cluster("1cpu")
    on = replace(on, devices=tuple(replace(device, cores=1) for device in on.devices))
    given, profile = graph(256), made()
    costs = estimate(given, on, profile)
    assert [SOURCES[row] for row in costs.source.tolist()] == ["profile"] * 3
    size = 2 * 4 * 256**2
    neg, sqrt = costs.run_ns[1:, 0].tolist()
    assert neg == pytest.approx(300 + size / 10, rel=0.25)
    assert sqrt == pytest.approx(2 * (300 + size / 10), rel=0.25)
    assert estimate(graph(512), on, profile).run_ns[2, 0] == pytest.approx(2 * (300 + 4 * size / 10), rel=0.25)
    assert costs.errors is not None
    assert costs.errors.relative[2, 0] > costs.errors.relative[1, 0]
    assert costs.errors.families[costs.errors.family[2]].startswith("unmeasured")
    assert costs.run_ns[0, 0] == 150  # a placeholder starts no kernel


def beside(width: int, other: int) -> Graph:
    """A Neg of one width, and an Exp of another."""
    rows = Rows()
    for name, op, size in (("of", "Neg", width), ("other", "Exp", other)):
        rows.add(f"{name}/in", "Placeholder", **typed("Placeholder", (size,)))
        rows.add(name, op, [f"{name}/in"], **typed(op, (size,)))
    return rows.built()


def one_core() -> Cluster:
    on = load_cluster("1cpu")
    return replace(on, devices=tuple(replace(device, cores=1) for device in on.devices))


def test_a_scalar_kernel_that_was_measured_takes_its_time() -> None:
    """It kept the time of another machine: an embedding's update took a quarter of what the profile had measured."""
    measured = tuple(KernelTime("Unique", 1, *both(each), 0, size) for each, size in ((10**6, 2**12), (10**8, 2**20)))
    rows = Rows()
    rows.add("a", "Placeholder", **typed("Placeholder", (1000,)))
    rows.add("b", "Unique", ["a"], **typed("Unique", (1000,)))
    given, profile = rows.built(), replace(made(), kernels=(*made().kernels, *measured))
    assert estimate(given, one_core(), profile).run_ns[1, 0] > 10**6
    assert estimate(given, one_core(), made()).run_ns[1, 0] == estimate(given, one_core()).run_ns[1, 0] < 10**5


def test_a_kernel_is_later_by_its_code_and_by_its_data() -> None:
    """Warm ones take a quarter, but for light ones, which lose 100 ns. A large one loses more than its code: data."""
    kernels = (replace(one, warm_ns=one.ns - 100 if one.op == "Tanh" else one.ns / 4) for one in made().kernels)
    pricing, cold_ns = Pricing(replace(made(), kernels=tuple(kernels)), 1), 300 + 2 * 4 * 2**20 / 10
    given = beside(2**20, 512)
    work = works_of(given, handed_on(given)).of(given.row("of"))
    code_ns = 0.75 * (300 + (2**16 + 2**20) / 2 / 10) - 100  # the middle of four sizes
    for code, data in ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.25, 0.5), (0.0, 0.0)):
        less = (1 - code) * code_ns + (1 - data) * (0.75 * cold_ns - code_ns)
        assert pricing.price("Neg", work, Coldness(code, data))[0] == pytest.approx(cold_ns - less, rel=0.02)
    assert Pricing(made(), 1).price("Neg", work, Coldness(0, 0))[0] == pytest.approx(cold_ns, rel=0.01)  # never warmer


def test_data_are_as_cold_as_others_leave_the_cache() -> None:
    """Warm where tensors fit into a core's cache, cold where they are large, half way at a tenth of the cache."""
    size = 2**21 // 40 - 512  # of numbers: an Exp of this many, and a Neg, move a tenth of the cache each in the mean
    for other, part in ((512, 0.0), (size, 0.5), (100 * size, 1.0)):
        given = beside(512, other)
        outside = flags(np.zeros(len(given), bool))
        found, _ = data_parts(works_of(given, handed_on(given)), flags(~outside), outside, made())
        assert found == pytest.approx(part, abs=0.03), other


def test_code_is_as_cold_as_the_kernels_between_two_of_its_op_leave_the_caches() -> None:
    """Beside a cache of 2 MB for itself, and one of 64 KB to 1 MB that cores share: 8 MB lie between two kernels, or
    4,096 bytes."""
    rows, seldom = Rows(), Rows()
    for made_of, name, op, size in (
        (seldom, "of", "Neg", 512),
        (seldom, "other", "Exp", 2**20),
        (rows, "of", "Neg", 512),
    ):
        made_of.add(f"{name}/in", "Placeholder", **typed("Placeholder", (size,)))
        made_of.add(name, op, [f"{name}/in"], **typed(op, (size,)))
    profile = replace(made(), streams=((2**16, 0.25), (2**20, 2.25)))
    parts = []
    for given in (seldom.built(), rows.built()):
        outside = flags(np.zeros(len(given), bool))
        parts.append(
            code_parts(given, works_of(given, handed_on(given)), flags(~outside), outside, profile)[given.row("of")]
        )
    own = 2**23 / (2**23 + 2**21)
    assert parts == pytest.approx([0.15 * own + 0.85, 0.0], abs=0.002)
    given = seldom.built()
    looped = flags([name.startswith("other") for name in given.names])
    by_loop = code_parts(given, works_of(given, handed_on(given)), flags(np.ones(len(given), bool)), looped, profile)
    assert by_loop[given.row("of")] == parts[0]  # a loop runs between two steps, too


def test_kernels_of_a_loop_are_as_cold_as_the_loop_makes_them() -> None:
    """A loop over scalars is warm beside one large op outside, which is cold; and equal kernels may be both."""
    rows = begun()
    counting(rows, "loop", "x", 5)
    rows.add("wide", "Placeholder", **typed("Placeholder", (2**20,)))
    rows.add("large", "Exp", ["wide"], **typed("Exp", (2**20,)))
    graph = rows.built()
    works = works_of(graph, handed_on(graph))
    loops, runs = np.array(loop_depths(graph)) > 0, np.ones(len(graph), bool)
    outside, inside = data_parts(works, runs, loops, made())
    assert inside < 0.01 < 0.9 < outside
    runs[graph.index["large"]] = False  # what is not run leaves nothing in a cache
    assert data_parts(works, runs, loops, made())[0] < 0.01


def test_initialisers_make_no_kernel_of_the_step_cold() -> None:
    rows = Rows()
    rows.add("a", "Placeholder", **typed("Placeholder", (16, 16)))
    rows.add("b", "Neg", ["a"], **typed("Neg", (16, 16)))
    alone = estimate(rows.built(), load_cluster("worker=1"), warmer(made())).run_ns[1, 0]
    rows.add("v", "VarHandleOp", dtype=type_attr())
    rows.add("x", "Const", **typed("Const", (2**22,)))
    rows.add("first", "Exp", ["x"], **typed("Exp", (2**22,)))
    rows.add("init", "AssignVariableOp", ["v", "first"], dtype=type_attr())
    assert estimate(rows.built(), load_cluster("worker=1"), warmer(made())).run_ns[1, 0] == alone


@pytest.mark.parametrize(
    ("op", "flipped", "part"), [("MatMul", False, 1 / 7), ("MatMul", True, 1 / 7), ("Neg", False, 1)]
)
def test_kernels_in_bfloat16_take_their_own_time_where_that_was_measured(op: str, flipped: bool, part: float) -> None:
    """Else that of the likest: a transposed product that of the plain one in its format, Neg that of float32."""
    usual = made()
    halves = [replace(one, ns=one.ns / 7, warm_ns=one.ns / 7, variant="bfloat16") for one in usual.kernels if one.m]
    profile = replace(usual, kernels=(*usual.kernels, *halves))

    def took(dtype: int) -> int:
        rows = Rows()
        for name in "ab":
            rows.add(name, "Placeholder", dtype=type_attr(dtype), _output_shapes=shapes_attr((256, 256)))
        inputs, flips = (["a", "b"], {"transpose_b": AttrValue(b=flipped)}) if op == "MatMul" else (["a"], {})
        rows.add("y", op, inputs, T=type_attr(dtype), _output_shapes=shapes_attr((256, 256)), **flips)
        return int(estimate(rows.built(), load_cluster("worker=1"), profile).run_ns[2, 0])

    widths = 1 if op == "MatMul" else 2  # Neg takes its time by its bytes
    assert took(BFLOAT16) * widths == pytest.approx(part * took(FLOAT), rel=0.1)


def warmer(profile: Profile) -> Profile:
    """Warm kernels take half as long."""
    return replace(profile, kernels=tuple(replace(one, warm_ns=one.ns / 2) for one in profile.kernels))


def test_a_row_and_a_number_have_a_price_each() -> None:
    """By two lengths that were measured. Rows longer than these take no less."""
    measured = tuple(
        KernelTime("Softmax", 1, *both(each * size), 0, size, variant=f"{BY_ROWS}{length}")
        for length, each in ((8, 4.0), (512, 1.0))
        for size in (2**12, 2**20)
    )
    profile = replace(made(), kernels=(*made().kernels, *measured))
    absurd = KernelTime("Softmax", 1, *both(1e9), 0, 2**12, variant=f"{BY_ROWS}{'9' * 5000}")
    profile = replace(profile, kernels=(*profile.kernels, absurd))  # a file may say anything
    per_row = (4.0 - 1.0) / (1 / 8 - 1 / 512)
    for length in (2, 8, 64, 512, 4096):
        each = 1.0 + per_row * max(0.0, 1 / length - 1 / 512)
        rows = Rows()
        shape = (2**15 // length, length)
        rows.add("a", "Placeholder", **typed("Placeholder", shape))
        rows.add("b", "Softmax", ["a"], **typed("Softmax", shape))
        given = rows.built()
        works = works_of(given, handed_on(given))
        took = estimate(given, one_core(), profile).run_ns[1, 0]
        assert took == pytest.approx(each * works.of(1).moved, rel=0.02)


def test_a_bias_for_the_first_axis_has_longer_rows() -> None:
    """Two ops of equal shapes in one graph: 4 numbers a row, and 16 pixels of a channel."""
    rows = Rows()
    rows.add("a", "Placeholder", **typed("Placeholder", (8, 4, 4, 4)))
    rows.add("b", "Placeholder", **typed("Placeholder", (4,)))
    for name, form in (("last", b"NHWC"), ("first", b"NCHW")):
        rows.add(name, "BiasAdd", ["a", "b"], **typed("BiasAdd", (8, 4, 4, 4)), data_format=AttrValue(s=form))
    given = rows.built()
    works = works_of(given, handed_on(given))
    assert [works.of(node).variant for node in (2, 3)] == ["rows of 4", "rows of 16"]


def test_a_kernel_that_moved_nothing_prices_no_other() -> None:
    """An Unpack along the first axis hands its rows on. One that copies was priced at 0.8 s for 300 KB by it."""
    handed = KernelTime("Unpack", 1, *both(7000.0), 0, 0)
    pricing = Pricing(replace(made(), kernels=(*made().kernels, handed)), 1)
    assert not pricing.knows("Unpack")


def test_a_product_beyond_all_measured_ones_is_no_faster_per_operation_than_the_fastest() -> None:
    """A plane over logarithms went on to fall: 235 GFLOP/s were expected of a machine that reached 190."""
    pricing = Pricing(made(), 1)
    matmul = rule("MatMul")
    assert matmul is not None
    fastest = min(one.ns / one.flops for one in made().kernels if one.m)
    for m, n, k in ((8192, 512, 512), (512, 4096, 4096), (65536, 1024, 1024)):
        work = OpWork(2 * m * n * k, 0, 0, 0, 1, "float32", True, "", False, matmul, Product(m, n, k), False, "")
        ns, _, _ = pricing.price("MatMul", work)
        assert 0.9 * fastest < ns / work.flops < 1.5 * fastest


def test_more_cores_take_less_time_and_beyond_the_machine_it_is_a_guess() -> None:
    times, errors = [], []
    for cores in (1, 2, 4, 8):
        on = load_cluster("1cpu")
        on = replace(on, devices=tuple(replace(device, cores=cores) for device in on.devices))
        costs = estimate(graph(1024), on, made(cores=4))
        assert costs.errors is not None
        times.append(int(costs.run_ns[1, 0]))
        errors.append(float(costs.errors.relative[1, 0]))
    assert times[0] == pytest.approx(4 * times[2], rel=0.01)
    assert times[0] > times[1] > times[2] > times[3]
    assert errors[3] == 2 * errors[2]


@pytest.mark.parametrize(("devices", "cores", "times"), [(2, 1, 2), (4, 2, 2), (2, 2, 1), (3, 2, 1.5)])
def test_devices_that_share_a_core_take_their_part_of_it(devices: int, cores: int, times: float) -> None:
    """Each had a core of its own, so two processes on one core were as fast as on two."""
    on = load_cluster(f"{devices}cpu")
    whole = replace(on.devices[0].whole or on.devices[0], cores=cores)
    parts = replace(on, devices=tuple(replace(whole.share(devices), name=one.name) for one in on.devices))
    alone = replace(on, devices=(replace(whole, cores=1),), routes=(((),),), links=())
    shared, one = (estimate(graph(1024), cluster, made()).run_ns[1, 0] for cluster in (parts, alone))
    assert shared == math.ceil(one * times)


def test_a_measured_op_keeps_its_time_and_has_no_error() -> None:
    on = load_cluster("1cpu")
    given = graph()
    costs = with_measured(estimate(given, on, made()), MeasuredTimes((Sample("b", "CPU", 777),), "measured"), given, on)
    assert costs.run_ns[1, 0] == 777
    assert costs.errors is not None
    assert costs.errors.relative[1, 0] == 0 < costs.errors.relative[2, 0]


def test_gpus_keep_their_prices_and_a_cluster_without_a_cpu_like_the_profile_says_so() -> None:
    on = load_cluster("1gpu")
    given = graph()
    plain, costs = estimate(given, on), estimate(given, on, made())
    gpu = costs.kinds.index("a100")
    assert costs.run_ns[:, gpu].tolist() == plain.run_ns[:, gpu].tolist()
    assert costs.run_ns[1, 1 - gpu] != plain.run_ns[1, 1 - gpu]


def test_a_step_of_which_the_profile_prices_nothing_has_no_interval(tmp_path: Path) -> None:
    """All of it runs on a GPU, or was measured."""
    made().write(tmp_path / "host.toml")
    options: dict[str, Any] = {"profile": tmp_path / "host.toml", "ignore_devices": True, "algorithm": "single"}
    on_gpu = run("examples/ps_training.pbtxt", cluster="1gpu", **options)
    assert interval(on_gpu.trace, on_gpu.partitions, on_gpu.cluster, on_gpu.costs) is None
    assert PROFILED in on_gpu.costs.source
    assert PROFILED not in figures.price_sources(on_gpu)[on_gpu.step.runs]
    names = [name for name, runs in zip(on_gpu.graph.names, on_gpu.step.runs.tolist(), strict=True) if runs]
    (tmp_path / "times.csv").write_text("node,kind,ns\n" + "".join(f"{name},cpu,500\n" for name in names))
    measured = run("examples/ps_training.pbtxt", cluster="1cpu", costs=tmp_path / "times.csv", **options)
    assert interval(measured.trace, measured.partitions, measured.cluster, measured.costs) is None


def test_what_a_gpu_s_host_computes_is_priced_by_the_profile() -> None:
    """A kernel of a GPU works on whole numbers there; its error was a factor of two, as of what nobody measured."""
    rows, on = Rows(), load_cluster("1gpu")
    rows.add("a", "Placeholder", dtype=type_attr(INT32), _output_shapes=shapes_attr((4,)))
    rows.add("b", "Neg", ["a"], T=type_attr(INT32), _output_shapes=shapes_attr((4,)))
    costs = estimate(rows.built(), on, made())
    assert costs.errors is not None
    for table in (costs.run_ns, costs.sources, costs.errors.relative):
        assert table[1, 0] == table[1, 1]
    assert costs.sources[1, costs.kinds.index("a100")] == PROFILED


def test_an_op_that_nobody_knows_is_said_to_take_what_others_take() -> None:
    """The note spoke of a launch and bytes, which a profile's price does not have."""
    rows = Rows()
    rows.add("a", "Mystery")
    for cluster, notes in (("1cpu", ["neither"]), ("1gpu", ["neither", "fallback"])):
        said = estimate(rows.built(), load_cluster(cluster), made()).notes
        assert [word for note in said for word in ("neither", "fallback") if word in note] == notes


def test_a_step_of_unknown_sizes_has_no_interval(tmp_path: Path) -> None:
    """Its time is a lower bound, and JSON gave an upper one."""
    made().write(tmp_path / "host.toml")
    rows = Rows()
    rows.add("a", "Placeholder", dtype=type_attr())
    rows.add("b", "Neg", ["a"], T=type_attr())
    found = run(rows.built(), cluster="1cpu", profile=tmp_path / "host.toml")
    assert found.unsized.tensors
    assert json.loads(found.to_json())["makespan_interval_ns"] is None
    assert "by the profile)" not in found.summary()


def test_a_note_tells_of_cpus_of_several_models() -> None:
    """They were priced alike without a word, however fast their descriptions say that they are."""
    on = load_cluster("worker=2")
    slow = replace(on.devices[1], kind="slow/2", flop_per_s=10**9)
    for devices, said in ((on.devices, []), ((on.devices[0], slow), ["cpu, slow"])):
        notes = estimate(graph(), replace(on, devices=devices), made()).notes
        assert [note.partition("alone: ")[2] for note in notes if "as one machine" in note] == said


def test_messages_are_the_profile_s_unless_somebody_described_them() -> None:
    on = load_cluster("worker=2")
    measured = with_messages(on, made()).between_tasks
    assert (measured.name, measured.threads) == ("grpc", GRPC.threads)
    assert measured.send_ns == made().figures["send"].ns
    own = with_protocol(on, "rdma")
    assert with_messages(own, made()) is own
    alone = replace(made(), figures={name: made().figures[name] for name in ("dispatch", "step")})
    assert with_messages(on, alone) is on


def test_grpc_in_a_notation_is_that_of_the_profile_and_as_an_option_the_shipped_one(tmp_path: Path) -> None:
    made().write(tmp_path / "host.toml")
    graph, cluster, host = "examples/ps_training.pbtxt", "ps=2,worker=1,protocol=grpc", tmp_path / "host.toml"
    measured = run(graph, cluster=cluster, profile=host, algorithm="requested").cluster.between_tasks
    assert measured.send_ns == made().figures["send"].ns != GRPC.send_ns
    asked = run(graph, cluster=cluster, profile=host, algorithm="requested", protocol="grpc")
    assert asked.cluster.between_tasks == GRPC


def test_summary_and_json_give_the_interval(tmp_path: Path) -> None:
    made(noise=0.1).write(tmp_path / "host.toml")
    found = run("examples/ps_training.pbtxt", cluster="ps=2,worker=1", profile=tmp_path / "host.toml")
    low, high = interval(found.trace, found.partitions, found.cluster, found.costs) or (0, 0)
    assert 0 < low < found.trace.makespan < high
    assert "by the profile)" in found.summary()
    assert f'"makespan_interval_ns": [{low}, {high}]' in " ".join(found.to_json().split()).replace("[ ", "[").replace(
        " ]", "]"
    )
    assert "by the profile of" in found.summary(verbose=True)
    assert found.summary(verbose=True).count("by the profile)") == 1
    same = run("examples/ps_training.pbtxt", cluster="ps=2,worker=1", profile=read_profile(tmp_path / "host.toml"))
    assert same.trace.makespan == found.trace.makespan
    assert (found.costs.source == PROFILED).any()


@pytest.mark.parametrize(("family", "less", "more"), [((0, 0, 0), 63, 70), ((0, 0, 1), 45, 50)])
def test_errors_of_a_family_add_up_and_those_of_two_as_squares(family: tuple[int, ...], less: int, more: int) -> None:
    """Ops of 300 and 400 ns, whose prices are off by a tenth: by 27 and 36 ns below, by 30 and 40 above."""
    rows, on = Rows(), load_cluster("1cpu")
    rows.add("x", "Const", **typed("Const", (17,)))
    rows.add("a", "Neg", ["x"], T=type_attr())
    rows.add("b", "Exp", ["a"], T=type_attr())
    graph = rows.built()
    errors = PriceErrors(("one", "other"), ids(family), np.full((3, 1), 0.1))
    costs = replace(
        estimate(graph, on), run_ns=np.array([[0], [300], [400]]), errors=errors, source=ids([PROFILED] * 3)
    )
    pieces = partition(graph, assigned(on, [0, 0, 0]), on, step=choose_step(graph))
    trace = simulate(pieces, on, costs)
    assert trace.makespan == 700
    assert interval(trace, pieces, on, costs) == (700 - less, 700 + more)


def test_a_profile_of_one_kernel_is_a_profile(tmp_path: Path) -> None:
    least = replace(made(), kernels=made().kernels[:1])
    least.write(tmp_path / "host.toml")
    assert len(read_profile(tmp_path / "host.toml").kernels) == 1


def test_without_a_profile_there_is_no_interval() -> None:
    found = run("examples/ps_training.pbtxt", cluster="ps=2,worker=1")
    assert interval(found.trace, found.partitions, found.cluster, found.costs) is None
    assert "by the profile" not in found.summary()
