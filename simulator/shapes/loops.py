"""Loops whose counters say how often they run, and branches whose predicates are known.

A Merge of a loop is a symbol once its back edge has brought something else. If that is the symbol and a number, the
variable is `start + step * i` in iteration i. So the loop's condition says how many iterations there are. Their number
says what each variable is in the end: a counter, a side that grows, the length of a list. Other variables, such as one
that doubles, are computed iteration by iteration, where whole numbers alone say what they are.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf
from typing import NamedTuple

from simulator.graph.graph import Graph
from simulator.graph.op_classes import CONTROL_FLOW, MERGES, NEXT_ITERATIONS, SWITCHES
from simulator.shapes.dims import SYMBOLS, Algebra, Dims, Number, Value
from simulator.shapes.ranges import bounds
from simulator.shapes.site import Contents, Handle, Site
from simulator.shapes.variables import LinearCourse, LoopCourse


class Growth(NamedTuple):
    """By how much the numbers of a variable are greater when its loop ends than at first; None where unknown."""

    sides: tuple[int | None, ...] = ()
    elements: tuple[int | None, ...] = ()
    length: int | None = None  # of a list


@dataclass(frozen=True)
class Courses:
    """The courses of loops, and the sides that branches take."""

    growth: Mapping[int, Growth] = field(default_factory=dict)  # Merge -> that of its variable
    counters: Mapping[tuple[Hashable, Hashable], tuple[float, float]] = field(default_factory=dict)
    """Merge and place among its elements -> the least and the most that it is in the loop's body."""
    tested: frozenset[int] = frozenset()  # nodes that run once more than the body: those of conditions
    never: frozenset[int] = frozenset()  # tensors of branches that are never taken
    arrays: Mapping[str, int] = field(default_factory=dict)  # key of a TensorArray of dynamic size -> its length


NO_COURSES = Courses()
_FILLING = frozenset(("TensorArrayWriteV3", "TensorArrayScatterV3", "TensorArraySplitV3"))


@dataclass(frozen=True)
class _Tensors:
    """The tensors of a graph, and all that is known of them."""

    graph: Graph
    inputs: Sequence[Sequence[int]]  # [N]
    shapes: Sequence[Dims]  # [T]
    values: Sequence[Value | None]
    handles: Sequence[Handle | None]

    @cached_property
    def source(self) -> list[int]:
        """[T] the node that makes a tensor."""
        return list(map(int, self.graph.tensor_node))

    def of(self, tensor: int) -> tuple[Sequence[Number], Sequence[Number], Number]:
        """The numbers of a tensor: sides, elements, and the length of a list."""
        handle = self.handles[tensor]
        length = 0.5 if handle is None or handle.length == SYMBOLS else handle.length  # no whole number: unknown
        return self.shapes[tensor] or (), self.values[tensor] or (), length

    def variables(self) -> Mapping[int, list[int]]:
        """The LoopCond of each loop -> the Merges of its variables."""
        found, ops = dict[int, list[int]](), self.graph.ops
        for row, op in enumerate(ops):
            if op in SWITCHES and len(self.inputs[row]) > 1:
                merge, condition = (self.source[one] for one in self.inputs[row][:2])
                if ops[condition] == "LoopCond" and ops[merge] in MERGES:
                    found.setdefault(condition, []).append(merge)
        return found

    def never(self) -> frozenset[int]:
        """The tensors that are never made, as the predicates of their branches are known."""
        graph, ops, first = self.graph, self.graph.ops, self.graph.tensor_ptr.tolist()
        found, gone = set[int](), set[int]()  # tensors, and nodes that make none
        for row, op in enumerate(ops):
            if op in SWITCHES and len(self.inputs[row]) == 2 and ops[self.source[self.inputs[row][1]]] != "LoopCond":
                way, outputs = self.values[self.inputs[row][1]], range(first[row], first[row + 1])
                if way is not None and len(way) == 1 and way[0] > SYMBOLS:
                    taken = int(way[0]) if 0 <= way[0] < len(outputs) else -1
                    found.update(set(outputs) - {outputs[taken]})
        if not found:
            return frozenset()
        begin, edges, back = graph.in_ptr.tolist(), graph.edge_tensor.tolist(), graph.edge_back.tolist()
        for node in graph.topological.tolist():
            come = [edge for edge in range(begin[node], begin[node + 1]) if not back[edge]]
            dead = [edges[edge] in found if edges[edge] >= 0 else int(graph.edge_src[edge]) in gone for edge in come]
            if dead and (all(dead) if ops[node] in MERGES else any(dead)):
                gone.add(node)
                found.update(range(first[node], first[node + 1]))
        return frozenset(found)

    def arrays(self, site: Site, conditional: Sequence[bool]) -> dict[str, int]:
        """The end of each TensorArray, by the places at which its elements are written; none that a branch decides."""
        ends = dict[str, float]()
        for row, op in enumerate(self.graph.ops):
            handle = self.handles[self.inputs[row][0]] if op in _FILLING and self.inputs[row] else None
            if handle is None:
                continue
            places = None if conditional[row] or op == "TensorArraySplitV3" else self.values[self.inputs[row][1]]
            last = max([bounds(site, place)[1] for place in places or (SYMBOLS,)])
            ends[handle.key] = max(ends.get(handle.key, 0), last + 1)
        return {key: int(end) for key, end in ends.items() if end < inf}

    def around(self, merge: int) -> list[tuple[Number, Number, Number]]:
        """The numbers of a loop's variable: in its Merge, what comes in at first, and what comes back."""
        ins = sorted(self.inputs[merge], key=lambda one: self.graph.ops[self.source[one]] in NEXT_ITERATIONS)
        if len(ins) != 2:
            return []
        whole, first, back = (self.of(one) for one in (int(self.graph.tensor_ptr[merge]), *ins))
        return [
            *zip(whole[0], first[0], back[0], strict=False),
            *zip(whole[1], first[1], back[1], strict=False),
            (whole[2], first[2], back[2]),
        ]

    def tested(self, conditions: Iterable[int]) -> frozenset[int]:
        """The nodes between the Merges of loops and these conditions of them."""
        found, pending = set[int](), list(conditions)
        while pending:
            node = pending.pop()
            if node not in found and self.graph.ops[node] not in MERGES:
                found.add(node)
                pending += [self.source[one] for one in self.inputs[node]]
        return frozenset(found)


def courses(
    graph: Graph,
    inputs: Sequence[Sequence[int]],
    shapes: Sequence[Dims],
    values: Sequence[Value | None],
    handles: Sequence[Handle | None],
    algebra: Algebra,
    conditional: Sequence[bool],
) -> Courses:
    """The courses of a graph, by what is known of its tensors [T]; `inputs` [N] are those of its nodes.

    `conditional` [N]: nodes that run in a branch only.
    """
    tensors = _Tensors(graph, inputs, shapes, values, handles)
    growth, counters = dict[int, Growth](), dict[tuple[Hashable, Hashable], tuple[float, float]]()
    variables = tensors.variables()
    for condition, merges in variables.items():
        loop, truth = LoopCourse(algebra), values[inputs[condition][0]]
        for numbers in [one for merge in merges for one in tensors.around(merge)] * 2:  # one may grow by another's line
            loop.learn(*numbers)
        trips = None if truth is None or len(truth) != 1 else loop.walked(truth[0], loop.trips(truth[0]))
        if trips is None or trips == inf:
            continue
        for merge in merges:
            sides, elements, length = tensors.of(int(graph.tensor_ptr[merge]))
            more = partial(loop.growth, trips=int(trips))
            growth[merge] = Growth(tuple(map(more, sides)), tuple(map(more, elements)), more(length))
            lines = enumerate(map(loop.line, elements)) if trips else ()
            spans = {(merge, at): _span(line, int(trips)) for at, line in lines if line is not None and line.step}
            counters.update({at: span for at, span in spans.items() if min(span) > SYMBOLS})
    tested = tensors.tested(variables) if counters else frozenset()
    site = Site(algebra, Contents(algebra))
    site.counters = counters
    return Courses(growth, counters, tested, tensors.never(), tensors.arrays(site, conditional))


def chosen_before(graph: Graph, inputs: Sequence[Sequence[int]], passing: Collection[str]) -> dict[int, int]:
    """Tensor of a branch -> the tensor that it is, as the same predicate has chosen it out of an earlier conditional.

    The gradient of a conditional is another one. What the first returns is in each branch of the second what that
    branch of the first has made. `passing`: ops that hand on their first input.
    """
    if SWITCHES.isdisjoint(graph.ops):
        return {}
    source, first = graph.tensor_node.tolist(), graph.tensor_ptr.tolist()
    looping = {int(node) for node in graph.edge_dst[graph.edge_back]}
    frames = {row for row, op in enumerate(graph.ops) if op in CONTROL_FLOW}

    def origin(tensor: int) -> int:
        while graph.ops[node := source[tensor]] in passing and node not in frames:
            slot = tensor - first[node] if graph.ops[node] == "IdentityN" else 0
            if slot >= len(inputs[node]):
                break
            tensor = inputs[node][slot]
        return tensor

    switches = [row for row in frames if graph.ops[row] in SWITCHES and len(inputs[row]) == 2]
    predicates = {row: origin(inputs[row][1]) for row in switches}
    merged = {row: origin(inputs[row][0]) for row in switches}
    sides = dict[int, dict[int, int]]()  # predicate -> node -> the branch in which it runs
    found = dict[int, int]()
    for row, tensor in merged.items():
        merge = source[tensor]
        if graph.ops[merge] not in MERGES or merge in looping or tensor != first[merge]:
            continue
        predicate = predicates[row]
        known = sides.setdefault(predicate, {})
        ways = {_side(graph, inputs, one, (predicate, predicates), known): one for one in inputs[merge]}
        found.update({first[row] + way: one for way, one in ways.items() if way >= 0})
    return found


def _side(
    graph: Graph,
    inputs: Sequence[Sequence[int]],
    tensor: int,
    of: tuple[int, Mapping[int, int]],
    known: dict[int, int],
) -> int:
    """The branch in which a tensor is made, of a predicate among those of all Switches; -1: in none of them."""
    predicate, predicates = of
    walked = list[int]()
    side, node = -1, int(graph.tensor_node[tensor])
    while node not in known:
        if predicates.get(node) == predicate:
            side = tensor - int(graph.tensor_ptr[node])
            break
        walked.append(node)
        known[node] = -1
        tensor = inputs[node][0] if inputs[node] else -1
        before = graph.sources(node)[:1]
        if not len(before):
            break
        node = int(graph.tensor_node[tensor]) if tensor >= 0 else int(before[0])
    else:
        side = known[node]
    known.update(dict.fromkeys(walked, side))
    return side


def _span(line: LinearCourse, trips: int) -> tuple[int, int]:
    """The least and the most of a line in the iterations of the body."""
    ends = line.start, line.start + line.step * (trips - 1)
    return min(ends), max(ends)
