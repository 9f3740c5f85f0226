"""Shapes and sizes of all tensors of a graph, for a batch and for feeds.

A file may have shapes (`_output_shapes`), with an unknown first dimension for the batch. At the edge of the graph
(placeholders, dequeues, iterators) the batch replaces it. All else follows by our own rules (`rules`, `propagation`),
whether TensorFlow is installed or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from simulator import limits
from simulator.columns import Ids, ids
from simulator.errors import GraphError
from simulator.graph.graph import Graph, Shape
from simulator.graph.op_classes import SWITCHES
from simulator.graph.tensors import SHAPES, shape_of, tensor_sizes
from simulator.shapes.batches import batch_change, check_programs
from simulator.shapes.dims import is_open, numbers
from simulator.shapes.feeds import blame, check_fed, checked_feeds, contradicts, fed_tensor, is_batch
from simulator.shapes.iterators import handed_out
from simulator.shapes.propagation import ARGUMENTS, LEGACY_PRODUCER, Inferred, edge_tensors, infer
from simulator.shapes.ragged import row_splits, rows_said
from simulator.shapes.rules import PASSING, PUTS, TAKES
from simulator.shapes.sparse import assumed, fed_shapes, rows_of_sparse, sparse_placeholders
from simulator.shapes.unknown import unsized
from simulator.units import is_whole
from simulator.wording import counted, some

BATCH = 1  # where a file leaves it open and nobody asks for another
_STRANGE = 20_160 * 9_973  # a batch that no file has, and that towers could share equally
_MOST_SIZES = 3  # of a file, that are tried for its batch
_STAGING = ("Stage", "Unstage", "Map", "OrderedMap")  # of what is put in or taken out by the name of an area
_DECLARING = ARGUMENTS | {"Variable", "VariableV2", "TemporaryVariable"}
MISTAKEN = frozenset(("FractionalMaxPool", "FractionalAvgPool", "TensorListElementShape"))
"""Ops whose kernels make another size than TensorFlow infers, and so another one than a file with its shapes says."""


def with_shapes(
    graph: Graph,
    *,
    batch: int | None = None,
    feeds: Mapping[str, Shape] = {},
    observed: Mapping[int, Shape] = {},
    apart: Collection[int] = (),
) -> Graph:
    """The same graph with the shapes of its tensors for that batch and these feeds.

    `feeds` gives the shape of a tensor, "node:port" or "node". The unknown first dimension of every other placeholder,
    dequeue and iterator is `batch`; row splits of ragged tensors have one more. By default an iterator has the batch of
    its dataset, and all else that of all datasets if they agree. Failing that, all else has as many as there are rows
    in row splits, else 1. Where the ops take no batch but that of other placeholders, it is that one. Where a file
    fixes that dimension, a batch that is asked for takes its place. All other shapes follow from these by the rules of
    the ops. A shape that the file gives counts, unless it hangs on a tensor whose shape is another than the file's.
    `observed` has the shapes that tensors really had, by their rows: they count before all rules. Tensors that are
    `apart`, as only steps of no interest feed them, keep a batch that the file fixes. Notes list the
    assumptions, and ops whose inputs do not fit together in the file itself.

    Raises GraphError for an unknown node or port, for another rank than the file's, for a negative dimension and for a
    batch below 1. It also raises it, with the op, where inputs do not fit together because of the feeds or the batch.
    """
    if batch is not None and (not is_whole(batch) or batch < 1):
        raise GraphError(f"a batch of {batch!r} is not possible; give a whole number from 1")
    if not isinstance(feeds, Mapping):
        raise GraphError(f"feeds maps the names of tensors to their shapes; it is {feeds!r}")
    declared = _declared(graph)
    given = {fed_tensor(graph, name): tuple(shape) for name, shape in checked_feeds(feeds).items()}
    for row, shape in given.items():
        check_fed(graph, row, declared[row], shape)
    graph, tied = _tied(graph, declared, {**given, **observed})
    before, declared = graph, _declared(graph)
    graph, changed = _rebatched(graph, declared, given, batch, apart)
    changed = [*tied, *changed]
    declared = _declared(graph)
    believed = _believed(graph, declared, given)
    handed, common = handed_out(graph, believed, {*given, *observed}) if batch is None else ({}, None)
    for row, shape in handed.items():
        believed[row] = shape
    splits = {row: given.get(row, believed[row]) for row in row_splits(graph, declared)}
    default = common or rows_said(splits) or BATCH
    asked = default if batch is None else batch
    for row in splits:
        believed[row] = (asked + 1,) if is_open(splits[row]) else splits[row]
    fed = sparse_placeholders(graph, declared)
    rows = rows_of_sparse(graph, declared, given, fed, batch, default)
    for one in fed:
        for row, shape in fed_shapes(one, believed, given, rows).items():
            believed[row] = shape
    for row, shape in observed.items():
        believed[row] = shape
    if not given and not observed and _complete(graph, declared):
        return _with(graph, declared, changed)
    found = infer(graph, given, believed, batch=asked, rows={one.shape: rows for one in fed})
    if found.clashes and not observed:  # what really ran fits together
        blame(before, _declared(before), found, given, batch)
    shapes = [numbers(shape) for shape in found.shapes]
    for row, shape in observed.items():
        shapes[row] = shape
    check_programs(before, shapes)
    notes = [*_noted(graph, found, asked, handed), *assumed(graph, declared, given, fed, rows)]
    edge = [shapes[row] for row in edge_tensors(graph)]
    if given and batch is not None and not changed and all(shape is None or shape[:1] != (batch,) for shape in edge):
        notes.append(f"batch {batch} changes nothing: what brings examples is fed other shapes")
    return _with(graph, shapes, [*notes, *changed])


def _tied(graph: Graph, declared: Sequence[Shape | None], given: Mapping[int, Shape]) -> tuple[Graph, list[str]]:
    """The graph whose open batch is that of its other inputs, and what is said of that.

    It is where the ops refuse a number of examples that the file does not have, and take that one.
    """
    edge = [row for row in edge_tensors(graph) if declared[row] and row not in given]
    opened = [row for row in edge if (declared[row] or ())[0] < 0]
    sizes = Counter(shape[0] for row in edge if (shape := declared[row]) and shape[0] > BATCH)
    if not opened or not sizes or row_splits(graph, declared) or sparse_placeholders(graph, declared):
        return graph, []
    believed = _believed(graph, declared, given)
    for row, shape in given.items():
        believed[row] = shape

    def fits(batch: int) -> bool:
        return not infer(graph, given, believed, batch=batch).clashes

    if fits(_STRANGE) or (size := next((one for one, _ in sizes.most_common(_MOST_SIZES) if fits(one)), None)) is None:
        return graph, []
    shapes = list(graph.tensor_shape)
    for row in opened:
        shapes[row] = (size, *(declared[row] or ())[1:])
    names = some(list(map(graph.tensor_name, opened)))
    return replace(graph, tensor_shape=tuple(shapes)), [
        f"the unknown first dimension of {names} is that of the file's other inputs, {size}"
    ]


def _rebatched(
    graph: Graph,
    declared: Sequence[Shape | None],
    given: Mapping[int, Shape],
    batch: int | None,
    apart: Collection[int],
) -> tuple[Graph, list[str]]:
    """The graph with the asked batch in the place of one that it fixes, and what is said of that."""
    other = {row: shape for row, shape in given.items() if not is_batch(declared[row], shape, batch)}
    change = "" if batch is None else batch_change(graph, _said(graph, declared), other, batch, apart)
    if isinstance(change, str):
        return graph, [change] * bool(change)
    shapes = list(graph.tensor_shape)
    first = graph.tensor_ptr.tolist()
    rows = [row for node in change.nodes for row in range(first[node], first[node + 1])]
    for row in (*rows, *_depending(graph, [*rows, *change.edge])):
        shapes[row] = None
    for row, shape in change.edge.items():
        shapes[row] = shape
    return replace(change.graph, tensor_shape=tuple(shapes)), [change.note]


def _said(graph: Graph, declared: Sequence[Shape | None]) -> list[Shape | None]:
    """[T] the shapes of tensors of which the file says one, and of those that come from outside.

    Sides that the file leaves open have the numbers of the batch or the feeds that were given before. The shape of any
    other tensor is one that an inference found, whose numbers nothing ties to the batch.
    """
    shapes: list[Shape | None] = [None] * len(declared)
    first = graph.tensor_ptr.tolist()
    for node, attrs in enumerate(graph.attrs):
        told = len(attrs[SHAPES].list.shape) if SHAPES in attrs else 0
        for row in range(first[node], min(first[node] + told, first[node + 1])):
            shapes[row] = declared[row]
    for row in edge_tensors(graph):
        shapes[row] = declared[row]
    return _declared(replace(graph, tensor_shape=tuple(shapes)))


def _with(graph: Graph, shapes: Sequence[Shape | None], notes: Sequence[str]) -> Graph:
    sizes, _ = tensor_sizes(graph.tensor_dtype.tolist(), shapes)
    return replace(
        graph, tensor_shape=tuple(shapes), tensor_bytes=sizes, notes=tuple(dict.fromkeys((*graph.notes, *notes)))
    )


def _declared(graph: Graph) -> list[Shape | None]:
    """[T] the file's shapes, else those that placeholders, variables and constants declare."""
    shapes = list(graph.tensor_shape)
    first = graph.tensor_ptr.tolist()
    for node, op in enumerate(graph.ops):
        if op in MISTAKEN:
            for row in _passed_on(graph, first[node], first[node + 1]):
                shapes[row] = None
        if op not in _DECLARING and op != "Const":
            continue
        row, attrs = first[node], graph.attrs[node]
        if first[node + 1] == row or shapes[row] is not None:
            continue
        if op in _DECLARING and "shape" in attrs:
            shape = shape_of(attrs["shape"].shape)
            legacy = op == "Placeholder" and graph.producer <= LEGACY_PRODUCER and shape == ()
            shapes[row] = None if legacy else shape
        elif op == "Const" and "value" in attrs:
            shapes[row] = shape_of(attrs["value"].tensor.tensor_shape)
    return shapes


def _passed_on(graph: Graph, first: int, end: int) -> list[int]:
    """The tensors from `first` on, and those that Identities and the like make of them."""
    reached, pending = set[int](), list(range(first, end))
    while pending:
        row = pending.pop()
        reached.add(row)
        readers = {
            int(graph.edge_dst[edge])
            for edge in graph.out_edges(int(graph.tensor_node[row]))
            if graph.edge_tensor[edge] == row
        }
        passed = {at for reader in readers if graph.ops[reader] in PASSING for at in graph.outputs(reader)}
        pending += sorted(passed - reached)
    return sorted(reached)


def _complete(graph: Graph, shapes: Sequence[Shape | None]) -> bool:
    """Whether the size of every tensor that is read or may be fetched is known, and every shape at the graph's edge."""
    sizes, _ = tensor_sizes(graph.tensor_dtype.tolist(), shapes)
    return not unsized(graph, sizes, ends=True).any() and not any(is_open(shapes[row]) for row in edge_tensors(graph))


def _believed(graph: Graph, declared: Sequence[Shape | None], given: Mapping[int, Shape]) -> list[Shape | None]:
    """[T] the shapes of the file that hold with these feeds: not those that hang on a contradicted one."""
    believed = list(declared)
    contradicted = [row for row, shape in given.items() if contradicts(shape, declared[row])]
    for row in _depending(graph, contradicted):
        believed[row] = None
    return believed


def _depending(graph: Graph, fed: Sequence[int]) -> list[int]:
    """Sorted tensors that depend on a fed one, without the fed ones."""
    if not fed:
        return []
    putting, taking = _stores(graph, PUTS), _stores(graph, TAKES)
    reached = np.zeros(len(graph.tensor_node), bool)
    reached[list(fed)] = True
    switches = [node for node, op in enumerate(graph.ops) if op in SWITCHES]
    shaping = graph.edge_tensor >= 0
    shaping[graph.in_ptr[switches] + 1] = False  # a predicate says nothing of the shape of what it lets pass
    while True:  # one round per level of the graph; a level costs a pass over the edges
        edges = shaping & reached[graph.edge_tensor]
        nodes = np.zeros(len(graph), bool)
        nodes[graph.edge_dst[edges]] = True
        nodes |= (taking >= 0) & np.isin(taking, putting[nodes & (putting >= 0)])  # no edge leads from one to the other
        wider = reached | nodes[graph.tensor_node]
        if (wider == reached).all():
            break
        reached = wider
    reached[list(fed)] = False
    return [int(row) for row in np.flatnonzero(reached)]


def _stores(graph: Graph, ops: Collection[str]) -> Ids:
    """[N] for nodes of these ops the node that makes the handle of what they put in or take out, else -1."""
    source, first, tensor = graph.tensor_node.tolist(), graph.in_ptr.tolist(), graph.edge_tensor.tolist()
    made = [-1] * len(graph)
    for node, op in enumerate(graph.ops):
        if op in ops:
            made[node] = node
            while not op.startswith(_STAGING) and (made[node] == node or graph.ops[made[node]] in PASSING):
                edge = first[made[node]]
                if edge == first[made[node] + 1] or tensor[edge] < 0 or source[tensor[edge]] == made[node]:
                    break
                made[node] = source[tensor[edge]]
            if op.startswith(_STAGING):
                made[node] = len(graph)  # they have a name instead of a handle
    return ids(made)


# --- what is said ----------------------------------------------------------------------------------------------------


def _noted(graph: Graph, found: Inferred, batch: int, handed: Mapping[int, Shape]) -> list[str]:
    notes = []
    for size in sorted({shape[0] for shape in handed.values()}):
        names = [graph.tensor_name(row) for row, shape in handed.items() if shape[0] == size]
        notes.append(f"batch {size}, as the dataset makes it, is the unknown first dimension of {some(names)}")
    if found.batched:
        fed = some(list(map(graph.tensor_name, found.batched)))
        notes.append(f"batch {batch} is the unknown first dimension of {fed}")
    if found.clashes:
        first = found.clashes[0]
        name, op = graph.names[first.node], graph.ops[first.node]
        refuse = "refuses its" if len(found.clashes) == 1 else "refuse their"
        notes.append(f"{counted(len(found.clashes), 'op')} {refuse} inputs, first {name!r} ({op}): {first.said}")
    if found.exhausted:
        limit = limits.BODY_NODES
        notes.append(f"shapes of more calls than {limit.most:,} nodes of functions are unknown; {limit.remedy}")
    return notes
