"""Measured times of nodes as values: what a file of measurements says, in whatever form it came."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simulator.errors import ClusterError
from simulator.units import Nanos

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
