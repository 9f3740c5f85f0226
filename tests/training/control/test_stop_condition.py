"""A run that goes on is the run that was asked for all of it at first."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.execution.options import SimulationOptions
from simulator.training.disturbances.disturbance import read_disturbance
from simulator.training.train import train
from simulator.training.training import Training
from tests.training.alike import assert_alike
from tests.training.control.test_crashes import drawn


@settings(max_examples=16)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 5), st.sampled_from(["serial", "fair"]))
@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_run_that_goes_on_is_one_long_run(engine: str, seed: int, first: int, more: int, contention: str) -> None:
    workload, on, texts, _ = drawn(Random(seed))
    how = SimulationOptions(contention=contention, seed=seed, engine=engine)
    disturbances = [read_disturbance(text) for text in texts]
    clients, priced = [one for one, _ in workload], [one for _, one in workload]

    def run(steps: int, **options: object) -> Training:
        return train(clients, on, priced, regime=None, steps=steps, options=how, disturbances=disturbances, **options)  # type: ignore[arg-type]

    pauses: list[Training] = []
    heard: list[tuple[int, int]] = []

    def extend(training: Training, steps: int) -> int:
        pauses.append(training)
        return min(steps + more, first + 2 * more)

    long = run(first, most=first + 2 * more, extend=extend, on_progress=lambda *far: heard.append(far))
    assert_alike(long, run(first + 2 * more))
    for steps, pause in zip((first, first + more), pauses, strict=False):
        plain = run(steps)
        assert pause.update_ns.tolist() == plain.update_ns.tolist()
        assert pause.step_end_ns.tolist() == plain.step_end_ns.tolist()
        assert pause.under_way == plain.under_way
    assert len(pauses) == 3
    assert [updates for updates, _ in heard] == sorted(updates for updates, _ in heard)
    assert heard[-1][0] <= len(long.update_ns)
