"""What each wire joins: devices, types and kinds of memory, and with them whether it needs a pair.

Memory kinds are those of `tensorflow/core/framework/memory_types.cc`; on a GPU, an output and an input on different
sides take a pair within the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster
from simulator.graph import ops
from simulator.graph.dtypes import FLOAT
from simulator.graph.graph import Attrs, Graph
from simulator.partitioning.draft import CONTROL, Added, Column, Wires
from simulator.partitioning.levels import Level


@dataclass(frozen=True, eq=False)
class Ends:
    """What each wire joins. Axis: wires."""

    src_device: Column
    dst_device: Column
    dtype: Column  # of the source output, REF more for a reference; FLOAT for control
    src_host: npt.NDArray[np.bool_]  # the value is produced in host memory
    dst_host: npt.NDArray[np.bool_]  # it is read in host memory
    on_host: npt.NDArray[np.bool_]  # the flag of the pair's key: as dst_host, and true for whatever a CPU reads
    crosses: npt.NDArray[np.bool_]  # needs a pair


def find_ends(graph: Graph, given: Wires, device: Column, added: Added, cluster: Cluster, level: Level) -> Ends:
    """Devices, types and memory kinds at both ends of every wire."""
    src_device, dst_device = device[given.src], device[given.dst]
    is_cpu = np.array([one.type == "CPU" for one in cluster.devices], bool)
    types = tuple(one.type for one in cluster.devices)
    away = level.location[src_device] != level.location[dst_device]
    alone = (src_device == dst_device) & ~is_cpu[dst_device]  # may need a pair within the device
    asked = away | alone  # the only wires whose memory kinds matter
    data = given.port != CONTROL
    src_host, dst_host = np.zeros(len(given), bool), np.zeros(len(given), bool)
    rows = np.flatnonzero(asked & data)
    sources, targets = given.src[rows].tolist(), given.dst[rows].tolist()
    host = {
        node: ops.host_memory(*_definition(graph, added, node), types[device[node]], graph.library)
        for node in sorted({*sources, *targets})
    }
    ports, slots = given.port[rows].tolist(), given.slot[rows].tolist()
    src_host[rows] = [port in host[node][1] for node, port in zip(sources, ports, strict=True)]
    dst_host[rows] = [slot in host[node][0] for node, slot in zip(targets, slots, strict=True)]
    mixed = alone & data & (src_host != dst_host)
    return Ends(
        src_device=src_device,
        dst_device=dst_device,
        dtype=_types(graph, given, added),
        src_host=src_host,
        dst_host=dst_host,
        on_host=is_cpu[dst_device] | dst_host,
        crosses=away | mixed,
    )


def _definition(graph: Graph, added: Added, node: int) -> tuple[str, Attrs]:
    if node < len(graph):
        return graph.ops[node], graph.attrs[node]
    return added.ops[node - len(graph)], added.attrs[node - len(graph)]


def _types(graph: Graph, given: Wires, added: Added) -> Column:
    """Type of each wire's source output, FLOAT for control."""
    found = np.full(len(given), FLOAT)
    known = (given.port != CONTROL) & (given.src < len(graph))
    found[known] = graph.tensor_dtype[graph.tensor_ptr[given.src[known]] + given.port[known]]
    for wire in np.flatnonzero((given.port != CONTROL) & (given.src >= len(graph))).tolist():
        found[wire] = added.outputs[int(given.src[wire]) - len(graph)][int(given.port[wire])][0]
    return found
