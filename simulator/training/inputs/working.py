"""How long the ops of an input pipeline take one thread.

The cost table prices an op of a CPU as the work of all its cores. Threads of an input pipeline run beside each other
and beside the steps, so each op of theirs is the work of one core: what is launched is launched, the rest takes as many
times as long as there are cores. What was measured is taken as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from simulator.costs.table import MAX_NS, MEASURED
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster, Device
    from simulator.costs.table import CostTable
    from simulator.graph.graph import Graph

# What a thread takes around its ops, measured with TensorFlow 2.21 on one x86 machine in 2026 as processor time.
RUN_NS: Nanos = 28_000  # a queue runner's `Session.run`; Python lets one of a process's threads do so at a time
CALL_NS: Nanos = 25_000  # tf.data's call of a function for one element
ELEMENT_NS: Nanos = 1_300  # tf.data's handing an element from one dataset to the next


class Processor(NamedTuple):
    """The CPU on which a pipeline works."""

    device: int  # row of Cluster.devices
    model: Device
    column: int  # of CostTable.run_ns

    @property
    def cores(self) -> int:
        """How many threads run at once."""
        return self.model.cores * self.model.lanes


def processor(cluster: Cluster, task: str) -> Processor:
    """The CPU that stands for a task."""
    rows = [row for row, device in enumerate(cluster.devices) if device.task == task]
    row = int(cluster.home[rows[0]])
    return Processor(row, cluster.devices[row], cluster.kind_of[row])


def work(graph: Graph, costs: CostTable, rows: Iterable[int], where: Processor) -> Counter[str]:
    """Op -> nanoseconds of one core, of nodes that one thread runs once."""
    found: Counter[str] = Counter()
    for row in rows:
        whole = int(costs.run_ns[row, where.column])
        if whole < 0:  # it runs on another device, which is not what holds a pipeline
            continue
        launch = min(whole, where.model.launch_ns)
        if costs.source[row] != MEASURED:
            whole = min(MAX_NS, launch + (whole - launch) * where.model.cores)
        found[graph.ops[row]] += whole
    return found
