"""Which partitioner cuts, by what, and how it names what it makes: a local session, a master, a worker.

    local session   by device    a/_0
    master          by task      a_S0             tensorflow/core/distributed_runtime/master_session.cc
    worker          by device    a_G0 or a_S0_G0  tensorflow/core/distributed_runtime/graph_mgr.cc

A master sends each worker the piece of its task, and the worker makes a graph of it, which numbers nodes and edges
anew, and cuts that by device. Both run the same partitioner (`tensorflow/core/graph/graph_partition.cc`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import Flags, Ids
from simulator.graph.graph import Graph
from simulator.graph.op_classes import MERGES
from simulator.partitioning.draft import CONTROL, LAST, Column, Wires, edges_once

_CONTROL_LOOP = "_cloop"  # begins the names of control loops' nodes


@dataclass(frozen=True, eq=False)
class Level:
    """One run of the partitioner, or one per task side by side. Axis: D devices."""

    location: Column  # [D] devices of one location share a piece
    counter: Column  # [D] those of one counter number the names that are made for them together
    suffix: str  # of a made name, before its number
    by_creation: bool  # nodes stand in the order in which they were made, as a master writes and a worker reads them

    @property
    def counters(self) -> int:
        """How many counters there are."""
        return int(self.counter.max(initial=0)) + 1


def local_level(cluster: Cluster) -> Level:
    """A session of one process."""
    return Level(np.arange(len(cluster)), np.zeros(len(cluster), np.int64), "/_", by_creation=False)


def master_level(cluster: Cluster) -> Level:
    """A master: pieces are tasks."""
    return Level(_tasks(cluster), np.zeros(len(cluster), np.int64), "_S", by_creation=True)


def worker_level(cluster: Cluster) -> Level:
    """The workers of all tasks."""
    return Level(np.arange(len(cluster)), _tasks(cluster), "_G", by_creation=True)


def _tasks(cluster: Cluster) -> Column:
    number = {task: at for at, task in enumerate(cluster.tasks)}
    return np.array([number[device.task] for device in cluster.devices], np.int64)


def worker_wires(graph: Graph, device: Ids, inserted: Flags, level: Level) -> Wires:
    """The edges of the pieces by task as each worker numbers them: from 1, after the one from source to sink.

    `graph` holds all pieces, in the order in which they were sent: no edge joins two, so the order in which TensorFlow
    would make all of them is that of each.
    """
    edge = edges_once(graph, np.arange(len(graph.edge_src)))
    given = wires_of(graph).take(edge)
    worker = level.counter[device[given.dst]]
    order = np.lexsort((graph.creation.edge[edge], worker))
    number = np.empty(len(edge), np.int64)
    first = np.searchsorted(worker[order], np.arange(level.counters))  # edge with which each worker begins
    number[order] = np.arange(len(edge)) - first[worker[order]] + 1
    looping = [
        bool(made) and op in MERGES and name.startswith(_CONTROL_LOOP)
        for made, op, name in zip(inserted.tolist(), graph.ops, graph.names, strict=True)
    ]
    return replace(given, id=number, loop=np.array(looping, bool)[given.src] & (given.port == CONTROL))


def wires_of(graph: Graph) -> Wires:
    """All edges of a graph, numbered as they stand there."""
    dst, tensor = graph.edge_dst.astype(np.int64), graph.edge_tensor.astype(np.int64)
    edge = np.arange(len(dst))
    ports = np.append(graph.tensor_port, 0).astype(np.int64)  # never empty: control wires ask for row 0
    return Wires(
        src=graph.edge_src.astype(np.int64),
        port=np.where(tensor < 0, CONTROL, ports[np.maximum(tensor, 0)]),
        dst=dst,
        slot=np.where(tensor < 0, LAST, edge - graph.in_ptr[dst]),
        id=edge,
        back=np.asarray(graph.edge_back),
        loop=np.zeros(len(dst), bool),
    )
