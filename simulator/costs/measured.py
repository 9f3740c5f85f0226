"""Measured times of nodes as values: what a file of measurements says, in whatever form it came."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster
from simulator.costs.estimate import estimate
from simulator.costs.estimates.fusion import fused
from simulator.costs.profile import Profile
from simulator.costs.table import MEASURED, CostTable
from simulator.errors import ClusterError
from simulator.graph.graph import Graph
from simulator.units import Nanos
from simulator.wording import counted, repr_of

MICROBATCH = "microbatch_"  # so begins the scope of the copies for each microbatch but the first
ANYWHERE = ""  # the place of a sample whose measurement names no device


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured run of a node."""

    node: str
    where: str  # a device kind, a type ("CPU" or "GPU"), a device's name, or ANYWHERE
    ns: Nanos
    line: int = 0  # in a CSV file
    kernels_only: bool = False  # the launch is not in it
    op: str = ""  # of the node, where the measurement has it
    runs: int = 1  # of which `ns` is the mean: iterations of a loop in one step


@dataclass(frozen=True, eq=False)
class MeasuredTimes:
    """Measured times of nodes; several per node and place for several steps."""

    samples: tuple[Sample, ...]
    source: str  # the file
    form: str = "measured times"  # of the file, in words

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.samples), "sample"), f"from {self.source}", self.form)


def fitted(measurement: MeasuredTimes, step_ns: Nanos, lanes: int = 1, dispatch_ns: Nanos = 0) -> MeasuredTimes:
    """The times of one traced step, shortened until those of a device fit into the step as it is without tracing.

    Tracing lengthens ops, above all those with large temporary memory; a device of so many lanes can't work for longer
    than the step takes. Devices of which less was measured are shortened by the same factor: they were traced, too.
    Times that fit stay as they are. No trace has what the executor takes between ops: each run gets `dispatch_ns` more.
    Raises ClusterError for a step that takes no time.
    """
    if step_ns < 1:
        raise ClusterError(f"{measurement.source}: the step is said to take {step_ns} ns; say what it takes untraced")
    sums: dict[str, tuple[Nanos, Nanos]] = {}  # by device: of its ops, and between them
    for sample in measurement.samples:
        own, between = sums.get(sample.where, (0, 0))
        sums[sample.where] = own + sample.ns * sample.runs, between + dispatch_ns * sample.runs
    most, between = max(sums.values(), key=sum, default=(0, 0))
    room = max(0, lanes * step_ns - between)
    over, of = (room, most) if most > room else (1, 1)
    if over == of and not dispatch_ns:
        return measurement
    samples = tuple(replace(one, ns=-(-one.ns * over // of) + dispatch_ns) for one in measurement.samples)
    return replace(measurement, samples=samples)


def of_microbatches(measurement: MeasuredTimes, whole: Graph) -> int:
    """The number of microbatches that were measured of a graph; 0: its whole batch."""
    copies = set[str]()
    for sample in measurement.samples:
        prefix, _, rest = sample.node.partition("/")
        if prefix.startswith(MICROBATCH) and sample.node not in whole.index and rest in whole.index:
            copies.add(prefix)
    return len(copies) + 1 if copies else 0


def for_other_batch(
    costs: CostTable, graph: Graph, measured: Graph, cluster: Cluster, profile: Profile | None = None
) -> CostTable:
    """The costs with times that were measured on `measured` brought to the shapes of `graph`, another batch of it.

    A time changes as the estimate of its node does, or of the node of which it is a copy. Where that joins another's
    kernel in one of the graphs alone, estimates of its own kernel count. By the other it would take up to a hundred
    times less there. Of several nodes in one measured kernel that with the most arithmetic decides, for the kernel's
    copies, too. `profile` is that of the estimate. An op that only one of the two graphs has keeps its time.
    """
    inside: dict[int, list[int]] = {}
    for row, last in enumerate(() if costs.within is None else costs.within.tolist()):
        inside.setdefault(last, []).append(row)
    here, there = (estimate(one, cluster, profile).run_ns for one in (graph, measured))
    here_alone, there_alone = (estimate(one, cluster, profile, joined=False).run_ns for one in (graph, measured))
    joins_here, joins_there = ({*made.without_reads, *made.additions} for made in (fused(graph), fused(measured)))

    def original(row: int) -> str:
        return graph.copies.get(graph.names[row], graph.names[row])

    def change(row: int) -> npt.NDArray[np.float64]:
        """[K] by which the estimate changes."""
        if (at := measured.index.get(original(row))) is None:
            return np.ones(len(costs.kinds))
        alike = (row in joins_here) == (at in joins_there)
        new, old = (here[row], there[at]) if alike else (here_alone[row], there_alone[at])
        return np.where((old > 0) & (new >= 0), new / np.maximum(old, 1), 1.0)

    run_ns, measured_on = costs.run_ns.copy(), costs.sources == MEASURED
    for row in np.flatnonzero(measured_on.any(1)).tolist():
        part = change(row)
        if joined := inside.get(graph.index.get(original(row), row)):
            most = max((row, *joined), key=lambda one: int(costs.flops[one]))
            part = np.where(costs.run_ns[most] == 0, change(most), part)  # on other kinds it has its own time
        run_ns[row] = np.where(measured_on[row], np.rint(run_ns[row] * part), run_ns[row])
    run_ns.setflags(write=False)
    return replace(costs, run_ns=run_ns)
