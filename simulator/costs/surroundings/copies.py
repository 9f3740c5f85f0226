"""Copies between the two memories of one GPU: its own, and that of its host.

    kernel ── in GPU memory ──▶ _Send ~ copy ~> _Recv ── in host memory ──▶ an op that asks for sizes or places

TensorFlow makes a pair of Send and Recv within the device where an output lies in the one memory and a reader wants it
in the other (tensorflow/core/graph/graph_partition.cc, NeedSameDeviceSendRecv). All readers share one copy. The Send
takes the host as long as any op. The executor learns of the copy's end when it looks for it, and it sleeps between two
looks (tensorflow/core/protobuf/config.proto, GPUOptions.polling_active_delay_usecs).

A price does not know where the readers will be. So the time belongs to the op that makes the value, and it counts if
some reader has a kernel for GPUs, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster, Device
from simulator.columns import Ints, ints
from simulator.costs.table import MAX_NS
from simulator.graph.graph import Graph
from simulator.graph.ops import Slots
from simulator.units import Nanos

_LOOK_NS: Nanos = 10_000  # TensorFlow's default sleep


class Copies(NamedTuple):
    """Values that change their memory where all ops run on one GPU. Axis: N nodes."""

    outputs: Ints  # how many of a node's
    nbytes: Ints  # of them together


def copies(graph: Graph, kernels: npt.NDArray[np.bool_], held: Sequence[Slots]) -> Copies:
    """Count the outputs that some reader wants in the other memory.

    `kernels` [N] are the nodes that have a kernel for GPUs, `held` [N] their inputs and outputs in host memory.
    """
    some = np.fromiter((bool(taken or given) for taken, given in held), bool, len(graph))
    data = graph.edge_tensor >= 0
    edge = np.flatnonzero(data & kernels[graph.edge_src] & kernels[graph.edge_dst])
    edge = edge[some[graph.edge_src[edge]] | some[graph.edge_dst[edge]]]
    tensor, reader = graph.edge_tensor[edge], graph.edge_dst[edge]
    port, slot = graph.tensor_port[tensor], edge - graph.in_ptr[reader]
    rows = zip(graph.edge_src[edge].tolist(), port.tolist(), reader.tolist(), slot.tolist(), strict=True)
    apart = [(out in held[node][1]) != (at in held[other][0]) for node, out, other, at in rows]
    copied = np.unique(tensor[np.array(apart, bool)])
    outputs, nbytes = np.zeros(len(graph), np.int64), np.zeros(len(graph), np.int64)
    np.add.at(outputs, graph.tensor_node[copied], 1)
    np.add.at(nbytes, graph.tensor_node[copied], np.maximum(graph.tensor_bytes[copied], 0))
    return Copies(ints(outputs), ints(nbytes))


def copying_ns(found: Copies, model: Device, cluster: Cluster) -> Ints:
    """[N] time of the copies on a GPU like this one."""
    row = next(at for at, device in enumerate(cluster.devices) if device.kind == model.kind)
    home = int(cluster.home[row])
    links = [cluster.links[link] for link in cluster.routes[row][home] or ()]
    latency = model.op_ns(0) + _LOOK_NS + sum(link.latency_ns for link in links)
    rate = min((link.bytes_per_s for link in links), default=0)
    wire = found.nbytes / rate * 1e9 if rate else np.zeros(len(found.nbytes))
    return ints(np.minimum(np.ceil(found.outputs * latency + wire), MAX_NS))
