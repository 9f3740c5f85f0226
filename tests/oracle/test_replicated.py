"""Replicated graphs in a real session: they update the variables as the original does with the whole batch."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import pytest

from simulator import load_cluster
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.op_classes import VARIABLES
from simulator.oracle import child
from simulator.training.programs.replicated import replicate
from tests.oracle.test_setter import built

pytestmark = pytest.mark.tensorflow

CASES: list[dict[str, Any]] = [
    {"model": model, "optimizer": optimizer, "resource": resource, "ps": 0}
    for model, optimizer, resource in [
        ("dense", "sgd", False),
        ("dense", "momentum", True),
        ("dense", "adam", False),
        ("recurrent", "momentum", False),
        ("recurrent", "sgd", True),
        ("embedding", "sgd", True),
        ("embedding", "momentum", False),
        ("embedding", "adam", True),
        ("embedding", "adagrad", False),
        ("dense", "clipped", False),
        ("embedding", "clipped", True),
        ("dense", "summed", False),
        ("table", "adam", True),
        ("table", "adam", False),
    ]
]
WAYS = [("allreduce:ring", "3gpu"), ("allreduce:tree", "4gpu"), ("allreduce:hierarchical", "3gpu")]
TOWERS = [("in", "3gpu"), ("both", "ps=2,worker=1x3gpu")]
BATCH, STEPS = 12, 2
SHAPES = {"dense": ((6,), (2,)), "recurrent": ((5, 3), (4,)), "embedding": ((3,), (2,)), "table": ((3,), (2,))}
SHAPES["total"] = SHAPES["dense"]


def fed(model: str, step: int) -> dict[str, Any]:
    """The whole batch of a step."""
    random = Random(step)
    first, second = SHAPES[model]

    def drawn(shape: tuple[int, ...], whole: bool) -> Any:
        if not shape:
            return random.randrange(6) if whole else random.uniform(-1, 1)
        return [drawn(shape[1:], whole) for _ in range(shape[0])]

    words = model in ("embedding", "table")
    return {"words:0" if words else "x:0": drawn((BATCH, *first), words), "y:0": drawn((BATCH, *second), False)}


def asked(graph: Graph, model: str, fetches: tuple[str, ...]) -> dict[str, Any]:
    reads = [name for name, op in zip(graph.names, graph.ops, strict=True) if op in VARIABLES]
    return {
        "graph": base64.b64encode(graph_def(graph, devices=[""] * len(graph)).SerializeToString()).decode(),
        "init": "init",
        "steps": [{"fetches": fetches, "feeds": fed(model, step)} for step in range(STEPS)],
        "reads": reads,
    }


def near(one: list[float], other: list[float]) -> bool:
    return len(one) == len(other) and all(abs(a - b) <= 1e-5 * max(1, abs(a)) for a, b in zip(one, other, strict=True))


def copies(graph: Graph, name: str) -> list[str]:
    """A variable and its mirrors."""
    mirrors = [f"replica_{number}/{name}" for number in range(1, 4)]
    return [name, *(mirror for mirror in mirrors if mirror in graph.index)]


def test_every_way_of_replicating_updates_the_variables_as_the_original_does() -> None:
    questions: list[dict[str, Any]] = []
    told: list[Any] = []
    for at, (case, (graph, train)) in enumerate(zip(CASES, built(CASES), strict=True)):
        original, first = asked(graph, case["model"], (train,)), len(questions)
        questions += [original, {**original, "steps": []}]
        for how, cluster in (TOWERS[at % len(TOWERS)], WAYS[at % len(WAYS)]):
            fuse = 64 * (at % 3) if "allreduce" in how else 0  # bytes: a bucket holds some of the gradients
            (program,) = replicate(graph, load_cluster(cluster), how=how, batch=BATCH, fuse=fuse)  # type: ignore[arg-type]
            reads = [copies(program.graph, name) for name in original["reads"]]
            flat = [name for names in reads for name in names]
            told.append((case, how, original["reads"], first, len(questions), reads))
            questions.append({**asked(program.graph, case["model"], program.fetches), "reads": flat})
    answers = json.loads(child.run("tests.oracle.training_runs", json.dumps(questions).encode(), timeout_s=240))
    wrong = []
    for case, how, names, first, row, reads in told:
        ours = iter(answers[row])
        moved = [name for name, a, b in zip(names, answers[first], answers[first + 1], strict=True) if not near(a, b)]
        assert len(moved) >= 3, (case, moved)  # two weights and the step, at the least
        for name, theirs, several in zip(names, answers[first], reads, strict=True):
            values = [next(ours) for _ in several]
            trained = "allreduce" in how and name in moved
            assert len(values) >= (3 if trained else 1), (case, how, name)
            wrong += [(case, how, one) for one, value in zip(several, values, strict=True) if not near(theirs, value)]
    assert wrong == []


def test_towers_train_the_mean_of_their_losses_so_a_sum_moves_by_its_share() -> None:
    case = {"model": "total", "optimizer": "sgd", "resource": False, "ps": 0}
    ((graph, train),) = built([case])
    feeds = fed("total", 0)
    original = {**asked(graph, "total", (train,)), "steps": [{"fetches": (train,), "feeds": feeds}], "reads": ["w"]}
    questions: list[dict[str, Any]] = [{**original, "steps": []}, original]
    ways = [*TOWERS, *WAYS]
    for how, cluster in ways:
        (program,) = replicate(graph, load_cluster(cluster), how=how, batch=BATCH)  # type: ignore[arg-type]
        replicated = {**asked(program.graph, "total", program.fetches), "reads": ["w"]}
        questions.append({**replicated, "steps": [{"fetches": program.fetches, "feeds": feeds}]})
    told = json.loads(child.run("tests.oracle.training_runs", json.dumps(questions).encode(), timeout_s=240))
    (before,), (after,), *others = told
    for (how, cluster), (ours,) in zip(ways, others, strict=True):
        count = int(cluster[-4])
        moved = [begun + (ended - begun) / count for begun, ended in zip(before, after, strict=True)]
        assert near(moved, ours), (how, cluster)
        assert not near(after, ours)
