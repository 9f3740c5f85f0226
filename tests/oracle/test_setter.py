"""Devices of replicated graphs beside those that TensorFlow's own `replica_device_setter` gives."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from simulator import choose_step, load_cluster, read_graph
from simulator.graph.messages import GraphDef
from simulator.oracle import child
from simulator.training.programs.replicated import replicate
from simulator.training.recognition.anatomy import anatomy

pytestmark = pytest.mark.tensorflow

CASES: list[dict[str, Any]] = [
    {"model": model, "optimizer": optimizer, "resource": resource, "strategy": strategy, "ps": ps, "seed": ps}
    for at, (model, optimizer) in enumerate(
        [
            ("dense", "sgd"),
            ("dense", "ftrl"),
            ("convolution", "momentum"),
            ("convolution", "rmsprop"),
            ("recurrent", "adagrad"),
            ("recurrent", "adam"),
            ("embedding", "adam"),
            ("embedding", "adadelta"),
        ]
    )
    for resource in (False, True)
    for strategy, ps in (("round_robin", 1 + at % 5), ("bytes", 5 - at % 5), ("random", 2 + at % 3))
]


def built(cases: list[dict[str, Any]]) -> list[tuple[Any, str]]:
    told = json.loads(child.run("tests.oracle.training_models", json.dumps(cases).encode(), timeout_s=240))
    return [(read_graph(GraphDef.FromString(base64.b64decode(one["graph"]))), one["train"]) for one in told]


@pytest.fixture(scope="module")
def models() -> list[tuple[Any, str, Any]]:
    """Per case the graph as it is built plainly, its train op, and as it is built under the setter."""
    plain, under = [{**case, "ps": 0} for case in CASES[::3]], CASES
    told = built([*plain, *under])
    return [(*told[at // 3], graph) for at, (graph, _) in enumerate(told[len(plain) :])]


def name_of(case: dict[str, Any]) -> str:
    kind = "resource" if case["resource"] else "reference"
    return f"{case['model']}-{case['optimizer']}-{kind}-{case['strategy']}-{case['ps']}"


@pytest.mark.parametrize("at", range(len(CASES)), ids=[name_of(case) for case in CASES])
def test_every_node_has_the_device_that_the_setter_gives(models: list[tuple[Any, str, Any]], at: int) -> None:
    case, (plain, _, under) = CASES[at], models[at]
    cluster = load_cluster(f"ps={case['ps']},worker=3")
    ours = replicate(plain, cluster, ps_strategy=case["strategy"], seed=case["seed"])[1].graph
    devices = dict(zip(ours.names, ours.requested, strict=True))
    theirs = dict(zip(under.names, under.requested, strict=True))
    beside = [name for name in theirs if name not in devices]  # one level that is no other device but in TensorFlow
    assert all(name.startswith("Adam/update_table/group_deps/NoOp") for name in beside)
    differing = {name: (device, theirs.get(name)) for name, device in devices.items() if theirs.get(name) != device}
    assert differing == {}
    for name in set(devices) & {name for name in theirs if "/NoOp" in name}:
        assert set(ours.inputs_of(ours.row(name))) == set(under.inputs_of(under.row(name)))


@pytest.mark.parametrize("at", range(0, len(CASES), 3), ids=[name_of(case) for case in CASES[::3]])
def test_the_step_is_the_one_that_tensorflow_calls_its_train_op(models: list[tuple[Any, str, Any]], at: int) -> None:
    plain, train, _ = models[at]
    assert choose_step(plain).fetches == (train,)


TRAINED = {
    "dense": {"w", "u", "b"},
    "convolution": {"conv/kernel", "bn/gamma", "bn/beta", "out/kernel"},
    "recurrent": {"lstm/kernel", "lstm/bias"},
    "embedding": {"table", "w"},
}


@pytest.mark.parametrize("at", range(0, len(CASES), 3), ids=[name_of(case) for case in CASES[::3]])
def test_the_anatomy_is_that_of_the_model(models: list[tuple[Any, str, Any]], at: int) -> None:
    """One gradient per weight that is trained, the table's alone sparse, and the step that the optimizer counts."""
    plain, case = models[at][0], CASES[at]
    found = anatomy(plain)
    trained = [plain.names[one.variable] for one in found.gradients]
    assert sorted(trained) == sorted(TRAINED[case["model"]])
    assert [name for name, one in zip(trained, found.gradients, strict=True) if one.indices] == (
        ["table"] if case["model"] == "embedding" else []
    )
    assert found.global_step is not None
    assert plain.names[found.global_step] == "global_step"
    assert len(found.counts) == 1
    slots = {plain.names[of] for of in found.slot_of.values()}
    assert slots == (set() if case["optimizer"] == "sgd" else TRAINED[case["model"]])
