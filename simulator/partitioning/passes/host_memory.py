"""The inputs and outputs of nodes that lie in host memory, while a graph is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.columns import Flags, alike
from simulator.graph import ops
from simulator.partitioning.cut_graph import Column, CutNodes


@dataclass(frozen=True, eq=False)
class HostMemory:
    """The slots of nodes that lie in host memory, asked once for nodes of one op, attributes and type of device."""

    kind: Column  # [nodes] row of `slots`, of those that were asked about
    slots: Sequence[ops.Slots]

    def inputs(self, node: Column, slot: Column) -> Flags:
        """Tell which of these inputs do."""
        return self._lie(0, node, slot)

    def outputs(self, node: Column, port: Column) -> Flags:
        """Tell which of these outputs do."""
        return self._lie(1, node, port)

    def _lie(self, side: int, node: Column, slot: Column) -> Flags:
        width = int(slot.max(initial=0)) + 1  # a file may list slots that its node does not have
        held = [row * width + one for row, both in enumerate(self.slots) for one in both[side] if 0 <= one < width]
        return np.isin(self.kind[node] * width + slot, np.array(held, np.int64))


def host_memory_of(nodes: CutNodes, device: Column, types: Sequence[str], asked: Column) -> HostMemory:
    """The slots in host memory of the nodes in `asked`, which may stand there more than once."""
    graph = nodes.graph
    number = np.concatenate([graph.alike[1], len(graph) + np.arange(len(nodes) - len(graph))])
    some = np.flatnonzero(np.bincount(asked, minlength=len(nodes)))
    type_of = np.array([types.index(one) for one in types], np.int64)
    first, row = alike(number[some], type_of[device[some]])
    kind = np.full(len(nodes), -1)
    kind[some] = row
    slots = [
        ops.host_memory(nodes.ops[node], nodes.attrs[node], types[nodes.device[node]], graph.library)
        for node in some[first].tolist()
    ]
    return HostMemory(kind, slots)
