"""Answers of simulated runs: their laws, a longer run begins as a shorter one, known bottlenecks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simulator
from simulator.cluster.cluster import Cluster
from simulator.partitioning.cut import partition
from simulator.training.answers.answers import answers, until_ci
from simulator.training.answers.bottleneck import Bottleneck, bottleneck
from simulator.training.answers.reliefs import Relief, relieve
from simulator.training.answers.scaling import scale
from simulator.training.clients import Client
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.programs.program import Program
from simulator.training.regimes import Regime, read_regime
from simulator.training.train import train
from simulator.training.training import Training
from tests.execution.cases import apart, assigned, costs
from tests.strategies import INT32, Rows, type_attr, typed
from tests.training.alike import anew
from tests.training.workloads import Priced, chain

FLOAT = 4  # bytes that a hop of a chain carries


def trained(workload: Sequence[Priced], on: Cluster, steps: int, regime: Regime | None = None, *said: str) -> Training:
    disturbances = [read_disturbance(text) for text in said]
    clients, tables = [one for one, _ in workload], [priced for _, priced in workload]
    return train(clients, on, tables, regime=regime, steps=steps, disturbances=disturbances)


@st.composite
def drawn_clients(draw: st.DrawFn) -> tuple[Cluster, list[Priced], list[list[tuple[int, int]]]]:
    """Chains over the tasks of a cluster of one link per pair or a bus, and their stages."""
    on = apart(4, shared=draw(st.booleans()))
    stage = st.tuples(st.integers(0, 3), st.integers(1, 200))
    stages = draw(st.lists(st.lists(stage, min_size=1, max_size=4), min_size=1, max_size=3))
    workload = [chain(on, f"worker:{k}", one, task=k, examples=8) for k, one in enumerate(stages)]
    return on, workload, stages


@settings(max_examples=25)
@given(drawn_clients(), st.integers(1, 12))
def test_laws_of_runs(case: tuple[Cluster, list[Priced], list[list[tuple[int, int]]]], steps: int) -> None:
    on, workload, stages = case
    run = trained(workload, on, steps)
    found = answers(run)
    assert np.allclose(found.shares.sum(axis=1), 1)
    assert sum(found.staleness.values()) == len(run.update_ns) == len(run.step_end_ns) == steps * len(workload)
    assert ((found.link_share >= 0) & (found.link_share <= 1)).all()
    assert ((found.device_share >= 0) & (found.device_share <= 1)).all()
    # A chain sends a float at each change of device: all of the steps that ended, perhaps all of one more each.
    hops = np.array([sum(a != b for (a, _), (b, _) in pairwise(one)) for one in stages])
    ended = np.bincount(run.step_client, minlength=len(workload))
    assert FLOAT * (ended * hops).sum() <= run.usage.link_bytes.sum() <= FLOAT * ((ended + 1) * hops).sum()


@settings(max_examples=16)
@given(drawn_clients(), st.integers(1, 6), st.sampled_from(["async", "ssp:bound=1"]))
def test_a_longer_run_begins_as_the_shorter_one(
    case: tuple[Cluster, list[Priced], list[list[tuple[int, int]]]], steps: int, regime: str
) -> None:
    on, workload, _ = case
    short, long = (trained(workload, on, count, read_regime(regime)) for count in (steps, 2 * steps))
    for name in ("update_ns", "update_client", "update_staleness", "step_client", "step_start_ns", "step_end_ns"):
        one, other = getattr(short, name), getattr(long, name)
        assert one.tolist() == other[: len(one)].tolist()


def busy_ps(workers: int, *, ps_ns: int = 300) -> tuple[Cluster, list[Priced]]:
    """Each worker computes for 400 ns, then the ps for each of them for `ps_ns`; a hop takes 104 ns."""
    on = apart(workers + 1)
    return on, [chain(on, f"worker:{k}", [(k, 400), (0, ps_ns)], task=k) for k in range(1, workers + 1)]


def judged(
    on: Cluster, workload: list[Priced], regime: Regime | None = None, *said: str
) -> tuple[Training, Bottleneck]:
    run = trained(workload, on, 40, regime, *said)
    clients, tables = [one for one, _ in workload], [priced for _, priced in workload]
    disturbances = [read_disturbance(text) for text in said]

    def rerun(relief: Relief) -> Training:
        other, priced, left = relieve(on, tables, disturbances, relief)
        return train(clients, other, priced, regime=regime, steps=20, disturbances=left)

    return run, bottleneck(run, on, rerun, disturbances)


def test_a_busy_parameter_server_is_the_bottleneck() -> None:
    """Four workers ask for 1200 ns of work of the ps per 804 ns of their own: twice as fast it needs 600 of 654 ns."""
    run, found = judged(*busy_ps(4))
    assert answers(run).steps_per_s == pytest.approx(1e9 / 300)
    assert found.relief is not None
    assert found.relief.bottleneck == "the CPU of w (w:0/CPU:0), busy 100% of the time"
    assert found.gain == pytest.approx(1200 / 654, rel=0.02)


def test_a_straggler_is_the_bottleneck_where_the_others_may_not_run_ahead() -> None:
    run, found = judged(*busy_ps(3, ps_ns=10), read_regime("ssp:bound=1"), "w:1=slow:5")
    assert answers(run).steps_per_s == pytest.approx(3e9 / (5 * 400 + 104 + 10), rel=0.02)
    assert found.relief is not None
    assert found.relief.bottleneck == "what disturbs w:1"
    assert found.gain == pytest.approx((5 * 400 + 104 + 10) / (400 + 104 + 10 + 10), rel=0.05)


def test_what_comes_once_counts_only_where_it_is_what_is_relieved() -> None:
    """40 updates of the ps take 12 us; then it is gone for 50 us. A faster run would have ended before that."""
    _, found = judged(*busy_ps(4), None, "w:0=crash:at=13 us,for=50 us")
    (faster,) = (one for one in found.tried if one.relief.devices == (0,))
    assert faster.gain == pytest.approx(1200 / 654, rel=0.05)
    (whole,) = (one for one in found.tried if one.relief.without)
    assert whole.gain == pytest.approx((50 + 80 * 0.3) / (80 * 0.3), rel=0.1)


def test_in_asynchronous_training_a_straggler_costs_its_own_steps_alone() -> None:
    _, found = judged(*busy_ps(8, ps_ns=1), None, "w:1=slow:20")
    (straggler,) = (one for one in found.tried if one.relief.without)
    assert 1 < straggler.gain < 8 / 7 * 1.02


def test_a_parameter_server_bounds_the_scaling() -> None:
    rows = scale([1, 2, 4, 8], lambda workers: trained(busy_ps(workers)[1], busy_ps(workers)[0], 60))
    assert rows[0].steps_per_s == pytest.approx(1e9 / 804)
    assert [row.efficiency for row in rows] == pytest.approx([1, 1, 804 / 1200, 804 / 2400], rel=0.01)


def test_a_run_without_noise_is_certain_at_once() -> None:
    on, workload = busy_ps(4)
    found = until_ci(anew(lambda steps: trained(workload, on, steps), 50))
    assert (found.steps, found.reached, found.answers.half_width) == (50, True, 0)
    assert found.answers.cycle is not None
    assert (found.answers.cycle.updates, found.answers.cut) == (4, 4)  # the first updates come late


def towers(count: int, *, fed: bool, split: bool = False) -> tuple[Cluster, list[Priced]]:
    """One client at worker:0 whose `count` towers, a task each, work on 4 MB that it hands in, or worker:0 has."""
    on = simulator.load_cluster(f"worker={count + 1},protocol=rdma")
    made = Rows()
    made.add("x", "Placeholder" if fed else "VariableV2", **typed("Placeholder" if fed else "VariableV2", (1000, 1000)))
    if split:
        made.add("whole", "Identity", ["x"], **typed("Identity", (1000, 1000)))
    for k in range(count):
        made.add(f"tower{k}", "Identity", ["whole" if split else "x"], **typed("Identity", (1000, 1000)))
        made.add(f"loss{k}", "Sum", [f"tower{k}", f"axes{k}"], T=type_attr(), Tidx=type_attr(INT32))
        made.add(f"axes{k}", "Const", dtype=type_attr(INT32), value=typed("Const")["value"])
    graph = made.built()
    fetches = [f"loss{k}" for k in range(count)]
    step = simulator.choose_step(graph, feeds=["x:0"] if fed else [], fetches=fetches)
    rows = [0 if name in ("x", "whole") else 1 + int(name[-1]) for name in graph.names]
    pieces = partition(graph, assigned(on, rows), on, legal=False, step=step)
    program = Program("worker:0", on.client_task, graph, tuple(fetches), feeds=("x:0",) if fed else ())
    return on, [(Client(program, pieces), costs(graph, on, 1000))]


@pytest.mark.parametrize(("fed", "split"), [(True, False), (False, False), (True, True)])
def test_the_link_of_a_client_that_feeds_its_towers_is_named(fed: bool, split: bool) -> None:
    """Three copies of 4 MB leave worker:0 one after the other; only what is fed is the client's doing."""
    _, found = judged(*towers(3, fed=fed, split=split))
    assert found.relief is not None
    assert found.relief.links
    assert found.relief.bottleneck.startswith("the link worker0 nic out")
    assert ("which carries the client's feeds and fetches" in found.relief.bottleneck) == fed
    assert found.gain > 1.45
