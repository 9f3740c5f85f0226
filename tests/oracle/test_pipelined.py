"""Pipelined graphs in a real session: they update the variables as the original does with the whole batch."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import pytest

from placement import place
from simulator import estimate, load_cluster, read_graph
from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.inlining.expanding import inline, lower
from simulator.graph.messages import GraphDef
from simulator.graph.op_classes import VARIABLES
from simulator.graph.step import choose_step
from simulator.oracle import child
from simulator.oracle.verification import check
from simulator.partitioning.cut import partition
from simulator.shapes.filling import with_shapes
from simulator.training.pipelines.building import Pipeline
from simulator.training.pipelines.orders import Order
from simulator.training.pipelines.pipelined import pipeline
from tests.oracle.pipelined_models import BATCH
from tests.oracle.test_replicated import near

pytestmark = pytest.mark.tensorflow

CASES: list[tuple[str, str, int]] = [  # loss, optimizer, batch (0: open)
    ("mean", "momentum", BATCH),
    ("mean", "adam", 0),
    ("losses", "sgd", BATCH),
    ("losses", "adagrad", 0),
    ("divided", "sgd", BATCH),
    ("sized", "momentum", 0),
    ("penalised", "momentum", BATCH),
    ("mean", "clipped", BATCH),
    ("iterator", "sgd", BATCH),
    ("active", "sgd", 0),
    ("open labels", "sgd", BATCH),
]
SUMS = [("sum", "sgd", BATCH), ("both", "sgd", BATCH), ("both", "momentum", 0), ("active", "sgd", BATCH)]
STEPS = 2


@pytest.fixture(scope="module")
def graphs() -> list[tuple[Graph, str, str]]:
    """Per case, and per sum: the graph with the shapes of the whole batch, its train op, and its initialiser."""
    asked = [{"model": one, "optimizer": by, "batch": batch} for one, by, batch in [*CASES, *SUMS]]
    told = json.loads(child.run("tests.oracle.pipelined_models", json.dumps(asked).encode(), timeout_s=240))
    read = [
        with_shapes(lower(inline(read_graph(GraphDef.FromString(base64.b64decode(one["graph"]))))), batch=BATCH)
        for one in told
    ]
    return [(graph, one["train"], one["init"]) for graph, one in zip(read, told, strict=True)]


def made(graph: Graph, train: str, at: int) -> Pipeline:
    order: Order = "1f1b" if at % 2 else "gpipe"
    count, stages = (2, 3, 4, 6)[at % 4], (2, 3)[at // 2 % 2]
    return pipeline(graph, load_cluster("3gpu"), microbatches=count, order=order, stages=stages, fetch=[train])


def fed(step: int) -> dict[str, Any]:
    random = Random(step)

    def drawn(*shape: int) -> Any:
        return [drawn(*shape[1:]) for _ in range(shape[0])] if shape else random.uniform(-1, 1)

    return {"x:0": drawn(BATCH, 6, 6, 2), "y:0": [random.randrange(4) for _ in range(BATCH)]}


def question(graph: Graph, train: str, init: str, reads: list[str], steps: int) -> dict[str, Any]:
    given = graph_def(graph, devices=[""] * len(graph)).SerializeToString()
    feeds = "x" in graph.index
    return {
        "graph": base64.b64encode(given).decode(),
        "init": init,
        "steps": [{"fetches": (train,), "feeds": fed(at) if feeds else {}} for at in range(steps)],
        "reads": reads,
    }


def test_a_batch_that_the_caller_gave_is_changed_again_beside_drawn_classes() -> None:
    """The drawn ones seemed to be those of the whole batch less a microbatch, and their constant number was refused."""
    asked = [{"model": "sampled", "optimizer": "sgd", "batch": 0}]
    (told,) = json.loads(child.run("tests.oracle.pipelined_models", json.dumps(asked).encode(), timeout_s=240))
    given = read_graph(GraphDef.FromString(base64.b64decode(told["graph"])))
    graph = pipeline(with_shapes(given, batch=BATCH), load_cluster("2gpu"), microbatches=4, fetch=[told["train"]]).graph
    numbers = [made for made in graph.names if made.endswith("nce_loss/sub_1_grad/Reshape_1")]
    assert {graph.tensor_shape[graph.tensor_ptr[graph.row(name)]] for name in numbers} == {(5,)}


def test_microbatches_update_the_variables_as_the_whole_batch_does(graphs: list[tuple[Graph, str, str]]) -> None:
    questions = []
    for at, (graph, train, init) in enumerate(graphs[: len(CASES)]):
        reads = [name for name, op in zip(graph.names, graph.ops, strict=True) if op in VARIABLES]
        ours = made(graph, train, at)
        questions += [
            question(graph, train, init, reads, STEPS),
            question(graph, train, init, reads, 0),
            question(ours.graph, train, init, reads, STEPS),
        ]
    answers = json.loads(child.run("tests.oracle.training_runs", json.dumps(questions).encode(), timeout_s=240))
    for at, case in enumerate(CASES):
        whole, before, ours = answers[3 * at : 3 * at + 3]
        moved = sum(not near(one, other) for one, other in zip(whole, before, strict=True))
        assert moved >= 6, case  # five weights and the step
        names = questions[3 * at]["reads"]
        assert [n for n, one, other in zip(names, whole, ours, strict=True) if not near(one, other)] == [], case


def test_tensorflow_accepts_the_devices_of_stages_and_cuts_the_graph_alike(
    graphs: list[tuple[Graph, str, str]],
) -> None:
    cluster = load_cluster("3gpu")
    for at in (0, 2):
        graph, train, _ = graphs[at]
        ours = made(graph, train, at).graph
        step, costs = choose_step(ours, fetches=[train]), estimate(ours, cluster)
        assignment = place(ours, cluster, costs, step=step, algorithm="heft")
        pieces = partition(ours, assignment, cluster, step=step)
        found = check(ours, cluster, assignment, pieces, step, mode="pin")
        assert (found["differences"], found["laws"], found["refused"]) == ([], [], None)


def test_a_sum_over_the_batch_is_refused(graphs: list[tuple[Graph, str, str]]) -> None:
    """Beside a mean it went without a word, also a mean by a constant that only its own part of the loss shows."""
    for at, (graph, train, _) in enumerate(graphs[len(CASES) :]):
        with pytest.raises(GraphError, match="loss is no mean over the batch" if at else "its loss is no mean over"):
            made(graph, train, 0)
