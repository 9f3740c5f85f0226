"""The start of each session: once every task has answered that its device_filters do not leave out.

A master that is asked for a session first asks all workers of its cluster for their devices. As long as one does not
answer, it logs "CreateSession still waiting for response from worker". Source: `DeviceFinder` in TensorFlow's
`core/distributed_runtime/master.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import DeviceSpec, compatible, parse
from simulator.columns import Ids, Ints, ids, ints
from simulator.errors import ClusterError
from simulator.training.programs.program import Program


@dataclass(frozen=True, eq=False)
class Starts:
    """Axis: C programs."""

    session_ns: Ints  # [C] the session starts
    waited_for: Ids  # [C] row of the task that came up last of those it waited for; -1: all were there from the start


def starts(programs: Sequence[Program], cluster: Cluster, up_ns: Ints) -> Starts:
    """The time at which the session of each program starts; `up_ns` [K] has the time at which each task comes up.

    A client asks for its session at once, in vain while its own task is not up. Of tasks that come up together the
    first counts as the last. Raises ClusterError for a program at a task that the cluster lacks, and for a device
    filter that is no device specification.
    """
    row = {task: k for k, task in enumerate(cluster.tasks)}
    specs = [parse(task) for task in cluster.tasks]
    seen: dict[tuple[tuple[str, ...], int], tuple[int, int]] = {}  # programs with the same filters are many
    found = []
    for program in programs:
        if program.task not in row:
            raise ClusterError(f"{program.name} has its session at {program.task}, which {cluster.name!r} lacks")
        asked = (program.filters, row[program.task])
        if asked not in seen:
            seen[asked] = _last(specs, up_ns, *asked)
        found.append(seen[asked])
    return Starts(ints([start for start, _ in found]), ids([task for _, task in found]))


def waits_for(task: DeviceSpec, filters: Sequence[str]) -> bool:
    """Whether a session with those filters asks that task: one of them agrees with its job, replica and task number.

    A filter's device type and number do not count, as a task has none. No filters leave nobody out. Raises
    ClusterError for a filter that is no device specification.
    """
    return not filters or any(compatible(_of_task(text), task) for text in filters)


@cache
def _of_task(text: str) -> DeviceSpec:
    return parse(text)._replace(type=None, id=None)


def _last(specs: Sequence[DeviceSpec], up_ns: Ints, filters: tuple[str, ...], own: int) -> tuple[int, int]:
    """The time at which the last of the tasks comes up, and that task; -1: all are up from the start."""
    asked = [k for k, spec in enumerate(specs) if k == own or waits_for(spec, filters)]
    last = asked[int(np.argmax(up_ns[asked]))]
    return int(up_ns[last]), last if up_ns[last] > 0 else -1
