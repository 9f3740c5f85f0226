"""--check LOG: a placement log that a user has, beside ours, without TensorFlow."""

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement import place
from simulator import choose_step, estimate, load, load_cluster
from simulator.comparison.placement_log import read_log
from simulator.errors import SimvizError
from simulator.oracle import child
from viz import run
from viz.command.cli import main
from viz.command.options import parser

GRAPH = str(Path(__file__).parents[2] / "examples" / "ps_training.pbtxt")
CLUSTER = "ps=2,worker=1x2gpu"
OPTIONS = ("--cluster", CLUSTER, "--algorithm", "tensorflow")
NAMES = st.from_regex(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]{0,20}", fullmatch=True)
FORMS = (
    "{name}: ({op}): {device}",
    "I0000 00:00:1795352978.111952   20505 placer.cc:162] {name}: ({op}): {device}",
    "2018-05-02 11:12:13.456789: I tensorflow/core/common_runtime/placer.cc:874] {name}: ({op}){device}",
    "I tensorflow/core/common_runtime/simple_placer.cc:834] {name}: ({op}){device}\r",
)


@given(st.lists(st.tuples(NAMES, st.integers(0, 3), st.sampled_from(FORMS)), min_size=1, unique_by=lambda row: row[0]))
def test_every_form_of_the_lines_is_read(rows: list[tuple[str, int, str]]) -> None:
    device = "/job:worker/replica:0/task:1/device:GPU:{}"
    lines = [form.format(name=name, op="MatMul", device=device.format(at)) for name, at, form in rows]
    told = read_log("\n".join(["Device mapping:", *lines, *lines, "step 1: loss 0.3"]), "log")
    assert told.placement == {name: device.format(at) for name, at, _ in rows}


def test_old_names_of_devices_are_read_and_several_devices_are_not_compared() -> None:
    old = "/job:localhost/replica:0/task:0/gpu:0"
    told = read_log(f"a: (Add){old}\nb: (Add): {old}\nb: (Add): {old.replace('gpu', 'cpu')}", "log")
    assert told.placement == {"a": "/job:localhost/replica:0/task:0/device:GPU:0"}
    assert told.ambiguous == ("b",)


EAGER = "Executing op MatMul in device /job:localhost/replica:0/task:0/device:CPU:0\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no line such as"),
        ("step 1\nloss: (0.3)\n", "no line such as"),
        (EAGER * 2, "2 lines about ops that ran eagerly"),
        ("a: (Add): /job:local host/task:0", "no line such as"),
        ("a: (Add): /job:worker/tisk:0", "cannot read '/tisk:0'.*in the line"),
        ("a: (Add): /job:worker", "was cut or changed: .* not '/job:worker'"),
        ("a: (Add): /job:worker/replica:0/task:0/device:GPU", "was cut or changed"),
    ],
)
def test_a_log_without_nodes_is_refused(text: str, words: str) -> None:
    with pytest.raises(SimvizError, match=words):
        read_log(text, "log")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What TensorFlow would log of the example, as it is predicted."""
    graph, cluster = load(GRAPH), load_cluster(CLUSTER)
    step = choose_step(graph)
    placed = place(graph, cluster, estimate(graph, cluster), step=step, algorithm="tensorflow")
    path = tmp_path / "placement.log"
    rows = zip(graph.names, graph.ops, (placed.name_of(row) for row in range(len(graph))), strict=True)
    path.write_text("".join(FORMS[0].format(name=name, op=op, device=device) + "\n" for name, op, device in rows))
    return path


def test_a_log_that_agrees_ends_well_without_tensorflow(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "simulator.oracle.verification", None)
    assert main([GRAPH, *OPTIONS, "--check", str(log), "--verbose", "--json", str(log.with_name("told.json"))]) == 0
    out = capsys.readouterr().out
    assert f"check      {log}, log: is each node where TensorFlow's log says?" in out
    assert "placement agrees for 224 of 224 nodes" in out
    assert json.loads(log.with_name("told.json").read_text())["check"]["placement"] == {
        "agree": 224,
        "of": 224,
        "raw": None,
    }


def test_differences_and_what_one_side_lacks_are_told_and_the_check_fails(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = log.read_text().splitlines()
    moved = [
        line.replace("/job:worker/replica:0/task:0/device:GPU:0", "/job:worker/replica:0/task:0/device:GPU:7")
        for line in lines[5:]
    ]
    count = sum(a != b for a, b in zip(moved, lines[5:], strict=True))
    log.write_text(
        "\n".join([*moved, "grappler/fused: (_FusedMatMul): /job:worker/replica:0/task:0/device:GPU:0", EAGER])
    )
    assert main([GRAPH, *OPTIONS, "--check", str(log), "--verbose", "-o", str(log.with_name("a.html"))]) == 1
    out, err = capsys.readouterr()
    assert count > 5
    assert f"placement agrees for {219 - count} of 219 nodes" in out
    assert f"and {count - 5} more differences" in out
    assert "the log lacks 5 nodes" in out
    assert "the log alone has 1 node: grappler/fused" in out
    assert "1 line about ops that ran eagerly" in out
    assert f"{CLUSTER} lacks devices of the log: /job:worker/replica:0/task:0/device:GPU:7" in out
    assert "the check failed: placement agrees" in err


def test_an_algorithm_that_does_not_predict_cannot_fail(log: Path) -> None:
    log.write_text(log.read_text().replace("GPU:0", "GPU:1"))
    found = run(GRAPH, cluster=CLUSTER, algorithm="single", check=log)
    assert found.check is not None
    assert found.check["placement"]["agree"] < found.check["placement"]["of"]
    assert "single does not claim to do as TensorFlow does" in found.summary(verbose=True)
    assert (
        main([GRAPH, "--cluster", CLUSTER, "--algorithm", "single", "--check", str(log), "--json", "-", "--quiet"]) == 0
    )


@pytest.mark.parametrize(
    ("arguments", "graph", "check"),
    [
        (["g.pbtxt"], "g.pbtxt", False),
        (["g.pbtxt", "--check"], "g.pbtxt", True),
        (["--check", "g.pbtxt"], "g.pbtxt", True),
        (["--check", "-"], "-", True),
        (["g.pbtxt", "--check", "placed.log"], "g.pbtxt", "placed.log"),
        (["--check", "placed.log", "g.pbtxt"], "g.pbtxt", "placed.log"),
        (["--check=placed.log", "g.pbtxt"], "g.pbtxt", "placed.log"),
        (["--check", "--quiet", "g.pbtxt"], "g.pbtxt", True),
        (["--quiet", "--check", "g.pbtxt", "--batch", "3"], "g.pbtxt", True),
    ],
)
def test_the_graph_is_never_taken_for_a_log(arguments: list[str], graph: str, check: Any) -> None:
    asked = parser().read(arguments)
    assert (asked.graph, asked.check) == (graph, check)


@pytest.mark.parametrize(
    ("place_of", "words"),
    [
        ("missing", "the log cannot be read: No such file"),
        ("graph", "holds no line such as"),
        ("other", "names none of the 224 nodes of ps_training.pbtxt, but x. It is the log of another graph"),
        ("swapped", "ps_training.pbtxt holds no line such as"),
        ("ops", "is the log of another graph than ps_training.pbtxt: it has other ops in 224 of 224 nodes"),
        ("runs", "gives several devices to each of its 224 nodes"),
        ("alone", "is a log of device placements, not a graph. Name the graph first"),
    ],
)
def test_what_is_no_log_of_the_graph_is_an_error(
    log: Path, capsys: pytest.CaptureFixture[str], place_of: str, words: str
) -> None:
    other = log.with_name("other")
    other.write_text(FORMS[0].format(name="x", op="Add", device="/job:worker/replica:0/task:0/device:GPU:0"))
    given = {"missing": [GRAPH, "--check", "nowhere.log"], "graph": [GRAPH, "--check", GRAPH]}
    given |= {"other": [GRAPH, "--check", str(other)], "swapped": ["--check", GRAPH, str(log)]}
    given["alone"] = [str(log)]
    runs = log.with_name("runs")
    runs.write_text(log.read_text() + re.sub(r"device:...:.", "device:GPU:7", log.read_text()))
    ops = log.with_name("ops")
    ops.write_text(re.sub(r": \(\w+\)", ": (Cosh)", log.read_text()))
    given["ops"] = [GRAPH, "--check", str(ops)]
    given["runs"] = [GRAPH, "--check", str(runs)]
    assert main([*given[place_of], *OPTIONS, "--json", "-"]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("others", "said"), [(224, False), (225, True)])
def test_a_log_of_mostly_another_graph_is_named(
    log: Path, capsys: pytest.CaptureFixture[str], others: int, said: bool
) -> None:
    device = "/job:worker/replica:0/task:0/device:GPU:0"
    lines = [FORMS[0].format(name=f"another/{row}", op="Add", device=device) for row in range(others)]
    log.write_text(log.read_text() + "\n".join(lines))
    assert main([GRAPH, *OPTIONS, "--check", str(log), "--verbose", "--json", str(log.with_name("told.json"))]) == 0
    assert ("most of the log is of another graph" in capsys.readouterr().out) == said


@pytest.mark.tensorflow
def test_the_log_of_a_real_session_agrees_with_the_prediction_on_every_node(tmp_path: Path) -> None:
    told = json.loads(child.run("tests.oracle.placement_log", b"", timeout_s=120))
    graph, log = tmp_path / "graph.pb", tmp_path / "log"
    graph.write_bytes(base64.b64decode(told["graph"]))
    log.write_text(told["log"])
    found = run(graph, cluster="cpu=3", algorithm="tensorflow", check=log).check
    assert found is not None
    assert (found["differences"], found["only_ours"], found["only_logged"], found["ambiguous"]) == ([], [], [], [])
    assert found["placement"]["agree"] == found["placement"]["of"] > 50
