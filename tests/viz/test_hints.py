"""Device strings that hold ops on a CPU: they are named with what they cost, and can be ignored."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulator.execution.trace import Kind
from simulator.graph.graph_def import graph_def
from tests.strategies import INT32, Rows, shapes_attr, type_attr, typed
from viz import figures, hints
from viz.command.cli import main
from viz.command.library import run
from viz.page.report import contents

EXAMPLE = Path(__file__).parents[2] / "examples" / "ps_training.pbtxt"


@pytest.fixture
def pinned(tmp_path: Path) -> str:
    """A graph whose variables and updates are on CPU:0, as old programs have it, and all else anywhere."""
    text = re.sub(r'device: "/job:ps.*"', 'device: "/device:CPU:0"', EXAMPLE.read_text())
    (tmp_path / "pinned.pbtxt").write_text(re.sub(r'device: "/job:worker.*"', "", text))
    return str(tmp_path / "pinned.pbtxt")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"algorithm": "tensorflow"},
        {"algorithm": "heft"},
        {"algorithm": "tensorflow", "order": "tensorflow", "contention": "fair"},
        {"recv_scheduling": "whitepaper"},
        {"cluster": "2gpu"},
    ],
)
def test_what_strings_cost_is_what_ignoring_them_gains(pinned: str, options: dict[str, Any]) -> None:
    given = {"cluster": "1gpu", "batch": 64, **options}
    scene = run(pinned, **given)
    free = run(pinned, ignore_devices=True, **given)
    assert free.pinned is None
    held = scene.pinned
    assert held is not None
    assert held.matters
    assert (held.makespan_ns, held.without_ns) == (scene.trace.makespan, free.trace.makespan)
    assert held.without_ns is not None
    assert held.without_ns < held.makespan_ns
    shares = {share.what: share.nanos for share in figures.critical_shares(scene)}
    shares["transfers"] += shares.get("packing", 0)  # a dispatch is a part of its transfer
    assert dict(held.shares).keys() <= shares.keys()
    assert all(0 < nanos <= shares[what] for what, nanos in held.shares)
    assert held.devices == ("localhost:0/CPU:0",)
    runs = [text for text, one in zip(scene.graph.requested, scene.step.runs.tolist(), strict=True) if one and text]
    assert held.strings == len(runs)


def test_a_copy_within_a_gpu_is_none_of_those_that_strings_hold(tmp_path: Path) -> None:
    """Though its value comes from the memory of the CPU that holds ops."""
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", (100, 100)))
    draft.add("held", "Neg", ["x"], device="/device:CPU:0", **typed("Neg", (100, 100)))
    draft.add("free", "Neg", ["held"], **typed("Neg", (100, 100)))
    draft.add("size", "Shape", ["free"], T=type_attr(), out_type=type_attr(INT32), _output_shapes=shapes_attr((2,)))
    draft.add("real", "Cast", ["size"], SrcT=type_attr(INT32), DstT=type_attr(), _output_shapes=shapes_attr((2,)))
    (tmp_path / "held.pb").write_bytes(graph_def(draft.built()).SerializeToString())
    scene = run(tmp_path / "held.pb", cluster="1gpu", algorithm="tensorflow", feeds={"x": (100, 100)})
    cut, trace = scene.partitions, scene.trace
    assert trace.critical is not None
    rows = trace.critical[trace.tasks.kind[trace.critical] != Kind.OP]
    took = trace.tasks.end_ns[rows] - trace.tasks.start_ns[rows]
    within = cut.within[trace.transfers.row[trace.tasks.of[rows]]]
    assert within.any()
    assert not within.all()
    assert scene.pinned is not None
    assert dict(scene.pinned.shares)["transfers"] == took[~within].sum()


def test_summary_page_and_json_say_it(pinned: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = run(pinned, cluster="1gpu", batch=64, algorithm="whitepaper")
    assert scene.pinned is not None
    assert scene.pinned.without_ns is not None
    (line,) = (line for line in scene.summary(verbose=True).splitlines() if line.startswith("pinned"))
    assert re.search(r"\d+ device strings keep transfers \d+%, state \d+% of the makespan on localhost:0/CPU:0", line)
    assert "without them the step takes" in line
    page: Any = contents(scene)
    assert f"Pinned: {scene.pinned}." in page["tables"]["notes"]
    told = json.loads(scene.to_json())["pinned"]
    assert told["makespan_ns"] == {"with": scene.trace.makespan, "without": scene.pinned.without_ns}
    assert told["critical_ns"] == dict(scene.pinned.shares)


@pytest.mark.parametrize(
    ("change", "cluster"),
    [
        (lambda text: re.sub(r'device: ".*"', "", text), "1gpu"),  # no strings
        (lambda text: text, "ps=2,worker=1x1gpu"),  # jobs, and servers without GPUs
        (lambda text: re.sub(r'device: ".*"', 'device: "/gpu:0"', text), "1gpu"),  # strings that hold on GPUs
        (lambda text: re.sub(r'device: ".*"', 'device: "/cpu:0"', text), "1cpu"),  # no GPU to be held from
    ],
)
def test_where_nothing_is_held_from_a_gpu_nothing_is_said(
    change: Callable[[str], str], cluster: str, tmp_path: Path
) -> None:
    (tmp_path / "a.pbtxt").write_text(change(EXAMPLE.read_text()))
    scene = run(str(tmp_path / "a.pbtxt"), cluster=cluster)
    assert scene.pinned is None
    assert json.loads(scene.to_json())["pinned"] is None
    assert "\npinned" not in scene.summary(verbose=True)


def test_strings_that_cost_nothing_are_no_line(tmp_path: Path) -> None:
    text = """
        node { name: "a" op: "Placeholder" device: "/cpu:0" attr { key: "dtype" value { type: DT_FLOAT } }
               attr { key: "shape" value { shape { dim { size: 4 } } } } }
        node { name: "b" op: "Relu" input: "a" device: "/cpu:0" attr { key: "T" value { type: DT_FLOAT } } }
    """
    (tmp_path / "small.pbtxt").write_text(text)
    scene = run(str(tmp_path / "small.pbtxt"), cluster="1gpu")
    held = scene.pinned  # it is all of the step, and nothing would be faster
    assert held is not None
    assert held.without_ns is not None
    assert held.without_ns >= held.makespan_ns
    assert not held.matters
    assert "\npinned" not in scene.summary(verbose=True)
    assert not any("Pinned" in note for note in figures.notes(scene))


def test_a_large_step_is_not_simulated_again_and_says_so(pinned: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "MOST_TASKS", 10)
    scene = run(pinned, cluster="1gpu", batch=64)
    assert scene.pinned is not None
    assert scene.pinned.without_ns is None
    assert "--ignore-devices simulates the step without them" in scene.summary(verbose=True)


@pytest.mark.parametrize(
    ("cluster", "training", "replicate"),
    [
        ("ps=1,worker=2x1gpu", "async", "between"),
        ("2gpu", "sync", "in"),
        ("ps=1,worker=2x2gpu", "sync", "both"),
        ("2gpu", "sync", "allreduce:ring"),
    ],
)
def test_without_its_strings_every_graph_trains_alike(
    cluster: str, training: str, replicate: str, pinned: str, tmp_path: Path
) -> None:
    (tmp_path / "bare.pbtxt").write_text(re.sub(r'device: ".*"', "", EXAMPLE.read_text()))
    options: dict[str, Any] = {"cluster": cluster, "training": training, "replicate": replicate, "steps": 4}
    bare = run(str(tmp_path / "bare.pbtxt"), **options).training
    for graph in (pinned, str(EXAMPLE)):
        free = run(graph, ignore_devices=True, **options)
        assert free.pinned is None
        assert bare is not None
        assert free.training is not None
        assert free.training.training.end_ns == bare.training.end_ns


@pytest.mark.tensorflow
@pytest.mark.parametrize("algorithm", ["tensorflow", "whitepaper"])
def test_tensorflow_agrees_on_the_graph_without_strings(
    algorithm: str, pinned: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    for graph in (pinned, str(EXAMPLE)):
        options = ["--cluster", "2gpu", "--ignore-devices", "--algorithm", algorithm, "--check", "--json", "-"]
        assert main([graph, *options]) == 0
        found = json.loads(capsysbinary.readouterr().out)["check"]
        assert found["placement"]["agree"] == found["placement"]["of"] == 224
        assert found["differences"] == []
