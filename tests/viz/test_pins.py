"""--pin moves a scope as a device string of the program would; TensorFlow agrees."""

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import load, load_cluster
from simulator.assignment import RULES
from simulator.errors import SimvizError
from tests.viz.scenes import EXAMPLE
from viz import run
from viz.command.cli import main
from viz.command.pins import with_pins

CLUSTER = "ps=2,worker=1x2gpu"
GRAPH = load(str(EXAMPLE))
SCOPES = sorted({name[:at] for name in GRAPH.names for at in range(len(name)) if name[at] == "/"} | set(GRAPH.names))
ON = load_cluster(CLUSTER)


@given(st.dictionaries(st.sampled_from(SCOPES), st.sampled_from(ON.devices), min_size=1, max_size=4))
def test_a_pin_changes_the_nodes_of_its_scope_alone_and_the_inner_one_counts(pins: dict[str, object]) -> None:
    named = {scope: device.short for scope, device in pins.items()}  # type: ignore[attr-defined]  # devices
    pinned = with_pins(GRAPH, named, ON)
    for name, before, after in zip(GRAPH.names, GRAPH.requested, pinned.requested, strict=True):
        over = [scope for scope in pins if f"{name}/".startswith(f"{scope}/")]
        wanted = pins[max(over, key=len)].name if over else before  # type: ignore[attr-defined]
        assert after == wanted


@pytest.mark.parametrize("algorithm", ["requested", "tensorflow", "heft", "search"])
def test_a_scope_runs_where_it_is_pinned(algorithm: str) -> None:
    device = "worker:0/GPU:1"
    budget = 20 if algorithm == "search" else None
    pins = {"conv1/Conv2D": device}
    result = run(str(EXAMPLE), cluster=CLUSTER, algorithm=algorithm, pins=pins, against="unpinned", budget=budget)
    row = result.graph.index["conv1/Conv2D"]
    assert result.assignment.name_of(row) == "/job:worker/replica:0/task:0/device:GPU:1"
    assert result.difference is not None
    assert result.difference.names[0] == "unpinned"
    if algorithm in ("requested", "tensorflow"):
        assert "conv1/Conv2D" in [one.node for one in result.difference.moved]
        assert RULES[result.assignment.why[row]] == "asked for by its device string (§3.5)"  # not by the graph's own


def test_the_last_part_of_a_name_is_enough_where_one_device_has_it() -> None:
    result = run(str(EXAMPLE), cluster=CLUSTER, algorithm="requested", pins={"conv1/Conv2D": "GPU:1"})
    assert result.assignment.name_of(result.graph.index["conv1/Conv2D"]) == "/job:worker/replica:0/task:0/device:GPU:1"


@pytest.mark.tensorflow
@pytest.mark.parametrize("algorithm", ["tensorflow", "heft"])
def test_tensorflow_agrees_with_a_pinned_run(algorithm: str) -> None:
    pins = {
        "conv1/Conv2D": "worker:0/GPU:1",
        "gradients/dense": "worker:0/CPU:0",
        "gradients/dense/MatMul_grad": "worker:0/GPU:0",
    }
    result = run(str(EXAMPLE), cluster=CLUSTER, algorithm=algorithm, pins=pins, check=True)
    assert result.check is not None
    assert "confirms placement" in result.summary()


@pytest.mark.parametrize(
    ("pin", "words"),
    [
        ("conv9=worker:0/GPU:0", "no node is in conv9"),
        ("conv1=CPU:0", "several tasks of .* have a CPU:0; say ps:0/CPU:0"),
        ("conv1=worker:0/GPU:7", "has no worker:0/GPU:7; it has ps:0/CPU:0"),
        ("conv1", "not of the form SCOPE=DEVICE"),
        ("conv1=", "not of the form SCOPE=DEVICE"),
        ("=GPU:0", "not of the form SCOPE=DEVICE"),
        ("/=GPU:0", "not of the form SCOPE=DEVICE"),
    ],
)
def test_a_pin_that_is_wrong_is_refused_in_a_sentence(pin: str, words: str) -> None:
    with pytest.raises(SimvizError, match=words):
        run(str(EXAMPLE), cluster=CLUSTER, pins=[pin])


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"pins": ["conv1=GPU:0"]}, "add --cluster"),
        ({"pins": ["conv1=GPU:0"], "cluster": CLUSTER, "training": "async"}, "single step"),
        ({"against": "unpinned", "cluster": CLUSTER}, "add --pin"),
    ],
)
def test_what_a_pin_cannot_be_combined_with(keywords: dict[str, str], words: str) -> None:
    with pytest.raises(SimvizError, match=words):
        run(str(EXAMPLE), **keywords)  # type: ignore[arg-type]  # by name


def test_the_command_of_a_result_makes_it_again(tmp_path: Path) -> None:
    options = {"cluster": CLUSTER, "algorithm": "heft", "contention": "fair", "pins": {"conv1": "worker:0/GPU:1"}}
    result = run(str(EXAMPLE), **options, soft=True, ignore_devices=True, against="single")  # type: ignore[arg-type]
    assert result.command is not None
    words = shlex.split(result.command)
    assert words[:2] == ["simviz", str(EXAMPLE)]
    assert main([*words[1:], "--json", str(tmp_path / "a.json"), "--quiet"]) == 0
    again = run(str(EXAMPLE), **options, ignore_devices=True)  # type: ignore[arg-type]
    assert again.command == result.command
    assert again.trace.makespan == result.trace.makespan
    assert run(GRAPH, cluster=CLUSTER, algorithm="single").command is None
    assert "--cluster=ps=2,worker=1" in str(run(str(EXAMPLE), algorithm="single").command)
