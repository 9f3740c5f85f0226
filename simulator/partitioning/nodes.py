"""The nodes of a graph while it is cut, those that the cut adds among them, and the cut graph that they make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from simulator.columns import flags, ids, ints
from simulator.graph.attributes import type_value
from simulator.graph.building import columns
from simulator.graph.dtypes import FLOAT
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.messages import AttrValue, TensorProto
from simulator.graph.tensors import EdgeColumns, TensorColumns
from simulator.partitioning.edges import Column, Edges

Value: TypeAlias = tuple[int, Shape | None, int]  # dtype, shape, bytes
EMPTY: Value = (FLOAT, (0,), 0)  # the value that stands for a control edge


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of the graph, 0 .. N-1, and those that the cut adds, N, N+1, ...; the lists grow while passes run."""

    graph: Graph
    names: list[str]
    ops: list[str]
    attrs: list[Attrs]
    origin: list[int]  # row of the graph: the node itself, or the one that it serves
    device: list[int]  # row of Cluster.devices
    first: list[int]  # of each node's outputs, and one more
    dtype: list[int]  # of each output; REF more for a reference
    shape: list[Shape | None]  # of each output
    nbytes: list[int]  # of each output

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: str, op: str, attrs: Attrs, origin: int, device: int, outputs: Iterable[Value] = ()) -> int:
        """Append a node; its row."""
        self.names.append(name)
        self.ops.append(op)
        self.attrs.append(attrs)
        self.origin.append(origin)
        self.device.append(device)
        for dtype, shape, nbytes in outputs:
            self.dtype.append(dtype)
            self.shape.append(shape)
            self.nbytes.append(nbytes)
        self.first.append(len(self.dtype))
        return len(self.names) - 1

    def value(self, node: int, port: int) -> Value:
        """What an output of a node is."""
        at = self.first[node] + port
        return self.dtype[at], self.shape[at], self.nbytes[at]


def nodes_of(graph: Graph, device: Sequence[int]) -> Nodes:
    """The nodes of a graph on their devices, nothing added."""
    return Nodes(
        graph,
        list(graph.names),
        list(graph.ops),
        list(graph.attrs),
        list(range(len(graph))),
        list(device),
        graph.tensor_ptr.tolist(),
        graph.tensor_dtype.tolist(),
        list(graph.tensor_shape),
        graph.tensor_bytes.tolist(),
    )


def cut_graph(nodes: Nodes, given: Edges, rows: Column, requested: Sequence[str]) -> Graph:
    """The graph of these rows of the nodes, in this order, and the edges between them; the rest is as in the graph.

    `requested` holds their devices. Control inputs come in order of edge id.
    """
    row_of = np.full(len(nodes), -1)
    row_of[rows] = np.arange(len(rows))
    free, kept = _free_names(nodes), rows.tolist()
    names, ops = [free[row] for row in kept], [nodes.ops[row] for row in kept]
    src, dst = row_of[given.src], row_of[given.dst]
    order = np.lexsort((given.id, given.slot, dst))
    in_ptr = np.searchsorted(dst[order], np.arange(len(rows) + 1))
    edges = EdgeColumns(src[order], given.port[order], dst[order], in_ptr)
    return replace(
        nodes.graph,
        names=tuple(names),
        ops=tuple(ops),
        attrs=tuple([nodes.attrs[row] for row in kept]),
        requested=tuple(requested),
        **columns(names, ops, _tensors(nodes, rows), edges, "the cut graph", flags(given.back[order])),
        signatures={},
        train_ops=(),
        queue_runners=(),
        meta_graph=None,
        lowered=None,
        source=f"the pieces of {nodes.graph.source}",
    )


def _free_names(nodes: Nodes) -> list[str]:
    """The names; an added one that the graph has already gets a further number (TensorFlow does not look)."""
    taken, free = nodes.graph.index, list(nodes.names)
    for row in range(len(nodes.graph), len(nodes)):
        again = 0
        while free[row] in taken:
            again += 1
            free[row] = f"{nodes.names[row]}_{again}"
    return free


def _tensors(nodes: Nodes, rows: Column) -> TensorColumns:
    first = np.array(nodes.first)
    counts = np.diff(first)[rows]
    ptr = np.concatenate([[0], np.cumsum(counts)])
    node = np.repeat(np.arange(len(rows)), counts)
    port = np.arange(len(node)) - ptr[node]
    taken = (first[rows][node] + port).tolist()
    dtype, nbytes = ([column[at] for at in taken] for column in (nodes.dtype, nodes.nbytes))
    return TensorColumns(
        ids(ptr), ids(node), ids(port), ids(dtype), tuple([nodes.shape[at] for at in taken]), ints(nbytes), ()
    )


@lru_cache(maxsize=1)
def empty_attrs() -> Attrs:
    """Attributes of the dummy Const that stands for a control edge: an empty float tensor."""
    nothing = TensorProto(dtype=FLOAT, tensor_shape={"dim": [{"size": 0}]})
    return {"dtype": type_value(FLOAT), "value": AttrValue(tensor=nothing)}
