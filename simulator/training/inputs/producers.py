"""Producers of elements: the threads that fill an input, and the time that they take, by the ops that they run.

    filenames ──▶ queue ──read, decode──▶ queue ──dequeue, batch──▶ queue ──dequeue──▶ the step

A QueueRunner has a thread for each of its enqueues (tensorflow/python/training/queue_runner_impl.py). Where the file
lists no queue runners, each enqueue of the graph is taken to be run by one thread. A chain of queues is as fast as its
slowest queue; in the long run it does not matter how far the others are ahead.

An iterator takes from datasets, one after the other. A dataset makes an element on request, in the thread that asks,
from elements of the datasets before it. Where threads work ahead (a prefetch, anything parallel) the asker waits only
if they are slower. So there are two figures per dataset: the time of an element in the asking thread, and that of the
slowest threads that work ahead. Sources: tensorflow/core/kernels/data/, each dataset's `GetNextInternal`; for
TensorFlow's rewrites (a map without state becomes parallel, a prefetch comes last)
tensorflow/core/data/dataset_utils.cc.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from simulator.cluster.cluster import Cluster, Device
from simulator.cluster.devicespec import parse
from simulator.costs.estimate import estimate
from simulator.costs.table import MEASURED
from simulator.errors import SimvizError
from simulator.graph import ops
from simulator.graph.const_values import constant
from simulator.graph.dataflow import sources_of
from simulator.graph.graph import Graph, Shape
from simulator.graph.traversal import PLACEHOLDERS, fan_in
from simulator.shapes import datasets
from simulator.shapes.datasets import Elements, Function
from simulator.shapes.filling import with_shapes
from simulator.shapes.unknown import unsized
from simulator.training.recognition.sync_ops import DEQUEUE, ENQUEUE, UNKNOWN, SyncOp, operations
from simulator.units import SECOND_NS, Nanos

if TYPE_CHECKING:
    from simulator.costs.profile import Profile
    from simulator.costs.table import CostTable


class UnknownRateError(Exception):
    """The rate of an input is unknown; the message says why."""


@dataclass(frozen=True, slots=True)
class Producer:
    """Threads that make items: each takes `period_ns` for an item of so many elements."""

    threads: int
    period_ns: Nanos
    item: int = 1
    work: Mapping[str, Nanos] | None = None  # op -> its time for an item on one core; None: the rate was given
    stage: str = ""  # the slowest queue or dataset, where it is not the one that is read
    vague: tuple[str, ...] = ()  # datasets whose functions have tensors of unknown size, which count no work

    @property
    def elements_per_s(self) -> float:
        """The rate at which these threads work if nothing hinders them."""
        return self.threads * self.item * SECOND_NS / max(1, self.period_ns)

    def largest(self) -> tuple[str, float] | None:
        """The op that takes most of the work, and its share of it; None: nothing is known."""
        total = sum(self.work.values()) if self.work else 0
        if not self.work or not total:
            return None
        op = max(sorted(self.work), key=lambda one: self.work[one] if self.work else 0)
        return op, self.work[op] / total


def together(producers: Sequence[Producer]) -> Producer:
    """The producers of one queue as one: all their threads, their summed rate, the items and work of the first."""
    if len(producers) == 1:
        return producers[0]
    threads = sum(one.threads for one in producers)
    rate = sum(one.elements_per_s for one in producers)
    period_ns = round(threads * producers[0].item * SECOND_NS / rate) if rate else producers[0].period_ns
    return replace(producers[0], threads=threads, period_ns=period_ns)


# ---- the ops of an input pipeline in one thread ---------------------------------------------------------------------
# The cost table prices an op of a CPU as the work of all its cores, as far as they share it. Threads of an input
# pipeline run beside each other and beside the steps. So their ops are priced for a processor of one core. Measured
# times are taken as they are.

# Times of a thread around its ops, measured with TensorFlow 2.21 on one x86 machine in 2026 as processor time.
RUN_NS: Nanos = 28_000  # a queue runner's `Session.run`; Python lets one of a process's threads do so at a time
CALL_NS: Nanos = 25_000  # tf.data's call of a function for one element
ELEMENT_NS: Nanos = 1_300  # tf.data's handing an element from one dataset to the next

_PYTHON = re.compile(r"(Eager)?PyFunc(Stateless)?")


class Processor(NamedTuple):
    """The CPU on which a pipeline works."""

    device: int  # row of Cluster.devices
    model: Device
    column: int  # of CostTable.run_ns

    @property
    def cores(self) -> int:
        """The number of threads that run at once."""
        return self.model.cores * self.model.lanes


def processor(cluster: Cluster, task: str) -> Processor:
    """The host CPU of a task."""
    rows = [row for row, device in enumerate(cluster.devices) if device.task == task]
    row = int(cluster.home[rows[0]])
    return Processor(row, cluster.devices[row], cluster.kind_of[row])


@lru_cache(maxsize=16)
def _core(model: Device) -> Cluster:
    """A cluster of one core of that device."""
    share = model.cores
    core = replace(
        model,
        flop_per_s=max(1, model.flop_per_s // share),
        bytes_per_s=max(1, model.bytes_per_s // share),
        peaks=model.peaks.scaled(1, share),
        cores=1,
    )
    return Cluster((core,), (), (((),),))


def core_ns(
    graph: Graph, where: Processor, costs: CostTable | None = None, profile: Profile | None = None
) -> list[Nanos]:
    """[N] the time of each op on one core of the processor, by a profile, if there is one.

    `costs` has measured times. 0: it runs on no CPU.
    """
    alone = np.maximum(estimate(graph, _core(where.model), profile).run_ns[:, 0], 0)
    if costs is not None:
        own, measured = costs.run_ns[:, where.column], costs.sources[:, where.column] == MEASURED
        alone = np.where(measured, np.maximum(own, 0), alone)
    found: list[int] = alone.tolist()
    return found


def _check_shown(graph: Graph, rows: Iterable[int], costs: CostTable | None = None) -> None:
    """Raise UnknownRateError for a node that runs Python code, whose work no graph shows, and was not measured."""
    for row in rows:
        if _PYTHON.fullmatch(graph.ops[row]) and (costs is None or costs.source[row] != MEASURED):
            raise UnknownRateError(f"what Python computes in {graph.names[row]!r} is not in the graph")


def _work(graph: Graph, each_ns: Sequence[Nanos], rows: Iterable[int]) -> Counter[str]:
    """Op -> nanoseconds of one core, of nodes that one thread runs once."""
    found: Counter[str] = Counter()
    for row in rows:
        found[graph.ops[row]] += each_ns[row]
    return found


# ---- queue runners --------------------------------------------------------------------------------------------------

SESSION = "Session.run"  # in `Producer.work`: the time of a queue runner's thread around its ops


@dataclass(frozen=True)
class QueueRunners:
    """The queue runners of a client's whole graph."""

    graph: Graph
    costs: CostTable
    where: Processor

    @cached_property
    def operations(self) -> tuple[SyncOp, ...]:
        """Ops on queues."""
        return tuple(one for one in operations(self.graph) if one.key.family == "queue")

    @cached_property
    def each_ns(self) -> list[Nanos]:
        """[N] the time of each op on one core."""
        return core_ns(self.graph, self.where, self.costs, self.costs.profile)

    @cached_property
    def threads(self) -> Counter[str]:
        """Enqueue -> the number of queue runners' threads that run it; empty: the file lists none."""
        return Counter(name.partition(":")[0] for name in self.graph.queue_runners)

    def _filling(self, queue: int) -> list[tuple[SyncOp, int]]:
        """The enqueues that fill the queue of that row, and the number of threads that run each."""
        found = [one for one in self.operations if one.kind == ENQUEUE and one.owner == queue]
        counts = [self.threads[self.graph.names[one.row]] if self.threads else 1 for one in found]
        return [(one, count) for one, count in zip(found, counts, strict=True) if count]

    def producer(self, queue: int, below: Sequence[int] = ()) -> Producer:
        """The threads that fill the queue of that row; `below` are queues that wait for it. Raises UnknownRateError."""
        run = self._filling(queue)
        if not run:
            raise UnknownRateError("nothing in the graph fills it")
        made = together([self._loop(one, count, (*below, queue)) for one, count in run])
        return replace(made, threads=min(made.threads, self.where.cores))

    def _loop(self, enqueue: SyncOp, threads: int, below: Sequence[int]) -> Producer:
        """Threads that run one enqueue in a loop, or slower ones for which these wait."""
        graph = self.graph
        rows: list[int] = np.flatnonzero(fan_in(graph, [enqueue.row])).tolist()
        fed = next((row for row in rows if graph.ops[row] in PLACEHOLDERS), None)
        if fed is not None:
            raise UnknownRateError(f"its threads are fed {graph.names[fed]!r} by Python")
        _check_shown(graph, rows, self.costs)
        if enqueue.amount == UNKNOWN:
            raise UnknownRateError(f"{graph.names[enqueue.row]!r} adds an unknown number of elements at once")
        taken = _work(graph, self.each_ns, rows)
        taken[SESSION] += RUN_NS
        period_ns = max(taken.total(), threads * RUN_NS)
        own = Producer(threads, period_ns, enqueue.amount, taken, graph.names[enqueue.owner])
        slowest = own
        for one in self.operations:
            if one.kind == DEQUEUE and one.row in rows and one.owner not in below:
                slowest = min(slowest, self._held_up(one, own, below), key=lambda made: made.elements_per_s)
        return slowest

    def _held_up(self, dequeue: SyncOp, own: Producer, below: Sequence[int]) -> Producer:
        """The producer of a queue that a thread reads, at the rate at which that thread makes items of it."""
        if dequeue.amount == UNKNOWN or dequeue.owner == UNKNOWN:
            raise UnknownRateError(
                f"{self.graph.names[dequeue.row]!r} takes from an unknown queue, or an unknown number of elements"
            )
        before = self.producer(dequeue.owner, below)
        period_ns = -(-before.period_ns * dequeue.amount // before.item)
        return replace(before, period_ns=period_ns, item=own.item)


def working_task(graph: Graph, queue: int) -> str | None:
    """The task on which most of the nodes that fill the queue of that row ask to be; None: they ask for none."""
    rows = [one.row for one in operations(graph) if one.kind == ENQUEUE and one.owner == queue]
    asked: Counter[str] = Counter()
    for row in np.flatnonzero(fan_in(graph, rows)).tolist():
        spec = parse(graph.requested[row])
        if row not in (queue, *rows) and spec.job is not None and spec.task is not None:
            asked[f"/job:{spec.job}/replica:{spec.replica or 0}/task:{spec.task}"] += 1
    return max(sorted(asked), key=lambda task: asked[task]) if asked else None


# ---- datasets -------------------------------------------------------------------------------------------------------

AUTOTUNE = -1
_ENDS = frozenset(("_Arg", "_Retval"))  # TensorFlow registers them as if they had state
AUTOTUNED_BUFFER = 2  # elements that a prefetch begins with where TensorFlow tunes it
TF_DATA = "tf.data"  # in `Producer.work`: its own work


@dataclass(frozen=True, slots=True)
class _Flow:
    """The time that an element of a dataset takes."""

    asker_ns: Nanos  # in the thread that asks for it
    ahead_ns: Nanos  # between two elements of the slowest threads that work ahead
    buffer: int  # elements that these have room for; 0: no thread works ahead
    taken: Counter[str]  # op -> work of one core
    vague: tuple[str, ...] = ()  # datasets whose functions have tensors of unknown size


_NO_TIME = _Flow(0, 0, 0, Counter())


@dataclass(frozen=True)
class Datasets:
    """The datasets of a client's graph, or of one of its functions."""

    elements: Elements
    where: Processor
    profile: Profile | None = None  # of the processor

    @property
    def graph(self) -> Graph:
        """The graph in which these datasets are."""
        return self.elements.graph

    def producer(self, row: int) -> tuple[Producer, int]:
        """The threads that make the elements of the dataset of that row, and the elements that it has room for.

        Raises UnknownRateError.
        """
        flow = self.flow(row)
        period_ns = max(flow.ahead_ns, flow.asker_ns)
        return Producer(1, period_ns, 1, flow.taken, vague=flow.vague), flow.buffer or AUTOTUNED_BUFFER

    def flow(self, row: int) -> _Flow:
        """The time of an element of the dataset of that row. Raises UnknownRateError."""
        op = self.graph.ops[row]
        for pattern, takes, handed in _DATASETS:
            if pattern.fullmatch(op):
                flow = takes(self, row)
                return _plus(flow, Counter({TF_DATA: handed}), handed) if handed else flow
        raise UnknownRateError(f"{self.graph.names[row]!r} is a {op}")

    def _before(self, row: int) -> _Flow:
        return self.flow(sources_of(self.graph, row)[0])

    def _map(self, row: int) -> _Flow:
        if not any(ops.is_stateful(op) for op in self._function(row).graph.ops if op not in _ENDS):
            return self._in_parallel(row, self.where.cores)
        called = self._called(row)
        return _vaguer(_plus(self._before(row), called.taken, called.asker_ns), called.vague)

    def _sleep(self, row: int) -> _Flow:
        nanos = 1000 * self._number(row, 1, least=0)
        return _plus(self._before(row), Counter({self.graph.ops[row]: nanos}), nanos)

    def _in_parallel(self, row: int, calls: int) -> _Flow:
        called = self._called(row)
        made = _ahead(self._before(row), calls)
        ahead_ns = max(made.ahead_ns, -(-called.asker_ns // min(calls, self.where.cores)))
        return _vaguer(replace(made, ahead_ns=ahead_ns, taken=made.taken + called.taken), called.vague)

    def _parallel_map(self, row: int) -> _Flow:
        return self._in_parallel(row, self._calls(row, -1))

    def _map_and_batch(self, row: int) -> _Flow:
        """Calls are those of the function, each for one element of a batch."""
        batch, calls = self._size(row), self._calls(row, -2)
        return replace(_times(self._in_parallel(row, calls), batch), buffer=-(-calls // batch))

    def _shard(self, row: int) -> _Flow:
        """One element of so many before."""
        return _times(self._before(row), self._number(row, 1))

    def _batch(self, row: int) -> _Flow:
        return _times(self._before(row), self._size(row))

    def _parallel_batch(self, row: int) -> _Flow:
        return _ahead(self._batch(row), AUTOTUNED_BUFFER)

    def _prefetch(self, row: int) -> _Flow:
        buffer, before = self._number(row, 1, least=AUTOTUNE), self._before(row)
        return _ahead(before, AUTOTUNED_BUFFER if buffer == AUTOTUNE else buffer) if buffer else before

    def _inner(self, row: int) -> _Flow:
        """Elements of the datasets that a function makes; the time of making a dataset is left out."""
        inner, made = _read(lambda: self.elements.inside(self.graph.attrs[row]["f"].func))
        return replace(self, elements=inner).flow(made)

    def _parallel_inner(self, row: int) -> _Flow:
        calls = self._calls(row, -1) if self.graph.ops[row].endswith(("V2", "V3", "V4")) else self._number(row, -5)
        made = self._inner(row)
        each = -(-max(made.asker_ns, made.ahead_ns) // min(calls, self.where.cores))
        return replace(made, asker_ns=0, ahead_ns=each, buffer=calls)

    def _zip(self, row: int) -> _Flow:
        found = [self.flow(source) for source in sources_of(self.graph, row)]
        if self.graph.ops[row].startswith("Concatenate"):
            return found[0]
        return _Flow(
            sum(one.asker_ns for one in found),
            max(one.ahead_ns for one in found),
            min(one.buffer for one in found),
            sum([one.taken for one in found], Counter()),
            tuple([name for one in found for name in one.vague]),
        )

    def _unbatch(self, row: int) -> _Flow:
        shapes = self.elements.shapes(sources_of(self.graph, row)[0])
        size = shapes[0][0] if shapes and shapes[0] else -1
        if size < 1:
            raise UnknownRateError(f"{self.graph.names[row]!r} takes batches of unknown size apart")
        before = self._before(row)
        taken = Counter({op: nanos // size for op, nanos in before.taken.items()})
        return _Flow(before.asker_ns // size, before.ahead_ns // size, before.buffer * size, taken, before.vague)

    # ---- inputs and functions of a dataset --------------------------------------------------------------------------

    def _number(self, row: int, slot: int, *, least: int = 1) -> int:
        """The whole number in that slot; a slot below 0 counts from the last. Raises UnknownRateError."""
        sources = sources_of(self.graph, row)
        source = sources[slot] if -len(sources) <= slot < len(sources) else None
        found = constant(self.graph, source) if source is not None else None
        if found is None or len(found) != 1 or found[0] < least:
            raise self._missing(row)
        return int(found[0])

    def _size(self, row: int) -> int:
        """The number of elements in a batch. Raises UnknownRateError."""
        size = self.elements.size(row)
        if size is None:
            raise self._missing(row)
        return size

    def _missing(self, row: int) -> UnknownRateError:
        return UnknownRateError(f"a number that {self.graph.names[row]!r} is given is not in the graph")

    def _calls(self, row: int, slot: int) -> int:
        """The number of calls that run at once; all cores where TensorFlow tunes that."""
        calls = self._number(row, slot, least=AUTOTUNE)
        return calls if calls > 0 else self.where.cores

    def _function(self, row: int) -> Function:
        """The function of a dataset. Raises UnknownRateError."""
        return _read(lambda: self.elements.functions.of(self.graph.attrs[row]["f"].func))

    def _called(self, row: int) -> _Flow:
        """The time of a call of a dataset's function on one core, in the thread that asks for it."""
        graph = self._shaped(row)
        rows = range(len(graph))
        _check_shown(graph, rows)
        taken = _work(graph, core_ns(graph, self.where, profile=self.profile), rows)
        taken[TF_DATA] += CALL_NS
        vague = unsized(graph, graph.tensor_bytes).any()
        return _Flow(taken.total(), 0, 0, taken, (self.graph.names[row],) * bool(vague))

    def _shaped(self, row: int) -> Graph:
        """The graph of a dataset's function, with shapes for the elements that it is called with."""
        function = self._function(row)
        graph = function.graph
        shapes: list[Shape | None] = [None] * len(graph.tensor_node) if self.elements.sizes else [*graph.tensor_shape]
        for at, shape in zip(function.arguments, self.elements.arguments(row), strict=False):
            shapes[graph.tensor_ptr[at]] = shape if shape is not None and (not shape or shape[0] >= 0) else None
        return _read(lambda: with_shapes(replace(graph, tensor_shape=tuple(shapes))))


_T = TypeVar("_T")


def _read(reading: Callable[[], _T]) -> _T:
    """A function's reading. Raises UnknownRateError where it can't be read."""
    try:
        return reading()
    except SimvizError as error:
        raise UnknownRateError(str(error)) from None


def _plus(flow: _Flow, called: Counter[str], nanos: Nanos) -> _Flow:
    return replace(flow, asker_ns=flow.asker_ns + nanos, taken=flow.taken + called)


def _vaguer(flow: _Flow, names: tuple[str, ...]) -> _Flow:
    """The flow through further datasets whose functions have tensors of unknown size."""
    return replace(flow, vague=(*flow.vague, *names))


def _times(flow: _Flow, count: int) -> _Flow:
    """The time of so many elements together."""
    taken = Counter({op: count * nanos for op, nanos in flow.taken.items()})
    return _Flow(count * flow.asker_ns, count * flow.ahead_ns, flow.buffer // count, taken, flow.vague)


def _ahead(flow: _Flow, buffer: int) -> _Flow:
    """The flow of a thread that works ahead of the asking one."""
    return replace(flow, asker_ns=0, ahead_ns=max(flow.ahead_ns, flow.asker_ns), buffer=buffer + flow.buffer)


# By the op of a dataset: the time of an element without its handing on, and the time of that.
_DATASETS: tuple[tuple[re.Pattern[str], Callable[[Datasets, int], _Flow], Nanos], ...] = tuple(
    (re.compile(pattern), takes, handed)
    for pattern, takes, handed in (
        (datasets.HANDED_ON, Datasets._before, 0),
        (datasets.SOURCES, lambda self, row: _NO_TIME, ELEMENT_NS),
        (datasets.SAME, Datasets._before, ELEMENT_NS),
        (datasets.CACHE, lambda self, row: _NO_TIME, ELEMENT_NS),  # after the first epoch
        (datasets.MAP, Datasets._map, ELEMENT_NS),
        (datasets.SLEEP, Datasets._sleep, ELEMENT_NS),
        (datasets.PARALLEL_MAP, Datasets._parallel_map, ELEMENT_NS),
        (datasets.MAP_AND_BATCH, Datasets._map_and_batch, ELEMENT_NS),
        (datasets.BATCH, Datasets._batch, ELEMENT_NS),
        (datasets.SHARD, Datasets._shard, ELEMENT_NS),
        (datasets.PARALLEL_BATCH, Datasets._parallel_batch, ELEMENT_NS),
        (datasets.PREFETCH, Datasets._prefetch, ELEMENT_NS),
        (datasets.INNER, Datasets._inner, ELEMENT_NS),
        (datasets.PARALLEL_INNER, Datasets._parallel_inner, ELEMENT_NS),
        (f"{datasets.ZIP}|{datasets.CONCATENATE}", Datasets._zip, ELEMENT_NS),
        (datasets.UNBATCH, Datasets._unbatch, ELEMENT_NS),
    )
)
