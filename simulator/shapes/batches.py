"""Another batch for a file that fixes one: in placeholders and queues, and in all numbers that have to agree with it.

The batch of a file is where examples come in, else where losses, convolutions and products read them. The equations of
`origins` show which constants and declared shapes repeat it, alone or multiplied. These numbers are written anew. No
other number changes, and an op that does not take the new ones is refused by its own rule afterwards. A program that
was compiled for the shapes of its arguments, such as one of JAX, takes no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from simulator.errors import GraphError
from simulator.graph.attributes import has_bit, is_true
from simulator.graph.const_values import elements, packed
from simulator.graph.dataflow import data_inputs, kept_in
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.op_classes import LOSSES, MERGES, SWITCHES
from simulator.graph.tensors import MAX_RANK
from simulator.shapes.dims import SYMBOLS, as_dim, is_open
from simulator.shapes.origins import ELEMENT, ROWS, SINGLE, FileNumber, Origins
from simulator.shapes.propagation import COMPILED, DEQUEUES_MANY, EDGE, Inferred, edge_tensors, infer
from simulator.shapes.ragged import row_splits
from simulator.shapes.rules import PASSING
from simulator.shapes.sparse import SparsePlaceholders, sparse_placeholders
from simulator.shapes.traced import Traced, form_of
from simulator.wording import counted, some

_DEQUEUES, _ENQUEUES_MANY = (frozenset((op, f"{op}V2")) for op in ("QueueDequeue", "QueueEnqueueMany"))
_MANY = DEQUEUES_MANY | {"ParseExample", "ParseExampleV2"}
_IMAGES = frozenset(("Conv2D", "Conv3D", "DepthwiseConv2dNative", "MaxPool", "AvgPool", "_FusedConv2D"))
_OF_SPARSE = {"SparseToDense": 0, "SparseTensorDenseMatMul": 0, "SparseFillEmptyRows": 2}  # an output with all rows
_RANDOM = ("Random", "TruncatedNormal", "StatelessRandom", "StatelessTruncated", "StatelessParameterized")
_MOST_SIDE = 2**63 - 1  # of a shape in a file
_MOST_ELEMENTS = 2**28  # of a constant that is repeated along the batch: a file holds 2 GiB
_JOINING = PASSING | {"LogicalAnd"}
_INDEXED = frozenset(("TensorArrayReadV3", "TensorArrayWriteV3", "TensorListGetItem", "TensorListSetItem"))
_STACKING = frozenset(("TensorListStack", "TensorListGather"))
_KEEPING = PASSING | {"TensorListSetItem"}  # an array into which something was put before its loop is that array
_LENGTHS = {"TensorArrayV3": 0, "TensorListReserve": 1, "TensorListFromTensor": -1}  # the slot; -1: as many as rows
_ROWS = -2  # in the place of such a slot: the tensor itself has the rows
_CUTTING = {"SplitV": 3, "Slice": 3, "StridedSlice": 4, "StridedSliceGrad": 5}  # with the number of inputs
_REARRANGING = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_TAKING = frozenset(("SplitV", "Slice", "StridedSlice", "Gather", "GatherV2"))
_MOST_SIZES = 3  # of tensors at the edge that are tried for the batch, beside that of the first one
_TRIES = 5  # of finding further numbers that hang on the batch
_PRODUCTS = frozenset(("MatMul", "_FusedMatMul"))


@dataclass(frozen=True, slots=True)
class BatchChange:
    """The number that takes the place of a batch that a file fixes."""

    graph: Graph  # with the new numbers in constants and attributes; its tensors have the old shapes
    nodes: Sequence[int]  # nodes with new numbers
    edge: Mapping[int, Shape]  # new shapes of tensors at the graph's edge
    note: str


def batch_change(
    graph: Graph, declared: Sequence[Shape | None], given: Mapping[int, Shape], batch: int, apart: Collection[int] = ()
) -> BatchChange | str:
    """The change to that batch, a note where none is possible, "" where none is needed.

    The old batch is the first dimension that most tensors have where examples come in; ties: the first of them. It is
    another one of these if at least twice as many shapes hang on that. Nothing changes where such a dimension is open,
    as the batch takes its place. Entries of a sparse tensor are no examples: as many as the file says come with more
    examples in the same proportion. The tensors `apart` are what other steps take, and keep their shapes.
    """
    fed = sparse_placeholders(graph, declared)
    of_sparse = {row for one in fed for row in one}
    brought = _brought(graph, declared)
    splits = row_splits(graph, declared)
    edge = [row for row in brought if row not in of_sparse | splits | {*apart}]
    opened = {row for row in edge if (declared[row] or ())[0] < 0}
    if opened.difference(given) and not any((declared[row] or (0,))[0] > 0 for row in splits):
        return ""
    shapes: Sequence[Shape | None] = declared
    if not edge:
        shapes = infer(graph, given, declared, rows={one.shape: batch for one in fed}).shapes
    every = edge or next((rows for rows in _reading(graph, shapes) if rows), [])
    sizes = Counter(shape[0] for row in every if (shape := shapes[row]) and shape[0] > 0)
    if not sizes:
        said = (
            f"batch {batch} changes nothing: the graph has no examples that are read, convolved, multiplied or sparse"
        )
        return "" if opened else said  # all of them are fed
    first = next(shape[0] for row in every if (shape := shapes[row]) and shape[0] > 0)
    loops, tried = _Loops(graph), list[_Tried]()
    for size in dict.fromkeys([*(size for size, _ in sizes.most_common(_MOST_SIZES)), first]):
        rows = [row for row in every if row not in given and (shapes[row] or ())[0] == size]
        tried.append(_try(loops, declared, given, fed, rows, size, batch))
    chosen = _chosen(tried, batch)
    known, origins, size = chosen.known, chosen.known.origins, chosen.known.origins.size
    if size == batch or not chosen.rows:
        return ""
    if not chosen.numbers:
        where = some([graph.tensor_name(row) for row in dict.fromkeys(chosen.rows)])
        return f"batch {batch} changes nothing: no number of the file gives the {size} examples of {where}"
    symbols, counts = _entries(known, declared, fed, batch)
    numbers = {**_of_shapes(known, chosen.numbers), **_alone(known, batch), **symbols}
    changed = counts | {
        entry: number
        for symbol, entry in origins.entries.items()
        if (number := origins.number(symbol, numbers)) != entry.number and number > 0 and entry.attr != ROWS
    }
    change = _changed(graph, declared, brought, changed, f"batch {batch} takes the place of {size}")
    if left := _limits(known, numbers, change.nodes):
        change = replace(change, note=f"{change.note}; loops that end at {size} still do: {some(left)}")
    if left := _uncut(known, numbers):
        change = replace(change, note=f"{change.note}; constants still say how many rows these take: {some(left)}")
    return change


class _Known(NamedTuple):
    """A graph, and all that is known of its tensors if a size is its batch."""

    loops: _Loops
    found: Inferred
    origins: Origins  # of the numbers in `found`


class _Tried(NamedTuple):
    """A size that was taken for the batch of a file."""

    known: _Known
    rows: Sequence[int]  # tensors of which it is the first dimension
    numbers: dict[int, int]  # symbol -> its number for the other batch
    fits: bool  # the graph allows another

    @property
    def reach(self) -> int:
        """The number of tensors whose shape hangs on it."""
        origins, shapes = self.known.origins, [shape for shape in self.known.found.shapes if shape]
        hangs = cache(lambda form: not origins.symbols(form).isdisjoint(self.numbers))
        return sum(any(isinstance(side, Traced) and hangs(side.form) for side in shape) for shape in shapes)


def _try(
    loops: _Loops,
    declared: Sequence[Shape | None],
    given: Mapping[int, Shape],
    fed: Sequence[SparsePlaceholders],
    rows: Sequence[int],
    size: int,
    batch: int,
) -> _Tried:
    """Take a size for the batch, and trace further numbers that hang on it until there are no more."""
    also, ends, sparse = set[int](), set[int](), {one.shape: size for one in fed}
    for _ in range(_TRIES):
        found = infer(loops.graph, given, declared, size=size, also=also, nodes=ends, rows=sparse)
        assert found.origins is not None  # it traces numbers
        known = _Known(loops, found, found.origins)
        more = _tie_loops(known) - ends
        bounds = _tie_parts(known)
        numbers, fits = _new_numbers(known, rows, fed, batch)
        odd = bounds | _beside(known, numbers)
        if not fits:
            odd |= known.origins.odd(numbers)
        odd -= also
        if not odd | more:
            break
        also |= odd
        ends |= more
    return _Tried(known, rows, numbers, fits)


def _chosen(tried: Sequence[_Tried], batch: int) -> _Tried:
    """The first size that fits, and of others one on which the rows of a loss hang.

    Another one takes its place if at least twice as many tensors hang on it: captured tables may be more than images.
    """
    first = tried[0]
    if len(tried) == 1:
        return first

    def counts(one: _Tried) -> bool:
        fits = one.fits and (one is first or _reaches_losses(one))
        return not one.rows or one.known.origins.size == batch or fits

    best = next(filter(counts, tried), first)
    widest = max(tried, key=lambda one: one.reach)
    return widest if widest.fits and widest.reach >= 2 * best.reach else best


def _brought(graph: Graph, declared: Sequence[Shape | None]) -> list[int]:
    """Tensors at the graph's edge that may have a row per example.

    What is taken one by one out of a queue into which many are put at once is an example itself.
    """
    filled = {kept_in(graph, node) for node, op in enumerate(graph.ops) if op in _ENQUEUES_MANY}
    single = {
        row
        for node, op in enumerate(graph.ops)
        if op in _DEQUEUES and kept_in(graph, node) in filled
        for row in graph.outputs(node)
    }
    return [row for row in edge_tensors(graph) if declared[row] not in ((), None) and row not in single]


def _reading(graph: Graph, shapes: Sequence[Shape | None]) -> Iterator[list[int]]:
    """Tensors that have a row per example, the surest kind first."""
    inputs = data_inputs(graph)
    nodes = list(enumerate(graph.ops))
    first = graph.tensor_ptr.tolist()
    many = [row for node, op in nodes if op in _MANY for row in range(first[node], first[node + 1])]
    yield [row for row in many if _begins(shapes[row])]
    for ops in (LOSSES, _IMAGES, _PRODUCTS):
        straight = [node for node, op in nodes if op in ops and not is_true(graph.attrs[node], "transpose_a")]
        read = [inputs[node][0] for node in straight if inputs[node]]
        yield [row for row in read if _begins(shapes[row])]
    laid_out = [first[node] + _OF_SPARSE[op] for node, op in nodes if op in _OF_SPARSE]
    yield [row for row in laid_out if _begins(shapes[row])]


def _begins(shape: Shape | None) -> bool:
    return bool(shape) and shape is not None and shape[0] > 0


def _reaches_losses(tried: _Tried) -> bool:
    """Whether the rows of a loss are multiples of the new numbers."""
    loops, found, origins = tried.known
    losses = [node for node, op in enumerate(loops.ops) if op in LOSSES and loops.inputs[node]]
    rows = [found.shapes[loops.inputs[node][0]] for node in losses]
    return any(not origins.symbols(form_of(shape[0])).isdisjoint(tried.numbers) for shape in rows if shape)


def _new_numbers(
    known: _Known, rows: Sequence[int], sparse: Sequence[SparsePlaceholders], batch: int
) -> tuple[dict[int, int], bool]:
    """The number of each symbol whose multiple is the first dimension of `rows`; whether the graph allows another."""
    loops, found, origins = known
    forms = [form_of((found.shapes[row] or (0,))[0]) for row in rows]
    fed = {node for node, op in enumerate(loops.ops) if op in EDGE}
    roots = [form for form in forms if form in origins.entries]
    for value in (found.values[one.shape] for one in sparse if one.shape >= 0):
        if roots and value and value[0] == origins.size:  # a sparse tensor has a row per example, too
            origins.equate(found.shapes[rows[0]][0], as_dim(value[0]))  # type: ignore[index]  # it begins with the size
    fits = origins.solve(roots, fed)
    numbers: dict[int, int] = {}
    for form in dict.fromkeys(origins.algebra.resolved(form) for form in forms):
        terms = origins.algebra.terms(form)
        if form > SYMBOLS or len(terms) != 1:
            continue
        ((term, factor),) = terms.items()
        if len(term) == 1 and term[0] in origins.entries and not batch % factor:
            numbers[term[0]] = batch // factor
    return numbers, fits and bool(numbers)


def _entries(
    known: _Known, declared: Sequence[Shape | None], fed: Sequence[SparsePlaceholders], batch: int
) -> tuple[dict[int, int], dict[FileNumber, int]]:
    """The new number of entries of each sparse tensor of which the file says one, rounded up. It is given for symbols,
    and for numbers that are no multiple of the batch and have no symbol.
    """
    loops, found, origins = known
    symbols: dict[int, int] = {}
    numbers: dict[FileNumber, int] = {}
    for row in (row for one in fed for row in one[:2] if row >= 0):
        shape, node = declared[row], loops.source[row]
        if not shape or shape[0] < 0:
            continue
        form, count = origins.algebra.resolved(form_of((found.shapes[row] or shape)[0])), shape[0]
        scaled = -(-count * batch // origins.size)
        if form in origins.entries:
            symbols[form] = scaled
        elif form == count:
            attr = "shape" if "shape" in loops.attrs[node] else ""
            numbers[FileNumber(node, attr, SINGLE, 0, count, len(shape))] = scaled
    return symbols, numbers


def _alone(known: _Known, batch: int) -> dict[int, int]:
    """The numbers of symbols of shapes in constants, of tensors filled or drawn at random, that begin with the batch.

    Or with an equal part of it, as a tower has. They are tied to nothing but each other, as those of the ones that a
    loss counts. Of a batch of 1 there are too many.
    """
    loops, found, origins = known
    members: dict[int, list[FileNumber]] = {}
    for symbol, entry in origins.entries.items():
        members.setdefault(origins.algebra.resolved(symbol), []).append(entry)
    shares = {origins.size, *(number for number in origins.also if number > 1 and not origins.size % number)}

    def shapes(entry: FileNumber) -> bool:
        readers = found.reading.get(loops.first[entry.node], ())
        made = all(loops.ops[node] == "Fill" or loops.ops[node].startswith(_RANDOM) for node in readers)
        once = (elements(loops.attrs[entry.node]) or []).count(entry.number) == 1
        whole = entry.number in shares and not batch * entry.number % origins.size
        return made and once and bool(readers) and entry[1:4] == ("value", ELEMENT, 0) and whole

    return {
        symbol: batch * origins.entries[symbol].number // origins.size
        for symbol, entries in members.items()
        if origins.size > 1 and symbol in origins.entries and all(shapes(entry) for entry in entries)
    }


def _held_shapes(known: _Known) -> dict[int, tuple[int, ...]]:
    """Constants that are the shape of some tensor, which the file does not name: node -> sides.

    TensorFlow writes `tf.shape(x)[0]` of a known shape so. A gradient compares such a shape with one that is unknown,
    or repeats a single number as often.
    """
    loops, found, _ = known
    inputs, taken = loops.inputs, set[int]()
    for node, op in enumerate(loops.ops):
        if op == "StridedSlice":
            taken.update(inputs[node][:1])
        elif op == "BroadcastGradientArgs":
            taken.update(inputs[node])
        elif op == "Tile" and {*(found.shapes[inputs[node][0]] or (0,))} == {1}:
            taken.update(inputs[node][1:])
    makers = sorted({loops.source[row] for row in taken})
    whole = {node: elements(loops.attrs[node], MAX_RANK) for node in makers if loops.ops[node] == "Const"}
    return {node: tuple(map(int, sides)) for node, sides in whole.items() if sides}


def _as_shaped(known: _Known, sides: Sequence[int], place: int, numbers: Mapping[int, int]) -> int | None:
    """The new side of all tensors of a shape at an axis; None: they have several, or the batch does not say it."""
    _, found, origins = known
    forms = [form_of(shape[place]) for shape in found.shapes if shape == sides]
    made = {origins.number(form, numbers) for form in forms if origins.symbols(form) <= numbers.keys()}
    return made.pop() if len(made) == 1 and sides[place] not in made else None


def _beside(known: _Known, numbers: Mapping[int, int]) -> set[int]:
    """Sides in constant shapes that hang on the batch and are no multiple of it, as of row splits: to be traced."""
    return {
        side
        for sides in _held_shapes(known).values()
        for place, side in enumerate(sides)
        if side > 1 and side % known.origins.size and _as_shaped(known, sides, place, numbers) is not None
    }


def _of_shapes(known: _Known, numbers: Mapping[int, int]) -> dict[int, int]:
    """The numbers of symbols in constants that are the shape of tensors of the batch, where no equation says more.

    Of such a number other tensors are made, whose shapes may be constants, too. A number that is tied to the shape of a
    variable or placeholder is theirs.
    """
    origins, shapes, made = known.origins, _held_shapes(known), dict(numbers)
    declared = {origins.algebra.resolved(symbol) for symbol, entry in origins.entries.items() if entry.attr != "value"}
    held = {symbol: entry for symbol, entry in origins.entries.items() if entry.node in shapes and entry.at == ELEMENT}
    before = -1
    while before < len(made):
        before = len(made)
        for symbol, entry in held.items():
            (term, factor), *others = origins.algebra.terms(origins.algebra.resolved(symbol)).items()
            if len(term) != 1 or others or term[0] in made or term[0] not in origins.entries or term[0] in declared:
                continue  # it is said, or by more than a multiple, such as twice the end of a part of the examples
            number = _as_shaped(known, shapes[entry.node], entry.place, made)
            if number is not None and not number % factor:
                made[term[0]] = number // factor
    return made


# ---- loops ----------------------------------------------------------------------------------------------------------


class _Loops:
    """The loops of a graph: the constants with which their ends are compared, and counters."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.names, self.ops, self.attrs = graph, graph.names, graph.ops, graph.attrs
        self.first: list[int] = graph.tensor_ptr.tolist()
        self.source: list[int] = graph.tensor_node.tolist()
        self.inputs = data_inputs(graph)
        self.ends: dict[int, dict[int, int]] = {}  # LoopCond -> constant -> its number
        self.computed: list[int] = []  # further nodes that made what a counter is compared with
        self.loop_of: dict[int, int] = {}  # Merge of a loop's variable -> LoopCond
        for node, op in enumerate(self.ops):
            if op == "LoopCond":
                self.ends[node] = self._ends(node)
            elif op in SWITCHES and self.ops[end := self.source[self.inputs[node][1]]] == "LoopCond":
                self.loop_of[self.source[self.inputs[node][0]]] = end

    def maker(self, tensor: int, from_outside: bool) -> int:
        """The node that made what is handed on to a tensor: in the loop, or what was there before the loop."""
        node = self.source[tensor]
        while self.inputs[node] and (self.ops[node] in _KEEPING or (from_outside and self.ops[node] in MERGES)):
            node = self.source[self.inputs[node][0]]
        return node

    def counter(self, tensor: int) -> int:
        """The Merge of the counter of which an index is made, perhaps of the one before it or after it."""
        node = self.maker(tensor, False)
        if self.ops[node] in ("Sub", "Add", "AddV2") and self.constant(self.inputs[node][1])[1] == [1]:
            return self.maker(self.inputs[node][0], False)
        return node

    def row_index(self, node: int) -> int:
        """The tensor that says which row an op takes out of its first input, as `x[i]` does; -1 for none."""
        op, inputs = self.ops[node], self.inputs[node]
        if op == "StridedSlice" and has_bit(self.attrs[node], "shrink_axis_mask", 0):
            begin = self.source[inputs[1]]
            return self.inputs[begin][0] if self.ops[begin] == "Pack" else -1
        return inputs[1] if op == "Gather" or (op == "GatherV2" and self.constant(inputs[2])[1] == [0]) else -1

    def stacked(self, node: int) -> int:
        """The number of rows that a stack says in an attribute; -1 for none."""
        attrs = self.attrs[node]
        return int(attrs["num_elements"].i) if "num_elements" in attrs else -1

    def constant(self, tensor: int) -> tuple[int, Sequence[float] | None]:
        """The node from outside of the loop that made a tensor, and its elements if it is a constant."""
        node = self.maker(tensor, True)
        return node, elements(self.attrs[node]) if self.ops[node] == "Const" else None

    def _ends(self, end: int) -> dict[int, int]:
        reached, found = [end], dict[int, int]()
        for node in reached:
            if self.ops[node] in _JOINING:
                reached += [maker for one in self.inputs[node] if (maker := self.source[one]) not in reached]
            elif self.ops[node] in ("Less", "LessEqual"):
                limit, whole = self.constant(self.inputs[node][1])
                if whole is not None and len(whole) == 1 and float(whole[0]).is_integer():
                    found[limit] = int(whole[0])
                self.computed += [limit] * (whole is None)
        return found


def _tie_loops(known: _Known) -> set[int]:
    """Equate the ends of a loop with the length of each array, and the rows of each tensor, that its counter indexes.

    A length may be another than the batch, and hang on it, as of a part of the examples, or of these and one more. A
    counter that comes down begins behind the last place of the array, at it, or before it, where that one is taken
    first. Return the nodes that say such a length again: what makes arrays of it, and what stacks them.
    """
    loops, found, origins = known
    said, hanging = list[tuple[int, int]](), set[tuple[int, int]]()  # a node and a loop; a loop and a length
    for node, op in enumerate(loops.ops):
        index = loops.inputs[node][1] if op in _INDEXED else loops.row_index(node)
        if index < 0:
            continue
        array, counter = loops.inputs[node][0], loops.counter(index)
        made, loop = loops.maker(array, True), loops.loop_of.get(counter)
        slot = _LENGTHS.get(loops.ops[made]) if op in _INDEXED else _ROWS
        if slot is None or loop is None:
            continue
        length = -1
        if slot == _ROWS:
            length = (found.shapes[array] or (-1,))[0]
        elif slot < 0:  # an array of the rows of a tensor
            length = (found.shapes[loops.inputs[made][0]] or (-1,))[0]
        elif (held := loops.constant(loops.inputs[made][slot]))[1] and len(held[1]) == 1:
            length = origins.entry(held[0], "value", ELEMENT, 0, int(held[1][0]))
            said.append((held[0], loop))
        if not isinstance(length, Traced):
            continue
        number = int(length)
        hanging.add((loop, number))
        for limit in (limit for limit, end in loops.ends[loop].items() if end == number):
            origins.equate(origins.told(limit, "value", ELEMENT, 0, number), length)
        first, whole = loops.constant(loops.inputs[counter][0])
        for less in range(3):
            if number > 1 and whole == [number - less]:
                origins.equate(origins.told(first, "value", ELEMENT, 0, number - less), length - less)
    lengths = {number for _, number in hanging} - {origins.size}
    again = {node for node, loop in said if (loop, (elements(loops.attrs[node]) or [0])[0]) in hanging}
    stacks = {node for node, op in enumerate(loops.ops) if op in _STACKING and loops.stacked(node) in lengths}
    return again | stacks if lengths else set()


def _limits(known: _Known, numbers: Mapping[int, int], changed: Sequence[int]) -> list[str]:
    """Numbers of the file with which a loop compares its counter, and that equal the old batch, such as a side of a
    constant shape. No shape of a tensor says what they count.
    """
    loops, found, origins = known
    if origins.size == 1:
        return []

    def stays(node: int) -> bool:
        value = found.values[loops.first[node]] or ()
        if len(value) != 1 or not isinstance(value[0], int):
            return False
        form = form_of(value[0])
        symbols = origins.symbols(form)
        fixed = symbols <= origins.entries.keys() and symbols.isdisjoint(numbers)
        return fixed and origins.number(form, {}) == origins.size

    alike = {limit for ends in loops.ends.values() for limit, end in ends.items() if end == origins.size}
    ends = alike.difference(changed)
    return [loops.names[node] for node in sorted(ends.union(filter(stays, loops.computed)))]


# ---- parts ----------------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """The places of an axis that an op takes, as numbers of the file say."""

    low: int
    high: int
    bounds: tuple[int | FileNumber, ...]  # numbers that say so: traced ones, or what is to be traced


def _tie_parts(known: _Known) -> set[int]:
    """Equate the numbers by which ops cut an axis of a tensor into equal parts with multiples of a part.

    The axis has the batch, or a multiple of it, such as two views of each example. Parts are equal where the ops take
    all of the axis, each place once, in as many places each, and in more than one. Of others nothing says how they
    grow. The gradient of a slice puts a part back. Return the constants that are to be traced.
    """
    loops, found, origins = known
    parts: dict[tuple[int, int], dict[_Part, None]] = {}
    back: list[tuple[int, int, _Part]] = []
    for node, op in enumerate(loops.ops):
        inputs = loops.inputs[node]
        if len(inputs) != _CUTTING.get(op):
            continue
        tensor = loops.first[node] if op == "StridedSliceGrad" else inputs[0]
        for axis, whole in enumerate(found.shapes[tensor] or ()):
            if isinstance(whole, Traced) and whole and not whole % origins.size:
                for one in _parts(known, node, axis, int(whole)):
                    if op == "StridedSliceGrad":
                        back.append((tensor, axis, one))
                    else:
                        parts.setdefault((tensor, axis), {})[one] = None
    numbers = set[int]()
    for (tensor, axis), taken in parts.items():
        shape = found.shapes[tensor] or ()
        ranges = sorted({(one.low, one.high) for one in taken})
        count = len(ranges)
        part, rest = divmod(int(shape[axis]), max(count, 1))
        if count < 2 or part < 2 or rest or ranges != [(part * at, part * (at + 1)) for at in range(count)]:
            continue
        again = [one for other, at, one in back if at == axis and found.shapes[other] == shape and one[:2] in ranges]
        for bound in (bound for one in (*taken, *again) for bound in one.bounds):
            number = bound.number if isinstance(bound, FileNumber) else int(bound)
            entry = origins.told(*bound) if isinstance(bound, FileNumber) else bound
            origins.equate(entry, shape[axis] if number == shape[axis] else shape[axis] // count * (number // part))
            numbers.add(number)
    return numbers


def _parts(known: _Known, node: int, axis: int, size: int) -> Iterator[_Part]:
    """The places of an axis that an op takes; none if it takes all, at places that nothing says, or in other steps."""
    loops, found, _ = known
    op, attrs, inputs = loops.ops[node], loops.attrs[node], loops.inputs[node]
    constants = [loops.constant(tensor) for tensor in inputs[1:4]]
    values = [
        found.values[tensor] if whole is None else whole
        for tensor, (_, whole) in zip(inputs[1:4], constants, strict=True)
    ]
    vectors = [[one for one in value or () if isinstance(one, int) and one > SYMBOLS] for value in values]

    def bound(slot: int, place: int) -> tuple[int | FileNumber, ...]:
        number, (constant, whole) = vectors[slot][place], constants[slot]
        told = FileNumber(constant, "value", ELEMENT, place, number, len(vectors[slot])) if whole else number
        return (told,) * (number > 0)

    if not all(vectors):
        return
    if op == "SplitV":
        sizes = [size - sum(vectors[0]) - 1 if one == -1 else one for one in vectors[0]]  # -1: all that is left
        if vectors[1] == [axis]:
            for place, (low, high) in enumerate(pairwise(accumulate(sizes, initial=0))):
                yield _Part(low, high, bound(0, place))
    elif axis >= min(map(len, vectors)):
        return
    elif op == "Slice":
        low, rows = vectors[0][axis], vectors[1][axis]
        high = size if rows == -1 else low + rows
        if 0 <= low < high and high - low < size:
            yield _Part(low, high, (*bound(0, axis), *bound(1, axis)))
    elif vectors[2][axis] == 1 and not any(has_bit(attrs, mask, at) for mask in _REARRANGING for at in range(axis + 1)):
        begins, ends = has_bit(attrs, "begin_mask", axis), has_bit(attrs, "end_mask", axis)
        low, high = 0 if begins else vectors[0][axis], size if ends else vectors[1][axis]
        if 0 <= low < high and high - low < size:
            yield _Part(low, high, (*bound(0, axis) * (not begins), *bound(1, axis) * (not ends)))


def _uncut(known: _Known, numbers: Mapping[int, int]) -> list[str]:
    """Ops that take rows of examples, but as many of any batch, by constants of the file."""
    loops, found, origins = known

    def fixed(rows: int) -> bool:
        return rows > 1 and not origins.depends(form_of(rows), numbers)

    left = []
    for node, op in enumerate(loops.ops):
        whole = found.shapes[loops.inputs[node][0]] if op in _TAKING and loops.inputs[node] else None
        if whole and whole[0] > 1 and not fixed(whole[0]):
            taken = found.shapes[loops.first[node] : loops.first[node + 1]]
            if any(one and len(one) == len(whole) and fixed(one[0]) for one in taken):
                left.append(loops.names[node])
    return left


# ---- writing --------------------------------------------------------------------------------------------------------


def _changed(
    graph: Graph, declared: Sequence[Shape | None], edge: Sequence[int], changed: Mapping[FileNumber, int], note: str
) -> BatchChange:
    attrs = list(graph.attrs)
    of_node: dict[int, list[tuple[FileNumber, int]]] = {}
    for entry, number in changed.items():
        of_node.setdefault(entry.node, []).append((entry, number))
    for node, entries in of_node.items():
        try:
            attrs[node] = _rewritten(attrs[node], entries)
        except (OverflowError, _TooLarge):
            name = graph.names[node]
            raise GraphError(
                f"{graph.source}: {note}, but the numbers of {name!r} have no room for it", node=name
            ) from None
    sides = {(entry.node, max(entry.at, 0), entry.place): number for entry, number in changed.items()}
    first, source = graph.tensor_ptr.tolist(), graph.tensor_node.tolist()
    shapes: dict[int, Shape] = {}
    for row in edge:
        node, before = source[row], declared[row] or ()
        shape = tuple([sides.get((node, row - first[node], at), side) for at, side in enumerate(before)])
        if shape != before:
            shapes[row] = shape
    constants = sum(graph.ops[node] == "Const" for node in of_node)
    declaring = len(of_node) - constants - len({source[row] for row in shapes} & set(of_node))
    also = [counted(constants, "constant")] * (constants > 0) + [counted(declaring, "declared shape")] * (declaring > 0)
    if shapes:
        note += f" in the file's first dimension of {some([graph.tensor_name(row) for row in shapes])}"
    if also:
        note += f"{',' if shapes else ''} {'and ' if shapes else ''}in {' and '.join(also)}"
    return BatchChange(replace(graph, attrs=tuple(attrs)), sorted(of_node), shapes, note)


class _TooLarge(Exception):
    """A constant or dimension for another batch that no file could hold."""


def _rewritten(attrs: Attrs, entries: Sequence[tuple[FileNumber, int]]) -> Attrs:
    """The attributes with these numbers in the place of the file's. Raise where an attribute can't hold them."""
    if max(number for _, number in entries) > _MOST_SIDE:
        raise _TooLarge
    made = dict(attrs)
    for name in {entry.attr: None for entry, _ in entries if entry.attr}:
        made[name] = type(attrs[name])()
        made[name].CopyFrom(attrs[name])
        own = [(entry, number) for entry, number in entries if entry.attr == name]
        values = {entry.place: number for entry, number in own if entry.at == ELEMENT}
        sides = {entry.place: number for entry, number in own if entry.at == SINGLE}
        if name == "value":
            if values:
                found = [values.get(at, one) for at, one in enumerate(elements(attrs, 2**31) or ())]
                packed(made[name].tensor, found)
            if sides:
                _resized(made[name].tensor, sides)
        elif values:
            made[name].i = values[1]
        for entry, number in own:
            if entry.at >= 0:
                made[name].list.shape[entry.at].dim[entry.place].size = number
            elif entry.at == SINGLE and name != "value":
                made[name].shape.dim[entry.place].size = number
    return made


def _resized(tensor: Any, sides: Mapping[int, int]) -> None:  # Any: a TensorProto
    """Repeat or drop rows of a constant, so that it has these dimensions."""
    before = [int(dim.size) for dim in tensor.tensor_shape.dim]
    for axis, side in sides.items():
        tensor.tensor_shape.dim[axis].size = side
    count = prod(before)
    if prod(int(dim.size) for dim in tensor.tensor_shape.dim) > max(_MOST_ELEMENTS, count):
        raise _TooLarge
    if tensor.tensor_content:
        rows = np.frombuffer(tensor.tensor_content, np.uint8).reshape(*before, -1)
        tensor.tensor_content = _taken(rows, sides).tobytes()
        return
    for descriptor, listed in tensor.ListFields():
        if descriptor.name.endswith("_val") and len(listed) > 1 and count:
            values = np.empty(count, object)
            values[:] = [*listed, *[listed[-1]] * (count - len(listed))][:count]
            tensor.ClearField(descriptor.name)
            getattr(tensor, descriptor.name).extend(_taken(values.reshape(before), sides).reshape(-1).tolist())


def _taken(rows: Any, sides: Mapping[int, int]) -> Any:  # Any: an array of any type
    for axis, side in sides.items():
        rows = np.take(rows, np.arange(side) % rows.shape[axis], axis)
    return rows


# ---- programs -------------------------------------------------------------------------------------------------------


def check_programs(graph: Graph, shapes: Sequence[Shape | None]) -> None:
    """Raise GraphError where an argument of a program has another shape in `shapes` [T] than in the file.

    A program one of whose outputs has an open side takes other shapes (`polymorphic_shapes` of `jax2tf.convert`). So
    does one whose arguments have an open side in the file.
    """
    programs = [node for node, op in enumerate(graph.ops) if op in COMPILED]
    inputs = data_inputs(graph) if programs else []
    for node in programs:
        listed = graph.attrs[node]["Sout"].list.shape if "Sout" in graph.attrs[node] else ()
        if any(shape.unknown_rank or any(dim.size < 0 for dim in shape.dim) for shape in listed):
            continue
        before = [graph.tensor_shape[row] for row in inputs[node]]
        if any(map(is_open, before)):
            continue
        for row, old in zip(inputs[node], before, strict=True):
            new = shapes[row]
            if old is not None and new is not None and not is_open(new) and old != new:
                told, asked = (",".join(map(str, shape)) or "a scalar" for shape in (old, new))
                raise GraphError(
                    f"{graph.source}: {graph.names[node]!r} ({graph.ops[node]}) is a program that was compiled for "
                    f"{told} of {graph.tensor_name(row)!r}, and takes no {asked}; write it with an open batch, such as "
                    'polymorphic_shapes="(b, ...)" of jax2tf.convert',
                    node=graph.names[node],
                )
