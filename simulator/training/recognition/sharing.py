"""Nodes that all replicas of one session share: variables and their reads, placeholders, queues, iterators, tables."""

from __future__ import annotations

import re

import numpy as np

from simulator.graph import ops
from simulator.graph.dataflow import source_of
from simulator.graph.dtypes import REF, RESOURCE
from simulator.graph.graph import Graph
from simulator.graph.op_classes import VARIABLES
from simulator.graph.traversal import PLACEHOLDERS

READS = frozenset(("Identity", "ReadVariableOp"))
_WRITES = re.compile(r"(Resource)?Scatter(Add|Sub|Update)|Assign(Add|Sub)?(VariableOp)?")


def is_shared(graph: Graph, row: int) -> bool:
    """Tell whether all replicas of one session use the same node: it holds state, reads a variable, or is fed."""
    if graph.ops[row] in PLACEHOLDERS or graph.ops[row] in VARIABLES or is_read(graph, row):
        return True
    types = graph.tensor_dtype[graph.outputs(row)]
    return source_of(graph, row) < 0 and bool(np.any((types >= REF) | (types == RESOURCE)))


def is_read(graph: Graph, row: int) -> bool:
    """Tell whether a node reads a variable, or hands its handle to a function's body, and waits for nothing."""
    while graph.ops[row] in READS and graph.in_ptr[row + 1] == graph.in_ptr[row] + 1:
        edge = int(graph.in_ptr[row])
        row = int(graph.edge_src[edge])
        if graph.ops[row] in VARIABLES:
            return True
        if graph.edge_tensor[edge] < 0 or graph.tensor_dtype[graph.edge_tensor[edge]] != RESOURCE:
            return False
    return False


def is_write(graph: Graph, row: int) -> bool:
    """Tell whether a node writes to a variable by no optimizer's rule."""
    return _WRITES.fullmatch(graph.ops[row]) is not None


def held_by(graph: Graph, row: int) -> int | None:
    """The shared node whose state a node uses, with which it must be colocated; None: it uses values alone."""
    taken = ops.inputs(graph.ops[row], graph.attrs[row], graph.library) or ()
    for edge, dtype in zip(graph.in_edges(row), taken, strict=False):
        source = int(graph.edge_src[edge])
        if (dtype >= REF or dtype == RESOURCE) and is_shared(graph, source):
            return source
    return None
