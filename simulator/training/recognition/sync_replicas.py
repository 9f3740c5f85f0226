"""Graphs that synchronise their workers themselves, as SyncReplicasOptimizer writes them.

    worker   gradients ──▶ push ... push ══▶ dequeue a token ──▶ its local step
    chief    take ... take ──▶ updates ──▶ global step + 1 ══▶ enqueue tokens

One graph holds both parts, and a client runs one of them. They are recognised by ops and edges
(tensorflow/python/training/sync_replicas_optimizer.py). Such a graph fixes the regime of its programs, and so do the
collectives that join workers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.cluster.devicespec import DeviceSpec, parse
from simulator.costs.estimates.collectives import Group, group_of
from simulator.errors import DeadlockError, GraphError, SimvizError, UnsupportedError
from simulator.graph.dataflow import readers
from simulator.graph.graph import Graph
from simulator.graph.op_classes import COLLECTIVES
from simulator.graph.step import Step
from simulator.graph.traversal import fan_in, fan_out
from simulator.training.programs.program import Program
from simulator.training.recognition.sync_ops import APPLY, DEQUEUE, ENQUEUE, TAKE, UNKNOWN, SyncOp, operations
from simulator.training.recognition.variable_flow import ASSIGNS
from simulator.training.regimes import KINDS, Regime, with_defaults
from simulator.wording import counted


@dataclass(frozen=True, slots=True)
class SyncReplicas:
    """The parts of a graph that synchronises its workers; rows of nodes, and names to fetch."""

    wait: int  # the dequeue at which a worker's step ends
    refill: int  # the enqueue at which an update ends
    aggregate: int  # gradients that an update waits for
    per_update: int  # tokens that it hands out
    tokens: int | None  # in the queue at first; None: the graph has no op that fills it
    train: tuple[str, ...]  # fetches of a worker's step
    updates: tuple[str, ...]  # fetches of the chief's loop


def sync_replicas(graph: Graph) -> SyncReplicas | None:
    """The parts of a graph that holds accumulators and a token queue between them; None: it does not.

    Raises UnsupportedError where the graph does not say one number of gradients and of tokens.
    """
    found = operations(graph)
    pushes, takes = _rows(found, APPLY), _rows(found, TAKE)
    if not pushes or not takes:
        return None
    for wait in (one for one in found if one.kind == DEQUEUE):
        before = fan_in(graph, [wait.row])
        if not before[pushes].all() or before[takes].any():
            continue
        filling = [one for one in found if one.kind == ENQUEUE and one.owner == wait.owner]
        after = [one for one in filling if fan_in(graph, [one.row])[takes].all()]
        if after:
            first = [one.amount for one in filling if not fan_in(graph, [one.row])[takes].any()]
            return _parts(graph, found, wait.row, after[0], first)
    return None


def _rows(found: Sequence[SyncOp], kind: int) -> list[int]:
    return [one.row for one in found if one.kind == kind]


def _parts(graph: Graph, found: Sequence[SyncOp], wait: int, refill: SyncOp, first: Sequence[int]) -> SyncReplicas:
    needed = sorted({one.amount for one in found if one.kind == TAKE})
    for what, row, numbers in (
        ("gradients to take", _rows(found, TAKE)[0], needed),
        ("tokens to hand out", refill.row, [refill.amount]),
    ):
        if len(numbers) > 1 or UNKNOWN in numbers:
            said = " and ".join(map(str, numbers)) if UNKNOWN not in numbers else "no constant"
            raise UnsupportedError(
                f"{graph.source}: the number of {what} at {graph.names[row]!r} is {said}; simviz takes one.",
                op=graph.ops[row],
                node=graph.names[row],
            )
    tokens = first[0] if len(first) == 1 and first[0] != UNKNOWN else None
    return SyncReplicas(
        wait=wait,
        refill=refill.row,
        aggregate=needed[0],
        per_update=refill.amount,
        tokens=tokens,
        train=_ends(graph, wait),
        # the last nodes of the chief's loop: the enqueue, or ops after it, such as moving averages
        updates=tuple(graph.names[row] for row in fan_out(graph, [refill.row]) if not graph.out_edges(row)),
    )


def _ends(graph: Graph, wait: int) -> tuple[str, ...]:
    """The assignments of the token to a worker's local step, else the dequeue alone."""
    pending, taken = readers(graph, wait), []
    while pending:
        row = pending.pop(0)
        if graph.ops[row] in ASSIGNS:
            taken.append(graph.names[row])
        elif graph.ops[row] in ("Identity", "Cast"):
            pending += readers(graph, row)
    return tuple(dict.fromkeys(taken)) or (graph.names[wait],)


# ---- workers that collectives join ----------------------------------------------------------------------------------


def joined_workers(graph: Graph, step: Step) -> int:
    """How many workers with a graph like this one take a step together; 1: each step is its own.

    A group has members on further tasks where it is larger than the number of devices that its ops in the step name.
    MultiWorkerMirroredStrategy makes such graphs. Raises GraphError where no number of such workers fills a group.
    """
    devices: dict[Group, dict[DeviceSpec, int]] = defaultdict(dict)  # and a node there
    for row in np.flatnonzero(step.runs).tolist():
        group = group_of(graph, row) if graph.ops[row] in COLLECTIVES else None
        if group is not None:
            devices[group].setdefault(parse(graph.requested[row])._replace(replica=None), row)
    for group, own in devices.items():
        if group.size > len(own) and group.size % len(own):
            node = graph.names[next(iter(own.values()))]
            raise GraphError(
                f"{graph.source}: the group of {node!r} has {counted(group.size, 'member')}, and {len(own)} of them "
                "are here, so no number of workers like this one fills the group. A training needs workers that are "
                "alike; a single step takes the graph as it is.",
                node=node,
            )
    return max((group.size // len(own) for group, own in devices.items()), default=1)


# ---- the regime of programs -----------------------------------------------------------------------------------------


def regime_of(regime: Regime | None, programs: Sequence[Program]) -> Regime | None:
    """The regime that these programs train in, with its defaults; refuse what contradicts them or can never go on.

    Without a regime it is the graph's own. Graphs that hold accumulators and a token queue take only `sync` with their
    own numbers. Graphs whose collectives join the workers take only `sync` with all of them. In other graphs no worker
    waits for gradients, so that only a single worker can train by `sync`. Raises
    SimvizError for numbers that are not the workers', and GraphError for a regime that a graph contradicts. Raises
    DeadlockError for more gradients or tokens than can ever arrive.
    """
    workers = workers_of(programs)
    held = next((found for one in workers if one.like is None and (found := sync_replicas(one.written))), None)
    if held is None and workers[0].joined > 1:
        return _of_joined(regime, workers)
    if held is None:
        known = None if regime is None else with_defaults(regime, len(workers))
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


def _of_joined(regime: Regime | None, workers: Sequence[Program]) -> Regime:
    """The regime of workers that collectives join: they hand on no tokens, as none goes on without the others."""
    first = workers[0]
    where, own = first.graph.source, Regime("sync", first.joined, first.joined)
    if len(workers) != first.joined:
        raise GraphError(
            f"{where} joins {counted(first.joined, 'worker')} by collectives, but {counted(len(workers), 'worker')} "
            f"would be started. Start {first.joined}."
        )
    numbers = () if regime is None else (regime.aggregate, regime.total)
    if regime is not None and (not regime.averages or not {*numbers} <= {None, first.joined}):
        raise GraphError(
            f"{where} sums gradients of all workers by collectives, so it trains by {own}; {regime} contradicts it. "
            f"Write sync."
        )
    return own


def _of_its_own(regime: Regime | None, held: SyncReplicas, workers: int, first: Program) -> Regime:
    """The regime of graphs that synchronise themselves."""
    where, node = first.graph.source, first.written.names[held.wait]
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
    return with_defaults(
        replace(own, total=own.total or asked.total, tokens=asked.tokens if own.tokens is None else own.tokens), workers
    )


def _check_later_updates(aggregate: int, handed: int) -> None:
    """Refuse what hangs at the second update: a token lets a worker make one gradient that is not too late."""
    if handed < aggregate:
        raise DeadlockError(
            f"Each update waits for {aggregate} gradients, but hands out only {counted(handed, 'token')}, so the "
            f"second can have no more than {handed}. Let the chief enqueue {aggregate} tokens or more per update."
        )
