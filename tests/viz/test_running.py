"""`--against` and `--compare`: a run with another one beside it, in summary, JSON and Python."""

from __future__ import annotations

import contextlib
import json
import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import SimvizError
from tests.fuzzing.materials import profiles
from tests.viz.scenes import EXAMPLE, piped
from viz import compare, run
from viz.command.cli import main
from viz.difference.outline import is_result, read_result
from viz.difference.scene_outline import outline

GRAPH = str(EXAMPLE)
CLUSTER = "ps=2,worker=1x2gpu,protocol=rdma"

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command on the example in an empty folder; return its code, output and complaints."""
    monkeypatch.chdir(tmp_path)

    def called(*arguments: str) -> tuple[int, str, str]:
        code = main([GRAPH, "--cluster", CLUSTER, *arguments])
        return code, *capsys.readouterr()

    return called


# ---- --against


def test_against_an_algorithm_the_summary_explains_what_differs(call: Call) -> None:
    code, out, _ = call("--algorithm", "whitepaper", "--against", "tensorflow", "-o", "a.dot")
    lines = out.splitlines()
    assert code == 0
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 120
    whole = run(GRAPH, cluster=CLUSTER, algorithm="whitepaper", against="tensorflow")
    found = whole.difference
    assert found is not None
    assert found.names == ("tensorflow", "whitepaper")
    assert [line for line in lines if line.startswith("Against")] == [
        "Against tensorflow: 14.9 us shorter than its 9.14 ms; 36 nodes moved; 13 tensors began to cross, 1 ceased."
    ]
    told = [line for line in lines if line.startswith("  ")]
    assert [line.split(":")[0].strip() for line in told] == [str(p).split(":")[0] for p in found.explanation()]
    assert set(lines[:-1]) <= set(whole.summary().splitlines())
    verbose = whole.summary(verbose=True).splitlines()
    assert [f"  {part}" for part in found.parts] == [line for line in verbose if re.match(r"  [+-]\d", line)]
    assert sum(line.startswith("  moved ") for line in verbose) == 9  # eight, and how many more


def test_a_run_against_another_is_both_runs_and_their_difference() -> None:
    found = run(GRAPH, cluster=CLUSTER, algorithm="heft", against="single")
    alone = run(GRAPH, cluster=CLUSTER, algorithm="heft")
    told, plain = json.loads(found.to_json()), json.loads(alone.to_json())
    assert plain["against"] is None
    against = told.pop("against")
    plain.pop("against")
    assert told == plain
    by_hand = compare(run(GRAPH, cluster=CLUSTER, algorithm="single"), alone)
    assert found.difference is not None
    assert found.difference.rows == by_hand.rows
    assert against["makespan_ns"] == dict(zip(("other", "this"), by_hand.makespan_ns, strict=True))
    assert sum(part["difference_ns"] for part in against["explanation"]) == by_hand.difference_ns
    assert {one["node"]: (one["other"], one["this"]) for one in against["moved"]} == {
        one.node: one.devices for one in by_hand.moved
    }
    for key, rows in (("links", by_hand.links), ("devices", by_hand.devices)):
        assert len(against[key]) == len(rows)


def test_what_a_result_says_of_its_path_and_links_adds_up() -> None:
    scene = run(GRAPH, cluster=CLUSTER)
    told = json.loads(scene.to_json())
    assert sum(part["ns"] for part in told["critical"]) == told["makespan_ns"]
    by_route: dict[str, int] = {}
    row = {device.name: at for at, device in enumerate(scene.cluster.devices)}
    for one in told["transfers"]:
        for link in scene.cluster.routes[row[one["from"]]][row[one["to"]]] or ():
            name = scene.cluster.links[link].name
            by_route[name] = by_route.get(name, 0) + one["bytes"]
    assert told["links"] == {name: size for name, size in by_route.items() if size}


def test_another_cluster_costs_and_an_earlier_result_are_told_from_their_names(call: Call) -> None:
    cluster = Path("wide.toml")
    by = ("--algorithm", "tensorflow")
    assert call(*by, "--json", "before.json", "--quiet")[0] == 0
    cluster.write_text(
        """
        [[host]]
        name = "machine"
        count = 3
        nic = { bandwidth = "100 Gbit/s" }
        [[task]]
        job = "ps"
        count = 2
        host = "machine"
        [[task]]
        job = "worker"
        host = "machine"
        """
    )
    Path("times.csv").write_text("node,kind,ns\ndense/MatMul,a100,5000000\n")
    for other in ("ps=2,worker=4x1gpu", str(cluster), "times.csv", "before.json"):
        code, out, _ = call(*by, "--against", other, "--json", "this.json")
        assert code == 0
        assert f"Against {other}: " in out
        told = json.loads(Path("this.json").read_text())["against"]
        assert told["name"] == other
        parts = [part["difference_ns"] for part in told["explanation"]]
        assert sum(parts) == told["makespan_ns"]["this"] - told["makespan_ns"]["other"]
    assert "as long" in out  # the same run
    assert told["moved"] == told["crossings"] == told["explanation"] == []
    slow = run(GRAPH, cluster=CLUSTER, algorithm="tensorflow", costs="times.csv", against="before.json").difference
    assert slow is not None
    assert slow.difference_ns > 4_000_000
    assert slow.rows[0].subject == "dense/MatMul"
    assert {row.ns[1] for row in slow.rows if row.subject == "dense/MatMul"} == {5_000_000}


@pytest.mark.parametrize(
    "options",
    [{"against": "ps=2,worker=1x1gpu"}, {"training": "async", "steps": 3, "workers": (1, 2)},
     {"microbatches": "auto", "ignore_devices": True}, {"what_if": True}],
)  # fmt: skip
def test_what_can_be_read_but_once_serves_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """Standard input and pipes: the graph, measured times, a profile and a cluster."""
    times = b"node,kind,ns\ndense/MatMul,CPU,123456\ndense/Relu,CPU,500\n"
    contents = {"costs": times, "profile": profiles()[0]}
    files, pipes = dict[str, Path](), dict[str, str]()
    for name, content in contents.items():
        files[name] = tmp_path / name
        files[name].write_bytes(content)
        reading, writing = os.pipe()
        os.write(writing, content)
        os.close(writing)
        pipes[name] = f"/dev/fd/{reading}"
    given = {"cluster": "ps=2,worker=2", "algorithm": "requested", **options}
    from_files = run(GRAPH, **files, **given)  # type: ignore[arg-type]  # keywords
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(EXAMPLE.read_bytes())))
    from_pipes = run("-", **pipes, **given)  # type: ignore[arg-type]  # keywords
    one, other = from_files.to_json().replace(GRAPH, EXAMPLE.name), from_pipes.to_json()
    other = other.replace("standard input", EXAMPLE.name)
    for name, pipe in pipes.items():
        one, other = one.replace(str(files[name]), name), other.replace(pipe, name)
    assert json.loads(other) == json.loads(one)


@pytest.mark.parametrize("kind", ["result", "cluster", "times"])
def test_the_other_run_comes_from_a_pipe_as_from_a_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "other"
    if kind == "result":
        path.write_text(run(GRAPH, cluster=CLUSTER, algorithm="heft").to_json(), encoding="utf-8")
    elif kind == "cluster":
        jobs = ("ps", "ps", "worker")
        path.write_text('[[host]]\nname = "box"\n' + "".join(f'[[task]]\njob = "{job}"\n' for job in jobs))
    else:
        path.write_text("node,kind,ns\ndense/MatMul,CPU,123456\n")
    given = {"cluster": "ps=2,worker=1", "algorithm": "requested"}
    from_file = run(GRAPH, against=str(path), **given).difference  # type: ignore[arg-type]  # keywords
    with piped(path.read_bytes()) as name:
        from_pipe = run(GRAPH, against=name, **given).difference  # type: ignore[arg-type]  # keywords
    assert from_file is not None
    assert from_pipe is not None
    for part in ("makespan_ns", "rows", "parts", "crossings", "links", "devices", "nodes", "moved"):
        assert getattr(from_pipe, part) == getattr(from_file, part)


def test_a_pipe_that_holds_nothing_to_compare_with_is_refused() -> None:
    with piped(b"neither, this nor that") as name, pytest.raises(SimvizError, match=r"no cluster .* no measured times"):
        run(GRAPH, cluster=CLUSTER, against=name)


def test_an_earlier_result_gives_what_its_run_gives(tmp_path: Path) -> None:
    this, other = (run(GRAPH, cluster=CLUSTER, algorithm=name) for name in ("whitepaper", "heft"))
    path = tmp_path / "before.json"
    path.write_text(other.to_json(), encoding="utf-8")
    path.write_bytes(BOM_UTF8 + path.read_bytes())  # as some editors write it
    assert is_result(str(path))
    read, made = compare(read_result(str(path)), this), compare(other, this)
    for name in ("names", "makespan_ns", "rows", "parts", "crossings", "links", "devices", "nodes"):
        assert getattr(read, name) == getattr(made, name)
    assert [(one.node, one.devices) for one in read.moved] == [(one.node, one.devices) for one in made.moved]


def test_an_algorithm_without_priorities_has_a_row_that_says_so(call: Call) -> None:
    code, out, _ = call("--order", "priority", "--compare", "heft,single")
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0
    assert "ms *" in rows["heft"]
    assert "the placement by single has no priorities" in rows["single"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--against", "wihtepaper"], "no algorithm (tensorflow"),
        (["--against", "wihtepaper"], "Did you mean 'whitepaper'?"),
        (["--against", "."], "--against .: no algorithm"),
        (["--against", "neither.txt"], "neither.txt: this is no cluster"),
        (["--against", "old.json"], "an older version wrote this result"),
        (["--against", "table.json"], "is a table of --compare"),
        (["--against", "sync"], "add --training, such as async"),
        (["--compare", "single,heft", "--training", "async"], "--compare compares single steps"),
        (["--compare", "single,hefty"], "Did you mean 'heft' or 'peft'?"),
        (["--compare", ","], "name at least one algorithm"),
        (["--compare", "single", "-o", "a.html"], "leave out -o"),
        (["--compare", "single", "--against", "heft"], "leave out --against"),
        (["--compare", "single", "--algorithm", "heft"], "leave out --algorithm"),
        (["--compare", "single", "--json", "nowhere/a.json"], "there is no folder"),
    ],
)
def test_what_cannot_be_compared_is_refused(call: Call, arguments: list[str], words: str) -> None:
    Path("neither.txt").write_text("neither, this nor that")
    Path("old.json").write_text(json.dumps({"format": 1, "simviz": "0.1"}))
    Path("table.json").write_text(json.dumps({"format": 1, "simviz": "0.1", "compared": []}))
    code, out, complaint = call(*arguments)
    assert (code, out) == (2, "")
    assert words in complaint


def test_an_other_run_that_is_impossible_is_said_to_be_the_other(call: Call) -> None:
    code, _, complaint = call("--algorithm", "requested", "--hard", "--against", "2cpu")
    assert code == 1
    assert "--against 2cpu: " in complaint


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_a_damaged_result_is_refused_in_a_sentence_or_read(data: st.DataObject) -> None:
    """Any value in it may be another one; what is read still adds up."""
    path = data.draw(st.just(_kept()))
    found = json.loads(path.read_text(encoding="utf-8"))
    values: st.SearchStrategy[Any] = st.sampled_from([None, True, -1, 0, 1.5, 2**70, "", "\ud800", [], {}, [[]], "op"])
    at: Any = found
    for _ in range(data.draw(st.integers(1, 4))):
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], dict | list) or data.draw(st.booleans()):
            at[key] = data.draw(values)
            break
        at = at[key]
    damaged = path.with_name("damaged.json")
    damaged.write_text(json.dumps(found))
    with contextlib.suppress(SimvizError):  # no other error
        read = read_result(str(damaged))
        assert sum(part.ns for part in read.path) == read.makespan_ns
        json.dumps([read.title, list(read.placement), list(read.devices)], ensure_ascii=False).encode()


_FOLDER: list[Path] = []


@pytest.fixture(autouse=True)
def _a_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    if not _FOLDER:
        _FOLDER.append(tmp_path_factory.mktemp("earlier"))


def _kept() -> Path:
    path = _FOLDER[0] / "kept.json"
    if not path.exists():
        path.write_text(run(GRAPH, cluster=CLUSTER).to_json(), encoding="utf-8")
    return path


# ---- --compare


def test_the_table_has_the_figures_of_each_algorithms_own_run(call: Call) -> None:
    names = ["single", "whitepaper", "heft", "tensorflow"]
    code, out, _ = call("--compare", ",".join(names), "--json", "table.json")
    assert code == 0
    assert [path.name for path in Path().iterdir()] == ["table.json"]
    told = json.loads(Path("table.json").read_text())
    assert (told["format"], told["graph"]["name"], told["cluster"]["name"]) == (1, EXAMPLE.name, CLUSTER)
    title, head, *rows = out.splitlines()
    assert title == f"{EXAMPLE.name} on {CLUSTER}: one step by 4 algorithms; * is the fastest."
    assert head.split("  ")[0] == "algorithm"
    fastest = min(one["makespan_ns"] for one in told["compared"])
    for name, line, row in zip(names, rows, told["compared"], strict=True):
        alone = json.loads(run(GRAPH, cluster=CLUSTER, algorithm=name).to_json())
        assert row["algorithm"] == name
        assert row["used"] == alone["algorithm"]["used"]
        for key in ("makespan_ns", "lower_bound_ns", "out_of_memory", "check"):
            assert row[key] == alone[key]
        assert row["moved_bytes"] == sum(one["bytes"] for one in alone["transfers"])
        assert row["transfers"] == len(alone["transfers"])
        fill = {at: one["peak_bytes"] / one["capacity_bytes"] for at, one in alone["devices"].items()}
        assert fill[row["fullest"]["device"]] == max(fill.values())
        assert row["busiest"]["busy_ns"] == alone["devices"][row["busiest"]["device"]]["busy_ns"]
        assert line.startswith(name)
        assert ("*" in line) == (row["makespan_ns"] == fastest)


def test_the_table_alone_as_json_and_at_length(call: Call) -> None:
    code, out, _ = call("--compare", "single,heft", "--json", "-")
    assert code == 0
    assert [row["algorithm"] for row in json.loads(out)["compared"]] == ["single", "heft"]
    code, out, _ = call("--compare", "single,heft", "--verbose")
    found = compare(*(run(GRAPH, cluster=CLUSTER, algorithm=name) for name in ("single", "heft")))
    head, *lines = str(found).splitlines()
    assert out.splitlines()[-len(lines) - 1 :] == [f"heft: a{head[1:]}", *lines]
    assert call("--compare", "single,heft", "--quiet") == (0, "", "")
    assert list(Path().iterdir()) == []


def test_who_can_not_place_the_graph_has_a_row_that_says_why(call: Call) -> None:
    code, out, _ = call("--cluster", "2cpu", "--hard", "--compare", "single,heft", "--json", "table.json")
    told = json.loads(Path("table.json").read_text())
    assert code == 1
    for line, row in zip(out.splitlines()[2:], told["compared"], strict=True):
        assert row["refused"]
        assert row["used"] is None
        assert line == f"{row['algorithm']:<9}  refused: {row['refused']}"


def test_what_does_not_fit_is_not_the_fastest(call: Call) -> None:
    Path("small.toml").write_text(
        """
        [model.small]
        type = "GPU"
        memory = "26 MiB"
        compute = "30 TFLOP/s"
        bandwidth = "600 GB/s"
        launch = "4 us"
        [[host]]
        name = "server"
        count = 2
        [[host]]
        name = "box"
        gpus = "2 small"
        [[task]]
        job = "ps"
        count = 2
        host = "server"
        [[task]]
        job = "worker"
        host = "box"
        """
    )
    code, out, complaint = call("--cluster", "small.toml", "--compare", "tensorflow,heft", "--json", "table.json")
    assert (code, complaint) == (0, "")
    told = json.loads(Path("table.json").read_text())["compared"]
    assert [bool(row["out_of_memory"]) for row in told] == [True, False]
    rows = out.splitlines()[2:]
    assert ["OUT OF MEMORY" in row for row in rows] == [True, False]
    assert ["*" in row for row in rows] == [False, True]
    assert call("--cluster", "small.toml", "--compare", "tensorflow,requested")[0] == 1


@pytest.mark.tensorflow
def test_with_check_each_row_says_whether_tensorflow_agrees(call: Call) -> None:
    code, out, _ = call("--compare", "whitepaper,tensorflow", "--check", "--json", "table.json")
    assert code == 0
    assert [line.endswith("TensorFlow agrees") for line in out.splitlines()[2:]] == [True, True]
    told = json.loads(Path("table.json").read_text())["compared"]
    assert [row["check"]["mode"] for row in told] == ["pin", "predict"]


def test_an_outline_is_the_same_each_time() -> None:
    one, other = (outline(run(GRAPH, cluster=CLUSTER)) for _ in range(2))
    assert one.path == other.path
    assert one.link_bytes == other.link_bytes


def test_against_an_earlier_result_unlike_circumstances_are_named(call: Call) -> None:
    code, _, _ = call(
        *("--algorithm", "whitepaper", "--fetch", "logits/BiasAdd", "--contention", "fair", "--json", "before.json")
    )
    assert code == 0
    code, out, _ = call("--algorithm", "whitepaper", "--against", "before.json", "--json", "now.json")
    assert code == 0
    [line] = [line for line in out.splitlines() if line.startswith("Against")]
    assert line.startswith("Against before.json (fetches logits/BiasAdd, contention fair): ")
    told = json.loads(Path("now.json").read_text())
    assert told["against"]["unlike"]["contention"] == {"other": "fair", "this": "serial"}
    assert told["step"]["fed_shapes"].keys() == set(told["step"]["feeds"])
    code, out, _ = call("--algorithm", "whitepaper", "--against", "now.json")
    assert code == 0
    assert "Against now.json: as long" in out


def test_an_earlier_result_with_strange_circumstances_says_less_or_is_refused(call: Call) -> None:
    assert call("--json", "now.json")[0] == 0
    found = json.loads(Path("now.json").read_text())
    odd: list[dict[str, object]] = [
        {"step": {"fetches": [3]}},
        {"simulation": {"order": 7}},
        {"step": {"fed_shapes": {"x:0": "wide"}}},
        {"step": {"batch": None, "trips": {}}},
    ]
    for changed in odd:
        Path("odd.json").write_text(json.dumps({**found, **changed}))
        assert call("--against", "odd.json")[0] == 0
    Path("odd.json").write_text(json.dumps({**found, "step": []}))
    code, _, complaint = call("--against", "odd.json")
    assert code == 2
    assert "'step' is not an object" in complaint
    Path("odd.json").write_text(json.dumps({**found, "step": {"trips": {"loop": "often"}}}))
    code, _, complaint = call("--against", "odd.json")
    assert code == 2
    assert "'loop' is not a whole number" in complaint


def test_the_result_as_json_never_takes_the_place_of_another_output(call: Call) -> None:
    code, _, complaint = call("-o", "a.html", "--json", "./a.html")
    assert code == 2
    assert "would overwrite another output" in complaint
    assert not Path("a.html").exists()
