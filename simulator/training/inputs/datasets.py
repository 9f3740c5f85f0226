"""The rate of an iterator, by the datasets behind it, one after the other.

A dataset makes an element on request, in the thread that asks, from elements of the datasets before it. Where threads
work ahead (a prefetch, anything parallel) the asker waits only if they are slower. So there are two figures per
dataset: the time of an element in the asking thread, and that of the slowest threads that work ahead. Sources:
tensorflow/core/kernels/data/, each dataset's `GetNextInternal`; for TensorFlow's rewrites (a map without state becomes
parallel, a prefetch comes last) tensorflow/core/data/dataset_utils.cc.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simulator.errors import SimvizError
from simulator.graph import ops
from simulator.graph.const_values import elements
from simulator.graph.graph import Graph, Shape
from simulator.graph.inlining.bodies import Body, instantiate
from simulator.graph.tensors import shape_of
from simulator.shapes.filling import with_shapes
from simulator.training.inputs.core_costs import CALL_NS, ELEMENT_NS, Processor, core_ns, hidden, work
from simulator.training.inputs.pipeline import Producer, UnknownRateError
from simulator.training.recognition.dataflow import sources_of
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.graph.messages import Proto

AUTOTUNE = -1
_ENDS = frozenset(("_Arg", "_Retval"))  # TensorFlow registers them as if they had state
AUTOTUNED_BUFFER = 2  # elements that a prefetch begins with where TensorFlow tunes it
TF_DATA = "tf.data"  # in `Producer.work`: its own work

_KEPT = re.compile(  # an element of theirs is one of the dataset before them
    r"(Shuffle(AndRepeat)?|Repeat|Take|Skip|Options|Model|Optimize|AssertCardinality|AssertNext|PrivateThreadPool|"
    r"MaxIntraOpParallelism|IgnoreErrors|LatencyStats|BytesProducedStats|SetStatsAggregator|NonSerializable|"
    r"Finalize\w*|Random\w*|Filter(ByLastComponent)?|TakeWhile|Global\w*)Dataset(V[0-9])?"
)
_CACHE = re.compile(r"CacheDataset(V[0-9])?")
_READ = re.compile(r"(Tensor(Slice)?|SparseTensorSlice|Range|TFRecord|TextLine|FixedLengthRecord|CSV)Dataset(V[0-9])?")
_MAP = re.compile(r"(Experimental)?MapDataset")
_SLEEP = re.compile(r"(Experimental)?SleepDataset")
_PARALLEL_MAP = re.compile(r"ParallelMapDataset(V2)?")
_MAP_AND_BATCH = re.compile(r"(Experimental)?MapAndBatchDataset")
_BATCH = re.compile(r"(Padded)?BatchDataset(V2)?")
_PARALLEL_BATCH = re.compile(r"ParallelBatchDataset")
_PREFETCH = re.compile(r"PrefetchDataset")
_INNER = re.compile(r"(FlatMap|Interleave)Dataset")
_PARALLEL_INNER = re.compile(r"(Legacy|Experimental)?ParallelInterleaveDataset(V[234])?")
_ZIP = re.compile(r"(Zip|Concatenate)Dataset")
_SHARD = re.compile(r"ShardDataset")
_UNBATCH = re.compile(r"(Experimental)?UnbatchDataset")


@dataclass(frozen=True, slots=True)
class _Flow:
    """The time that an element of a dataset takes."""

    asker_ns: Nanos  # in the thread that asks for it
    ahead_ns: Nanos  # between two elements of the slowest threads that work ahead
    buffer: int  # elements that these have room for; 0: no thread works ahead
    taken: Counter[str]  # op -> work of one core


@dataclass(frozen=True)
class Datasets:
    """The datasets of a client's graph."""

    graph: Graph
    where: Processor

    def producer(self, iterator: int) -> tuple[Producer, int]:
        """The threads that make the elements of the iterator of that row, and the elements that it has room for.

        Of several datasets that are made into it in turn the first counts. Raises UnknownRateError.
        """
        graph = self.graph
        factory = graph.attrs[iterator].get("dataset_factory")
        if factory is not None:
            body = self._body(factory.func, [])
            flow = self._inside(body).flow(body.results[0][0])
        else:
            made = [
                row for row, op in enumerate(graph.ops) if op == "MakeIterator" and iterator in sources_of(graph, row)
            ]
            if not made:
                raise UnknownRateError("its dataset is not in the graph")
            flow = self.flow(sources_of(graph, made[0])[0])
        period_ns = max(flow.ahead_ns, flow.asker_ns)
        return Producer(1, period_ns, 1, flow.taken), flow.buffer or AUTOTUNED_BUFFER

    def flow(self, row: int) -> _Flow:
        """The time of an element of the dataset of that row. Raises UnknownRateError."""
        op, graph = self.graph.ops[row], self.graph
        if op in ("Identity", "IdentityN"):
            return self.flow(sources_of(graph, row)[0])
        if _READ.fullmatch(op):
            return _Flow(ELEMENT_NS, 0, 0, Counter({TF_DATA: ELEMENT_NS}))
        known: tuple[tuple[re.Pattern[str], Callable[[int], _Flow]], ...] = (
            (_KEPT, self._before),
            (_CACHE, lambda _: _Flow(0, 0, 0, Counter())),  # after the first epoch
            (_MAP, self._map),
            (_SLEEP, self._sleep),
            (_PARALLEL_MAP, lambda at: self._in_parallel(at, self._calls(at, -1))),
            (_MAP_AND_BATCH, self._map_and_batch),
            (_BATCH, self._several),
            (_PARALLEL_BATCH, lambda at: _ahead(self._several(at), AUTOTUNED_BUFFER)),
            (_PREFETCH, self._prefetch),
            (_INNER, self._inner),
            (_PARALLEL_INNER, self._parallel_inner),
            (_ZIP, self._zip),
            (_SHARD, self._several),
            (_UNBATCH, self._unbatch),
        )
        for pattern, found in known:
            if pattern.fullmatch(op):
                return _and(found(row), ELEMENT_NS)
        raise UnknownRateError(f"{graph.names[row]!r} is a {op}")

    def _before(self, row: int) -> _Flow:
        return self.flow(sources_of(self.graph, row)[0])

    def _map(self, row: int) -> _Flow:
        body = self._body(self.graph.attrs[row]["f"].func, self._arguments(row))
        if not any(ops.is_stateful(op) for op in body.graph.ops if op not in _ENDS):
            return self._in_parallel(row, self.where.cores)
        called = self._called(row)
        return _plus(self._before(row), called, called.total())

    def _sleep(self, row: int) -> _Flow:
        nanos = 1000 * self._number(row, 1, least=0)
        return _plus(self._before(row), Counter({self.graph.ops[row]: nanos}), nanos)

    def _in_parallel(self, row: int, calls: int) -> _Flow:
        called = self._called(row)
        made = _ahead(self._before(row), calls)
        return replace(
            made,
            ahead_ns=max(made.ahead_ns, -(-called.total() // min(calls, self.where.cores))),
            taken=made.taken + called,
        )

    def _map_and_batch(self, row: int) -> _Flow:
        batch, calls = self._number(row, -3), self._calls(row, -2)
        return _times(self._in_parallel(row, calls * batch), batch)

    def _several(self, row: int) -> _Flow:
        """One element of so many before."""
        return _times(self._before(row), self._number(row, 1))

    def _prefetch(self, row: int) -> _Flow:
        buffer = self._number(row, 1, least=AUTOTUNE)
        return (
            _ahead(self._before(row), AUTOTUNED_BUFFER if buffer == AUTOTUNE else buffer)
            if buffer
            else self._before(row)
        )

    def _inner(self, row: int) -> _Flow:
        """Elements of the datasets that a function makes; the time of making a dataset is left out."""
        body = self._body(self.graph.attrs[row]["f"].func, self._arguments(row))
        return self._inside(body).flow(body.results[0][0])

    def _parallel_inner(self, row: int) -> _Flow:
        calls = self._calls(row, -1) if self.graph.ops[row].endswith(("V2", "V3", "V4")) else self._number(row, -5)
        made = self._inner(row)
        each = -(-max(made.asker_ns, made.ahead_ns) // min(calls, self.where.cores))
        return _Flow(0, each, calls, made.taken)

    def _zip(self, row: int) -> _Flow:
        found = [self.flow(source) for source in sources_of(self.graph, row)]
        if self.graph.ops[row].startswith("Concatenate"):
            return found[0]
        return _Flow(
            sum(one.asker_ns for one in found),
            max(one.ahead_ns for one in found),
            min(one.buffer for one in found),
            sum([one.taken for one in found], Counter()),
        )

    def _unbatch(self, row: int) -> _Flow:
        shapes = self.graph.attrs[sources_of(self.graph, row)[0]]["output_shapes"].list.shape
        shape = shape_of(shapes[0]) if len(shapes) else None
        if not shape or shape[0] < 1:
            raise UnknownRateError(f"{self.graph.names[row]!r} takes batches of unknown size apart")
        before, size = self._before(row), shape[0]
        taken = Counter({op: nanos // size for op, nanos in before.taken.items()})
        return _Flow(before.asker_ns // size, before.ahead_ns // size, before.buffer * size, taken)

    # ---- inputs and functions of a dataset --------------------------------------------------------------------------

    def _number(self, row: int, slot: int, *, least: int = 1) -> int:
        """The whole number in that slot; a slot below 0 counts from the last. Raises UnknownRateError."""
        sources = sources_of(self.graph, row)
        source = sources[slot] if -len(sources) <= slot < len(sources) else None
        found = elements(self.graph.attrs[source]) if source is not None and self.graph.ops[source] == "Const" else None
        if found is None or len(found) != 1 or found[0] < least:
            raise UnknownRateError(f"a number that {self.graph.names[row]!r} is given is not in the graph")
        return int(found[0])

    def _calls(self, row: int, slot: int) -> int:
        """The number of calls that run at once; all cores where TensorFlow tunes that."""
        calls = self._number(row, slot, least=AUTOTUNE)
        return calls if calls > 0 else self.where.cores

    def _arguments(self, row: int) -> list[Shape | None]:
        """The shapes of an element of the dataset before, the first arguments of a function."""
        attrs = self.graph.attrs[sources_of(self.graph, row)[0]]
        return [shape_of(one) for one in attrs["output_shapes"].list.shape] if "output_shapes" in attrs else []

    def _called(self, row: int) -> Counter[str]:
        """The time of a call of a dataset's function on one core, by op."""
        body = self._body(self.graph.attrs[row]["f"].func, self._arguments(row))
        unseen = hidden(body.graph, range(len(body.graph)))
        if unseen is not None:
            raise UnknownRateError(f"what Python computes in {unseen!r} is not in the graph")
        taken = work(body.graph, core_ns(body.graph, self.where), range(len(body.graph)))
        taken[TF_DATA] += CALL_NS
        return taken

    def _body(self, function: Proto, shapes: Sequence[Shape | None]) -> Body:
        from simulator.graph.inlining import inline

        if function.name not in self.graph.library:
            raise UnknownRateError(f"the function {function.name!r} is not in the graph")
        attrs: Mapping[str, Proto] = dict(function.attr)
        try:
            body = instantiate(self.graph.library[function.name], attrs, self.graph.library, self.graph.source)
            kept = {body.graph.names[row] for row, _ in body.results}
            graph = inline(body.graph)
            given = {
                f"{body.graph.names[at]}:0": shape
                for at, shape in enumerate(shapes[: len(body.argument_types)])
                if shape is not None and all(size >= 0 for size in shape)
            }
            graph = with_shapes(graph, feeds=given)
        except SimvizError as error:
            raise UnknownRateError(f"the function {function.name!r} can't be read: {error}") from None
        if not kept <= set(graph.index):
            raise UnknownRateError(f"the function {function.name!r} can't be followed")
        results = tuple((graph.index[body.graph.names[row]], port) for row, port in body.results)
        return replace(body, graph=graph, results=results)

    def _inside(self, body: Body) -> Datasets:
        return replace(self, graph=body.graph)


def _plus(flow: _Flow, called: Counter[str], nanos: Nanos) -> _Flow:
    return replace(flow, asker_ns=flow.asker_ns + nanos, taken=flow.taken + called)


def _and(flow: _Flow, nanos: Nanos) -> _Flow:
    return _plus(flow, Counter({TF_DATA: nanos}), nanos)


def _times(flow: _Flow, count: int) -> _Flow:
    """The time of so many elements together."""
    taken = Counter({op: count * nanos for op, nanos in flow.taken.items()})
    return _Flow(count * flow.asker_ns, count * flow.ahead_ns, flow.buffer // count, taken)


def _ahead(flow: _Flow, buffer: int) -> _Flow:
    """The flow of a thread that works ahead of the asking one."""
    return replace(flow, asker_ns=0, ahead_ns=max(flow.ahead_ns, flow.asker_ns), buffer=buffer + flow.buffer)
