"""What device strings that hold ops on a CPU cost, where its task has GPUs: the strings that old programs are full of.

An op is held if its string asks for a CPU, or if it is colocated with such an op. Its part of the step is the time on
the critical path in which it runs, or in which a value moves between devices from or to the CPU that holds it. From
NOTICEABLE of the makespan on, the step is placed and simulated again without those strings, where that is cheap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from placement.placing import ALGORITHMS
from simulator.assignment import COLOCATED, REQUESTED, Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import parse
from simulator.columns import Flags, flags
from simulator.costs.categories import category
from simulator.errors import SimvizError
from simulator.execution.trace import Trace, transfer_of
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.partitioning import Partitions
from simulator.units import Nanos, show_nanos
from simulator.wording import counted, some
from viz.inputs import Inputs

NOTICEABLE = 10  # one part in so many of the makespan is noticed
FASTER = 20  # a step that is shorter by one part in so many is told
MOST_TASKS = 50_000  # ops and transfers of a step that is simulated again: placing and simulating it takes some seconds
HELD = "CPU"


@dataclass(frozen=True, slots=True)
class Pinned:
    """What device strings hold on CPUs of tasks that have GPUs."""

    shares: tuple[tuple[str, Nanos], ...]  # of the critical path, by category, the largest first
    devices: tuple[str, ...]  # short names of those CPUs
    strings: int  # of the nodes that run in the step
    makespan_ns: Nanos
    without_ns: Nanos | None = None  # the makespan without the strings; None: it was not simulated

    def __str__(self) -> str:
        """A sentence without its first word and full stop."""
        parts = ", ".join(f"{what} {nanos / self.makespan_ns:.0%}" for what, nanos in self.shares)
        strings = counted(self.strings, "device string")
        said = f"{parts} of the makespan are held on {some(self.devices, 2)} by {strings}"
        if self.without_ns is None:
            return f"{said}; --ignore-devices simulates the step without any"
        return f"{said}; without them the step takes {show_nanos(self.without_ns)}, not {show_nanos(self.makespan_ns)}"

    @property
    def told(self) -> bool:
        """Whether the strings may cost something that is worth a word."""
        return self.without_ns is None or self.without_ns * FASTER <= self.makespan_ns * (FASTER - 1)


def pinned(given: Inputs, assignment: Assignment, partitions: Partitions, trace: Trace) -> Pinned | None:
    """What strings hold on CPUs, not simulated again yet; None where it is no noticeable part of the critical path."""
    graph, step, cluster = given.graph, given.step, given.cluster
    asks = _asking(graph, step)
    beside = _beside_gpus(cluster)
    if not asks or trace.critical is None or trace.critical_ns is None:
        return None
    holds = np.isin(assignment.why, (REQUESTED, COLOCATED)) & beside[assignment.device] & step.runs
    own = np.zeros(len(graph), bool)
    own[asks] = True
    holds &= own | (assignment.why == COLOCATED)
    if not holds[own].any():
        return None
    places = np.unique(assignment.device[holds])
    path = zip(trace.critical.tolist(), trace.critical_ns.tolist(), strict=True)
    shares = _shares(graph, holds, places.tolist(), partitions, trace, path)
    if sum(shares.values()) * NOTICEABLE < trace.makespan:
        return None
    ranked = sorted(shares.items(), key=lambda entry: (-entry[1], entry[0]))
    shown = tuple((what, nanos) for what, nanos in ranked if nanos * 200 > trace.makespan)  # 0 % is not shown
    names = tuple(cluster.devices[place].short for place in places.tolist())
    return Pinned(shown, names, len(asks), trace.makespan)


def affordable(assignment: Assignment, trace: Trace) -> bool:
    """Whether it is cheap to place and simulate the step once more: a small one, by no algorithm of the user's own."""
    return assignment.asked in tuple(ALGORITHMS) and len(trace.node) + len(trace.transfer) <= MOST_TASKS


def _asking(graph: Graph, step: Step) -> list[int]:
    """The nodes of the step whose own strings ask for a CPU."""
    wanted = {text for text in dict.fromkeys(graph.requested) if _asks(text)}
    return [row for row in np.flatnonzero(step.runs).tolist() if graph.requested[row] in wanted]


def _asks(text: str) -> bool:
    try:
        return parse(text).type == HELD
    except SimvizError:  # the placement has refused it, or ran without it
        return False


def _beside_gpus(cluster: Cluster) -> Flags:
    """[D] the CPUs whose task has another kind of device."""
    task = [parse(device.name)._replace(type=None, id=None) for device in cluster.devices]
    richer = {task[row] for row, device in enumerate(cluster.devices) if device.type != HELD}
    return flags([device.type == HELD and task[row] in richer for row, device in enumerate(cluster.devices)])


def _shares(
    graph: Graph,
    holds: Flags,
    places: Sequence[int],
    partitions: Partitions,
    trace: Trace,
    path: Iterable[tuple[int, int]],
) -> Counter[str]:
    """Category, or "transfers" -> nanoseconds on the critical path that are held."""
    found: Counter[str] = Counter()
    for task, nanos in path:
        if task >= 0:
            node = int(partitions.origin[trace.node[task]])
            if node < len(graph) and holds[node]:
                found[category(graph.ops[node])] += nanos
        else:
            row = int(trace.transfer[transfer_of(task)[0]])
            if int(partitions.src_device[row]) in places or int(partitions.dst_device[row]) in places:
                found["transfers"] += nanos
    return found
