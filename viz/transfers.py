"""The transfers of a trace with their tensors, ends and sizes: a row for each that took place, one per iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulator.columns import Ids, Ints, ids
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.partitioning.partitions import Partitions


class DrawnClient(NamedTuple):
    """A client of a trace, with the names of its graph and the places of its devices."""

    name: str
    graph: Graph
    partitions: Partitions
    devices: Ids | None = None  # [D] the cluster's device for each device of the partitions; None: the same


@dataclass(frozen=True, eq=False)
class DrawnTransfers:
    """The tensors, ends and sizes of the transfers of a trace. Axis: X."""

    tensor: Ids  # [X] row of its client's graph, or -1 - node for a control edge
    source: Ids  # [X] device
    target: Ids  # [X] device
    nbytes: Ints  # [X] 0 for a dead one, -1 unknown


def transfers_of(trace: Trace, clients: Sequence[DrawnClient]) -> DrawnTransfers:
    """The tensor, the ends and the size of each transfer of a trace."""
    moved = trace.transfers
    tensor, source, target = (np.zeros(len(moved.row), np.int64) for _ in range(3))
    for number, (_, _, pieces, devices) in enumerate(clients):
        rows = np.flatnonzero(moved.client == number)
        own = moved.row[rows]
        place = np.arange(len(pieces.devices)) if devices is None else devices
        source[rows], target[rows] = (place[end[own]] for end in pieces.ends)
        tensor[rows] = pieces.tensor[own]
    return DrawnTransfers(ids(tensor), ids(source), ids(target), moved.nbytes)
