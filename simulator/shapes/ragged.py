"""Placeholders of the row splits of ragged tensors: where each row begins among the values, and where the last ends.

    values      a b c d e f         row splits      0 2 2 6         rows      a b | | c d e f

There is one more than rows. TensorFlow feeds values and row splits each apart. Row splits are known by what reads them:
an op that takes them as such, or the difference of neighbours. That difference is how long each row is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from simulator.graph.attributes import has_bit
from simulator.graph.const_values import elements
from simulator.graph.dataflow import data_inputs
from simulator.graph.dtypes import INT32, INT64, base
from simulator.graph.graph import Graph, Shape
from simulator.shapes.propagation import edge_tensors
from simulator.shapes.sparse import fed_behind

_SPLITS: Mapping[str, slice] = {  # op -> the inputs that are row splits
    **dict.fromkeys(("RaggedTensorToVariant", "RaggedTensorToSparse"), slice(0, -1)),
    **dict.fromkeys(("RaggedBincount", "RaggedCountSparseOutput"), slice(0, 1)),
    **dict.fromkeys(("UnicodeEncode", "StringNGrams"), slice(1, 2)),
    "RaggedGather": slice(0, -2),
    "RaggedTensorToTensor": slice(3, None),
}
_LATER, _EARLIER = ([1], [0], "end"), ([0], [-1], "begin")  # of neighbours: begin and end, and which of them is open


def row_splits(graph: Graph, shapes: Sequence[Shape | None]) -> frozenset[int]:
    """The tensors of placeholders that are row splits: vectors of whole numbers, of these shapes [T]."""
    fed = {row for row in edge_tensors(graph) if _may_be(graph, shapes, row)}
    if not fed:
        return frozenset()
    inputs, source = data_inputs(graph), graph.tensor_node.tolist()
    read: list[int] = []
    for node, op in enumerate(graph.ops):
        if op in _SPLITS:
            read += [
                row for row in inputs[node][_SPLITS[op]] if op != "RaggedTensorToTensor" or _by_splits(graph, node)
            ]
        elif op == "Sub" and len(inputs[node]) == 2:
            later, earlier = (source[row] for row in inputs[node])
            whole = {inputs[at][0] for at in (later, earlier) if graph.ops[at] == "StridedSlice"}
            if len(whole) == 1 and _takes(graph, later, _LATER) and _takes(graph, earlier, _EARLIER):
                read += whole
    return frozenset(row for one in read if (row := fed_behind(graph, inputs, one, fed)) >= 0)


def rows_said(splits: Mapping[int, Shape | None]) -> int | None:
    """The number of rows that the shapes of row splits say; None: they say none, or several."""
    rows = {shape[0] - 1 for shape in splits.values() if shape and shape[0] > 0}
    return rows.pop() if len(rows) == 1 else None


def _may_be(graph: Graph, shapes: Sequence[Shape | None], row: int) -> bool:
    shape = shapes[row]
    return base(int(graph.tensor_dtype[row])) in (INT32, INT64) and (shape is None or len(shape) == 1)


def _by_splits(graph: Graph, node: int) -> bool:
    kinds = graph.attrs[node].get("row_partition_types")
    return kinds is not None and set(kinds.list.s) == {b"ROW_SPLITS"}


def _takes(graph: Graph, node: int, part: tuple[Sequence[int], Sequence[int], str]) -> bool:
    """Tell whether a node takes that part of a vector, by constants."""
    begin, end, is_open = part
    if graph.ops[node] != "StridedSlice":
        return False
    constants = [elements(graph.attrs[row]) for row in graph.sources(node)[1:4] if graph.ops[row] == "Const"]
    opened = {name for name in ("begin", "end") if has_bit(graph.attrs[node], f"{name}_mask")}
    bounds = {"begin": begin, "end": end}
    return (
        len(constants) == 3
        and constants[2] == [1]
        and opened == {is_open}
        and all(constants[at] == bounds[name] for at, name in enumerate(bounds) if name not in opened)
    )


def made_up_splits(graph: Graph, row: int, splits: Collection[int]) -> list[int]:
    """Row splits for a placeholder of a known size that part its values evenly; `splits` are all of the graph.

    A ragged tensor's values come before its row splits, or inner row splits before outer ones. What else comes before
    is taken for as many values.
    """
    rows = (graph.tensor_shape[row] or (1,))[0] - 1
    edge = edge_tensors(graph)
    before = edge[at - 1] if (at := edge.index(row)) else row
    values = (graph.tensor_shape[before] or (rows,))[0] - (before in splits)
    return [at * values // max(1, rows) for at in range(rows + 1)]
