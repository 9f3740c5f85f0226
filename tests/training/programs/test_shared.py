"""Clients that share queues and accumulators, from the graphs that scripts write to the steps that they take."""

from __future__ import annotations

import pytest

from placement.sessions import clients
from simulator.cluster.description import load_cluster
from simulator.costs.estimate import estimate
from simulator.graph.graph import Graph
from simulator.training.programs.distributed import distributed
from simulator.training.regimes import Regime, read_regime
from simulator.training.train import train
from simulator.training.training import Training
from tests.strategies import Rows, type_attr, typed
from tests.training.programs.test_distributed import script
from tests.training.queues import INT64, const, queue, synchronised, types, variable

CLUSTER = "ps=1,worker=3,reader=1"
PS = "/job:ps/task:0"


def trained(given: Graph | list[tuple[str, Graph]], regime: Regime | None = None, steps: int = 10) -> Training:
    cluster = load_cluster(CLUSTER)
    programs = distributed(given, cluster, regime=regime)
    costs = [estimate(program.graph, cluster) for program in programs]
    made = clients(programs, cluster, costs, algorithm="tensorflow", flavour="master")
    return train(made, cluster, costs, regime=regime, steps=steps)


def reading(task: str, count: int) -> Graph:
    """A script of the reader or of a worker that takes `count` examples at a time from what the reader brings."""
    rows = Rows()
    queue(rows, "examples", device=PS, capacity=8)
    variable(rows, "w", device=PS)
    if task.startswith("/job:reader"):
        const(rows, "example", 1, dtype=INT64, device=task)
        rows.add("read", "QueueEnqueueV2", ["examples", "example"], device=PS, Tcomponents=types(INT64))
        return rows.built()
    taken = const(rows, "count", count, device=PS)
    rows.add("batch", "QueueDequeueManyV2", ["examples", taken], device=PS, component_types=types(INT64))
    rows.add("g", "Cast", ["batch"], device=task, SrcT=type_attr(INT64), DstT=type_attr())
    rows.add("rate", "Const", device=PS, **typed("Const", ()))
    rows.add("train", "ApplyGradientDescent", ["w", "rate", "g"], device=PS, T=type_attr())
    return rows.built()


def test_workers_wait_for_what_a_reader_brings_and_it_is_no_worker() -> None:
    """Four examples a step: the workers go as fast as one reader reads."""
    both = [("reader", reading("/job:reader/task:0", 1)), ("worker", reading("/job:worker/task:0", 4))]
    run = trained(both)
    assert run.clients == ("worker:0", "worker:1", "worker:2", "reader:0")
    assert run.is_worker.tolist() == [True, True, True, False]
    assert len(run.update_ns) == 30
    reads = int((run.step_client == 3).sum())
    assert 4 * 30 - 1 <= reads <= 4 * 30 + 3 * 4 + 8
    assert run.step_waiting_ns[run.step_client < 3].sum() > 0


def test_a_reader_runs_what_its_queue_runners_run_and_else_all_that_enqueues() -> None:
    graph = reading("/job:reader/task:0", 1)
    rows = Rows(list(graph.names), list(graph.ops), list(graph.requested))
    rows.inputs = [list(graph.inputs_of(row)) for row in range(len(graph))]
    rows.attrs = [dict(attrs) for attrs in graph.attrs]
    rows.add("by_hand", "QueueEnqueueV2", ["examples", "example"], device=PS, Tcomponents=types(INT64))
    worker = ("worker", reading("/job:worker/task:0", 4))

    def fetched(runners: tuple[str, ...]) -> tuple[str, ...]:
        given = [("reader", rows.built(queue_runners=runners)), worker]
        return distributed(given, load_cluster("ps=1,worker=1,reader=1"))[-1].fetches

    assert fetched(("read:0",)) == fetched(("read", "not_there")) == ("read",)
    assert fetched(()) == fetched(("not_there",)) == ("by_hand", "read")


def test_a_queue_that_nobody_fills_here_lets_nobody_wait() -> None:
    run = trained(reading("/job:worker/task:0", 4))
    assert len(run.update_ns) == 30
    assert not run.step_waiting_ns.any()


@pytest.mark.parametrize("regime", ["sync", "sync:tokens=0", "sync:aggregate=2", "sync:aggregate=5,tokens=2"])
def test_a_graph_given_accumulators_trains_as_one_that_has_them(regime: str) -> None:
    """An update takes at least what it aggregates; nobody hangs; what is late is dropped."""
    known = read_regime(regime)
    run = trained(script(), known)
    assert known is not None
    aggregate = known.aggregate or 3
    assert len(run.update_ns) == 10
    assert min(run.update_gradients.tolist()) >= aggregate
    if aggregate == 3 and known.tokens == 0:
        assert run.dropped == 0
    if aggregate < 3:
        assert run.dropped > 0


def test_a_graph_of_sync_replicas_trains_by_its_own_numbers() -> None:
    run = trained(synchronised(aggregate=2, handed=3, tokens=2))
    assert run.regime == "sync:aggregate=2,total=3,tokens=2"
    assert run.clients == ("worker:0", "worker:1", "worker:2", "worker:0 updates")
    assert len(run.update_ns) == 10
