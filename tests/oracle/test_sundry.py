"""One graph of each kind that users bring keeps all laws; `benchmarks/pairwise.py` tries more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from simulator.execution.laws import check_trace
from simulator.laws import assignment_laws
from simulator.loading import load
from simulator.oracle.inference import compare_shapes
from simulator.partitioning.laws import partition_laws
from tests.oracle.sundry import GRAPHS, written
from viz import run

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return written(tmp_path_factory.mktemp("sundry"))


@pytest.mark.parametrize("cluster", ["2gpu", "ps=1,worker=2x2gpu"])
@pytest.mark.parametrize("kind", ["saved model", *GRAPHS])
def test_a_graph_of_each_kind_keeps_the_laws(graphs: Mapping[str, Path], kind: str, cluster: str) -> None:
    if kind == "jobs" and cluster == "2gpu":
        cluster = "ps=1,worker=1"  # it names them
    found = run(graphs[kind], cluster=cluster, algorithm="tensorflow", engine="python")
    assert not assignment_laws(found.graph, found.assignment, found.cluster)
    assert not partition_laws(found.graph, found.step, found.cluster, found.assignment, found.partitions)
    assert not check_trace(found.trace, found.partitions, found.cluster)
    assert found.trace.makespan >= found.bound.ns


@pytest.mark.parametrize("keep_calls", [False, True])
@pytest.mark.parametrize("kind", ["saved model", *GRAPHS])
def test_shapes_are_those_that_tensorflow_infers(graphs: Mapping[str, Path], kind: str, keep_calls: bool) -> None:
    found, refused = compare_shapes(load(graphs[kind], keep_calls=keep_calls))
    assert refused is None
    assert found.differences == ()
    assert found.of


@pytest.mark.parametrize("replicate", ["in", "between", "both", "allreduce:ring"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "loop"])
def test_shapes_of_a_replicated_graph_are_those_that_tensorflow_infers(
    graphs: Mapping[str, Path], kind: str, replicate: str
) -> None:
    graph = run(graphs[kind], cluster="ps=1,worker=2x2gpu", algorithm="tensorflow", replicate=replicate).graph
    found, refused = compare_shapes(graph)
    assert refused is None
    assert found.differences == ()
