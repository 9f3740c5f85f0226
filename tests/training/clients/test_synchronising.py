"""Accumulators and queues of tokens in arrays, against the machines of the reference, asked the same at random."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from simulator.execution.backend import PYTHON
from simulator.execution.running import filled, listed
from simulator.training.clients.client_set import APPLY, DEQUEUE, ENQUEUE, TAKE
from simulator.training.control.arrays import (
    DROPPED,
    GLOBAL_STEP,
    TOTALS,
    Clients,
    Control,
    Lines,
    Objects,
    Steps,
    SyncOpRows,
)
from simulator.training.control.synchronisation import synchronisation_of
from tests.training.reference_synchronisation import Accumulator, Clocks, TokenQueue

INITIALISE, APPLIES, ASKS, LET_GO, _, _, FORGET, RESTORE = synchronisation_of(PYTHON)
MARKS, RUNS = 8, 400


def control(kind: list[int], amount: list[int], reserve: list[int], *, queue: bool, capacity: int) -> Control:
    """One resource, and marked ops each of a client of its own."""
    nothing = [0] * MARKS
    marks = SyncOpRows(nothing, nothing, list(range(MARKS)), kind, nothing, amount, reserve)  # type: ignore[arg-type]
    make: Any = Clients
    clients = make(*([0] * MARKS for _ in Clients._fields))
    clients = clients._replace(mark_ptr=list(range(MARKS + 1)))
    objects = Objects([queue], [capacity], [0], [0], [0, RUNS])  # type: ignore[arg-type]
    rules: Any = type("Rules", (), {"marks": marks, "clients": clients, "objects": objects})
    sizes = {"H": 1, "F": MARKS + 1, "2F": 4 * MARKS, "runs": RUNS, "1": 1, "C": MARKS}
    lines = listed(filled(Lines, sizes, taker=[-1], adder=[-1]))
    steps: Any = type("Steps", (), {"totals": [0] * TOTALS})
    assert Steps.totals
    return Control(rules, lines, steps, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(60))
def test_an_accumulator_does_what_the_reference_does(seed: int) -> None:
    random, reference = Random(seed), Accumulator()
    kind = [random.choice([APPLY, TAKE]) for _ in range(MARKS)]
    amount = [random.randrange(1, 4) for _ in range(MARKS)]
    ours = control(kind, amount, [0] * MARKS, queue=False, capacity=-1)
    waiting: set[int] = set()
    for now in range(100):
        mark = random.randrange(MARKS)
        if mark in waiting:
            FORGET(ours, mark)
            reference.forget(mark)
            waiting.remove(mark)
            continue  # it frees nobody before something else happens to the resource
        if kind[mark] == APPLY:
            ours.lines.local_step[mark] = random.randrange(6)
            reference.apply(int(ours.lines.local_step[mark]))
            APPLIES(ours, mark)
        else:
            reference.ask(mark, amount[mark])
            ASKS(ours, mark, now)
            waiting.add(mark)
        if random.random() < 0.1:
            ours.steps.totals[GLOBAL_STEP] = random.randrange(6)
            RESTORE(ours, 1)  # another task's
            reference.set_step(int(ours.steps.totals[GLOBAL_STEP]))
        released = list(iter(reference.admitted, -1))
        assert list(ours.lines.found[: LET_GO(ours, now)]) == released
        waiting -= set(released)
        assert ours.lines.there[0] == reference.count
        assert ours.steps.totals[DROPPED] == reference.dropped


@pytest.mark.parametrize("seed", range(60))
def test_a_queue_does_what_the_reference_does(seed: int) -> None:
    random = Random(seed)
    capacity = random.choice([-1, 1, 2, 5])
    reference = TokenQueue(capacity)
    kind = [random.choice([ENQUEUE, DEQUEUE]) for _ in range(MARKS)]
    amount = [random.randrange(1, 4) for _ in range(MARKS)]
    reserve = [random.randrange(2) if capacity != 1 else 0 for _ in range(MARKS)]
    ours = control(kind, amount, reserve, queue=True, capacity=capacity)
    waiting: set[int] = set()
    for now in range(100):
        mark = random.randrange(MARKS)
        ours.steps.totals[GLOBAL_STEP] = now // 7
        if mark in waiting:
            FORGET(ours, mark)
            reference.forget(mark)
            waiting.remove(mark)
            continue  # it frees nobody before something else happens to the resource
        if kind[mark] == ENQUEUE:
            reference.enqueue(mark, now // 7, amount[mark])
            APPLIES(ours, mark)
            waiting.add(mark)
        else:
            reference.dequeue(mark, amount[mark], reserve[mark])
            ASKS(ours, mark, now)
            waiting.add(mark)
        released = list(reference.admitted())
        assert list(ours.lines.found[: LET_GO(ours, now)]) == [who for who, _ in released]
        for who, token in released:
            assert token < 0 or ours.lines.local_step[who] == token
        waiting -= {who for who, _ in released}
        assert ours.lines.there[0] == reference.size


def test_clocks_of_the_reference_let_all_go_that_a_tick_frees() -> None:
    clocks = Clocks([True, True, True], 0)
    assert [clocks.may(one) for one in range(3)] == [True] * 3
    assert clocks.tick(0) == []
    assert not clocks.may(0)
    assert clocks.tick(1) == []
    assert not clocks.may(1)
    assert clocks.tick(2) == [0, 1]
