"""Every limit is told when it is met, with the option that sets another, and the option does so."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from simulator import load, load_cluster, raised, read_graph
from simulator.errors import SimvizError
from simulator.limits import TABLE, read_limit
from tests.fuzzing.cases import SMALL
from tests.fuzzing.graphs import EXAMPLE, doubling
from viz import run
from viz.command.cli import main
from viz.scene import Trained

GRAPH = str(EXAMPLE)
TRAINING = ("--cluster", "ps=2,worker=2", "--training", "async", "--steps", "3", "--engine", "python")
DAG = {
    "task_graph": {
        "tasks": [{"name": "a", "cost": 1}, {"name": "b", "cost": 1}],
        "dependencies": [{"source": "a", "target": "b", "size": 1}] * 2,
    },
    "network": {
        "nodes": [{"name": "m", "speed": 1}, {"name": "n", "speed": 1}],
        "edges": [{"source": "m", "target": "n", "speed": 1}],
    },
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that meet a limit, in the current folder."""
    monkeypatch.chdir(tmp_path)
    text = EXAMPLE.read_bytes()
    (tmp_path / "a.gz").write_bytes(gzip.compress(text))
    (tmp_path / "zeros.gz").write_bytes(gzip.compress(b" " * 2**23 + text))
    slashes = "\\\\" * 300
    (tmp_path / "a.pbtxt").write_text(
        f'node {{ name: "a" op: "NoOp" attr {{ key: "_x" value {{ s: "{slashes}" }} }} }}'
    )
    (tmp_path / "doubling.pb").write_bytes(doubling(8).SerializeToString())
    (tmp_path / "box.toml").write_text(
        '[[host]]\nname = "box"\ngpus = "8 v100"\nnvswitch = { bandwidth = "300 GB/s", latency = "5 us" }\n'
    )
    (tmp_path / "graph.pbtxt").write_bytes(SMALL)
    (tmp_path / "times.txt").write_text("1\n2\n3\n")
    (tmp_path / "dag.json").write_text(json.dumps(DAG))
    return tmp_path


# name of a limit -> a number that the call meets, one that it does not, and the call
CALLS: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "graph-bytes": (1000, 10**6, (GRAPH,)),
    "stream-bytes": (1000, 10**6, ("a.gz",)),
    "gzip-ratio": (2, 1100, ("zeros.gz",)),
    "backslashes": (500, 1000, ("a.pbtxt",)),
    "nodes": (1000, 40_000, ("doubling.pb", "--algorithm", "single")),
    "calls": (3, 50, ("doubling.pb", "--algorithm", "single")),
    "tensors": (50, 1000, (GRAPH,)),
    "count": (10, 100, (GRAPH, "--batch", "64")),
    "microbatches": (2, 8, (GRAPH, "--microbatches", "4", "--ignore-devices", "--cluster", "2gpu")),
    "devices": (4, 100, (GRAPH, "--cluster", "ps=2,worker=2x2gpu")),
    "name": (3, 10, (GRAPH, "--cluster", "worker=2", "--ignore-devices")),
    "gpu-pairs": (10, 100, (GRAPH, "--cluster", "box.toml", "--ignore-devices")),
    "step-devices": (3, 10, (GRAPH, "--cluster", "ps=2,worker=2x2gpu")),
    "instance-bytes": (10, 10_000, ("dag.json",)),
    "instance-nodes": (1, 10, ("dag.json",)),
    "instance-devices": (1, 10, ("dag.json",)),
    "instance-edges": (1, 10, ("dag.json",)),
    "steps": (2, 10, (GRAPH, *TRAINING)),
    "workers": (1, 4, (GRAPH, *TRAINING, "--workers", "1,2")),
    "file-bytes": (10, 1000, (GRAPH, "--cluster", "box.toml", "--ignore-devices")),
    "noise-bytes": (3, 100, (GRAPH, *TRAINING, "--disturb", "worker:0=noise:empirical:times.txt")),
    "placements": (10, 100, (GRAPH, "--budget", "20", "--cluster", "2gpu", "--ignore-devices")),
    "exact-pairs": (1, 10**6, ("graph.pbtxt", "--algorithm", "exact", "--cluster", "2gpu")),
}
# These are told by notes, or are met in tests of their own subject.
ELSEWHERE = {
    "growth": "tests/graph/inlining/test_inlining.py",
    "body-nodes": "tests/shapes/test_calls.py",
    "claimed": "tests/graph/test_ops.py",
    "inputs": "tests/graph/test_ops.py",
    "observed-bytes": "tests/observed/test_form.py",
    "patience": "tests/placement/search/test_walks.py",
    "result-bytes": "tests/test_limits.py",
    "whole-cluster": "tests/placement/test_reach.py",
    "part": "tests/placement/test_reach.py",
    "recorded": "tests/test_limits.py",
    "ci-steps": "tests/test_limits.py",
    "unrolled": "tests/execution/loops",
}


def test_each_limit_is_tried() -> None:
    assert {*CALLS, *ELSEWHERE} == set(TABLE)


@pytest.mark.parametrize("name", CALLS)
def test_a_refusal_names_its_limit_and_the_option_takes_more(
    name: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low, high, call = CALLS[name]
    budget = () if {"--budget", "--training"} & set(call) else ("--algorithm", "single")
    words = [*call, *(budget if "--algorithm" not in call else ()), "--json", "a.json", "--quiet"]
    assert main([*words, "--limit", f"{name}={low}"]) == 2
    assert f"--limit {name}=N takes more" in capsys.readouterr().err
    assert not (files / "a.json").exists()
    assert main([*words, "--limit", f"{name}={high}"]) == 0, capsys.readouterr().err


def test_an_earlier_result_is_bounded(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [GRAPH, "--algorithm", "single", "--quiet", "--json"]
    assert main([*words, "a.json"]) == 0
    assert main([*words, "b.json", "--against", "a.json"]) == 0
    assert main([*words, "c.json", "--against", "a.json", "--limit", "result-bytes=100"]) == 2
    assert "--limit result-bytes=N takes more" in capsys.readouterr().err


def test_a_training_records_so_many_tasks_and_is_lengthened_to_so_many_steps() -> None:
    def trained(steps: int | None, **limits: int) -> Trained:
        disturb, until_ci = (None, None) if steps else ("*=noise:lognormal:0.5", 0.0001)
        found = run(
            GRAPH,
            cluster="ps=2,worker=2",
            training="async",
            engine="python",
            steps=steps,
            until_ci=until_ci,
            disturb=disturb or (),
            limits={name.replace("_", "-"): number for name, number in limits.items()},
        ).training
        assert found is not None
        return found

    whole, few = trained(6), trained(6, recorded=400)
    lengths = [len(one.training.trace.tasks.start_ns) for one in (few, whole) if one.training.trace is not None]
    assert lengths[0] <= 400 < lengths[1]
    assert few.answers.steps_per_s == whole.answers.steps_per_s
    assert len(trained(None, ci_steps=60).training.step_client) <= 2 * 60


@pytest.mark.parametrize("text", ["", "nodes", "nodes=", "=3", "nodes=-1", "nodes=1e9", "nodes=" + "9" * 5000, "a=b=3"])
def test_what_is_no_limit_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([GRAPH, f"--limit={text}", "--quiet"]) == 2
    assert "NAME=N" in capsys.readouterr().err or text.startswith("=")


@pytest.mark.parametrize("numbers", [{"node": 3}, {"nodes": 0}, {"nodes": 2**24 + 1}, {"nodes": True}, {"nodes": 1.5}])
def test_a_limit_has_a_name_and_an_end(numbers: dict[str, int]) -> None:
    with pytest.raises(SimvizError, match="limit"), raised(numbers):
        pass
    assert read_graph(GRAPH)  # nothing stays set


def test_limits_lie_within_each_other_and_end_with_their_block_and_thread() -> None:
    nodes, found = TABLE["nodes"], []
    with raised({"nodes": 5}):
        with raised({"nodes": 7, "calls": 2}):
            assert (nodes.most, TABLE["calls"].most) == (7, 2)
        assert (nodes.most, TABLE["calls"].most) == (5, 100)
        other = threading.Thread(target=lambda: found.append(nodes.most))
        other.start()
        other.join()
    assert (nodes.most, found) == (nodes.default, [nodes.default])


def test_the_end_of_a_limit_has_no_way_beyond() -> None:
    with raised({"devices": TABLE["devices"].end}), pytest.raises(SimvizError, match="there is no way to take more"):
        load_cluster(f"worker={TABLE['devices'].end + 1}")


def test_numbers_may_be_written_for_people() -> None:
    assert read_limit("nodes=5_000_000") == read_limit(" nodes = 5,000,000 ") == ("nodes", 5_000_000)


def test_a_lower_limit_holds_for_files_of_strangers() -> None:
    def refused(call: Callable[[], object]) -> bool:
        try:
            call()
        except SimvizError:
            return True
        return False

    with raised({"tensors": 10}):
        assert refused(lambda: load(GRAPH))
    assert not refused(lambda: load(GRAPH))
