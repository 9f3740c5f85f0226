"""Accumulators and queues of tokens in arrays, against the machines of the reference, asked the same at random."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from simulator.execution.arrays import filled, listed
from simulator.training.control import synchronisation
from simulator.training.control.arrays import (
    DROPPED,
    GLOBAL_STEP,
    TOTALS,
    Clients,
    Control,
    InputState,
    Steps,
    SyncOps,
    SyncResources,
    SyncState,
)
from simulator.training.recognition.sync_ops import APPLY, DEQUEUE, ENQUEUE, TAKE
from tests.training.reference_synchronisation import Accumulator, TokenQueue

OPS, RUNS = 8, 400


def control(kind: list[int], amount: list[int], reserve: list[int], *, queue: bool, capacity: int) -> Control:
    """One resource, and synchronisation ops, each of a client of its own."""
    nothing = [0] * OPS
    sync_ops = SyncOps(nothing, list(range(OPS)), kind, nothing, amount, reserve)  # type: ignore[arg-type]
    make: Any = Clients
    clients = make(*([0] * OPS for _ in Clients._fields))
    clients = clients._replace(sync_op_ptr=list(range(OPS + 1)))
    sync_resources = SyncResources([queue], [capacity], [0], [0])  # type: ignore[arg-type]
    rules: Any = type("Rules", (), {"sync_ops": sync_ops, "clients": clients})
    rules.sync_resources, rules.run_ptr = sync_resources, [0, RUNS]
    sizes = {"H": 1, "F": OPS + 1, "2F": 4 * OPS, "runs": RUNS, "1": 1, "C": OPS}
    sync = listed(filled(SyncState, sizes, first_taker=[-1], first_adder=[-1]))
    steps: Any = type("Steps", (), {"totals": [0] * TOTALS})
    assert Steps.totals
    inputs = listed(filled(InputState, {"threads": 0, "places": 0, "I": 0, "C": OPS}))
    return Control(rules, sync, None, steps, None, inputs)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(60))
def test_an_accumulator_does_what_the_reference_does(seed: int) -> None:
    random, reference = Random(seed), Accumulator()
    kind = [random.choice([APPLY, TAKE]) for _ in range(OPS)]
    amount = [random.randrange(1, 4) for _ in range(OPS)]
    ours = control(kind, amount, [0] * OPS, queue=False, capacity=-1)
    waiting: set[int] = set()
    for now in range(100):
        op = random.randrange(OPS)
        if op in waiting:
            synchronisation.cancel(ours, op)
            reference.cancel(op)
            waiting.remove(op)
            continue  # it frees nobody before something else happens to the resource
        if kind[op] == APPLY:
            ours.sync.local_step[op] = random.randrange(6)
            reference.apply(int(ours.sync.local_step[op]))
            synchronisation.deliver(ours, op)
        else:
            reference.ask(op, amount[op])
            synchronisation.request(ours, op, now)
            waiting.add(op)
        if random.random() < 0.1:
            ours.steps.totals[GLOBAL_STEP] = random.randrange(6)
            synchronisation.restore(ours, 1)  # another task's
            reference.set_step(int(ours.steps.totals[GLOBAL_STEP]))
        released = list(iter(reference.admitted, -1))
        assert list(ours.sync.released[: synchronisation.release(ours, now)]) == released
        waiting -= set(released)
        assert ours.sync.stored[0] == reference.count
        assert ours.steps.totals[DROPPED] == reference.dropped


@pytest.mark.parametrize("seed", range(60))
def test_a_queue_does_what_the_reference_does(seed: int) -> None:
    random = Random(seed)
    capacity = random.choice([-1, 1, 2, 5])
    reference = TokenQueue(capacity)
    kind = [random.choice([ENQUEUE, DEQUEUE]) for _ in range(OPS)]
    amount = [random.randrange(1, 4) for _ in range(OPS)]
    reserve = [random.randrange(2) if capacity != 1 else 0 for _ in range(OPS)]
    ours = control(kind, amount, reserve, queue=True, capacity=capacity)
    waiting: set[int] = set()
    for now in range(100):
        op = random.randrange(OPS)
        ours.steps.totals[GLOBAL_STEP] = now // 7
        if op in waiting:
            synchronisation.cancel(ours, op)
            reference.cancel(op)
            waiting.remove(op)
            continue  # it frees nobody before something else happens to the resource
        if kind[op] == ENQUEUE:
            reference.enqueue(op, now // 7, amount[op])
            synchronisation.deliver(ours, op)
            waiting.add(op)
        else:
            reference.dequeue(op, amount[op], reserve[op])
            synchronisation.request(ours, op, now)
            waiting.add(op)
        released = list(reference.admitted())
        assert list(ours.sync.released[: synchronisation.release(ours, now)]) == [who for who, _ in released]
        for who, token in released:
            assert token < 0 or ours.sync.local_step[who] == token
        waiting -= {who for who, _ in released}
        assert ours.sync.stored[0] == reference.size
