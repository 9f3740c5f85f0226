"""The client's nodes: where fed tensors come from and fetched ones go to.

    local session    _Arg  ──▶ readers        producer ──▶ _Retval
    master           _Recv ──▶ readers        producer ──▶ _Send       "client-terminated": the other end is the master

Both stand on the client's device, so a value that is produced or read elsewhere takes a transfer. The rules are those
of `tensorflow/core/graph/subgraph.cc`. The nodes are numbered after the graph's own, feeds before fetches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.graph.attributes import number, text_value, type_value
from simulator.graph.dtypes import base
from simulator.graph.messages import AttrValue
from simulator.partitioning.cut_graph import FIRST_ID, Column, CutEdges, new_edges
from simulator.partitioning.levels import LOCAL

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Attrs, Graph
    from simulator.graph.step import Exchange
    from simulator.partitioning.cut_graph import CutNodes


def add_client(nodes: CutNodes, client: Exchange, cluster: Cluster, flavour: str) -> None:
    """Add a node for each fed tensor, then one for each that is fetched, on the client's device.

    Each is named after its tensor, a local session's also after its place among all feeds or fetches.
    """
    graph, where = nodes.graph, cluster.client
    ends = [*zip(client.fed.tolist(), client.fed_place.tolist(), [True] * len(client.fed), strict=True)]
    ends += [(tensor, place, False) for place, tensor in enumerate(client.fetched.tolist())]
    for tensor, place, fed in ends:
        origin, port = int(graph.tensor_node[tensor]), int(graph.tensor_port[tensor])
        dtype = base(int(graph.tensor_dtype[tensor]))
        value = (dtype, graph.tensor_shape[tensor], int(graph.tensor_bytes[tensor]))
        endpoint = f"{graph.names[origin]}_{port}"
        if flavour == LOCAL:
            name, op = (f"_arg_{endpoint}_{place}", "_Arg") if fed else (f"_retval_{endpoint}_{place}", "_Retval")
            attrs: Attrs = {"T": type_value(dtype), "index": number(place)}
        else:
            name, op = (f"_recv_{endpoint}", "_Recv") if fed else (f"_send_{endpoint}", "_Send")
            device = text_value(cluster.devices[where].name)
            attrs = {
                "tensor_type" if fed else "T": type_value(dtype),
                "tensor_name": text_value(graph.tensor_name(tensor)),
                "send_device": device,
                "recv_device": device,
                "send_device_incarnation": number(1),
                "client_terminated": AttrValue(b=True),
            }
        nodes.add(name, op, attrs, origin, where, (value,) if fed else ())


def attach(graph: Graph, client: Exchange, whole: CutEdges) -> tuple[CutEdges, Column]:
    """The edges of `step_edges` with those to fetches, and the ids of edges that join the client to source and sink.

    TensorFlow makes these edges after those of the graph. A feed has one from TensorFlow's source, then those to its
    readers. A fetch has its own, then one to TensorFlow's sink.
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
    producer, port = graph.tensor_node[tensor].astype(np.int64), graph.tensor_port[tensor].astype(np.int64)
    fetching = new_edges(producer, port, node, 0, own)
    return replace(whole, id=number).join(fetching), np.concatenate([from_source, own + 1])
