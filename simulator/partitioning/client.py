"""The client's side of the cut: where fed tensors come from and fetched ones go to.

    local session    _Arg  ──▶ readers        producer ──▶ _Retval
    master           _Recv ──▶ readers        producer ──▶ _Send       "client-terminated": the other end is the master

Both stand on the client's device, so that a value which is made or read elsewhere takes a transfer. The rules are those
of `tensorflow/core/graph/subgraph.cc`; the nodes are numbered after the graph's own, feeds before fetches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import SimvizError
from simulator.graph.dtypes import base
from simulator.graph.messages import AttrValue
from simulator.partitioning.draft import (
    FIRST_ID,
    Column,
    NodeRow,
    Wires,
    text_attr,
    type_attr,
    wires,
)

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Attrs, Graph
    from simulator.graph.step import Exchange

AUTO, LOCAL, MASTER = FLAVOURS = ("auto", "local", "master")


def flavour_of(flavour: str, cluster: Cluster) -> str:
    """LOCAL or MASTER: AUTO is what a session does, which is local where there is one task, else a master's.

    Raises SimvizError for a flavour that there is not.
    """
    if flavour not in FLAVOURS:
        raise SimvizError(f"There is no flavour {flavour!r}; take one of {', '.join(FLAVOURS)}.")
    if flavour != AUTO:
        return flavour
    return LOCAL if len(cluster.tasks) == 1 else MASTER


def client_nodes(graph: Graph, given: Exchange, cluster: Cluster, flavour: str) -> list[NodeRow]:
    """The rows of Added for what is fed, then for what is fetched."""
    fed = zip(given.fed.tolist(), given.fed_place.tolist(), strict=True)
    return [
        *(_node(graph, tensor, place, cluster, flavour, feed=True) for tensor, place in fed),
        *(
            _node(graph, tensor, place, cluster, flavour, feed=False)
            for place, tensor in enumerate(given.fetched.tolist())
        ),
    ]


def _node(graph: Graph, tensor: int, place: int, cluster: Cluster, flavour: str, *, feed: bool) -> NodeRow:
    """One node, named after its tensor; a local session's also after its place among all feeds or fetches."""
    origin, port = int(graph.tensor_node[tensor]), int(graph.tensor_port[tensor])
    dtype = base(int(graph.tensor_dtype[tensor]))
    value = (dtype, graph.tensor_shape[tensor], int(graph.tensor_bytes[tensor]))
    where, endpoint = cluster.client, f"{graph.names[origin]}_{port}"
    if flavour == LOCAL:
        name, op = (f"_arg_{endpoint}_{place}", "_Arg") if feed else (f"_retval_{endpoint}_{place}", "_Retval")
        attrs: Attrs = {"T": type_attr(dtype), "index": AttrValue(i=place)}
    else:
        name, op = (f"_recv_{endpoint}", "_Recv") if feed else (f"_send_{endpoint}", "_Send")
        device = text_attr(cluster.devices[where].name)
        attrs = {
            "tensor_type" if feed else "T": type_attr(dtype),
            "tensor_name": AttrValue(s=graph.tensor_name(tensor).encode()),
            "send_device": device,
            "recv_device": device,
            "send_device_incarnation": AttrValue(i=1),
            "client_terminated": AttrValue(b=True),
        }
    return name, op, attrs, origin, where, (value,) if feed else ()


def attach(graph: Graph, client: Exchange, whole: Wires) -> tuple[Wires, Column]:
    """The wires of `step_wires` with those to fetches, and the ids of edges that join the client to source and sink.

    TensorFlow makes these edges after all that it was given: per feed one from its source, then those to its readers;
    per fetch its own, then one to its sink.
    """
    made = graph.creation
    first = FIRST_ID + 1 + max(int(column.max(initial=-1)) for column in (made.edge, made.source, made.sink))
    read = np.flatnonzero(whole.src >= len(graph))
    read = read[np.lexsort((whole.id[read], whole.src[read]))]
    fed = whole.src[read] - len(graph)
    number = whole.id.copy()
    number[read] = first + np.arange(len(read)) + fed + 1
    from_source = first + np.searchsorted(fed, np.arange(len(client.fed))) + np.arange(len(client.fed))
    first += len(read) + len(client.fed)
    tensor, row = client.fetched, np.arange(len(client.fetched))
    node, own = len(graph) + len(client.fed) + row, first + 2 * row
    columns = graph.tensor_node[tensor], graph.tensor_port[tensor], node, np.zeros(len(row), np.int64), own
    fetching = wires(zip(*(column.tolist() for column in columns), strict=True))
    return replace(whole, id=number).join(fetching), np.concatenate([from_source, own + 1])
