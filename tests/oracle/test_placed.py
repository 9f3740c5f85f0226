"""-o placed.pbtxt: TensorFlow imports the graph, runs it, and places every node as it is written, hard placement."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from placement import Plan, Problem
from simulator import read_graph
from simulator.comparison.placement_log import read_log
from simulator.errors import OracleError
from simulator.oracle import child
from tests.oracle.staying import staying
from viz import run
from viz.command.cli import main

pytestmark = pytest.mark.tensorflow
CPUS = 3


def spread(problem: Problem) -> Plan:
    """The groups in turn, over all devices that each may use."""
    return Plan([allowed[row % len(allowed)] for row, allowed in enumerate(problem.allowed)])


def bound_elsewhere(problem: Problem) -> Plan:
    """All on one device, but for a constant with which a loop compares its counter, and the way into the loop."""
    graph, group = problem.graph, problem.constraints.group
    apart = {group[row] for row, name in enumerate(graph.names) if name in ("bound", "while/Less/Enter")}
    return Plan([int(row in apart) for row in range(len(problem.allowed))])


# kind -> (feeds, fetches, whether calls or control flow are nodes of the file as well)
RUNS: dict[str, tuple[dict[str, list[int]], list[str], str]] = {
    "references": ({"x:0": [4, 32]}, ["train"], ""),
    "old_loop": ({"x:0": [16, 16]}, ["while/Exit_1:0"], ""),
    "function": ({"x:0": [16, 16], "positive:0": []}, ["Identity:0"], "calls are expanded"),
    "new_loop": ({"x:0": [16, 16]}, ["Identity:0"], "calls are expanded"),
    "queues": ({}, ["batches_enqueue"], ""),
}
BOUNDED = {"x:0": [16, 16]}, ["while/Exit_1:0"], ""


@pytest.fixture(scope="module")
def kinds() -> dict[str, bytes]:
    told = json.loads(child.run("tests.oracle.kinds", json.dumps([*RUNS, "bounded_loop"]).encode(), timeout_s=300))
    return {name: base64.b64decode(raw) for name, raw in told.items()}


def asked(raw: bytes, kind: str, *, meta: bool = False, timeout_ms: int = 60_000) -> dict[str, Any]:
    """With `meta` its queue runners fill the queue, and the train op runs."""
    feeds, fetches, _ = {**RUNS, "bounded_loop": BOUNDED}[kind]
    fetches = ["GradientDescent"] if meta else fetches
    initialise = [name for name in read_graph(raw).names if name.endswith("/Assign")]
    question = {"graph": base64.b64encode(raw).decode(), "cpus": CPUS, "meta": meta, "initialise": initialise}
    question |= {"feeds": feeds, "fetches": fetches, "timeout_ms": timeout_ms}
    found: dict[str, Any] = json.loads(staying("tests.oracle.running_placed")(json.dumps(question).encode(), 120))
    return found


@pytest.mark.parametrize("suffix", ["pb", "pbtxt"])
@pytest.mark.parametrize("kind", RUNS)
def test_tensorflow_places_each_node_as_it_is_written(kinds: Any, tmp_path: Path, kind: str, suffix: str) -> None:
    path = tmp_path / f"placed.{suffix}"
    found = run(kinds[kind], cluster=f"cpu={CPUS}", algorithm=spread)
    found.write(path)
    written = read_graph(path)
    assert set(written.requested) <= set(found.assignment.devices)
    assert len(set(written.requested)) == CPUS
    assert set(read_graph(kinds[kind]).names) <= set(written.names)
    told = asked(bytes(binary(path)), kind)
    seen = read_log(told["log"], "log")
    assert seen.ambiguous == ()
    assert {name: seen.placement.get(name) for name in written.names} == dict(
        zip(written.names, written.requested, strict=True)
    )


def binary(path: Path) -> bytes:
    """The graph of either form as a binary GraphDef."""
    from simulator.graph.graph_def import graph_def

    return bytes(graph_def(read_graph(path)).SerializeToString())


def test_what_is_computed_stays_the_same(kinds: Any, tmp_path: Path) -> None:
    path = tmp_path / "placed.pb"
    run(kinds["old_loop"], cluster=f"cpu={CPUS}", algorithm=spread).write(path)
    before, after = (asked(raw, "old_loop")["values"] for raw in (kinds["old_loop"], path.read_bytes()))
    assert before == pytest.approx(after)


def test_a_loop_ends_whose_constant_bound_comes_from_another_device(kinds: Any, tmp_path: Path) -> None:
    """Grappler puts the bound into the loop on the device of its Enter, where nothing learned of a second iteration."""
    path = tmp_path / "placed.pb"
    run(kinds["bounded_loop"], cluster=f"cpu={CPUS}", algorithm=bound_elsewhere).write(path)
    written = read_graph(path)
    assert written.requested[written.row("bound")].endswith("CPU:1")
    before, after = (asked(raw, "bounded_loop")["values"] for raw in (kinds["bounded_loop"], path.read_bytes()))
    assert before == pytest.approx(after)


@pytest.mark.parametrize(
    ("pins", "ends"),
    [
        ({"while/Less/Enter": "CPU:1"}, False),
        ({"while/Less/Enter": "CPU:1", "while/Tanh": "CPU:1"}, True),  # which learns of each iteration
        ({"while/matmul/Enter": "CPU:1"}, True),  # what is fed is no constant
        ({"bound": "CPU:1"}, True),
    ],
)
def test_a_loop_that_tensorflow_never_ends_is_told(
    kinds: Any, tmp_path: Path, pins: dict[str, str], ends: bool
) -> None:
    path = tmp_path / "placed.pb"
    found = run(kinds["bounded_loop"], cluster=f"cpu={CPUS}", algorithm="tensorflow", pins=pins)
    found.write(path)
    assert (not found.trace.endless) == ends
    said = found.summary().splitlines()[0]
    assert ("Pin 'while/Less/Enter' to the device of 'while/LoopCond'" in said) != ends
    if ends:
        assert asked(path.read_bytes(), "bounded_loop")["values"]
        return
    with pytest.raises(OracleError, match="Timed out waiting for notification"):
        asked(path.read_bytes(), "bounded_loop", timeout_ms=5_000)


def test_a_meta_graph_keeps_its_collections_and_trains(kinds: Any, tmp_path: Path) -> None:
    path = tmp_path / "placed.meta"
    found = run(kinds["queues"], cluster=f"cpu={CPUS}", algorithm=spread)
    found.write(path)
    written, given = read_graph(path), read_graph(kinds["queues"])
    assert (written.train_ops, written.queue_runners) == (given.train_ops, given.queue_runners)
    seen = read_log(asked(path.read_bytes(), "queues", meta=True)["log"], "log").placement
    assert {name: seen.get(name) for name in written.names} == dict(zip(written.names, written.requested, strict=True))


def test_the_users_own_graph_is_written_where_nothing_was_expanded(
    kinds: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, (_, _, words) in RUNS.items():
        source, path = tmp_path / kind, tmp_path / f"{kind}.pb"
        source.write_bytes(kinds[kind])
        assert main([str(source), "--cluster", "2gpu", "--verbose", "-o", str(path)]) == 0
        wrote = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("wrote"))
        assert (words in wrote) if words else wrote == f"wrote      {path}"
        given, written = read_graph(source), read_graph(path)
        if not words:
            assert (written.names, written.ops) == (given.names, given.ops)
            assert [written.inputs_of(row) for row in range(len(written))] == [
                given.inputs_of(row) for row in range(len(given))
            ]


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("old_loop.pb", "the graph is read from it; choose another name"),
        ("placed.meta", "is no MetaGraph, or was rewritten, so it has no collections to write. Use .pb or .pbtxt"),
    ],
)
def test_what_cannot_be_written_is_refused(
    kinds: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str, words: str
) -> None:
    source = tmp_path / "old_loop.pb"
    source.write_bytes(kinds["old_loop"])
    assert main([str(source), "--cluster", "2gpu", "-o", str(tmp_path / output)]) == 2
    assert words in capsys.readouterr().err
    assert source.read_bytes() == kinds["old_loop"]
    assert not (tmp_path / "placed.meta").exists()
