"""`--refine`: plans run on local processes, and the fastest is shown with the costs that were measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.costs.table import MEASURED
from simulator.oracle import child
from viz import run
from viz.command.cli import main

GRAPH = "examples/ps_training.pbtxt"
WORKER = ["--cluster", "ps=2,worker=1"]


@pytest.mark.tensorflow
def test_the_fastest_plan_is_shown_with_measured_costs(tmp_path: Path) -> None:
    file = tmp_path / "products.pb"
    file.write_bytes(child.run("tests.placement.two_products", b"", timeout_s=120))
    result = run(file, cluster="worker=2", refine=True, algorithm="heft")
    found = result.refined
    assert found is not None
    assert (result.assignment.device == found.best.assignment.device).all()
    assert result.costs is found.costs
    assert result.costs.source[result.graph.index["left"]] == MEASURED
    told = json.loads(result.to_json())
    assert told["simulation"]["order"] == "tensorflow"
    assert told["refined"]["rounds"][told["refined"]["best"]]["measured_ns"] == found.best.measured_ns
    assert told["refined"]["ended"] == found.ended
    assert found.sentence() in result.summary().splitlines()
    assert any(line.startswith("refined    ") for line in result.summary(verbose=True).splitlines())


def test_nothing_is_refined_unasked() -> None:
    result = run(GRAPH, algorithm="single")
    assert result.refined is None
    assert json.loads(result.to_json())["refined"] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--training", "async"], "leave out options of trainings"),
        (["--against", "single"], "leave out --against"),
        (["--compare", "single,heft"], "leave out --compare"),
        (["--what-if"], "leave out --what-if"),
        (["--recv-scheduling", "whitepaper"], "leave out --recv-scheduling, as their sessions delay no Recv"),
    ],
)
def test_what_other_plans_or_costs_would_be_for_is_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main([GRAPH, *WORKER, "--refine", *options]) == 2
    assert said in capsys.readouterr().err


def test_a_cluster_with_gpus_cannot_be_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    assert main([GRAPH, "--cluster", "ps=2,worker=1x1gpu", "--refine", "--json", str(result)]) == 1
    assert "has CPUs alone" in capsys.readouterr().err
    assert not result.exists()
