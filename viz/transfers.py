"""The transfers of a trace with their tensors, ends, routes and sizes: a row for each that took place, by iteration.

A value takes the route between the memories in which it lies and arrives, as the simulation has it
(`simulator.cluster.memories`). These may be others than the memories of the devices that send and receive. A GPU may
make a value in host memory, and read one there. All that tells of links takes them from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import Ids, Ints, Lists, ids, ints, lists
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
    """The tensors, ends, routes and sizes of the transfers of a trace. Axes: X transfers, W routes."""

    tensor: Ids  # [X] row of its client's graph, or -1 - node for a control edge
    source: Ids  # [X] device
    target: Ids  # [X] device
    route: Ids  # [X] row of `routes`
    routes: Lists  # [W] rows of Cluster.links, in the order in which they are crossed; none: handed over in memory
    nbytes: Ints  # [X] 0 for a dead one, -1 unknown

    def link_bytes(self, links: int) -> Ints:
        """[L] the bytes that cross each of so many links."""
        on_route, found = np.zeros(len(self.routes), np.int64), np.zeros(links, np.int64)
        np.add.at(on_route, self.route, np.maximum(self.nbytes, 0))
        np.add.at(found, self.routes.item, on_route[self.routes.of])
        return ints(found)


def transfers_of(trace: Trace, cluster: Cluster, clients: Sequence[DrawnClient]) -> DrawnTransfers:
    """The tensor, the ends, the route and the size of each transfer of a trace."""
    moved = trace.transfers
    tensor, source, target, pair = (np.zeros(len(moved.row), np.int64) for _ in range(4))
    for number, (_, _, pieces, devices) in enumerate(clients):
        rows = np.flatnonzero(moved.client == number)
        own = moved.row[rows]
        place = np.arange(len(pieces.devices)) if devices is None else devices
        source[rows], target[rows] = (place[end[own]] for end in pieces.ends)
        lies, arrives = (place[memory[own]] for memory in (pieces.src_device, pieces.dst_device))
        pair[rows] = lies.astype(np.int64) * len(cluster) + arrives
        tensor[rows] = pieces.tensor[own]
    pairs, route = np.unique(pair, return_inverse=True)
    routes = lists([cluster.routes[one // len(cluster)][one % len(cluster)] or () for one in pairs.tolist()])
    return DrawnTransfers(ids(tensor), ids(source), ids(target), ids(route), routes, moved.nbytes)
