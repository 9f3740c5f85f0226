"""Synchronising ops: those on accumulators, queues and barriers, as a graph or its pieces describe them.

    apply ──▶ accumulator ──▶ take (waits for gradients)          enqueue ──▶ queue ──▶ dequeue (waits for elements)

Handles and counts are followed back through what only passes them on, from piece to piece. An object belongs to a
device and is found by container and name there: clients that ask for the same share it. A name is the op's
`shared_name`, or that of its node (`ContainerInfo::Init`, tensorflow/core/framework/resource_mgr.cc).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from simulator.columns import Ids
from simulator.errors import GraphError, UnsupportedError
from simulator.graph.const_values import constant
from simulator.graph.dataflow import source_of
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS, Partitions
from simulator.wording import some

# The kinds of synchronisation ops. Four use accumulators and queues. TAKE and DEQUEUE block until they get what they
# ask for. COUNT counts an update of the global step when it ends. READ takes the value of a variable that its client
# trains. DRAW waits for elements of an input.
APPLY, TAKE, ENQUEUE, DEQUEUE, COUNT, READ, DRAW = range(7)
UNKNOWN = -1  # what the graph does not say
UNBOUNDED = -1  # the capacity of a queue without one, and of an accumulator

_KINDS = (  # tensorflow/core/ops/data_flow_ops.cc
    (APPLY, re.compile(r"(Resource|Sparse)?AccumulatorApplyGradient")),
    (TAKE, re.compile(r"(Resource|Sparse)?AccumulatorTakeGradient")),
    (ENQUEUE, re.compile(r"QueueEnqueue(Many)?(V2)?|BarrierInsertMany")),
    (DEQUEUE, re.compile(r"QueueDequeue(Many|UpTo)?(V2)?|BarrierTakeMany")),
)
ACCUMULATOR = re.compile(r"(Resource|Sparse)?ConditionalAccumulator")
_OWNERS = (
    ("accumulator", ACCUMULATOR),
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
_ENDLESS = re.compile(r"Reader(Read|ReadUpTo)(V2)?|(\w*Map)?Unstage(NoKey)?")
_SETS_STEP = re.compile(r"(Resource)?AccumulatorSetGlobalStep")


class ResourceKey(NamedTuple):
    """The key by which an object is found; two clients share it when their keys are equal."""

    container: str
    name: str
    device: str  # full name; "": nothing is placed yet
    family: str  # "accumulator", "queue" or "barrier": a name stands once for each


class SyncOp(NamedTuple):
    """An op on an accumulator, queue or barrier."""

    row: int  # of the graph
    kind: int  # APPLY, TAKE, ENQUEUE or DEQUEUE
    owner: int  # row of the node that makes the object; UNKNOWN: not of this graph, or of several
    key: ResourceKey
    amount: int  # gradients that a take waits for, elements that are added or taken; UNKNOWN; 1 of an apply
    capacity: int = UNBOUNDED  # elements that the queue has room for
    reserve: int = 0  # elements that must remain after a dequeue (a RandomShuffleQueue's min_after_dequeue)
    device: int = UNKNOWN  # of the object, once it is placed: row of Partitions.devices


class Synchronising(NamedTuple):
    """The ops of some pieces through which clients wait for each other, in ascending order of rows."""

    ops: tuple[SyncOp, ...]
    notes: tuple[str, ...] = ()


def operations(graph: Graph, sends_of_recvs: Mapping[int, int] | None = None) -> tuple[SyncOp, ...]:
    """The ops on accumulators, queues and barriers, in ascending order; `sends_of_recvs` has the Send of each Recv.

    Raises GraphError for a take of fewer than one gradient.
    """
    across = sends_of_recvs or {}
    found = []
    kinds = {op: kind for op in set(graph.ops) for kind, pattern in _KINDS if pattern.fullmatch(op)}
    for row, op in enumerate(graph.ops):
        if op in kinds:
            owner, family = _owner(graph, row, across)
            amount = _amount(graph, row, kinds[op], across)
            if owner == UNKNOWN:
                found.append(SyncOp(row, kinds[op], owner, ResourceKey("", "", "", family), amount))
                continue
            reserve = _number(graph, owner, "min_after_dequeue") if kinds[op] == DEQUEUE else None
            room = _number(graph, owner, "capacity")
            room = UNBOUNDED if room is None or room < 0 else room
            found.append(SyncOp(row, kinds[op], owner, key_of(graph, owner, family), amount, room, reserve or 0))
    return tuple(found)


def find(partitions: Partitions) -> Synchronising:
    """The synchronising ops of the pieces.

    Readers of files and staging areas count as never empty, which the notes say. Raises UnsupportedError for an unknown
    object, a barrier of more than one component, and an accumulator whose step is set within the step. Raises what
    `operations` raises.
    """
    graph, across = partitions.graph, sends_of_recvs(partitions)
    found = operations(graph, across)
    for one in found:
        _check(graph, one, across)
    setting = [row for row, op in enumerate(graph.ops) if _SETS_STEP.fullmatch(op)]
    if setting:
        name = graph.names[setting[0]]
        raise UnsupportedError(
            f"The step runs {name!r}, which sets the step of an accumulator; that belongs to the start of a training. "
            "Fetch the train op alone.",
            op=graph.ops[setting[0]],
            node=name,
        )
    placed = tuple(one._replace(device=int(partitions.device[one.owner])) for one in found)
    endless = [graph.names[row] for row, op in enumerate(graph.ops) if _ENDLESS.fullmatch(op)]
    notes = (f"{some(endless)}: taken as never waiting for data",) if endless else ()
    return Synchronising(moved(placed, None, partitions.devices), notes)


def moved(found: Sequence[SyncOp], where: Ids | None, devices: Sequence[str]) -> tuple[SyncOp, ...]:
    """The same ops with their objects on other devices: `where` has the row of each device in `devices`; None: its own.

    `devices` are full names.
    """
    rows = [one.device if where is None else int(where[one.device]) for one in found]
    pairs = zip(found, rows, strict=True)
    return tuple(one._replace(key=one.key._replace(device=devices[row]), device=row) for one, row in pairs)


def joined(clients: Sequence[Synchronising]) -> tuple[Synchronising, ...]:
    """The ops of all clients of a training, without those that wait for somebody who is not simulated.

    A queue into which no client enqueues is an input (`inputs.finding`), and one that no client empties lets nobody
    wait, as a note says. Raises UnsupportedError where a number that matters is not in the graph.
    """
    into, out = ({one.key for found in clients for one in found.ops if one.kind == kind} for kind in (ENQUEUE, DEQUEUE))
    return tuple(_joined(one, into & out) for one in clients)


def _joined(found: Synchronising, live: set[ResourceKey]) -> Synchronising:
    kept = tuple(one for one in found.ops if one.kind in (APPLY, TAKE) or one.key in live)
    unknown = next((one.key for one in kept if one.amount == UNKNOWN), None)
    if unknown is not None:
        raise UnsupportedError(
            f"The graph does not tell how many elements an op moves on the {unknown.family} {unknown.name!r} of "
            f"{unknown.device}. Give the shape of what is enqueued, or make the number a constant."
        )
    left = dict.fromkeys(one.key.name for one in found.ops if one.kind == ENQUEUE and one.key not in live)
    note = (f"{some(list(left))}: no client empties this queue, so nobody waits for room in it",) if left else ()
    return Synchronising(kept, (*found.notes, *note))


def sends_of_recvs(partitions: Partitions) -> dict[int, int]:
    """The Send of each Recv: of a transfer's row, or, within a device, the one that the Recv waits for."""
    graph = partitions.graph
    across = dict(zip(partitions.recv.tolist(), partitions.send.tolist(), strict=True))
    for row in np.flatnonzero(partitions.inserted).tolist():
        if graph.ops[row] in RECVS and row not in across:
            before = graph.sources(row)
            across.update((row, at) for at in before if graph.ops[at] in SENDS)
    return across


def _check(graph: Graph, one: SyncOp, across: Mapping[int, int]) -> None:
    name, op = graph.names[one.row], graph.ops[one.row]
    if one.owner == UNKNOWN:
        what = (
            some([f"{graph.names[at]!r} ({graph.ops[at]})" for at in origins(graph, one.row, 0, across)]) or "nothing"
        )
        raise UnsupportedError(
            f"The object of {name!r} ({op}) comes from {what}; simviz follows a handle back to one accumulator or "
            "queue of the same graph.",
            op=op,
            node=name,
        )
    types = graph.attrs[one.owner].get("component_types")
    if one.key.family == "barrier" and types is not None and len(types.list.type) > 1:
        barrier = graph.names[one.owner]
        raise UnsupportedError(
            f"The barrier {barrier!r} joins {len(types.list.type)} components by key; simviz models barriers of one. "
            "Give each component a barrier or a queue of its own.",
            op="Barrier",
            node=barrier,
        )


def key_of(graph: Graph, owner: int, family: str) -> ResourceKey:
    """The key of the object that a node makes, of no device yet."""
    attrs = graph.attrs[owner]
    text = {name: attrs[name].s.decode("latin-1") if name in attrs else "" for name in ("container", "shared_name")}
    return ResourceKey(text["container"], text["shared_name"] or graph.names[owner], "", family)


def _number(graph: Graph, owner: int, attr: str) -> int | None:
    found = graph.attrs[owner].get(attr)
    return None if found is None else int(found.i)


def origins(graph: Graph, row: int, slot: int, across: Mapping[int, int]) -> list[int]:
    """The nodes whose output comes in that slot, followed back through what passes it on; after a Merge, several."""
    pending, seen, found = [(row, slot)], {row}, []
    while pending:
        at, place = pending.pop()
        source = source_of(graph, at, place)
        source = across.get(source, source)
        if source < 0 or source in seen:
            continue
        seen.add(source)
        if graph.ops[source] in MERGES:
            data = range(int(graph.in_ptr[source + 1] - graph.in_ptr[source]))
            pending += [(source, k) for k in data if source_of(graph, source, k) >= 0]
        elif graph.ops[source] in _PASSED_ON:
            pending.append((source, 0))
        else:
            found.append(source)
    return sorted(found)


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
    if source_of(graph, row, 1) < 0:
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
    found = constant(graph, made[0]) if len(made) == 1 else None
    return int(found[0]) if found is not None and len(found) == 1 else None
