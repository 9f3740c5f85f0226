"""Steps with a hub under what else a person may ask for: pins, parameter servers, orders, --what-if, microbatches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement import Plan, Problem
from placement.search.hubs import hubs_of
from simulator import SimulationOptions, simulate
from simulator.execution.laws import check_trace
from simulator.graph.graph_def import graph_def
from simulator.graph.messages import AttrValue
from simulator.laws import assignment_laws
from simulator.partitioning.laws import partition_laws
from tests.placement.search.test_hubs import made, names_of
from tests.strategies import Rows, colocation, shape_attr, shapes_attr, type_attr, typed, types_attr
from tests.training.pipelines.chain import axes, constant
from tests.training.programs.test_between import variable
from viz import run
from viz.command.library import Result
from viz.formats.drawing import draw

BATCH, WIDTH, DEPTH, HUB = 64, 512, 3, "gradients"
CLUSTERS = ("2gpu", "4gpu", "worker=2x2gpu", "ps=1,worker=2x2gpu", "ps=2,worker=1x3gpu", "ps=1,worker=2")


def experts(count: int) -> bytes:
    """So many chains of products of one batch, whose gradients pass through one identity to the updates of weights."""
    rows, one = Rows(), type_attr()
    wide, square, alone = shapes_attr((BATCH, WIDTH)), shapes_attr((WIDTH, WIDTH)), shapes_attr(())
    rows.add("x", "Placeholder", dtype=one, shape=shape_attr(BATCH, WIDTH), _output_shapes=wide)
    rows.add("rate", "Const", **typed("Const"))
    rows.add("axes", "Const", dtype=type_attr(3), value=axes(0, 1), _output_shapes=shapes_attr((2,)))
    rows.add("examples", "Const", dtype=one, value=constant(BATCH * WIDTH), _output_shapes=alone)
    grads, weights = [], []
    flip = AttrValue(b=True)
    for at in range(count):
        before = ["x"]
        for depth in range(DEPTH):
            weights.append(f"w{at}_{depth}")
            variable(rows, weights[-1], WIDTH, WIDTH)
            inputs = [before[-1], f"{weights[-1]}/read"]
            before.append(rows.add(f"product{at}_{depth}", "MatMul", inputs, T=one, _output_shapes=wide))
        rows.add(f"squares{at}", "Square", [before[-1]], T=one, _output_shapes=wide)
        rows.add(f"loss{at}", "Mean", [f"squares{at}", "axes"], T=one, Tidx=type_attr(3), _output_shapes=alone)
        back = rows.add(f"share{at}", "RealDiv", [before[-1], "examples"], T=one, _output_shapes=wide)
        found = []
        for depth in reversed(range(DEPTH)):
            inputs = [before[depth], back]
            found.append(
                rows.add(f"grad{at}_{depth}", "MatMul", inputs, T=one, transpose_a=flip, _output_shapes=square)
            )
            inputs = [back, f"w{at}_{depth}/read"]
            if depth:
                back = rows.add(f"back{at}_{depth}", "MatMul", inputs, T=one, transpose_b=flip, _output_shapes=wide)
        grads += found[::-1]
    shapes = shapes_attr(*[(WIDTH, WIDTH)] * len(grads))
    rows.add(HUB, "IdentityN", grads, T=types_attr(*[1] * len(grads)), _output_shapes=shapes)
    for port, weight in enumerate(weights):
        inputs = [weight, "rate", f"{HUB}:{port}" if port else HUB]
        rows.add(f"update_{weight}", "ApplyGradientDescent", inputs, T=one, _class=colocation(weight))
    rows.add("train", "NoOp", [f"^update_{weight}" for weight in weights])
    content: bytes = graph_def(rows.built()).SerializeToString(deterministic=True)
    return content


def asked(on: str, **how: Any) -> Result:
    given: dict[str, Any] = {"cluster": on, "algorithm": "search", "budget": 60} | how
    return run(experts(4), **given)


def lawful(scene: Result) -> bool:
    """It keeps the laws of assignment, pieces and trace, and is no faster than its bound."""
    broken = [
        *assignment_laws(scene.graph, scene.assignment, scene.cluster),
        *partition_laws(scene.graph, scene.step, scene.cluster, scene.assignment, scene.partitions),
        *check_trace(scene.trace, scene.partitions, scene.cluster),
    ]
    return broken == [] and scene.trace.makespan >= scene.bound.ns


@pytest.mark.parametrize(("on", "found"), [*((on, [HUB]) for on in CLUSTERS[:-1]), (CLUSTERS[-1], [])])
def test_the_step_has_a_hub_where_devices_lie_beside_cpus(on: str, found: list[str]) -> None:
    seen: list[str] = []

    def look(problem: Problem) -> Plan:
        decisions = made(problem)
        seen.extend(np.array(names_of(decisions))[hubs_of(decisions)].tolist())
        return Plan([allowed[0] for allowed in problem.allowed])

    asked(on, algorithm=look)
    assert seen == found


PINNED = st.dictionaries(
    st.sampled_from([HUB, "product0_0", "product1_2", "grad2_1", "w0_0", "w3_1"]),
    st.sampled_from(["CPU:0", "GPU:0", "GPU:1"]),
    max_size=4,
)


@settings(deadline=None, max_examples=4)
@given(st.sampled_from(CLUSTERS[:5]), PINNED, st.sampled_from(["auto", "fifo", "tensorflow"]), st.integers(0, 2))
def test_a_search_keeps_pins_and_is_no_worse_than_other_algorithms(
    on: str, pinned: dict[str, str], order: str, seed: int
) -> None:
    task = "worker:0/" if "worker" in on else "localhost:0/"
    pins = {name: task + device for name, device in pinned.items()}
    scene = asked(on, pins=pins, order=order, seed=seed)
    assert lawful(scene)
    assert {name: short_of(scene, name) for name in pins} == pins
    assert scene.to_json() == asked(on, pins=pins, order=order, seed=seed).to_json()
    for name in ("single", "heft", "m_topo", "tensorflow"):
        other = asked(on, algorithm=name, budget=None, pins=pins, order=order, seed=seed)
        assert other.out_of_memory or scene.trace.makespan <= other.trace.makespan


def short_of(scene: Result, name: str) -> str:
    short: str = scene.cluster.devices[scene.assignment.device[scene.graph.index[name]]].short
    return short


@settings(deadline=None, max_examples=4)
@given(st.sampled_from(CLUSTERS[:5]), st.integers(0, 2))
def test_a_placement_that_is_written_and_read_takes_as_long(on: str, seed: int) -> None:
    scene = asked(on, order="fifo", seed=seed)
    placed = draw(scene, ".pb")
    assert isinstance(placed, bytes)
    again = run(placed, cluster=on, algorithm="requested", order="fifo", soft=False)
    assert again.assignment.device.tolist() == scene.assignment.device.tolist()
    assert again.trace.makespan == scene.trace.makespan


@pytest.mark.parametrize("on", CLUSTERS[1:5])
def test_rows_of_what_if_are_runs_on_the_kept_placement(on: str) -> None:
    scene = asked(on, what_if=True)
    assert scene.what_if is not None
    rows = {row.after: row.makespan_ns for row in scene.what_if.rows if row.what in ("contention", "protocol")}
    for contention in ("fair", "none"):
        options = SimulationOptions(contention=contention)
        assert simulate(scene.partitions, scene.cluster, scene.costs, options).makespan == rows[contention]


@settings(deadline=None, max_examples=4)
@given(st.sampled_from(CLUSTERS[:5]), st.sampled_from([2, 4]), st.sampled_from(["1f1b", "gpipe"]))
def test_microbatches_of_a_step_with_a_hub_keep_the_laws(on: str, microbatches: int, order: str) -> None:
    """Each variable is updated once, by what comes through one hub."""
    scene = asked(on, algorithm=None, budget=None, microbatches=microbatches, pipeline=order)
    assert lawful(scene)
    assert sum(op == "ApplyGradientDescent" for op in scene.graph.ops) == 4 * DEPTH
