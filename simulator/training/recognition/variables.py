"""Variables of a graph: the ops on each, colocated nodes, and sizes."""

from __future__ import annotations

import numpy as np

from simulator.graph.attributes import colocated_with
from simulator.graph.dataflow import source_of
from simulator.graph.dtypes import INT32, INT64, SIZE, base
from simulator.graph.graph import Graph, Shape
from simulator.graph.op_classes import VARIABLES
from simulator.graph.tensors import shape_of

_WHOLE_NUMBERS = frozenset((INT32, INT64))  # types of a global step
_HANDING_ON = 16  # ops through which a reference or handle passes at most before its update


def variable_of(graph: Graph, row: int, slot: int = 0) -> int | None:
    """The variable whose reference or handle comes in at that input; None: it is no variable's."""
    for _ in range(_HANDING_ON):
        row, slot = source_of(graph, row, slot), 0
        if row < 0 or graph.ops[row] in VARIABLES:
            return row if row >= 0 else None
    return None


def colocated_rows(graph: Graph, row: int) -> list[int]:
    """The other nodes of the graph with which a node asks to be colocated, in the file's order."""
    rows = [graph.index.get(name, row) for name in colocated_with(graph.attrs[row])]
    return [other for other in rows if other != row]


def variable_shape(graph: Graph, row: int) -> Shape | None:
    """The shape that a variable declares; None: it does not, or not even its rank."""
    attrs = graph.attrs[row]
    return shape_of(attrs["shape"].shape) if "shape" in attrs else None


def variable_bytes(graph: Graph, row: int) -> int:
    """The size of a variable by its declaration; -1 where the declaration leaves a dimension open."""
    attrs, shape = graph.attrs[row], variable_shape(graph, row)
    size = SIZE.get(base(int(attrs["dtype"].type)), -1) if "dtype" in attrs else -1
    return -1 if shape is None or -1 in shape or size < 0 else int(np.prod(shape, dtype=object)) * size


def is_whole(graph: Graph, variable: int) -> bool:
    """Tell whether a variable holds whole numbers, which count and do not learn."""
    attrs = graph.attrs[variable]
    return "dtype" in attrs and base(int(attrs["dtype"].type)) in _WHOLE_NUMBERS
