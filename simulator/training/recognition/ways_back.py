"""The ways from what an optimizer writes back to a gradient, through any ops: the tensor that all of them pass.

examples ─▶ model ─▶ gradient ─┬─▶ any ops ─▶ slots ──┐
                               └─▶ any ops ───────────┴─▶ variable
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from simulator.columns import Flags, positions
from simulator.graph.dataflow import depending_on
from simulator.graph.graph import Graph
from simulator.graph.op_classes import SWITCHES
from simulator.graph.traversal import closure
from simulator.training.recognition.variable_flow import (
    BY_ELEMENT,
    FARTHEST,
    REDUCTIONS,
    SUMS_OF_ROWS,
    before_the_sum,
    read_by,
)
from simulator.training.recognition.variables import variable_shape

_WHOLE = (3, 9)  # int32, int64: numbers of rows


@dataclass(slots=True)
class WayBack:
    """The nodes and variables behind some edges, as far as ops work element by element."""

    nodes: set[int] = field(default_factory=set)
    reads: set[int] = field(default_factory=set)  # variables
    ends: set[int] = field(default_factory=set)  # edges that bring values of examples
    stopped: set[int] = field(default_factory=set)  # edges that carry the tensor at which the walk was to stop
    indices: set[int] = field(default_factory=set)  # edges that number the rows of sums by row


def walk_back(graph: Graph, edges: Sequence[int], live: Flags, stop: int = -1, *, further: int = 0) -> WayBack:
    """Walk back from the edges by ops that work element by element, or `further`; not beyond the tensor `stop`."""
    walk, pending = WayBack(), list(edges)
    while pending:
        edge = pending.pop()
        row, tensor = int(graph.edge_src[edge]), int(graph.edge_tensor[edge])
        if tensor < 0:
            continue
        variable = read_by(graph, row)
        if tensor == stop:
            walk.stopped.add(edge)
        elif variable >= 0:
            walk.reads.add(variable)
        elif graph.ops[row] in SWITCHES:
            walk.nodes.add(row)
            pending.append(int(graph.in_ptr[row]))
        elif further and graph.ops[row] in SUMS_OF_ROWS:
            walk.nodes.add(row)
            walk.indices.add(int(graph.in_ptr[row]) + 1)
            pending.append(int(graph.in_ptr[row]))
        elif graph.ops[row] == "IdentityN":
            pending.append(int(graph.in_ptr[row]) + int(graph.tensor_port[tensor]))
        elif graph.ops[row] not in BY_ELEMENT and not (further == FARTHEST and graph.ops[row] in REDUCTIONS):
            if live[row]:
                walk.ends.add(edge)
        elif row not in walk.nodes:
            walk.nodes.add(row)
            pending += graph.in_edges(row)
    return walk


def through_any(graph: Graph, variable: int, edges: Sequence[int], live: Flags, of_model: Flags) -> WayBack | None:
    """The walk back from all the edges, through any ops, to the last tensor of the variable's shape that is `of_model`.

    All that examples bring to the edges comes through a tensor if, when its op is next, no other tensor is open. All
    that lies on these ways comes either before the tensor or after it.
    """
    shape, walk = variable_shape(graph, variable), WayBack()
    for tensor, carried, alone in _backwards(graph, edges, live):
        row = int(graph.tensor_node[tensor])
        if alone and of_model[row] and graph.tensor_shape[tensor] in (shape, None):
            walk.stopped = carried
            return walk
        walk.nodes.add(row)
    return None


def through_rows(graph: Graph, variable: int, edges: Sequence[int], live: Flags, of_model: Flags) -> WayBack | None:
    """The same to the last tensor of rows of the variable that is `of_model`, and the tensor of their numbers.

    All that examples bring to the edges, but through the rows, comes through their numbers. Where rows that occur twice
    are added up, the tensors are those before that, as an optimizer need not be linear in the sum.
    """
    whole = variable_shape(graph, variable)
    for rows, _, _ in _backwards(graph, edges, live) if whole else ():
        shape = graph.tensor_shape[rows]
        if of_model[graph.tensor_node[rows]] and shape and shape[1:] == (whole or ())[1:]:
            walk = _beside(graph, rows, edges, live, of_model)
            if walk is not None:
                added = before_the_sum(graph, min(walk.indices))
                total = -1 if added is None else int(graph.tensor_ptr[graph.edge_dst[added[0]]])
                behind = walk if total in (-1, rows) else _beside(graph, total, edges, live, of_model)
                return walk if added is None or behind is None else _before_the_sum(graph, behind, *added)
    return None


def _before_the_sum(graph: Graph, walk: WayBack, rows: int, numbers: int) -> WayBack:
    """The same walk from a sum further back, to the edges of the rows and of the numbers that enter it."""
    unique = int(graph.edge_dst[numbers])
    later = depending_on(graph, [unique])
    between = closure(
        [int(graph.edge_dst[rows])], lambda row: (at for at in graph.sources(row) if later[at] and at != unique)
    )
    return replace(walk, nodes=walk.nodes | between | {unique}, stopped={rows}, indices={numbers})


def _beside(graph: Graph, rows: int, edges: Sequence[int], live: Flags, of_model: Flags) -> WayBack | None:
    """The walk back from all the edges to this tensor of rows and to that of their numbers; None: they need more."""
    walk, later = WayBack(), depending_on(graph, [int(graph.tensor_node[rows])])
    for tensor, carried, alone in _backwards(graph, edges, live, rows, walk.stopped):
        row, shape = int(graph.tensor_node[tensor]), graph.tensor_shape[tensor]
        numbers = int(graph.tensor_dtype[tensor]) in _WHOLE and shape == (graph.tensor_shape[rows] or ())[:1]
        if alone and numbers:
            walk.indices = carried
            return walk
        if of_model[row] and not later[row]:
            return None
        walk.nodes.add(row)
    return None


def _backwards(
    graph: Graph, edges: Sequence[int], live: Flags, stop: int = -1, stopped: set[int] | None = None
) -> Iterator[tuple[int, set[int], bool]]:
    """The tensors behind the edges that bring examples, in reverse order of their ops, through any ops.

    Each comes with all edges that carry it, and with whether no other tensor is open then. Those that carry the tensor
    `stop` are `stopped`. It ends behind a loop, which would be gone round for ever.
    """
    place = positions(graph.topological, len(graph))
    heap, open_, held = list[tuple[int, int]](), dict[int, set[int]](), set[int]() if stopped is None else stopped

    def enter(edge: int) -> None:
        tensor, row = int(graph.edge_tensor[edge]), int(graph.edge_src[edge])
        if tensor == stop >= 0:
            held.add(edge)
        elif tensor >= 0 and _brings(graph, edge, live):
            if tensor not in open_:
                heappush(heap, (-int(place[row]), tensor))
            open_.setdefault(tensor, set()).add(edge)

    for edge in edges:
        enter(edge)
    while heap:
        _, tensor = heappop(heap)
        carried = open_.pop(tensor)
        yield tensor, carried, not open_
        row = int(graph.tensor_node[tensor])
        first, last = int(graph.in_ptr[row]), int(graph.in_ptr[row + 1])
        for edge in range(first, first + 1 if graph.ops[row] in SWITCHES else last):
            if graph.edge_back[edge]:
                return
            enter(edge)


def _brings(graph: Graph, edge: int, live: Flags) -> bool:
    """Tell whether an edge brings examples: of what an IdentityN hands on, some may depend on them and some may not."""
    row = int(graph.edge_src[edge])
    while graph.ops[row] == "IdentityN" and live[row]:
        edge = int(graph.in_ptr[row]) + int(graph.tensor_port[graph.edge_tensor[edge]])
        row = int(graph.edge_src[edge])
    return bool(live[row])
