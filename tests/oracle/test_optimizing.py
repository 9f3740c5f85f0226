"""Graphs that Grappler makes for devices which are only described, beside those that real sessions run."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

import viz
from simulator.cluster.description import load_cluster
from simulator.costs.estimates.fusion import fused
from simulator.costs.table import MEASURED
from simulator.errors import GraphError, OracleError, SimvizError
from simulator.graph.step import choose_step
from simulator.loading import flat, load
from simulator.oracle import child
from simulator.oracle.optimizing import optimized
from simulator.shapes.filling import with_shapes
from tests.oracle import optimized_sessions
from tests.strategies import Rows, shape_attr, type_attr, typed

pytestmark = pytest.mark.tensorflow

ONE_GPU = "1v100-16gb"


@pytest.fixture(scope="module")
def programs() -> dict[str, tuple[bytes, dict[str, Any]]]:
    """By name: the GraphDef, and what is known of it; with the RunMetadata of a step under "trace"."""
    facts, graphs = child.unpack(child.run("tests.oracle.optimized_sessions", b"", timeout_s=120))
    told, traces = facts["programs"], graphs[len(facts["programs"]) :]
    return {
        one["name"]: (graph, {**one, "trace": trace})
        for one, graph, trace in zip_longest(told, graphs[: len(told)], traces)
    }


@pytest.mark.parametrize("name", [make.__name__ for make in optimized_sessions.RUN])
def test_a_session_runs_the_nodes_that_are_predicted(programs: Any, name: str) -> None:
    """Loops, branches, trainings: each node by its name, on a cluster of one processor."""
    content, told = programs[name]
    graph = flat(content)
    found = optimized(graph, load_cluster("worker=1"), choose_step(graph, fetches=told["fetches"]))
    ours = {(name, op) for name, op in zip(found.names, found.ops, strict=True) if op not in ("Placeholder", "NoOp")}
    assert ours == {(name, op) for name, op in told["ran"] if op not in ("Placeholder", "NoOp")}
    assert len(found) < len(graph)
    assert optimized(graph, load_cluster("worker=1"), choose_step(graph, fetches=told["fetches"])).names == found.names


def test_kernels_that_are_priced_as_one_are_those_that_grappler_joins(programs: Any) -> None:
    content, told = programs["joined"]
    graph = load(content)
    ours = fused(graph)
    found = optimized(graph, load_cluster(ONE_GPU), choose_step(graph, fetches=told["fetches"]))
    becomes = dict(zip(found.names, found.ops, strict=True))
    joined = [
        node
        for node, (name, op) in enumerate(zip(graph.names, graph.ops, strict=True))
        if (op == "Relu" and becomes.get(name) != "Relu") or (op in ("BiasAdd", "AddV2") and name not in becomes)
    ]
    named = [graph.names[node] for node in sorted((*ours.without_reads, *ours.additions))]
    assert named == [graph.names[node] for node in joined]
    assert len(named) == 2 * 5 + 2 + 2 * 2


def test_images_get_the_layout_of_the_described_gpu(programs: Any) -> None:
    """Before tensor cores a GPU wants the channels first, in float32; sizes stay known, and axes follow."""
    content, told = programs["convolutions"]
    graph = flat(content)
    step = choose_step(graph, fetches=told["fetches"])
    for cluster, form in ((ONE_GPU, b"NCHW"), ("worker=1", b"NHWC")):
        made = with_shapes(optimized(graph, load_cluster(cluster), step), batch=4)
        forms = {attrs["data_format"].s for op, attrs in zip(made.ops, made.attrs, strict=True) if "Conv2D" in op}
        assert forms == {form}
        unknown = [made.tensor_name(row) for row, size in enumerate(made.tensor_bytes.tolist()) if size < 0]
        assert not unknown


def test_requested_devices_stay(programs: Any) -> None:
    content, told = programs["convolutions"]
    graph = flat(content)
    requested = tuple("/device:GPU:1" if "second" in name else "" for name in graph.names)
    found = optimized(
        replace(graph, requested=requested), load_cluster("4gpu"), choose_step(graph, fetches=told["fetches"])
    )
    asked = {name: device for name, device in zip(found.names, found.requested, strict=True) if device}
    assert set(asked.values()) == {"/device:GPU:1"}
    assert {name for name in found.index if "second" in name and name in graph.index} < asked.keys()
    assert any(name not in graph.index for name in asked), "a transpose before the second convolution"


def test_the_command_runs_the_optimized_step(programs: Any) -> None:
    content, told = programs["convolutions"]
    plain = viz.run(content, cluster=ONE_GPU, algorithm="tensorflow", fetches=told["fetches"], batch=4)
    found = viz.run(content, cluster=ONE_GPU, algorithm="tensorflow", fetches=told["fetches"], batch=4, grappler=True)
    assert found.step.fetches == plain.step.fetches
    assert found.step.feeds == plain.step.feeds
    assert "_FusedConv2D" in found.graph.ops
    assert found.step.runs.sum() < plain.step.runs.sum()
    assert any("Grappler made" in note for note in found.graph.notes)
    again = viz.run(
        content, cluster=ONE_GPU, algorithm="single", fetches=told["fetches"], batch=4, grappler=True, what_if=True
    )
    assert again.what_if is not None


def test_what_tensorflow_does_not_take_is_said() -> None:
    for op, dtype, said in (("OpOfNobody", type_attr(), "OpOfNobody"), ("Neg", shape_attr(2), "AttrValue")):
        made = Rows()
        made.add("a", "Placeholder", **typed("Placeholder", (2,)))
        made.add("b", op, ["a"], T=dtype)
        graph = made.built()
        with pytest.raises(OracleError, match=f"TensorFlow does not optimize the graph: .*{said}"):
            optimized(graph, load_cluster("4gpu"), choose_step(graph))


@pytest.mark.parametrize("name", [make.__name__ for make in optimized_sessions.RUN])
def test_times_of_a_session_match_the_nodes_that_it_runs(programs: Any, name: str, tmp_path: Path) -> None:
    """Of the graph as it is they match fewer: the session runs other nodes."""
    content, told = programs[name]
    (tmp_path / "trace.pb").write_bytes(told["trace"])
    found = {
        grappler: viz.run(
            content,
            cluster="worker=1",
            algorithm="tensorflow",
            fetches=told["fetches"],
            batch=2,
            costs=tmp_path / "trace.pb",
            grappler=grappler,
        )
        for grappler in (False, True)
    }
    measured = {at: (one.costs.source[one.step.runs] == MEASURED).mean() for at, one in found.items()}
    assert measured[True] >= max(0.75, measured[False] + 0.1)
    assert not [note for note in found[True].costs.notes if "not in the graph" in note]


@pytest.mark.parametrize("cluster", ["2gpu", "ps=1,worker=2x1gpu"])
def test_pins_other_batches_and_a_second_run_go_together_with_it(programs: Any, cluster: str) -> None:
    content, told = programs["convolutions"]
    device = {"2gpu": "GPU:1", "ps=1,worker=2x1gpu": "worker:1/GPU:0"}[cluster]
    found = viz.run(
        content,
        cluster=cluster,
        algorithm="tensorflow",
        order="tensorflow",
        fetches=told["fetches"],
        batch=6,
        pins={"second": device},
        against="single",
        grappler=True,
    )
    names = {found.graph.names[row]: found.cluster.devices[at].short for row, at in enumerate(found.assignment.device)}
    assert names["second"].endswith(device)
    assert "_FusedConv2D" in found.graph.ops
    assert found.difference is not None
    assert not (found.graph.tensor_bytes < 0).any()
    assert (6, 16, 16, 3) in found.graph.tensor_shape


def test_only_placeholders_are_fed(programs: Any) -> None:
    content, told = programs["convolutions"]
    with pytest.raises(GraphError, match=r"Relu is fed, but is no placeholder.*or leave out"):
        viz.run(
            content, cluster=ONE_GPU, fetches=told["fetches"], feeds={"Relu:0": (4, 16, 16, 8)}, batch=4, grappler=True
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"check": True}, "leave out --check, which asks TensorFlow about the graph as it is"),
        ({"training": "async"}, "leave out options of trainings"),
        ({"observe": True}, "leave out --observe and --observation"),
        ({"microbatches": 2}, "leave out --microbatches"),
        ({"refine": True}, "leave out --refine, whose sessions optimize by themselves"),
    ],
)
def test_options_that_want_the_graph_as_it_is_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SimvizError, match=said):
        viz.run("no file", grappler=True, **options)
