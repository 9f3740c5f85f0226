"""Shapes, values and handles of all tensors, from the edge of a graph forward: a fixed point.

Nodes are visited in topological order. A Merge first has what comes in from outside of its loop. When its back edge
brings something else, it is widened to what both have in common. All that hangs on it is visited again, until nothing
changes. So it is with what is put into queues, stacks and arrays. A tensor is only ever widened, so that this ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush

from simulator.graph.dataflow import data_inputs
from simulator.graph.dtypes import INT32, INT64
from simulator.graph.graph import Graph
from simulator.graph.inlining.bodies import Body
from simulator.graph.op_classes import MERGES, SWITCHES, calling
from simulator.shapes.calls import Calls, Given, Known
from simulator.shapes.dims import SYMBOLS, Algebra, Dims, Number, Value, as_dim, is_open
from simulator.shapes.formulas.elementwise import as_all, same
from simulator.shapes.loops import NO_COURSES, Courses, Growth, chosen_before, courses
from simulator.shapes.origins import ROWS, SINGLE, Origins
from simulator.shapes.rules import OF_SHAPES, PASSING, POPS, PUSHES, RULES, VALUES
from simulator.shapes.site import (
    Contents,
    Handle,
    NothingYet,
    Outputs,
    Rule,
    ShapeError,
    Site,
    either,
    either_handle,
    either_value,
)

ARGUMENTS = frozenset(("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg"))  # of a graph or a function
ITERATORS = frozenset(("IteratorGetNext", "IteratorGetNextSync"))
EDGE = ARGUMENTS | ITERATORS | {"QueueDequeue", "QueueDequeueV2"}
"""Ops that bring examples into a graph, a row each; no other node says how many."""
DEQUEUES_MANY = frozenset(("QueueDequeueMany", "QueueDequeueManyV2", "QueueDequeueUpTo", "QueueDequeueUpToV2"))
"""Ops that take as many examples from a queue as an input says; the batch, where it is not known beforehand."""
_BATCHED = EDGE | DEQUEUES_MANY
COMPILED = frozenset(("XlaCallModule",))
"""Programs such as JAX's, whose outputs have the shapes that they list; an open number of rows is that of examples."""

LEGACY_PRODUCER = 21  # until then a placeholder's scalar shape says "unknown" (tensorflow/core/ops/array_ops.cc)
_COUNTS = frozenset((INT32, INT64))  # types of tensors that may hold sizes
_ROUNDS = 4  # in which what readers ask of a tensor is carried on to its other readers
_CHANGES = 64  # of one tensor; what still changes then is unknown


@dataclass(frozen=True, slots=True)
class Clash:
    """A node whose inputs do not fit together."""

    node: int
    said: str  # a clause


@dataclass
class Inferred:
    """All that is known of the tensors of a graph."""

    shapes: list[Dims]  # [T]
    values: list[Value | None]  # [T] elements of small tensors on which shapes depend
    clashes: list[Clash] = field(default_factory=list)  # in the order of the nodes
    algebra: Algebra = field(default_factory=Algebra)
    batched: list[int] = field(default_factory=list)  # tensors at the edge whose first dimension became the batch
    reading: Mapping[int, Sequence[int]] = field(default_factory=dict)  # tensor of a value -> nodes whose rule reads it
    origins: Origins | None = None  # of traced numbers
    exhausted: bool = False  # calls were left out by `limits.BODY_NODES`


def infer(
    graph: Graph,
    given: Mapping[int, Dims],
    believed: Sequence[Dims],
    *,
    batch: int | None = None,
    size: int | None = None,
    also: Collection[int] = (),
    nodes: Collection[int] = (),
    rows: Mapping[int, int] = {},
) -> Inferred:
    """Infer what is known of each tensor.

    `given` are the shapes of tensors that come from outside: nothing is inferred of them. `believed` [T] has shapes
    that a file claims, -1 where a dimension is unknown. They fill in what does not follow, and count where they differ.
    `batch` is the unknown first dimension of tensors at the graph's edge, where nothing else gives it. With `size`,
    known numbers are `Traced` to those of the file that may be multiples of it, are in `also`, or of `nodes`. `rows`:
    placeholders of the dense shape of a sparse tensor, and how many rows it has where their default does not say.
    """

    def body(of: Body, algebra: Algebra, known: Given, calls: Calls) -> Given:
        return _Propagation.of_body(of, algebra, known, calls, batch).results()

    calls = Calls(graph.library, graph.source, body, traced=size is not None)
    found = _Propagation(graph, given, believed, calls, batch, rows=rows)
    if size is not None:
        found.site.origins = Origins(found.algebra, size, frozenset(also), frozenset(nodes))
    found.run()
    if size is not None:
        return found.result()
    loops = graph.edge_back.any()
    for _ in range(_ROUNDS):
        learned, known = found.learned(), found.new_courses()
        if not learned and known == found.courses:
            break
        if loops or known != found.courses:  # in a loop nothing is ever narrowed: it begins anew
            found = _Propagation(graph, given, believed, calls, batch, learned or found.asked, known, rows=rows)
            found.run()
        else:
            found.narrow(learned)
    return found.result()


class _Propagation:
    """The state of an inference."""

    def __init__(
        self,
        graph: Graph,
        given: Mapping[int, Dims],
        believed: Sequence[Dims],
        calls: Calls,
        batch: int | None = None,
        asked: Mapping[int, Dims] = {},
        courses: Courses = NO_COURSES,
        *,
        rows: Mapping[int, int] = {},
        algebra: Algebra | None = None,
        handed: Mapping[int, Known] = {},
        results: Sequence[int] = (),
    ) -> None:
        count = len(graph.tensor_node)
        self.calls, self.handed, self.returned = calls, handed, results  # tensors of a body: taken, and handed back
        self.graph, self.given, self.believed, self.batch, self.rows = graph, given, believed, batch, rows
        self.batched = set[int]()
        self.asked, self.courses = asked, courses  # tensor -> what its readers ask of it; of loops and branches
        self.types = graph.tensor_dtype.tolist()
        self.algebra = Algebra() if algebra is None else algebra
        self.contents = Contents(self.algebra)
        self.site = Site(self.algebra, self.contents)
        self.site.arrays = courses.arrays
        self.site.types = self.types
        self.shapes: list[Dims] = [None] * count
        self.values: list[Value | None] = [None] * count
        self.handles: list[Handle | None] = [None] * count
        self.reached = bytearray(count)
        self.first = graph.tensor_ptr.tolist()
        self.inputs = data_inputs(graph)
        self.chosen = chosen_before(graph, self.inputs, PASSING)
        self.readers: list[list[int]] | None = None  # [T] nodes; found when first needed
        self.reading: dict[int, list[int]] = {}
        self.followed = self._followed()
        self.changes: dict[int, int] = {}
        self.clashes: dict[int, str] = {}
        self.narrowing = False  # whether a tensor may become better known
        self.everything = False  # whether what nothing was said of counts as unknown now

    @classmethod
    def of_body(cls, body: Body, algebra: Algebra, known: Given, calls: Calls, batch: int | None) -> _Propagation:
        """The inference of a function's body for these arguments."""
        graph = body.graph
        arguments = {int(graph.tensor_ptr[row]): one for row, one in enumerate(known)}
        return cls(
            graph,
            {tensor: one.shape for tensor, one in arguments.items()},
            [None] * len(graph.tensor_node),
            calls,
            batch,
            algebra=algebra,
            handed=arguments,
            results=[int(graph.tensor_ptr[row]) + port for row, port in body.results],
        )

    def results(self) -> Given:
        """The results of a body."""
        self.run()
        return [Known(self.shapes[at], self.values[at], self.handles[at]) for at in self.returned]

    def run(self) -> None:
        """Find the fixed point."""
        for node in self.graph.topological.tolist():
            self._visit(node)
        self._settle(self._back())
        self.everything, self.site.patient = True, False
        if 0 in self.reached:
            order = self.graph.topological.tolist()
            self._settle([n for n in order if not all(self.reached[self.first[n] : self.first[n + 1]])])

    def narrow(self, asked: Mapping[int, Dims]) -> None:
        """Carry what readers ask of tensors on to their other readers, in a graph without loops."""
        changed = [tensor for tensor, shape in asked.items() if self.asked.get(tensor) != shape]
        self.asked, self.narrowing = asked, True
        self.site.round += 1
        self.site.learned.clear()
        self.algebra.bound.clear()  # what was learned is in `asked`
        self._settle(sorted({int(self.graph.tensor_node[tensor]) for tensor in changed}))
        self.narrowing = False

    def result(self) -> Inferred:
        """The shapes and values that were found."""
        place = self.graph.place
        clashes = [Clash(node, said) for node, said in sorted(self.clashes.items(), key=lambda one: place[one[0]])]
        return Inferred(
            self.shapes,
            self.values,
            clashes,
            self.algebra,
            sorted(self.batched),
            self.reading,
            self.site.origins,
            self.calls.exhausted,
        )

    def new_courses(self) -> Courses:
        """The courses of loops and branches by what is known now; as before if no size is unknown."""
        if SWITCHES.isdisjoint(self.graph.ops) or not any(map(is_open, self.shapes)):
            return self.courses
        known = self.shapes, self.values, self.handles
        return courses(self.graph, self.inputs, *known, self.algebra, [deep > 0 for deep in self._branches])

    def learned(self) -> dict[int, Dims]:
        """Sizes that the readers of tensors ask of them, beyond those that are known: -1 for an unknown dimension.

        A node whose inputs must be equal would be refused if they were not. What is asked in a branch holds there only:
        of tensors that are made in it, and of no symbols.
        """
        some = {shape for shape in set(self.shapes) if shape is None or (shape and min(shape) < 0)}
        unknown = {at for at, shape in enumerate(self.shapes) if shape in some} if some else set()
        if not unknown:
            return {}
        unknown.update(self.rows)  # whose elements may be unknown
        site, algebra, keeping = self.site, self.algebra, list[int]()
        site.learning = True
        for node in self.graph.topological.tolist():
            outputs = range(self.first[node], self.first[node + 1])
            if unknown.isdisjoint(self.inputs[node]) and unknown.isdisjoint(outputs):
                continue
            row = RULES.get(self.graph.ops[node])
            if row is None or node in self.clashes:
                continue
            if row.rule in (same, as_all):
                keeping.append(node)
            self._ask(node, row.rule)
        for node in reversed(keeping):
            self._ask(node, self._hand_back)
        site.learning = False
        made: dict[int, Dims] = {}
        for tensor in sorted(unknown):
            shape = self.shapes[tensor]
            shape = site.learned.get(tensor) if shape is None else shape
            if shape is None:
                continue
            better = tuple([max(algebra.resolved(side), -1) if side < 0 else side for side in shape])
            if self.shapes[tensor] is None or any(x < 0 <= y for x, y in zip(shape, better, strict=True)):
                made[tensor] = better
        fresh = {tensor: shape for tensor, shape in made.items() if self.asked.get(tensor) != shape}
        return {**self.asked, **made} if fresh else {}

    def _ask(self, node: int, rule: Rule) -> None:
        """Note what a node asks of its inputs, in a branch only of those that are made there."""
        site, deep, source = self.site, self._branches, self.graph.tensor_node
        self._move(node, self.inputs[node])
        around = [tensor for tensor in site.tensors if deep[node] and deep[source[tensor]] != deep[node]]
        before = {tensor: site.learned.get(tensor) for tensor in around}
        self.algebra.binding = not deep[node]
        # `narrow` carries on what is asked, and notes who refuses it
        with suppress(ShapeError):
            rule(site)
        self.algebra.binding = True
        for tensor, shape in before.items():
            site.learned.pop(tensor, None)
            if shape is not None:
                site.learned[tensor] = shape

    def _hand_back(self, site: Site) -> Outputs:
        """Ask of a node's inputs all that is asked of its outputs, where the node keeps their shapes."""
        begin, end = self.first[site.node], self.first[site.node + 1]
        for slot, (shape, output) in enumerate(zip(site.shapes, range(begin, end), strict=False)):
            after = self.shapes[output]
            after = site.learned.get(output) if after is None else after
            if shape is None or after is None:
                site.learn(slot, after)
            elif len(shape) == len(after):
                for x, y in zip(shape, after, strict=True):
                    self.algebra.bind(x, y)
        return ()

    def _back(self) -> list[int]:
        """The nodes into which a back edge leads."""
        edges = self.graph.edge_back.nonzero()[0]
        return sorted({*self.graph.edge_dst[edges].tolist(), *self.contents.woken})

    def _settle(self, nodes: Sequence[int]) -> None:
        """Visit these nodes, and all that change by it, until nothing changes."""
        place = self.graph.place.tolist()
        heap: list[tuple[int, int]] = []
        waiting = set[int]()

        def wake(more: Sequence[int]) -> None:
            for node in more:
                if node not in waiting:
                    waiting.add(node)
                    heappush(heap, (place[node], node))

        self.contents.woken.clear()
        wake(nodes)
        while heap:
            node = heappop(heap)[1]
            waiting.discard(node)
            for tensor in self._visit(node):
                wake(self._readers(tensor))
            wake(self.contents.woken)
            self.contents.woken.clear()

    def _readers(self, tensor: int) -> list[int]:
        if self.readers is None:
            self.readers = [[] for _ in self.shapes]
            for node, taken in enumerate(self.inputs):
                for one in taken:
                    self.readers[one].append(node)
            for tensor, before in self.chosen.items():
                self.readers[before].append(int(self.graph.tensor_node[tensor]))
        return self.readers[tensor]

    # ---- one node ---------------------------------------------------------------------------------------------------

    def _visit(self, node: int) -> list[int]:
        """Find out what is known of the outputs of a node; return those that changed."""
        graph, op = self.graph, self.graph.ops[node]
        taken, begin, end = self.inputs[node], self.first[node], self.first[node + 1]
        reached = self.reached
        merges = op in MERGES
        if merges:
            taken = [tensor for tensor in taken if reached[tensor]]
            taken = [tensor for tensor in taken if tensor not in self.courses.never] or taken
        if not self.everything:
            if merges and not taken:
                return []
            for one in taken:  # a loop, as `all` takes three times as long
                if not reached[one]:
                    return []
        site, followed = self.site, self.followed
        self._move(node, taken)
        if merges:
            return self._merged(node, taken, begin, end)
        row = RULES.get(op)
        found: Outputs = ()
        if row is not None:
            try:
                found = row.rule(site)
                self.clashes.pop(node, None)
            except ShapeError as error:
                self.clashes[node] = str(error)
                if not (self.everything or any(reached[begin:end])):
                    return []  # a loop's first trip may know too much; what is still refused at the end is unknown
            except NothingYet:  # it is visited again when there is something
                return []
        if op == "Placeholder" and graph.producer <= LEGACY_PRODUCER and found == ((),):
            found = ()
        if begin == end:
            return []
        values: Sequence[Value | None] = ()
        handles: Mapping[int, Handle | None] = site.made
        if row is None and (called := self._called(op, node)) is not None:
            found, values = [one.shape for one in called], [one.value for one in called]
            handles = {at: one.handle for at, one in enumerate(called)}
        elif not followed.isdisjoint(range(begin, end)) and node not in self.clashes:
            values = self._valued(op, node, found)
        if op in PASSING and taken:
            handles = {at: self._passed(at) for at in range(end - begin)}
        if op in SWITCHES and len(taken) == 2 == end - begin and (ended := self._ended(node)) is not None:
            found, values = (ended[0], site.shapes[0]), (ended[1], site.values[0])
            handles = {at: one for at, one in enumerate((ended[2], site.handles[0])) if one is not None}
        if op in SWITCHES and taken and not self.chosen.keys().isdisjoint(range(begin, end)):
            made = [self._chosen(tensor) for tensor in range(begin, end)]
            found, values = [one.shape for one in made], [one.value for one in made]
            handles = {at: one.handle for at, one in enumerate(made)}
        return self._write(node, begin, end, found, values, handles)

    def _move(self, node: int, taken: Sequence[int]) -> None:
        """Move the site to a node with these inputs."""
        graph, site = self.graph, self.site
        shapes, values, handles = self.shapes, self.values, self.handles
        site.at(node, graph.names[node], graph.ops[node], graph.attrs[node], self.first[node + 1] - self.first[node])
        site.tensors = taken
        site.shapes = [shapes[one] for one in taken]
        site.values = [values[one] for one in taken]
        site.handles = [handles[one] for one in taken]
        site.counters = NO_COURSES.counters if node in self.courses.tested else self.courses.counters

    def _chosen(self, tensor: int) -> Known:
        """A tensor that a Switch hands on: as its branch made it in an earlier conditional, else as it comes in."""
        before = self.chosen.get(tensor, -1)
        if before < 0 or not self.reached[before]:
            return Known(self.site.shapes[0], self.site.values[0], self.site.handles[0])
        return Known(self.shapes[before], self.values[before], self.handles[before])

    def _ended(self, node: int) -> tuple[Dims, Value | None, Handle | None] | None:
        """A variable as the Switch of its loop hands it to an Exit: as it is in the end, not as in an iteration."""
        site, source = self.site, self.graph.tensor_node
        shape, value, handle = site.shapes[0], site.values[0], site.handles[0]
        merge, condition = (int(source[tensor]) for tensor in site.tensors[:2])
        if self.graph.ops[condition] != "LoopCond" or self.graph.ops[merge] not in MERGES:
            return None
        first, growth = self.inputs[merge][0], self.courses.growth.get(merge, Growth())
        if shape is not None:
            shape = tuple(map(as_dim, self._last(node, shape, self.shapes[first], growth.sides)))
        if value is not None:
            value = tuple(self._last(node, value, self.values[first], growth.elements))
        if handle is not None and handle.length != SYMBOLS:
            entering = self.handles[first]
            lengths = None if entering is None else (entering.length,)
            handle = handle._replace(length=as_dim(self._last(node, (handle.length,), lengths, (growth.length,))[0]))
        return shape, value, handle

    def _last(
        self, node: int, now: Sequence[Number], entering: Sequence[Number] | None, growth: Sequence[int | None]
    ) -> list[Number]:
        """Numbers when their loop has ended, of those in an iteration, at first, and by how much they grow in all."""
        made = list(now)
        begins = now if entering is None or len(entering) != len(now) else entering
        for at, (one, begin) in enumerate(zip(now, begins, strict=True)):
            more = growth[at] if len(growth) == len(now) else None
            if more is not None and isinstance(begin, int):
                made[at] = self.algebra.plus(begin, more)
            elif one <= SYMBOLS and (one != begin or begins is now):
                made[at] = self.algebra.symbol("left", node, len(now), at)
        return made

    def _called(self, op: str, node: int) -> Given | None:
        """The results of a kept call; None: the node is no call."""
        if not self.graph.library:
            return None
        site = self.site
        known = [Known(*one) for one in zip(site.shapes, site.values, site.handles, strict=True)]
        return self.calls.results(op, site.attrs, self.algebra, node, known)

    def _passed(self, at: int) -> Handle | None:
        handles = self.site.handles
        return handles[at if at < len(handles) and self.site.op == "IdentityN" else 0]

    def _valued(self, op: str, node: int, found: Outputs) -> Sequence[Value | None]:
        """The elements of the outputs."""
        site = self.site
        if op in PASSING:
            return site.values if op == "IdentityN" else site.values[:1] * site.outputs
        if (tensor := self.first[node]) in self.rows:
            return (self._dense_shape(tensor),)
        rule = VALUES.get(op)
        return () if rule is None else rule(site, found)

    def _dense_shape(self, tensor: int) -> Value | None:
        """The elements of a placeholder of a sparse tensor's dense shape: its default, and as many rows as are said."""
        site = self.site
        rank = (self.given.get(tensor) or self.believed[tensor] or (-1,))[0]
        sides = list(site.value(0) or (-1,) * rank)
        for at, side in enumerate(sides):
            if SYMBOLS < side < 0:
                sides[at] = self.algebra.symbol("side", tensor, at) if at else self.rows[tensor]
                if not at and site.origins is not None:
                    sides[at] = site.origins.told(site.node, ROWS, SINGLE, 0, self.rows[tensor])
        return tuple(sides) if sides else None

    def _merged(self, node: int, taken: Sequence[int], begin: int, end: int) -> list[int]:
        """A Merge: what its inputs have in common; its second output is the number of the live one."""
        site, algebra = self.site, self.algebra
        if not taken:
            return self._write(node, begin, end, (None, ()), (), {})
        shape, value, handle = site.shapes[0], site.values[0], site.handles[0]
        for at in range(1, len(taken)):
            site.equate_all(shape, site.shapes[at])
            site.equate_all(value, site.values[at])
            shape = either(algebra, (node,), shape, site.shapes[at])
            value = either_value(algebra, (node,), value, site.values[at])
            handle = either_handle(algebra, (node,), handle, site.handles[at])
        return self._write(node, begin, end, (shape, ()), (value,), {} if handle is None else {0: handle})

    def _write(
        self,
        node: int,
        begin: int,
        end: int,
        found: Outputs,
        values: Sequence[Value | None],
        handles: Mapping[int, Handle | None],
    ) -> list[int]:
        """Widen what is known of the outputs to what was found now; return the tensors that changed."""
        changed = []
        merges = self.graph.ops[node] in MERGES and not self.narrowing
        reached, given, asked = self.reached, self.given, self.asked
        for at, tensor in enumerate(range(begin, end)):
            shape = found[at] if at < len(found) else None
            value = values[at] if at < len(values) and tensor in self.followed else None
            handle = handles.get(at)
            if tensor in given:
                shape, value = given[tensor], value if tensor in self.rows else None
                if tensor in self.handed:
                    _, value, handle = self.handed[tensor]
            else:
                claimed = self.believed[tensor]
                if claimed is not None and claimed != shape:
                    shape = self._believing(tensor, shape, claimed)
                if self.batch is not None and shape and shape[0] < 0 and self._has_examples(node):
                    shape = (self.batch, *shape[1:])
                    self.batched.add(tensor)
                if tensor in asked:
                    shape = self._asking(tensor, shape)
            if reached[tensor]:
                if merges:
                    shape = either(self.algebra, (node, at), self.shapes[tensor], shape)
                    value = either_value(self.algebra, (node, at), self.values[tensor], value)
                    handle = either_handle(self.algebra, (node,), self.handles[tensor], handle)
                if shape == self.shapes[tensor] and value == self.values[tensor] and handle == self.handles[tensor]:
                    continue
                if self._tired(tensor):
                    shape, value, handle = None, None, None
            self.shapes[tensor], self.values[tensor], self.handles[tensor] = shape, value, handle
            reached[tensor] = 1
            changed.append(tensor)
        return changed

    def _has_examples(self, node: int) -> bool:
        """Tell whether an open first dimension of what an op makes is the batch."""
        op = self.graph.ops[node]
        return op in _BATCHED or (op in COMPILED and bool(self.batched))

    def _tired(self, tensor: int) -> bool:
        self.changes[tensor] = self.changes.get(tensor, 0) + 1
        return self.changes[tensor] > _CHANGES

    def _believing(self, tensor: int, shape: Dims, claimed: tuple[int, ...]) -> Dims:
        """The shape with what the file claims of it, which is another."""
        origins, node = self.site.origins, self.site.node
        if origins is not None and self.graph.ops[node] in EDGE and (shape is None or len(shape) == len(claimed)):
            port, open_ = tensor - self.first[node], [shape is None or shape[at] < 0 for at in range(len(claimed))]
            claimed = tuple(
                [
                    origins.entry(node, "", port, at, side, len(claimed)) if open_[at] and side >= 0 else side
                    for at, side in enumerate(claimed)
                ]
            )
        if shape is None or len(shape) != len(claimed):
            symbol = self.algebra.symbol
            return tuple([side if side >= 0 else symbol("claimed", tensor, at) for at, side in enumerate(claimed)])
        pairs = zip(shape, claimed, strict=True)
        return tuple([ours if theirs < 0 or ours == theirs else theirs for ours, theirs in pairs])

    def _asking(self, tensor: int, shape: Dims) -> Dims:
        """The shape with what its readers ask of it."""
        asked = self.asked[tensor] or ()
        if shape is None:
            symbol = self.algebra.symbol
            return tuple([side if side >= 0 else symbol("asked", tensor, at) for at, side in enumerate(asked)])
        if len(shape) != len(asked):
            return shape
        return tuple([theirs if ours < 0 <= theirs else ours for ours, theirs in zip(shape, asked, strict=True)])

    @cached_property
    def _branches(self) -> Sequence[int]:
        """[N] number of branches around a node: behind Switches that are no loop's, before the Merges that end them."""
        graph = self.graph
        switches = {node for node, op in enumerate(graph.ops) if op in SWITCHES}
        loops = {node for node in switches if any(graph.ops[source] == "LoopCond" for source in graph.sources(node))}
        if len(switches) == len(loops):
            return [0] * len(graph)
        depth, around = [0] * len(graph), [0] * len(graph)
        back, begin = graph.edge_back.tolist(), graph.in_ptr.tolist()
        source = graph.edge_src.tolist()
        for node in graph.topological.tolist():
            edges = range(begin[node], begin[node + 1])
            deep = max([depth[source[edge]] for edge in edges if not back[edge]], default=0)
            around[node] = deep
            if node in switches and node not in loops:
                deep += 1
            elif graph.ops[node] in MERGES and deep and not any(back[edge] for edge in edges):
                deep -= 1
            depth[node] = deep
        return around

    # ---- values -----------------------------------------------------------------------------------------------------

    def _followed(self) -> set[int]:
        """The tensors whose elements some shape depends on: found backward, from the rules that read values."""
        graph, inputs, followed = self.graph, self.inputs, set[int]()
        pending: list[int] = []

        def follow(tensor: int) -> None:
            if tensor not in followed:
                followed.add(tensor)
                pending.append(tensor)

        def read(node: int, tensor: int) -> None:
            self.reading.setdefault(tensor, []).append(node)
            follow(tensor)

        for tensor in (*self.returned, *self.rows):
            if tensor >= 0 and self.types[tensor] in _COUNTS:
                follow(tensor)
        calls = set(calling(graph, range(len(graph)))) if graph.library else set()
        for node, op in enumerate(graph.ops):
            row, taken = RULES.get(op), inputs[node]
            if row is None:
                for tensor in taken if node in calls else ():
                    if self.types[tensor] in _COUNTS:
                        read(node, tensor)
                continue
            for slot in range(len(taken)) if row.reads_all else row.slots:
                if -len(taken) <= slot < len(taken):
                    read(node, taken[slot])
        slots_of = [(inputs[node], PUSHES[op]) for node, op in enumerate(graph.ops) if op in PUSHES]
        pushed = [taken[slot] for taken, slot in slots_of if len(taken) > slot]
        source = graph.tensor_node.tolist()
        while pending:
            tensor = pending.pop()
            node = source[tensor]
            op = graph.ops[node]
            if op in OF_SHAPES or not (op in VALUES or op in PASSING or op in MERGES or tensor in self.rows):
                continue
            taken = inputs[node]
            if op in POPS:
                taken = pushed
            elif op == "IdentityN":
                taken = taken[tensor - self.first[node] :][:1]
            elif op in PASSING:
                taken = taken[:1]
            for one in taken:
                follow(one)
        return followed


def edge_tensors(graph: Graph) -> list[int]:
    """The tensors at the graph's edge, of ops that bring examples."""
    return [tensor for row, op in enumerate(graph.ops) if op in EDGE for tensor in graph.outputs(row)]
