"""The interval of a makespan whose ops were priced by a profile.

The errors of one family of kernels add up along the critical path. A profile that prices one matrix product too low
does so for others. Those of different families are independent, and add up as squares. Placement and order are taken as
they are: where another path could become critical, the step may be longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.costs.table import PROFILED
from simulator.execution.trace import Kind
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.execution.trace import Trace
    from simulator.partitioning.partitions import Partitions


def interval(trace: Trace, partitions: Partitions, cluster: Cluster, costs: CostTable) -> tuple[Nanos, Nanos] | None:
    """The least and the most that the step may take, for nine of ten prices.

    Measured ops have no error here, and neither have messages. None without a profile, and where it prices nothing of
    the critical path. What it does not price is of one family.
    """
    errors = costs.errors
    if errors is None or trace.critical is None:
        return None
    tasks = trace.tasks
    rows = trace.critical[tasks.kind[trace.critical] == Kind.OP]
    node = partitions.origin[trace.instances.node[tasks.of[rows]]]
    took = (tasks.end_ns[rows] - tasks.start_ns[rows]).astype(float)
    kinds = {kind: column for column, kind in enumerate(costs.kinds)}
    column = np.array([kinds[device.kind] for device in cluster.devices], np.int64)[tasks.resource[rows]]
    error, profiled = errors.relative[node, column], costs.sources[node, column] == PROFILED
    if not profiled.any():
        return None
    family = np.where(profiled, errors.family[node], 0)
    less, more = np.zeros((2, len(errors.families)))
    np.add.at(less, family, took * error / (1 + error))  # a price is off by a factor of 1 + error
    np.add.at(more, family, took * error)
    low, high = (int(np.sqrt((part**2).sum())) for part in (less, more))
    return trace.makespan - low, trace.makespan + high
