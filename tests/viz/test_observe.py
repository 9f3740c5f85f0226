"""`--observe` runs the step and keeps it; `--observation` reads it; what does not run or fit says so."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from simulator import choose_step, load, observe_step
from simulator.costs.table import MEASURED
from simulator.observed.form import read_observed
from simulator.observed.observed_step import ObservedStep
from tests.oracle.test_observing import made
from tests.viz.scenes import piped
from viz import run
from viz.command.cli import main
from viz.scene import Scene

GRAPH = str(Path(__file__).parents[2] / "examples/ps_training.pbtxt")
CLUSTER = ("--cluster", "ps=2,worker=1")


@pytest.mark.tensorflow
def test_a_step_is_observed_kept_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([GRAPH, *CLUSTER, "--observe", "--json", "first.json", "--quiet"]) == 0
    assert main([GRAPH, *CLUSTER, "--observe", "-o", "named.observed", "--quiet"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.json", "named.observed", "ps_training.observed"]
    step = read_observed(tmp_path / "ps_training.observed")
    assert step.feeds == {"images:0": (64, 28, 28, 1), "labels:0": (64,)}
    told = []
    for name in ("second.json", "third.json"):
        assert main([GRAPH, *CLUSTER, "--observation", "ps_training.observed", "--json", name, "--quiet"]) == 0
        told.append((tmp_path / name).read_text())
    assert told[0] == told[1]  # the file alone decides
    first, again = json.loads((tmp_path / "first.json").read_text()), json.loads(told[0])
    assert first["makespan_ns"] == again["makespan_ns"]
    assert again["observed"]["nodes"] == len(step.nodes) == 112
    assert again["unobserved"] is None
    assert again["counts"]["measured_costs"] >= 112
    both = run(GRAPH, cluster=CLUSTER[1], against="ps_training.observed")
    assert both.observed is None
    assert isinstance(both.against, Scene)
    assert both.against.observed is not None
    assert both.against.trace.makespan == again["makespan_ns"] != both.trace.makespan
    assert both.difference is not None
    assert both.difference.names[0] == "ps_training.observed"
    with piped((tmp_path / "ps_training.observed").read_bytes()) as name:
        streamed = run(GRAPH, cluster=CLUSTER[1], against=name)
    assert isinstance(streamed.against, Scene)
    assert streamed.against.trace.makespan == again["makespan_ns"]


@pytest.mark.tensorflow
def test_what_replicas_do_is_what_was_observed() -> None:
    """Towers, workers and their copies take shapes and times of the graph that ran, in a training too."""
    alone = run(GRAPH, cluster="ps=2,worker=1", observe=True)
    step = alone.observed
    assert step is not None
    for cluster, replicate, training in (
        ("2gpu", "in", None),
        ("2gpu", "allreduce:ring", None),
        ("ps=1,worker=2", "between", "async"),
        ("ps=1,worker=2", "between", "sync:aggregate=2"),
        ("ps=1,worker=1x2gpu", "both", "async"),
    ):
        result = run(
            GRAPH, cluster=cluster, observation=step, ignore_devices=True, replicate=replicate, training=training,
            steps=None if training is None else 2,
        )  # fmt: skip
        column = next(at for at, kind in enumerate(result.costs.kinds) if kind == "cpu")
        rows = [row for row, name in enumerate(result.graph.names) if name.endswith("conv1/Conv2D")]
        assert rows
        took = alone.costs.run_ns[alone.graph.row("conv1/Conv2D"), 0]
        for row in rows:
            assert result.costs.source[row] == MEASURED
            assert result.costs.run_ns[row, column] == took
            shape = result.graph.tensor_shape[result.graph.tensor_ptr[row]]
            assert shape == step.nodes["conv1/Conv2D"].outputs[0][0].shape


@cache
def looped() -> ObservedStep:
    graph = load(made("trained v1"))
    return observe_step(graph, step=choose_step(graph), values={"x:0": np.zeros((4, 3)), "bound:0": 100.0})


@pytest.mark.tensorflow
@pytest.mark.parametrize(("cluster", "replicate", "copies"), [("2gpu", "in", 2), ("ps=1,worker=2", "between", 1)])
def test_loops_of_copies_run_as_often_as_the_one_that_was_observed(cluster: str, replicate: str, copies: int) -> None:
    """12 examples of nought become ones, then fours and thirteens: their sums 0, 12 and 48 are below a hundred."""
    step = looped()
    seen = {name: node.runs for name, node in step.nodes.items() if node.op == "LoopCond"}
    assert sorted(seen.values()) == [4, 4]  # the loop and that of its gradient
    result = run(made("trained v1"), cluster=cluster, replicate=replicate, observation=step)
    pieces = result.partitions.graph
    ran = Counter(pieces.names[row] for row in result.trace.ops.node.tolist() if pieces.ops[row] == "LoopCond")
    assert sorted(ran.values()) == [4] * 2 * copies


@pytest.mark.tensorflow
def test_the_variables_of_a_function_are_made_up_in_a_training() -> None:
    feeds = {"x": (4, 8), "weights": (8, 3)}
    how = {"cluster": "ps=1,worker=2", "training": "async", "fetches": "train"}
    result = run(made("captured"), feeds=feeds, steps=2, observe=True, **how)  # type: ignore[arg-type]
    assert result.unobserved is None
    assert result.observed is not None
    assert result.observed.synthetic == ("weights",)


def test_without_tensorflow_the_result_is_that_of_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ModuleNotFoundError(name='tensorflow')")
    monkeypatch.syspath_prepend(str(tmp_path))
    told = tmp_path / "a.json"
    assert main([GRAPH, *CLUSTER, "--observe", str(tmp_path / "a.observed"), "--json", str(told)]) == 1
    assert "TensorFlow is not installed" in capsys.readouterr().err
    found = json.loads(told.read_text())
    assert "TensorFlow is not installed" in found["unobserved"]
    assert any("Shapes follow by rules instead" in note for note in found["notes"])
    assert found["makespan_ns"] == run(GRAPH, cluster=CLUSTER[1]).trace.makespan


@pytest.mark.tensorflow
def test_a_step_that_cannot_run_is_drawn_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = tmp_path / "python.pb"
    graph.write_bytes(made("python"))
    report, kept = tmp_path / "a.html", tmp_path / "a.observed"
    assert main([str(graph), "--observe", str(kept), "-o", str(report), "--json", str(tmp_path / "a.json")]) == 1
    assert report.exists()
    assert not kept.exists()
    assert "no step was observed" in capsys.readouterr().err
    assert "did not run the step" in json.loads((tmp_path / "a.json").read_text())["unobserved"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--observe-time", "5s"], "--observe-time bounds the step of --observe; add --observe"),
        (["--observe", "--observation", "a.observed"], "give one of them"),
        (["--observe", "a.html"], "the file of an observed step ends in .observed"),
        (["--observe", "--observe-time", "soon"], "--observe-time: "),
        (["--observe", "--observe-time", "0s"], "at most 24 hours"),
        (["--observe", "--observe-memory", "1KiB"], "TensorFlow itself needs 1 GiB"),
        (["--observe", "--compare", "single,heft"], "leave out --observe"),
        (["--observation", "nowhere.observed"], "nowhere.observed: there is no such file"),
        (["-o", "a.observed"], "add --observe"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([GRAPH, *CLUSTER, *options]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
