"""The first steps of each client, op by op: a trace of all of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, flags, ids, ints
from simulator.execution.engine import pack_lanes
from simulator.execution.links import crossing_ns, wire_end
from simulator.execution.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.execution.arrays import State, Tasks
    from simulator.execution.engine import Column
    from simulator.execution.task_graph import TaskGraph
    from simulator.training.clients.client_tables import Client, CombinedTables
    from simulator.training.clients.workload import Workload
    from simulator.units import Nanos

MAX_ROWS = 2_000_000  # tasks that are recorded at most, over all steps


class Recorded(NamedTuple):
    """One step. Axis: J the tasks of its client, as `Recorder.tasks` has them."""

    client: int
    number: int
    ready_ns: Ints  # [J]
    start_ns: Ints  # [J]
    end_ns: Ints  # [J]
    lane: Ints | None  # [J] where the device chose one; None: found afterwards


class Recorder:
    """Writes down the first `steps` steps of each client, in order of their ends, as far as there is room."""

    def __init__(self, workload: Workload, combined: CombinedTables, lowered: TaskGraph, steps: int) -> None:
        self.op_ptr: list[int] = workload.op_ptr.tolist()
        self.steps, self.room = steps, MAX_ROWS
        self.recorded: list[Recorded] = []
        sender = combined.tables.tensor_op[lowered.transfers.tensor]
        self.transfer_ptr: list[int] = np.searchsorted(sender, workload.op_ptr).tolist()
        chain = np.flatnonzero(lowered.transfer >= 0)
        of_chain = lowered.transfer[chain]
        self.tasks = [  # [C] the tasks of each client
            np.concatenate([np.arange(a, b), chain[(of_chain >= x) & (of_chain < y)]])
            for (a, b), (x, y) in zip(pairwise(self.op_ptr), pairwise(self.transfer_ptr), strict=True)
        ]
        links = len(combined.tables.routes.link_names)
        self.on_shared = lowered.tasks.resource >= len(combined.tables.devices) + links
        self.lag_ns = lowered.tasks.lag_ns

    def note(self, client: int, number: int, tasks: Tasks, state: State, took: Ints, lane: Ids | None) -> None:
        """A step is over, of which all times are still there; `took` is how long each task lasted."""
        rows = self.tasks[client]
        if number >= self.steps or len(rows) > self.room:
            return
        self.room -= len(rows)

        def own(column: Column) -> npt.NDArray[np.integer]:
            return np.asarray(column)[rows] if isinstance(column, np.ndarray) else np.array([column[r] for r in rows])

        start = own(state.start_ns)
        end = np.where(self.on_shared[rows], own(state.end_ns), start + own(took) + self.lag_ns[rows])
        self.recorded.append(
            Recorded(
                client=client,
                number=number,
                ready_ns=ints(np.maximum(own(state.ready_ns), own(tasks.release_ns))),
                start_ns=ints(start),
                end_ns=ints(end),
                lane=None if lane is None else ints(own(lane)),
            )
        )


def trace_of(
    recorder: Recorder,
    clients: Sequence[Client],
    combined: CombinedTables,
    lowered: TaskGraph,
    how: Mapping[str, str],
    busy_ns: Sequence[int],
    end_ns: Nanos,
) -> Trace:
    """All recorded steps, in order of (client, step) where nothing else orders rows; memory is not reckoned with."""
    steps = sorted(recorder.recorded, key=lambda one: one[:2])
    tables, crossing = combined.tables, lowered.transfers
    rows = _Rows(recorder, steps, combined, lowered)
    op, wire = rows.ops, rows.transfers
    client, number = (np.repeat([one[at] for one in steps], rows.op_counts) for at in range(2))
    where, start, lane = lowered.device[op], rows.of_ops("start_ns"), rows.lane_of_ops
    shown = np.flatnonzero(~(_inserted(clients, combined)[op] | tables.silent[op]))
    shown = shown[np.lexsort((shown, lane[shown], where[shown], start[shown]))]
    asked, sent, came = (
        rows.of_transfers(name, which)
        for name, which in (("ready_ns", "first"), ("start_ns", "wire"), ("end_ns", "arrive"))
    )
    flows = lowered.tasks.resource[lowered.arrive[wire]] >= len(tables.devices) + len(tables.routes.link_names)
    through = wire_end(tables, crossing.route[wire], crossing.latency_ns[wire], flags(flows), ints(came))
    held = rows.holds()
    sender = tables.tensor_op[crossing.tensor[wire]]
    packs, unpacks = lowered.pack[wire] >= 0, lowered.unpack[wire] >= 0
    return Trace(
        node=ids(tables.node[op][shown]),
        iteration=ids(tables.iteration[op][shown]),
        device=ids(where[shown]),
        lane=ids(lane[shown]),
        client=ids(client[shown]),
        step=ids(number[shown]),
        ready_ns=ints(rows.of_ops("ready_ns")[shown]),
        start_ns=ints(start[shown]),
        end_ns=ints(rows.of_ops("end_ns")[shown]),
        transfer=ids(_transfers(clients, combined)[sender]),
        transfer_iteration=ids(tables.iteration[sender]),
        transfer_dead=flags(tables.silent[sender]),
        transfer_client=ids(np.repeat([one.client for one in steps], rows.transfer_counts)),
        transfer_step=ids(np.repeat([one.number for one in steps], rows.transfer_counts)),
        transfer_ready_ns=ints(asked),
        pack_start_ns=ints(np.where(packs, rows.of_transfers("start_ns", "pack"), asked)),
        pack_end_ns=ints(np.where(packs, rows.of_transfers("end_ns", "pack"), asked)),
        transfer_start_ns=ints(sent),
        wire_end_ns=through,
        crossing_ns=crossing_ns(crossing.wire_ns[wire], held["hold_ptr"], ints(sent), through),
        transfer_end_ns=ints(came),
        unpack_start_ns=ints(np.where(unpacks, rows.of_transfers("start_ns", "unpack"), came)),
        unpack_end_ns=ints(np.where(unpacks, rows.of_transfers("end_ns", "unpack"), came)),
        pack_lane=ids(np.where(packs, rows.lane_of("pack"), 0)),
        unpack_lane=ids(np.where(unpacks, rows.lane_of("unpack"), 0)),
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


class _Rows:
    """Recorded steps side by side: where the times of ops and of stretches of transfers stand."""

    def __init__(
        self, recorder: Recorder, steps: Sequence[Recorded], combined: CombinedTables, lowered: TaskGraph
    ) -> None:
        self.steps, self.lowered = steps, lowered
        ops = [np.arange(recorder.op_ptr[one.client], recorder.op_ptr[one.client + 1]) for one in steps]
        wires = [np.arange(recorder.transfer_ptr[one.client], recorder.transfer_ptr[one.client + 1]) for one in steps]
        self.ops, self.transfers = _joined(ops), _joined(wires)
        self.op_counts, self.transfer_counts = [len(rows) for rows in ops], [len(rows) for rows in wires]
        place = np.zeros(len(lowered.transfer) + 1, np.int64)  # of each task among those of its client
        for rows in recorder.tasks:
            place[rows] = np.arange(len(rows))
        self.place = place
        sizes = [len(recorder.tasks[one.client]) for one in steps]
        self.begin = np.cumsum([0, *sizes[:-1]], dtype=np.int64)[: len(sizes)]  # where the tasks of each step begin
        tasks = _joined([recorder.tasks[one.client] for one in steps])
        if steps and steps[0].lane is not None:
            self.lane = _joined([one.lane for one in steps if one.lane is not None])
        else:
            where, start, end = lowered.tasks.resource[tasks], self._column("start_ns"), self._column("end_ns")
            taken = flags((where >= 0) & (where < len(combined.tables.devices)))
            self.lane = ints(pack_lanes(ids(where), start, ints(end - start), taken, combined.tables.lanes))

    def _column(self, name: str) -> Ints:
        return _joined([getattr(one, name) for one in self.steps])

    def of_ops(self, name: str) -> Ints:
        """That column of the ops of all steps."""
        return ints(self._column(name)[np.repeat(self.begin, self.op_counts) + self.place[self.ops]])

    @property
    def lane_of_ops(self) -> Ints:
        """The lane of each op; 0 for those that take none."""
        return ints(self.lane[np.repeat(self.begin, self.op_counts) + self.place[self.ops]])

    def _at(self, which: str) -> npt.NDArray[np.int64]:
        """Where the tasks stand that are that stretch of each transfer; anywhere, where there is none."""
        task: Ids = getattr(self.lowered, which)[self.transfers]
        at = np.repeat(self.begin, self.transfer_counts) + self.place[task]
        return np.where(task >= 0, at, 0)

    def of_transfers(self, name: str, which: str) -> Ints:
        """That column of a stretch of all transfers."""
        column = self._column(name)
        return ints(column[self._at(which)]) if len(column) else column

    def lane_of(self, which: str) -> Ints:
        """The lane of that work of each transfer."""
        return ints(self.lane[self._at(which)]) if len(self.lane) else self.lane

    def holds(self) -> dict[str, Any]:  # Any: columns of two types
        """When each of the recorded transfers had each of its serial links."""
        lowered = self.lowered
        first, last = lowered.hold_ptr[self.transfers], lowered.hold_ptr[self.transfers + 1]
        hold = _joined([np.arange(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)])
        begins = np.repeat(np.repeat(self.begin, self.transfer_counts), last - first)
        start = self._column("start_ns")[begins + self.place[lowered.hold[hold]]]
        return {
            "hold_ptr": ids(np.append(0, np.cumsum(last - first))),
            "hold_link": ids(lowered.hold_link[hold]),
            "hold_start_ns": ints(start),
            "hold_end_ns": ints(start + lowered.tasks.length[lowered.hold[hold]]),
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


def _joined(parts: Sequence[npt.NDArray[np.integer]]) -> Ints:
    return ints(np.concatenate([np.zeros(0, np.int64), *parts]))


def _inserted(clients: Sequence[Client], combined: CombinedTables) -> npt.NDArray[np.bool_]:
    """[n] made by the cut."""
    parts = [
        client.partitions.inserted[combined.tables.node[a:b]]
        for client, (a, b) in zip(clients, pairwise(combined.op_ptr.tolist()), strict=True)
    ]
    return np.concatenate(parts)


def _transfers(clients: Sequence[Client], combined: CombinedTables) -> npt.NDArray[np.integer]:
    """[n] row of its client's transfers of which an op is the Send; -1: it is none."""
    parts = []
    for client, (a, b) in zip(clients, pairwise(combined.op_ptr.tolist()), strict=True):
        of_node = np.full(len(client.partitions.graph), -1)
        of_node[client.partitions.send] = np.arange(len(client.partitions.send))
        parts.append(of_node[combined.tables.node[a:b]])
    return np.concatenate(parts)
