"""A step as TensorFlow's executor sees it: who reads what, and in which loop everything runs.

An Enter runs in the frame around its loop, an Exit and a NextIteration within (`propagator_state.cc`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from simulator.graph.control_flow import ENTERS, EXITS, NEXT_ITERATIONS, SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS
from simulator.wording import printable

if TYPE_CHECKING:
    from simulator.execution.assembling import Edges, Ops
    from simulator.graph.graph import Attrs, Graph


PARALLEL = 10  # iterations in flight where an Enter does not say: the op's default


class Way(Enum):
    """How an edge passes from the iterations of its source to those of its target."""

    SAME = "within an iteration"
    ONCE = "an Enter: into the first iteration"
    EVERY = "a constant Enter: into every iteration"
    NEXT = "a NextIteration: into the next one"
    LEAVE = "an Exit: out of the loop"


@dataclass(frozen=True, slots=True)
class Frame:
    """A loop, named by the `frame_name` of its Enters."""

    name: str
    parent: int  # row of the list of frames; the root, 0, is its own
    parallel: int  # iterations in flight


@dataclass(frozen=True, eq=False)
class Flow:
    """Axes: n ops, E edges. Lists, for all that reads it walks from op to op."""

    graph: Graph
    ops: Ops
    edges: Edges
    source: list[int]  # [E] op
    target: list[int]  # [E] op
    port: list[int]  # [E] output of the source
    data: list[bool]  # [E] the edge carries a value
    way: list[Way]  # [E]
    inputs: list[list[int]]  # [n] edges, in the order of the graph
    order: list[int]  # [n] every op after its inputs, back edges left out; ops that wait for themselves come last
    frames: list[Frame]  # the root first, then each after the one around it
    frame: list[int]  # [n] where the op runs
    child: dict[int, int]  # Enter -> the frame into which it leads
    mixed: str | None  # a node that reads from two frames, which TensorFlow refuses to run; None: there is none

    def attrs(self, op: int) -> Attrs:
        """The attributes of an op of the graph."""
        return self.graph.attrs[int(self.ops.node[op])]

    def value(self, op: int, slot: int = 0) -> tuple[int, int] | None:
        """Op and port that an op reads in a slot; None: it has no such input. A Recv reads its Send."""
        wanted = slot
        for edge in self.inputs[op]:
            if self.data[edge]:
                if not wanted:
                    return self.source[edge], self.port[edge]
                wanted -= 1
        return None

    def read_in(self, op: int) -> int:
        """The frame in which the values of an op are read."""
        return _outside(self.frames, self.frame, self.child, self.ops.kind[op], op)

    def name(self, op: int) -> str:
        """The op's name in quotes, for messages."""
        return f"'{printable(self.ops.names[op])}'"


def has_control_flow(ops: Ops) -> bool:
    """Whether anything of the step may be dead or run more than once."""
    return any(kind in SWITCHES or kind in ENTERS for kind in set(ops.kind))


def read_flow(graph: Graph, ops: Ops, edges: Edges) -> Flow:
    """The flow of these ops and edges, the back edges of loops included."""
    source, target, back = edges.source.tolist(), edges.target.tolist(), edges.back.tolist()
    inputs: list[list[int]] = [[] for _ in ops.kind]
    for edge, op in enumerate(target):
        inputs[op].append(edge)
    order = _order(source, target, back, inputs)
    frames, frame, child, mixed = _frames(graph, ops, source, back, inputs, order)
    ways = [_way(graph, ops, op) for op in range(len(inputs))]
    crossed = [
        edge
        for edge, (op, reader) in enumerate(zip(source, target, strict=True))
        if _outside(frames, frame, child, ops.kind[op], op) != frame[reader]
    ]
    if crossed and mixed is None:
        mixed = ops.names[target[crossed[0]]]
    return Flow(
        graph=graph,
        ops=ops,
        edges=edges,
        source=source,
        target=target,
        port=edges.port.tolist(),
        data=_carriers(ops, edges, source, target),
        way=[ways[op] for op in source],
        inputs=inputs,
        order=order,
        frames=frames,
        frame=frame,
        child=child,
        mixed=mixed,
    )


def _carriers(ops: Ops, edges: Edges, source: list[int], target: list[int]) -> list[bool]:
    """[E] whether a value comes along the edge; a Recv reads its Send, whatever that sends."""
    return [
        row >= 0 or (ops.kind[op] in SENDS and ops.kind[reader] in RECVS)
        for row, op, reader in zip(edges.row.tolist(), source, target, strict=True)
    ]


def _order(source: list[int], target: list[int], back: list[bool], inputs: list[list[int]]) -> list[int]:
    readers: list[list[int]] = [[] for _ in inputs]
    pending = [0] * len(inputs)
    for op, reader, closing in zip(source, target, back, strict=True):
        if not closing:
            readers[op].append(reader)
            pending[reader] += 1
    order = [op for op, count in enumerate(pending) if not count]
    for op in order:  # grows meanwhile
        for reader in readers[op]:
            pending[reader] -= 1
            if not pending[reader]:
                order.append(reader)
    return [*order, *(op for op, count in enumerate(pending) if count)]


def _way(graph: Graph, ops: Ops, op: int) -> Way:
    """How the values of an op pass on."""
    kind = ops.kind[op]
    if kind in ENTERS:
        constant = graph.attrs[int(ops.node[op])].get("is_constant")
        return Way.EVERY if constant is not None and constant.b else Way.ONCE
    return Way.LEAVE if kind in EXITS else Way.NEXT if kind in NEXT_ITERATIONS else Way.SAME


def _outside(frames: list[Frame], frame: list[int], child: dict[int, int], kind: str, op: int) -> int:
    """The frame in which the values of an op are read."""
    return frames[frame[op]].parent if kind in EXITS else child.get(op, frame[op])


def _frames(
    graph: Graph, ops: Ops, source: list[int], back: list[bool], inputs: list[list[int]], order: list[int]
) -> tuple[list[Frame], list[int], dict[int, int], str | None]:
    """The frames, that of each op, where each Enter leads, and the first node that contradicts itself."""
    frames, row_of = [Frame("", 0, 1)], dict[str, int]()
    depth = [0]
    frame, child, mixed = [0] * len(inputs), dict[int, int](), None
    for op in order:
        seen = {_outside(frames, frame, child, ops.kind[source[e]], source[e]) for e in inputs[op] if not back[e]}
        frame[op] = max(seen, key=lambda row: (depth[row], row), default=0)
        if len(seen) > 1:
            mixed = mixed or ops.names[op]
        if ops.kind[op] in ENTERS:
            attrs = graph.attrs[int(ops.node[op])]
            name, parallel = attrs.get("frame_name"), attrs.get("parallel_iterations")
            label = name.s.decode("utf-8", "replace") if name is not None else ""
            if label not in row_of:
                row_of[label] = len(frames)
                frames.append(Frame(label, frame[op], int(parallel.i) if parallel is not None else PARALLEL))
                depth.append(depth[frame[op]] + 1)
            child[op] = row_of[label]
            if frames[child[op]].parent != frame[op]:
                mixed = mixed or ops.names[op]
    return frames, frame, child, mixed
