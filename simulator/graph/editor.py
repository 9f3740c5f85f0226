"""The editor of a graph: nodes and edges come and go one by one, as in TensorFlow's own `Graph`.

TensorFlow's ids follow from the order of these steps, so the editor keeps it. Rows of nodes and of edges are never used
twice. A node lists its edges as TensorFlow's EdgeSet does (`tensorflow/core/graph/edgeset.cc`): the last edge takes the
place of one that is removed. Above eight edges TensorFlow's order is unspecified. The editor goes on in the same
manner there, and marks edges that are made in such an order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.columns import Ints, flags, ids, positions
from simulator.errors import GraphError
from simulator.graph import ops
from simulator.graph.attributes import NO_ATTRS
from simulator.graph.building import columns, without_duplicates
from simulator.graph.creation import ORDERED, Creation
from simulator.graph.dtypes import base
from simulator.graph.graph import Attrs, Graph, Lowered, Shape
from simulator.graph.messages import Proto
from simulator.graph.tensors import SHAPES, EdgeColumns, tensor_columns

Endpoint: TypeAlias = tuple[int, int]  # node, output port
Output: TypeAlias = int | Endpoint  # a node alone stands for its output 0
CONTROL = -1  # the port and the slot of a control edge
SOURCE, SINK = -1, -2  # TensorFlow's own two nodes, which every graph has


@dataclass(slots=True)
class Editor:
    """A graph under edit: the rows of `given` first, then what is added; rows of removed nodes and edges stay."""

    given: Graph
    names: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)  # requested
    attrs: list[Attrs] = field(default_factory=list)
    ins: list[list[int]] = field(default_factory=list)  # edges that lead into each node
    outs: list[list[int]] = field(default_factory=list)  # edges that leave it
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)  # source, port, destination, slot
    removed: set[int] = field(default_factory=set)  # nodes
    taken: set[str] = field(default_factory=set)  # names in use; only asked for membership
    copied: dict[int, int] = field(default_factory=dict)  # added row -> row of `given` whose copy it is
    shapes: dict[int, list[Shape | None]] = field(default_factory=dict)  # of rows whose attributes don't say them
    counter: int = 0  # the next number of TensorFlow's Graph::NewName
    crowded: set[tuple[str, int]] = field(default_factory=set)  # ("ins" or "outs", row) that had over ORDERED edges
    by_chance: set[int] = field(default_factory=set)  # edges made in the order of such a set
    scattered: frozenset[int] = frozenset()  # control inputs of a crowded node that is being replaced

    # ---- nodes ------------------------------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        op: str,
        inputs: Iterable[Output] = (),
        controls: Iterable[int] = (),
        attrs: Attrs = NO_ATTRS,
        *,
        device: str = "",
    ) -> int:
        """Append a node with its edges, data before control, and return its row."""
        row = len(self.names)
        self.taken.add(name)
        self.names.append(name)
        self.ops.append(op)
        self.devices.append(device)
        self.attrs.append(attrs)
        self.ins.append([])
        self.outs.append([])
        for slot, output in enumerate(inputs):
            self.add_edge(output, row, slot)
        for src in controls:
            self.add_control_edge(src, row)
        return row

    def remove(self, row: int) -> None:
        """Take a node and its edges away."""
        for edge in self.ins[row]:
            if (src := self.edges[edge][0]) >= 0:
                _erase(self.outs[src], edge)
        for edge in self.outs[row]:
            if (dst := self.edges[edge][2]) >= 0:
                _erase(self.ins[dst], edge)
        self.ins[row], self.outs[row] = [], []
        self.removed.add(row)
        self.scattered = frozenset()

    def numbered(self, prefix: str) -> str:
        """A new name in TensorFlow's manner, "prefix/_7"; numbers whose name is taken are passed over."""
        while True:
            name = f"{prefix}/_{self.counter}"
            self.counter += 1
            if name not in self.taken:
                return name

    def free(self, name: str) -> str:
        """The name, or the first of name_1, name_2, ... that is free."""
        chosen, suffix = name, 0
        while chosen in self.taken:
            suffix += 1
            chosen = f"{name}_{suffix}"
        return chosen

    def dtype(self, at: Endpoint) -> int:
        """DataType of an output, without the mark of a reference; 0 where unknown."""
        types = ops.outputs(self.ops[at[0]], self.attrs[at[0]], self.given.library)
        return base(types[at[1]]) if types and at[1] < len(types) else 0

    def shape(self, at: Endpoint) -> Proto | None:
        """The TensorShapeProto that the file gives for an output, if it gives one."""
        listed = self.attrs[at[0]].get(SHAPES)
        return listed.list.shape[at[1]] if listed is not None and at[1] < len(listed.list.shape) else None

    # ---- edges ------------------------------------------------------------------------------------------------------

    def add_edge(self, output: Output, dst: int, slot: int) -> None:
        """Let an input of a node come from an output."""
        src, port = output if isinstance(output, tuple) else (output, 0)
        self._make(src, port, dst, slot)

    def add_control_edge(self, src: int, dst: int) -> None:
        """Let a node wait for another; either may be TensorFlow's own, SOURCE or SINK."""
        if src in self.scattered:
            self.by_chance.add(len(self.edges))
        self._make(src, CONTROL, dst, CONTROL)

    def remove_edge(self, edge: int) -> None:
        """Take an edge away."""
        src, _, dst, _ = self.edges[edge]
        for row, listed in ((src, self.outs), (dst, self.ins)):
            if row >= 0:
                _erase(listed[row], edge)

    def redirect_input(self, row: int, slot: int, output: Output) -> None:
        """Let an input that a node has come from another output, over a new edge."""
        self.remove_edge(next(edge for edge in self.ins[row] if self.edges[edge][3] == slot))
        self.add_edge(output, row, slot)

    def inputs_of(self, row: int) -> list[Endpoint]:
        """The data inputs of a node, by slot."""
        data = sorted((self.edges[edge][3], edge) for edge in self.ins[row] if self.edges[edge][3] != CONTROL)
        return [self.edges[edge][:2] for _, edge in data]

    def controls_of(self, row: int) -> list[int]:
        """Control inputs of a node that is to be replaced; SOURCE if it has no inputs at all."""
        found = [self.edges[edge][0] for edge in self.ins[row] if self.edges[edge][3] == CONTROL]
        self.scattered = frozenset(found if ("ins", row) in self.crowded else ())
        return found

    def redirect_readers(self, row: int, outputs: Sequence[Output], done: int) -> None:
        """Let a node's readers read `outputs` instead, and those that wait for it wait for `done`."""
        first = len(self.edges)
        for edge in list(self.outs[row]):
            _, port, dst, slot = self.edges[edge]
            if port == CONTROL:
                self.add_control_edge(done, dst)
            elif port < len(outputs):
                self.add_edge(outputs[port], dst, slot)
            else:
                where, name = self.given.source, self.names[row]
                raise GraphError(f"{where}: {name!r} has no output {port}; its function gives {len(outputs)}.")
        if ("outs", row) in self.crowded:
            self.by_chance.update(range(first, len(self.edges)))

    def _make(self, src: int, port: int, dst: int, slot: int) -> None:
        edge = len(self.edges)
        self.edges.append((src, port, dst, slot))
        for row, side, listed in ((src, "outs", self.outs), (dst, "ins", self.ins)):
            if row >= 0:
                listed[row].append(edge)
                if len(listed[row]) > ORDERED:
                    self.crowded.add((side, row))

    # ---- the result -------------------------------------------------------------------------------------------------

    def built(self, *, as_made: bool = False) -> Graph:
        """The graph of the rows that are left, in the order in which they were added; all else is as in `given`.

        Nodes of `given` and their copies keep the shapes that were found for them. `as_made`: TensorFlow makes this of
        `given` by itself; nodes and edges then have the order in which it does so. Raises GraphError for an input from
        a port that its node does not have, and for a cycle outside a loop.
        """
        given = self.given
        rows = [row for row in range(len(self.names)) if row not in self.removed]
        names, kinds = [self.names[row] for row in rows], [self.ops[row] for row in rows]
        attrs = [self.attrs[row] for row in rows]
        edge, edges = self._wiring(rows)
        tensors = tensor_columns(names, kinds, attrs, given.library, edges, given.source, self._shapes(rows))
        made = replace(
            given,
            names=tuple(names),
            ops=tuple(kinds),
            requested=tuple([self.devices[row] for row in rows]),
            attrs=tuple(attrs),
            **vars(columns(names, kinds, tensors, edges, given.source)),
            copies={**given.copies, **self._copies()},
            meta_graph=None,
            lowered=None,
            notes=(*given.notes, *tensors.notes),
        )
        return self._as_made(made, rows, edge) if as_made else made

    def _wiring(self, rows: Sequence[int]) -> tuple[Ints, EdgeColumns]:
        """The edges that are left, by destination: data by slot, then control in the order in which they were made."""
        row_of = positions(rows, len(self.names))
        edge = np.fromiter(chain.from_iterable(self.ins[row] for row in rows), np.int64)
        src, port, dst, slot = np.array(self.edges, np.int64).reshape(-1, 4)[edge].T
        order = np.lexsort((edge, slot, slot == CONTROL, row_of[dst]))
        order = order[src[order] != SOURCE]
        src, into, port = row_of[src[order]], row_of[dst[order]], port[order]
        stays = without_duplicates(src, into, port == CONTROL, len(rows))
        into = into[stays]
        in_ptr = np.searchsorted(into, np.arange(len(rows) + 1))
        return edge[order[stays]], EdgeColumns(src=src[stays], port=port[stays], dst=into, in_ptr=in_ptr)

    def _shapes(self, rows: Sequence[int]) -> dict[int, Sequence[Shape | None]]:
        """The shapes of the rows for which some were found, in the numbering of the result."""
        known: dict[int, Sequence[Shape | None]] = {}
        shape, first = self.given.tensor_shape, self.given.tensor_ptr.tolist()
        for at, row in enumerate(rows):
            origin = self.copied.get(row, row)
            if row in self.shapes:
                known[at] = self.shapes[row]
            elif origin < len(self.given):
                known[at] = shape[first[origin] : first[origin + 1]]
        return known

    def _copies(self) -> dict[str, str]:
        """The name of every copy, and that of the node of which it is one in the end."""
        given = self.given
        originals = ((self.names[row], given.names[origin]) for row, origin in self.copied.items())
        return {name: given.copies.get(original, original) for name, original in originals}

    def _as_made(self, made: Graph, rows: Sequence[int], edge: Ints) -> Graph:
        row_of = {row: at for at, row in enumerate(rows)}
        first = [row_of[row] for row in self.given.order.tolist() if row in row_of]
        order = ids([*first, *range(len(first), len(rows))])
        source, sink = np.full(len(rows), -1), np.full(len(rows), -1)
        for rank, (src, _, dst, _) in enumerate(self.edges):
            if src == SOURCE and dst in row_of:
                source[row_of[dst]] = rank
            elif dst == SINK and src in row_of:
                sink[row_of[src]] = rank
        by_chance = flags([one in self.by_chance for one in edge.tolist()])
        creation = Creation(ids(edge), ids(source), ids(sink))
        return replace(made, order=order, lowered=Lowered(self.given, creation, made.order, by_chance))


def edited(graph: Graph, *, as_made: bool = True) -> Editor:
    """An editor of the graph: its edges come in the order in which TensorFlow makes them, else in that of the file."""
    count = len(graph)
    editor = Editor(
        graph,
        list(graph.names),
        list(graph.ops),
        list(graph.requested),
        list(graph.attrs),
        [[] for _ in range(count)],
        [[] for _ in range(count)],
        _edges(graph, as_made=as_made),
        taken=set(graph.names),
    )
    for edge, (src, _, dst, _) in enumerate(editor.edges):
        if src >= 0:
            editor.outs[src].append(edge)
        if dst >= 0:
            editor.ins[dst].append(edge)
    for side, listed in (("ins", editor.ins), ("outs", editor.outs)):
        editor.crowded.update((side, row) for row, edges in enumerate(listed) if len(edges) > ORDERED)
    return editor


def _edges(graph: Graph, *, as_made: bool) -> list[tuple[int, int, int, int]]:
    """Source, port, destination and slot of the edges; in TensorFlow's order those of its source and sink, too."""
    src, dst, tensor = graph.edge_src, graph.edge_dst, graph.edge_tensor
    ports = np.append(graph.tensor_port, 0)  # never empty: control edges ask for row 0
    port = np.where(tensor < 0, CONTROL, ports[np.maximum(tensor, 0)])
    slot = np.where(tensor < 0, CONTROL, np.arange(len(src)) - graph.in_ptr[dst])
    table = np.stack([src, port, dst, slot], axis=1)
    if as_made:
        made = graph.creation
        entered, left = np.flatnonzero(made.source >= 0), np.flatnonzero(made.sink >= 0)
        table = np.concatenate([table, _control_edges(SOURCE, entered), _control_edges(left, SINK)])
        table = table[np.argsort(np.concatenate([made.edge, made.source[entered], made.sink[left]]))]
    src, port, dst, slot = table.T.tolist()
    return [*zip(src, port, dst, slot, strict=True)]


def _control_edges(src: npt.ArrayLike, dst: npt.ArrayLike) -> npt.NDArray[np.integer]:
    return np.stack(np.broadcast_arrays(src, CONTROL, dst, CONTROL), axis=1)


def _erase(listed: list[int], edge: int) -> None:
    """Remove an edge as an EdgeSet does: the last one moves to its place."""
    at, last = listed.index(edge), listed.pop()
    if last != edge:
        listed[at] = last
