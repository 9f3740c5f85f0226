"""Lower bounds on the makespan of a step: no assignment and no order can be faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.execution.tables import of_step
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.execution.tables import Tables
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step


def lower_bound(graph: Graph, cluster: Cluster, costs: CostTable, *, step: Step) -> Nanos:
    """The larger of two bounds: the critical path, and the work that must fit the lanes.

    Both take each op at its fastest device that has a kernel, and transfers as free. Work is bounded over all ops and
    over those that only some kinds of device can run.
    """
    tables = of_step(graph, step, cluster, costs)
    fastest = _fastest(tables)
    return max(_critical_path_ns(tables, fastest), _work_ns(tables, fastest))


def _fastest(tables: Tables) -> npt.NDArray[np.int64]:
    """[n] time on the fastest device with a kernel; 0 where there is none."""
    never = np.iinfo(np.int64).max
    fastest = np.where(tables.run_ns < 0, never, tables.run_ns).min(axis=1, initial=never)
    return np.where(fastest == never, 0, fastest)


def _critical_path_ns(tables: Tables, run_ns: npt.NDArray[np.int64]) -> Nanos:
    """The longest chain of ops that wait for each other; a Merge waits for the first of its data inputs."""
    duration = run_ns.tolist()
    tensor_ptr, consumer_ptr = tables.tensor_ptr.tolist(), tables.consumer_ptr.tolist()
    consumer, merge = tables.consumer.tolist(), tables.merge.tolist()
    data = (tables.tensor_row >= 0).tolist()
    waits = np.diff(tables.in_ptr).tolist()
    ready, first = [0] * len(tables), [-1] * len(tables)
    done = [op for op, left in enumerate(waits) if not left]
    longest = 0
    for op in done:  # grows meanwhile: an order in which inputs come first
        end = max(ready[op], first[op]) + duration[op]
        longest = max(longest, end)
        for tensor in range(tensor_ptr[op], tensor_ptr[op + 1]):
            for other in consumer[consumer_ptr[tensor] : consumer_ptr[tensor + 1]]:
                if merge[other] and data[tensor]:
                    first[other] = end if first[other] < 0 else min(first[other], end)
                else:
                    ready[other] = max(ready[other], end)
                waits[other] -= 1
                if not waits[other]:
                    done.append(other)
    return longest


def _work_ns(tables: Tables, run_ns: npt.NDArray[np.int64]) -> Nanos:
    """The work of all ops over all lanes; also, per set of devices, of the ops that can run nowhere else."""
    able = tables.run_ns >= 0
    bound = 0
    for usable in np.unique(np.vstack([able, np.ones((1, able.shape[1]), bool)]), axis=0):
        lanes = int(tables.lanes[usable].sum())
        if lanes:
            bound = max(bound, -(-int(run_ns[~(able & ~usable).any(axis=1)].sum()) // lanes))
    return bound
