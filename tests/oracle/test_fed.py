"""Inputs as TensorFlow writes them: who fills queues, what is behind iterators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator import load
from simulator.graph.graph import Graph
from simulator.training.inputs.pipeline import InputPipeline, InputPipelines
from simulator.training.inputs.producers import CALL_NS, ELEMENT_NS, RUN_NS
from tests.oracle.fed import asked, pipelines, rate, read, simulated

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
    assert "PyFunc 99% of its work" in one.words


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


# ---- batches ---------------------------------------------------------------------------------------------------------

BATCH, OTHER = 4, 12
KNOWN = ("plain", "weighed", "captured", "nested", "apart", "padded", "at once", "parallel", "zipped", "interleaved")
BATCHED = (*KNOWN, "halves", "cast", "filled", "windows")
KINDS = {"dropped": (True, False), "kept": (False, False), "one shot": (False, True)}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, int], str]:
    """The file of each way to make batches, whether the last one is dropped or not, and a size."""
    folder: Path = tmp_path_factory.mktemp("batches")
    keys = [
        (way, kind, size)
        for way in BATCHED
        for kind in KINDS
        for size in (BATCH, OTHER)
        if (way, kind) != ("captured", "one shot")  # TensorFlow refuses it
    ]
    cases = [
        {**SLEEPS, "kind": "batches", "way": way, "batch": size, "drop": KINDS[kind][0], "one_shot": KINDS[kind][1]}
        for way, kind, size in keys
    ]
    asked(cases, folder, 0)
    return {key: str(folder / f"{row}.meta") for row, key in enumerate(keys)}


def pipeline(graph: Graph) -> tuple[int, int]:
    """The time of an element, and the examples in it."""
    (one,) = pipelines(SLEEPS, graph).pipelines
    return one.producer.period_ns, one.examples


@pytest.mark.parametrize("way", [*KNOWN, "halves", "cast"])
def test_a_dataset_makes_the_batch_that_is_asked_for(files: dict[tuple[str, str, int], str], way: str) -> None:
    """A file with another batch is as one with the batch that is asked for; without a word its own counts."""
    told = set()
    for kind in KINDS:
        if (way, kind, BATCH) in files:
            small, large = files[way, kind, BATCH], files[way, kind, OTHER]
            own = pipeline(load(small)), pipeline(load(large))
            assert pipeline(load(small, batch=OTHER)) == own[1] == pipeline(load(large, batch=OTHER))
            assert pipeline(load(large, batch=BATCH)) == own[0]
            told.add(own)
    ((small_made, large_made),) = told
    assert (small_made[1], large_made[1]) == (BATCH, OTHER)
    assert large_made[0] / small_made[0] == pytest.approx(1 if way == "cast" else OTHER / BATCH, rel=0.05)


def test_batches_of_unknown_making_are_told(files: dict[tuple[str, str, int], str]) -> None:
    """A function that fills a batch by a number of its own, and windows."""
    for way, why in (("filled", "an element of its dataset has 4 examples"), ("windows", "is a _Arg")):
        found = pipelines(SLEEPS, load(files[way, "dropped", BATCH], batch=OTHER))
        assert not found.pipelines
        assert why in found.notes[0]
    assert pipeline(load(files["filled", "dropped", BATCH]))[1] == BATCH
