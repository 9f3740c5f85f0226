"""The graph: all nodes of a file as columns, with rows that are made on demand.

    nodes    0 .. N-1   in the order of the file
    tensors  0 .. T-1   one per output of a node, sorted by (node, port); node i: tensor_ptr[i]:tensor_ptr[i+1]
    edges    0 .. E-1   one per input of a node, sorted by (destination, position); node i: in_ptr[i]:in_ptr[i+1];
                        the data inputs come first, in the order of their slots, then the control inputs

A graph never changes. `building.build` makes a graph and checks it; `with_shapes`, `inline` and `partition` make new
ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from simulator.columns import Flags, Ids, Ints, ids, pointers, positions, stable_order
from simulator.errors import GraphError
from simulator.graph.creation import Creation, creation_of
from simulator.graph.messages import Proto
from simulator.notebook import Drawn
from simulator.wording import counted, near, repr_of

Shape: TypeAlias = tuple[int, ...]  # -1: that dimension is unknown
Attrs: TypeAlias = Mapping[str, Proto]  # name -> AttrValue message


class Names(tuple[str, ...]):
    """The names of nodes, whose rows are found once for all graphs that share them."""

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """Row of each name, the last one of a name that stands twice."""
        return dict(zip(self, range(len(self)), strict=True))


@dataclass(frozen=True, slots=True)
class Signature:
    """One entry of a SavedModel or MetaGraph: argument name -> tensor name "node:port"."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Node:
    """One row of the node columns."""

    id: int
    name: str
    op: str
    requested: str  # the raw device string of the file
    attrs: Attrs
    inputs: tuple[str, ...]  # "node:port" or "^node", data inputs first


@dataclass(frozen=True, slots=True)
class Tensor:
    """One row of the tensor columns."""

    id: int
    node: int
    port: int
    dtype: int  # TensorFlow's DataType; 100 more for a reference; 0 unknown
    shape: Shape | None
    nbytes: int  # -1 unknown


@dataclass(frozen=True, eq=False)
class GraphColumns:
    """The columns of a Graph that follow from its nodes, tensors and edges. Axes: N nodes, T tensors, E edges."""

    tensor_ptr: Ids  # [N+1] first tensor of each node
    tensor_node: Ids  # [T]
    tensor_port: Ids  # [T]
    tensor_dtype: Ids  # [T] DataType, +100 for a reference, 0 unknown
    tensor_shape: tuple[Shape | None, ...]  # [T] None: unknown rank
    tensor_bytes: Ints  # [T] -1 unknown
    in_ptr: Ids  # [N+1] first in-edge of each node
    edge_src: Ids  # [E] node
    edge_dst: Ids  # [E] node
    edge_tensor: Ids  # [E] tensor, -1 for a control edge
    edge_back: Flags  # [E] a loop's back edge: NextIteration -> Merge
    order: Ids  # [N] in the order of TensorFlow's node ids: see `topological`


@dataclass(frozen=True, eq=False)
class Graph(GraphColumns, Drawn):
    """A TensorFlow graph as read-only columns. Axes: N nodes, T tensors, E edges."""

    names: tuple[str, ...]  # [N]
    ops: tuple[str, ...]  # [N]
    requested: tuple[str, ...]  # [N] device strings of the file, raw
    attrs: tuple[Attrs, ...]  # [N] name -> AttrValue; shared between nodes, never to be changed
    library: Mapping[str, Proto] = field(default_factory=dict)  # function name -> FunctionDef message
    gradients: Mapping[str, str] = field(default_factory=dict)  # function name -> its gradient function
    producer: int = 0  # GraphDef version of the writer; 0 when the file does not say
    min_consumer: int = 0
    signatures: Mapping[str, Signature] = field(default_factory=dict)
    train_ops: tuple[str, ...] = ()  # the MetaGraph's `train_op` collection
    queue_runners: tuple[str, ...] = ()  # ops of its `queue_runners` collection, one per thread
    copies: Mapping[str, str] = field(default_factory=dict)  # copy -> the node from which replication made it
    ends: tuple[str, ...] = ()  # where calls were expanded: the sinks before that; sinks inside bodies are dead
    source: str = "a graph in memory"  # the source in messages
    notes: tuple[str, ...] = ()  # for the reader of the result: assumed, expanded or left out
    meta_graph: Proto | None = None  # the MetaGraphDef from which it was read; None: another source
    keeps_calls: bool = False  # calls stay single nodes on purpose; else a step that runs one is refused
    lowered: Lowered | None = None  # set where TensorFlow's passes made this graph of another; None: as imported

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        edges, tensors = counted(len(self.edge_src), "edge"), counted(len(self.tensor_node), "tensor")
        return repr_of(self, counted(len(self), "node"), edges, tensors, f"from {self.source}")

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Row of each node name."""
        return (self.names if isinstance(self.names, Names) else Names(self.names)).rows

    @cached_property
    def alike(self) -> tuple[Ids, Ids]:
        """The first node of each different pair of op and attributes, and [N] the pair's number of each node.

        Only attributes that nodes share are known to be equal, as nodes of one file do.
        """
        numbers: dict[tuple[str, int], int] = {}
        number = [numbers.setdefault(key, len(numbers)) for key in zip(self.ops, map(id, self.attrs), strict=True)]
        first = np.empty(len(numbers), np.int64)
        first[number[::-1]] = np.arange(len(number))[::-1]
        return ids(first), ids(number)

    @cached_property
    def out_ptr(self) -> Ids:
        """[N+1] where each node's out-edges begin in `out_edge`."""
        return pointers(self.edge_src, len(self))

    @cached_property
    def out_edge(self) -> Ids:
        """[E] edges sorted by (source, edge)."""
        return ids(stable_order(self.edge_src))

    @cached_property
    def place(self) -> Ids:
        """[N] position of each node in `order`."""
        return ids(positions(self.order, len(self)))

    @property
    def topological(self) -> Ids:
        """[N] the smallest topological order by row, back edges ignored: as imported, also the order of the ids."""
        return self.order if self.lowered is None else self.lowered.topological

    @cached_property
    def creation(self) -> Creation:
        """The order in which TensorFlow creates the edges."""
        if self.lowered is not None:
            return self.lowered.creation
        return creation_of(self.names, self.edge_src, self.edge_dst, self.edge_tensor < 0, self.order)

    @property
    def expanded(self) -> bool:
        """Tell whether calls were expanded; TensorFlow's own lowering does not count."""
        return bool((self if self.lowered is None else self.lowered.given).ends)

    def imported(self) -> Graph:
        """The graph with the node order that TensorFlow's import of it as it stands would give."""
        return self if self.lowered is None else replace(self, order=self.lowered.topological, lowered=None)

    def row(self, name: str) -> int:
        """Row of the node with that name, or a GraphError that proposes near names."""
        found = self.index.get(name)
        if found is None:
            raise GraphError(f"{self.source} has no node {name!r}.{near(name, self.names)}", node=name)
        return found

    def node(self, key: int | str) -> Node:
        """The row view of a node, by row or by name."""
        row = self.row(key) if isinstance(key, str) else key
        return Node(row, self.names[row], self.ops[row], self.requested[row], self.attrs[row], self.inputs_of(row))

    def nodes(self) -> Iterator[Node]:
        """All nodes in file order."""
        return (self.node(row) for row in range(len(self)))

    def tensor(self, row: int) -> Tensor:
        """The row view of a tensor."""
        return Tensor(
            row,
            int(self.tensor_node[row]),
            int(self.tensor_port[row]),
            int(self.tensor_dtype[row]),
            self.tensor_shape[row],
            int(self.tensor_bytes[row]),
        )

    def tensor_name(self, row: int) -> str:
        """ "node:port" of a tensor."""
        return f"{self.names[self.tensor_node[row]]}:{self.tensor_port[row]}"

    def tensor_row(self, name: str) -> int:
        """Row of a tensor, given its "node:port"; the port is one that the node has."""
        node, _, port = name.rpartition(":")
        return int(self.tensor_ptr[self.row(node)]) + int(port)

    def in_edges(self, row: int) -> range:
        """The edges into a node, data before control."""
        return range(int(self.in_ptr[row]), int(self.in_ptr[row + 1]))

    def out_edges(self, row: int) -> list[int]:
        """The edges out of a node, ascending."""
        return self.out_edge[self.out_ptr[row] : self.out_ptr[row + 1]].tolist()  # type: ignore[no-any-return]  # numpy

    def sources(self, row: int) -> list[int]:
        """The nodes that a node reads or waits for, one for each edge."""
        return self.edge_src[self.in_ptr[row] : self.in_ptr[row + 1]].tolist()  # type: ignore[no-any-return]  # numpy

    def outputs(self, row: int) -> range:
        """The tensors that a node makes, by port."""
        return range(int(self.tensor_ptr[row]), int(self.tensor_ptr[row + 1]))

    def inputs_of(self, row: int) -> tuple[str, ...]:
        """The inputs of a node as a NodeDef writes them: "a", "a:1", "^a"."""
        written = []
        for edge in self.in_edges(row):
            name = self.names[self.edge_src[edge]]
            tensor = self.edge_tensor[edge]
            if tensor < 0:
                written.append("^" + name)
            else:
                port = self.tensor_port[tensor]
                written.append(f"{name}:{port}" if port else name)
        return tuple(written)

    def with_notes(self, *sentences: str) -> Graph:
        """The same graph with notes added for the reader of the result."""
        return replace(self, notes=(*self.notes, *sentences))


@dataclass(frozen=True, eq=False)
class Lowered:
    """The graph before TensorFlow's passes rewrote it for the placer, and the orders after them."""

    given: Graph  # the graph that TensorFlow gets
    creation: Creation
    topological: Ids  # [N] the smallest topological order by row, back edges ignored
    by_chance: Flags  # [E] created in the order of a set of pointers: its rank is one of many possible ones

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.topological), "node"))
