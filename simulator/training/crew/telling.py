"""How long word of a clock takes, from the worker that ends a step to those who wait for the slowest of all.

One task keeps the clocks, as a parameter server does (Ho et al., NIPS 2013): a worker tells it that a step has ended,
and when the slowest clock goes on it tells those whom that concerns, in the order in which they ask. Both are messages
of no bytes, which hold no link (docs/decisions/0019).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.columns import Flags, Ids, ints
from simulator.errors import ClusterError
from simulator.training.crew.combining import COUNT, Marks, Word

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.units import Nanos


def keeper(marks: Marks, device: Ids, keeps: Flags, cluster: Cluster) -> int:
    """The task that keeps the clocks: where updates are counted, else the first with variables, else the first."""
    counting = marks.op[marks.kind == COUNT]
    return cluster.task_of[device[counting[0]]] if len(counting) else int(np.argmax(keeps))


def word(tasks: Sequence[str], kept_by: str, cluster: Cluster) -> Word:
    """From and to the task of each client. Raises ClusterError where one has no route to the task that keeps clocks."""
    hub = _cpu(kept_by, cluster)
    ends = {task: _cpu(task, cluster) for task in dict.fromkeys(tasks)}
    tell = {task: _message_ns(end, hub, cluster) for task, end in ends.items()}
    hear = {task: _message_ns(hub, end, cluster) for task, end in ends.items()}
    return Word(ints([tell[task] for task in tasks]), ints([hear[task] for task in tasks]))


def _cpu(task: str, cluster: Cluster) -> int:
    return replace(cluster, master=task).client


def _message_ns(source: int, target: int, cluster: Cluster) -> Nanos:
    """All that a message of no bytes takes that waits for nothing."""
    if source == target:
        return 0
    if cluster.routes[source][target] is None:
        start, end = cluster.devices[source].name, cluster.devices[target].name
        raise ClusterError(
            f"The cluster has no route from {start} to {end}, which word of the workers' clocks would have to take; "
            "add a link, or train without a bound."
        )
    routes = (cluster.pack_ns, cluster.transfer_ns, cluster.unpack_ns)
    return sum(took(source, target, 0) for took in routes)
