"""A graph while it is being rewritten, as TensorFlow's own `Graph` is: nodes and edges come and go one by one.

The order of these steps is all that TensorFlow's ids are made of, so it is kept exactly: rows of nodes and of edges are
never used twice, and a node lists its edges as TensorFlow's EdgeSet does (`tensorflow/core/graph/edgeset.cc`): the
last edge takes the place of one that is removed. Above eight edges TensorFlow's order is unspecified; here it goes on
in the same manner, and edges that are made in such an order are marked. `finish` makes a Graph of what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simulator.columns import flags, ids
from simulator.errors import GraphError
from simulator.graph import ops
from simulator.graph.building import build
from simulator.graph.creation import ORDERED, Creation
from simulator.graph.dtypes import base
from simulator.graph.graph import Attrs, Graph, Lowered
from simulator.graph.inlining.attributes import NO_ATTRS
from simulator.graph.inlining.bodies import Endpoint
from simulator.graph.messages import Proto
from simulator.graph.tensors import SHAPES

MAX_NODES = 1_000_000  # of an expanded graph: fifty times the largest that people look at
MAX_DEPTH = 100  # calls within calls; a name grows by one part with each
CONTROL = -1  # the port and the slot of a control edge
SOURCE, SINK = -1, -2  # TensorFlow's own two nodes, which every graph has
RESULT = -3  # what a body hands back, by slot, while it is copied


@dataclass(frozen=True, slots=True)
class Call:
    """The chain of function calls from which a node came, innermost first."""

    function: str
    caller: Call | None
    depth: int

    def calls(self, function: str) -> bool:
        """Whether that function stands in the chain."""
        at: Call | None = self
        while at is not None:
            if at.function == function:
                return True
            at = at.caller
        return False


@dataclass(slots=True)
class Draft:
    """Columns of a graph in the making; rows of removed nodes and edges stay."""

    library: Mapping[str, Proto]
    source: str
    names: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    attrs: list[Attrs] = field(default_factory=list)
    call: list[Call | None] = field(default_factory=list)  # the call that made the node; None: it is in the file
    ins: list[list[int]] = field(default_factory=list)  # edges that lead into each node
    outs: list[list[int]] = field(default_factory=list)  # edges that leave it
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)  # source, port, destination, slot
    removed: set[int] = field(default_factory=set)  # nodes
    taken: set[str] = field(default_factory=set)  # names in use; only asked for membership
    crowded: set[tuple[str, int]] = field(
        default_factory=set
    )  # ("ins" or "outs", row) that had more than ORDERED edges
    by_chance: set[int] = field(default_factory=set)  # edges made in the order of such a set
    scattered: frozenset[int] = frozenset()  # what the crowded node waits for that is being replaced
    counter: int = 0  # the next number of TensorFlow's Graph::NewName

    def fresh(self, prefix: str) -> str:
        """A new name in TensorFlow's manner, "prefix/_7"; numbers whose name is taken are passed over."""
        while True:
            name = f"{prefix}/_{self.counter}"
            self.counter += 1
            if name not in self.taken:
                return name

    def add(
        self,
        name: str,
        op: str,
        inputs: Sequence[Endpoint] = (),
        controls: Sequence[int] = (),
        attrs: Attrs = NO_ATTRS,
        *,
        device: str = "",
        call: Call | None = None,
    ) -> int:
        """Append a node with its edges, data before control, and return its row."""
        row = len(self.names)
        if row >= MAX_NODES:
            raise GraphError(
                f"{self.source}: with its functions expanded the graph has more than {MAX_NODES:,} nodes; keep the "
                f"calls. {name!r} was to be the next.",
                node=name,
            )
        self.taken.add(name)
        self.names.append(name)
        self.ops.append(op)
        self.devices.append(device)
        self.attrs.append(attrs)
        self.call.append(call)
        self.ins.append([])
        self.outs.append([])
        for slot, (src, port) in enumerate(inputs):
            self.join(src, port, row, slot)
        for src in controls:
            self.wait(src, row)
        return row

    def join(self, src: int, port: int, dst: int, slot: int) -> None:
        """Add an edge; one of its ends may be SOURCE or SINK."""
        edge = len(self.edges)
        self.edges.append((src, port, dst, slot))
        for row, way, listed in ((src, "outs", self.outs), (dst, "ins", self.ins)):
            if row >= 0:
                listed[row].append(edge)
                if len(listed[row]) > ORDERED:
                    self.crowded.add((way, row))
        if port == CONTROL and src in self.scattered:
            self.by_chance.add(edge)

    def wait(self, src: int, dst: int) -> None:
        """Add a control edge."""
        self.join(src, CONTROL, dst, CONTROL)

    def remove(self, row: int) -> None:
        """Take a node and its edges away."""
        for edge in self.ins[row]:
            if (src := self.edges[edge][0]) >= 0:
                erase(self.outs[src], edge)
        for edge in self.outs[row]:
            if (dst := self.edges[edge][2]) >= 0:
                erase(self.ins[dst], edge)
        self.ins[row], self.outs[row] = [], []
        self.removed.add(row)
        self.scattered = frozenset()

    def lead(self, row: int, slot: int, source: int) -> None:
        """Let an input come from output 0 of another node, over a new edge."""
        edge = next(edge for edge in self.ins[row] if self.edges[edge][3] == slot)
        erase(self.outs[self.edges[edge][0]], edge)
        erase(self.ins[row], edge)
        self.join(source, 0, row, slot)

    def inputs_of(self, row: int) -> list[Endpoint]:
        """The data inputs of a node, by slot."""
        data = sorted((self.edges[edge][3], edge) for edge in self.ins[row] if self.edges[edge][3] != CONTROL)
        return [self.edges[edge][:2] for _, edge in data]

    def controls_of(self, row: int) -> list[int]:
        """What a node that is to be replaced waits for; SOURCE if it has no inputs at all."""
        found = [self.edges[edge][0] for edge in self.ins[row] if self.edges[edge][3] == CONTROL]
        self.scattered = frozenset(found if ("ins", row) in self.crowded else ())
        return found

    def hand_over(self, row: int, outputs: Sequence[Endpoint], done: int) -> None:
        """Let a node's readers read `outputs` instead, and those that wait for it wait for `done`."""
        first = len(self.edges)
        for edge in list(self.outs[row]):
            _, port, dst, slot = self.edges[edge]
            if port == CONTROL:
                self.wait(done, dst)
            elif port < len(outputs):
                self.join(*outputs[port], dst, slot)
            else:
                name = self.names[row]
                raise GraphError(f"{self.source}: {name!r} has no output {port}; its function gives {len(outputs)}.")
        if ("outs", row) in self.crowded:
            self.by_chance.update(range(first, len(self.edges)))

    def dtype(self, at: Endpoint) -> int:
        """DataType of an output, without the mark of a reference; 0 where unknown."""
        types = ops.outputs(self.ops[at[0]], self.attrs[at[0]], self.library)
        return base(types[at[1]]) if types and at[1] < len(types) else 0

    def shape(self, at: Endpoint) -> Proto | None:
        """The TensorShapeProto that the file gives for an output, if it gives one."""
        listed = self.attrs[at[0]].get(SHAPES)
        return listed.list.shape[at[1]] if listed is not None and at[1] < len(listed.list.shape) else None


def erase(listed: list[int], edge: int) -> None:
    """Remove an edge as an EdgeSet does: the last one moves to its place."""
    at, last = listed.index(edge), listed.pop()
    if last != edge:
        listed[at] = last


def draft_of(graph: Graph) -> Draft:
    """A draft with the graph's nodes as its first rows, and its edges in the order in which TensorFlow makes them."""
    draft = Draft(graph.library, graph.source)
    for row, name in enumerate(graph.names):
        draft.add(name, graph.ops[row], attrs=graph.attrs[row], device=graph.requested[row])
    made, ports = graph.creation, graph.tensor_port.tolist()
    slots = (np.arange(len(graph.edge_src)) - graph.in_ptr[graph.edge_dst]).tolist()
    tensors, waits = graph.edge_tensor.tolist(), set[tuple[int, int]]()
    src, dst = graph.edge_src.tolist(), graph.edge_dst.tolist()
    ranked = [(rank, edge, "") for edge, rank in enumerate(made.edge.tolist())]
    ranked += [(rank, row, "source") for row, rank in enumerate(made.source.tolist()) if rank >= 0]
    ranked += [(rank, row, "sink") for row, rank in enumerate(made.sink.tolist()) if rank >= 0]
    for _, at, end in sorted(ranked):
        if end:
            draft.wait(*((SOURCE, at) if end == "source" else (at, SINK)))
        elif tensors[at] >= 0:
            draft.join(src[at], ports[tensors[at]], dst[at], slots[at])
        elif (src[at], dst[at]) not in waits:  # one that stands twice is one edge
            waits.add((src[at], dst[at]))
            draft.wait(src[at], dst[at])
    return draft


def finish(draft: Draft, graph: Graph, library: Mapping[str, Proto], notes: Sequence[str], *, given: bool) -> Graph:
    """Make a Graph of the rows that are left, in the order in which they were made; the rest is as in `graph`.

    `given`: TensorFlow makes this of `graph` by itself; nodes and edges then have the order in which it does so.
    """
    rows = [row for row in range(len(draft.names)) if row not in draft.removed]
    names = draft.names
    written, in_order = [], []
    for row in rows:
        found = sorted((draft.edges[edge][3] == CONTROL, draft.edges[edge][3], edge) for edge in draft.ins[row])
        edges = [edge for *_, edge in found if draft.edges[edge][0] != SOURCE]
        written.append([_written(names, draft.edges[edge]) for edge in edges])
        in_order += edges
    made = build(
        [names[row] for row in rows],
        [draft.ops[row] for row in rows],
        [draft.devices[row] for row in rows],
        written,
        [draft.attrs[row] for row in rows],
        library=library,
        gradients={name: other for name, other in graph.gradients.items() if name in library},
        producer=graph.producer,
        min_consumer=graph.min_consumer,
        signatures=graph.signatures,
        train_ops=graph.train_ops,
        queue_runners=graph.queue_runners,
        ends=graph.ends or [graph.names[row] for row in np.flatnonzero(np.diff(graph.out_ptr) == 0).tolist()],
        keeps_calls=graph.keeps_calls,
        meta_graph=graph.meta_graph,
        source=graph.source,
        notes=(*graph.notes, *notes),
    )
    return _as_made(draft, graph, made, rows, in_order) if given else made


def _written(names: Sequence[str], edge: tuple[int, int, int, int]) -> str:
    src, port, *_ = edge
    return "^" + names[src] if port == CONTROL else f"{names[src]}:{port}" if port else names[src]


def _as_made(draft: Draft, graph: Graph, made: Graph, rows: Sequence[int], edges: Sequence[int]) -> Graph:
    """The graph with the order in which TensorFlow makes its nodes and edges; `edges`: [E] in the draft."""
    row_of = {row: at for at, row in enumerate(rows)}
    first = [row_of[row] for row in graph.order.tolist() if row in row_of]
    order = ids([*first, *range(len(first), len(rows))])
    source, sink = np.full(len(rows), -1), np.full(len(rows), -1)
    for edge, (src, _, dst, _) in enumerate(draft.edges):
        if src == SOURCE and dst in row_of:
            source[row_of[dst]] = edge
        elif dst == SINK and src in row_of:
            sink[row_of[src]] = edge
    creation = Creation(ids(edges), ids(source), ids(sink))
    by_chance = flags([edge in draft.by_chance for edge in edges])
    return replace(made, order=order, lowered=Lowered(graph, creation, made.order, by_chance))
