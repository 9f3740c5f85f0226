"""The makespan in TensorFlow's order, beside the one in the order of the placement."""

from __future__ import annotations

from typing import Any

import pytest

from simulator import SimulationOptions, simulate
from tests.viz.scenes import EXAMPLE
from viz import figures, run

ON_GPUS: dict[str, Any] = {"cluster": "worker=1x4gpu", "ignore_devices": True}


@pytest.mark.parametrize("algorithm", ["search", "heft", "tensorflow"])
def test_it_is_that_of_the_same_placement_run_in_that_order(algorithm: str) -> None:
    scene = run(EXAMPLE, **ON_GPUS, algorithm=algorithm)
    pins = dict(zip(scene.graph.names, scene.assignment.placed_on, strict=True))
    asked = run(EXAMPLE, **ON_GPUS, pins=pins, algorithm="requested", order="tensorflow")
    assert asked.tensorflow_order_ns is None  # it was asked for
    assert scene.tensorflow_order_ns == asked.trace.makespan


def test_summary_page_and_json_say_it_where_it_differs() -> None:
    result = run(EXAMPLE, **ON_GPUS)
    other = figures.another_order_ns(result)
    assert other is not None
    assert other != result.trace.makespan
    assert " in TensorFlow's order; see --order enforced), at most " in result.summary()
    assert f'"makespan_in_tensorflow_order_ns": {other},' in result.to_json()


def test_with_microbatches_and_late_recvs_it_is_that_of_the_cut_that_is_shown() -> None:
    asked: dict[str, Any] = {
        "cluster": "ps=2,worker=1x2gpu",
        "algorithm": "tensorflow",
        "recv_scheduling": "tensorflow",
    }
    result = run(EXAMPLE, **asked)
    assert result.tensorflow_order_ns == run(EXAMPLE, **asked, order="tensorflow").trace.makespan
    piped = run(EXAMPLE, cluster="2gpu", ignore_devices=True, microbatches=2)
    options = SimulationOptions(order="tensorflow")
    again = simulate(piped.partitions, piped.cluster, piped.costs, options)
    assert piped.tensorflow_order_ns == again.makespan


def test_a_large_step_is_not_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viz.command.one_step.MOST_TASKS", 10)
    assert run(EXAMPLE, **ON_GPUS).tensorflow_order_ns is None


def test_the_step_of_a_training_has_one_too_and_an_order_that_was_asked_for_has_none() -> None:
    asked: dict[str, Any] = {"cluster": "ps=2,worker=2", "algorithm": "tensorflow"}
    alone = run(EXAMPLE, **asked).tensorflow_order_ns
    assert run(EXAMPLE, **asked, training="async").tensorflow_order_ns == alone is not None
    assert run(EXAMPLE, **ON_GPUS, order="fifo").tensorflow_order_ns is None
