"""Times of the ops of an input pipeline in one thread.

The cost table prices an op of a CPU as the work of all its cores, as far as they share it. Threads of an input pipeline
run beside each other and beside the steps. So their ops are priced for a processor of one core. Measured times are
taken as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.cluster.cluster import Cluster, Device
from simulator.costs.estimate import estimate
from simulator.costs.table import MEASURED
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.costs.table import CostTable
    from simulator.graph.graph import Graph

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
        peaks=model.peaks.share(share),
        cores=1,
    )
    return Cluster((core,), (), (((),),))


def core_ns(graph: Graph, where: Processor, costs: CostTable | None = None) -> list[Nanos]:
    """[N] the time of each op on one core of the processor; `costs` has measured times. 0: it runs on no CPU."""
    alone = np.maximum(estimate(graph, _core(where.model)).run_ns[:, 0], 0)
    if costs is not None:
        alone = np.where(costs.source == MEASURED, np.maximum(costs.run_ns[:, where.column], 0), alone)
    found: list[int] = alone.tolist()
    return found


def hidden(graph: Graph, rows: Iterable[int], costs: CostTable | None = None) -> str | None:
    """The first of the nodes that runs Python code, whose work no graph shows, and was not measured; None: none."""
    for row in rows:
        if _PYTHON.fullmatch(graph.ops[row]) and (costs is None or costs.source[row] != MEASURED):
            return graph.names[row]
    return None


def work(graph: Graph, each_ns: Sequence[Nanos], rows: Iterable[int]) -> Counter[str]:
    """Op -> nanoseconds of one core, of nodes that one thread runs once."""
    found: Counter[str] = Counter()
    for row in rows:
        found[graph.ops[row]] += each_ns[row]
    return found
