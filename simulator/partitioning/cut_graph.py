"""A graph while it is cut: its nodes and edges as tables, and the cut graph that they make.

Nodes that the cut adds are numbered after those of the graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, alike, flags, ids, ints, positions, stable_order
from simulator.graph.attributes import type_value
from simulator.graph.building import columns, without_duplicates
from simulator.graph.dtypes import FLOAT
from simulator.graph.editor import CONTROL
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.messages import AttrValue, TensorProto
from simulator.graph.ops import Slots, host_memory
from simulator.graph.tensors import EdgeColumns, TensorColumns

if TYPE_CHECKING:
    from simulator.graph.step import Exchange

Column: TypeAlias = npt.NDArray[np.int64]
NUMBERED = re.compile("_[SG]?[0-9]+$")  # the end of each name that a cut adds
FIRST_ID = 3  # edges 0, 1 and 2 join TensorFlow's own source and sink
LAST = 2**31  # the slot of a control edge: after all data
Value: TypeAlias = tuple[int, Shape | None, int]  # dtype, shape, bytes
EMPTY: Value = (FLOAT, (0,), 0)  # the value that stands for a control edge


@dataclass(frozen=True, eq=False)
class CutNodes:
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
        """Type, shape and bytes of an output."""
        at = self.first[node] + port
        return self.dtype[at], self.shape[at], self.nbytes[at]

    def host_memory(self, types: Sequence[str], asked: Column) -> HostMemory:
        """The slots in host memory of the nodes in `asked`, on devices of these types; a node may stand there twice."""
        graph, device = self.graph, np.array(self.device, np.int64)
        number = np.concatenate([graph.alike[1], len(graph) + np.arange(len(self) - len(graph))])
        some = np.flatnonzero(np.bincount(asked, minlength=len(self)))
        type_of = np.array([types.index(one) for one in types], np.int64)
        first, row = alike(number[some], type_of[device[some]])
        kind = np.full(len(self), -1)
        kind[some] = row
        slots = [
            host_memory(self.ops[node], self.attrs[node], types[self.device[node]], graph.library)
            for node in some[first].tolist()
        ]
        return HostMemory(kind, slots)

    def extend(
        self, names: list[str], kinds: list[str], attrs: list[Attrs], origin: Column, device: Column, gives: Column
    ) -> None:
        """Append nodes by columns, each with so many outputs, which are appended by `extend_values`."""
        self.names.extend(names)
        self.ops.extend(kinds)
        self.attrs.extend(attrs)
        self.origin.extend(origin.tolist())
        self.device.extend(device.tolist())
        self.first.extend((len(self.dtype) + np.cumsum(gives)).tolist())

    def extend_values(self, dtype: Column, like: Column) -> None:
        """Append outputs of the nodes that were appended, in their order, sized as other outputs; -1: as EMPTY."""
        rows = like.tolist()
        self.dtype.extend(dtype.tolist())
        self.shape.extend([self.shape[row] if row >= 0 else EMPTY[1] for row in rows])
        self.nbytes.extend([self.nbytes[row] if row >= 0 else EMPTY[2] for row in rows])


def nodes_of(graph: Graph, device: Sequence[int]) -> CutNodes:
    """The nodes of a graph on their devices, nothing added."""
    return CutNodes(
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


@dataclass(frozen=True, eq=False)
class HostMemory:
    """The slots of nodes that lie in host memory, asked once for nodes of one op, attributes and type of device."""

    kind: Column  # [nodes] row of `slots`, of those that were asked about
    slots: Sequence[Slots]

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


def as_graph(nodes: CutNodes, given: CutEdges, rows: Column, requested: Sequence[str]) -> Graph:
    """The graph of these rows of the nodes, in this order, and the edges between them; the rest is as in the graph.

    `requested` holds their devices. Control inputs come in order of edge id.
    """
    row_of = positions(rows, len(nodes))
    free, kept = _free_names(nodes), rows.tolist()
    names, ops = tuple(map(free.__getitem__, kept)), tuple(map(nodes.ops.__getitem__, kept))
    src, dst = row_of[given.src], row_of[given.dst]
    order = stable_order(dst, given.slot, given.id)
    in_ptr = np.searchsorted(dst[order], np.arange(len(rows) + 1))
    edges = EdgeColumns(src[order], given.port[order], dst[order], in_ptr)
    return replace(
        nodes.graph,
        names=names,
        ops=ops,
        attrs=tuple(map(nodes.attrs.__getitem__, kept)),
        requested=tuple(requested),
        **vars(columns(names, ops, _tensors(nodes, rows), edges, "the cut graph", flags(given.back[order]))),
        signatures={},
        train_ops=(),
        queue_runners=(),
        meta_graph=None,
        lowered=None,
        source=f"the pieces of {nodes.graph.source}",
    )


def _free_names(nodes: CutNodes) -> list[str]:
    """The names; an added one that the graph has already gets a further number (TensorFlow does not look)."""
    free = list(nodes.names)
    taken = {name for name in nodes.graph.names if NUMBERED.search(name)}  # no other can be that of an added one
    if not taken or taken.isdisjoint(free[len(nodes.graph) :]):
        return free
    for row in range(len(nodes.graph), len(nodes)):
        again = 0
        while free[row] in taken:
            again += 1
            free[row] = f"{nodes.names[row]}_{again}"
    return free


def _tensors(nodes: CutNodes, rows: Column) -> TensorColumns:
    first = np.array(nodes.first)
    counts = np.diff(first)[rows]
    ptr = np.concatenate([[0], np.cumsum(counts)])
    node = np.repeat(np.arange(len(rows)), counts)
    port = np.arange(len(node)) - ptr[node]
    taken = first[rows][node] + port
    dtype, nbytes = (np.array(column, np.int64)[taken] for column in (nodes.dtype, nodes.nbytes))
    shape = tuple(map(nodes.shape.__getitem__, taken.tolist()))
    return TensorColumns(ids(ptr), ids(node), ids(port), ids(dtype), shape, ints(nbytes), ())


@lru_cache(maxsize=1)
def empty_attrs() -> Attrs:
    """Attributes of the dummy Const that stands for a control edge: an empty float tensor."""
    nothing = TensorProto(dtype=FLOAT, tensor_shape={"dim": [{"size": 0}]})
    return {"dtype": type_value(FLOAT), "value": AttrValue(tensor=nothing)}


@dataclass(frozen=True, eq=False)
class CutEdges:
    """Edges of a graph that is being cut, in any order. Axis: edges."""

    src: Column  # node
    port: Column  # of the source, CONTROL
    dst: Column  # node
    slot: Column  # of the destination, LAST for control
    id: Column  # TensorFlow's edge id (semantics: creation order, renumbered after pruning)
    back: npt.NDArray[np.bool_]  # closes a loop
    loop: npt.NDArray[np.bool_]  # control edge from a control loop's Merge, which a Recv may take over

    def __len__(self) -> int:
        return len(self.src)

    def take(self, rows: npt.NDArray[np.generic]) -> CutEdges:
        """Those rows, in that order; a mask works too."""
        return CutEdges(*(getattr(self, column.name)[rows] for column in fields(self)))

    def join(self, *others: CutEdges) -> CutEdges:
        """These edges, then the others."""
        tables = (self, *others)
        return CutEdges(*(np.concatenate([getattr(table, c.name) for table in tables]) for c in fields(self)))


def new_edges(src: Column, port: Column | int, dst: Column, slot: Column | int, number: Column | int = 0) -> CutEdges:
    """Edges from columns, `number` being their ids; a single number stands for a whole column."""
    none = np.zeros(len(dst), bool)
    port, slot, number = (np.broadcast_to(column, len(dst)) for column in (port, slot, number))
    return CutEdges(src, port, dst, slot, number, none, none)


def waits(pairs: Iterable[tuple[int, int]], number: int = 0) -> CutEdges:
    """Control edges (source, destination), all with one id: their order is that in which they are given."""
    src, dst = np.array(list(pairs), np.int64).reshape(-1, 2).T
    return new_edges(src, CONTROL, dst, LAST, number)


def edges_of(graph: Graph) -> CutEdges:
    """The edges of a graph in their order, each control edge once; ids are rows of the graph's edges."""
    edge = without_duplicates(graph.edge_src, graph.edge_dst, graph.edge_tensor < 0, len(graph))
    src, dst, tensor = (column[edge].astype(np.int64) for column in (graph.edge_src, graph.edge_dst, graph.edge_tensor))
    control = tensor < 0
    ports = np.append(graph.tensor_port, 0).astype(np.int64)  # never empty: control edges ask for row 0
    port = np.where(control, CONTROL, ports[np.maximum(tensor, 0)])
    none = np.zeros(len(edge), bool)
    return CutEdges(
        src, port, dst, np.where(control, LAST, edge - graph.in_ptr[dst]), edge, np.asarray(graph.edge_back)[edge], none
    )


def step_edges(graph: Graph, client: Exchange) -> CutEdges:
    """The edges of the step; what the client hands in comes from node N + its row in `client.fed`.

    Ids are in the order of creation, with gaps; the copying of constants closes them.
    """
    runs = np.zeros(len(graph.edge_src), bool)
    runs[client.edges] = True
    whole = edges_of(graph)
    whole = whole.take(runs[whole.id])
    fed = client.of_edge[whole.id]
    return replace(
        whole,
        src=np.where(fed < 0, whole.src, len(graph) + fed),
        port=np.where(fed < 0, whole.port, np.minimum(whole.port, 0)),
        id=FIRST_ID + graph.creation.edge[whole.id].astype(np.int64),
    )
