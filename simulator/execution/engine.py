"""Run a step under an assignment: when each op ran, and each stretch of each transfer.

tables, devices ──transfers_of──▶ transfers ──lower──▶ tasks ──event loop──▶ Outcome
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, ids, ints
from simulator.errors import DeadlockError
from simulator.execution.arrays import CODES, EXECUTOR, PRIORITY, STUCK
from simulator.execution.links import flowing, wire_end
from simulator.execution.options import SimulationOptions
from simulator.execution.routes import discipline
from simulator.execution.running import Ran, play, span
from simulator.execution.tables import Tables
from simulator.execution.task_graph import TaskGraph, lower, ranks
from simulator.execution.transfers import Transfers, checked, transfers_of
from simulator.units import Nanos

Column = Sequence[int] | npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What happened. Axes: n ops, X transfers of `transfers_of`, H holds: of each transfer a row per serial link.

    A transfer is asked for when its value is there and its Recv was posted early enough, packed by the processor at
    its source, on the wire, under way for its latency, and unpacked by the one at its target: each stretch begins no
    earlier than the one before it ends, and has no length where the protocol asks for no work. On the wire it holds
    one serial link after the other, each for as long as its bytes take there.
    """

    makespan: Nanos
    device: Ids  # [n]
    ready_ns: Ints  # [n] its last needed input is there
    start_ns: Ints  # [n]
    end_ns: Ints  # [n]
    first: Ids  # [n] the edge that made a Merge ready, -1: not a Merge
    transfers: Transfers
    transfer_ready_ns: Ints  # [X] asked for
    pack_start_ns: Ints  # [X]
    pack_end_ns: Ints  # [X]
    transfer_start_ns: Ints  # [X] on the wire: its first link begins with it
    wire_end_ns: Ints  # [X] its bytes are through all of its links
    transfer_end_ns: Ints  # [X] arrived: a latency later, or at once where its latency came first (see `wire_end`)
    unpack_start_ns: Ints  # [X]
    unpack_end_ns: Ints  # [X] its readers have it
    lane: Ids  # [n] lane within the device; 0 for instant ops
    pack_lane: Ids  # [X] of the processor
    unpack_lane: Ids  # [X]
    hold_ptr: Ids  # [X+1] first hold of each transfer
    hold_link: Ids  # [H] in order of the route
    hold_start_ns: Ints  # [H]
    hold_end_ns: Ints  # [H]

    @property
    def events(self) -> int:
        """How many ends of ops and transfers the loop retired."""
        return len(self.start_ns) + len(self.transfer_start_ns)


def run(
    tables: Tables,
    device: Column,
    priority: Column | None = None,
    options: SimulationOptions = SimulationOptions(),
    *,
    compiled: bool = False,
) -> Outcome:
    """Run every op on its device.

    Of the options, `order` and `contention` count. `compiled`: by the compiled loop, which gives the same.

    Raises SimvizError for an assignment of the wrong length or with an unknown device, for priorities that are missing
    and for times that add up to too much, InfeasibleError where there is no kernel, ClusterError where there is no
    route, DeadlockError where ops wait for each other; all but the last before anything runs.
    """
    column, code = checked(tables, device), CODES[options.order_for(priority)]
    crossing = transfers_of(tables, column)
    lowered = lower(tables, column, crossing, options.contention, code, _places(tables, priority, code))
    ran = None
    if compiled:
        from simulator.execution.compiled.engine import run_one  # numba takes longer to load than a small step to run

        ran = run_one(tables, lowered, options.contention, code)
    if ran is None:  # or its times are more than compiled code can count
        ran = play(tables, lowered, options.contention, code)
    if ran.makespan == STUCK:
        raise deadlock(tables, ran.ready_ns[: len(tables)].tolist())
    return _outcome(tables, lowered, ran, options.contention, own_lanes=code == EXECUTOR)


def makespan(
    tables: Tables,
    device: Column,
    priority: Column | None = None,
    options: SimulationOptions = SimulationOptions(),
) -> Nanos:
    """`run(...).makespan` without the record, for search."""
    column, code = checked(tables, device), CODES[options.order_for(priority)]
    crossing = transfers_of(tables, column)
    lowered = lower(tables, column, crossing, options.contention, code, _places(tables, priority, code))
    found, state, _ = span(tables, lowered, options.contention, code)
    if found == STUCK:
        raise deadlock(tables, list(state.ready_ns[: len(tables)]))
    return found


def _places(tables: Tables, priority: Column | None, code: int) -> Sequence[int]:
    """[n] the place of each op in order of (priority, row), where that counts."""
    return ranks(tables, priority) if code == PRIORITY and priority is not None else ()


def _outcome(tables: Tables, lowered: TaskGraph, ran: Ran, contention: str, *, own_lanes: bool) -> Outcome:
    """Sort the times of tasks by ops and stretches of transfers."""
    n, crossing, pack, unpack = len(tables), lowered.transfers, lowered.pack, lowered.unpack
    ready, start, end = ran.ready_ns, ran.start_ns, ran.end_ns
    lane = ran.lane if own_lanes else lanes(tables, lowered, start)
    asked, came = ready[lowered.first], end[lowered.arrive]
    flows = flowing(tables, crossing, discipline(tables.routes, contention))
    hold_ns = lowered.tasks.length[lowered.hold]
    return Outcome(
        makespan=ran.makespan,
        device=lowered.device,
        ready_ns=ints(ready[:n]),
        start_ns=ints(start[:n]),
        end_ns=ints(end[:n]),
        first=_first(tables, lowered, end),
        transfers=crossing,
        transfer_ready_ns=ints(asked),
        pack_start_ns=ints(np.where(pack >= 0, start[pack], asked)),
        pack_end_ns=ints(np.where(pack >= 0, end[pack], asked)),
        transfer_start_ns=ints(start[lowered.wire]),
        wire_end_ns=wire_end(tables, crossing.route, crossing.latency_ns, flows, ints(came)),
        transfer_end_ns=ints(came),
        unpack_start_ns=ints(np.where(unpack >= 0, start[unpack], came)),
        unpack_end_ns=ints(np.where(unpack >= 0, end[unpack], came)),
        lane=ids(lane[:n]),
        pack_lane=ids(np.where(pack >= 0, lane[pack], 0)),
        unpack_lane=ids(np.where(unpack >= 0, lane[unpack], 0)),
        hold_ptr=lowered.hold_ptr,
        hold_link=lowered.hold_link,
        hold_start_ns=ints(start[lowered.hold]),
        hold_end_ns=ints(start[lowered.hold] + hold_ns),
    )


def _first(tables: Tables, lowered: TaskGraph, end_ns: Ints) -> Ids:
    """[n] the edge whose value a Merge passes on: the data input that came first, of several the lowest; else -1."""
    found = np.full(len(tables), -1)
    edge = np.flatnonzero(tables.merge[tables.consumer] & (tables.tensor_row[tables.edge_tensor] >= 0))
    by = lowered.transfers.of_edge[edge]
    came = end_ns[np.where(by < 0, tables.tensor_op[tables.edge_tensor[edge]], np.append(lowered.last, -1)[by])]
    order = np.lexsort((edge, came, tables.consumer[edge]))[::-1]  # the first of each comes last and stays
    found[tables.consumer[edge[order]]] = edge[order]
    return ids(found)


def deadlock(tables: Tables, ready: Column) -> DeadlockError:
    """The error for a run in which some ops never became ready (-1)."""
    stuck = [op for op, when in enumerate(ready) if when < 0]
    waiting = {}
    for op in stuck[:5]:
        tensors = tables.in_tensor[tables.in_ptr[op] : tables.in_ptr[op + 1]]
        producers = sorted({int(tables.tensor_op[tensor]) for tensor in tensors})
        waiting[tables.names[op]] = [tables.names[p] for p in producers if ready[p] < 0]
    first, others = next(iter(waiting.items()))
    return DeadlockError(
        f"{len(stuck)} of {len(ready)} nodes never start, because some wait for each other: {first!r} waits for "
        f"{', '.join(map(repr, others[:5]))}.",
        waiting=waiting,
    )


def lanes(tables: Tables, lowered: TaskGraph, start_ns: Ints) -> Ids:
    """[J] the lane of each task of a device, found afterwards."""
    where = lowered.tasks.resource
    return pack_lanes(where, start_ns, lowered.tasks.length, (where >= 0) & (where < len(tables.devices)), tables.lanes)


def pack_lanes(where: Ids, start_ns: Ints, length: Ints, taken: Flags, count: Ids) -> Ids:
    """[J] per device, in order of start, the lowest lane that is idle, for jobs that have one.

    `where` is the device of each job, `count` the number of lanes of each device.
    """
    lane = [0] * len(start_ns)
    for row in np.flatnonzero(count > 1).tolist():
        jobs = np.flatnonzero((where == row) & taken)
        running: list[tuple[int, int]] = []  # (end, lane)
        idle = list(range(int(count[row])))
        for job in jobs[np.lexsort((jobs, length[jobs] > 0, start_ns[jobs]))].tolist():
            while running and running[0][0] <= start_ns[job]:
                heappush(idle, heappop(running)[1])
            lane[job] = heappop(idle)
            heappush(running, (int(start_ns[job] + length[job]), lane[job]))
    return ids(lane)
