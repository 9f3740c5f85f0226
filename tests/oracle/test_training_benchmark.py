"""The runner of `benchmarks/training.py`: what it says of trainings, of chance and of a machine that is busy."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType

import pytest

from tests.oracle.processes import descendants, ended
from tests.oracle.real_cluster import RealStep
from tests.oracle.training_graphs import Training

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        return importlib.import_module("training")


@pytest.fixture(scope="module")
def computing(benchmark: ModuleType) -> ModuleType:
    return importlib.import_module("training_computing")  # the benchmark has loaded it


@pytest.fixture(scope="module")
def probing(benchmark: ModuleType) -> ModuleType:
    return importlib.import_module("training_probing")  # the benchmark has loaded it


@pytest.mark.tensorflow
def test_a_row_is_measured_and_nothing_is_left(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(descendants(os.getpid()))
    failed = benchmark.main(["--only", "sync 1 of 2", "--rounds", "1", "--calm", "1"])
    *_, row = capsys.readouterr().out.strip().splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[0] == "sync 1 of 2, one slow"
    assert bool(failed) == cells[1].startswith("disturbed: ")
    if not failed:  # a busy machine may disturb it
        assert all(float(rate) > 5 for rate in cells[3:5])
        assert cells[8].count("ms: ") == 2
    assert ended([pid for pid in descendants(os.getpid()) if pid not in before])


def test_on_a_busy_machine_nothing_is_started(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = importlib.import_module("training_cluster")
    monkeypatch.setattr(shared, "PATIENCE_S", 0.0)
    monkeypatch.setattr(shared, "PAUSE_S", 0.0)
    times = iter([(10.0, 0.0, 0.0), (11.0, 0.5 * (os.cpu_count() or 1), 0.0)])
    monkeypatch.setattr(shared, "_worked", lambda: next(times))
    assert benchmark.main([]) == 1
    assert "Others take 50% of the cores: nothing is measured" in capsys.readouterr().out


def window(probing: ModuleType, lengths_ns: list[int], others: float = 0.0, gap_ns: int = 0) -> object:
    ends = [sum(lengths_ns[: row + 1]) for row in range(len(lengths_ns))]
    steps = [
        RealStep("worker:0", end - length, end, {"reading": end - length + gap_ns, "counted": end})
        for end, length in zip(ends, lengths_ns, strict=True)
    ]
    return probing.Window(tuple(steps), others, 1)


def test_a_stretch_is_disturbed_by_others_and_by_hops_that_change(probing: ModuleType) -> None:
    calm, busy = window(probing, [100, 100, 100]), window(probing, [100, 100, 100], others=0.3)
    slower = window(probing, [160, 160, 160])
    twice = (calm, calm)
    assert probing.Stretch(calm, twice, twice, (calm, slower)).disturbed(0.1) == ""
    assert "took up to 30%" in probing.Stretch(calm, twice, (calm, busy), twice).disturbed(0.1)
    assert "without work went from" in probing.Stretch(calm, (slower, calm), twice, twice).disturbed(0.1)


def test_what_one_worker_says_of_the_machine(probing: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 1.8 ms with three and a half hops, of 2.6 ms with eight more, of 62 ms more with a sleep of 60.

    Of these the read is 1.55 ms behind the count, a hop included.
    """
    monkeypatch.setattr(probing, "_idle_ns", lambda _, machine: 3.5 * machine.hop_ns)
    lengths = (1_800_000, 2_600_000, 63_800_000)
    idle, often, asleep = ([window(probing, [ns] * 5, gap_ns=1_550_000)] * 2 for ns in lengths)
    machine = probing.calibrated([probing.Stretch(idle[0], idle, often, asleep)], [])
    assert (machine.hop_ns, machine.gap_ns, machine.oversleep_ns) == (100_000, 1_450_000, 2_000_000)
    assert set(machine.spread) == {1.0}


def test_equal_workers_wait_together(benchmark: ModuleType) -> None:
    training = Training("sync", sleeps_s=(0.06, 0.06, 0.15))
    waits = [(0, 10.0, 100.0), (1, 30.0, 100.0), (2, 5.0, 50.0)]
    assert benchmark.by_sleep(training, waits) == {0.06: 0.2, 0.15: 0.1}


def test_a_pair_is_told_apart_beyond_the_spread_of_its_rounds(
    computing: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = {"slow": [10.0, 11, 12, 13], "near": [12.5, 12.6, 13, 14], "fast": [20.0, 21, float("nan"), 22]}
    assert not computing.report(rounds, {"slow": 1.0, "near": 3.0, "fast": 2.0})
    assert "2 of 3 pairs are told apart, 1 in our order." in capsys.readouterr().out
    assert computing.report(rounds, {"slow": 2.0, "near": 1.0, "fast": 3.0})  # near and slow are not told apart
    capsys.readouterr()
    assert computing.report(rounds, {"slow": 3.0, "near": 1.0, "fast": 2.0}, crowded=["slow"])
    assert "1 of 1 pairs are told apart, 1 in our order." in capsys.readouterr().out
