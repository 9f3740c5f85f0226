"""The library is the command: the lines of docs/walk.md, `viz.run` and the command agree on every kind of graph."""

import base64
import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from placement import place
from simulator import choose_step, estimate, load, load_cluster, partition, read_graph, simulate
from simulator.cluster.device_strings import default_cluster
from simulator.errors import UnsupportedError
from simulator.oracle import child
from simulator.shapes.filling import with_shapes
from tests.oracle.forking import printed
from tests.oracle.kinds import KINDS
from tests.oracle.staying import staying
from viz import run
from viz.command.cli import main

pytestmark = pytest.mark.tensorflow
ROOT = Path(__file__).parents[2]
CALLS = ("saved_model", "keras_model", "function", "new_loop")  # kinds that hold calls


@pytest.fixture(scope="module")
def kinds() -> dict[str, bytes]:
    told = json.loads(child.run("tests.oracle.kinds", json.dumps([*KINDS]).encode(), timeout_s=300, keras=True))
    return {name: base64.b64decode(raw) for name, raw in told.items()}


def command(*arguments: str) -> dict[str, Any]:
    """The JSON of a call of the command, in this process."""
    out = SimpleNamespace(buffer=io.BytesIO())
    with contextlib.redirect_stdout(out):  # what the command uses of it
        assert main([*arguments, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(out.buffer.getvalue())
    return found


def seven_lines(source: object, cluster: str | None = None, algorithm: str = "search", **how: Any) -> int:
    """The lines of docs/walk.md; the makespan."""
    graph = load(source, **how)
    step = choose_step(graph, feeds=tuple(how.get("feeds", ())))
    on = default_cluster(graph) if cluster is None else load_cluster(cluster)
    costs = estimate(graph, on)
    assignment = place(graph, on, costs, step=step, algorithm=algorithm)
    return simulate(partition(graph, assignment, on, step=step), on, costs).makespan


@pytest.mark.parametrize("cluster", [None, "2gpu", "ps=1,worker=2x2gpu"])
@pytest.mark.parametrize("kind", KINDS)
def test_lines_call_and_command_agree(kinds: Any, tmp_path: Path, kind: str, cluster: str | None) -> None:
    """By the search of the default on the graph's own devices, and by a list scheduler, which is quick, elsewhere."""
    path = tmp_path / "graph"
    path.write_bytes(kinds[kind])
    how = {} if cluster is None else {"cluster": cluster, "algorithm": "heft"}
    told = command(str(path), *(f"--{name}={value}" for name, value in how.items()))
    called = run(path, **how)  # type: ignore[arg-type]  # keywords
    assert json.loads(called.to_json()) == told
    assert seven_lines(path, **how) == called.trace.makespan == told["makespan_ns"] > 0


@pytest.mark.parametrize("kind", ["saved_model", "keras_model", "references"])
def test_batches_and_feeds_mean_the_same(kinds: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "graph"
    path.write_bytes(kinds[kind])
    raw = read_graph(path)
    name = next(name for name, op in zip(raw.names, raw.ops, strict=True) if op == "Placeholder")
    shape = (64, *{"saved_model": (8,), "keras_model": (12, 12, 1), "references": (32,)}[kind])
    by, feeds = ("--algorithm", "heft"), {name: shape}  # it is quick
    batched = command(str(path), *by, "--batch", "64")["makespan_ns"]
    fed = command(str(path), *by, "--feed", f"{name}={','.join(map(str, shape))}")["makespan_ns"]
    assert seven_lines(path, algorithm="heft", batch=64) == batched
    assert run(path, algorithm="heft", batch=64).trace.makespan == batched
    assert seven_lines(path, algorithm="heft", feeds=feeds) == fed
    assert run(path, algorithm="heft", feeds=feeds).trace.makespan == fed
    assert batched > run(path, algorithm="heft").trace.makespan


@pytest.mark.parametrize("kind", CALLS)
def test_a_graph_with_calls_is_refused_unless_they_are_kept_on_purpose(kinds: Any, tmp_path: Path, kind: str) -> None:
    raw, cluster = with_shapes(read_graph(kinds[kind])), load_cluster("2gpu")
    step, costs = choose_step(raw), estimate(raw, cluster)
    with pytest.raises(UnsupportedError, match=r"would count as one op.*load\(\).*keep_calls=True"):
        place(raw, cluster, costs, step=step, algorithm="whitepaper")
    path = tmp_path / "graph"
    path.write_bytes(kinds[kind])
    kept = run(path, cluster="2gpu", keep_calls=True)
    told = command(str(path), "--cluster", "2gpu", "--keep-calls")
    assert seven_lines(path, "2gpu", keep_calls=True) == kept.trace.makespan == told["makespan_ns"]
    headline = next(line for line in kept.summary(verbose=True).splitlines() if line.startswith("makespan"))
    calls = told["counts"]["kept_calls"]
    assert calls == 0 or re.search(rf"without the bodies of {calls} calls?, single nodes here", headline)
    assert calls > 0 or kind in ("function", "new_loop")  # what TensorFlow itself lowers is no call any more
    assert "without the bodies" not in run(path, cluster="2gpu").summary(verbose=True)


def test_without_tensorflow_the_same_comes_out_where_the_file_says_shapes(kinds: Any, tmp_path: Path) -> None:
    """As in an environment that has none: in a process that cannot import it. The algorithm is quick."""
    files = {}
    for kind in ("references", "queues", "old_loop"):
        files[kind] = tmp_path / kind
        graph = told_shapes(kinds[kind])
        files[kind].write_bytes(graph)
    code = (
        "import sys, json; sys.modules['tensorflow'] = None\n"
        "from importlib import util; find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'tensorflow' else find(name, *rest)\n"
        "from viz import run; from tests.oracle.test_library import seven_lines\n"
        "print(json.dumps([[run(p, algorithm='heft').trace.makespan, seven_lines(p, algorithm='heft')]\n"
        "                  for p in sys.argv[1:]]))"
    )
    line = [sys.executable, "-c", code, *map(str, files.values())]
    done = subprocess.run(line, capture_output=True, text=True, check=True, cwd=ROOT)
    here = [[run(path, algorithm="heft").trace.makespan] * 2 for path in files.values()]
    assert json.loads(done.stdout.splitlines()[-1]) == here


def told_shapes(raw: bytes) -> bytes:
    """The graph with the shapes that TensorFlow infers written into it, as a user exports it with `add_shapes`."""
    return staying("tests.oracle.adding_shapes")(raw, 120)


def test_what_tensorflow_holds_in_memory_can_be_handed_over() -> None:
    """In a process of its own: here TensorFlow is never loaded."""
    (makespan,) = printed("tests.oracle.held_in_memory")
    assert int(makespan) > 0
