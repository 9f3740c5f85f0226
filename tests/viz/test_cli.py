"""The command: what it writes, what it prints, how it ends."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.graph.test_importer import meta_graph
from viz.command.cli import main
from viz.command.options import ALGORITHMS, FLAVOURS, RECV_SCHEDULING

GRAPH = str(Path(__file__).parents[2] / "examples" / "ps_training.pbtxt")
CLUSTER = ("--cluster", "ps=2,worker=1x2gpu")
QUICK = ("--algorithm", "heft")  # for processes whose placement plays no part


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_json(capsysbinary: pytest.CaptureFixture[bytes], *arguments: str) -> dict[str, Any]:
    assert main([GRAPH, "--json", "-", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsysbinary.readouterr().out)
    return found


def test_without_options_it_writes_the_report_here_and_prints_a_summary(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([GRAPH]) == 0
    assert [path.name for path in here.iterdir()] == ["ps_training.html"]
    out, err = capsys.readouterr()
    assert err == ""
    for word in (
        "One step takes",
        "the optimum",
        "Busiest",
        "memory",
        "transfers",
        "Critical",
        "Wrote ps_training.html",
    ):
        assert word in out
    assert "Cluster ps=2,worker=1" in out


def test_quiet_prints_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([GRAPH, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_json_goes_to_standard_output_alone(here: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    found = run_json(capsysbinary, *CLUSTER)
    assert found["format"] == 1
    assert list(here.iterdir()) == []
    assert len(found["placement"]) == found["graph"]["nodes"] == 224
    assert set(found["placement"].values()) <= set(found["devices"])
    starts = [transfer["start_ns"] for transfer in found["transfers"]]
    assert starts == sorted(starts)
    assert starts
    assert found["lower_bound_ns"] <= found["makespan_ns"]
    assert max(transfer["end_ns"] for transfer in found["transfers"]) <= found["makespan_ns"]
    assert found["check"] is None


def test_every_format_is_told_by_its_suffix(here: Path) -> None:
    wanted = ["a.html", "a.dot", "a.trace.json", "a.partitions"]
    assert main([GRAPH, *CLUSTER, "--quiet", *(part for name in wanted for part in ("-o", name))]) == 0
    assert sorted(path.name for path in here.iterdir()) == sorted(wanted)
    assert json.loads((here / "a.trace.json").read_text())
    pieces = sorted(path.name for path in (here / "a.partitions").iterdir())
    assert pieces
    assert all(name.endswith(".pbtxt") for name in pieces)


@pytest.mark.graphviz
@pytest.mark.parametrize(("suffix", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_graphviz_draws(here: Path, suffix: str, magic: bytes) -> None:
    assert main([GRAPH, *CLUSTER, "--quiet", "-o", f"a.{suffix}"]) == 0
    assert (here / f"a.{suffix}").read_bytes().startswith(magic)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_of_the_help_runs(
    here: Path, capsysbinary: pytest.CaptureFixture[bytes], algorithm: str
) -> None:
    found = run_json(capsysbinary, *CLUSTER, "--algorithm", algorithm)
    assert found["algorithm"]["asked"] == algorithm


def test_the_help_has_a_line_for_each_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    from placement import ALGORITHMS as known

    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert tuple(known) == ALGORITHMS
    assert all(re.search(rf"^  {name} +\w", told, re.MULTILINE) for name in known)


def test_every_flavour_of_the_help_runs(here: Path) -> None:
    from simulator.partitioning.levels import FLAVOURS as known

    assert known == FLAVOURS
    for flavour, suffix in (("local", "/_"), ("master", "_S")):
        assert main([GRAPH, *CLUSTER, "--algorithm", "requested", "--flavour", flavour, "-o", "a.partitions"]) == 0
        names = re.findall(r'name: "(.+)"', "".join(path.read_text() for path in (here / "a.partitions").iterdir()))
        assert any(re.search(f"{suffix}[0-9]+$", name) for name in names)


@pytest.mark.parametrize("rule", RECV_SCHEDULING)
def test_every_way_to_delay_recvs_says_what_it_changed(
    here: Path, capsysbinary: pytest.CaptureFixture[bytes], rule: str
) -> None:
    options = [*CLUSTER, "--algorithm", "requested", "--flavour", "master", "--batch", "64", "--protocol", "rdma"]
    plain = run_json(capsysbinary, *options)  # with gRPC the processors that pack leave nothing to gain
    late = run_json(capsysbinary, *options, "--recv-scheduling", rule)
    told = late["recv_scheduling"]
    assert plain["recv_scheduling"] is None
    assert told["rule"] == rule
    assert told["makespan_ns"] == {"without": plain["makespan_ns"], "with": late["makespan_ns"]}
    for name, device in late["devices"].items():
        peaks = {"without": plain["devices"][name]["peak_bytes"], "with": device["peak_bytes"]}
        assert told["peak_bytes"][name] == peaks
    assert 0 < told["delayed"] <= told["transfers"]
    if rule == "whitepaper":  # never to anybody's loss
        assert all(told[key]["with"] <= told[key]["without"] for key in ("makespan_ns", "held_byte_ns"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.pbtxt"], "nowhere.pbtxt"),
        ([GRAPH, "--flavour", "local", "--recv-scheduling", "tensorflow"], "'master'"),
        ([GRAPH, "--cluster", "ps=1,wrker"], "not a part"),
        ([GRAPH, "--cluster", "nope.toml"], "nope.toml"),
        ([GRAPH, "--fetch", "los:0"], "loss"),
        ([GRAPH, "--feed", "images"], "NAME=32,224,224,3"),
        ([GRAPH, "--feed", "image=1,2"], "images"),
        ([GRAPH, "--batch", "0"], "--batch"),
        ([GRAPH, "--seed", "-1"], "seed"),
        ([GRAPH, "-o", "a.jpeg"], ".svg"),
        ([GRAPH, "-o", "nowhere/a.html"], "no folder"),
        ([GRAPH, "--costs", "nowhere.csv"], "nowhere.csv"),
        ([GRAPH, "--signature", "serve"], "serve"),
    ],
)
def test_a_wrong_call_ends_with_2_and_a_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], words: str
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("simviz: ")
    assert words in err
    assert "Traceback" not in err
    assert list(here.iterdir()) == []


def test_a_job_that_the_cluster_lacks_ends_with_1_and_a_proposal(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([GRAPH, "--cluster", "4gpu"]) == 1
    err = capsys.readouterr().err
    assert "ps_training.pbtxt" in err
    assert "4gpu" in err
    assert "ps=2,worker=1" in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "git lfs pull"),
        (b"<!DOCTYPE html><html></html>", "HTML"),
        (b"\x89PNG\r\n\x1a\n0000", "image"),
        (b"item {\n  id: 1\n  name: 'a'\n}\n", "label map"),
        (b'node {\n  name: "a"\n  op: "NoOp"\n  inp', "line"),
    ],
)
def test_what_is_no_graph_is_told_apart(
    here: Path, capsys: pytest.CaptureFixture[str], content: bytes, words: str
) -> None:
    (here / "x.pbtxt").write_bytes(content)
    assert main(["x.pbtxt"]) == 2
    err = capsys.readouterr().err
    assert "x.pbtxt" in err
    assert words in err


def test_a_malformed_device_names_file_node_and_form(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "x.pbtxt").write_text('node { name: "a" op: "NoOp" device: "/job:wor-ker" }')
    assert main(["x.pbtxt"]) == 2
    err = capsys.readouterr().err
    for word in ("x.pbtxt", "'a'", "'/job:wor-ker'", "/job:worker/replica:0"):
        assert word in err


def test_a_failed_run_leaves_the_old_report(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.html").write_text("precious")
    assert main([GRAPH, "--cluster", "4gpu", "-o", "a.html"]) == 1
    assert (here / "a.html").read_text() == "precious"


def test_a_foreign_folder_is_not_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.partitions").mkdir()
    (here / "a.partitions" / "thesis.tex").write_text("precious")
    assert main([GRAPH, *CLUSTER, "-o", "a.partitions"]) == 2
    assert (here / "a.partitions" / "thesis.tex").read_text() == "precious"
    assert [path.name for path in here.iterdir()] == ["a.partitions"]


def test_standard_input(here: Path) -> None:
    text = Path(GRAPH).read_bytes()
    command = [sys.executable, "-m", "viz", "-", *QUICK]
    done = subprocess.run(command, input=text, capture_output=True, check=True, cwd=here)
    assert done.stderr == b""
    assert [path.name for path in here.iterdir()] == ["graph.html"]


# what a machine may have that no result may depend on
MACHINES = (
    {"PYTHONHASHSEED": "1"},
    {"PYTHONHASHSEED": "2", "TZ": "Asia/Kathmandu", "LC_ALL": "C", "OMP_NUM_THREADS": "1"},
    {"PYTHONHASHSEED": "3", "TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0", "COLUMNS": "40"},
)
BUDGET = ("--budget", "50")
TRAINING = ("--training", "async", "--steps", "5", "--disturb", "worker:*=noise:lognormal:0.2", "--seed", "3", *BUDGET)
WITHOUT_TENSORFLOW = "import sys; sys.modules['tensorflow'] = None; from viz.entry import main; sys.exit(main())"


@pytest.mark.parametrize("options", [BUDGET, TRAINING], ids=["a step", "a training"])
def test_the_same_bytes_on_any_machine(here: Path, options: Sequence[str]) -> None:
    """Whatever the hash seed, the locale, the time zone, the threads, and with or without TensorFlow."""

    def made(number: int, start: Sequence[str], *, engine: str = "compiled") -> tuple[bytes, dict[str, bytes]]:
        folder = here / f"{number} {start[0]} {engine}"
        folder.mkdir()
        files = ("a.html", "a.dot", "a.trace.json", "a.pb", "a.pbtxt")
        written = [part for name in files for part in ("-o", name)]
        command = [sys.executable, *start, GRAPH, *CLUSTER, *options, *written, "--json", "a.json", "--engine", engine]
        environment = {**os.environ, **MACHINES[number]}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
        return done.stdout, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    module, program = ("-m", "viz"), ("-c", WITHOUT_TENSORFLOW)
    first = made(0, module)
    assert len(first[1]) == 6
    assert made(2, program) == first
    said, plain = made(1, module, engine="python")
    assert said == first[0]
    told, expected = json.loads(plain["a.json"]), json.loads(first[1]["a.json"])
    assert [found["simulation"].pop("engine") for found in (told, expected)] == ["python", "compiled"]
    assert told == expected
    drawn = [name for name in plain if name not in ("a.json", "a.html")]  # the page names the engine, too
    assert [plain[name] for name in drawn] == [first[1][name] for name in drawn]


def test_interruption_leaves_nothing_behind(here: Path) -> None:
    # the pipe gives no graph, so the command waits for one
    waiting = subprocess.Popen(
        [sys.executable, "-m", "viz", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=here
    )
    assert waiting.stdin is not None
    waiting.stdin.write(b"#")
    waiting.stdin.flush()
    deadline = time.monotonic() + 60
    while int.from_bytes(fcntl.ioctl(waiting.stdin, termios.FIONREAD, bytes(4)), sys.byteorder):  # it reads by now
        assert time.monotonic() < deadline
        time.sleep(0.02)
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert b"Traceback" not in err
    assert list(here.iterdir()) == []


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("simviz ")
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0


def run_command(here: Path, *arguments: str, **options: Any) -> tuple[int, bytes, bytes]:
    """The command in a process of its own: code, standard output, standard error."""
    command = [sys.executable, "-m", "viz", *arguments]
    done = subprocess.run(command, cwd=here, capture_output=True, check=False, **options)
    return done.returncode, done.stdout, done.stderr


def test_a_terminal_that_lacks_a_character_gets_its_escape(here: Path) -> None:
    (here / "modèle.pbtxt").write_bytes(Path(GRAPH).read_bytes())
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    code, out, err = run_command(here, "modèle.pbtxt", *QUICK, env=environment)
    assert (code, err) == (0, b"")
    assert rb"mod\xe8le.pbtxt" in out


def test_a_file_name_that_is_no_text(here: Path) -> None:
    name = os.fsdecode(b"mod\xe8le")
    (here / f"{name}.pbtxt").write_bytes(Path(GRAPH).read_bytes())
    written = ("-o", "a.html", "-o", "a.dot", "--json", "a.json")
    code, _, err = run_command(here, f"{name}.pbtxt", *QUICK, *written)
    assert (code, err) == (0, b"")
    assert json.loads((here / "a.json").read_text())["graph"]["name"] == "mod\N{REPLACEMENT CHARACTER}le.pbtxt"


def test_a_complaint_that_cannot_be_printed_keeps_its_exit_code(here: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "viz", "missing.pb"]
        assert subprocess.run(command, cwd=here, stderr=full, check=False).returncode == 2


def test_a_file_that_is_gone_meanwhile_is_said(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(*_: object) -> None:
        Path("gone.pb").stat()

    monkeypatch.setattr("viz.command.running.run", gone)
    assert main([GRAPH]) == 2
    assert capsys.readouterr().err == "simviz: gone.pb: No such file or directory\n"


@pytest.mark.parametrize(
    "arguments",
    [
        (GRAPH, *QUICK),
        (GRAPH, *QUICK, "--json", "-"),
        ("--help",),
        ("--version",),
        ("--warm-up",),
        ("bench", "--help"),
    ],
)
def test_a_full_disk_under_standard_output_is_said(here: Path, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "viz", *arguments]
        done = subprocess.run(command, cwd=here, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"simviz: standard output cannot be written: No space left on device\n"


def test_a_reader_may_leave_the_help(here: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as pipe:
        command = [sys.executable, "-m", "viz", "--help"]
        done = subprocess.run(command, cwd=here, stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("- <&-", 2, b"standard input is closed"),
        ("--json - {graph} >&-", 2, b"standard output is closed"),
        ("--quiet {graph} >&-", 0, b""),
        ("{graph} >&-", 0, b""),
        ("{graph} 2>&-", 0, b""),
    ],
)
def test_closed_streams(here: Path, call: str, code: int, words: bytes) -> None:
    command = f'"{sys.executable}" -m viz {call.format(graph=" ".join((GRAPH, *QUICK)))}'
    done = subprocess.run(["sh", "-c", command], cwd=here, stderr=subprocess.PIPE, check=False)
    assert done.returncode == code
    assert words in done.stderr
    assert b"Traceback" not in done.stderr


def test_the_remark_on_a_file_without_signatures_names_the_same_step(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = meta_graph()
    Path("model.meta").write_bytes(model.SerializeToString())
    assert main(["model.meta", "--signature", "predict", "--output", "placed.pb"]) == 0
    fetched = re.search(r"without signatures: this step is --fetch (\S+)\)", capsys.readouterr().out)
    assert fetched is not None
    assert main(["placed.pb", "--fetch", fetched[1], "--json", "placed.json"]) == 0
    assert json.loads(Path("placed.json").read_text())["step"]["fetches"] == ["sum:0"]


def test_a_current_folder_that_is_gone_is_told(here: Path) -> None:
    code = (
        "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir(os.path.realpath('.')); "
        "from viz.command.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    for arguments in (["x.pb"], ["bench", "x.pb"]):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, cwd=here, capture_output=True, check=False)
        assert done.returncode == 2
        assert done.stderr in (
            b"simviz: the current folder is gone; go to another: No such file or directory\n",
            b"simviz: x.pb: there is no such file or folder\n",
        )
