"""The ops on accumulators, queues and barriers, as a graph tells them: what each does, to which object, how often.

    apply ──▶ accumulator ──▶ take (waits for gradients)          enqueue ──▶ queue ──▶ dequeue (waits for elements)

Handles and counts are followed back through what only passes them on, from piece to piece.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from simulator.errors import GraphError
from simulator.graph.const_values import elements
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES
from simulator.partitioning.partitions import SENDS

# The kinds of synchronisation ops. Four use accumulators and queues. TAKE and DEQUEUE block until they get what they
# ask for. COUNT counts an update of the global step when it ends. READ takes the value of a variable that its client
# trains. DRAW waits for elements of an input.
APPLY, TAKE, ENQUEUE, DEQUEUE, COUNT, READ, DRAW = range(7)
UNKNOWN = -1  # what the graph does not tell

_KINDS = (  # tensorflow/core/ops/data_flow_ops.cc
    (APPLY, re.compile(r"(Resource|Sparse)?AccumulatorApplyGradient")),
    (TAKE, re.compile(r"(Resource|Sparse)?AccumulatorTakeGradient")),
    (ENQUEUE, re.compile(r"QueueEnqueue(Many)?(V2)?|BarrierInsertMany")),
    (DEQUEUE, re.compile(r"QueueDequeue(Many|UpTo)?(V2)?|BarrierTakeMany")),
)
_OWNERS = (
    ("accumulator", re.compile(r"(Resource|Sparse)?ConditionalAccumulator")),
    ("queue", re.compile(r"(FIFO|PaddingFIFO|RandomShuffle|Priority)Queue(V2)?")),
    ("barrier", re.compile(r"Barrier")),
)
_ONE = re.compile(r"Queue(Enqueue|Dequeue)(V2)?")  # of one element
_PASSED_ON = (  # what comes in the first slot goes out
    {"Identity", "RefIdentity", "Snapshot", "StopGradient", "FakeQueue", "Cast", "EnsureShape"}
    | ENTERS
    | EXITS
    | NEXT_ITERATIONS
    | SWITCHES
    | SENDS
)


@dataclass(frozen=True, slots=True)
class Operation:
    """An op on an accumulator or queue, as a graph tells it."""

    row: int  # of the op
    kind: int  # APPLY, TAKE, ENQUEUE or DEQUEUE
    owner: int  # row of the node that makes the object; UNKNOWN: not of this graph, or of several
    family: str
    amount: int  # gradients to take, elements to add or to take; UNKNOWN


def operations(graph: Graph, sends_of_recvs: Mapping[int, int] | None = None) -> tuple[Operation, ...]:
    """The ops on accumulators, queues and barriers, in ascending order; `sends_of_recvs` has the Send of each Recv."""
    across = sends_of_recvs or {}
    found = []
    kinds = {op: kind for op in set(graph.ops) for kind, pattern in _KINDS if pattern.fullmatch(op)}
    for row, op in enumerate(graph.ops):
        if op in kinds:
            owner, family = _owner(graph, row, across)
            found.append(Operation(row, kinds[op], owner, family, _amount(graph, row, kinds[op], across)))
    return tuple(found)


def origins(graph: Graph, row: int, slot: int, across: Mapping[int, int]) -> list[int]:
    """The nodes whose output comes in that slot, followed back through what passes it on; after a Merge, several."""
    pending, seen, found = [(row, slot)], {row}, []
    while pending:
        at, place = pending.pop()
        source = _source(graph, at, place)
        source = across.get(source, source)
        if source < 0 or source in seen:
            continue
        seen.add(source)
        if graph.ops[source] in MERGES:
            data = range(int(graph.in_ptr[source + 1] - graph.in_ptr[source]))
            pending += [(source, k) for k in data if _source(graph, source, k) >= 0]
        elif graph.ops[source] in _PASSED_ON:
            pending.append((source, 0))
        else:
            found.append(source)
    return sorted(found)


def _source(graph: Graph, row: int, slot: int) -> int:
    """The node whose output comes in that slot; -1: it has no such data input."""
    edge = int(graph.in_ptr[row]) + slot
    return int(graph.edge_src[edge]) if edge < graph.in_ptr[row + 1] and graph.edge_tensor[edge] >= 0 else -1


def _owner(graph: Graph, row: int, across: Mapping[int, int]) -> tuple[int, str]:
    """Row and family of the one accumulator, queue or barrier that the op's handle is of."""
    found = origins(graph, row, 0, across)
    families = [family for family, pattern in _OWNERS if len(found) == 1 and pattern.fullmatch(graph.ops[found[0]])]
    return (found[0], families[0]) if families else (UNKNOWN, "")


def _amount(graph: Graph, row: int, kind: int, across: Mapping[int, int]) -> int:
    if kind == APPLY or _ONE.fullmatch(graph.ops[row]):
        return 1
    if kind == ENQUEUE:
        return _leading(graph, row, across)
    number = _constant(graph, row, 1, across)
    if number is not None and number < (1 if kind == TAKE else 0):
        name = graph.names[row]
        raise GraphError(f"{graph.source}: {name!r} takes {number} at a time; give a positive number.", node=name)
    return UNKNOWN if number is None else number


def _leading(graph: Graph, row: int, across: Mapping[int, int]) -> int:
    """The elements enqueued at once: the first dimension of the first component, or of a barrier's keys."""
    if _source(graph, row, 1) < 0:
        return UNKNOWN
    shape = graph.tensor_shape[graph.edge_tensor[graph.in_ptr[row] + 1]]
    if shape and shape[0] >= 0:
        return int(shape[0])
    made = origins(graph, row, 1, across)
    if len(made) != 1:
        return UNKNOWN
    op, attrs = graph.ops[made[0]], graph.attrs[made[0]]
    if op == "Const" and "value" in attrs and attrs["value"].tensor.tensor_shape.dim:
        return int(attrs["value"].tensor.tensor_shape.dim[0].size)
    if op == "Pack" and "N" in attrs:
        return int(attrs["N"].i)
    number = _constant(graph, made[0], 0, across) if op == "Fill" else None
    return UNKNOWN if number is None else number


def _constant(graph: Graph, row: int, slot: int, across: Mapping[int, int]) -> int | None:
    """The whole number that comes in that slot, where a Const of one element says it."""
    made = origins(graph, row, slot, across)
    found = elements(graph.attrs[made[0]]) if len(made) == 1 and graph.ops[made[0]] == "Const" else None
    return int(found[0]) if found is not None and len(found) == 1 else None
