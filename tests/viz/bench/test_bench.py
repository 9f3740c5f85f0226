"""A bench: its rows are those of single runs, whoever makes them, and a bench that was stopped goes on."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

import joblib
import pytest
from distributed import Client, LocalCluster
from joblib.parallel import ThreadingBackend
from pyarrow import parquet

from placement import place
from simulator import choose_step, estimate, load, load_cluster, partition, simulate
from simulator.errors import SimvizError
from tests.fuzzing.materials import profiles
from viz import run
from viz.bench import bench
from viz.bench import rows as bench_rows
from viz.bench.bench import run_bench
from viz.bench.options import BenchRequest, Unit, read_bench
from viz.bench.rows import COLUMNS, BenchRow
from viz.command.cli import main

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "ps_training.pbtxt"
CLUSTERS = ("ps=2,worker=1x2gpu", "ps=2,worker=2x1gpu")
Asking = Callable[..., BenchRequest]


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    """A bench of two graphs, one of which is none, on two clusters."""
    graphs = tmp_path / "graphs"
    (graphs / "more").mkdir(parents=True)
    shutil.copy(EXAMPLE, graphs / "more" / "ps.pbtxt")
    (graphs / "more" / "torn.pb").write_text("no graph")
    (graphs / "README.md").write_text("not looked at")
    clusters = [part for name in CLUSTERS for part in ("--cluster", name)]

    def ask(*more: str) -> BenchRequest:
        output = ["-o", str(tmp_path / "rows.csv")]
        return read_bench([str(graphs), *clusters, *output, *more])

    return ask


def read_rows(path: str | Path) -> list[BenchRow]:
    """The rows of a bench's file."""
    return list(bench_rows._read(str(path), Path(path).read_bytes()))


def timeless(rows: list[BenchRow]) -> list[BenchRow]:
    return [replace(row, placing_s=0.0) for row in rows]


def test_measured_times_from_a_pipe_serve_all_graphs(asking: Asking, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"node,kind,ns\ndense/MatMul,GPU,123456\n")
    os.close(writing)
    profile = tmp_path / "host.toml"
    profile.write_bytes(profiles()[0])
    asked = asking("--algorithms", "single", "--costs", f"/dev/fd/{reading}", "--profile", str(profile))
    asked = pickle.loads(pickle.dumps(asked))  # its units go to other processes
    rows = run_bench(asked)[: len(CLUSTERS)]
    assert [row.refused for row in rows] == [""] * len(CLUSTERS)


def test_each_row_is_that_of_a_run(asking: Asking) -> None:
    rows = run_bench(asking("--algorithms", "single,heft,search", "--budget", "50", "--contention", "fair"))
    assert [row.key.graph for row in rows] == ["more/ps.pbtxt"] * 6 + ["more/torn.pb"] * 6
    for row in rows[6:]:
        assert "torn.pb" in row.refused
        assert not row.fits
    for row in rows[:6]:
        assert row.key.options == "contention=fair"
        assert row.key.budget == ("50" if row.key.algorithm == "search" else "")
        found = run(
            EXAMPLE,
            cluster=row.key.cluster,
            algorithm=row.key.algorithm,
            budget=row.key.budget or None,
            contention="fair",
        )
        assert (row.makespan_ns, row.used) == (found.trace.makespan, found.assignment.used)
        assert (row.nodes, row.devices) == (len(found.graph), len(found.cluster))
        assert row.lower_bound_ns <= row.makespan_ns
        assert row.fits


def test_only_what_the_file_does_not_know_is_asked(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    request = asking("--algorithms", "single,heft")
    first = run_bench(request)
    kept = Path(request.rows).read_bytes()
    asked: list[tuple[str, ...]] = []
    answer = bench.answer

    def counted(unit: Unit) -> list[BenchRow]:
        asked.append(tuple(key.algorithm for key in unit.keys))
        return answer(unit)

    monkeypatch.setattr(bench, "answer", counted)
    assert run_bench(request) == first
    assert asked == []
    assert Path(request.rows).read_bytes() == kept
    # cut off amid the last row, which begins the message of an unreadable graph
    Path(request.rows).write_bytes(kept[:-3])
    assert timeless(run_bench(request)) == timeless(first)
    assert asked == [("heft",)]
    more = run_bench(asking("--algorithms", "single,etf"))
    assert asked[1:] == [("etf",)] * 4
    assert len(more) == len(first) + 4


def test_an_algorithm_whose_code_changed_is_asked_again(
    asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An algorithm that failed, and was mended, kept the row of its failure."""
    site = tmp_path / "site"
    (site / "solver").mkdir(parents=True)
    (site / "solver-1.dist-info").mkdir()
    (site / "solver-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: solver\nVersion: 1\n")
    offered = "[simviz.algorithms]\nfirst = solver.own:first\n"
    (site / "solver-1.dist-info" / "entry_points.txt").write_text(offered)
    (site / "solver" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(site)
    found = []
    for body in ("1 / 0", "return Plan([may[0] for may in problem.allowed])"):
        code = f"from placement import Plan\n\ndef first(problem):\n    {body}\n"
        (site / "solver" / "own.py").write_text(code)
        invalidate_caches()
        for name in [name for name in sys.modules if name.partition(".")[0] == "solver"]:
            monkeypatch.delitem(sys.modules, name)
        found.append(run_bench(asking("--algorithms", "first,single")))
    before, after = ([row for row in rows if row.key.graph == "more/ps.pbtxt"] for rows in found)
    assert [row.refused[:28] for row in before] == ["The algorithm 'first' failed", ""] * 2
    assert [(row.key.asked, row.used, row.refused) for row in after[:4]] == [
        ("first", "first", ""),
        ("single", "single", ""),
    ] * 2
    assert [row.refused[:28] for row in after[4:]] == ["The algorithm 'first' failed"] * 2  # of the older code
    assert len({row.key.algorithm for row in after}) == 3


def test_the_plan_of_a_papers_algorithm_stays_if_asked(asking: Asking) -> None:
    """A bench compared `single` with itself, as it took the place of slower plans without a word in the table."""
    usual = run_bench(asking("--algorithms", "heft"))
    both = run_bench(asking("--algorithms", "heft", "--no-fallback"))
    assert both[len(usual) :] == usual
    kept, found = both[0], usual[0]
    assert (found.used, kept.used) == ("single", "heft")
    assert (found.key.options, kept.key.options) == ("", "no_fallback=True")
    assert kept.makespan_ns > found.makespan_ns
    graph = load(EXAMPLE)
    on, step = load_cluster(CLUSTERS[0]), choose_step(graph)
    priced = estimate(graph, on)
    plan = place(graph, on, priced, step=step, algorithm="heft", fallback=False)
    assert kept.makespan_ns == simulate(partition(graph, plan, on, step=step), on, priced).makespan


@pytest.mark.parametrize("option", ["cluster", "costs", "profile"])
def test_a_file_that_changed_under_its_name_is_another_question(option: str, tmp_path: Path) -> None:
    told = {
        "cluster": (b'[[host]]\nname = "box"\ngpus = "1 v100"\n', b'[[host]]\nname = "box"\ngpus = "1 k80"\n'),
        "costs": (b"node,kind,ns\ndense/MatMul,CPU,1000\n", b"node,kind,ns\ndense/MatMul,CPU,900000000\n"),
        "profile": (profiles()[0], profiles()[0].replace(b"dispatch = [150.0", b"dispatch = [9000.0")),
    }[option]
    named = tmp_path / "named"

    def asked(content: bytes) -> list[BenchRow]:
        named.write_bytes(content)
        of_step = () if option == "cluster" else ("--cluster", "ps=2,worker=1")
        output = str(tmp_path / "rows.csv")
        ignoring = ("--ignore-devices", "--algorithms", "single")
        return run_bench(read_bench([str(EXAMPLE), *of_step, f"--{option}", str(named), "-o", output, *ignoring]))

    first = asked(told[0])
    assert asked(told[0]) == first
    both = asked(told[1])
    assert len(both) == 2
    assert len({row.key.problem for row in both}) == 2
    assert both[0].makespan_ns != both[1].makespan_ns


def test_tensors_of_unknown_size_are_counted(tmp_path: Path) -> None:
    graph = tmp_path / "open.pbtxt"
    graph.write_text("""
        node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
          attr { key: "shape" value { shape { dim { size: 8 } dim { size: -1 } } } } }
        node { name: "y" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    """)
    asked = read_bench([str(graph), "--algorithms", "single", "-o", str(tmp_path / "rows.csv")])
    (row,) = run_bench(asked)
    assert row.unsized_tensors == run(graph, cluster="4gpu", algorithm="single").unsized.tensors > 0
    assert run_bench(asked) == [row]


def test_a_cluster_from_a_pipe_is_refused_as_each_graph_reads_it(asking: Asking) -> None:
    reading, writing = os.pipe()
    os.write(writing, b'[[host]]\nname = "box"\n')
    os.close(writing)
    with pytest.raises(SimvizError, match="can't be read again and again; give a file"):
        asking("--cluster", f"/dev/fd/{reading}")
    os.close(reading)


@pytest.mark.parametrize("where", ["processes", "dask", "whole lists"])
def test_several_at_once_find_the_same(asking: Asking, tmp_path: Path, where: str) -> None:
    alone = run_bench(asking("--algorithms", "single,heft"))
    request = replace(asking("--algorithms", "single,heft"), rows=str(tmp_path / "other.csv"), jobs=2)
    if where == "processes":
        found = run_bench(request)
    elif where == "whole lists":  # as of Ray's backend
        whole = type("Whole", (ThreadingBackend,), {"supports_return_generator": False})()
        with joblib.parallel_config(backend=whole):
            found = run_bench(request)
    else:
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster),
            joblib.parallel_config(backend="dask"),
        ):
            found = run_bench(request)
    assert timeless(found) == timeless(alone)


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: it takes 240 MB, and a minute to begin")
def test_a_cluster_of_ray_finds_the_same(asking: Asking, tmp_path: Path) -> None:
    alone = run_bench(asking("--algorithms", "single,heft"))
    request = replace(asking("--algorithms", "single,heft"), rows=str(tmp_path / "other.csv"), jobs=2)
    (tmp_path / "request").write_bytes(pickle.dumps(request))
    code = (
        "import joblib, pickle, ray, sys\n"
        "from ray.util.joblib import register_ray\n"
        "from viz import run_bench\n"
        "ray.init(num_cpus=2, include_dashboard=False)\n"
        "register_ray()\n"
        "with joblib.parallel_config(backend='ray'):\n"
        "    run_bench(pickle.loads(open(sys.argv[1], 'rb').read()))\n"
    )
    quiet = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", code, str(tmp_path / "request")]
    subprocess.run(command, env={**os.environ, **quiet}, check=True, capture_output=True)
    assert timeless(list(read_rows(request.rows))) == timeless(alone)


def test_a_file_of_another_kind_is_not_touched(asking: Asking) -> None:
    request = asking()
    for text in ("a,b\n1,2\n", "graph\n", "\0\n", ",".join(COLUMNS[::-1]) + "\n"):
        Path(request.rows).write_text(text)
        with pytest.raises(SimvizError, match=r"rows\.csv is no file of a bench"):
            run_bench(request)
        assert Path(request.rows).read_text() == text


def test_a_file_that_another_bench_writes_to_is_left_alone(asking: Asking) -> None:
    request = asking("--algorithms", "single")

    def again(said: str) -> None:
        run_bench(request)

    with pytest.raises(SimvizError, match="another bench writes to it"):
        run_bench(request, again)


@pytest.mark.parametrize("hidden", ["is_file", "scandir"])
def test_a_folder_that_hides_what_it_holds_is_refused(
    hidden: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is in it would be missing in the table without a word."""

    def refuse(path: object = ".", *_: object) -> bool:
        if hidden == "is_file" and path == tmp_path:
            return False
        raise PermissionError(13, "Permission denied", str(path))

    holder: object = Path if hidden == "is_file" else os
    monkeypatch.setattr(holder, hidden, refuse)
    assert main(["bench", str(tmp_path), "-o", str(tmp_path / "a.csv")]) == 2
    assert capsys.readouterr().err == f"simviz: {tmp_path} cannot be looked into: Permission denied\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "there is no such file or folder"),
        ([str(ROOT / "docs" / "decisions")], "a folder without a graph"),
        ([str(EXAMPLE), str(EXAMPLE)], "a second graph is called ps_training.pbtxt"),
        ([str(EXAMPLE), "-o", "x.html"], "none of .csv, .svg and .parquet"),
        ([str(EXAMPLE), "-o", "x.parquet", "-o", "y.parquet"], "-o y.parquet is a second one of its kind"),
        ([str(EXAMPLE), "--cluster", "3moons"], "no device model 'moons'"),
        ([str(EXAMPLE), "--budget", "much"], "--budget: 'much' is no budget"),
        ([str(EXAMPLE), "--jobs", "0"], "--jobs 0: give a number"),
        ([str(EXAMPLE), "--training", "async"], "There is no option --training"),
        ([], "required: FOLDER"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_run(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_the_table_and_writes_both_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["bench", str(EXAMPLE), "--cluster", CLUSTERS[0], "--algorithms", "single,heft", "-o", "profiles.svg"]
    assert main(given) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 rows on 1 problem.\nalgorithm ")
    assert out.endswith("Wrote bench.csv and profiles.svg.\n")
    assert len(read_rows("bench.csv")) == 2
    assert Path("profiles.svg").read_text().count("<text") > 10
    assert main([*given[:-2], "-o", "alone.csv"]) == 0
    assert capsys.readouterr().out.endswith("\nWrote alone.csv.\n")


def test_the_rows_as_parquet_are_those_of_the_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["bench", str(EXAMPLE), "--cluster", CLUSTERS[0], "--algorithms", "single,heft"]
    assert main([*given, "-o", "rows.csv", "-o", "profiles.svg", "-o", "rows.parquet"]) == 0
    assert capsys.readouterr().out.endswith("Wrote rows.csv, profiles.svg and rows.parquet.\n")
    table = parquet.read_table("rows.parquet")
    assert table.column_names == list(COLUMNS)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == [(*row.key, *astuple(row)[1:]) for row in read_rows("rows.csv")]
    kinds = dict(zip(table.schema.names, map(str, table.schema.types), strict=True))
    assert [kinds[name] for name in ("graph", "makespan_ns", "fits", "placing_s")] == [
        "string",
        "int64",
        "bool",
        "double",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_bench_that_is_stopped_leaves_its_rows_and_no_process(number: signal.Signals, tmp_path: Path) -> None:
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    for row in range(40):
        shutil.copy(EXAMPLE, graphs / f"{row}.pbtxt")
    marked = {**os.environ, "SIMVIZ_TEST_MARK": str(tmp_path)}
    given = ["bench", str(graphs), "--cluster", CLUSTERS[0], "--jobs", "2", "--algorithms", "single"]
    process = subprocess.Popen(
        [sys.executable, "-m", "viz", *given, "-o", str(tmp_path / "rows.csv")],
        cwd=ROOT,
        env=marked,
        stderr=-3,
        stdout=-3,
    )
    while not (tmp_path / "rows.csv").exists() or not read_rows(tmp_path / "rows.csv"):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(60) == (-9 if number == signal.SIGKILL else 128 + number)
    assert read_rows(tmp_path / "rows.csv")
    until = time.monotonic() + 60
    while alive(tmp_path) and time.monotonic() < until:
        time.sleep(0.2)
    assert alive(tmp_path) == []


def alive(mark: Path) -> list[str]:
    """Processes of this machine with the mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"SIMVIZ_TEST_MARK={mark}".encode() in (folder / "environ").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return found


def test_a_bench_that_is_stopped_leaves_no_folder_of_joblib(
    asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal between the making of a folder and the word to joblib's tracker left it in shared memory, empty."""
    folder = tmp_path / f"joblib_memmapping_folder_{os.getpid()}_a_b"
    other = tmp_path / f"joblib_memmapping_folder_{os.getpid() + 1}_a_b"

    def stopped(units: Sequence[Unit], jobs: int) -> Iterator[list[BenchRow]]:
        folder.mkdir()
        other.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "SHARED_MEMORY", str(tmp_path))
    monkeypatch.setattr(bench, "_answers", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_bench(asking("--jobs", "2"))
    assert not folder.exists()
    assert other.exists(), "it is another process's"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_or_a_device_among_the_graphs_is_refused_as_it_ends_once_or_never(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "zero.pb").symlink_to("/dev/zero")
    assert main(["bench", str(tmp_path), "-o", str(tmp_path / "a.csv")]) == 2
    assert "zero.pb is a pipe or a device, which can't be read again" in capsys.readouterr().err
    pipe = tmp_path / "pipe.pbtxt"
    os.mkfifo(pipe)
    assert main(["bench", str(pipe), "-o", str(tmp_path / "a.csv")]) == 2
    assert "pipe.pbtxt is a pipe or a device" in capsys.readouterr().err
