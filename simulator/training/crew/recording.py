"""The first steps of each client, op by op: a trace of all of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, flags, ids, ints
from simulator.execution.engine import pack_lanes
from simulator.execution.links import Holds, crossing_ns, holds, wire_end
from simulator.execution.queues import Executor
from simulator.execution.trace import Trace
from simulator.execution.ways import discipline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.execution.engine import Prepared
    from simulator.execution.loop import Column, State
    from simulator.training.crew.combining import Client, Joined
    from simulator.units import Nanos

MAX_ROWS = 2_000_000  # jobs that are recorded at most, over all steps


class Recorded(NamedTuple):
    """One step. Axes: n ops of its client, X transfers, J = n + 2X jobs as in `Wiring`; holds as in `Wires`."""

    client: int
    number: int
    ready_ns: Ints  # [n]
    start_ns: Ints  # [J]
    took_ns: Ints  # [J]
    lane: Ints | None  # [J] where the device chose one; None: found afterwards
    asked_ns: Ints  # [X]
    sent_ns: Ints  # [X]
    came_ns: Ints  # [X]
    begun_ns: Ints  # of its holds


class Times(NamedTuple):
    """Where the times of the steps under way are; lists and arrays that the loop goes on to write."""

    ready: Column  # [n]
    start: Column  # of jobs
    took: Column
    lane: Column | None
    asked: Column  # [X]
    sent: Column
    came: Column
    begun_on: Column  # of holds
    packs: int  # the first job that packs
    unpacks: int  # the first that unpacks


def times_of(state: State, ops: int, transfers: int) -> Times:
    """Those of the loop's state."""
    return Times(
        ready=state.ready,
        start=state.start,
        took=state.run_ns,
        lane=state.queues.lane if isinstance(state.queues, Executor) else None,
        asked=state.asked,
        sent=state.sent,
        came=state.came,
        begun_on=state.begun_on,
        packs=ops,
        unpacks=ops + transfers,
    )


class Recorder:
    """Writes down the first `steps` steps of each client, in order of their ends, as far as there is room."""

    def __init__(self, op_ptr: list[int], transfer_ptr: list[int], held_ptr: list[int], steps: int) -> None:
        """`op_ptr` and `transfer_ptr` are by client, `held_ptr` is that of `Wires`."""
        self.op_ptr, self.transfer_ptr, self.held_ptr, self.steps = op_ptr, transfer_ptr, held_ptr, steps
        self.room = MAX_ROWS
        self.recorded: list[Recorded] = []

    def note(self, client: int, number: int, times: Times) -> None:
        """A step is over, of which all times are still there."""
        a, b = self.op_ptr[client], self.op_ptr[client + 1]
        x, y = self.transfer_ptr[client], self.transfer_ptr[client + 1]
        rows = b - a + 2 * (y - x)
        if number >= self.steps or rows > self.room:
            return
        self.room -= rows

        def jobs(column: Column) -> Ints:
            packs, unpacks = slice(times.packs + x, times.packs + y), slice(times.unpacks + x, times.unpacks + y)
            return ints(np.concatenate([column[a:b], column[packs], column[unpacks]]))

        self.recorded.append(
            Recorded(
                client=client,
                number=number,
                ready_ns=ints(times.ready[a:b]),
                start_ns=jobs(times.start),
                took_ns=jobs(times.took),
                lane=None if times.lane is None else jobs(times.lane),
                asked_ns=ints(times.asked[x:y]),
                sent_ns=ints(times.sent[x:y]),
                came_ns=ints(times.came[x:y]),
                begun_ns=ints(times.begun_on[self.held_ptr[x] : self.held_ptr[y]]),
            )
        )


def trace_of(
    recorder: Recorder,
    clients: Sequence[Client],
    laid: Joined,
    given: Prepared,
    how: Mapping[str, str],
    busy_ns: Sequence[int],
    end_ns: Nanos,
) -> Trace:
    """All recorded steps, in order of (client, step) where nothing else orders rows; memory is not reckoned with."""
    steps = sorted(recorder.recorded, key=lambda one: one[:2])
    tables, crossing = laid.tables, given.crossing
    op, wire, jobs = _rows(recorder, steps, laid, given)
    ran, packed, unpacked = (jobs[kind] for kind in range(3))
    client, number = (np.repeat([one[at] for one in steps], [len(one.ready_ns) for one in steps]) for at in range(2))
    shown = np.flatnonzero(~(_inserted(clients, laid)[op] | tables.silent[op]))
    rows = shown[np.lexsort((shown, ran.lane[shown], ran.where[shown], ran.start[shown]))]
    asked, sent, came = (_column(steps, name) for name in ("asked_ns", "sent_ns", "came_ns"))
    flows = flags(given.wires.flows)[wire]
    every = holds(tables, crossing, discipline(tables.ways, how["contention"]).held)
    through = wire_end(tables, crossing.way[wire], crossing.latency_ns[wire], flows, ints(came))
    held = _held(every, ids(wire), _column(steps, "begun_ns"))
    sender = tables.tensor_op[crossing.tensor[wire]]
    packs, unpacks = crossing.pack_ns[wire] > 0, crossing.unpack_ns[wire] > 0
    of_transfer = [len(one.asked_ns) for one in steps]
    return Trace(
        node=ids(tables.node[op][rows]),
        iteration=ids(tables.iteration[op][rows]),
        device=ids(ran.where[rows]),
        lane=ids(ran.lane[rows]),
        client=ids(client[rows]),
        step=ids(number[rows]),
        ready_ns=ints(_column(steps, "ready_ns")[rows]),
        start_ns=ints(ran.start[rows]),
        end_ns=ints(ran.end[rows]),
        transfer=ids(_transfers(clients, laid)[sender]),
        transfer_iteration=ids(tables.iteration[sender]),
        transfer_dead=flags(tables.silent[sender]),
        transfer_client=ids(np.repeat([one.client for one in steps], of_transfer)),
        transfer_step=ids(np.repeat([one.number for one in steps], of_transfer)),
        transfer_ready_ns=ints(asked),
        pack_start_ns=ints(np.where(packs, packed.start, asked)),
        pack_end_ns=ints(np.where(packs, packed.end, asked)),
        transfer_start_ns=ints(sent),
        wire_end_ns=through,
        crossing_ns=crossing_ns(crossing.wire_ns[wire], held["hold_ptr"], ints(sent), through),
        transfer_end_ns=ints(came),
        unpack_start_ns=ints(np.where(unpacks, unpacked.start, came)),
        unpack_end_ns=ints(np.where(unpacks, unpacked.end, came)),
        pack_lane=ids(packed.lane),
        unpack_lane=ids(unpacked.lane),
        **held,
        busy_ns=ints(busy_ns),
        makespan=end_ns,
        iterations=tables.iterations,
        notes=tables.notes,
        **_not_reckoned(len(busy_ns)),
        order=how["order"],
        contention=how["contention"],
        engine=how["engine"],
    )


def _held(every: Holds, wire: Ids, begun: Ints) -> dict[str, Any]:  # Any: columns of two types
    """When each of the recorded transfers had each of its serial links."""
    first, last = every.ptr[wire], every.ptr[wire + 1]
    hold = _joined([np.arange(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)])
    return {
        "hold_ptr": ids(np.append(0, np.cumsum(last - first))),
        "hold_link": ids(every.link[hold]),
        "hold_start_ns": begun,
        "hold_end_ns": ints(begun + every.ns[hold]),
    }


def _not_reckoned(devices: int) -> dict[str, Any]:  # Any: columns of several types
    """The columns of memory, empty, and of the critical path, which is a step's."""
    nothing, none = ints([]), ints(np.zeros(devices))
    return {
        "memory_device": ids([]),
        "memory_time_ns": nothing,
        "memory_bytes": nothing,
        "peak_bytes": none,
        "resident_bytes": none,
        "critical": None,
        "peak_ns": None,
        "allocations": None,
        "residents": None,
    }


class _Jobs(NamedTuple):
    """Jobs of all steps, of one kind: ops, or the work at one end of transfers."""

    where: Ints  # device
    start: Ints
    end: Ints
    lane: Ints


def _rows(
    recorder: Recorder, steps: Sequence[Recorded], laid: Joined, given: Prepared
) -> tuple[Ints, Ints, tuple[_Jobs, _Jobs, _Jobs]]:
    """The ops and transfers of all steps, and when and where what ran: ops, packing, unpacking."""
    ops = [np.arange(recorder.op_ptr[one.client], recorder.op_ptr[one.client + 1]) for one in steps]
    wires = [np.arange(recorder.transfer_ptr[one.client], recorder.transfer_ptr[one.client + 1]) for one in steps]
    count, total = recorder.op_ptr[-1], recorder.transfer_ptr[-1]
    job = _joined([np.concatenate([o, count + x, count + total + x]) for o, x in zip(ops, wires, strict=True)])
    start, took = _column(steps, "start_ns"), _column(steps, "took_ns")
    where = np.array(given.wiring.device, np.int64)[job]
    crossing = given.crossing
    taken = np.concatenate([~laid.tables.instant, crossing.pack_ns > 0, crossing.unpack_ns > 0])[job]
    if isinstance(given.queues, Executor):
        lane = _joined([one.lane for one in steps if one.lane is not None])
    else:
        lane = ints(pack_lanes(ids(where), start, took, taken, laid.tables.lanes))
    bounds = (job < count, (job >= count) & (job < count + total), job >= count + total)
    first, second, third = (_Jobs(where[is_], start[is_], (start + took)[is_], lane[is_]) for is_ in bounds)
    return _joined(ops), _joined(wires), (first, second, third)


def _column(steps: Sequence[Recorded], name: str) -> Ints:
    return _joined([getattr(one, name) for one in steps])


def _joined(parts: Sequence[npt.NDArray[np.integer]]) -> Ints:
    return ints(np.concatenate([np.zeros(0, np.int64), *parts]))


def _inserted(clients: Sequence[Client], laid: Joined) -> npt.NDArray[np.bool_]:
    """[n] made by the cut."""
    parts = [
        client.partitions.inserted[laid.tables.node[a:b]]
        for client, (a, b) in zip(clients, pairwise(laid.op_ptr.tolist()), strict=True)
    ]
    return np.concatenate(parts)


def _transfers(clients: Sequence[Client], laid: Joined) -> npt.NDArray[np.integer]:
    """[n] row of its client's transfers of which an op is the Send; -1: it is none."""
    parts = []
    for client, (a, b) in zip(clients, pairwise(laid.op_ptr.tolist()), strict=True):
        of_node = np.full(len(client.partitions.graph), -1)
        of_node[client.partitions.send] = np.arange(len(client.partitions.send))
        parts.append(of_node[laid.tables.node[a:b]])
    return np.concatenate(parts)
