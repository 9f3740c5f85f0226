"""What was done until some updates, and what the answers make of it: shares of the time after the warm-up."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import Cluster
from simulator.cluster.protocols import Protocol
from simulator.columns import ints
from simulator.execution.options import SimulationOptions
from simulator.training.answers.answers import answers
from simulator.training.control.results import MOST, Samples
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.train import train
from simulator.training.training import COMPUTING, HANDLING, SENDING, WAITING, ResourceUsage, Training
from tests.execution.cases import apart
from tests.training.control.test_crashes import drawn
from tests.training.workloads import Priced, chain


def usage(updates: int) -> ResourceUsage:
    nothing = ints([])
    return ResourceUsage(updates, updates, np.zeros((0, 4), np.int64), nothing, nothing, nothing, nothing)


@given(st.lists(st.integers(1, 7), max_size=2000))
def test_there_are_never_too_many_and_none_is_far_from_the_next(rounds: list[int]) -> None:
    """Whatever comes at once, a cut anywhere has a moment after it within a small part of the run."""
    samples, updates = Samples(), 0
    for count in rounds:
        updates += count
        if updates >= samples.next:
            samples.note(usage(updates))
    kept = [one.updates for one in samples.kept]
    assert len(kept) < MOST
    assert kept == sorted(set(kept))
    for low, high in zip([0, *kept], [*kept, updates], strict=True):
        assert high - low <= max(7, updates // (MOST // 2) + 2 * 7)


def run_of(workload: list[Priced], on: Cluster, steps: int, *texts: str, **options: Any) -> Training:
    clients, priced = [one for one, _ in workload], [one for _, one in workload]
    found = [read_disturbance(text) for text in texts]
    return train(
        clients,
        on,
        priced,
        regime=None,
        steps=steps,
        disturbances=found,
        **{"options": SimulationOptions(engine="python"), **options},
    )


def test_what_a_session_waits_for_at_first_is_nobody_s_share() -> None:
    """The second task comes up after 900 ns; then the one worker does nothing but compute."""
    on = apart(2)
    run = run_of([chain(on, "w", [(0, 100)])], on, 10, "w:1=late:900 ns")
    found = answers(run)
    assert run.usage.task_ns[0].tolist() == [1000, 0, 0, 900]
    assert (found.cut, found.cut_ns) == (1, 1000)
    assert found.shares.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert found.device_share.tolist() == [1, 0]


def test_what_messages_take_from_processors_is_handling_where_no_op_runs() -> None:
    """Work of 50 ns on device 1, then its value is packed for 20, is on the way for 104, and unpacked for 30 on 0."""
    on = replace(apart(2), between_tasks=Protocol("works", send_ns=20, receive_ns=30))
    run = run_of([chain(on, "w", [(1, 50), (0, 40)], task=1)], on, 1)
    assert run.end_ns == 50 + 20 + 104 + 30 + 40
    assert run.usage.task_ns[:, COMPUTING].tolist() == [40, 50]
    assert run.usage.task_ns[:, HANDLING].tolist() == [30, 20]
    assert run.usage.task_ns[:, SENDING].tolist() == [104, 104]
    assert run.usage.task_ns[:, WAITING].tolist() == [70, 70]


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(["serial", "fair"]))
def test_a_sample_is_what_a_run_that_ends_there_has_done(seed: int, contention: str) -> None:
    """Samples ascend, each adds up, and a run that is asked for fewer steps ends with the usage of one of them."""
    workload, on, texts, _ = drawn(Random(seed))
    options = SimulationOptions(contention=contention, seed=seed, engine="python")
    run, short = (run_of(workload, on, steps, *texts, options=options) for steps in (4, 2))
    for earlier, later in zip(run.samples, [*run.samples[1:], run.usage], strict=True):
        part = later.since(earlier)
        for column in (part.task_ns, part.device_busy_ns, part.link_bytes, part.link_busy_ns):
            assert column.min(initial=0) >= 0
        assert (part.task_ns.sum(axis=1) == part.ns).all()
    same = [sample for sample in run.samples if sample.updates == short.usage.updates]
    assert len(same) == 1
    for one, two in zip(same[0], short.usage, strict=True):
        np.testing.assert_array_equal(one, two)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_shares_are_of_the_time_that_rates_are_of(seed: int) -> None:
    workload, on, texts, _ = drawn(Random(seed))
    run = run_of(workload, on, 8, *texts)
    found = answers(run)
    assert found.usage.ns == run.end_ns - found.cut_ns
    assert found.usage.updates == found.updates - found.cut
    assert np.allclose(found.shares.sum(axis=1), 1)
    whole = answers(replace(run, samples=()))
    assert whole.usage is run.usage
