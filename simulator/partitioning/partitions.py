"""The pieces of one step: a graph per device, and the transfers between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from simulator.columns import Flags, Ids, Ints, flags, ids
from simulator.errors import GraphError
from simulator.graph.graph import Attrs, Graph
from simulator.graph.graph_def import graph_def, to_text, untie
from simulator.graph.op_classes import ENTERS, MERGES, SWITCHES
from simulator.partitioning.cut_graph import as_graph, edges_of, nodes_of, waits
from simulator.partitioning.passes.control_loops import Stranded
from simulator.partitioning.passes.pairs import rendezvous_key
from simulator.wording import counted, repr_of

SENDS, RECVS = frozenset({"_Send", "_HostSend"}), frozenset({"_Recv", "_HostRecv"})  # ops; the host's: in its memory
_ARG = re.compile(r"_arg_(.*)_(\d+)_\d+", re.DOTALL)  # how `passes.client` names what a local session hands in
# how `passes.replication` names a copy, and `passes.pairs` the dummy for its end
_COPY = re.compile(r"/replicate/_\d+(/ctrl/_\d+)?\Z")


@dataclass(frozen=True, eq=False)
class Partitions:
    """The pieces of one step. Axes: N' nodes, X transfers. Nodes are those that run, in graph order, then the inserted
    ones. Of a master's cut they come in the order in which the partitioner writes them.

    A constant that was copied to its readers is there only as its copies. A control-flow op may be on another device
    than it was assigned, as TensorFlow moves it next to its values.

    Fed tensors come from nodes on the client's device, and fetched ones end in such nodes (`endpoint`).

    Transfers are sorted by (tensor, a node's control edge after its tensors, destination device, destination memory),
    those of fed tensors last. The simulator uses the same order among transfers that become ready at the same instant.
    A GPU's value in host memory lies in that of the CPU that stands for the GPU. A pair within a GPU is a transfer
    between its own memory and that of its host. In the graph its Recv waits for its Send by a control edge. Where a
    cluster has no links between the two memories, such a pair has no row.
    """

    graph: Graph  # all pieces in one graph; a Send and its Recv on another device are not joined by an edge
    nodes: int  # of the graph that was cut
    device: Ids  # [N'] row of Cluster.devices
    origin: Ids  # [N'] row of the graph that was cut; for an inserted node the one whose output it carries
    inserted: Flags  # [N'] made by the cut: client's ends, Send, Recv, dummies of control edges, copies, control loops
    endpoint: Ids  # [N'] tensor of the graph that was cut that the node takes from the client or gives it, -1: neither
    tensor: Ids  # [X] tensor of the graph that was cut, -1 - node for a control edge
    send: Ids  # [X] row of graph
    recv: Ids  # [X] row of graph
    src_device: Ids  # [X] in whose memory the value lies
    dst_device: Ids  # [X] in whose memory it arrives
    host: Flags  # [X] it is read in host memory, as by every CPU
    nbytes: Ints  # [X] -1 unknown
    devices: tuple[str, ...]  # [D] full device names
    flavour: str  # who cut: "local", a session by device; "master", a master by task and then each worker by device
    priority: Ints | None = None  # [N'] that of the node's origin in the assignment; None: it gave none
    refused: str | None = None  # what TensorFlow says instead of cutting this; None: it cuts it
    stranded: tuple[Stranded, ...] = ()  # where TensorFlow would wait for ever if a loop has a second iteration
    notes: tuple[str, ...] = ()  # what the reader of the result should know

    @cached_property
    def key(self) -> tuple[str, ...]:
        """[X] the rendezvous keys."""
        here, there = self.device[self.send].tolist(), self.device[self.recv].tolist()
        ends = zip(here, there, self.recv.tolist(), strict=True)
        return tuple(rendezvous_key(self.devices[a], self.devices[b], self.graph.attrs[recv]) for a, b, recv in ends)

    @property
    def within(self) -> Flags:
        """[X] copies between the two memories of one GPU."""
        return flags(self.device[self.send] == self.device[self.recv])

    @property
    def ends(self) -> tuple[Ids, Ids]:
        """[X] the devices of Send and Recv; of a copy within a GPU the devices in whose memories the value is."""
        ends = ((self.send, self.src_device), (self.recv, self.dst_device))
        source, target = (ids(np.where(self.within, memory, self.device[node])) for node, memory in ends)
        return source, target

    def __repr__(self) -> str:
        pieces = counted(len(set(self.device.tolist())), "piece")
        return repr_of(self, f"{counted(len(self.device), 'node')} in {pieces}", counted(len(self.send), "transfer"))


def fed_name(name: str, attrs: Attrs) -> str:
    """ "node:port" of the tensor that a client's node in the pieces hands in."""
    if "tensor_name" in attrs:  # a master's
        text: bytes = attrs["tensor_name"].s
        return text.decode("utf-8", "replace")
    made = _ARG.fullmatch(name)
    return f"{made[1]}:{made[2]}" if made else name


def carried(cut: Partitions, transfer: int) -> str:
    """ "node:port" of the value that a transfer carries, "^node" for a control edge."""
    graph, node, port = cut.graph, int(cut.send[transfer]), 0
    while cut.inserted[node] and cut.endpoint[node] < 0:  # back through the pairs, of which a value may pass several
        if len(pair := np.flatnonzero(cut.recv == node)):
            node = int(cut.send[pair[-1]])
            continue
        carrying = [edge for edge in graph.in_edges(node) if cut.origin[graph.edge_src[edge]] == cut.origin[node]]
        if not carrying:  # a constant of which there are only copies
            break
        port = int(graph.tensor_port[graph.edge_tensor[carrying[0]]])
        node = int(graph.edge_src[carrying[0]])
    if cut.endpoint[node] >= 0:
        tensor = fed_name(graph.names[node], graph.attrs[node])
    else:
        tensor = f"{_COPY.sub('', graph.names[node]) if cut.inserted[node] else graph.names[node]}:{port}"
    return tensor if cut.tensor[transfer] >= 0 else f"^{tensor.rpartition(':')[0]}"


def with_waits(partitions: Partitions, pairs: Sequence[tuple[int, int]]) -> Partitions:
    """The same pieces, in which the second node of each pair (first, then) waits for the first.

    Both are rows of `partitions.graph`. The edges come after those that are there, in the given order. Raises
    GraphError for two nodes on different devices, and where nodes of one piece would wait for each other.
    """
    graph = partitions.graph
    for first, then in pairs:
        if partitions.device[first] != partitions.device[then]:
            raise GraphError(
                f"{graph.names[then]!r} cannot wait for {graph.names[first]!r}, which is on another device; only a "
                "transfer joins devices.",
                node=graph.names[then],
            )
    given = edges_of(graph).join(waits(pairs, len(graph.edge_src)))
    nodes = nodes_of(graph, partitions.device.tolist())
    return replace(partitions, graph=as_graph(nodes, given, np.arange(len(graph)), graph.requested))


def unconditional(partitions: Partitions) -> Flags:
    """[N'] whether a node runs once in every step, whatever predicates say: no Switch, Merge or Enter is before it."""
    graph = partitions.graph
    recv_of = dict(zip(partitions.send.tolist(), partitions.recv.tolist(), strict=True))
    free = [True] * len(graph)
    found = [row for row, op in enumerate(graph.ops) if op in SWITCHES or op in MERGES or op in ENTERS]
    for row in found:
        free[row] = False
    while found:
        row = found.pop()
        after = graph.edge_dst[graph.out_edge[graph.out_ptr[row] : graph.out_ptr[row + 1]]].tolist()
        for reader in (*after, *((recv_of[row],) if row in recv_of else ())):
            if free[reader]:
                free[reader] = False
                found.append(reader)
    return flags(free)


def partition_files(partitions: Partitions) -> dict[str, str]:
    """File name -> the piece of one device as GraphDef text, in order of the devices; devices that run nothing lack.

    File names are device names without what file systems dislike: "job_worker_replica_0_task_1_device_GPU_0.pbtxt".
    Nodes stand in TensorFlow's order, each with the full name of its device. TensorFlow names the nodes of control
    loops "_cloop...", which its importer refuses; here they lack the first letter, so that every piece can be imported.
    For the same reason colocation with a node that is not in the piece (pruned, or on another device) is left out.
    Every node has its device by now.
    """
    graph = replace(partitions.graph, names=_importable(partitions))
    whole = graph_def(graph, devices=[partitions.devices[row] for row in partitions.device.tolist()])
    used = sorted(set(partitions.device.tolist()))
    pieces = {row: type(whole)(versions=whole.versions, library=whole.library) for row in used}
    inside: dict[int, set[str]] = {row: set() for row in used}
    for name, device in zip(graph.names, partitions.device.tolist(), strict=True):
        inside[device].add(name)
    for row in graph.order.tolist():
        device = int(partitions.device[row])
        node = pieces[device].node.add()
        node.CopyFrom(whole.node[row])
        untie(node, inside[device])
    return {_file_name(partitions.devices[row]): to_text(pieces[row]) for row in used}


def _importable(partitions: Partitions) -> tuple[str, ...]:
    """The names, without a leading "_" where the cut made one; a name that is taken gets another "_" at its end."""
    names = list(partitions.graph.names)
    taken = set(names)
    for row, name in enumerate(names):
        if partitions.inserted[row] and name.startswith("_"):
            new = name.lstrip("_")
            while new in taken:
                new += "_"
            taken.add(new)
            names[row] = new
    return tuple(names)


def _file_name(device: str) -> str:
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in device.strip("/"))
    return f"{kept}.pbtxt"
