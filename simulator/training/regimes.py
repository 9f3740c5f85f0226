"""Regimes say when updates are made: "async", "sync:aggregate=8,total=10,tokens=4", "ssp:bound=3".

    async    every gradient is applied as it comes
    sync     an update averages `aggregate` gradients of `total` workers; tokens let the workers go on
    ssp      as async, but no worker's clock runs more than `bound` ahead of the slowest

The numbers of `sync` are those of TensorFlow's SyncReplicasOptimizer
(tensorflow/python/training/sync_replicas_optimizer.py); `ssp` is stale synchronous parallel (Ho et al., NIPS 2013).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from simulator.errors import DeadlockError, GraphError, SimvizError
from simulator.training.programs.program import Program
from simulator.training.recognition.sync_replicas import SyncReplicas, sync_replicas
from simulator.wording import counted, near

Kind: TypeAlias = Literal["async", "sync", "ssp"]
FORM = "write none, async, sync, sync:aggregate=8,total=10,tokens=4 or ssp:bound=3"

_NUMBERS: dict[str, tuple[str, ...]] = {"async": (), "sync": ("aggregate", "total", "tokens"), "ssp": ("bound",)}
# Every step of a first token but A is for nothing, and every gradient of an update takes one: more would not end.
_RANGES = {"aggregate": (1, 10_000), "total": (1, 10_000), "tokens": (0, 10_000), "bound": (0, 10**6)}


@dataclass(frozen=True, slots=True)
class Regime:
    """Who waits for whom between steps; a number that is None takes its default. `str()` writes it as it is read.

    "async": an update per gradient, nobody waits. "sync": an update averages `aggregate` gradients, as
    SyncReplicasOptimizer does it; those of `total` - `aggregate` backup workers come too late and are dropped.
    "ssp": as async, but whoever is more than `bound` steps ahead of the slowest worker waits for it.

    Raises SimvizError for an unknown kind, a number out of its range, or one that the kind does not have.

    >>> Regime("sync", aggregate=8, total=10)
    Regime(kind='sync', aggregate=8, total=10, tokens=None, bound=None)
    """

    kind: Kind
    aggregate: int | None = None  # sync: gradients per update; None: total
    total: int | None = None  # sync: replicas that compute gradients; None: all workers
    tokens: int | None = None  # sync: in the queue before the first step; None: aggregate
    bound: int | None = None  # ssp: steps that a worker may be ahead of the slowest

    def __post_init__(self) -> None:
        if self.kind not in _NUMBERS:
            raise SimvizError(f"There is no regime {self.kind!r}; {FORM}.{near(self.kind, list(_NUMBERS))}")
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and name not in _NUMBERS[self.kind]:
                raise SimvizError(f"The regime {self.kind} has no {name!r}; {FORM}.")
            if value is not None and not least <= value <= most:
                raise SimvizError(f"The regime {self.kind} has {name}={value}; give a number from {least} to {most:,}.")
        if self.kind == "ssp" and self.bound is None:
            raise SimvizError(f"The regime ssp needs its bound, such as ssp:bound=3; {FORM}.")

    def __str__(self) -> str:
        given = [f"{name}={getattr(self, name)}" for name in _NUMBERS[self.kind] if getattr(self, name) is not None]
        return f"{self.kind}:{','.join(given)}" if given else self.kind


def read_regime(text: str) -> Regime | None:
    """Read a regime; "none" is None. Raises SimvizError that says what is allowed.

    >>> str(read_regime("sync:total=10,aggregate=8"))
    'sync:aggregate=8,total=10'
    """
    kind, colon, rest = text.strip().partition(":")
    if kind == "none" and not colon:
        return None
    if kind not in _NUMBERS:
        raise SimvizError(f"{text!r} is not a regime; {FORM}.{near(kind, ['none', *_NUMBERS])}")
    numbers: dict[str, int] = {}
    for part in rest.split(",") if colon else ():
        name, equals, value = (word.strip() for word in part.partition("="))
        known = _NUMBERS[kind]
        if not equals or name not in known:
            allowed = f"takes {', '.join(known)}" if known else "takes no numbers"
            meant = near(name, [word for word in known if word != name])
            raise SimvizError(f"{part!r} in {text!r}: the regime {kind} {allowed}; {FORM}.{meant}")
        if name in numbers:
            raise SimvizError(f"{text!r} gives {name!r} twice; give it once.")
        try:
            numbers[name] = int(value)
        except ValueError:
            raise SimvizError(f"{part!r} in {text!r}: {name} is a whole number; {FORM}.") from None
    return Regime(kind, **numbers)  # type: ignore[arg-type]  # it is one of the kinds


def settled(regime: Regime, workers: int) -> Regime:
    """The regime with its defaults, for that many workers.

    Raises SimvizError where `total` is another number, DeadlockError where the first update can never be made.
    """
    if regime.kind != "sync":
        return regime
    total = workers if regime.total is None else regime.total
    if total != workers:
        raise SimvizError(
            f"The regime {regime} is for total={total} replicas, but {counted(workers, 'worker')} would be started "
            f"(towers within a worker count as one). Start {total}, or write total={workers}."
        )
    aggregate = total if regime.aggregate is None else regime.aggregate
    tokens = aggregate if regime.tokens is None else regime.tokens
    _check_first_update(aggregate, workers, tokens)
    return replace(regime, aggregate=aggregate, total=total, tokens=tokens)


def tokens_per_update(regime: Regime) -> int:
    """How many tokens the chief hands out after an update, of a settled synchronous regime."""
    return max(regime.aggregate or 0, regime.total or 0)


def _check_first_update(aggregate: int, workers: int, tokens: int) -> None:
    """Refuse what hangs: before the first update a worker makes a gradient, and one more for each token that it gets.

    Every later update finds the tokens of the one before, each good for one gradient (`_check_later_updates`).
    """
    if workers + tokens < aggregate:
        raise DeadlockError(
            f"The first update waits for {aggregate} gradients, but {counted(workers, 'worker')} with "
            f"{counted(tokens, 'token')} can make only {workers + tokens} before it. Start with tokens="
            f"{aggregate - workers} or more, or aggregate at most {workers + tokens}."
        )


def _check_later_updates(aggregate: int, handed: int) -> None:
    """Refuse what hangs at the second update: a token lets a worker make one gradient that is not too late."""
    if handed < aggregate:
        raise DeadlockError(
            f"Each update waits for {aggregate} gradients, but hands out only {counted(handed, 'token')}, so the "
            f"second can have no more than {handed}. Let the chief enqueue {aggregate} tokens or more per update."
        )


# ---- against the programs -------------------------------------------------------------------------------------------


def check(regime: Regime | None, programs: Sequence[Program]) -> Regime | None:
    """The regime that these programs train in, settled; refuse what contradicts them or can never go on.

    Without a regime it is the graph's own. Graphs that hold accumulators and a token queue take only `sync` with their
    own numbers; without these nobody waits for gradients, and `sync` can only be a single worker's. Raises SimvizError
    for numbers that are not the workers', GraphError for a regime that a graph contradicts, DeadlockError for more
    gradients or tokens than can ever arrive.
    """
    workers = workers_of(programs)
    held = next((found for one in workers if one.like is None and (found := sync_replicas(one.graph))), None)
    if held is None:
        known = None if regime is None else settled(regime, len(workers))
        if known is not None and known.kind == "sync" and (known.aggregate, known.total) != (1, 1):
            raise GraphError(
                f"{workers[0].graph.source} holds no accumulators, so {counted(len(workers), 'worker')} can't wait for "
                f"{counted(known.aggregate or 0, 'gradient')} with it. Make the programs in the same regime that they "
                "train in: replicate(..., regime=...) or distributed(..., regime=...)."
            )
        return known
    return _of_its_own(regime, held, len(workers), workers[0])


def workers_of(programs: Sequence[Program]) -> list[Program]:
    """Those whose steps are training steps. Raises SimvizError where there are none."""
    workers = [program for program in programs if program.role == "worker"]
    if not workers:
        raise SimvizError("No program is a worker's, so nothing trains. Give a graph with a train op.")
    return workers


def _of_its_own(regime: Regime | None, held: SyncReplicas, workers: int, first: Program) -> Regime:
    """The regime of graphs that synchronise themselves."""
    where, node = first.graph.source, first.graph.names[held.wait]
    own = Regime("sync", held.aggregate, held.per_update if held.per_update > held.aggregate else None, held.tokens)
    asked = regime or own
    if asked.kind != "sync":
        raise GraphError(
            f"{where} holds accumulators and a token queue, so it trains by {own}; {asked} contradicts it. Leave the "
            f"regime out, or write {own}.",
            node=node,
        )
    for name in _NUMBERS["sync"]:
        wanted, has = getattr(asked, name), getattr(own, name)
        if wanted is not None and has is not None and wanted != has:
            raise GraphError(
                f"{where} has {name}={has} written into it, but the regime says {name}={wanted}. Write {own}, or leave "
                "the number out.",
                node=node,
            )
    _check_later_updates(held.aggregate, held.per_update)
    if own.total is not None and own.total != workers:
        raise GraphError(
            f"{where} is written for {own.total} replicas, but {counted(workers, 'worker')} would be started. Start "
            f"{own.total}.",
            node=node,
        )
    if workers > held.per_update:
        raise GraphError(
            f"{where} hands out {counted(held.per_update, 'token')} per update, for at most as many replicas, but "
            f"{counted(workers, 'worker')} would be started. Start {held.per_update} or fewer.",
            node=node,
        )
    return settled(
        replace(own, total=own.total or asked.total, tokens=asked.tokens if own.tokens is None else own.tokens), workers
    )


def describe(regime: Regime, workers: int) -> str:
    """What the regime means, in a sentence or two."""
    if regime.kind == "async":
        return (
            "Asynchronous: each worker's gradients are applied as they come, and it goes on at once; what it computed "
            "with may be older than what it changes."
        )
    if regime.kind == "ssp":
        return (
            "Bounded staleness: as asynchronous training, but no worker begins a step while it is more than "
            f"{counted(regime.bound or 0, 'step')} ahead of the slowest."
        )
    known = settled(regime, workers)
    aggregate, total, tokens = known.aggregate or 0, known.total or 0, known.tokens or 0
    if aggregate == total == 1:
        return "Synchronous, of one worker: it waits for nobody."
    if aggregate == total:
        who = f"An update averages the gradients of all {total} workers"
    elif aggregate < total:
        who = (
            f"An update averages the first {aggregate} gradients; {counted(total - aggregate, 'worker')} of {total} "
            f"{'is' if total - aggregate == 1 else 'are'} backup, and what comes too late is dropped"
        )
    else:
        several = "which makes several batches" if total == 1 else "which make several batches each"
        who = f"An update averages {aggregate} gradients of {counted(total, 'worker')}, {several}"
    return (
        f"Synchronous: {who}. A worker goes on with a token; there are {tokens} at first and each update hands out "
        f"{tokens_per_update(known)}."
    )
