"""Replicated graphs in a real session: they update the variables as the original does with the whole batch."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import pytest

from simulator import load_cluster
from simulator.graph.exporting import graph_def
from simulator.graph.graph import Graph
from simulator.oracle import child
from simulator.training.replication import replicate
from tests.oracle.test_setter import built

pytestmark = pytest.mark.tensorflow

CASES = [
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
    ]
]
WAYS = [("in", "3gpu")]
BATCH, STEPS = 12, 2
SHAPES = {"dense": ((6,), (2,)), "recurrent": ((5, 3), (4,)), "embedding": ((3,), (2,))}


def fed(model: str, step: int) -> dict[str, Any]:
    """The whole batch of a step."""
    random = Random(step)
    first, second = SHAPES[model]

    def drawn(shape: tuple[int, ...], whole: bool) -> Any:
        if not shape:
            return random.randrange(6) if whole else random.uniform(-1, 1)
        return [drawn(shape[1:], whole) for _ in range(shape[0])]

    words = model == "embedding"
    return {"words:0" if words else "x:0": drawn((BATCH, *first), words), "y:0": drawn((BATCH, *second), False)}


def asked(graph: Graph, model: str, fetches: tuple[str, ...]) -> dict[str, Any]:
    reads = [name for name in graph.names if name.endswith(("/read", "/Read/ReadVariableOp"))]
    return {
        "graph": base64.b64encode(graph_def(graph).SerializeToString()).decode(),
        "init": "init",
        "steps": [{"fetches": fetches, "feeds": fed(model, step)} for step in range(STEPS)],
        "reads": [f"{name}:0" for name in sorted(reads)],
    }


def near(one: list[float], other: list[float]) -> bool:
    return len(one) == len(other) and all(abs(a - b) <= 1e-5 * max(1, abs(a)) for a, b in zip(one, other, strict=True))


def test_every_way_of_replicating_updates_the_variables_as_the_original_does() -> None:
    questions, told = [], []
    for case, (graph, train) in zip(CASES, built(CASES), strict=True):
        original = asked(graph, case["model"], (train,))
        questions.append(original)
        for how, cluster in WAYS:
            (program,) = replicate(graph, load_cluster(cluster), how=how, batch=BATCH)  # type: ignore[arg-type]
            replicated = asked(program.graph, case["model"], program.fetches)
            questions.append({**replicated, "reads": original["reads"]})
            told.append((case, how, original["reads"]))
    answers = json.loads(child.run("tests.oracle.training_runs", json.dumps(questions).encode(), timeout_s=240))
    wrong = []
    for at, (case, how, reads) in enumerate(told):
        first = answers[at // len(WAYS) * (1 + len(WAYS))]
        ours = answers[at // len(WAYS) * (1 + len(WAYS)) + 1 + at % len(WAYS)]
        wrong += [(case, how, name) for name, a, b in zip(reads, first, ours, strict=True) if not near(a, b)]
        assert any(value != 0 for value in first[0])
    assert wrong == []
