"""Queue runners: threads that run enqueues in loops, and the queues from which these enqueues take.

    filenames ──▶ queue ──read, decode──▶ queue ──dequeue, batch──▶ queue ──dequeue──▶ the step

A QueueRunner has a thread for each of its enqueues (tensorflow/python/training/queue_runner_impl.py). Where the file
lists no queue runners, each enqueue of the graph is taken to be run by one thread. A chain of queues is as fast as its
slowest queue; in the long run it does not matter how far the others are ahead.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from simulator.cluster.devicespec import parse
from simulator.graph.traversal import PLACEHOLDERS, fan_in
from simulator.training.clients.operations import DEQUEUE, ENQUEUE, UNKNOWN, Operation, operations
from simulator.training.inputs.core_costs import RUN_NS, Processor, core_ns, hidden, work
from simulator.training.inputs.pipeline import Producer, UnknownRateError, together
from simulator.units import Nanos

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.costs.table import CostTable
    from simulator.graph.graph import Graph

SESSION = "Session.run"  # in `Producer.work`: the time of a queue runner's thread around its ops


@dataclass(frozen=True)
class QueueRunners:
    """The queue runners of a client's whole graph."""

    graph: Graph
    costs: CostTable
    where: Processor

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """Ops on queues."""
        return tuple(one for one in operations(self.graph) if one.family == "queue")

    @cached_property
    def each_ns(self) -> list[Nanos]:
        """[N] the time of each op on one core."""
        return core_ns(self.graph, self.where, self.costs)

    @cached_property
    def threads(self) -> Counter[str]:
        """Enqueue -> the number of queue runners' threads that run it; empty: the file lists none."""
        return Counter(name.partition(":")[0] for name in self.graph.queue_runners)

    def _filling(self, queue: int) -> list[tuple[Operation, int]]:
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

    def _loop(self, enqueue: Operation, threads: int, below: Sequence[int]) -> Producer:
        """Threads that run one enqueue in a loop, or slower ones for which these wait."""
        graph = self.graph
        rows: list[int] = np.flatnonzero(fan_in(graph, [enqueue.row])).tolist()
        fed = next((row for row in rows if graph.ops[row] in PLACEHOLDERS), None)
        if fed is not None:
            raise UnknownRateError(f"its threads are fed {graph.names[fed]!r} by Python")
        unseen = hidden(graph, rows, self.costs)
        if unseen is not None:
            raise UnknownRateError(f"what Python computes in {unseen!r} is not in the graph")
        if enqueue.amount == UNKNOWN:
            raise UnknownRateError(f"{graph.names[enqueue.row]!r} adds an unknown number of elements at once")
        taken = work(graph, self.each_ns, rows)
        taken[SESSION] += RUN_NS
        period_ns = max(taken.total(), threads * RUN_NS)
        own = Producer(threads, period_ns, enqueue.amount, taken, graph.names[enqueue.owner])
        slowest = own
        for one in self.operations:
            if one.kind == DEQUEUE and one.row in rows and one.owner not in below:
                slowest = min(slowest, self._held_up(one, own, below), key=lambda made: made.elements_per_s)
        return slowest

    def _held_up(self, dequeue: Operation, own: Producer, below: Sequence[int]) -> Producer:
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
