"""The options that say how a step is simulated: what they change, what the result says of them, what is refused."""

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import SimvizError
from tests.viz.scenes import loop_text
from viz.command import options
from viz.command.cli import main
from viz.command.options import parser
from viz.command.request import gathered, parse_branch, parse_feed, parse_trips, read_request

GRAPH = str(Path(__file__).parents[2] / "examples" / "ps_training.pbtxt")
CLUSTER = ("--cluster", "ps=2,worker=1", "--algorithm", "requested")


@pytest.fixture
def result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., Any]:
    """The JSON that a call gives."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> dict[str, Any]:
        assert main([GRAPH, *CLUSTER, "--json", "-", *arguments]) == 0
        found: dict[str, Any] = json.loads(capsysbinary.readouterr().out)
        return found

    return call


def test_the_help_loads_nothing_heavy() -> None:
    code = "import sys, viz.command.cli; viz.command.cli.parser().format_help(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    assert not {"numpy", "google.protobuf", "rich", "llvmlite", "viz.command.running"} & set(loaded)


def test_the_result_says_how_it_was_simulated(result: Callable[..., Any]) -> None:
    plain = {"order": "fifo", "contention": "serial", "links": {}, "protocol": "grpc", "engine": "python"}
    asked = {"order": "tensorflow", "contention": "fair", "links": {}, "protocol": "rdma", "engine": "python"}
    call = ("--order", "tensorflow", "--contention", "fair", "--protocol", "rdma", "--engine", "python")
    assert result("--engine", "python")["simulation"] == plain
    assert result(*call)["simulation"] == asked
    compiled = result(*call[:-1], "compiled")
    assert compiled == {**result(*call), "simulation": {**asked, "engine": "compiled"}}


def test_without_contention_nothing_is_later_and_a_leaner_protocol_helps(result: Callable[..., Any]) -> None:
    serial, free = result(), result("--contention", "none")
    assert free["makespan_ns"] <= serial["makespan_ns"]
    arrive, late = ({(t["tensor"], t["to"]): t["end_ns"] for t in run["transfers"]} for run in (free, serial))
    assert all(end <= late[key] for key, end in arrive.items())
    assert any(end < late[key] for key, end in arrive.items())
    assert result("--protocol", "rdma")["makespan_ns"] < serial["makespan_ns"]
    assert free["transfers"] == result("--contention", "none", "--order", "fifo")["transfers"]
    for transfer in free["transfers"]:
        stages = [transfer[f"{key}_ns"] for key in ("asked", "packed", "start", "end", "unpacked")]
        assert stages == sorted(stages)
        assert transfer["packed_ns"] == transfer["start_ns"], "who has a link to himself waits for none"


def test_a_links_own_contention_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
        [[host]]
        name = "machine"
        count = 3
        nic = { bandwidth = "10 Gbit/s", contention = "none" }
        [[task]]
        job = "ps"
        count = 2
        host = "machine"
        [[task]]
        job = "worker"
        host = "machine"
        """
    (tmp_path / "own.toml").write_text(text)
    own = ("--cluster", str(tmp_path / "own.toml"), "-o", str(tmp_path / "a.dot"), "--json", str(tmp_path / "a.json"))
    assert main([GRAPH, *own, "--verbose"]) == 0
    assert "contention serial, but none on 4 links, protocol grpc" in capsys.readouterr().out
    links = json.loads((tmp_path / "a.json").read_text())["simulation"]["links"]
    assert len(links) == 4
    assert set(links.values()) == {"none"}


def looped(*arguments: str) -> list[str]:
    Path("loop.pbtxt").write_text(loop_text())
    return ["loop.pbtxt", "--cluster", "2cpu", "--algorithm", "requested", "--quiet", "--json", "out.json", *arguments]


def test_loops_and_branches_run_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> dict[str, Any]:
        assert main(looped(*arguments)) == 0
        found: dict[str, Any] = json.loads(Path("out.json").read_text())
        return found

    found = {trips: call("--trips", trips) for trips in ("while=1", "while=4", "*=4")}
    assert call()["makespan_ns"] == found["while=1"]["makespan_ns"] < found["while=4"]["makespan_ns"]
    assert found["*=4"] == found["while=4"]
    body = [one["iteration"] for one in found["while=4"]["transfers"] if one["tensor"] == "body:0" and one["bytes"]]
    assert body == [[0], [1], [2], [3]]
    assert "Loops run as asked: 'while' 4 times." in found["while=4"]["notes"]
    yes, no = call("--branch", "flag=true"), call("--branch", "flag:0=false")
    assert "Predicates as asked: 'flag:0' false." in no["notes"]
    assert yes["devices"] == call("--branch", "flag=1.0", "--seed", "5")["devices"] != no["devices"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--trips", "7"], "--trips: '7' is not of the form FRAME=10 or '*=10'"),
        (["--trips", "while=2", "--trips", "while=3"], "--trips: 'while' is given twice"),
        (["--trips", "whle=2"], "has no loop 'whle'; its loops are 'while'"),
        (["--trips", "while=2000000000"], "2,000,000 is the limit"),
        (["--branch", "flag"], "--branch: 'flag' is not of the form NAME=true"),
        (["--branch", "flg=true"], "'flag'"),
        (["--branch", "cond=true"], "trips"),
    ],
)
def test_loops_and_branches_that_cannot_be_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: Sequence[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(looped(*arguments)) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err
    assert not Path("out.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--algorithm", "Tensorflow"],
            "--algorithm: there is no algorithm 'Tensorflow'; .* Did you mean 'tensorflow'\\?",
        ),
        (["--algorithm", "HEFT"], "Did you mean 'heft'\\?"),
        (
            ["--order", "fastest"],
            "--order: there is no 'fastest'; choose one of auto, fifo, priority, tensorflow, enforced\\.",
        ),
        (["--contention", "far"], "Did you mean 'fair'\\?"),
        (["--engine="], "--engine: there is no ''; choose one of"),
        (["--algoritm", "heft"], "There is no option --algoritm\\. Did you mean '--algorithm'"),
        (["--algo", "heft"], "There is no option --algo\\. Did you mean '--algorithm'\\?"),
        (
            ["--re=both"],
            "There is no option --re\\. Did you mean '--refine' or '--recv-scheduling' or '--replicate'\\?",
        ),
        (["--frob"], "There is no option --frob\\. simviz --help"),
        (["-x"], "There is no option -x\\."),
        (["--cluster"], "--cluster: expected one argument"),
        (["--cluster", "--check"], "--cluster: expected one argument"),
        (["b.pb"], "'b.pb' is a second graph: give one"),
        (["--batch", "x"], "--batch: 'x' is not a whole number"),
        (["--seed", "1e3"], "--seed: '1e3' is not a whole number"),
        (["--steps", "2.5"], "--steps: '2.5' is not a whole number"),
        (["--hard", "--soft"], "--soft: not allowed with argument --hard"),
        (["--quiet=1"], "--quiet: ignored explicit argument '1'"),
    ],
)
def test_a_wrong_option_ends_with_2_and_one_line(
    arguments: Sequence[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([GRAPH, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("simviz: ")
    assert err.count("\n") == 1
    assert len(err) < 250
    assert re.search(words, err)
    assert err.endswith("simviz --help explains all options.\n")


@pytest.mark.parametrize("text", ["--batch=--", "--output=--", "-o=--", "-o--"])
def test_two_dashes_are_no_value(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph.pbtxt", text]) == 2
    name = text.removesuffix("--").removesuffix("=")
    assert capsys.readouterr().err == f"simviz: {name} has no value. simviz --help explains all options.\n"


def test_every_option_that_is_shortened_is_refused_with_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    known = re.findall(r"(?<![\w-])--[a-z][a-z-]+", options.parser().format_help())
    for option in dict.fromkeys(known):
        assert main([GRAPH, option[:-1]]) == 2
        assert repr(option) in capsys.readouterr().err or option[:-1] in known


def test_without_a_graph_there_is_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("simviz: name a graph")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--protocol", "rmda"], "'rdma'"),
        (["--order", "priority"], "has no priorities"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: Sequence[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([GRAPH, *CLUSTER, *arguments]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_a_protocol_that_nobody_uses_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.pbtxt").write_text('node { name: "a" op: "NoOp" }')
    assert main(["x.pbtxt", "--cluster", "2cpu", "--protocol", "rdma", "--verbose"]) == 0
    assert "one task, so nothing is sent by rdma" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("parse", "text", "found"),
    [
        (parse_feed, "a:0=2,3", ("a:0", (2, 3))),
        (parse_feed, "a=2x3", ("a", (2, 3))),
        (parse_feed, "a=", ("a", ())),
        (parse_trips, "while=7", ("while", 7)),
        (parse_trips, "*=0", ("*", 0)),
        (parse_trips, "a=b/while=7", ("a=b/while", 7)),
        (parse_branch, "p=true", ("p", True)),
        (parse_branch, "p:0=False", ("p:0", False)),
        (parse_branch, "p=0.3", ("p", 0.3)),
        (parse_branch, "p=2", ("p", 2)),
    ],
)
def test_values_are_read(parse: Callable[..., Any], text: str, found: tuple[str, int | tuple[int, ...]]) -> None:
    assert parse(text) == found
    assert type(parse(text)[1]) is type(found[1])


@pytest.mark.parametrize(
    ("parse", "texts"),
    [
        (parse_feed, ["a", "=1", "a=x", "a=-1", "a=4294967296"]),
        (parse_trips, ["3", "=3", "while=", "while=2.5", "while=-1", "while=many", "while=9999999999"]),
        (parse_branch, ["p", "=true", "p=maybe", "p=1.5", "p=-0.5", "p=nan", "p=inf", "p=-1"]),
    ],
)
def test_what_is_no_value_is_shown_with_the_form(parse: Callable[..., Any], texts: Sequence[str]) -> None:
    for text in texts:
        with pytest.raises(ValueError, match="is not of the form") as caught:
            parse(text)
        assert repr(text) in str(caught.value)


@given(st.text(max_size=12))
def test_no_text_breaks_the_reading(text: str) -> None:
    for parse in (parse_feed, parse_trips, parse_branch):
        with contextlib.suppress(ValueError):  # that it is raised for what is wrong is tested above
            name, _ = parse(text)
            assert text.startswith(f"{name}=")


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="'a' is given twice"):
        gathered(["a=1", "a=2"], parse_trips)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--algorithm", "heft"), "heft does not search; leave it out, or choose search"),
        (("--compare", "heft,single"), "heft, single do not search"),
        (("--algorithm", "heft", "--against", "single"), "heft, single do not search"),
    ],
)
def test_a_budget_that_no_algorithm_spends_is_refused(arguments: tuple[str, ...], says: str) -> None:
    """It was taken in silence."""
    with pytest.raises(SimvizError, match=says):
        read_request(parser().parse_args(["graph.pbtxt", *arguments, "--budget", "9"]))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--algorithm", "exact"),
        ("--compare", "heft,search"),
        ("--algorithm", "heft", "--against", "search"),
        ("--training", "async", "--algorithm", "search"),
    ],
)
def test_a_budget_that_an_algorithm_may_spend_is_taken(arguments: tuple[str, ...]) -> None:
    assert read_request(parser().parse_args(["graph.pbtxt", *arguments, "--budget", "9"])).budget == "9"
