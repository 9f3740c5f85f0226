"""The elements of datasets: their shapes, and the ops that lay so many of them side by side.

    RangeDataset ──MapDataset──▶ [784] ──BatchDatasetV2, 32──▶ [32, 784] ──PrefetchDataset──▶ IteratorGetNext

A file leaves the first dimension of a batch open where the last one may be smaller. Here all batches are full. Shapes
follow from the sources forward, through the functions of maps; the file's own say the rest. Whether a pipeline makes
what a step takes is seen in the shapes that come out, also with another batch than the file's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from simulator.errors import GraphError
from simulator.graph.const_values import constant
from simulator.graph.dataflow import sources_of, values_in
from simulator.graph.editor import Endpoint
from simulator.graph.graph import Graph, Shape
from simulator.graph.inlining.bodies import instantiate
from simulator.graph.inlining.expanding import inline
from simulator.graph.messages import Proto
from simulator.graph.tensors import completed, shape_of
from simulator.shapes.propagation import infer

Shapes: TypeAlias = tuple[Shape | None, ...]  # of an element's parts; a dimension of -1 is unknown
Batching: TypeAlias = tuple[
    str, str
]  # an op that makes batches: the function that it is in, "" for the graph; its name

HANDED_ON = r"Identity(N)?"
SOURCES = (
    r"(Tensor(Slice)?|SparseTensorSlice|Range|TFRecord|TextLine|FixedLengthRecord|CSV|(Experimental)?Random)"
    r"Dataset(V[0-9])?"
)
SAME = (  # an element of theirs is one of the dataset before them
    r"(Shuffle(AndRepeat)?|Repeat|Take|Skip|Options|Model|Optimize|AssertCardinality|AssertNext|"
    r"PrivateThreadPool|MaxIntraOpParallelism|IgnoreErrors|LatencyStats|BytesProducedStats|SetStatsAggregator|"
    r"NonSerializable|Finalize\w*|Filter(ByLastComponent)?|TakeWhile|Global\w*)Dataset(V[0-9])?"
)
CACHE, SLEEP, SHARD, PREFETCH = (
    r"CacheDataset(V[0-9])?",
    r"(Experimental)?SleepDataset",
    "ShardDataset",
    "PrefetchDataset",
)
MAP, PARALLEL_MAP = r"(Experimental)?MapDataset", r"ParallelMapDataset(V2)?"
MAP_AND_BATCH = r"(Experimental)?MapAndBatchDataset"
BATCH, PARALLEL_BATCH = r"(Padded)?BatchDataset(V2)?", "ParallelBatchDataset"
INNER, PARALLEL_INNER = (
    r"(FlatMap|Interleave)Dataset",
    r"(Legacy|Experimental)?ParallelInterleaveDataset(V[234])?",
)
ZIP, CONCATENATE = "ZipDataset", "ConcatenateDataset"
UNBATCH = r"(Experimental)?UnbatchDataset"

_DEEPEST = 16  # datasets within functions of datasets; the elements of further ones are as declared


class Function(NamedTuple):
    """A function of a dataset, with its calls expanded."""

    graph: Graph
    arguments: tuple[int, ...]  # rows
    results: tuple[Endpoint, ...]


@dataclass(frozen=True, eq=False)
class Functions:
    """The functions of a graph's datasets, each made ready once."""

    library: Mapping[str, Proto]
    source: str
    _ready: dict[tuple[str, bytes], Function] = field(default_factory=dict, init=False)
    _results: dict[tuple[int, Shapes], Shapes] = field(default_factory=dict, init=False)

    def of(self, called: Proto) -> Function:
        """The function that an attribute names. Raises GraphError."""
        key = (called.name, called.SerializeToString(deterministic=True))
        if key not in self._ready:
            if called.name not in self.library:
                raise GraphError(f"the function {called.name!r} is not in the graph")
            body = instantiate(self.library[called.name], dict(called.attr), self.library, self.source)
            names, graph = body.graph.names, inline(body.graph)
            kept = [*names[: len(body.argument_types)], *(names[row] for row, _ in body.results)]
            if not set(kept) <= graph.index.keys():
                raise GraphError(f"the function {called.name!r} can't be followed")
            arguments = tuple([graph.index[name] for name in kept[: len(body.argument_types)]])
            results = tuple([(graph.index[names[row]], port) for row, port in body.results])
            self._ready[key] = Function(graph, arguments, results)
        return self._ready[key]

    def results(self, called: Proto, arguments: Shapes) -> Shapes:
        """The shapes that a function hands back for arguments of these shapes. Raises GraphError."""
        function = self.of(called)
        key = (id(function), arguments)
        if key not in self._results:
            graph = function.graph
            believed: list[Shape | None] = [None] * len(graph.tensor_node)
            for row, shape in zip(function.arguments, arguments, strict=False):
                believed[graph.tensor_ptr[row]] = shape
            found = infer(graph, {}, believed).shapes
            rows = [int(graph.tensor_ptr[row]) + port for row, port in function.results]
            self._results[key] = tuple([_numbers(found[row]) for row in rows])
        return self._results[key]


@dataclass(frozen=True, eq=False)
class Elements:
    """The elements of the datasets of a graph, or of one of its functions."""

    graph: Graph
    functions: Functions
    within: tuple[str, ...] = ()  # the functions around these datasets, the innermost one last
    sizes: Mapping[Batching, int] = field(default_factory=dict)  # batches in the place of the file's
    _makers: dict[str, tuple[Elements, int]] = field(default_factory=dict)  # of each function that makes a dataset
    _made: dict[int, Shapes] = field(default_factory=dict, init=False)

    def shapes(self, row: int) -> Shapes:
        """The shapes of the parts of an element of that dataset; none where nothing says how many parts there are."""
        pending = [row]
        while pending:
            at = pending[-1]
            left = [] if at in self._made else [one for one in self.before(at) if one not in self._made]
            if not left:
                self._made[at] = self._shapes(at)
                pending.pop()
            pending += left
        return self._made[row]

    def before(self, row: int) -> list[int]:
        """The datasets of which one is made."""
        found = _kind(self.graph.ops[row])
        return [] if found is None else [one for one in sources_of(self.graph, row)[: found.datasets] if one != row]

    def size(self, row: int) -> int | None:
        """The number of elements in a batch of that op; None: it is computed."""
        sources, kind = sources_of(self.graph, row), _kind(self.graph.ops[row])
        slot = kind.batch if kind is not None else 0
        found = constant(self.graph, sources[slot]) if -len(sources) <= slot < len(sources) else None
        given = int(found[0]) if found is not None and len(found) == 1 and found[0] >= 1 else None
        return self.sizes.get(self._key(row), given)

    def arguments(self, row: int) -> Shapes:
        """The shapes of what a dataset's function is given: an element of the dataset before, and what it captures."""
        edges = values_in(self.graph, row)
        return (*self.shapes(sources_of(self.graph, row)[0]), *[self._tensor(edge) for edge in edges[1:]])

    def inside(self, called: Proto) -> tuple[Elements, int]:
        """The datasets of a function that makes one, and the row of that one. Raises GraphError."""
        if len(self.within) == _DEEPEST or called.name in self.within:
            raise GraphError(f"the function {called.name!r} is within too many others")
        if called.name not in self._makers:
            function = self.functions.of(called)
            if not function.results:
                raise GraphError(f"the function {called.name!r} makes no dataset")
            inner = Elements(function.graph, self.functions, (*self.within, called.name), self.sizes, self._makers)
            self._makers[called.name] = inner, function.results[0][0]
        return self._makers[called.name]

    def making(self, row: int, taken: Sequence[Shape | None]) -> Elements | None:
        """The same, with the batch for which an element of that dataset has the first dimensions of what is taken.

        It is the first batch that does so from the end of the pipeline on. Else it is several of one size together, as
        of datasets that are zipped. None: there is no such batch, or nothing says what comes of it. Dimensions of what
        is taken may be unknown.
        """
        pairs = [(made, one[0]) for made, one in zip(self.firsts(row), taken, strict=False) if one and one[0] >= 0]
        wrong = next(((made, one) for made, one in pairs if made != one), None)
        if wrong is None:
            return self
        made, wanted = wrong
        batches = dict(self._batches(row))
        if made < 0 and not batches:
            return self  # an element is an example, of a size that is unknown
        alone = [[key] for key in batches]
        alike = [[key for key, size in batches.items() if size == one] for one in dict.fromkeys(batches.values())]
        for keys in (*alone, *(keys for keys in alike if len(keys) > 1)):
            sizes = {key: self._scaled(batches[key], made, wanted) for key in keys}
            other = replace(self, sizes={**self.sizes, **sizes}, _makers={})
            firsts = other.firsts(row)
            if all(one[0] == first for first, one in zip(firsts, taken, strict=False) if one and one[0] >= 0):
                return other
        return None

    def _scaled(self, size: int | None, made: int, wanted: int) -> int:
        return wanted if size is None or made < 1 else max(1, size * wanted // made)

    def firsts(self, row: int) -> list[int]:
        """The first dimensions of an element's parts; -1: unknown, or there is none."""
        return [shape[0] if shape else -1 for shape in self.shapes(row)]

    def _batches(self, row: int) -> Iterator[tuple[Batching, int | None]]:
        """The ops that make batches, from the end of the pipeline on, and their sizes; sources of batches come last."""
        sources = list[tuple[Batching, int]]()
        pending: list[tuple[Elements, int]] = [(self, row)]
        seen = {self._key(row)}
        for of, at in pending:
            kind = _kind(of.graph.ops[at])
            if kind is not None and kind.batch:
                yield of._key(at), of.size(at)
            elif re.fullmatch(SOURCES, of.graph.ops[at]) and (first := next(iter(of.firsts(at)), -1)) > 0:
                sources.append((of._key(at), first))
            more = [(of, one) for one in of.before(at)]
            if kind is not None and kind.inner:
                with suppress(GraphError, KeyError):  # there is no such function
                    more.insert(0, of.inside(of.graph.attrs[at]["f"].func))
            pending += [one for one in more if one[0]._key(one[1]) not in seen]
            seen.update(one._key(there) for one, there in more)
        yield from sources

    def _key(self, row: int) -> Batching:
        return self.within[-1] if self.within else "", self.graph.names[row]

    def _tensor(self, edge: int) -> Shape | None:
        """The shape of a captured tensor."""
        tensor, node = int(self.graph.edge_tensor[edge]), int(self.graph.edge_src[edge])
        known, attrs = self.graph.tensor_shape[tensor], self.graph.attrs[node]
        if known is None and self.graph.ops[node] == "Const" and "value" in attrs:
            return shape_of(attrs["value"].tensor.tensor_shape)
        return known

    def _declared(self, row: int) -> Shapes:
        attrs = self.graph.attrs[row]
        return tuple([shape_of(one) for one in attrs["output_shapes"].list.shape]) if "output_shapes" in attrs else ()

    def _shapes(self, row: int) -> Shapes:
        kind, declared = _kind(self.graph.ops[row]), self._declared(row)
        try:
            found = kind.shapes(self, row) if kind is not None else self._source(row)
        except (GraphError, KeyError, IndexError):  # what has no such inputs or functions is refused where it is priced
            found = ()
        if not declared or not found:
            return declared or found
        return tuple([completed(found[at] if at < len(found) else None, one) for at, one in enumerate(declared)])

    # ---- by the kind of dataset -------------------------------------------------------------------------------------

    def _source(self, row: int) -> Shapes:
        declared, other = self._declared(row), self.sizes.get(self._key(row))
        first = next((shape[0] for shape in declared if shape), -1)
        return tuple([(other, *one[1:]) if other is not None and one and one[0] == first else one for one in declared])

    def _same(self, row: int) -> Shapes:
        return self._made[self.before(row)[0]]

    def _batch(self, row: int) -> Shapes:
        return self._together(row, self._same(row))

    def _together(self, row: int, each: Shapes) -> Shapes:
        size, declared = self.size(row), self._declared(row)
        inner = each or tuple([one[1:] if one else None for one in declared])
        return tuple([None if one is None else (-1 if size is None else size, *one) for one in inner])

    def _padded(self, row: int) -> Shapes:
        """As a batch; the file declares the size to which elements are padded, else they have one size."""
        found = self._batch(row)
        declared = self._declared(row)
        return tuple([completed(one and (-1, *one[1:]), made) for one, made in zip(declared, found, strict=False)])

    def _mapped(self, row: int) -> Shapes:
        return self.functions.results(self.graph.attrs[row]["f"].func, self.arguments(row))

    def _mapped_together(self, row: int) -> Shapes:
        return self._together(row, self._mapped(row))

    def _inner(self, row: int) -> Shapes:
        inner, made = self.inside(self.graph.attrs[row]["f"].func)
        return inner.shapes(made)

    def _side_by_side(self, row: int) -> Shapes:
        return tuple([shape for one in self.before(row) for shape in self._made[one]])

    def _taken_apart(self, row: int) -> Shapes:
        return tuple([one[1:] if one else None for one in self._same(row)])


class _Kind(NamedTuple):
    """A kind of dataset that is made of others."""

    shapes: Callable[[Elements, int], Shapes]
    datasets: int | None = 1  # how many of its inputs are datasets; None: all
    batch: int = 0  # the slot of a batch's size; 0: it makes no batch
    inner: bool = False  # whether its function makes datasets


_KINDS = [
    (re.compile(pattern), kind)
    for pattern, kind in (
        (f"{HANDED_ON}|{SAME}|{CACHE}|{SLEEP}|{SHARD}|{PREFETCH}|{CONCATENATE}", _Kind(Elements._same)),
        (r"PaddedBatchDataset(V2)?", _Kind(Elements._padded, batch=1)),
        (f"{BATCH}|{PARALLEL_BATCH}", _Kind(Elements._batch, batch=1)),
        (f"{MAP}|{PARALLEL_MAP}", _Kind(Elements._mapped)),
        (MAP_AND_BATCH, _Kind(Elements._mapped_together, batch=-3)),
        (f"{INNER}|{PARALLEL_INNER}", _Kind(Elements._inner, inner=True)),
        (ZIP, _Kind(Elements._side_by_side, None)),
        (UNBATCH, _Kind(Elements._taken_apart)),
    )
]


def _kind(op: str) -> _Kind | None:
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(op)), None)


def _numbers(shape: Shape | None) -> Shape | None:
    return None if shape is None else tuple([max(side, -1) for side in shape])
