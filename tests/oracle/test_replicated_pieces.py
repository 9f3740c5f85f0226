"""Replicated graphs beside TensorFlow's placer and partitioner: every way, on clusters of stand-in workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from placement import place
from simulator import choose_step, estimate, load_cluster
from simulator.cluster.master import connected
from simulator.graph.graph import Graph
from simulator.oracle.child import Asking
from simulator.oracle.dry_runs import conversation, dry_run, extended
from simulator.oracle.verification import differences
from simulator.training.programs.replicated import replicate
from simulator.training.regimes import read_regime
from tests.oracle.test_setter import built

pytestmark = pytest.mark.tensorflow

WAYS = [
    ("between", "ps=2,worker=2x1gpu", "async"),
    ("in", "ps=1,worker=2x1gpu", "none"),
    ("in", "worker=2", "async"),
    ("both", "ps=2,worker=1x2gpu", "async"),
    ("allreduce:ring", "worker=3", "none"),
    ("allreduce:tree", "worker=1x3gpu", "none"),
    ("allreduce:hierarchical", "worker=2x2gpu", "none"),
]


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    with conversation() as asking:
        yield asking


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    """A model whose gradients are dense and sparse, of reference and of resource variables."""
    cases = [{"model": "embedding", "optimizer": "adam", "resource": resource, "ps": 0} for resource in (False, True)]
    return [graph for graph, _ in built(cases)]


@pytest.mark.parametrize(("how", "cluster", "regime"), WAYS)
def test_tensorflow_places_and_cuts_a_replicated_graph_as_we_do(
    ask: Asking, graphs: list[Graph], how: str, cluster: str, regime: str
) -> None:
    for graph in graphs:
        there = load_cluster(cluster)
        program = replicate(graph, there, how=how, regime=read_regime(regime), batch=4)[-1]  # type: ignore[arg-type]
        on = extended(connected(there, program.task))
        step = choose_step(program.graph, feeds=program.feeds, fetches=program.fetches)
        assignment = place(program.graph, on, estimate(program.graph, on), step=step, algorithm="tensorflow")
        seen = dry_run(program.graph, on, step=step, asking=ask)
        assert seen.refusal is None
        placement, cut = differences(program.graph, on, assignment, step, seen)
        assert (placement.agree, cut.agree) == (placement.of, cut.of), (placement.differences, cut.differences)
        assert placement.of == len(program.graph)
