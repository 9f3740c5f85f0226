"""The runner of `benchmarks/fidelity.py`: what it writes of graphs that agree, that differ and that are refused."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from simulator.graph.graph_def import graph_def, to_text
from tests.oracle.test_standin import training

pytestmark = pytest.mark.tensorflow
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fidelity.py"


@pytest.fixture(scope="module")
def fidelity() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fidelity", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fidelity"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = to_text(graph_def(training()))
    (tmp_path / "training.pbtxt").write_text(text)
    (tmp_path / "cut.pbtxt").write_text(text[text.index("node", 5) :])
    (tmp_path / "none.pbtxt").write_text("neither this nor that")
    (tmp_path / "notes.txt").write_text("passed over")
    return tmp_path


def cells(printed: str) -> list[list[str]]:
    lines = [line for line in printed.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_graphs_that_agree_and_files_that_both_refuse(
    fidelity: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fidelity.main([str(folder), "cpu=2", "ps=1,worker=1x2gpu", "--whole"]) == 0
    printed = capsys.readouterr().out
    rows = cells(printed)
    assert [row[:3] for row in rows] == [
        ["cut.pbtxt", "", ""],
        ["none.pbtxt", "", ""],
        ["training.pbtxt", "cpu=2", "flat, soft"],
        ["training.pbtxt", "cpu=2", "flat, hard"],
        ["training.pbtxt", "ps=1,worker=1x2gpu", "flat, soft"],
        ["training.pbtxt", "ps=1,worker=1x2gpu", "flat, hard"],
    ]
    assert [row[9] for row in rows] == ["alike"] * 4 + ["", ""]
    assert "Unknown input node" in rows[0][-1]
    assert rows[-1][4:9] == ["6/6", "6", "6/6", "10/10", "10"]
    assert "6 of 6 runs agree in everything" in printed


def test_chance_placements_and_a_tensorflow_that_dies(
    fidelity: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [str(folder), "ps=1,worker=1x2gpu", "--only", "training.pbtxt"]
    assert fidelity.main([*arguments, "--pin", "1", "--pin", "2"]) == 0
    assert [row[2] for row in cells(capsys.readouterr().out)] == ["flat, pinned 1", "flat, pinned 2"]
    monkeypatch.setattr(fidelity, "TIMEOUT_S", 0.01)
    assert fidelity.main(arguments) == 1
    printed = capsys.readouterr().out
    assert printed.count("OracleError: TensorFlow did not answer within 0.01 s") == 2
    assert "0 of 2 runs agree in everything" in printed
