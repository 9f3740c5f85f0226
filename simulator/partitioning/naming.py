"""What a transfer carries, by its name in the graph that was cut: the names in the pieces are the cut's own."""

from __future__ import annotations

import re

import numpy as np

from simulator.graph.graph import Attrs
from simulator.partitioning.partitions import Partitions

_ARG = re.compile(r"_arg_(.*)_(\d+)_\d+", re.DOTALL)  # how `client` names what a local session hands in


def fed_name(name: str, attrs: Attrs) -> str:
    """ "node:port" of the tensor that a client's node in the pieces hands in."""
    if "tensor_name" in attrs:  # a master's
        text: bytes = attrs["tensor_name"].s
        return text.decode("utf-8", "replace")
    made = _ARG.fullmatch(name)
    return f"{made[1]}:{made[2]}" if made else name


def carried(cut: Partitions, transfer: int) -> str:
    """ "node:port" of the value that a transfer carries, "^node" for a control edge."""
    graph, from_send = cut.graph, dict(zip(cut.recv.tolist(), cut.send.tolist(), strict=True))
    send = int(cut.send[transfer])
    while (source := int(graph.edge_src[graph.in_ptr[send]])) in from_send:  # a worker passes on what it received
        send = from_send[source]
    if cut.endpoint[source] >= 0:
        return fed_name(graph.names[source], graph.attrs[source])
    named = np.flatnonzero(~cut.inserted & (cut.origin == cut.origin[send]))  # none: a constant that is there in copies
    name = graph.names[int(named[0]) if len(named) else source]
    return (
        f"^{name}" if cut.tensor[transfer] < 0 else f"{name}:{graph.tensor_port[graph.edge_tensor[graph.in_ptr[send]]]}"
    )
