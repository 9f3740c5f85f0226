"""Inputs as TensorFlow writes them: who fills queues, what is behind iterators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator.graph.graph import Graph
from simulator.training.inputs.pipeline import InputPipeline, InputPipelines
from simulator.training.inputs.producers import CALL_NS, ELEMENT_NS, RUN_NS
from tests.oracle.fed import asked, rate, read, simulated

pytestmark = pytest.mark.tensorflow

MS = 10**6
SLEEPS = {"make_s": 0.02, "again_s": 0.05, "step_s": 0.03, "batch": 4, "capacity": 16, "reserve": 3}
STAGES: dict[str, dict[str, Any]] = {  # Any: JSON
    "drawn": {"stages": [("map", 1)]},
    "one shot": {"stages": [("map", 1)], "one_shot": True},
    "twice the batch": {"stages": [("map", 1)], "batch": 8},
    "ahead": {"stages": [("map", 1), ("prefetch", 2)]},
    "a third": {"stages": [("map", 1), ("shard", 3)]},
    "kept": {"stages": [("map", 1), ("cache", 0)]},
    "interleaved": {"stages": [("interleave", 0)]},
    "alone": {"stages": [("parallel_map", 1)]},
    "two calls": {"stages": [("parallel_map", 2)]},
    "all cores": {"stages": [("map", 0)]},
    "the same": {"stages": [("shuffle", 5), ("repeat", 2), ("take", 9), ("parallel_map", 1)]},
    "Python": {"stages": [("generator", 0)]},
}
CASES: dict[str, dict[str, Any]] = {
    "queue": {"kind": "queue", "threads": 2},
    "shuffled": {"kind": "shuffled", "threads": 3},
    "chain": {"kind": "chain", "threads": 2},
    "dataset": {"kind": "dataset"},
    "mapped": {"kind": "mapped", "threads": 2},
    **{name: {"kind": "stages", **stages} for name, stages in STAGES.items()},
}
ASKED = {name: {**SLEEPS, **case} for name, case in CASES.items()}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    """Of each case; nothing of it runs."""
    folder: Path = tmp_path_factory.mktemp("fed")
    asked(list(ASKED.values()), folder, 0)
    return {name: read(folder, row) for row, name in enumerate(ASKED)}


def inputs(graphs: dict[str, Graph], name: str) -> InputPipelines:
    return simulated(ASKED[name], graphs[name], steps=5)[1]


def only(graphs: dict[str, Graph], name: str) -> InputPipeline:
    (one,) = inputs(graphs, name).pipelines
    return one


@pytest.mark.parametrize(("name", "threads", "reserve"), [("queue", 2, 0), ("shuffled", 3, 3)])
def test_threads_of_a_queue_runner(graphs: dict[str, Graph], name: str, threads: int, reserve: int) -> None:
    one = only(graphs, name)
    made = one.producer
    assert (made.threads, made.item, one.capacity, one.reserve, one.examples) == (threads, 1, 16, reserve, 1)
    assert 20 * MS + RUN_NS <= made.period_ns < 20.1 * MS
    assert made.largest() is not None
    assert "PyFunc 100 % of its work" in one.words


def test_a_chain_of_queues(graphs: dict[str, Graph]) -> None:
    """Four examples of 20 ms, by two threads, are made into four others in 50 ms, which come later."""
    one = only(graphs, "chain")
    assert (one.key.name, one.producer.stage) == ("batch/fifo_queue", "second")
    assert one.producer.elements_per_s == pytest.approx(4 / 0.05, rel=0.01)


def test_a_dataset_that_sleeps(graphs: dict[str, Graph]) -> None:
    run, found = simulated(ASKED["dataset"], graphs["dataset"])
    assert found.pipelines[0].producer.period_ns == pytest.approx(4 * 20 * MS, rel=0.01)
    assert rate(run) == pytest.approx(1000 / 80, rel=0.01)


@pytest.mark.parametrize(("name", "why"), [("mapped", "what Python computes in"), ("Python", "GeneratorDataset")])
def test_what_python_computes_is_not_known(graphs: dict[str, Graph], name: str, why: str) -> None:
    found = inputs(graphs, name)
    assert not found.pipelines
    assert why in found.notes[0]


def test_stages_of_datasets(graphs: dict[str, Graph]) -> None:
    """A map with state takes its asker's time, others that of their calls side by side; a shard takes several."""
    known = {name: only(graphs, name).producer.period_ns for name in STAGES if name != "Python"}
    drawn, alone, few = known["drawn"], known["alone"], 4 * 10 * ELEMENT_NS
    assert drawn > 4 * CALL_NS
    assert known["one shot"] == drawn
    assert known["twice the batch"] == pytest.approx(2 * drawn, abs=few)
    assert known["ahead"] == pytest.approx(drawn, abs=few)
    assert known["a third"] == pytest.approx(3 * drawn, abs=3 * few)
    assert known["kept"] <= few
    assert known["interleaved"] == pytest.approx(drawn, abs=few)
    assert known["two calls"] == pytest.approx(alone / 2, abs=few)
    assert known["all cores"] <= alone / 2
    assert known["the same"] == pytest.approx(alone, abs=few)
