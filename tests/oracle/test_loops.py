"""A real session runs each node of a loop or branch as often as we say, Sends and Recvs of dead values included."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simulator.cluster.description import load_cluster
from simulator.execution.laws import check_trace
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.execution.tables import of_partitions, of_step
from simulator.execution.trace import Trace
from simulator.graph import messages
from simulator.graph.graph_def import graph_def
from simulator.graph.importer import read_graph
from simulator.graph.inlining.expanding import inline
from simulator.graph.step import choose_step
from simulator.oracle import child
from simulator.oracle.timing import timed
from simulator.partitioning.cut import partition
from simulator.partitioning.partitions import Partitions
from tests.execution.cases import assigned, costs
from tests.execution.loops.cases import conditional, counting, live_counts, predicate, scalars
from tests.strategies import Rows, type_attr, typed

pytestmark = pytest.mark.tensorflow

HERE, THERE = "/device:CPU:0", "/device:CPU:1"
WITHOUT_A_LINE = {"NoOp", "_Send", "_Recv", "_HostSend", "_HostRecv"}  # in the statistics of a session


def begun() -> Rows:
    rows = Rows()
    rows.add("x", "Placeholder", device=HERE, **typed("Placeholder", ()))
    predicate(rows, "p", HERE)
    return rows


def plain() -> Rows:
    rows = begun()
    counting(rows, "loop", "x", 5, device=HERE)
    return rows


def nested() -> Rows:
    rows = begun()

    def body(value: str, pivot: str) -> str:
        return counting(rows, "inner", value, 2, device=HERE, inside=pivot)

    counting(rows, "outer", "x", 3, body, device=HERE)
    return rows


def branching() -> Rows:
    """The predicate is false: it is fed, and what is made up for it is."""
    rows = begun()
    conditional(rows, "cond", "x", "p", device=HERE, other=THERE)
    return rows


def untaken_loop() -> Rows:
    rows = begun()
    rows.add("s", "Switch", ["x", "p"], device=HERE, T=type_attr(), _output_shapes=scalars(2))
    counting(rows, "loop", "s:1", 4, device=HERE)
    return rows


def spread_loop() -> Rows:
    rows = begun()

    def body(value: str, _: str) -> str:
        return rows.add("far", "Neg", [value], device=THERE, **typed("Neg", ()))

    counting(rows, "loop", "x", 4, body, device=HERE)
    return rows


def spread_branches_in_a_loop() -> Rows:
    rows = begun()

    def body(value: str, _: str) -> str:
        return conditional(rows, "cond", value, "p/Enter", device=HERE, other=THERE)

    counting(rows, "loop", "x", 3, body, device=HERE)
    enter = {**rows.attrs[rows.names.index("loop/bound/Enter")], "T": rows.attrs[rows.names.index("p")]["dtype"]}
    rows.add("p/Enter", "Enter", ["p"], device=HERE, **enter)
    return rows


def spread_triangle() -> Rows:
    """The loop within runs 0, 1, 2 and 3 times, partly on another device."""
    rows = begun()

    def far(value: str, _: str) -> str:
        return rows.add("far", "Neg", [value], device=THERE, **typed("Neg", ()))

    def body(value: str, pivot: str) -> str:
        after = counting(rows, "inner", value, 0, far, device=HERE, inside=pivot)
        rows.inputs[rows.names.index("inner/bound/Enter")] = ["outer/i/Identity"]
        return after

    counting(rows, "outer", "x", 4, body, device=HERE)
    return rows


CASES = (plain, nested, branching, untaken_loop, spread_loop, spread_branches_in_a_loop, spread_triangle)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_every_node_runs_as_often_as_in_tensorflow(case: Callable[[], Rows]) -> None:
    graph, on = case().built(), load_cluster("cpu=2")
    used = {graph.names[row] for row in np.unique(graph.edge_src).tolist()}
    step = choose_step(
        graph, feeds=["x:0", "p:0"][: 1 + ("p" in used)], fetches=[n for n in graph.names if n not in ("x", "p")]
    )
    stats, why_not = timed(graph_def(graph), graph, step, counts={"CPU": 2, "GPU": 0}, step_timeout_s=20, timeout_s=60)
    assert stats is not None, why_not
    theirs = Counter(line.node_name for device in stats.dev_stats for line in device.node_stats)

    pieces = partition(graph, assigned(on, [int(name == THERE) for name in graph.requested]), on, step=step)
    branches = {"p": False} if "p" in used else {}
    tables, _ = of_partitions(pieces, on, costs(graph, on, 1000), SimulationOptions(branches=branches))
    trace = simulate(pieces, on, costs(graph, on, 1000), SimulationOptions(branches=branches))
    assert check_trace(trace, pieces, on) == []
    known = {
        name: op for name, op in zip(pieces.graph.names, pieces.graph.ops, strict=True) if op not in WITHOUT_A_LINE
    }
    ours = {name: count for name, count in live_counts(tables).items() if name in known}
    assert {name: count for name, count in theirs.items() if name != "_SOURCE"} == ours
    assert ours.items() >= {name: count for name, count in ran(trace, pieces).items() if name in known}.items()


def ran(trace: Trace, pieces: Partitions) -> Counter[str]:
    return Counter(pieces.graph.names[row] for row in trace.ops.node.tolist())


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """Functional control flow as TensorFlow 2 writes it, per model its GraphDef."""
    answer = json.loads(child.run("tests.oracle.lowering", b"", timeout_s=120, args=["build"]))
    return {name: messages.GraphDef.FromString(base64.b64decode(text)) for name, text in answer.items()}


@pytest.mark.parametrize("model", ["loops", "conditionals", "arrays", "arrays_of_version_1"])
def test_what_is_lowered_runs_as_often_too(models: dict[str, Any], model: str) -> None:
    graph, on = inline(read_graph(models[model])), load_cluster("cpu=3")
    step = choose_step(graph, fetches=graph.ends or None)
    stats, why_not = timed(models[model], graph, step, counts={"CPU": 3, "GPU": 0}, step_timeout_s=20, timeout_s=60)
    assert stats is not None, why_not
    theirs = Counter(line.node_name for device in stats.dev_stats for line in device.node_stats)
    tables = of_step(graph, step, on, costs(graph, on, 1000), SimulationOptions(branches={"p": False}))
    named = live_counts(tables).items()
    ours = {name: count for name, count in named if name in graph.index and graph.ops[graph.index[name]] != "NoOp"}
    assert len(ours) > 30
    assert {name: theirs[name] for name in ours} == ours
