"""Graphs with calls, as they are: TensorFlow lowers, places and cuts them by itself, and we say what comes of it."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from placement import place
from simulator import estimate, partition
from simulator.cluster.description import load_cluster
from simulator.graph import messages
from simulator.graph.graph import Graph
from simulator.graph.importer import read_graph
from simulator.graph.inlining.expanding import inline, lower
from simulator.graph.step import choose_step
from simulator.oracle import child
from simulator.oracle.child import Asking
from simulator.oracle.dry_runs import extended
from simulator.oracle.verification import check
from tests.oracle.lowering import KEPT

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def models() -> Any:
    """Per model its GraphDef."""
    answer = json.loads(child.run("tests.oracle.lowering", b"", timeout_s=120, args=["build"]))
    return {name: messages.GraphDef.FromString(base64.b64decode(text)) for name, text in answer.items()}


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    """One TensorFlow for all questions."""
    with child.conversation("simulator.oracle.session") as asking:
        yield asking


def checked(graph: Graph, named: str, asking: Asking, *, soft: bool = True, algorithm: str = "tensorflow") -> Any:
    """What `check` says of a graph of which all is run that nobody reads; where calls were expanded, before that."""
    last = graph.ends or [node.name for node in graph.nodes() if graph.out_ptr[node.id] == graph.out_ptr[node.id + 1]]
    cluster, step = extended(load_cluster(named)), choose_step(graph, fetches=last)
    assignment = place(graph, cluster, estimate(graph, cluster), step=step, algorithm=algorithm, soft=soft)
    pieces = partition(graph, assignment, cluster, step=step)
    mode = "predict" if algorithm == "tensorflow" else "pin"
    return check(graph, cluster, assignment, pieces, step, mode=mode, soft=soft, asking=asking)


def assert_agrees(found: Any, count: int) -> None:
    assert not found["differences"]
    assert found["refused"] is None
    assert not found["laws"]
    assert found["placement"]["raw"] == found["placement"]["of"] == count
    assert found["partition"]["agree"] == found["partition"]["of"]
    assert found["bodies"] == 0


@pytest.mark.parametrize("cluster", ["cpu=3", "ps=1,worker=2x2gpu"])
@pytest.mark.parametrize("model", KEPT)
def test_every_node_of_tensorflows_log_is_foreseen(models: Any, asking: Asking, model: str, cluster: str) -> None:
    graph = lower(read_graph(models[model]))
    found = checked(graph, cluster, asking)
    assert_agrees(found, len(graph))
    assert found["log_order"] == {"agree": len(graph), "of": len(graph)}


@pytest.mark.parametrize("model", ["conditionals", "calls", "ends"])
def test_hard_placement_too(models: Any, asking: Asking, model: Any) -> None:
    assert_agrees(checked(graph := lower(read_graph(models[model])), "cpu=3", asking, soft=False), len(graph))


@pytest.mark.parametrize("model", ["calls", "ends"])
def test_what_is_pinned_is_handed_over_lowered(models: Any, asking: Asking, model: Any) -> None:
    assert_agrees(
        checked(graph := lower(read_graph(models[model])), "cpu=3", asking, algorithm="whitepaper"), len(graph)
    )


@pytest.mark.parametrize("model", ["rewritten", "calls"])
def test_a_flat_graph_is_rewritten_too(models: Any, asking: Asking, model: Any) -> None:
    assert_agrees(checked(graph := lower(inline(read_graph(models[model]))), "cpu=3", asking), len(graph))
