from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from placement import place
from simulator import choose_step, estimate, load_cluster, partition
from simulator.assignment import COST, Assignment
from simulator.cluster.cluster import Cluster
from simulator.columns import ids
from simulator.errors import OracleError
from simulator.graph.graph import Graph
from simulator.oracle import check, child, extended
from simulator.oracle.checking import differences
from simulator.oracle.measurement import STAND_INS, Measurement
from tests.oracle.test_local import string_const
from tests.oracle.test_standin import training
from tests.strategies import Rows, loop, typed

pytestmark = pytest.mark.tensorflow


def checked(graph: Graph, cluster: Cluster, algorithm: str | list[int], mode: str) -> dict[str, Any]:
    step = choose_step(graph)
    if isinstance(algorithm, str):
        assignment = place(graph, cluster, estimate(graph, cluster), step=step, algorithm=algorithm, fallback=False)
    else:
        assignment = by_hand(graph, cluster, algorithm)
    cut = partition(graph, assignment, cluster, step=step)
    return check(graph, cluster, assignment, cut, step, mode=mode)


def by_hand(graph: Graph, cluster: Cluster, devices: list[int]) -> Assignment:
    names = tuple(device.name for device in cluster.devices)
    return Assignment(names, ids(devices), ids([COST] * len(graph)), "by hand", "by hand")


def looping() -> Graph:
    """A loop, and within it a small constant with two readers, which the cut copies to the device of each."""
    rows = Rows()
    rows.add("x", "Const", **typed("Const"))
    exit_ = loop(rows, start="x")
    rows.add("shared", "Mul", [exit_, "x"], **typed("Mul"))
    rows.add("while/again", "Mul", ["while/limit", "while/Switch:1"], **typed("Mul"))
    return rows.built()


def agrees(found: dict[str, Any]) -> bool:
    placement, cut = found["placement"], found["partition"]
    return bool(placement["agree"] == placement["of"] > 0 and cut["agree"] == cut["of"] > 0)


def test_a_pinned_placement_is_accepted_and_cut_alike_on_cpus() -> None:
    graph = looping()
    found = checked(graph, load_cluster("cpu=3"), [row % 3 for row in range(len(graph))], "pin")
    assert json.loads(json.dumps(found)) == found
    assert found["oracle"] == "local session"
    assert (found["refused"], found["differences"]) == (None, [])
    assert agrees(found)
    assert found["laws"] == []
    assert found["partition"]["of"] > len(graph)  # transfers and control loops count too


def test_a_pinned_placement_is_accepted_and_cut_alike_on_a_cluster() -> None:
    graph = training()
    found = checked(graph, load_cluster("ps=1,worker=2x2gpu"), "heft", "pin")
    assert found["oracle"] == "stand-in workers"
    assert (found["refused"], found["differences"]) == (None, [])
    assert agrees(found)


def test_what_the_graph_asks_for_is_predicted_for_the_extended_cluster() -> None:
    found = checked(training(), extended(load_cluster("ps=1,worker=2x2gpu")), "requested", "predict")
    assert agrees(found)


def test_a_wrong_prediction_is_counted_and_shown_with_both_sides() -> None:
    graph = training()
    cluster = load_cluster("cpu=2")
    moved = replace(graph, requested=("",) * len(graph))
    found = checked(moved, cluster, [1] * len(graph), "predict")
    assert found["placement"] == {"agree": 0, "of": len(graph)}
    assert found["partition"]["agree"] < found["partition"]["of"]
    first = found["differences"][0]
    assert (first["node"], first["ours"][-5:], first["theirs"][-5:]) == ("v", "CPU:1", "CPU:0")
    assert first["rule"] == "chosen by cost"


def test_a_reader_of_a_reference_apart_from_its_variable_is_moved_back_and_shown() -> None:
    graph, cluster = training(), load_cluster("ps=1,worker=1x1gpu")
    gpu = cluster.index["/job:worker/replica:0/task:0/device:GPU:0"]
    found = checked(graph, cluster, [0, 0, 0, 0, gpu, 0], "pin")
    assert found["placement"] == {"agree": 5, "of": 6}
    assert found["differences"][0]["node"] == "update"


def test_a_refusal_is_reported_and_agrees_nowhere() -> None:
    rows = Rows()
    string_const(rows, "text", "no GPU holds strings")
    rows.add("after", "NoOp", ["^text"])
    graph, cluster = rows.built(), load_cluster("ps=1,worker=1x1gpu")
    gpu = cluster.index["/job:worker/replica:0/task:0/device:GPU:0"]
    found = checked(graph, cluster, [gpu, 0], "pin")
    assert "Cannot assign a device for operation text" in found["refused"]
    assert found["placement"] == {"agree": 0, "of": 2}
    assert found["partition"]["agree"] == 0 < found["partition"]["of"]
    assert found["differences"] == []
    assert "where Const has no kernel" in found["laws"][0]


def test_a_recorded_answer_is_compared_without_tensorflow() -> None:
    graph, cluster = training(), load_cluster("ps=1,worker=1x1gpu")
    ours = by_hand(graph, cluster, [0] * len(graph))
    cut = partition(graph, ours, cluster, step=choose_step(graph))
    seen = Measurement(STAND_INS, "2.21.0", {name: ours.name_of(0) for name in graph.names})
    placement, pieces = differences(graph, ours, cut, seen)
    assert placement.agree == placement.of == len(graph)
    assert pieces.agree == 0


def test_a_missing_tensorflow_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finder that comes first, in the child too, finds no tensorflow."""
    hidden = "import sys; sys.modules['tensorflow'] = None; "
    monkeypatch.setattr(child, "_START", hidden + child._START)
    with pytest.raises(OracleError, match=r'pip install "simviz\[tensorflow\]"'):
        checked(training(), load_cluster("ps=1,worker=1"), [0] * 6, "pin")


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="predict, pin"):
        checked(training(), load_cluster("cpu=2"), [0] * 6, "guess")
