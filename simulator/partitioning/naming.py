"""What a transfer carries, by its name in the graph that was cut: the names in the pieces are the cut's own."""

from __future__ import annotations

import re

from simulator.graph.graph import Attrs
from simulator.partitioning.partitions import Partitions

_ARG = re.compile(r"_arg_(.*)_(\d+)_\d+", re.DOTALL)  # how `client` names what a local session hands in
_COPY = re.compile(
    r"/replicate/_\d+(/ctrl/_\d+)?\Z"
)  # how `replication` names a copy, and `pairs` what stands for its end


def fed_name(name: str, attrs: Attrs) -> str:
    """ "node:port" of the tensor that a client's node in the pieces hands in."""
    if "tensor_name" in attrs:  # a master's
        text: bytes = attrs["tensor_name"].s
        return text.decode("utf-8", "replace")
    made = _ARG.fullmatch(name)
    return f"{made[1]}:{made[2]}" if made else name


def carried(cut: Partitions, transfer: int) -> str:
    """ "node:port" of the value that a transfer carries, "^node" for a control edge."""
    graph, sends = cut.graph, dict(zip(cut.recv.tolist(), cut.send.tolist(), strict=True))
    node, port = int(cut.send[transfer]), 0
    while cut.inserted[node] and cut.endpoint[node] < 0:  # back through the pairs, of which a value may pass several
        if node in sends:
            node = sends[node]
            continue
        edges = range(graph.in_ptr[node], graph.in_ptr[node + 1])
        carrying = [edge for edge in edges if cut.origin[graph.edge_src[edge]] == cut.origin[node]]
        if not carrying:  # a constant of which there are only copies
            break
        port = int(graph.tensor_port[graph.edge_tensor[carrying[0]]])
        node = int(graph.edge_src[carrying[0]])
    if cut.endpoint[node] >= 0:
        tensor = fed_name(graph.names[node], graph.attrs[node])
    else:
        tensor = f"{_COPY.sub('', graph.names[node]) if cut.inserted[node] else graph.names[node]}:{port}"
    return tensor if cut.tensor[transfer] >= 0 else f"^{tensor.rpartition(':')[0]}"
