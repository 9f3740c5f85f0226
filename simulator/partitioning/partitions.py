"""The pieces of one step: a graph per device, and what crosses between them."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.columns import Flags, Ids, Ints
from simulator.graph.graph import Graph

SENDS, RECVS = frozenset({"_Send", "_HostSend"}), frozenset({"_Recv", "_HostRecv"})  # ops; the host's: in its memory


@dataclass(frozen=True, eq=False)
class Partitions:
    """The pieces of one step. Axes: N' nodes, X transfers. Nodes are those that run, in graph order, then the inserted
    ones; of a master's cut they come in the order in which the partitioner writes them.

    A constant that was copied to its readers is there only as its copies; a control-flow op may be on another device
    than it was assigned, as TensorFlow moves it next to its values.

    What the client hands in comes from nodes on its device, and what is fetched ends in such nodes (`endpoint`).

    Transfers are sorted by (tensor, a node's control edge after its tensors, destination device, destination memory),
    those of fed tensors last: the same order that the simulator uses among transfers that become ready at the same
    instant. A pair within one device (between a GPU's own memory and host memory) is no transfer: it has no row here,
    and its Recv waits for its Send by a control edge in the graph.
    """

    graph: Graph  # all pieces in one graph; a Send and its Recv on another device are not joined by an edge
    device: Ids  # [N'] row of Cluster.devices
    origin: Ids  # [N'] row of the graph that was cut; for an inserted node the one whose output it carries
    inserted: Flags  # [N'] made by the cut: client's ends, Send, Recv, dummies of control edges, copies, control loops
    endpoint: Ids  # [N'] tensor of the graph that was cut that the node takes from the client or gives it, -1: neither
    tensor: Ids  # [X] tensor of the graph that was cut, -1 - node for a control edge
    send: Ids  # [X] row of graph
    recv: Ids  # [X] row of graph
    src_device: Ids  # [X]
    dst_device: Ids  # [X]
    nbytes: Ints  # [X] -1 unknown
    key: tuple[str, ...]  # [X] rendezvous key
    devices: tuple[str, ...]  # [D] full device names
    flavour: str  # who cut: "local", a session by device; "master", a master by task and then each worker by device
    priority: Ints | None = None  # [N'] that of the node's origin in the assignment; None: it gave none
    refused: str | None = None  # what TensorFlow says instead of cutting this; None: it cuts it
    notes: tuple[str, ...] = ()  # what the reader of the result should know
