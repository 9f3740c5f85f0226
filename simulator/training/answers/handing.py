"""Links that carry little but what the client feeds and fetches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from simulator.cluster.cluster import Cluster
    from simulator.partitioning import Partitions
    from simulator.training.training import Training

_PARTS = frozenset(("Split", "SplitV", "Slice", "StridedSlice", "Identity"))  # of what is fed, for towers


def of_client_alone(training: Training, cluster: Cluster, ends: Sequence[Collection[int]]) -> bool:
    """Whether a link is that of the one client of a run, and most that crosses is what it feeds and fetches.

    `ends` are the devices that send through it, and those that get something through it.
    """
    task_of = cluster.task_of
    workers = training.is_worker.nonzero()[0].tolist()
    if len(workers) != 1 or len(training.partitions) <= workers[0]:
        return False
    own = int(training.client_task[workers[0]])
    at_own = any({task_of[row] for row in devices} == {own} for devices in ends)
    return at_own and _mostly_handed(training.partitions[workers[0]])


def _mostly_handed(pieces: Partitions) -> bool:
    """Whether half of the bytes that cross, or more, come from the client, perhaps in parts, or go to it."""
    graph, of_client = pieces.graph, pieces.endpoint >= 0
    read_by_client = np.zeros(len(graph), bool)
    read_by_client[graph.edge_src[of_client[graph.edge_dst]]] = True
    fed, more = np.array(of_client), of_client
    parts = np.array([op in _PARTS for op in graph.ops], bool)
    while more.any():  # what is split may be split again
        reached = np.zeros(len(graph), bool)
        reached[graph.edge_dst[more[graph.edge_src] & (graph.edge_tensor >= 0)]] = True
        more = reached & parts & ~fed
        fed |= more
    handed = fed[graph.edge_src[graph.in_ptr[pieces.send]]] | read_by_client[pieces.recv]
    nbytes = np.maximum(pieces.nbytes, 0)
    return bool(2 * nbytes[handed].sum() >= nbytes.sum() > 0)
