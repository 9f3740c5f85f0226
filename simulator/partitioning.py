"""Cut a placed graph by device: a Send and a Recv wherever an edge crosses, one pair per rendezvous key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.columns import Flags, Ids, Ints

if TYPE_CHECKING:
    from simulator.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Partitions:
    """The pieces of one step. Axes: N' nodes (those that run, in graph order, then the inserted ones), X transfers.

    Transfers are sorted by (tensor, whether control, destination device, destination memory): the same order that
    the simulator uses among transfers that become ready at the same instant.
    """

    graph: Graph  # all pieces in one graph; Send and Recv are not joined by an edge
    device: Ids  # [N'] row of Cluster.devices
    origin: Ids  # [N'] row of the graph that was cut; for an inserted node the node that it serves
    inserted: Flags  # [N'] made by the cut: Send, Recv, dummy constants and identities of control edges, ...
    tensor: Ids  # [X] tensor of the graph that was cut, -1 - node for a control edge
    send: Ids  # [X] row of graph
    recv: Ids  # [X] row of graph
    src_device: Ids  # [X]
    dst_device: Ids  # [X]
    nbytes: Ints  # [X] -1 unknown
    key: tuple[str, ...]  # [X] rendezvous key
    devices: tuple[str, ...]  # [D] full device names
