"""Find the ops through which clients wait for each other, and the accumulators and queues that they share.

An object belongs to a device and is found by container and name there: clients that ask for the same share it. A name
is the op's `shared_name`, or that of its node (`ContainerInfo::Init`, tensorflow/core/framework/resource_mgr.cc).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from simulator.columns import Flags, Ids, Ints, ids, ints
from simulator.errors import UnsupportedError
from simulator.graph.graph import Graph
from simulator.partitioning.partitions import RECVS, SENDS, Partitions
from simulator.training.clients.operations import APPLY, DEQUEUE, ENQUEUE, TAKE, UNKNOWN, Operation, operations, origins
from simulator.wording import some

UNBOUNDED = -1  # the capacity of a queue without one, and of an accumulator
_ENDLESS = re.compile(r"Reader(Read|ReadUpTo)(V2)?|(\w*Map)?Unstage(NoKey)?")
_SETS_STEP = re.compile(r"(Resource)?AccumulatorSetGlobalStep")


class Key(NamedTuple):
    """The key by which an object is found; two clients share it when their keys are equal."""

    container: str
    name: str
    device: str  # full name
    family: str  # "accumulator", "queue" or "barrier": a name stands once for each


@dataclass(frozen=True, eq=False)
class Synchronising:
    """The ops of some pieces through which clients wait for each other, in ascending order of rows. Axis: S ops."""

    rows: Ids  # [S] of Partitions.graph
    owner: Ids  # [S] row of the node that makes the object
    kind: Ids  # [S] APPLY, TAKE, ENQUEUE or DEQUEUE
    key: tuple[Key, ...]  # [S] the accumulator or queue
    device: Ids  # [S] row of the object's device in Partitions.devices
    amount: Ints  # [S] gradients that a take waits for, elements that are added or taken; UNKNOWN; 1 of an apply
    capacity: Ints  # [S] elements that the queue has room for; UNBOUNDED
    reserve: Ints  # [S] elements that must remain after a dequeue (a RandomShuffleQueue's min_after_dequeue)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)


def find(partitions: Partitions) -> Synchronising:
    """The synchronising ops of the pieces.

    Readers of files and staging areas count as never empty, which the notes say. Raises UnsupportedError for an unknown
    object, a barrier of more than one component, and an accumulator whose step is set within the step. Raises
    GraphError for a take of fewer than one gradient.
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
    where = [int(partitions.device[one.owner]) for one in found]
    endless = [graph.names[row] for row, op in enumerate(graph.ops) if _ENDLESS.fullmatch(op)]
    return Synchronising(
        rows=ids([one.row for one in found]),
        owner=ids([one.owner for one in found]),
        kind=ids([one.kind for one in found]),
        key=tuple(
            key_of(graph, one.owner, one.family, partitions.devices[device])
            for one, device in zip(found, where, strict=True)
        ),
        device=ids(where),
        amount=ints([one.amount for one in found]),
        capacity=ints([_capacity(graph, one.owner) for one in found]),
        reserve=ints([_reserve(graph, one) for one in found]),
        notes=(f"{some(endless)}: taken as never waiting for data",) if endless else (),
    )


def moved(found: Synchronising, devices: Sequence[str]) -> Synchronising:
    """The same ops in pieces that stand on other devices: `devices` names each of Partitions.devices in full."""
    where = [devices[row] for row in found.device.tolist()]
    return replace(found, key=tuple(key._replace(device=to) for key, to in zip(found.key, where, strict=True)))


def joined(clients: Sequence[Synchronising]) -> tuple[Synchronising, ...]:
    """The ops of all clients of a training, without those that wait for somebody who is not simulated.

    A queue into which no client enqueues is an input (`inputs.finding`), and one that no client empties lets nobody
    wait, as a note says. Raises UnsupportedError where a number that matters is not told by the graph.
    """
    into = {key for one in clients for key, kind in zip(one.key, one.kind.tolist(), strict=True) if kind == ENQUEUE}
    out = {key for one in clients for key, kind in zip(one.key, one.kind.tolist(), strict=True) if kind == DEQUEUE}
    return tuple(_joined(one, into & out) for one in clients)


def _joined(found: Synchronising, live: set[Key]) -> Synchronising:
    kept = [kind in (APPLY, TAKE) or key in live for key, kind in zip(found.key, found.kind.tolist(), strict=True)]
    kinds = found.kind.tolist()
    left = [key.name for key, kind, keep in zip(found.key, kinds, kept, strict=True) if kind == ENQUEUE and not keep]
    unknown = next((at for at, keep in enumerate(kept) if keep and found.amount[at] == UNKNOWN), None)
    if unknown is not None:
        key = found.key[unknown]
        raise UnsupportedError(
            f"The graph does not tell how many elements an op moves on the {key.family} {key.name!r} of {key.device}. "
            "Give the shape of what is enqueued, or make the number a constant."
        )
    chosen: Flags = np.array(kept, np.bool_)
    note = f"{some(list(dict.fromkeys(left)))}: no client empties this queue, so nobody waits for room in it"
    return Synchronising(
        rows=ids(found.rows[chosen]),
        owner=ids(found.owner[chosen]),
        kind=ids(found.kind[chosen]),
        key=tuple(key for key, keep in zip(found.key, kept, strict=True) if keep),
        device=ids(found.device[chosen]),
        amount=ints(found.amount[chosen]),
        capacity=ints(found.capacity[chosen]),
        reserve=ints(found.reserve[chosen]),
        notes=(*found.notes, note) if left else found.notes,
    )


def sends_of_recvs(partitions: Partitions) -> dict[int, int]:
    """The Send of each Recv: of a transfer's row, or, within a device, the one that the Recv waits for."""
    graph = partitions.graph
    across = dict(zip(partitions.recv.tolist(), partitions.send.tolist(), strict=True))
    for row in np.flatnonzero(partitions.inserted).tolist():
        if graph.ops[row] in RECVS and row not in across:
            before = graph.edge_src[graph.in_ptr[row] : graph.in_ptr[row + 1]].tolist()
            across.update((row, at) for at in before if graph.ops[at] in SENDS)
    return across


def _check(graph: Graph, one: Operation, across: Mapping[int, int]) -> None:
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
    if one.family == "barrier" and types is not None and len(types.list.type) > 1:
        barrier = graph.names[one.owner]
        raise UnsupportedError(
            f"The barrier {barrier!r} joins {len(types.list.type)} components by key; simviz models barriers of one. "
            "Give each component a barrier or a queue of its own.",
            op="Barrier",
            node=barrier,
        )


def key_of(graph: Graph, owner: int, family: str, device: str) -> Key:
    """The key of the object that a node on that device makes."""
    attrs = graph.attrs[owner]
    text = {name: attrs[name].s.decode("latin-1") if name in attrs else "" for name in ("container", "shared_name")}
    return Key(text["container"], text["shared_name"] or graph.names[owner], device, family)


def _capacity(graph: Graph, owner: int) -> int:
    found = graph.attrs[owner].get("capacity")
    return UNBOUNDED if found is None or found.i < 0 else int(found.i)


def _reserve(graph: Graph, one: Operation) -> int:
    found = graph.attrs[one.owner].get("min_after_dequeue")
    return int(found.i) if found is not None and one.kind == DEQUEUE else 0
