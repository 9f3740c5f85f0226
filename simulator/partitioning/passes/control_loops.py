"""Control loops, which keep the pieces of a loop across devices in step.

A device that takes part in a loop without owning it gets a small loop of its own, driven by the predicate. Every Recv
of an iteration waits for that loop's Merge (`tensorflow/core/graph/graph_partition.cc`):

    Const -> Enter -> Merge -> Switch -> NextIteration -> (Merge)
                        |        ^
                        v     LoopCond
                      Recv
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.graph.attributes import number, text_value, typed
from simulator.graph.dtypes import FLOAT, INT32
from simulator.graph.editor import CONTROL
from simulator.graph.messages import AttrValue
from simulator.graph.op_classes import ENTERS, EXITS
from simulator.partitioning.cut_graph import EMPTY, LAST, Column, CutEdges, CutNodes, Value, empty_attrs, new_edges

if TYPE_CHECKING:
    from simulator.graph.graph import Attrs, Graph


CONTROL_LOOP = "_cloop"  # begins the names of control loops' nodes


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of the graph, named by the `frame_name` of its Enters."""

    name: str
    parent: int  # row of the list of loops; the root, 0, stands for what is in none and is its own parent
    parallel: int  # iterations in flight
    pivot: int = -1  # its LoopCond


@dataclass(frozen=True, slots=True)
class Stranded:
    """A node of a loop on a device that learns of the first iteration alone: its reader waits in the second one."""

    node: str
    device: int  # row of Cluster.devices
    reader: str
    condition: str  # the loop's LoopCond


class Closed(NamedTuple):
    """The cut with its control loops."""

    edges: CutEdges  # with those of the new loops
    numbered: int  # new names that are numbered
    refused: str | None  # what TensorFlow says instead of cutting this
    stranded: tuple[Stranded, ...] = ()  # one per device and loop


def close_loops(
    nodes: CutNodes, whole: CutEdges, given: CutEdges, clients: int, next_id: int, suffix: str, optimized: Sequence[int]
) -> Closed:
    """Give every device that takes part in a loop from afar a loop of its own, nested as the loop is.

    `optimized` has the device of each node where a session's Grappler rewrote the graph before.

    TensorFlow refuses a node that reads from inside and from outside a loop, as one does whose loop was fed from
    outside. It also refuses a loop without a predicate. Here both are cut without control loops.

    Loops are made in order of the edge that needs them first; `next_id` is the first free edge id. `whole` are the
    edges before constants were copied: of the graph's nodes, and of the first `clients` of the added ones. A copy is in
    the loop of its original.
    """
    graph = nodes.graph
    loops, loop_of = find_loops(graph, whole, len(graph) + clients)
    if len(loops) == 1:
        return Closed(given, 0, None)
    loop_of = np.concatenate([loop_of, loop_of[np.array(nodes.origin[len(graph) + clients :], np.int64)]])
    device = np.array(nodes.device, np.int64)
    inside, mixed = _loop_of_edges(graph, given, loops, loop_of)
    far = np.flatnonzero((inside > 0) & (device[given.src] != device[given.dst]))
    far = far[np.argsort(given.id[far], kind="stable")]
    stranded = _stranded(nodes, loops, given, inside, np.array(optimized, np.int64))
    made = _ControlLoops(nodes, loops, suffix, len(nodes))
    remote: list[tuple[int, int]] = []  # (loop, destination) of each edge from afar
    refused = "has inputs from different frames" if mixed else None
    for loop, dst in zip(inside[far].tolist(), given.dst[far].tolist(), strict=True):
        lacking = _without_predicate(loops, loop)
        if lacking is None:
            remote.append((loop, dst))
            made.ensure(loop, dst)
        else:
            refused = refused or f"A cross-device loop must have a pivot predicate: {lacking.name}"
    where = nodes.device
    remote += [
        (int(loop_of[src]), dst) for src, _, dst, _ in made.rows if src < len(graph) and where[src] != where[dst]
    ]
    return Closed(given.join(made.edges(remote, next_id)), len(nodes) - made.first, refused, stranded)


def _stranded(
    nodes: CutNodes, loops: Sequence[Loop], given: CutEdges, inside: Column, device: Column
) -> tuple[Stranded, ...]:
    """The first node on each device that sends to others within a loop, and learns nothing from them of its iterations.

    A device learns of them by its control loop. It has one if it reads from afar within the loop, or in an inner one.
    It knows them if it has the loop's condition.
    """
    far = np.flatnonzero((inside > 0) & (device[given.src] != device[given.dst]))
    knows = {(row, int(device[loop.pivot])) for row, loop in enumerate(loops) if loop.pivot >= 0}
    for loop, where in set(zip(inside[far].tolist(), device[given.dst[far]].tolist(), strict=True)):
        while loop:
            knows.add((loop, where))
            loop = loops[loop].parent
    found: dict[tuple[int, int], Stranded] = {}
    for loop, src, dst in zip(inside[far].tolist(), given.src[far].tolist(), given.dst[far].tolist(), strict=True):
        key = (loop, int(device[src]))
        if key not in knows and loops[loop].pivot >= 0:
            found.setdefault(key, Stranded(nodes.names[src], key[1], nodes.names[dst], nodes.names[loops[loop].pivot]))
    return tuple(found.values())


def find_loops(graph: Graph, given: CutEdges, count: int) -> tuple[list[Loop], Column]:
    """The loops of the step, the root first, and the innermost one of each node; an Exit counts as inside.

    `count` is the number of nodes, those of the client included. The rule is that of
    `tensorflow/core/graph/control_flow.cc`.
    """
    loops = [Loop("", 0, 1)]
    if not any(op in ENTERS for op in graph.ops):
        return loops, np.zeros(count, np.int64)
    row_of: dict[str, int] = {}
    found = [0] * count
    inputs: list[list[int]] = [[] for _ in range(count)]
    forward = np.flatnonzero(~given.back)
    for src, dst in zip(given.src[forward].tolist(), given.dst[forward].tolist(), strict=True):
        inputs[dst].append(src)
    for node in [*graph.topological.tolist(), *range(len(graph), count)]:
        inside = max((_seen_from_outside(graph, loops, one, found[one]) for one in inputs[node]), default=0)
        # an Enter that does not run says nothing of where its loop lies
        if node < len(graph) and graph.ops[node] in ENTERS and inputs[node]:
            name, parallel = _frame_of(graph.attrs[node])
            if name not in row_of:
                row_of[name] = len(loops)
                loops.append(Loop(name, inside, parallel))
            inside = row_of[name]
        found[node] = inside
        if node < len(graph) and graph.ops[node] == "LoopCond" and inside:
            loops[inside] = replace(loops[inside], pivot=node)
    return loops, np.array(found, np.int64)


def _seen_from_outside(graph: Graph, loops: Sequence[Loop], node: int, loop: int) -> int:
    """The loop of a node's outputs: an Exit's output is outside its loop."""
    return loops[loop].parent if node < len(graph) and graph.ops[node] in EXITS else loop


def _frame_of(attrs: Attrs) -> tuple[str, int]:
    name, parallel = attrs.get("frame_name"), attrs.get("parallel_iterations")
    return name.s.decode("utf-8", "replace") if name else "", int(parallel.i) if parallel else 10


def _loop_of_edges(graph: Graph, given: CutEdges, loops: Sequence[Loop], loop_of: Column) -> tuple[Column, bool]:
    """The loop inside which each edge runs, 0 outside loops; and whether an edge enters or leaves a loop by itself.

    Only an Enter and an Exit may (`tensorflow/core/graph/control_flow.cc`); such an edge counts as outside.
    """
    found, other = loop_of[given.src], loop_of[given.dst]
    for edge in np.flatnonzero(found + other > 0).tolist():
        src, dst = int(given.src[edge]), int(given.dst[edge])
        found[edge] = _seen_from_outside(graph, loops, src, int(found[edge]))
        if dst < len(graph) and graph.ops[dst] in ENTERS:
            other[edge] = loops[int(other[edge])].parent
    same = found == other
    return np.where(same, found, 0), not bool(same.all())


def _without_predicate(loops: Sequence[Loop], loop: int) -> Loop | None:
    """The innermost of a loop and those around it that has no LoopCond."""
    while loop:
        if loops[loop].pivot < 0:
            return loops[loop]
        loop = loops[loop].parent
    return None


@dataclass(frozen=True, slots=True)
class _ControlLoops:
    """The control loops that were added so far."""

    nodes: CutNodes
    loops: Sequence[Loop]
    suffix: str  # of a made name, before its number
    first: int  # of the nodes that were added for them
    merges: dict[tuple[int, int], int] = field(default_factory=dict)  # (loop, device) -> the Merge of its control loop
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)  # edges (src, port, dst, slot), in order of id

    def ensure(self, loop: int, dst: int) -> None:
        """Add the control loops that a node's device lacks, from the innermost outwards."""
        device, enter = self.nodes.device[dst], -1
        while loop and (loop, device) not in self.merges:
            inner = enter
            enter, merge = self._control_loop(self.loops[loop], dst)
            self.merges[loop, device] = merge
            if inner >= 0:
                self.rows.append((merge, 0, inner, 0))
            loop = self.loops[loop].parent
        if enter < 0:
            return
        start = self.merges[loop, device] if loop else self._add("", "Const", empty_attrs(), dst, (EMPTY,))
        self.rows.append((start, 0, enter, 0))

    def edges(self, remote: Sequence[tuple[int, int]], next_id: int) -> CutEdges:
        """All their edges, and the control edges from their Merges to the nodes that read from afar."""
        rows = [*self.rows]
        rows += [(self.merges[loop, self.nodes.device[dst]], CONTROL, dst, LAST) for loop, dst in remote]
        src, port, dst, slot = np.array(rows, np.int64).reshape(-1, 4).T
        row = np.arange(len(rows))
        back = np.array([self.nodes.ops[node] == "NextIteration" for node in src.tolist()], bool)
        return replace(new_edges(src, port, dst, slot, next_id + row), back=back, loop=row >= len(self.rows))

    def _control_loop(self, loop: Loop, dst: int) -> tuple[int, int]:
        """Add one loop; its Enter and its Merge."""
        kind = typed(FLOAT)
        frame = {
            "frame_name": text_value(loop.name),
            "is_constant": AttrValue(b=False),
            "parallel_iterations": number(loop.parallel),
        }
        enter = self._add(CONTROL_LOOP, "Enter", {**kind, **frame}, dst, (EMPTY,))
        merge = self._add(CONTROL_LOOP, "Merge", {**kind, "N": number(2)}, dst, (EMPTY, (INT32, (), 4)))
        switch = self._add(CONTROL_LOOP, "Switch", kind, dst, (EMPTY, EMPTY))
        following = self._add(CONTROL_LOOP, "NextIteration", kind, dst, (EMPTY,))
        self.rows.extend(
            [
                (merge, 0, switch, 0),
                (loop.pivot, 0, switch, 1),
                (switch, 1, following, 0),
                (enter, 0, merge, 0),
                (following, 0, merge, 1),
            ]
        )
        return enter, merge

    def _add(self, prefix: str, op: str, attrs: Attrs, dst: int, outputs: Sequence[Value]) -> int:
        """Add a node on the device of one from afar, under its name."""
        nodes, count = self.nodes, len(self.nodes) - self.first
        name = f"{prefix}{nodes.names[dst]}{self.suffix}{count}"
        return nodes.add(name, op, attrs, nodes.origin[dst], nodes.device[dst], outputs)
