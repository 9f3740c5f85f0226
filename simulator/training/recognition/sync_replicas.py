"""Graphs that synchronise their workers themselves, as SyncReplicasOptimizer writes them.

    worker   gradients ──▶ push ... push ══▶ dequeue a token ──▶ its local step
    chief    take ... take ──▶ updates ──▶ global step + 1 ══▶ enqueue tokens

One graph holds both parts, and a client runs one of them. They are recognised by ops and edges
(tensorflow/python/training/sync_replicas_optimizer.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.errors import UnsupportedError
from simulator.graph.graph import Graph
from simulator.graph.traversal import fan_in, fan_out
from simulator.training.clients.operations import APPLY, DEQUEUE, ENQUEUE, TAKE, UNKNOWN, Operation, operations
from simulator.training.recognition.dataflow import readers

_ASSIGNS = frozenset(("Assign", "AssignVariableOp"))


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


def _rows(found: Sequence[Operation], kind: int) -> list[int]:
    return [one.row for one in found if one.kind == kind]


def _parts(
    graph: Graph, found: Sequence[Operation], wait: int, refill: Operation, first: Sequence[int]
) -> SyncReplicas:
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
        updates=_last(graph, refill.row),
    )


def _ends(graph: Graph, wait: int) -> tuple[str, ...]:
    """The assignments of the token to a worker's local step, else the dequeue alone."""
    pending, taken = readers(graph, wait), []
    while pending:
        row = pending.pop(0)
        if graph.ops[row] in _ASSIGNS:
            taken.append(graph.names[row])
        elif graph.ops[row] in ("Identity", "Cast"):
            pending += readers(graph, row)
    return tuple(dict.fromkeys(taken)) or (graph.names[wait],)


def _last(graph: Graph, refill: int) -> tuple[str, ...]:
    """The last nodes of the chief's loop: the enqueue, or ops after it, such as moving averages."""
    followers = np.diff(graph.out_ptr)
    ends = [row for row in fan_out(graph, [refill]) if not followers[row]]
    return tuple(graph.names[row] for row in ends)
