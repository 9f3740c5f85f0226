"""Cut a placed graph by device: the passes in TensorFlow's order.

the step's edges ─ copy small constants ─ move control flow ─ close loops ─ pair what crosses ─▶ the pieces
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, flags, ids, ints
from simulator.errors import SimvizError
from simulator.graph.step import fed_rows
from simulator.partitioning.assembling import assemble, new_rows
from simulator.partitioning.control_flow import moves, settled
from simulator.partitioning.control_loops import close_loops
from simulator.partitioning.draft import CONTROL, Added, Column, Wires, step_wires
from simulator.partitioning.pairs import INCARNATION, Ends, Pairs, find_ends, make_pairs, pair_wires
from simulator.partitioning.partitions import Partitions
from simulator.partitioning.replication import replicate

if TYPE_CHECKING:
    from simulator.assignment import Assignment
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step


def partition(graph: Graph, assignment: Assignment, cluster: Cluster, *, step: Step) -> Partitions:
    """Cut the nodes that run in the step by device, as TensorFlow's partitioner does in a local session.

    Names, attributes and keys are those of `tensorflow/core/graph/graph_partition.cc`. Fed nodes stay where they are,
    as Placeholders. Raises SimvizError if the assignment or the step is one of another graph or cluster.
    """
    names = tuple(one.name for one in cluster.devices)
    if assignment.devices != names or not len(assignment) == len(step.runs) == len(graph):
        raise SimvizError(
            f"The values do not belong together: a graph of {len(graph)} nodes on {cluster.name}, an assignment of "
            f"{len(assignment)} nodes to {len(assignment.devices)} devices, a step of {len(step.runs)} nodes. Place "
            "this graph on this cluster first."
        )
    fed = fed_rows(graph, step)
    added = Added()
    assigned = assignment.device.astype(np.int64)
    whole = step_wires(graph, step, fed)
    given, gone, next_id = replicate(graph, step, cluster, whole, assigned, fed, added)
    placed = np.concatenate([assigned, added.device]).astype(np.int64)
    device = np.array(settled(placed.tolist(), moves(graph, given, len(placed))), np.int64)
    given, numbered, notes = close_loops(graph, whole, given, device, added, next_id)
    device = np.concatenate([device, added.device[len(device) - len(graph) :]]).astype(np.int64)
    ends = find_ends(graph, given, device, added, cluster)
    pairs = make_pairs(graph, given, ends, cluster, added, numbered)
    device = np.concatenate([device, added.device[len(device) - len(graph) :]]).astype(np.int64)
    kept = np.asarray(step.runs) & ~gone
    rows = np.concatenate([np.flatnonzero(kept), np.arange(len(graph), len(device))])
    where = device[rows]
    cut = assemble(graph, added, pair_wires(given, ends, pairs), kept, fed, [names[row] for row in where.tolist()])
    origin = np.concatenate([np.flatnonzero(kept), added.origin]).astype(np.int64)
    return Partitions(
        graph=cut,
        device=ids(where),
        origin=ids(origin),
        priority=None if assignment.priority is None else ints(assignment.priority[origin]),
        inserted=flags(rows >= len(graph)),
        devices=names,
        notes=(*_move_note(kept, assigned, device), *notes),
        **_transfers(graph, given, ends, pairs, new_rows(graph, kept, added), added, names),
    )


def _move_note(kept: npt.NDArray[np.bool_], assigned: Column, device: Column) -> tuple[str, ...]:
    count = int(np.count_nonzero(kept & (assigned != device[: len(assigned)])))
    return (f"{count} control-flow nodes run next to their values, as TensorFlow moves them",) if count else ()


class _Transfers(TypedDict):
    """Columns of Partitions with a row per pair that joins two devices."""

    tensor: Ids
    send: Ids
    recv: Ids
    src_device: Ids
    dst_device: Ids
    nbytes: Ints
    key: tuple[str, ...]


def _transfers(
    graph: Graph, given: Wires, ends: Ends, pairs: Pairs, row_of: Column, added: Added, names: tuple[str, ...]
) -> _Transfers:
    away = np.flatnonzero(ends.src_device[pairs.wire] != ends.dst_device[pairs.wire])
    wire = pairs.wire[away]
    origin = np.concatenate([np.arange(len(graph)), added.origin]).astype(np.int64)
    node, port = origin[given.src[wire]], given.port[wire]
    control = port == CONTROL
    row = np.where(control, -1 - node, graph.tensor_ptr[node] + port)
    order = np.lexsort((wire, ends.on_host[wire], ends.dst_device[wire], np.where(control, 2**31, port), node))
    away, wire, row = away[order], wire[order], row[order]
    known = len(graph.tensor_bytes) > 0
    nbytes = np.where(row < 0, 0, graph.tensor_bytes[np.maximum(row, 0)] if known else 0)
    here, there = ends.src_device[wire], ends.dst_device[wire]
    pairing = [pairs.name[at] for at in away.tolist()]
    return _Transfers(
        tensor=ids(row),
        send=ids(row_of[pairs.send[away]]),
        recv=ids(row_of[pairs.recv[away]]),
        src_device=ids(here),
        dst_device=ids(there),
        nbytes=ints(nbytes),
        key=tuple(
            f"{names[source]};{INCARNATION:016x};{names[target]};{tensor_name};0:0"
            for source, target, tensor_name in zip(here.tolist(), there.tolist(), pairing, strict=True)
        ),
    )
