"""What nobody uses changes nothing: tasks, devices, links and routes without work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placement import clients
from simulator import distributed, estimate_each, load, load_cluster, read_regime, train
from simulator.cluster.cluster import Cluster
from simulator.cluster.contention import CONTENTIONS
from simulator.costs.table import CostTable
from simulator.execution.options import SimulationOptions
from simulator.graph.graph import Graph
from simulator.training.clients import Client
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.training import ResourceUsage, Training

_STEPS = ("step_client", "step_number", "step_start_ns", "step_end_ns", "step_waiting_ns", "step_input_ns")
_UPDATES = ("update_ns", "update_client", "update_staleness", "update_gradients")
_SLOW = ("worker:0=slow:3", "worker:1=pause:every=20 ms,for=3 ms")  # noise is drawn by number of task
_CRASH = ("worker:1=crash:at=30 ms,for=5 ms,restore=1 ms", "link:ps:0->worker:0=traffic:100 MB/s,bytes=1 MiB")


@cache
def graph() -> Graph:
    return load("examples/ps_training.pbtxt")


@cache
def workload(spec: str, regime: str) -> tuple[Cluster, Sequence[CostTable], Sequence[Client]]:
    """A training that is placed, which takes longer than its run."""
    cluster = load_cluster(spec)
    programs = distributed(graph(), cluster, regime=read_regime(regime))
    costs = estimate_each(programs, cluster)
    return cluster, costs, clients(programs, cluster, costs)


def trained(spec: str, regime: str, options: SimulationOptions, texts: tuple[str, ...]) -> Training:
    cluster, costs, given = workload(spec, regime)
    asked = [read_disturbance(text) for text in texts]
    return train(given, cluster, costs, regime=read_regime(regime), steps=4, options=options, disturbances=asked)


def of_used(run: Training, usage: ResourceUsage, used: Training) -> dict[str, list[int]]:
    """The use of what `used` has, too, by name; the rest has none."""
    found: dict[str, list[int]] = {}
    for names, known, columns in (
        (run.tasks, used.tasks, ("task_ns",)),
        (run.devices, used.devices, ("device_busy_ns", "message_ns")),
        (run.links, used.links, ("link_bytes", "link_busy_ns")),
    ):
        for column in columns:
            rows = getattr(usage, column)
            found |= {f"{column} {name}": np.ravel(rows[at]).tolist() for at, name in enumerate(names) if name in known}
            idle = [at for at, name in enumerate(names) if name not in known]
            assert not np.any(rows[idle, :3] if column == "task_ns" else rows[idle]), column
    return found


@settings(max_examples=16, deadline=None)
@given(
    st.sampled_from(["ps=2,worker=3x1gpu", "ps=3,worker=2x2gpu"]),
    st.sampled_from(["spare=3x1gpu,{}", "{},spare=2"]),
    st.sampled_from(["async", "sync", "ssp:bound=1"]),
    st.sampled_from(CONTENTIONS),
    st.sampled_from(["fifo", "tensorflow"]),
    st.sampled_from([(), _SLOW, _CRASH]),
    st.sampled_from(["python", "compiled"]),
)
def test_tasks_that_nobody_uses_change_nothing(
    spec: str, more: str, regime: str, contention: str, order: str, texts: tuple[str, ...], engine: str
) -> None:
    options = SimulationOptions(order=order, contention=contention, engine=engine)
    alone = trained(spec, regime, options, texts)
    beside = trained(more.format(spec), regime, options, texts)
    for column in (*_STEPS, *_UPDATES, "cut_short", "end_ns", "dropped"):
        np.testing.assert_array_equal(getattr(alone, column), getattr(beside, column), err_msg=column)
    assert len(alone.samples) == len(beside.samples)
    for one, two in zip((*alone.samples, alone.usage), (*beside.samples, beside.usage), strict=True):
        assert of_used(alone, one, alone) == of_used(beside, two, alone)
    assert alone.trace is not None
    assert beside.trace is not None
    for column in ("kind", "of", "start_ns", "end_ns"):
        np.testing.assert_array_equal(getattr(alone.trace.tasks, column), getattr(beside.trace.tasks, column))
