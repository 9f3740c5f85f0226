"""TensorFlow runs the graphs that were given accumulators, and comes to what the state machines say."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from simulator.training.regimes import read_regime, tokens_per_update, with_defaults
from tests.oracle.forking import printed
from tests.training.reference_synchronisation import Accumulator, TokenQueue

pytestmark = pytest.mark.tensorflow
WORKERS, CHIEF, START = 2, 2, 3  # who asks the machines
X = (1.0, 3.0)  # what each worker's gradient is, or which rows it has


@dataclass
class Expected:
    """The same schedule for the state machines, and the sums that an accumulator of one number holds."""

    regime: str
    accumulator: Accumulator = field(default_factory=Accumulator)
    queue: TokenQueue = field(default_factory=TokenQueue)
    total: float = 0.0
    averages: list[float] = field(default_factory=list)
    local: list[int] = field(default_factory=lambda: [0] * WORKERS)
    step: int = 0

    def __post_init__(self) -> None:
        known = read_regime(self.regime)
        assert known is not None
        self.known = with_defaults(known, WORKERS)
        self.queue.enqueue(START, 0, self.known.tokens or 0)
        self._go_on()

    def _go_on(self) -> None:
        for who, token in self.queue.admitted():
            if who < WORKERS:
                self.local[who] = token

    def after(self, entry: str) -> list[int]:
        """Global step, tokens and gradients after an entry of the schedule."""
        if entry == "u":
            count = self.accumulator.count
            self.accumulator.ask(CHIEF, self.known.aggregate or 0)
            assert self.accumulator.admitted() == CHIEF
            self.averages.append(self.total / count)
            self.total, self.step = 0.0, self.step + 1
            self.queue.enqueue(CHIEF, self.step, tokens_per_update(self.known))
        else:
            worker = int(entry)
            if self.accumulator.apply(self.local[worker]):
                self.total += X[worker]
            self.queue.dequeue(worker, 1)
        self._go_on()
        return [self.step, self.queue.size, self.accumulator.count]


SCHEDULES = {
    "sync:tokens=0": "0 1 u 0 1 u 1 0 u",
    "sync:aggregate=1,tokens=0": "0 u 1 0 u 0 1 u",  # a backup worker: gradients that come too late are dropped
    "sync:aggregate=3,tokens=2": "0 0 1 u 0 1 0 1 u",  # several batches each; a token taken twice
    "sync": "0 1 u 0 1 0 1 u",  # first tokens, so that gradients of the second step are late
}
KINDS: list[dict[str, Any]] = [
    {"model": "dense", "resource": False, "optimizer": "sgd", "step": True},
    {"model": "dense", "resource": True, "optimizer": "sgd", "step": True},
    {"model": "dense", "resource": False, "optimizer": "sgd", "step": False},
    {"model": "dense", "resource": True, "optimizer": "adam", "step": True},
    {"model": "sparse", "resource": False, "optimizer": "sgd", "step": True},
    {"model": "sparse", "resource": True, "optimizer": "adam", "step": True},
]
CASES = [
    *({**KINDS[0], "regime": regime} for regime in SCHEDULES),
    *({**kind, "regime": "sync:tokens=0"} for kind in KINDS[1:]),
]


@pytest.fixture(scope="module")
def told() -> list[list[list[Any]]]:
    """What TensorFlow has after each entry, case by case; the last case runs freely."""
    cases = []
    for case in CASES:
        expected = Expected(case["regime"])
        schedule = [(entry, expected.after(entry)) for entry in SCHEDULES[case["regime"]].split()]
        cases.append({**case, "x": X, "schedule": schedule})
    cases.append({**KINDS[0], "regime": "sync:aggregate=1", "x": X, "schedule": [("free", [])], "updates": 30})
    lines = printed("tests.oracle.averaging", json.dumps(cases))
    assert len(lines) == len(cases)
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("place", range(len(CASES)))
def test_steps_tokens_and_gradients_are_those_of_the_state_machines(told: list[Any], place: int) -> None:
    expected = Expected(CASES[place]["regime"])
    entries = SCHEDULES[CASES[place]["regime"]].split()
    assert [entry[1:] for entry in told[place]] == [expected.after(entry) for entry in entries]


@pytest.mark.parametrize("place", range(len(CASES)))
def test_updates_are_those_of_the_averages(told: list[Any], place: int) -> None:
    case = CASES[place]
    expected = Expected(case["regime"])
    for entry in SCHEDULES[case["regime"]].split():
        expected.after(entry)
    updates = len(expected.averages)
    last = told[place][-1][0]
    if case["optimizer"] == "adam":  # whose steps are of one length while the gradient stays what it is
        moved = [last] if case["model"] == "dense" else [last[0], last[1], last[3]]
        assert moved == pytest.approx([-0.5 * updates] * len(moved), rel=1e-4)
    elif case["model"] == "dense":
        assert last == -sum(expected.averages)
    else:  # a row is averaged over the gradients that have it
        assert last == [-2.0 * updates, -1.0 * updates, 0.0, -3.0 * updates]


def test_in_threads_of_their_own_nobody_hangs(told: list[Any]) -> None:
    assert told[-1][0][1] == 30
