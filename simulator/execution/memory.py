"""Find the first moment at which a simulated step exceeds a device's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.columns import Ints, ints
from simulator.errors import OutOfMemoryError
from simulator.execution.trace import Allocations, Trace
from simulator.units import show_bytes, show_nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Graph
    from simulator.partitioning import Partitions

LARGEST = 5  # live tensors that an OutOfMemoryError names


def out_of_memory(trace: Trace, partitions: Partitions, cluster: Cluster) -> OutOfMemoryError | None:
    """What TensorFlow's allocator would say: the first moment at which a device holds more than it has, or None.

    Ties go to the device of the lower row. The error names the op or transfer that asked and the largest live tensors.
    """
    held = trace.allocations
    if held is None:
        return None
    capacity = [device.memory_bytes for device in cluster.devices]
    full = [device for device, peak in enumerate(trace.peak_bytes.tolist()) if peak > capacity[device]]
    if not full:
        return None
    moment, device = min((_first_excess(trace, held, device, capacity[device]), device) for device in full)
    return _excess(trace, held, partitions, cluster, device, moment)


def _first_excess(trace: Trace, held: Allocations, device: int, capacity: int) -> int:
    """The first moment at which an allocation on the device goes beyond its capacity; 0 if what is resident does."""
    resident = int(trace.resident_bytes[device])
    if resident > capacity:
        return 0
    mine = np.flatnonzero(held.device == device)
    start, end = held.start_ns[mine], held.end_ns[mine]
    moments = np.unique(start)
    begun = _sums(start, held.nbytes[mine], moments)
    ended = _sums(np.where(end > start, end, end + 1), held.nbytes[mine], moments)  # of no length: there at its moment
    return int(moments[np.argmax(resident + begun - ended > capacity)])


def _sums(time: npt.NDArray[np.int64], nbytes: npt.NDArray[np.int64], moments: npt.NDArray[np.int64]) -> Ints:
    """Bytes of all rows whose time is not after each moment."""
    order = np.argsort(time, kind="stable")
    return ints(np.append(0, np.cumsum(nbytes[order]))[np.searchsorted(time[order], moments, side="right")])


def _excess(
    trace: Trace, held: Allocations, partitions: Partitions, cluster: Cluster, device: int, moment: int
) -> OutOfMemoryError:
    name, capacity = cluster.devices[device].name, cluster.devices[device].memory_bytes
    resident = int(trace.resident_bytes[device])
    if resident > capacity:
        return OutOfMemoryError(
            f"{name} has {show_bytes(capacity)}, but its variables and constants alone take {show_bytes(resident)}; "
            "spread them over more devices or choose one with more memory.",
            device=name,
            time_ns=0,
            needed_bytes=resident,
            free_bytes=capacity,
        )
    there = (held.device == device) & (held.start_ns <= moment)
    alive = np.flatnonzero(there & ((held.end_ns > moment) | (held.start_ns == moment)))
    fresh = alive[held.start_ns[alive] == moment]
    needed = int(held.nbytes[fresh].sum())
    free = capacity - resident - int(held.nbytes[alive].sum()) + needed
    largest = sorted(alive.tolist(), key=lambda row: (-int(held.nbytes[row]), row))[:LARGEST]
    live = [(_label(held, partitions.graph, row), int(held.nbytes[row])) for row in largest]
    cause = _label(held, partitions.graph, max(fresh.tolist(), key=lambda row: (int(held.nbytes[row]), -row)))
    return OutOfMemoryError(
        f"{name} runs out of memory after {show_nanos(moment)}: {cause} needs {show_bytes(needed)} and "
        f"{show_bytes(free)} of {show_bytes(capacity)} are free. Use more devices or a smaller batch.",
        device=name,
        time_ns=moment,
        needed_bytes=needed,
        free_bytes=free,
        live=live,
    )


def _label(held: Allocations, graph: Graph, row: int) -> str:
    tensor = int(held.tensor[row])
    if tensor < 0:
        return f"{graph.names[-1 - tensor]} (scratch)"
    received = " (received)" if held.transfer[row] >= 0 else ""
    return graph.tensor_name(tensor) + received
