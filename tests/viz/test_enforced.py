"""--order enforced: what is shown and written, the step that a file with the edges takes, and other steps of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator import SimvizError, read_graph
from simulator.graph.graph import Graph
from simulator.graph.purposes import preparing, updates
from simulator.graph.traversal import fan_in
from tests.oracle.test_order import SIDE, drawn, step_of
from tests.viz.scenes import EXAMPLE
from viz import run
from viz.command.cli import main
from viz.scene import Scene

ON_GPUS: dict[str, Any] = {"cluster": "worker=1x4gpu", "ignore_devices": True}
ENFORCED: dict[str, Any] = {**ON_GPUS, "order": "enforced"}
WITH_EDGES: dict[str, Any] = {**ENFORCED, "cluster": "cpu=3"}  # which make the step shorter there


@pytest.mark.parametrize("asked", [{}, {"algorithm": "heft"}, {"algorithm": "single"}, {"microbatches": 2}])
def test_the_written_graph_takes_as_long_in_tensorflows_order(asked: dict[str, Any], tmp_path: Path) -> None:
    found = run(EXAMPLE, **ENFORCED, **asked)
    path = tmp_path / "placed.pb"
    found.write(path)
    again = run(path, cluster="worker=1x4gpu", algorithm="requested", order="tensorflow", fetches=found.step.fetches)
    assert again.trace.makespan == found.trace.makespan
    waits = {(again.graph.names[first], again.graph.names[then]) for first, then in _controls(again.graph)}
    assert {(found.graph.names[first], found.graph.names[then]) for first, then in found.waits} <= waits


def _controls(graph: Graph) -> list[tuple[int, int]]:
    rows = np.flatnonzero(graph.edge_tensor < 0)
    return list(zip(graph.edge_src[rows].tolist(), graph.edge_dst[rows].tolist(), strict=True))


@pytest.mark.parametrize("cluster", ["worker=1x4gpu", "cpu=3", "ps=1,worker=2"])
def test_no_placement_of_a_search_attains_more_in_tensorflows_order(cluster: str) -> None:
    asked: dict[str, Any] = {"cluster": cluster, "ignore_devices": True, "budget": 2000}
    usual, found = run(EXAMPLE, **asked), run(EXAMPLE, **asked, order="enforced")
    assert found.enforced is not None
    assert found.trace.makespan <= (usual.tensorflow_order_ns or 0)
    assert found.trace.makespan <= run(EXAMPLE, **asked, order="tensorflow").trace.makespan
    assert found.tensorflow_order_ns is None
    if found.assignment.placed_on == usual.assignment.placed_on:
        assert found.enforced.planned_ns == usual.trace.makespan
        assert found.enforced.without_ns == usual.tensorflow_order_ns


def test_summary_page_and_json_say_what_was_enforced(tmp_path: Path) -> None:
    found = run(EXAMPLE, **WITH_EDGES)
    assert found.waits
    said = f"Order: enforced by {len(found.waits)} control edges; "
    assert said in found.summary()
    told = json.loads(found.to_json())["enforced_order"]
    assert told["control_edges"] == [[found.graph.names[a], found.graph.names[b]] for a, b in found.waits]
    assert found.enforced is not None
    assert told["makespan_without_ns"] == found.enforced.without_ns
    assert told["makespan_planned_ns"] == found.enforced.planned_ns
    assert json.loads(run(EXAMPLE, **ON_GPUS).to_json())["enforced_order"] is None
    assert "see --order enforced)" in run(EXAMPLE, **ON_GPUS).summary()


def test_where_it_gains_nothing_no_edge_is_added() -> None:
    found = run(EXAMPLE, cluster="cpu=1", ignore_devices=True, order="enforced")
    assert found.waits == []
    assert "Order: TensorFlow's, as no control edges make the step shorter; " in found.summary()


def test_what_if_and_against_enforce_in_each_of_their_steps() -> None:
    found = run(EXAMPLE, **ENFORCED, what_if="kept", against="heft")
    assert found.what_if is not None
    rows = {row.what: row.makespan_ns for row in found.what_if.rows}
    other = found.against
    assert isinstance(other, Scene)
    assert other.enforced is not None
    assert other.trace.makespan == run(EXAMPLE, **ENFORCED, algorithm="heft").trace.makespan
    assert rows


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--training", "async"], "--order enforced gives the ops of one step their turns; leave out options of"),
        (["--refine"], "leave out --refine, whose sessions run the graph as it is"),
        (["--recv-scheduling", "whitepaper"], "leave out --recv-scheduling, which gives Recvs theirs"),
    ],
)
def test_what_contradicts_it_is_refused(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(EXAMPLE), "--cluster", "ps=2,worker=2", "--order", "enforced", *words]) == 2
    assert reason in capsys.readouterr().err


def test_a_problem_of_others_has_no_order_to_enforce(tmp_path: Path) -> None:
    path = tmp_path / "problem.json"
    path.write_text('{"maxSizePerFPGA": 10, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [], "edges": []}')
    with pytest.raises(SimvizError):
        run(path, order="enforced")


def needed(graph: Graph, row: int) -> set[str]:
    return {graph.names[one] for one in np.flatnonzero(fan_in(graph, [row])).tolist()}


def test_other_steps_of_the_graph_prepare_and_evaluate_as_before(tmp_path: Path) -> None:
    found, path = run(EXAMPLE, **WITH_EDGES), tmp_path / "placed.pbtxt"
    found.write(path)
    graph, held = found.graph, read_graph(path)
    assert found.waits
    changing = {graph.names[row] for row in updates(graph)}
    prepares, outside = preparing(graph), np.flatnonzero(~found.step.runs).tolist()
    assert any(prepares[outside])
    for row in outside:
        before, after = needed(graph, row), needed(held, row)
        assert before <= after
        assert before & changing == after & changing
        if prepares[row]:
            assert before == after


def test_one_device_takes_the_place_of_a_plan_by_tensorflows_order_or_not() -> None:
    """In the order of the plan one device is quicker, and in TensorFlow's slower, which no edges change."""
    graph = drawn(3, 30)
    step = step_of(graph)
    asked: dict[str, Any] = {"cluster": "cpu=3", "algorithm": "m_topo", "fetches": step.fetches}
    asked["feeds"] = dict.fromkeys(step.feeds, (SIDE, SIDE))
    assert run(graph, **asked).assignment.used == "single"
    found = run(graph, **asked, order="enforced")
    assert found.assignment.used == "m_topo"
    assert found.trace.makespan == run(graph, **asked, order="tensorflow").trace.makespan
