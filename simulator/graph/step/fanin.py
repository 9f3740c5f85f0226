"""Fan-in: which nodes must run so that given tensors and nodes come about (TensorFlow's pruning)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from simulator.columns import Flags, flags
from simulator.graph.graph import Graph

PLACEHOLDERS = frozenset(("Placeholder", "PlaceholderV2"))


def fan_in(graph: Graph, targets: Iterable[int], fed: Collection[int] = ()) -> Flags:
    """[N] the nodes that run for the target nodes when the tensors in `fed` (rows) are handed in by the client.

    Backwards over data and control edges, loops included. A fed tensor stops the walk: its node counts as running
    (it stands for the value), its inputs do not. A node of which only some outputs are fed, or one that is no
    placeholder and has control successors, runs in earnest (`tensorflow/core/graph/subgraph.cc`).
    """
    runs = bytearray(len(graph))
    expanded = bytearray(len(graph))
    in_ptr = graph.in_ptr.tolist()
    edge_src = graph.edge_src.tolist()
    edge_tensor = graph.edge_tensor.tolist()
    whole = _fed_placeholders(graph, fed)
    pending = list(targets)
    for row in pending:
        runs[row] = 1
    while pending:
        row = pending.pop()
        if expanded[row]:
            continue
        expanded[row] = 1
        if row in whole:
            continue
        for edge in range(in_ptr[row], in_ptr[row + 1]):
            source = edge_src[edge]
            runs[source] = 1
            if not expanded[source] and edge_tensor[edge] not in fed:
                pending.append(source)
    return flags(np.frombuffer(runs, np.bool_))


def fan_out(graph: Graph, sources: Iterable[int]) -> list[int]:
    """The nodes that depend on the sources, they themselves included, in ascending order."""
    reached = set(sources)
    out_ptr = graph.out_ptr.tolist()
    targets = graph.edge_dst[graph.out_edge].tolist()
    pending = list(reached)
    while pending:
        row = pending.pop()
        for target in targets[out_ptr[row] : out_ptr[row + 1]]:
            if target not in reached:
                reached.add(target)
                pending.append(target)
    return sorted(reached)


def sinks(graph: Graph) -> list[int]:
    """The nodes that nobody consumes, in ascending order."""
    rows: list[int] = np.flatnonzero(np.diff(graph.out_ptr) == 0).tolist()
    return rows


def _fed_placeholders(graph: Graph, fed: Collection[int]) -> set[int]:
    return {node for tensor in fed if graph.ops[node := int(graph.tensor_node[tensor])] in PLACEHOLDERS}
