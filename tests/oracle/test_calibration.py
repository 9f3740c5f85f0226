"""A calibration of this machine by the real TensorFlow: what it measures, what it says, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from simulator import estimate, load_cluster, read_graph, read_profile
from simulator.costs.profile import FIGURES, KernelTime, Profile
from simulator.errors import OracleError
from simulator.oracle import calibration, child, executor_times, kernel_times
from simulator.oracle.kernel_cases import KernelCase, cases
from simulator.oracle.machine import cache_bytes
from tests.oracle.processes import gone, traces
from viz.command.cli import main

pytestmark = pytest.mark.tensorflow

FEW = 2  # kernels per family
ONES = {  # enough for one of each op
    "products": 3,
    "convolutions": 54,
    "channels": 220,
    "memory": 128,
    "narrow": 37,
    "numbers": 100,
    "bfloat16": 71,
}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A calibration of the first kernels of each family, and of messages for a second."""
    monkeypatch.setattr(calibration, "AT_ONCE", FEW)
    monkeypatch.setattr(calibration, "MESSAGES_S", 1.0)
    monkeypatch.setattr(
        calibration, "cases", lambda: {family: of[:FEW] for family, of in cases().items()}, raising=True
    )


def test_the_command_writes_a_profile_of_this_machine_that_prices_a_graph(
    few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    made: list[Profile] = []

    def calibrate(say: Callable[[str], None]) -> Profile:
        made.append(measure(said.append))
        return made[0]

    measure = calibration.calibrate
    monkeypatch.setattr(calibration, "calibrate", calibrate)
    graph = Path("examples/ps_training.pbtxt").resolve()
    monkeypatch.chdir(tmp_path)
    assert main(["--calibrate"]) == 0
    assert "Wrote host.toml." in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["host.toml"]
    assert main([str(graph), "--profile", "host.toml", "--json", "result.json"]) == 0
    assert "by the profile)" in capsys.readouterr().out

    (profile,) = made
    measured = {one.cores for one in profile.kernels}
    cores = len(os.sched_getaffinity(0))
    assert measured == {1, cores}
    assert len(profile.kernels) == len(measured) * FEW * len(cases())
    assert {one.op for one in profile.kernels} >= {"MatMul", "Conv2D", "Neg"}
    product = next(one for one in profile.kernels if one.op == "MatMul")
    assert (product.m, product.k, product.n, product.flops) == (16, 16, 16, 2 * 16**3)
    assert (profile.figures.keys() == FIGURES.keys()) == (cores > 1)
    assert tuple(size for size, _ in profile.streams) == executor_times.STREAMS
    assert all(ns > 0 for _, ns in profile.streams)
    assert "one core: round 1 of 2, 0 of 7 steps of kernels" in said
    assert len(read_profile(tmp_path / "host.toml").kernels) == len(profile.kernels)


def test_every_kernel_is_one_that_tensorflow_runs() -> None:
    """Of the smallest sizes, on one core; and the cost table knows each."""
    with child.conversation("simulator.oracle.kernel_times") as ask:
        ask(child.pack({"ask": "begin", "cores": sorted(os.sched_getaffinity(0))[:1]}), 120)
        for family, known in cases().items():
            count = min(len(known), ONES[family])
            rows = [(family, row) for row in range(count)]
            question = {"ask": "time", "cases": rows, "cores": 1, "warm": False, "graph": True}
            told, (graph,) = child.unpack(ask(child.pack(question), 300))
            assert told["refused"] == []
            assert all(ns > 0 and spread >= 0 and warm is None for ns, spread, warm in told["times"])
            few = child.pack({**question, "cases": rows[:FEW], "warm": True, "graph": False})  # warm ones run longer
            assert any(warm is not None and warm > 0 for _, _, warm in child.unpack(ask(few, 300))[0]["times"])
            made = read_graph(graph)
            assert sum(name.startswith("case") for name in made.names) == count
            notes = estimate(made, load_cluster("1cpu")).notes
            assert not any("fallback" in note for note in notes)


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "viz", "--calibrate", str(tmp_path / "host.toml")]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started = time.monotonic()
    while not traces(run.pid)[0]:
        assert time.monotonic() - started < 60, "no child was started"
        time.sleep(0.2)
    time.sleep(4)  # well into the first round
    left = traces(run.pid)
    run.send_signal(signal.SIGINT)
    begun = time.monotonic()
    _, said = run.communicate(timeout=20)
    assert time.monotonic() - begun < 5
    assert run.returncode == 130
    assert "interrupted; nothing was written" in said
    assert list(tmp_path.iterdir()) == []
    assert gone(left)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--calibrate", "host.toml", "graph.pb"], "leave out graph.pb"),
        (["--calibrate", "nowhere/host.toml"], "nowhere"),
    ],
)
def test_a_wrong_call_is_told_before_anything_is_measured(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibration, "calibrate", lambda say: pytest.fail("it was measured"))
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_a_process_that_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "TIMEOUT_S", 0.01)
    with pytest.raises(OracleError, match="did not answer within"):
        calibration.calibrate()


def test_the_shortest_time_of_all_rounds_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three kernels in steps of two; one of them runs in a later round alone, and one never."""
    times = {0: iter((90.0, 5.0)), 1: iter((None, 8.0)), 2: iter((None, None))}
    asked: list[list[int]] = []
    warmed: list[bool] = []
    said: list[str] = []

    def answer(
        ask: object,
        of: Sequence[tuple[str, int]],
        cores: int,
        counted: dict[tuple[str, int], KernelTime],
        *,
        warm: bool,
    ) -> list[list[float | None] | None]:
        asked.append([row for _, row in of])
        warmed.append(warm)
        taken = [next(times[row]) for row in asked[-1]]
        counted.update({case: _taking(0.0) for case in of})
        return [None if ns is None else [ns, 0.0, None] for ns in taken]

    monkeypatch.setattr(calibration, "AT_ONCE", 2)
    monkeypatch.setattr(calibration, "cases", lambda: {"products": cases()["products"][:3]})
    monkeypatch.setattr(calibration, "_asked", answer)
    found = calibration._kernels(lambda message, timeout_s: message, 1, 4.0, "one core", said.append, {})
    assert [(one.ns, one.cores) for one in found.values()] == [(5, 1), (8, 1)]
    assert warmed == [False, False, True, True]  # small kernels are timed warm in the last round
    assert [len(of) for of in asked] == [2, 1] * calibration.ROUNDS
    assert all(sorted(asked[at] + asked[at + 1]) == [0, 1, 2] for at in range(0, len(asked), 2))
    assert said[-1] == "one core: round 2 of 2, 1 of 2 steps of kernels"


def test_a_kernel_on_all_cores_is_as_much_quicker_warm_as_it_is_cold() -> None:
    """A half cold, so a half warm; never longer warm than cold or than on one core; and one that one core lacks."""
    alone = {("products", row): replace(_taking(100.0), warm_ns=40.0) for row in range(3)}
    every = {("products", row): replace(_taking(ns), cores=2) for row, ns in enumerate((50.0, 100.0, 120.0, 70.0))}
    assert [one.warm_ns for one in calibration._also_warm(every, alone)] == [20.0, 40.0, 40.0, 70.0]


def test_a_kernel_that_does_not_run_leaves_the_times_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One can't be made, one fails when it runs."""

    class Refused(Exception):
        pass

    class Errors:
        OpError = Refused

    def measured(tf: object, of: Sequence[KernelCase], cores: int, *, warm: bool) -> list[list[float]]:
        if any(one.op in ("second", "fifth") for one in of):
            raise ValueError("no such kernel") if of[0].op == "second" else Refused("no such device")
        return [[float(len(one.op)), 0.0] for one in of]

    monkeypatch.setattr(kernel_times, "_measured", measured)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(errors=Errors))
    five = [KernelCase(op, lambda raw: None) for op in ("first", "second", "third", "fourth", "fifth")]
    times, refused = kernel_times._timed(five, 1, warm=False)
    assert times == [[5.0, 0.0], None, [5.0, 0.0], [6.0, 0.0], None]
    assert refused == ["second: no such kernel", "fifth: no such device"]


def test_small_kernels_are_timed_warm_in_steps_that_stay_in_the_cache() -> None:
    """Each small one is in one group; a group holds few of them, and few bytes."""
    sizes = [kernel_times._bytes(case) for known in cases().values() for case in known]
    groups = kernel_times._groups(sizes)
    small = [row for row, nbytes in enumerate(sizes) if nbytes <= kernel_times.WARM_BYTES]
    assert sorted(row for group in groups for row in group) == small
    for group in groups:
        held = sum(sizes[row] for row in group)
        assert len(group) == 1 or (held <= 2**19 and len(group) <= 24)


def test_a_kernel_that_makes_much_of_few_numbers_is_not_timed_warm() -> None:
    """It would push the others of its group out of the cache. These had warm times of microseconds."""
    first = {case.op: row for row, case in reversed([*enumerate(cases()["memory"])]) if case.op in ("Fill", "Relu")}
    last = {case.op: row for row, case in enumerate(cases()["memory"]) if case.op == "Fill"}
    asked = [("memory", first["Fill"]), ("memory", last["Fill"]), ("memory", first["Relu"])]
    question = child.pack({"ask": "time", "cases": asked, "cores": 1, "warm": True, "graph": False})
    with child.conversation("simulator.oracle.kernel_times") as ask:
        ask(child.pack({"ask": "begin", "cores": sorted(os.sched_getaffinity(0))[:1]}), 120)
        told, _ = child.unpack(ask(question, 120))
    assert [warm is None for _, _, warm in told["times"]] == [False, True, False]


def test_a_core_has_a_cache_of_some_size() -> None:
    assert 2**16 <= cache_bytes(0) <= 2**30
    assert cache_bytes(10**6) == 2**20  # a core that is not there


def _taking(ns: float) -> KernelTime:
    return KernelTime("Relu", 1, ns, 0.0, ns, 1, 1, 0, 0, 0, 0, 0, "")


def test_most_products_have_the_widths_of_layers() -> None:
    products = [one for one in cases()["products"] if one.op == "MatMul"]
    usual = [one for one in products if all(side % 16 == 0 for side in one.shapes[1])]
    powers = [one for one in usual if all(side & (side - 1) == 0 for side in one.shapes[1])]
    assert 0.6 < len(usual) / len(products) < 0.9
    assert len(usual) - len(powers) > 25


def test_windows_have_the_sizes_and_the_strides_of_layers() -> None:
    """Of depthwise convolutions: a gradient of filters takes eight times as long by 5 x 5 as by 3 x 3 taps."""
    depthwise = [one.shapes for one in cases()["channels"] if one.op == "DepthwiseConv2dNative"]
    kinds = {(filters[0], image[1] > 40) for image, filters in depthwise}
    assert kinds >= {(taps, large) for taps in (3, 5, 7) for large in (False, True)}


def test_pools_have_windows_that_overlap_and_that_meet() -> None:
    """Eigen's gradient of a pooling by 4 x 4 pixels was four times too slow: its window was larger than any timed."""
    pools = [(one.shapes[0][1], one.shapes[1][1]) for one in cases()["channels"] if one.op == "MaxPoolGrad"]
    assert {-(-side // out) for side, out in pools} >= {1, 2, 4, 7}
