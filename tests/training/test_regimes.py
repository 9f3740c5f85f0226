"""Regimes: how they are read, what they refuse, and that exactly those hang that are said to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from simulator.errors import DeadlockError, GraphError, SimvizError
from simulator.graph.graph import Graph
from simulator.training.programs.accumulators import with_accumulators
from simulator.training.programs.program import Program
from simulator.training.recognition.sync_replicas import regime_of
from simulator.training.regimes import (
    FORMS,
    HELP,
    KINDS,
    Regime,
    describe,
    read_regime,
    tokens_per_update,
    with_defaults,
)
from tests.strategies import Rows
from tests.training.queues import synchronised


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("async", Regime("async")),
        ("sync", Regime("sync")),
        (" sync:aggregate=8,total=10,tokens=4", Regime("sync", 8, 10, 4)),
        ("sync: tokens = 0", Regime("sync", tokens=0)),
        ("ssp:bound=0", Regime("ssp", bound=0)),
        ("none", None),
    ],
)
def test_a_regime_is_read_and_written(text: str, read: Regime | None) -> None:
    assert read_regime(text) == read
    if read is not None:
        assert read_regime(str(read)) == read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("synch", r"'synch' is not a regime; write none, async, .* Did you mean 'sync' or 'async'"),
        ("", "'' is not a regime"),
        ("none:x=1", "is not a regime"),
        ("async:bound=1", "the regime async takes no numbers"),
        ("sync:bound=1", "the regime sync takes aggregate, total, tokens"),
        ("sync:agregate=1", "Did you mean 'aggregate'"),
        ("sync:", "takes aggregate, total, tokens"),
        ("sync:aggregate", "takes aggregate, total, tokens"),
        ("sync:aggregate=two", "aggregate is a whole number"),
        ("sync:aggregate=2,aggregate=2", "gives 'aggregate' twice"),
        ("sync:aggregate=0", "aggregate=0; give a number from 1"),
        ("sync:tokens=-1", "tokens=-1; give a number from 0"),
        ("sync:total=99999999", "give a number from 1 to 10,000"),
        ("sync:tokens=1000000", "give a number from 0 to 10,000"),  # all of them steps for nothing
        ("ssp", "needs its bound, such as ssp:bound=3"),
        ("ssp:bound=-1", "bound=-1; give a number from 0"),
    ],
)
def test_what_is_no_regime_is_refused_with_what_is(text: str, said: str) -> None:
    with pytest.raises(SimvizError, match=said):
        read_regime(text)


def test_defaults_are_those_of_sync_replicas() -> None:
    assert with_defaults(Regime("sync"), 5) == Regime("sync", 5, 5, 5)
    assert with_defaults(Regime("sync", aggregate=3), 5) == Regime("sync", 3, 5, 3)
    assert with_defaults(Regime("sync", aggregate=8), 5) == Regime("sync", 8, 5, 8)
    assert [tokens_per_update(with_defaults(Regime("sync", aggregate=a), 5)) for a in (3, 8)] == [5, 8]
    assert with_defaults(Regime("async"), 5) == Regime("async")


def test_the_total_is_the_number_of_workers() -> None:
    with pytest.raises(SimvizError, match="total=10 replicas, but 8 workers would be started"):
        with_defaults(Regime("sync", total=10), 8)


# ---- what hangs -----------------------------------------------------------------------------------------------------

UPDATES = 3  # what hangs later than at the second would have to hang at the third


# per worker its local step and what it has to push, per variable count and step, what is left to take, step, tokens
State: TypeAlias = tuple[
    tuple[tuple[int, frozenset[int] | None], ...], tuple[tuple[int, int], ...], frozenset[int], int, tuple[int, ...]
]


def moves(state: State, aggregate: int, handed: int) -> Iterator[State]:
    """The states that one more move leads to; each worker pushes its gradients one by one, the chief takes one by one.

    A state is: (per worker: its local step and the variables that it has still to push, None while it waits for a
    token), (per variable: count, step), the variables that the chief has still to take, the global step, the tokens.
    """
    workers, accumulators, left, step, tokens = state
    for at, (local, pending) in enumerate(workers):
        if pending is None:
            if tokens:
                took = (tokens[0], frozenset(range(len(accumulators))))
                yield _with(workers, at, took), accumulators, left, step, tokens[1:]
            continue
        for variable in pending:
            count, own = accumulators[variable]
            pushed = _with(accumulators, variable, (count + (local >= own), own), ordered=True)
            rest = pending - {variable}
            yield _with(workers, at, (local, rest or None)), pushed, left, step, tokens
    for variable in left:
        count, own = accumulators[variable]
        if count >= aggregate:
            taken = _with(accumulators, variable, (0, own + 1), ordered=True)
            rest = left - {variable}
            if rest:
                yield workers, taken, rest, step, tokens
            else:
                everything = frozenset(range(len(accumulators)))
                yield workers, taken, everything, step + 1, (*tokens, *[step + 1] * handed)


def _with(entries: tuple[Any, ...], at: int, entry: tuple[Any, ...], *, ordered: bool = False) -> tuple[Any, ...]:
    """Entries with one replaced; workers are all alike, so that their order says nothing."""
    new = [*entries[:at], entry, *entries[at + 1 :]]
    return tuple(new) if ordered else tuple(sorted(new, key=lambda one: (one[0], sorted(one[1] or [-1]))))


def can_hang(workers: int, aggregate: int, tokens: int, handed: int, variables: int) -> bool:
    """Whether some order of events leads to a state in which nobody can go on, by trying all of them."""
    everything = frozenset(range(variables))
    start: State = (((0, everything),) * workers, ((0, 0),) * variables, everything, 0, (0,) * tokens)
    seen, pending = {start}, [start]
    while pending:
        state = pending.pop()
        if state[3] == UPDATES:
            continue
        after = list(moves(state, aggregate, handed))
        if not after:
            return True
        for new in after:
            if new not in seen:
                seen.add(new)
                pending.append(new)
    return False


def is_refused(asked: Callable[[], object]) -> bool:
    try:
        asked()
    except DeadlockError:
        return True
    return False


def programs(graph: Graph, workers: int) -> list[Program]:
    return [
        Program(f"worker:{at}", f"/job:worker/replica:0/task:{at}", graph, ("train",), like=0 if at else None)
        for at in range(workers)
    ]


@pytest.mark.parametrize("variables", [1, 2])
def test_exactly_what_hangs_is_refused(variables: int) -> None:
    """For all small numbers, with SyncReplicasOptimizer's tokens per update."""
    hangs = {}
    for workers, aggregate, tokens in product((1, 2, 3), (1, 2, 3, 4), (0, 1, 2)):
        case = (workers, aggregate, tokens)
        hangs[case] = can_hang(workers, aggregate, tokens, max(workers, aggregate), variables)
        regime = Regime("sync", aggregate, workers, tokens)
        assert is_refused(partial(with_defaults, regime, workers)) == hangs[case], case
    assert {True, False} == set(hangs.values())


@pytest.mark.parametrize("variables", [1, 2])
def test_a_graph_that_hands_out_too_few_tokens_hangs_at_its_second_update(variables: int) -> None:
    hangs = {}
    for workers, aggregate, handed, tokens in product((1, 2, 3), (1, 2, 3), (1, 2, 3), (0, 1, 3)):
        if workers > handed or handed not in (workers, aggregate):
            continue  # that number of workers is refused, whether it hangs or not
        graph = synchronised(aggregate=aggregate, handed=handed, tokens=tokens)
        case = (workers, aggregate, handed, tokens)
        hangs[case] = can_hang(workers, aggregate, tokens, handed, variables)
        assert is_refused(partial(regime_of, None, programs(graph, workers))) == hangs[case], case
    assert hangs[2, 3, 2, 3]
    assert not hangs[2, 3, 3, 3]


def test_a_hang_is_named_with_what_helps() -> None:
    with pytest.raises(DeadlockError, match=r"2 workers with 1 token can make only 3 before it. Start with tokens=6"):
        with_defaults(Regime("sync", aggregate=8, tokens=1), 2)


# ---- a graph's own --------------------------------------------------------------------------------------------------


def test_a_graph_that_synchronises_itself_brings_its_numbers() -> None:
    graph = synchronised(aggregate=3, handed=4, tokens=2)
    assert regime_of(None, programs(graph, 4)) == Regime("sync", 3, 4, 2)
    assert regime_of(Regime("sync", total=4), programs(graph, 4)) == Regime("sync", 3, 4, 2)
    few = synchronised(aggregate=3, handed=3, tokens=None)
    assert regime_of(None, programs(few, 2)) == Regime("sync", 3, 2, 3)
    assert regime_of(Regime("sync", tokens=1), programs(few, 2)) == Regime("sync", 3, 2, 1)


@pytest.mark.parametrize(
    ("regime", "workers", "error", "said"),
    [
        (Regime("async"), 4, GraphError, "trains by sync:aggregate=3,total=4,tokens=2; async contradicts it"),
        (Regime("ssp", bound=1), 4, GraphError, "contradicts it. Leave the regime out"),
        (Regime("sync", aggregate=2), 4, GraphError, "has aggregate=3 written into it, .* says aggregate=2"),
        (Regime("sync", tokens=5), 4, GraphError, "has tokens=2 written into it, .* says tokens=5"),
        (None, 3, GraphError, "written for 4 replicas, but 3 workers would be started"),
        (None, 5, GraphError, "written for 4 replicas, but 5 workers would be started"),
    ],
)
def test_a_regime_that_its_graph_contradicts(regime: Regime, workers: int, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        regime_of(regime, programs(synchronised(aggregate=3, handed=4, tokens=2), workers))


def test_more_workers_than_a_graph_hands_out_tokens_for() -> None:
    with pytest.raises(GraphError, match="hands out 3 tokens per update, for at most as many replicas, but 4 workers"):
        regime_of(None, programs(synchronised(aggregate=3, handed=3, tokens=3), 4))


@pytest.mark.parametrize(("workers", "regime"), [(2, Regime("sync")), (1, Regime("sync", aggregate=3))])
def test_nobody_waits_for_gradients_without_accumulators(workers: int, regime: Regime) -> None:
    """Programs that were made for another regime trained asynchronously, under the name of this one."""
    with pytest.raises(GraphError, match=r"holds no accumulators, so .* Make the programs in the same regime"):
        regime_of(regime, programs(Rows().built(), workers))


def test_a_single_worker_waits_for_nobody() -> None:
    assert regime_of(Regime("sync"), programs(Rows().built(), 1)) == Regime("sync", 1, 1, 1)


def test_nothing_trains_without_a_worker() -> None:
    for regime in (Regime("async"), Regime("sync")):
        with pytest.raises(SimvizError, match="nothing trains"):
            regime_of(regime, [])
    with pytest.raises(SimvizError, match="nothing trains"):
        with_accumulators([], Regime("sync"))


def test_in_words() -> None:
    assert "older than what it changes" in describe(Regime("async"), 4)
    assert "more than 3 steps ahead of the slowest" in describe(Regime("ssp", bound=3), 4)
    assert "averages the gradients of all 4 workers" in describe(Regime("sync"), 4)
    backup = describe(Regime("sync", aggregate=8, tokens=2), 10)
    assert "first 8 gradients; 2 workers of 10 are backup" in backup
    assert "2 at first and each update hands out 10" in backup
    assert describe(Regime("sync"), 1) == "Synchronous, of one worker: it waits for nobody."
    assert "6 gradients of 2 workers, which make several batches" in describe(Regime("sync", aggregate=6), 2)
    assert "2 gradients of 1 worker, which makes several batches" in describe(Regime("sync", aggregate=2), 1)


@pytest.mark.parametrize("form", FORMS[1:])
def test_each_form_in_a_message_is_a_regime(form: str) -> None:
    assert str(read_regime(form)) == form


@pytest.mark.parametrize("kind", KINDS)
def test_each_regime_is_described(kind: str) -> None:
    """In the help, and in the page."""
    assert f"`{kind}" in Path("docs/training.md").read_text(encoding="utf-8")
    assert KINDS[kind].summary in HELP
