"""Graphs that TensorFlow's SyncReplicasOptimizer made are understood: who runs what, by which numbers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from placement.sessions import clients
from simulator.cluster.description import load_cluster
from simulator.costs.estimate import estimate
from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.graph.importer import read_graph
from simulator.training.programs.distributed import distributed
from simulator.training.recognition.sync_ops import APPLY, DEQUEUE, ENQUEUE, TAKE, find, joined
from simulator.training.recognition.sync_replicas import regime_of, sync_replicas
from simulator.training.regimes import Regime
from simulator.training.train import train
from tests.oracle.forking import printed
from tests.training.queues import cut

pytestmark = pytest.mark.tensorflow
CLUSTER = "ps=2,worker=4"
CASES: list[dict[str, Any]] = [
    {"resource": False, "aggregate": 3, "total": 4, "tokens": -1, "averages": False},
    {"resource": True, "aggregate": 3, "total": 4, "tokens": 1, "averages": False},
    {"resource": False, "aggregate": 6, "total": 4, "tokens": 2, "averages": False},
    {"resource": False, "aggregate": 4, "total": 4, "tokens": 0, "averages": True},
]
KNOWN = [Regime("sync", 3, 4, 3), Regime("sync", 3, 4, 1), Regime("sync", 6, 4, 2), Regime("sync", 4, 4, 4)]

PLAIN = {"resource": False, "aggregate": None}  # the same model without synchronisation


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    lines = printed("tests.oracle.synchronising", json.dumps([*CASES, PLAIN]))
    assert len(lines) == len(CASES) + 1
    return [json.loads(line) for line in lines]


def graph_of(case: dict[str, Any]) -> Graph:
    return read_graph(base64.b64decode(case["meta"]))


@pytest.mark.parametrize("place", range(len(CASES)))
def test_who_runs_what_by_which_numbers(told: list[dict[str, Any]], place: int) -> None:
    case, known = told[place], KNOWN[place]
    programs = distributed(graph_of(case), load_cluster(CLUSTER))
    *workers, updates = programs
    assert [one.name for one in programs] == [*(f"worker:{at}" for at in range(4)), "worker:0 updates"]
    assert {one.fetches for one in workers} == {(case["train"].removesuffix(":0"),)}
    assert {one.examples for one in workers} == {32}
    assert {one.counts for one in workers} == {()}
    assert updates.counts == ("Adam",)
    assert updates.feeds == ()
    if CASES[place]["averages"]:  # the runner's op comes after the enqueue
        assert set(case["updates"]) == set(updates.fetches)
    else:
        assert updates.fetches == tuple(case["updates"])
    # without an op for them the graph does not say how many tokens there are at first: as many as are aggregated
    assert regime_of(None, programs) == known


def test_all_programs_share_three_accumulators_and_a_queue(told: list[dict[str, Any]]) -> None:
    programs = distributed(graph_of(told[0]), load_cluster(CLUSTER))
    found = joined([find(cut(one.graph, CLUSTER, one.fetches, "master")) for one in (programs[0], programs[-1])])
    assert [sorted(op.kind for op in one.ops) for one in found] == [[APPLY] * 3 + [DEQUEUE], [TAKE] * 3 + [ENQUEUE]]
    names = {op.key.name for one in found for op in one.ops}
    assert names == {"w:0/grad_accum", "b:0/grad_accum", "table:0/grad_accum", "sync_token_q"}
    assert [op.amount for op in found[1].ops if op.kind == ENQUEUE] == [4]


def test_its_numbers_are_its_own(told: list[dict[str, Any]]) -> None:
    graph = graph_of(told[0])
    with pytest.raises(GraphError, match="has aggregate=3 written into it"):
        distributed(graph, load_cluster(CLUSTER), regime=Regime("sync", aggregate=2))
    with pytest.raises(GraphError, match="written for 4 replicas, but 3 workers"):
        distributed(graph, load_cluster("ps=2,worker=3"))
    held = sync_replicas(graph)
    assert held is not None
    assert graph.ops[held.wait] == "QueueDequeueV2"


@pytest.mark.parametrize("place", [0, 2])
def test_what_we_add_trains_as_what_tensorflow_adds(told: list[dict[str, Any]], place: int) -> None:
    """The plain model with our accumulators takes the time of TensorFlow's own, but for an op or two."""
    cluster, known = load_cluster(CLUSTER), KNOWN[place]
    runs = []
    for case in (told[place], told[-1]):
        programs = distributed(graph_of(case), cluster, regime=known)
        costs = [estimate(program.graph, cluster) for program in programs]
        made = clients(programs, cluster, costs, algorithm="tensorflow", flavour="master")
        runs.append(train(made, cluster, costs, regime=known, steps=30))
    theirs, ours = runs
    assert ours.update_gradients.tolist() == theirs.update_gradients.tolist()
    assert ours.dropped == pytest.approx(theirs.dropped, rel=0.1)
    assert ours.end_ns == pytest.approx(theirs.end_ns, rel=0.01)
