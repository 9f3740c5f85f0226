"""Cut a placed graph by device: the passes in TensorFlow's order.

the step's edges ─ copy small constants ─ move control flow ─ close loops ─ pair what crosses ─▶ the pieces
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.columns import flags, ids, ints
from simulator.partitioning.assembling import assemble, new_rows
from simulator.partitioning.draft import CONTROL, Added, Column, Wires, step_wires
from simulator.partitioning.pairs import INCARNATION, Ends, Pairs, find_ends, make_pairs, pair_wires
from simulator.partitioning.partitions import Partitions

if TYPE_CHECKING:
    from simulator.assignment import Assignment
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step


def partition(graph: Graph, assignment: Assignment, cluster: Cluster, *, step: Step) -> Partitions:
    """Cut the nodes that run in the step by device, as TensorFlow's partitioner does in a local session.

    Names, attributes and keys are those of `tensorflow/core/graph/graph_partition.cc`. Fed nodes stay where they are,
    as Placeholders.
    """
    device = assignment.device.astype(np.int64)
    runs = np.asarray(step.runs)
    fed = np.zeros(len(graph), bool)
    fed[[graph.row(name.rpartition(":")[0] or name) for name in step.feeds]] = True
    added = Added()
    given = step_wires(graph, step, fed)
    place = np.empty(len(graph), np.int64)
    place[graph.order] = np.arange(len(graph))
    place = np.concatenate([place, np.arange(len(added)) + len(graph)])
    ends = find_ends(graph, given, device, added, cluster)
    pairs = make_pairs(graph, given, place, ends, cluster, added)
    device = np.concatenate([device, added.device]).astype(np.int64)
    kept = runs
    names = tuple(one.name for one in cluster.devices)
    where = device[np.concatenate([np.flatnonzero(kept), np.arange(len(graph), len(device))])]
    cut = assemble(graph, added, pair_wires(given, ends, pairs), kept, fed, [names[row] for row in where.tolist()])
    return Partitions(
        graph=cut,
        device=ids(where),
        origin=ids(np.concatenate([np.flatnonzero(kept), added.origin])),
        inserted=flags(np.arange(len(where)) >= np.count_nonzero(kept)),
        devices=names,
        **_transfers(graph, given, ends, pairs, new_rows(graph, kept, added), added, names),
    )


def _transfers(
    graph: Graph, given: Wires, ends: Ends, pairs: Pairs, row_of: Column, added: Added, names: tuple[str, ...]
) -> dict[str, object]:
    """The columns of Partitions with a row per pair that joins two devices."""
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
    return {
        "tensor": ids(row),
        "send": ids(row_of[pairs.send[away]]),
        "recv": ids(row_of[pairs.recv[away]]),
        "src_device": ids(here),
        "dst_device": ids(there),
        "nbytes": ints(nbytes),
        "key": tuple(
            f"{names[source]};{INCARNATION:016x};{names[target]};{tensor_name};0:0"
            for source, target, tensor_name in zip(here.tolist(), there.tolist(), pairing, strict=True)
        ),
    }
