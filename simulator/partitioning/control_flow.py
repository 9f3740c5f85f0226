"""Where control-flow ops really run.

The partitioner moves Switch, Exit, Enter and NextIteration next to the values that they pass on, whatever was
requested (`tensorflow/core/graph/graph_partition.cc`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.graph.control_flow import EXITS, NEXT_ITERATIONS, SWITCHES
from simulator.partitioning.draft import CONTROL, Column, Wires

if TYPE_CHECKING:
    from simulator.graph.graph import Graph

_TO_INPUT = SWITCHES | EXITS
_TO_READER = NEXT_ITERATIONS | {"Enter"}  # an Enter of a reference stays
_MOVED = _TO_INPUT | _TO_READER


def moved(graph: Graph, given: Wires, device: Column) -> Column:
    """The devices after OptimizeControlFlowColocation: a depth-first walk from the source, last successor first.

    Switch goes to its data input, Exit to its input, Enter and NextIteration to their first data reader. A node that
    was moved counts as such for those visited later. Kernels are not looked at, as TensorFlow does not either.
    """
    if not any(op in _MOVED for op in graph.ops):
        return device
    where = device.tolist()
    readers, reads, successors = _neighbours(graph, given, len(where))
    has_input = np.zeros(len(where), bool)
    has_input[given.dst] = True
    first = np.concatenate([graph.order, np.arange(len(graph), len(where))])
    stack = first[~has_input[first]].tolist()
    seen = [False] * len(where)
    while stack:
        node = stack.pop()
        if seen[node]:
            continue
        seen[node] = True
        op = graph.ops[node] if node < len(graph) else "Const"
        beside = reads.get(node) if op in _TO_INPUT else readers.get(node) if op in _TO_READER else None
        if beside is not None:
            where[node] = where[beside]
        stack += [other for other in successors[node] if not seen[other]]
    return np.array(where, np.int64)


def _neighbours(graph: Graph, given: Wires, count: int) -> tuple[dict[int, int], dict[int, int], list[list[int]]]:
    """First data reader of each node, first data input of each node, successors of each node by edge id."""
    readers: dict[int, int] = {}
    reads: dict[int, int] = {}
    successors: list[list[int]] = [[] for _ in range(count)]
    order = np.argsort(given.id, kind="stable")
    rows = zip(*(column[order].tolist() for column in (given.src, given.port, given.dst, given.slot)), strict=True)
    for src, port, dst, slot in rows:
        successors[src].append(dst)
        if port != CONTROL:
            readers.setdefault(src, dst)
            if slot == 0:
                reads[dst] = src
    return readers, reads, successors
