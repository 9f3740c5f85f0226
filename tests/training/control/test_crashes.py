"""Crashes, pauses, noise and traffic at random: what always holds, and what once did not."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from placement import clients
from simulator import estimate_each, load_cluster, read_regime, replicate
from simulator.cluster.cluster import Cluster
from simulator.cluster.contention import CONTENTIONS
from simulator.cluster.protocols import Protocol
from simulator.errors import DeadlockError
from simulator.execution.options import SimulationOptions
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.train import train
from simulator.training.training import Training
from tests.execution.cases import apart, routed, with_cores
from tests.training.programs.test_between import momentum
from tests.training.workloads import Priced, chain, pushing, updating


def drawn(random: Random) -> tuple[list[Priced], Cluster, list[str], int]:
    """Clients, what disturbs them, and how many updates there are per step."""
    count = random.randrange(1, 5)
    kind, lanes = random.randrange(3), random.choice([1, 2])
    on = routed(random, count + 1, lanes=lanes) if kind == 2 else apart(count + 1, shared=kind == 1, lanes=lanes)
    if random.random() < 0.5:
        work: dict[str, Any] = {"send_ns": random.choice([0, 10]), "receive_ns": random.choice([0, 20])}
        on = replace(on, between_tasks=Protocol("drawn", request_ns=random.choice([0, 50]), latency_ns=3, **work))
        on = with_cores(on, [random.choice([1, 1, 8])])
    if random.random() < 0.5:
        workload = [
            pushing(on, f"w{k}", [(k, random.randrange(1, 300))], task=k, apply_ns=20) for k in range(1, count + 1)
        ]
        workload.append(
            updating(on, aggregate=random.randrange(1, count + 1), handed=count, update_ns=random.randrange(50))
        )
        updates = 1
    else:
        updates = count
        workload = [
            chain(on, f"w{k}", [(k, random.randrange(1, 300)), (0, 30), (k, 5)], task=k, variable=True)
            for k in range(1, count + 1)
        ]
    return workload, on, [text for task in range(count + 1) for text in _texts(random, task)], updates


def _texts(random: Random, task: int) -> list[str]:
    texts, at = [], 0
    for _ in range(random.randrange(3)):
        at += random.randrange(1, 1500)
        away, every = random.randrange(1, 400), random.randrange(1, 900)
        texts.append(f"w:{task}=crash:at={at} ns,for={away} ns" + random.choice(["", f",checkpoint={every} ns"]))
        at += away
    texts += random.choice([[], [], [f"w:{task}=pause:every={random.randrange(100, 900)} ns,for=9 ns"]])
    texts += random.choice([[], [], [f"w:{task}=noise:exponential"]])
    return texts


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(["fifo", "tensorflow"]), st.sampled_from(CONTENTIONS))
def test_whatever_dies_the_run_gets_to_its_end_and_its_sums_are_right(seed: int, order: str, contention: str) -> None:
    workload, on, texts, updates = drawn(Random(seed))
    how = SimulationOptions(order, contention, seed=seed)
    run = trained(workload, on, texts, how)
    assert len(run.update_ns) - run.lost_updates == 6 * updates
    assert run.usage.task_ns.min() >= 0
    assert (run.usage.task_ns.sum(axis=1) == run.end_ns).all()
    assert (run.usage.device_busy_ns <= run.end_ns * run.device_lanes).all()
    assert (run.usage.link_busy_ns <= run.end_ns).all()
    assert (run.step_waiting_ns <= run.step_end_ns - run.step_start_ns).all()
    for client in range(len(workload)):
        own = run.step_client == client
        assert (run.step_start_ns[own][1:] >= run.step_end_ns[own][:-1]).all()
        assert (np.diff(run.step_number[own]) > 0).all()
        assert_no_step_is_missing(run, client)
    assert trained(workload, on, texts, how).step_end_ns.tolist() == run.step_end_ns.tolist()


def assert_no_step_is_missing(run: Training, client: int) -> None:
    """What is no row of steps was cut short, by a crash or by the end; nothing else of the client ran meanwhile."""
    own = run.step_client == client
    steps = list(zip(run.step_number[own], run.step_start_ns[own], run.step_end_ns[own], strict=True))
    cut = [(one.number, one.start_ns, one.end_ns) for one in run.cut_short if one.client == client]
    left = [(number, start, run.end_ns) for whose, number, start in run.under_way if whose == client]
    every = sorted([*steps, *cut, *left])
    assert [number for number, _, _ in every] == list(range(len(every)))
    assert all(end <= begin for (_, _, end), (_, begin, _) in pairwise(every))


def trained(
    workload: list[Priced], on: Cluster, texts: list[str], how: SimulationOptions = SimulationOptions()
) -> Training:
    clients, priced = [one for one, _ in workload], [one for _, one in workload]
    found = [read_disturbance(text) for text in texts]
    return train(clients, on, priced, regime=None, steps=6, disturbances=found, options=how)


def test_a_request_of_a_step_that_was_cut_short_does_not_count_for_the_next() -> None:
    """The request, posted at 0, arrives at 1000 only; the next step posts its own then."""
    on = replace(apart(2), between_tasks=Protocol("asks", request_ns=1000))
    workload = [chain(on, "w", [(1, 50), (0, 30)], task=1)]
    run = trained(workload, on, ["w:1=crash:at=100 ns,for=10 ns"])
    assert run.step_start_ns[0] == 1000
    assert run.step_end_ns[0] == 1000 + 1000 + 104 + 30


@pytest.mark.parametrize("at", [200, 205, 1000])
def test_traffic_that_sleeps_is_not_begun_twice_by_a_crash(at: int) -> None:
    """It sleeps while the only worker is away."""
    on = apart(2)
    workload = [chain(on, "w", [(1, 50), (0, 30)], task=1)]
    texts = [
        "link:w:1->w:0=traffic:200 MB/s,bytes=100 B",
        f"w:1=crash:at={at} ns,for=3 us",
        "w:0=crash:at=3 us,for=9 ns",
    ]
    run = trained(workload, on, texts)
    assert (run.step_end_ns >= run.step_start_ns).all()


@settings(max_examples=16)
@example(1300, 2, "python")
@example(1300, 2, "compiled")
@given(st.integers(1000, 1600), st.integers(1, 3), st.sampled_from(["python", "compiled"]))
def test_a_chief_that_dies_hands_out_the_first_tokens_anew(at_us: int, aggregate: int, engine: str) -> None:
    """What its second client had taken was lost with the tokens that it owed, and everybody waited for ever."""
    run = synchronous(f"worker:0=crash:at={at_us} us,for=3 ms", aggregate, engine)
    assert len(run.update_ns) == 12


def test_while_the_chief_is_away_nobody_updates() -> None:
    """Its second client has no op on the worker itself, but its session is there."""
    run = synchronous("worker:0=crash:at=2 ms,for=3 ms", 2, "python")
    assert len(run.update_ns) == 12
    assert (run.update_ns < 2_000_000).any()
    assert not ((run.update_ns >= 2_000_000) & (run.update_ns < 5_000_000)).any()


def synchronous(text: str, aggregate: int, engine: str) -> Training:
    cluster, regime = load_cluster("ps=2,worker=3"), read_regime(f"sync:aggregate={aggregate}")
    programs = replicate(momentum(batch=4), cluster, regime=regime)
    costs = estimate_each(programs, cluster)
    made = clients(programs, cluster, costs, algorithm="requested")
    crash = read_disturbance(text)
    return train(
        made, cluster, costs, options=SimulationOptions(engine=engine), regime=regime, steps=12, disturbances=[crash]
    )


def test_an_update_dies_with_the_chiefs_session_though_all_its_ops_stand_on_the_ps() -> None:
    """The error says what to do where the new session hands out too few tokens; TensorFlow's chief would hang there."""
    on, regime = load_cluster("ps=2,worker=3"), read_regime("sync:tokens=0")
    programs = replicate(momentum(batch=4), on, regime=regime)
    costs = estimate_each(programs, on)
    made = clients(programs, on, costs)
    updates = next(one for one in programs if one.role == "updates")
    where = {updates.graph.requested[updates.graph.row(name)] for name in updates.counts}
    assert all("/job:ps" in device for device in where)
    told = []
    for at_us in range(400, 1500, 100):
        died = (read_disturbance(f"worker:0=crash:at={at_us} us,for=200 us"),)
        try:
            train(
                made, on, costs, options=SimulationOptions(engine="python"), regime=regime, steps=8, disturbances=died
            )
        except DeadlockError as error:
            told.append(str(error))
    assert told
    assert all("its new session hands out 0: start with tokens=2 or more" in one for one in told)
