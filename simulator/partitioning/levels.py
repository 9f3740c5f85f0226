"""Runs of TensorFlow's partitioner: by what each cuts, and how it names the nodes that it adds.

    local session   by device    a/_0
    master          by task      a_S0             tensorflow/core/distributed_runtime/master_session.cc
    worker          by device    a_G0 or a_S0_G0  tensorflow/core/distributed_runtime/graph_mgr.cc

A master sends each worker the piece of its task. The worker makes a graph of it, which numbers nodes and edges anew,
and cuts that by device. Both run the same partitioner (`tensorflow/core/graph/graph_partition.cc`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.errors import SimvizError
from simulator.partitioning.cut_graph import Column

AUTO, LOCAL, MASTER = FLAVOURS = ("auto", "local", "master")


@dataclass(frozen=True, eq=False)
class Level:
    """A run of the partitioner, or a run per task side by side. Axis: D devices."""

    location: Column  # [D] devices of one location share a piece
    counter: Column  # [D] those of one counter number the names that are made for them together
    suffix: str  # of a made name, before its number
    by_creation: bool  # nodes stand in the order in which they were made, as a master writes and a worker reads them


def flavour_of(flavour: str, cluster: Cluster) -> str:
    """LOCAL or MASTER. AUTO is the flavour of a session: local on one task, a master's on several.

    Raises SimvizError for an unknown flavour.
    """
    if flavour not in FLAVOURS:
        raise SimvizError(f"There is no flavour {flavour!r}; take one of {', '.join(FLAVOURS)}.")
    if flavour != AUTO:
        return flavour
    return LOCAL if len(cluster.tasks) == 1 else MASTER


def levels_of(flavour: str, cluster: Cluster) -> Sequence[Level]:
    """The runs of a local session, or those of a master and then of the workers of all tasks."""
    device, task, alone = np.arange(len(cluster)), np.array(cluster.task_of, np.int64), np.zeros(len(cluster), np.int64)
    if flavour == LOCAL:
        return [Level(device, alone, "/_", by_creation=False)]
    return [Level(task, alone, "_S", by_creation=True), Level(device, task, "_G", by_creation=True)]
