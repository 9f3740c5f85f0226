"""Train steps of Keras: functions that capture their variables, whose optimizers are made of plain ops."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.oracle.forking import printed

pytestmark = pytest.mark.tensorflow

IN, RING, TREE = ("in", "2gpu", 2), ("allreduce:ring", "3gpu", 3), ("allreduce:tree", "2gpu", 2)
BOTH, BETWEEN = ("both", "ps=2,worker=1x2gpu", 2), ("between", "ps=2,worker=2", 1)
# model, optimizer and its options, ways, and: variables that train, their slots
CASES: list[tuple[str, str, dict[str, float], list[tuple[str, str, int]], int, int]] = [
    ("dense", "SGD", {"momentum": 0.9}, [IN, RING], 6, 6),
    ("dense", "Adam", {"global_clipnorm": 0.1}, [BOTH, TREE, BETWEEN], 6, 12),
    ("dense", "AdamW", {}, [IN], 6, 12),
    ("words", "SGD", {}, [IN, TREE], 6, 0),
    ("words", "Adam", {}, [IN], 6, 12),
    ("rows", "Adagrad", {"learning_rate": 0.1}, [IN], 3, 3),
    ("fixed", "Adagrad", {"learning_rate": 0.1}, [IN, RING], 3, 3),
    ("fixed", "RMSprop", {"momentum": 0.9}, [IN], 3, 6),
    ("rows", "Adafactor", {"learning_rate": 0.1, "epsilon_1": 1e-3}, [IN], 3, 7),
    ("rows", "Adam", {"gradient_accumulation_steps": 2}, [IN], 3, 9),
    ("attention", "Ftrl", {}, [IN, RING], 10, 20),
    ("codebook", "SGD", {}, [IN, RING, BETWEEN], 6, 2),
    ("attention", "Adafactor", {"learning_rate": 0.1, "epsilon_1": 1e-3}, [IN], 10, 26),
]


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    asked = [
        {"model": model, "optimizer": optimizer, "options": options, "ways": ways}
        for model, optimizer, options, ways, _, _ in CASES
    ]
    lines = printed("tests.oracle.capturing", json.dumps(asked), keras=True)
    assert len(lines) == len(CASES)
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("place", range(len(CASES)))
def test_gradients_slots_and_the_step_are_found(told: list[dict[str, Any]], place: int) -> None:
    model, *_, trained, slots = CASES[place]
    found = told[place]
    assert (found["gradients"], found["beside"]) == (trained, slots)
    assert len(found["counts"]) == 1
    # moving averages, the draws of dropout, and the step; of a codebook two values come, not one
    others = {"dense": 4, "words": 1, "rows": 1, "fixed": 1, "attention": 1, "codebook": 0}[model]
    assert found["variables"] == trained + slots + others + 1  # the learning rate
    still = found["variables"] - found["moved"]
    assert 1 <= still <= (1 if model != "attention" else 5)  # a bias of all keys alike makes no difference


@pytest.mark.parametrize("place", range(len(CASES)))
def test_replicas_update_the_variables_as_the_original_does(told: list[dict[str, Any]], place: int) -> None:
    assert {how: value <= 1e-5 for how, value in told[place]["differences"].items()} == {
        how: True for how, *_ in CASES[place][3]
    }
