"""Our accumulator and token queue are TensorFlow's, state by state, through whatever schedule.

Every gradient is a power of two, so that a mean tells which gradients are in it; every outcome of an op that waited is
compared, and with them who was served first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from simulator.oracle import child
from tests.training.reference_synchronisation import Accumulator, TokenQueue

pytestmark = pytest.mark.tensorflow

Action: TypeAlias = tuple[Any, ...]
Ask: TypeAlias = Callable[..., dict[str, Any]]
CLOSED = "OutOfRangeError"  # to whoever waits for tokens of which no more come
FUTURE = 10**6  # a step that no accumulator is past
LIMIT_S = 60.0
DRAWING = (
    Phase.explicit,
    Phase.reuse,
    Phase.generate,
)  # where TensorFlow waits and we do not, shrinking takes too long

numbers = st.integers(0, 3)
rows = st.sampled_from([(0,), (1,), (0, 1)])
accumulations = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), st.integers(0, 5), rows),
        st.tuples(st.just("take"), st.integers(1, 3)),
        st.tuples(st.just("set"), st.integers(0, 5)),
    ),
    max_size=24,
)
queueing = st.lists(
    st.one_of(
        st.tuples(st.just("put"), numbers, st.integers(1, 5)),
        st.tuples(st.just("get"), st.integers(1, 4)),
        st.tuples(st.just("one")),
    ),
    max_size=24,
)


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Drives the real ops."""
    with child.conversation("tests.oracle.accumulating") as asking:
        yield lambda **question: json.loads(asking(json.dumps(question).encode(), LIMIT_S))


@settings(phases=DRAWING)
@example("dense", [("take", 2), ("take", 1), ("apply", 0, (0,)), ("apply", 0, (0,)), ("apply", 1, (0,))])
@example("dense", [("apply", 0, (0,)), ("apply", 5, (0,)), ("apply", 0, (0,)), ("take", 2), ("take", 1)])
@example("sparse", [("set", 4), ("apply", 3, (0,)), ("apply", 4, (0, 1)), ("set", 1), ("apply", 2, (1,)), ("take", 2)])
@given(st.sampled_from(["dense", "sparse", "resource"]), accumulations)
def test_an_accumulator_gathers_drops_and_serves_as_tensorflows_does(ask: Ask, kind: str, drawn: list[Action]) -> None:
    actions = [(*action, 2.0**number) if action[0] == "apply" else action for number, action in enumerate(drawn)]
    _, machine = accumulated(kind, actions)
    # its step is told by what it drops: a gradient of the step before, if there is one, and none of its own
    actions += [("apply", at, (0,), 0.0) for at in (machine.step - 1, machine.step) if at >= 0]
    while accumulated(kind, actions)[1].takers:  # whoever waits is served in the end
        actions.append(("apply", FUTURE, (0,), 2.0 ** len(actions)))
    assert ask(kind=kind, actions=actions) == accumulated(kind, actions)[0]


def accumulated(kind: str, actions: list[Action]) -> tuple[dict[str, Any], Accumulator]:
    """What the real accumulator should tell, and what is left of ours."""
    machine, gathered, counts, outcome = Accumulator(), [], [], {}
    for number, (name, *values) in enumerate(actions):
        if name == "apply":
            local_step, where, value = values
            if machine.apply(local_step):
                gathered.append((where, value))
        elif name == "set":
            machine.set_step(*values)
        else:
            machine.ask(number, *values)
        while (who := machine.admitted()) >= 0:
            outcome[who] = averaged(kind, gathered)
            gathered = []
        counts.append(machine.count)
    return {"counts": counts, "outcome": [[number, told] for number, told in sorted(outcome.items())]}, machine


def averaged(kind: str, gathered: list[tuple[tuple[int, ...], float]]) -> Any:
    """The mean of all that was gathered; a sparse one has, for each row, that of the gradients that have it."""
    sums = [sum(value for where, value in gathered if row in where) for row in (0, 1)]
    if kind != "sparse":
        return [total / len(gathered) for total in sums]
    having = [sum(row in where for where, _ in gathered) for row in (0, 1)]
    there = [row for row in (0, 1) if having[row]]
    return [there, [sums[row] / having[row] for row in there]]


@settings(phases=DRAWING)
@example(-1, [("get", 3), ("one",), ("put", 1, 2), ("put", 2, 3)], True)
@example(2, [("put", 1, 5), ("put", 2, 1), ("get", 4), ("one",), ("one",)], False)
@given(st.sampled_from([-1, 1, 2, 4]), queueing, st.booleans())
def test_a_token_queue_serves_as_tensorflows_does(ask: Ask, capacity: int, drawn: list[Action], closed: bool) -> None:
    actions = [("put", [action[1]] * action[2]) if action[0] == "put" else action for action in drawn]
    while queued(capacity, actions)[1].adders:  # whoever adds has done so in the end: a close would wait for it
        actions.append(("one",))
    while (left := queued(capacity, actions)[1].takers) and not (closed and _has_none(left[0], actions)):
        actions.append(("put", [len(actions)]))
    actions += [("close",)] * closed  # whoever waits then gets nothing
    ours, _ = queued(capacity, actions)
    told = ask(capacity=capacity, actions=actions)
    last = [[number, told[-1] if isinstance(told, list) else told] for number, told in told["outcome"]]
    assert {**told, "outcome": last} == ours


def _has_none(taker: list[int], actions: list[Action]) -> bool:
    """Whether one that waits has none of its tokens yet: what it gives back, others behind it could take."""
    who, left, _ = taker
    return left == (actions[who][1] if actions[who][0] == "get" else 1)


def queued(capacity: int, actions: list[Action]) -> tuple[dict[str, Any], TokenQueue]:
    """What the real queue should tell, of tokens that were taken together the last; and what is left of ours."""
    machine, sizes = TokenQueue(capacity), []
    outcome: dict[int, Any] = {}
    for number, (name, *values) in enumerate(actions):
        if name == "put":
            machine.enqueue(number, values[0][0], len(values[0]))
        elif name == "close":
            outcome.update((who, CLOSED) for who, _, _ in machine.takers)
            machine.takers.clear()
        else:
            machine.dequeue(number, *values or [1])
        for who, token in machine.admitted():
            outcome[who] = None if actions[who][0] == "put" else token
        sizes.append(machine.size)
    return {"sizes": sizes, "outcome": [[number, told] for number, told in sorted(outcome.items())]}, machine
