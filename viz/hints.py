"""Hints about a step: device strings that hold ops on CPUs, and inputs that run dry.

Many old programs pin ops to a CPU although its task has GPUs. An op is held if its string asks for a CPU, or if it is
colocated with such an op. Its cost is its time on the critical path, with the transfers from or to the CPU that holds
it. If that is a NOTICEABLE part of the makespan, the step is placed and simulated again without those strings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from placement.placing import ALGORITHMS
from simulator.assignment import COLOCATED, REQUESTED, Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import parse
from simulator.columns import Flags, flags
from simulator.costs.rules import category
from simulator.costs.table import CostTable
from simulator.errors import SimvizError
from simulator.execution.trace import Kind, Trace
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.partitioning.partitions import Partitions
from simulator.training.clients import Client
from simulator.training.inputs.finding import inputs_of
from simulator.training.programs.program import Program, between_steps_ns
from simulator.units import SECOND_NS, Nanos, show_nanos
from simulator.wording import counted, most_first, some

NOTICEABLE = 10  # a tenth of the makespan is worth a second simulation
FASTER = 20  # a step that is shorter by a twentieth is reported
MOST_TASKS = 50_000  # ops and transfers of a step that is simulated again: this many take some seconds
HELD = "CPU"
_TAKES_INPUT = re.compile(r"\w*(Dequeue|Iterator\w*GetNext)\w*")


@dataclass(frozen=True, slots=True)
class Pinned:
    """Ops that device strings hold on CPUs of tasks that have GPUs."""

    shares: tuple[tuple[str, Nanos], ...]  # of the critical path, by category, the largest first
    devices: tuple[str, ...]  # short names of those CPUs
    strings: int  # of the nodes that run in the step
    makespan_ns: Nanos
    without_ns: Nanos | None = None  # the makespan without the strings; None: it was not simulated

    def __str__(self) -> str:
        """A sentence without its full stop."""
        parts = ", ".join(f"{what} {nanos / self.makespan_ns:.0%}" for what, nanos in self.shares)
        strings = counted(self.strings, "device string")
        said = f"{strings} keep {parts} of the makespan on {some(self.devices, 2)}"
        if self.without_ns is None:
            return f"{said}; --ignore-devices simulates the step without them"
        return f"{said}; without them the step takes {show_nanos(self.without_ns)}, not {show_nanos(self.makespan_ns)}"

    @property
    def matters(self) -> bool:
        """Tell whether the strings may cost enough to be reported."""
        return self.without_ns is None or self.without_ns * FASTER <= self.makespan_ns * (FASTER - 1)


def pinned(
    graph: Graph, step: Step, cluster: Cluster, assignment: Assignment, partitions: Partitions, trace: Trace
) -> Pinned | None:
    """Find ops that device strings hold on CPUs; None if they are no noticeable part of the critical path."""
    asks = _asking(graph, step)
    beside = _beside_gpus(cluster)
    if not asks or trace.critical is None:
        return None
    holds = np.isin(assignment.why, (REQUESTED, COLOCATED)) & beside[assignment.device] & step.runs
    own = np.zeros(len(graph), bool)
    own[asks] = True
    holds &= own | (assignment.why == COLOCATED)
    if not holds[own].any():
        return None
    places = np.unique(assignment.device[holds])
    shares = _shares(graph, holds, set(places.tolist()), partitions, trace, trace.critical.tolist())
    if sum(shares.values()) * NOTICEABLE < trace.makespan:
        return None
    noticed = ((what, nanos) for what, nanos in most_first(shares) if nanos * 200 > trace.makespan)  # 0 % is not shown
    shown = tuple(noticed)
    names = tuple(cluster.devices[place].short for place in places.tolist())
    return Pinned(shown, names, len(asks), trace.makespan)


def affordable(assignment: Assignment, trace: Trace) -> bool:
    """Tell whether another placement and simulation is cheap: a small step, and no algorithm of the user's own."""
    return assignment.asked in tuple(ALGORITHMS) and len(trace.ops) + len(trace.transfers) <= MOST_TASKS


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
    task = [parse(device.name).without_device() for device in cluster.devices]
    richer = {task[row] for row, device in enumerate(cluster.devices) if device.type != HELD}
    return flags([device.type == HELD and task[row] in richer for row, device in enumerate(cluster.devices)])


def _shares(
    graph: Graph,
    holds: Flags,
    places: set[int],
    partitions: Partitions,
    trace: Trace,
    path: Iterable[int],
) -> Counter[str]:
    """Category, or "transfers" -> nanoseconds on the critical path of held ops and of their transfers."""
    found: Counter[str] = Counter()
    tasks = trace.tasks
    for task in path:
        of, nanos = int(tasks.of[task]), int(tasks.end_ns[task] - tasks.start_ns[task])
        if tasks.kind[task] == Kind.OP:
            node = int(partitions.origin[trace.instances.node[of]])
            if node < len(graph) and holds[node]:
                found[category(graph.ops[node])] += nanos
        elif tasks.kind[task] != Kind.REQUEST:  # that is waiting
            row = int(trace.transfers.row[of])
            if places.intersection(partitions.device[[partitions.send[row], partitions.recv[row]]].tolist()):
                found["transfers"] += nanos
    return found


def input_notes(
    graph: Graph,
    step: Step,
    cluster: Cluster,
    costs: CostTable,
    partitions: Partitions,
    trace: Trace,
) -> tuple[str, ...]:
    """A note for each queue and iterator that consecutive steps empty faster than it is filled.

    Consecutive steps begin one makespan and one session gap apart.
    An input of unknown speed is skipped: a training names it.
    """
    if not any(map(_TAKES_INPUT.fullmatch, {graph.ops[row] for row in np.flatnonzero(step.runs).tolist()})):
        return ()
    program = Program("the step", cluster.client_task, graph, step.fetches, step.feeds)
    found = inputs_of([Client(program, partitions)], cluster, [costs])
    every_ns = trace.makespan + between_steps_ns(_others(partitions, cluster))
    said = []
    for row, pipeline in enumerate(found.pipelines):
        taken = sum(draw.amount for draw in found.draws[0] if draw.input == row)
        made_ns: Nanos = round(taken * SECOND_NS / pipeline.producer.elements_per_s)
        if made_ns > every_ns:
            said.append(
                f"{pipeline.words}. A step takes {counted(taken, 'element')}, which need {show_nanos(made_ns)}. "
                "This step finds them ready; later steps wait, as --training shows."
            )
    return tuple(said)


def _others(partitions: Partitions, cluster: Cluster) -> int:
    """The number of tasks besides the session's on which the step has pieces."""
    tasks = {cluster.devices[row].task for row in np.unique(partitions.device).tolist()}
    return len(tasks - {cluster.client_task})
