"""Programs of a training as Grappler makes them, beside those that real sessions run on real servers."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

import viz
from simulator.training.programs.program import Program
from tests.oracle.forking import printed
from tests.oracle.optimized_trainings import CLUSTER

pytestmark = pytest.mark.tensorflow
ADDED = re.compile(r"_S[0-9]+$")  # the number that a session gives a node of the cut
LEFT = ("NoOp", "Placeholder", "Send", "Recv")  # what the cut adds, what is fed, and what TensorFlow joins
CASES = [
    {"model": "convolutions", "how": "between", "regime": "async"},
    {"model": "convolutions", "how": "between", "regime": "sync"},
    {"model": "attention", "how": "in", "regime": "sync"},
    {"model": "attention", "how": "allreduce:ring", "regime": "sync"},
]


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed("tests.oracle.optimized_trainings", json.dumps(CASES))]


@pytest.mark.parametrize("place", range(len(CASES)), ids=[f"{case['how']} {case['regime']}" for case in CASES])
def test_each_session_runs_the_nodes_that_are_predicted(told: list[dict[str, Any]], place: int) -> None:
    """Each node by its name, its op and its device."""
    one, case = told[place], CASES[place]
    scene = viz.run(
        base64.b64decode(one["graph"]),
        cluster=CLUSTER,
        training=case["regime"],
        replicate=case["how"],
        fetches=one["fetches"],
        batch=4,
        steps=2,
        grappler=True,
    )
    assert scene.training is not None
    assert len(scene.training.clients) == len(one["ran"])
    assert scene.training.unsized.tensors == 0
    for client, nodes in zip(scene.training.clients, one["ran"], strict=True):
        graph, on = client.partitions.graph, client.on(client.partitions.device)
        ours = {
            (ADDED.sub("", name), op.lstrip("_"), scene.cluster.devices[device].name)
            for name, op, device in zip(graph.names, graph.ops, on.tolist(), strict=True)
        }
        assert_sizes(client.program)
        theirs = {(ADDED.sub("", name), op.lstrip("_"), device) for name, op, device in nodes}
        assert {node for node in ours if node[1] not in LEFT} == {node for node in theirs if node[1] not in LEFT}


def assert_sizes(program: Program) -> None:
    """What Grappler kept on a processor is as large as before; a new session knew no batch but 1."""
    after, before = program.graph, program.written
    kept = [name for name in after.names if name in before.index]
    same = [name for name in kept if after.ops[after.row(name)] == before.ops[before.row(name)]]
    shapes = [
        [[graph.tensor_shape[row] for row in graph.outputs(graph.row(name))] for name in same]
        for graph in (after, before)
    ]
    assert shapes[0] == shapes[1]
    assert len(same) > len(after) / 2
