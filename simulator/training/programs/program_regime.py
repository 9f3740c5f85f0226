"""The regime of programs: what is asked for, against what their graphs hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simulator.errors import DeadlockError, GraphError, SimvizError
from simulator.training.programs.program import Program
from simulator.training.recognition.sync_replicas import SyncReplicas, sync_replicas
from simulator.training.regimes import KINDS, Regime, settled
from simulator.wording import counted


def regime_of(regime: Regime | None, programs: Sequence[Program]) -> Regime | None:
    """The regime that these programs train in, settled; refuse what contradicts them or can never go on.

    Without a regime it is the graph's own. Graphs that hold accumulators and a token queue take only `sync` with their
    own numbers. In other graphs no worker waits for gradients, so that only a single worker can train by `sync`. Raises
    SimvizError for numbers that are not the workers', and GraphError for a regime that a graph contradicts. Raises
    DeadlockError for more gradients or tokens than can ever arrive.
    """
    workers = workers_of(programs)
    held = next((found for one in workers if one.like is None and (found := sync_replicas(one.graph))), None)
    if held is None:
        known = None if regime is None else settled(regime, len(workers))
        if known is not None and known.averages and (known.aggregate, known.total) != (1, 1):
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
    if not asked.averages:
        raise GraphError(
            f"{where} holds accumulators and a token queue, so it trains by {own}; {asked} contradicts it. Leave the "
            f"regime out, or write {own}.",
            node=node,
        )
    for name in KINDS[own.kind].arguments:
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


def _check_later_updates(aggregate: int, handed: int) -> None:
    """Refuse what hangs at the second update: a token lets a worker make one gradient that is not too late."""
    if handed < aggregate:
        raise DeadlockError(
            f"Each update waits for {aggregate} gradients, but hands out only {counted(handed, 'token')}, so the "
            f"second can have no more than {handed}. Let the chief enqueue {aggregate} tokens or more per update."
        )
