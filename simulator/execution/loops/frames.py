"""The data flow of a step as TensorFlow's executor sees it: the inputs of every op, and the frame in which it runs.

A frame is the execution of a loop, named by its Enters; the root frame, row 0, is everything outside of loops. An Enter
runs in the frame around its loop, an Exit and a NextIteration run within
(`tensorflow/core/common_runtime/propagator_state.cc`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from simulator.columns import topological
from simulator.graph.op_classes import ENTERS, EXITS, NEXT_ITERATIONS, SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS
from simulator.wording import printable

if TYPE_CHECKING:
    from simulator.execution.table_columns import Edges, Ops
    from simulator.graph.graph import Attrs, Graph


Output: TypeAlias = "tuple[int, int]"  # op and port
PARALLEL = 10  # iterations in flight where an Enter gives no number: the op's default


class EdgeKind(IntEnum):
    """The iterations of the target that an edge leads to, by the op at its source."""

    SAME = 0  # the same iteration of the same frame
    ENTER = 1  # the loop's first iteration
    CONSTANT_ENTER = 2  # every iteration of the loop
    NEXT_ITERATION = 3  # the next iteration
    EXIT = 4  # the iteration around the loop


@dataclass(frozen=True, slots=True)
class ExecutionFrame:
    """A loop, named by the `frame_name` of its Enters."""

    name: str
    parent: int  # row of the list of frames; the root, 0, is its own
    parallel: int  # iterations in flight


@dataclass(frozen=True, eq=False)
class Flow:
    """The data flow of a step. Axes: n ops, E edges. The columns are lists, since walks go from op to op."""

    graph: Graph
    ops: Ops
    edges: Edges
    source: list[int]  # [E] op
    target: list[int]  # [E] op
    port: list[int]  # [E] output of the source
    data: list[bool]  # [E] the edge carries a value
    edge_kind: list[EdgeKind]  # [E]
    inputs: list[list[int]]  # [n] edges, in the order of the graph
    order: list[int]  # [n] every op after its inputs, back edges left out; ops that wait for themselves come last
    frames: list[ExecutionFrame]  # the root first, then each after the one around it
    frame: list[int]  # [n] where the op runs
    child: dict[int, int]  # Enter -> the frame into which it leads
    mixed: str | None  # a node that reads from two frames, which TensorFlow refuses to run; None: there is none
    # Any: a `walking.LoopRun` or None, by the loop and what enters it; every scenario asks about it again
    walks: dict[Hashable, Any] = field(default_factory=dict)

    def attrs(self, op: int) -> Attrs:
        """The attributes of an op of the graph."""
        return self.graph.attrs[int(self.ops.node[op])]

    def values(self, op: int) -> Iterator[Output]:
        """The outputs that an op reads, by slot. A Recv reads its Send."""
        return ((self.source[edge], self.port[edge]) for edge in self.inputs[op] if self.data[edge])

    def value(self, op: int, slot: int = 0) -> Output | None:
        """The output that an op reads in a slot; None: it has no such input."""
        return next(islice(self.values(op), slot, None), None)

    def output_frame(self, op: int) -> int:
        """The frame in which the values of an op are read."""
        return _output_frame(self.frames, self.frame, self.child, self.ops.kind[op], op)

    def loop_nest(self, frame: int) -> list[int]:
        """The loops around a frame, the outermost first, itself included; none for the root."""
        nest = []
        while frame:
            nest.append(frame)
            frame = self.frames[frame].parent
        return nest[::-1]

    def name(self, op: int) -> str:
        """The op's name in quotes, for messages."""
        return f"'{printable(self.ops.names[op])}'"

    def loop(self, frame: int) -> str:
        """The loop's name in quotes, for messages."""
        return f"'{printable(self.frames[frame].name)}'"


def has_control_flow(ops: Ops) -> bool:
    """Something of the step may be dead or run more than once."""
    return any(kind in SWITCHES or kind in ENTERS for kind in ops.numbered[0])


def read_flow(graph: Graph, ops: Ops, edges: Edges) -> Flow:
    """The flow of these ops and edges, the back edges of loops included."""
    source, target, back = edges.source.tolist(), edges.target.tolist(), edges.back.tolist()
    inputs: list[list[int]] = [[] for _ in ops.kind]
    for edge, op in enumerate(target):
        inputs[op].append(edge)
    forward = ~edges.back
    order = topological(edges.source[forward], edges.target[forward], len(inputs))
    order += sorted(set(range(len(inputs))).difference(order))
    frames, frame, child, mixed = _frames(graph, ops, source, back, inputs, order)
    kinds = [_edge_kind(graph, ops, op) for op in range(len(inputs))]
    between_frames = (
        ops.names[reader]
        for op, reader in zip(source, target, strict=True)
        if _output_frame(frames, frame, child, ops.kind[op], op) != frame[reader]
    )
    sent = [ops.kind[op] in SENDS and ops.kind[reader] in RECVS for op, reader in zip(source, target, strict=True)]
    return Flow(
        graph=graph,
        ops=ops,
        edges=edges,
        source=source,
        target=target,
        port=np.where(sent, 0, edges.port).tolist(),  # within a device the edge of a copy is a control edge
        data=(np.array(sent, bool) | (edges.row >= 0)).tolist(),  # a Recv reads its Send, whatever that sends
        edge_kind=[kinds[op] for op in source],
        inputs=inputs,
        order=order,
        frames=frames,
        frame=frame,
        child=child,
        mixed=mixed if mixed is not None else next(between_frames, None),
    )


def _edge_kind(graph: Graph, ops: Ops, op: int) -> EdgeKind:
    """The kind of an op's outgoing edges."""
    kind = ops.kind[op]
    if kind in ENTERS:
        constant = graph.attrs[int(ops.node[op])].get("is_constant")
        return EdgeKind.CONSTANT_ENTER if constant is not None and constant.b else EdgeKind.ENTER
    return EdgeKind.EXIT if kind in EXITS else EdgeKind.NEXT_ITERATION if kind in NEXT_ITERATIONS else EdgeKind.SAME


def _output_frame(frames: list[ExecutionFrame], frame: list[int], child: dict[int, int], kind: str, op: int) -> int:
    return frames[frame[op]].parent if kind in EXITS else child.get(op, frame[op])


def _frames(
    graph: Graph, ops: Ops, source: list[int], back: list[bool], inputs: list[list[int]], order: list[int]
) -> tuple[list[ExecutionFrame], list[int], dict[int, int], str | None]:
    """The frames, that of each op, the frame of each Enter's loop, and the first node whose inputs disagree."""
    frames, row_of = [ExecutionFrame("", 0, 1)], dict[str, int]()
    depth = [0]
    frame, child, mixed = [0] * len(inputs), dict[int, int](), None
    for op in order:
        seen = {_output_frame(frames, frame, child, ops.kind[source[e]], source[e]) for e in inputs[op] if not back[e]}
        frame[op] = max(seen, key=lambda row: (depth[row], row), default=0)
        if len(seen) > 1:
            mixed = mixed or ops.names[op]
        if ops.kind[op] in ENTERS:
            attrs = graph.attrs[int(ops.node[op])]
            name, parallel = attrs.get("frame_name"), attrs.get("parallel_iterations")
            label = name.s.decode("utf-8", "replace") if name is not None else ""
            if label not in row_of:
                row_of[label] = len(frames)
                frames.append(ExecutionFrame(label, frame[op], int(parallel.i) if parallel is not None else PARALLEL))
                depth.append(depth[frame[op]] + 1)
            child[op] = row_of[label]
            if frames[child[op]].parent != frame[op]:
                mixed = mixed or ops.names[op]
    return frames, frame, child, mixed
