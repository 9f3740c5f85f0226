"""Bounds of what devices hold that several clients share."""

from __future__ import annotations

import numpy as np

from placement import clients
from simulator import estimate_each, load_cluster, read_regime, replicate, simulate
from simulator.cluster.cluster import Cluster
from simulator.cluster.master import connected
from simulator.execution.trace import Trace
from simulator.training.answers.memory_bounds import MemoryBounds, memory_bounds
from simulator.training.clients import Client, once_each
from tests.viz.scenes import training_graph


def held(regime: str, count: int | None = None) -> tuple[MemoryBounds, Cluster, list[Trace]]:
    """Of the first so many of three workers' clients, and the steps that were asked for."""
    cluster = load_cluster("ps=2,worker=3x1gpu,protocol=rdma")
    programs = replicate(training_graph(), cluster, regime=read_regime(regime))
    costs = estimate_each(programs, cluster)
    made = clients(programs, cluster, costs)
    asked: list[Trace] = []

    def step_of(client: Client) -> Trace:
        priced = costs[made.index(client)]
        asked.append(simulate(client.partitions, connected(cluster, client.program.task), priced))
        return asked[-1]

    return memory_bounds(made[:count], cluster, once_each(made[:count], step_of)), cluster, asked


def test_a_server_holds_its_variables_once_and_the_gradients_of_each() -> None:
    (one, cluster, asked), (three, _, again) = held("async", 1), held("async")
    assert len(asked) == len(again) == 1  # the workers are alike
    servers = [row for row, device in enumerate(cluster.devices) if "/job:ps/" in device.name]
    alone, all_of_them = (one.most_bytes - one.resident_bytes, three.most_bytes - three.resident_bytes)
    assert all_of_them[servers].tolist() == (3 * alone[servers]).tolist()
    assert alone[servers].max() > 10**7  # the gradient of the largest variable
    assert three.clients[servers].max() == 3
    for row in servers:  # but for small constants, which each session has
        assert one.resident_bytes[row] <= three.resident_bytes[row] < one.resident_bytes[row] + 3_000
    mine, other = (
        cluster.index["/job:worker/replica:0/task:0/device:GPU:0"],
        cluster.index["/job:worker/replica:0/task:2/device:GPU:0"],
    )
    assert three.most_bytes[mine] == one.most_bytes[mine] == three.most_bytes[other] > 0
    assert three.clients[mine] == three.clients[other] == 1


def test_no_step_exceeds_the_bound_and_it_has_what_is_resident() -> None:
    for regime in ("async", "sync:aggregate=2"):
        found, _, asked = held(regime)
        assert len(asked) == (1 if regime == "async" else 2)  # and the chief's updates
        for trace in asked:
            assert (trace.peak_bytes <= found.most_bytes).all()
        assert (found.resident_bytes <= found.most_bytes).all()
        assert (np.max([trace.resident_bytes for trace in asked], axis=0) <= found.resident_bytes).all()


def test_a_server_holds_the_sum_of_each_accumulator_between_steps() -> None:
    """The mean of an update is handed out while gradients of the next one are added up already."""
    found, cluster, (worker, updates) = held("sync:aggregate=2")
    assert worker.allocations is not None
    assert updates.allocations is not None
    of_steps = int(3 * worker.allocations.nbytes.sum() + updates.allocations.nbytes.sum())
    graph = replicate(training_graph(), cluster, regime=read_regime("sync:aggregate=2"))[-1].graph
    taken = [row for row, op in enumerate(graph.ops) if op == "AccumulatorTakeGradient"]
    sums = sum(int(graph.tensor_bytes[graph.tensor_ptr[row]]) for row in taken)
    assert sums > 10**7
    assert int((found.most_bytes - found.resident_bytes).sum()) == of_steps + sums
    assert int(found.sums_bytes.sum()) == sums
