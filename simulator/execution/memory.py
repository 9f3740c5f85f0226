"""The memory of a device at one moment: its holders, and the first moment at which they are too much.

Of all that begins at one moment the client asks first, then transfers, then ops, each in order of row. The engine
serves them in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.columns import Ints, ids, ints
from simulator.errors import OutOfMemoryError, SimvizError
from simulator.execution.trace import Allocations, Residents, Trace
from simulator.partitioning.partitions import carried
from simulator.units import Bytes, Nanos, show_bytes, show_nanos
from simulator.wording import some

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.partitioning.partitions import Partitions

LARGEST = 5  # live tensors that an OutOfMemoryError names
# a variable or constant; what the client handed in; an op's output; the copy of another device's; what an op works in
KINDS = RESIDENT, FED, OUTPUT, RECEIVED, SCRATCH = ("resident", "fed", "output", "received", "scratch")


@dataclass(frozen=True, slots=True)
class Live:
    """A stretch of memory that is in use at some moment."""

    what: str  # "node:port" of a tensor, the name of a node that is resident or has scratch
    nbytes: Bytes
    kind: str  # one of KINDS
    origin: int  # row of the node that made it, in the graph that was cut

    def __str__(self) -> str:
        return self.what if self.kind == OUTPUT else f"{self.what} ({self.kind})"


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that a device held in a step, and what it was."""

    time_ns: Nanos  # when it was reached first; 0 where nothing is held but what is resident
    nbytes: Bytes
    cause: str  # the op or transfer whose memory made it so, in words; "" where nothing but what is resident is held
    cause_bytes: Bytes  # what that one began to hold then
    live: tuple[Live, ...]  # largest first, ties: resident before the rest, then in order of row; they add up to nbytes


_Task: TypeAlias = tuple[int, int]  # one of the following; its node in the pieces, or the row of the transfer
_FEED, _TRANSFER, _OP = range(3)


@dataclass(frozen=True, eq=False)
class _Held:
    """Workings: the memory of a trace, with the words for it."""

    rows: Allocations  # by transfer of the partitions
    always: Residents
    partitions: Partitions


def at_peak(trace: Trace, partitions: Partitions, device: int) -> Peak:
    """The memory in use on the device when it held most, and its cause.

    The cause is the op or transfer that began to hold most at that moment; ties go to who asks first. What lives for
    no time counts at its moment. Raises SimvizError for a trace without allocations.
    """
    held = _held(trace, partitions)
    most = int(trace.peak_bytes[device])
    always = _residents(held, device)
    if trace.peak_ns is None or most == int(trace.resident_bytes[device]):
        return Peak(0, most, "", 0, _largest_first(always))
    moment = int(trace.peak_ns[device])
    alive = _alive(held, device, moment)
    began = {task: _sum(held, rows) for task, rows in _asked(held, _begun(held, alive, moment)).items()}
    cause = max(began, key=lambda task: began[task])  # the first of equals
    live = _largest_first([*always, *_live(held, alive)])
    return Peak(moment, most, _said(held, cause), began[cause], live)


def attained(trace: Trace, cluster: Cluster) -> tuple[bool, Nanos]:
    """Whether a step lacks memory, and its makespan: the less, the better."""
    return bool(_full(trace, cluster)), trace.makespan


def _full(trace: Trace, cluster: Cluster) -> list[int]:
    """The devices that hold more than they have."""
    have = [device.memory_bytes for device in cluster.devices]
    return [device for device, peak in enumerate(trace.peak_bytes.tolist()) if peak > have[device]]


def out_of_memory(trace: Trace, partitions: Partitions, cluster: Cluster) -> OutOfMemoryError | None:
    """The first moment at which a device holds more than it has, as TensorFlow's allocator would say it; or None.

    Ties go to the device of the lower row. The error names the first op or transfer whose memory does not fit, what it
    needs and what is free for it. It also names the largest tensors that are alive then, with those of that op or
    transfer. Where variables and constants alone take more than there is, it names these.
    """
    capacity = [device.memory_bytes for device in cluster.devices]
    full = _full(trace, cluster)
    if not full:
        return None
    held = _held(trace, partitions)
    moment, device = min((_first_excess(trace, held.rows, device, capacity[device]), device) for device in full)
    if trace.resident_bytes[device] > capacity[device]:
        return _too_much_resident(held, cluster, device)
    return _excess(held, cluster, device, moment)


def _held(trace: Trace, partitions: Partitions) -> _Held:
    if trace.allocations is None or trace.residents is None:
        raise SimvizError("This trace does not say whose memory it holds; take one that `simulate` made.")
    rows = trace.allocations
    arrived = np.append(trace.transfers.row, -1)[rows.transfer]  # the last answers for what was made here
    return _Held(replace(rows, transfer=ids(arrived)), trace.residents, partitions)


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


def _alive(held: _Held, device: int, moment: int) -> npt.NDArray[np.intp]:
    """Rows that are in use at a moment; what ends then is gone, but for what also began then."""
    start, end = held.rows.start_ns, held.rows.end_ns
    return np.flatnonzero((held.rows.device == device) & (start <= moment) & ((end > moment) | (start == moment)))


def _begun(held: _Held, alive: npt.NDArray[np.intp], moment: int) -> npt.NDArray[np.intp]:
    begun: npt.NDArray[np.intp] = alive[held.rows.start_ns[alive] == moment]
    return begun


def _asked(held: _Held, fresh: npt.NDArray[np.intp]) -> dict[_Task, list[int]]:
    """The rows that each op and transfer begins to hold, in the order in which they ask for them."""
    asked: dict[_Task, list[int]] = {}
    for row in fresh.tolist():
        tensor, transfer = int(held.rows.tensor[row]), int(held.rows.transfer[row])
        maker = -1 - tensor if tensor < 0 else int(held.partitions.graph.tensor_node[tensor])
        if transfer >= 0:
            task = (_TRANSFER, transfer)
        else:
            task = (_FEED if held.partitions.endpoint[maker] >= 0 else _OP, maker)
        asked.setdefault(task, []).append(row)
    return dict(sorted(asked.items()))


def _sum(held: _Held, rows: list[int]) -> int:
    return int(held.rows.nbytes[rows].sum())


def _said(held: _Held, task: _Task) -> str:
    """An op or a transfer in words."""
    cut, (kind, row) = held.partitions, task
    if kind != _TRANSFER:
        return f"what is fed as {cut.graph.names[row]}" if kind == _FEED else cut.graph.names[row]
    return f"the copy of {carried(cut, row)} from {cut.devices[int(cut.ends[0][row])]}"


def _live(held: _Held, rows: Sequence[int] | npt.NDArray[np.intp]) -> list[Live]:
    cut, tensor = held.partitions, held.rows.tensor[rows]
    graph, scratch = cut.graph, tensor < 0
    node, port = (np.append(of, 0)[np.where(scratch, -1, tensor)] for of in (graph.tensor_node, graph.tensor_port))
    maker = np.where(scratch, -1 - tensor, node)
    received, fed = held.rows.transfer[rows] >= 0, cut.endpoint[maker] >= 0
    kind = np.select([scratch, received, fed], [SCRATCH, RECEIVED, FED], OUTPUT)
    columns = (maker, port, held.rows.nbytes[rows], kind, cut.origin[maker])
    return [
        Live(graph.names[row] if sort == SCRATCH else f"{graph.names[row]}:{at}", nbytes, sort, origin)
        for row, at, nbytes, sort, origin in zip(*(one.tolist() for one in columns), strict=True)
    ]


def _residents(held: _Held, device: int) -> list[Live]:
    cut, always = held.partitions, held.always
    mine = np.flatnonzero(always.device == device)
    rows = zip(always.node[mine].tolist(), always.nbytes[mine].tolist(), strict=True)
    return [Live(cut.graph.names[node], nbytes, RESIDENT, int(cut.origin[node])) for node, nbytes in rows]


def _largest_first(live: list[Live]) -> tuple[Live, ...]:
    return tuple(sorted(live, key=lambda one: -one.nbytes))


def _too_much_resident(held: _Held, cluster: Cluster, device: int) -> OutOfMemoryError:
    name, capacity = cluster.devices[device].name, cluster.devices[device].memory_bytes
    live = _largest_first(_residents(held, device))
    needed = sum(one.nbytes for one in live)
    return OutOfMemoryError(
        f"{name} has {show_bytes(capacity)}, but its variables and constants alone take {show_bytes(needed)}; "
        f"the largest: {_listed(live)}. Spread them over more devices or choose one with more memory.",
        device=name,
        time_ns=0,
        needed_bytes=needed,
        free_bytes=capacity,
        live=[(str(one), one.nbytes) for one in live[:LARGEST]],
    )


def _excess(held: _Held, cluster: Cluster, device: int, moment: int) -> OutOfMemoryError:
    name, capacity = cluster.devices[device].name, cluster.devices[device].memory_bytes
    always = _residents(held, device)
    resident = sum(one.nbytes for one in always)
    alive = _alive(held, device, moment)
    fresh = _begun(held, alive, moment)
    rows = np.setdiff1d(alive, fresh).tolist()
    free = capacity - resident - _sum(held, rows)
    cause, needed = "", 0
    for task, wanted in _asked(held, fresh).items():
        cause, needed = _said(held, task), _sum(held, wanted)
        rows += wanted
        if needed > free:
            break
        free -= needed
    live = _largest_first([*always, *_live(held, sorted(rows))])
    return OutOfMemoryError(
        f"{name} runs out of memory after {show_nanos(moment)}: {cause} needs {show_bytes(needed)} and "
        f"{show_bytes(free)} of {show_bytes(capacity)} are free, {show_bytes(resident)} being resident. Largest: "
        f"{_listed(live)}. Use more devices or a smaller batch.",
        device=name,
        time_ns=moment,
        needed_bytes=needed,
        free_bytes=free,
        live=[(str(one), one.nbytes) for one in live[:LARGEST]],
    )


def _listed(live: tuple[Live, ...]) -> str:
    return some([f"{one} {show_bytes(one.nbytes)}" for one in live], LARGEST)
