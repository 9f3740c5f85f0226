"""Loops whose counters say how often they run, and branches whose predicates are known.

A Merge of a loop is a symbol once its back edge has brought something else. If that is the symbol and a number, the
variable is `start + step * i` in iteration i. So the loop's condition says how many iterations there are. Their number
says what each variable is in the end: a counter, a side that grows, the length of a list.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf
from typing import NamedTuple

from simulator.graph.graph import Graph
from simulator.graph.op_classes import MERGES, NEXT_ITERATIONS, SWITCHES
from simulator.shapes.dims import SYMBOLS, Algebra, Dims, Number, Value, as_dim
from simulator.shapes.ranges import bounds
from simulator.shapes.site import Contents, Handle, Site

NEGATED: Mapping[str, str] = {
    "Less": "GreaterEqual",
    "GreaterEqual": "Less",
    "Greater": "LessEqual",
    "LessEqual": "Greater",
    "Equal": "NotEqual",
    "NotEqual": "Equal",
}
_DEPTH = 32  # of conditions within conditions


class Line(NamedTuple):
    """`start + step * i` in iteration i."""

    start: int  # a dimension, which may hang on loops around
    step: int


def iterations(comparison: str, start: int, step: int) -> float:
    """The number of iterations i, from 0 on, in which `start + step * i` compares to 0 like this; `inf` for all."""
    if comparison == "Equal":
        return 0 if start else 1 if step else inf
    if comparison == "NotEqual":
        if not start:
            return 0
        reaches_zero = bool(step) and -start % step == 0 and -start // step >= 0
        return -start // step if reaches_zero else inf
    if comparison in ("Greater", "GreaterEqual"):
        start, step = -start, -step
    if comparison in ("LessEqual", "GreaterEqual"):
        start -= 1
    if start >= 0:
        return 0
    return inf if step <= 0 else -(start // step)


class Growth(NamedTuple):
    """By how much the numbers of a variable are greater when its loop ends than at first; None where unknown."""

    sides: tuple[int | None, ...] = ()
    elements: tuple[int | None, ...] = ()
    length: int | None = None  # of a list


@dataclass(frozen=True)
class Courses:
    """The ways that a graph takes: courses of loops, and sides of branches."""

    growth: Mapping[int, Growth] = field(default_factory=dict)  # Merge -> that of its variable
    counters: Mapping[tuple[Hashable, Hashable], tuple[float, float]] = field(default_factory=dict)
    """Merge and place among its elements -> the least and the most that it is in the loop's body."""
    tested: frozenset[int] = frozenset()  # nodes that run once more than the body: those of conditions
    never: frozenset[int] = frozenset()  # tensors of branches that are never taken
    arrays: Mapping[str, int] = field(default_factory=dict)  # key of a TensorArray of dynamic size -> its length


NO_COURSES = Courses()
_FILLING = frozenset(("TensorArrayWriteV3", "TensorArrayScatterV3", "TensorArraySplitV3"))


@dataclass(frozen=True)
class _Loop:
    """A loop while its course is found out."""

    algebra: Algebra
    lines: dict[int, Line] = field(default_factory=dict)  # symbol of a variable -> its course
    grown: dict[int, tuple[int, Line]] = field(default_factory=dict)  # as large as the most of a line -> its start too
    outside: set[int] = field(default_factory=set)  # symbols that the loop does not change

    def line(self, number: Number) -> Line | None:
        """The course of a number; None where it is no line."""
        if not isinstance(number, int):
            return None
        start = step = 0
        for term, factor in self.algebra.terms(number).items():
            moved = [symbol for symbol in term if symbol in self.lines]
            if not self.outside.issuperset(set(term) - set(moved)) or (moved and len(term) > 1):
                return None
            begin, each = self.lines[term[0]] if moved else (self.algebra.product(term), 0)
            start, step = self.algebra.plus(start, self.algebra.times(factor, begin)), step + factor * each
        return Line(start, step)

    def learn(self, variable: Number, entering: Number, back: Number) -> None:
        """Note the course of a variable of that symbol, by what it is at first and what comes back."""
        if not all(isinstance(one, int) for one in (variable, entering, back)):
            return
        symbol, begin, after = as_dim(variable), as_dim(entering), as_dim(back)
        self.outside.update(one for term in self.algebra.terms(begin) for one in term)
        if symbol > SYMBOLS or symbol in self.outside:
            return
        step = self.algebra.minus(after, symbol)
        if step > SYMBOLS:
            self.lines[symbol] = Line(begin, step)
            return
        kind, *parts = self.algebra.reason(after) if after <= SYMBOLS else ("",)
        if kind == "Maximum" and symbol in parts:
            other = self.line(parts[1 - parts.index(symbol)])  # type: ignore[arg-type]  # of numbers
            if other is not None:
                self.grown[symbol] = begin, other

    def trips(self, truth: Number, negated: bool = False, depth: int = 0) -> float | None:
        """The number of iterations in which a condition holds from the first on; None where that is not known."""
        if truth > SYMBOLS:
            return inf if bool(truth) is not negated else 0
        kind, *given = self.algebra.reason(as_dim(truth))
        numbers: list[Number] = given  # type: ignore[assignment]  # the symbol of an op has the op and its numbers
        if depth == _DEPTH:
            return None
        if kind == "LogicalNot":
            return self.trips(numbers[0], not negated, depth + 1)
        if kind in ("LogicalAnd", "LogicalOr"):
            halves = [self.trips(one, negated, depth + 1) for one in numbers]
            both = (kind == "LogicalAnd") is not negated
            decisive, known = (0 if both else inf), [one for one in halves if one is not None]
            if decisive in known:
                return decisive
            return None if len(known) < len(halves) else min(known) if both else max(known)
        if kind not in NEGATED or len(numbers) != 2:
            return None
        a, b = map(self.line, numbers)
        ahead = None if a is None or b is None else self.algebra.minus(a.start, b.start)
        if a is None or b is None or ahead is None or ahead <= SYMBOLS:
            return None
        return iterations(NEGATED[str(kind)] if negated else str(kind), ahead, a.step - b.step)

    def growth(self, variable: Number, trips: int) -> int | None:
        """By how much a variable is greater when the loop has ended; None where that is not known."""
        if variable in self.grown:
            begin, (first, step) = self.grown[as_dim(variable)]
            ends = (begin, first, first + step * (trips - 1)) if trips else (begin,)
            return max(ends) - begin if min(ends) > SYMBOLS else None
        line = self.lines.get(as_dim(variable))
        return 0 if variable > SYMBOLS else None if line is None else line.step * trips


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
    """The ways of a graph, by what is known of its tensors [T]; `inputs` [N] are those of its nodes.

    `conditional` [N]: nodes that run in a branch only.
    """
    tensors = _Tensors(graph, inputs, shapes, values, handles)
    growth, counters = dict[int, Growth](), dict[tuple[Hashable, Hashable], tuple[float, float]]()
    variables = tensors.variables()
    for condition, merges in variables.items():
        loop, truth = _Loop(algebra), values[inputs[condition][0]]
        for numbers in [one for merge in merges for one in tensors.around(merge)] * 2:  # one may grow by another's line
            loop.learn(*numbers)
        trips = None if truth is None or len(truth) != 1 else loop.trips(truth[0])
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


def _span(line: Line, trips: int) -> tuple[int, int]:
    """The least and the most of a line in the iterations of the body."""
    ends = line.start, line.start + line.step * (trips - 1)
    return min(ends), max(ends)
