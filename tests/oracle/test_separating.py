"""Steps of graphs that TensorFlow built, parted at their gradients and given accumulators."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from placement.placing import place
from simulator import choose_step, estimate, load_cluster, read_graph
from simulator.graph.graph import Graph
from simulator.graph.messages import GraphDef
from simulator.oracle import child
from simulator.oracle.dry_runs import dry_run
from simulator.training.programs.distributed import distributed
from simulator.training.programs.program import Program
from simulator.training.recognition.anatomy import anatomy
from simulator.training.recognition.parts import parts_of
from simulator.training.regimes import Regime

pytestmark = pytest.mark.tensorflow
CASES = [
    {"model": model, "optimizer": optimizer, "resource": resource, "ps": 2}
    for model, optimizer in (
        ("dense", "sgd"),
        ("convolution", "momentum"),  # moving averages, for which the updates wait
        ("recurrent", "adagrad"),
        ("embedding", "adam"),  # no op for sparse gradients: slots decay by hand
        ("embedding", "ftrl"),
    )
    for resource in (False, True)
]


@pytest.fixture(scope="module")
def built() -> list[tuple[Graph, str]]:
    told = json.loads(child.run("tests.oracle.training_models", json.dumps(CASES).encode(), timeout_s=240))
    return [(read_graph(GraphDef.FromString(base64.b64decode(one["graph"]))), one["train"]) for one in told]


def runs(program: Program) -> set[str]:
    step = choose_step(program.graph, feeds=program.feeds, fetches=program.fetches)
    return {name for name, run in zip(program.graph.names, step.runs.tolist(), strict=True) if run}


@pytest.mark.parametrize("at", range(len(CASES)), ids=["-".join(map(str, case.values())) for case in CASES])
def test_each_node_of_the_step_runs_and_what_writes_runs_once(built: list[tuple[Graph, str]], at: int) -> None:
    graph, train = built[at]
    fetches = [train.removesuffix(":0")]
    found = anatomy(graph, fetches=fetches)
    worker, *_, updates = distributed(graph, load_cluster("ps=2,worker=2"), regime=Regime("sync"), fetches=fetches)
    whole = {name for name, run in zip(graph.names, found.step.runs.tolist(), strict=True) if run}
    once, each = runs(updates), runs(worker)
    assert whole <= once | each
    tower = {graph.names[row] for row in parts_of(graph, found).tower}
    assert {name for name in once & tower if graph.ops[graph.row(name)] != "Const"} == set()
    assert updates.feeds == ()
    assert worker.feeds == found.step.feeds
    for name in once & each & whole:
        assert not any(kind in graph.ops[graph.row(name)] for kind in ("Assign", "Apply", "Scatter")), name


def test_tensorflow_places_what_was_added_as_we_do() -> None:
    graph = read_graph(Path(__file__).parents[2] / "examples" / "ps_training.pbtxt")
    cluster = load_cluster("ps=2,worker=2")
    made = distributed(graph, cluster, regime=Regime("sync"))[0].graph
    step = choose_step(made, fetches=["sync_replicas/train", "sync_replicas/tokens"])
    seen = dry_run(made, cluster, step=step)
    assert seen.refusal is None
    placed = place(made, cluster, estimate(made, cluster), step=step, algorithm="tensorflow")
    ours = {name: placed.name_of(row) for row, name in enumerate(made.names)}
    added = [name for name in ours if name.startswith("sync_replicas/")]
    assert len(added) > 50
    assert {name: seen.placement[name] for name in added} == {name: ours[name] for name in added}
