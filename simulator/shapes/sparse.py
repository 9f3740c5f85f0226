"""Placeholders of a sparse tensor: its indices, its values and its dense shape, of which TensorFlow feeds each apart.

The number of entries is the data's: a file leaves it open, and the batch is none of it. Three placeholders are
one tensor where an op takes them as such, or where TensorFlow has named them so (`tf.compat.v1.sparse_placeholder`). So
they are where they follow on each other as TensorFlow makes them and their shapes agree (`tf.SparseTensorSpec`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from simulator.graph.const_values import constant
from simulator.graph.dataflow import data_inputs
from simulator.graph.dtypes import INT64, base
from simulator.graph.graph import Graph, Shape
from simulator.graph.tensors import shape_of
from simulator.shapes.propagation import ARGUMENTS, edge_tensors
from simulator.shapes.rules import PASSING
from simulator.wording import some

_NONE = -1

# op -> the slots of indices, values and dense shape, for each sparse tensor that it takes; -1: it does not take that
_TRIPLE = (0, 1, 2)
_SLOTS: Mapping[str, Sequence[tuple[int, int, int]]] = {
    **dict.fromkeys(
        (
            *("SparseTensorDenseMatMul", "SparseReorder", "SparseFillEmptyRows", "SparseSoftmax", "SparseSlice"),
            *("SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse"),
            *("SparseDenseCwiseMul", "SparseDenseCwiseDiv", "SparseDenseCwiseAdd", "SparseTensorDenseAdd"),
            *("SerializeSparse", "SerializeManySparse", "AddSparseToTensorsMap", "AddManySparseToTensorsMap"),
            *("SparseTensorToCSRSparseMatrix", "SparseBincount", "SparseCountSparseOutput"),
        ),
        (_TRIPLE,),
    ),
    **dict.fromkeys(("SparseAdd", "SparseSparseMaximum", "SparseSparseMinimum", "EditDistance"), (_TRIPLE, (3, 4, 5))),
    "SparseToDense": ((0, 2, 1),),
    "SparseReshape": ((0, _NONE, 1),),
    **dict.fromkeys(("CTCLoss", "CTCLossV2"), ((1, 2, _NONE),)),
}
_NAMES = ("indices", "values", "shape")  # of `sparse_placeholder`, behind the tensor's own name
_ORDERS = ((0, 1, 2), (2, 1, 0))  # in which a SparseTensorSpec and `sparse_placeholder` make the three


class SparsePlaceholders(NamedTuple):
    """The tensors of the placeholders of a sparse tensor; -1 for one that the graph lacks."""

    indices: int  # [entries, rank]
    values: int  # [entries]
    shape: int  # [rank]


def sparse_placeholders(graph: Graph, declared: Sequence[Shape | None]) -> list[SparsePlaceholders]:
    """The sparse tensors that are fed, in the order of their indices; each placeholder belongs to one at most."""
    edge = [int(graph.tensor_ptr[node]) for node, op in enumerate(graph.ops) if op in ARGUMENTS]
    if not any(_may_be(graph, declared, row, 0) for row in edge):
        return []
    part_of: dict[int, int] = {}
    found = []
    reshaped = {tuple(row[:2]) for row, op in zip(data_inputs(graph), graph.ops, strict=True) if op == "SparseReshape"}
    beside = (one for one in _beside(edge) if _as_made(graph, one) or (one.indices, one.shape) in reshaped)
    for one in (*_named(graph, edge), *beside, *_read(graph, edge)):
        parts = {row: part for part, row in enumerate(one) if row >= 0}
        new = not part_of.keys() >= parts.keys()
        fits = all(
            _may_be(graph, declared, row, part) and part_of.get(row, part) == part for row, part in parts.items()
        )
        if new and fits and _agree(declared, one):
            part_of.update(parts)
            found.append(one)
    return sorted(found)


def fed_shapes(
    one: SparsePlaceholders, declared: Sequence[Shape | None], given: Mapping[int, Shape], rows: int
) -> dict[int, Shape]:
    """The shapes of the placeholders of a sparse tensor: as many entries as one is fed or declares, else `rows`.

    Without any rank it is a matrix.
    """
    known = [given.get(row, declared[row]) if row >= 0 else None for row in one]
    indices, values, shape = (sides or () for sides in known)
    entries = next((side for side in (*indices[:1], *values) if side >= 0), rows)
    rank = next((side for side in (*indices[1:], *shape) if side >= 0), 2)
    made = zip(one, ((entries, rank), (entries,), (rank,)), strict=True)
    return {row: sides for row, sides in made if row >= 0 and row not in given}


def _may_be(graph: Graph, declared: Sequence[Shape | None], row: int, part: int) -> bool:
    shape = declared[row]
    whole = part == 1 or base(int(graph.tensor_dtype[row])) == INT64
    return whole and (shape is None or len(shape) == (2 if part == 0 else 1))


def _agree(declared: Sequence[Shape | None], one: SparsePlaceholders) -> bool:
    """Whether numbers of entries and ranks are the same where they are known."""
    indices, values, shape = ((declared[row] if row >= 0 else None) or () for row in one)
    entries = [side for side in (*indices[:1], *values) if side >= 0]
    ranks = [side for side in (*indices[1:], *shape) if side >= 0]
    return len({*entries}) < 2 and len({*ranks}) < 2


def _as_made(graph: Graph, one: SparsePlaceholders) -> bool:
    """Whether the file leaves entries open and says the rank twice: other placeholders beside each other rarely do."""
    attrs = [graph.attrs[graph.tensor_node[row]] for row in one]
    indices, values, shape = ((shape_of(of["shape"].shape) or ()) if "shape" in of else () for of in attrs)
    return bool(indices and values and shape) and max(indices[0], values[0]) < 0 < shape[0] and indices[1:] == shape


def _named(graph: Graph, edge: Sequence[int]) -> Iterator[SparsePlaceholders]:
    """Placeholders with the names that `sparse_placeholder` gives."""
    by_name = {graph.names[graph.tensor_node[row]]: row for row in edge}
    for name in by_name:
        above, slash, last = name.rpartition("/")
        if slash and last == _NAMES[0] and f"{above}/{_NAMES[1]}" in by_name:
            yield SparsePlaceholders(*[by_name.get(f"{above}/{part}", _NONE) for part in _NAMES])


def _read(graph: Graph, edge: Sequence[int]) -> Iterator[SparsePlaceholders]:
    """Placeholders that an op takes as one sparse tensor, as they are or handed on."""
    inputs, fed = data_inputs(graph), frozenset(edge)
    for node, op in enumerate(graph.ops):
        for slots in _SLOTS.get(op, ()):
            taken = [inputs[node][slot] if 0 <= slot < len(inputs[node]) else _NONE for slot in slots]
            one = SparsePlaceholders(*[row if row < 0 else fed_behind(graph, inputs, row, fed) for row in taken])
            if one.indices >= 0 and one.values >= 0:
                yield one


def fed_behind(graph: Graph, inputs: Sequence[Sequence[int]], row: int, fed: Collection[int]) -> int:
    """The tensor of `fed` that is handed on to a tensor as it is, or cast; -1: there is none.

    `inputs` [N] are the tensors that each node reads.
    """
    seen = set[int]()
    while row not in fed and row not in seen:
        node = int(graph.tensor_node[row])
        if not inputs[node] or not _hands_on(graph.ops[node]):
            return _NONE
        seen.add(row)
        row = inputs[node][0]
    return row if row in fed else _NONE


def _hands_on(op: str) -> bool:
    return (op in PASSING and op != "IdentityN") or op == "Cast"


def _beside(edge: Sequence[int]) -> Iterator[SparsePlaceholders]:
    """Placeholders that follow on each other."""
    for (first, second), (_, third) in pairwise(pairwise(edge)):
        three = first, second, third
        for order in _ORDERS:
            yield SparsePlaceholders(*[three[part] for part in order])


# --- what is assumed -------------------------------------------------------------------------------------------------


def rows_of_sparse(
    graph: Graph,
    declared: Sequence[Shape | None],
    given: Mapping[int, Shape],
    fed: Sequence[SparsePlaceholders],
    batch: int | None,
    default: int,
) -> int:
    """How many rows sparse tensors have that do not say it: the batch, else as many as most tensors at the edge."""
    if batch is not None or not fed:
        return default if batch is None else batch
    of_sparse = {row for one in fed for row in one}
    shapes = [given.get(row, declared[row]) for row in edge_tensors(graph) if row not in of_sparse]
    sizes = Counter(shape[0] for shape in shapes if shape and shape[0] > 0)
    return sizes.most_common(1)[0][0] if sizes else default


def assumed(
    graph: Graph,
    declared: Sequence[Shape | None],
    given: Mapping[int, Shape],
    fed: Sequence[SparsePlaceholders],
    rows: int,
) -> list[str]:
    """A note on the sparse tensors of whose entries nothing is said."""
    said = [{row: given.get(row, declared[row]) for row in one[:2] if row >= 0} for one in fed]
    open_ones = [list(one) for one in said if not any(shape and shape[0] >= 0 for shape in one.values())]
    if not open_ones:
        return []
    names = some([graph.tensor_name(one[0]) for one in open_ones])
    asked = graph.tensor_name(open_ones[0][-1])
    each = "each of " * (len(open_ones) > 1)
    count = f"{rows:,} entr{'y' if rows == 1 else 'ies'}"
    return [
        f"{each}{names} belongs to a sparse tensor of {count}, one per example; give another number as a feed, "
        f"such as {asked}=ENTRIES"
    ]


def made_up_entries(
    graph: Graph, one: SparsePlaceholders, fed: Sequence[SparsePlaceholders]
) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Indices and dense shape of one of the sparse tensors that a graph is fed: sorted, as many in each row.

    A side is that of the default or of a constant, else the one that a product asks, else as long as the entries need.
    """
    entries, rank = graph.tensor_shape[one.indices] or (0, 2)
    rows = rows_of_sparse(graph, graph.tensor_shape, {}, fed, None, max(1, entries))
    told = _sides(graph, one, rank)
    told[:1] = [rows if told[0] < 0 else told[0]] * bool(rank)
    if not rank:
        return [()] * entries, ()
    rows = max(1, min(told[0], rows))
    sides = [max(1, side) for side in told[:-1]] + [told[-1] if told[-1] > 0 else max(1, -(-entries // rows))]
    inner = sides[-1] if rank > 1 else 1
    indices = []
    for entry in range(entries):
        row = entry * rows // max(1, entries)
        first = -(-row * entries // rows)
        indices.append((row, *[0] * (rank - 2), *[(entry - first) % inner] * (rank > 1)))
    return indices, tuple(sides)


def rows_in_file(graph: Graph, fed: Sequence[SparsePlaceholders]) -> int:
    """The rows that the file says of most of these sparse tensors, by a default or a constant; 0 where it says none."""
    told = [_sides(graph, one, (graph.tensor_shape[one.indices] or (0, 2))[1]) for one in fed]
    count = Counter(sides[0] for sides in told if sides and sides[0] > 0)
    return count.most_common(1)[0][0] if count else 0


def _sides(graph: Graph, one: SparsePlaceholders, rank: int) -> list[int]:
    """The sides of a sparse tensor: those of the default or of a constant, else what a product asks; -1: unknown."""
    told = [*_default(graph, one.shape, rank)] if one.shape >= 0 else [-1] * rank
    for place, side in _asked(graph, one):
        if place < rank and told[place] < 0:
            told[place] = side
    return told


def _default(graph: Graph, row: int, rank: int) -> tuple[int, ...]:
    """The sides that the default of a placeholder of a dense shape says, -1 for an open one."""
    node = int(graph.tensor_node[row])
    for source in graph.sources(node):
        found = constant(graph, source)
        if found is not None and len(found) == rank:
            return tuple(map(int, found))
    return (-1,) * rank


def _asked(graph: Graph, one: SparsePlaceholders) -> Iterator[tuple[int, int]]:
    """The sides that a constant dense shape says, or that the other factor of a product asks, with their places."""
    inputs = data_inputs(graph)
    for node, op in enumerate(graph.ops):
        for indices, _, shape in _SLOTS.get(op, ()):
            if max(indices, shape) < len(inputs[node]) and shape >= 0 and inputs[node][indices] == one.indices:
                sides = constant(graph, int(graph.tensor_node[inputs[node][shape]]))
                yield from enumerate(map(int, sides or ()))
    for node, op in enumerate(graph.ops):
        if op == "SparseTensorDenseMatMul" and inputs[node][0] == one.indices:
            flags = [
                bool(graph.attrs[node][name].b) for name in ("adjoint_a", "adjoint_b") if name in graph.attrs[node]
            ]
            across, turned = (*flags, False, False)[:2]
            dense = graph.tensor_shape[inputs[node][3]]
            if dense is not None and len(dense) == 2 and dense[turned] > 0:
                yield (0 if across else 1), dense[turned]
