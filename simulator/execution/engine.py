"""When everything runs, given who runs what: the engine in plain Python, which is the specification (loop.py).

tables, devices ──crossings──▶ transfers ──wire──▶ lists ──play──▶ Outcome
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, ids, ints
from simulator.errors import DeadlockError, SimvizError, UnsupportedError
from simulator.execution.crossings import Crossings, checked, crossings
from simulator.execution.links import flowing, holds, wire_end, wires_of
from simulator.execution.loop import Played, Wires, play
from simulator.execution.queues import ByPriority, Executor, Fifo, Queues
from simulator.execution.tables import Tables
from simulator.execution.ways import Discipline, discipline
from simulator.execution.wiring import Wiring, job_device, job_ns, ranks, wire
from simulator.units import Nanos

ORDERS = ("fifo", "priority", "tensorflow")  # how a device chooses among its ready jobs
Column = Sequence[int] | npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What happened. Axes: n ops, X transfers of `crossings`, H holds: of each transfer a row per serial link.

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
    crossings: Crossings
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


class Prepared(NamedTuple):
    """What the loop is given besides the tables."""

    device: Ids  # [n]
    crossing: Crossings
    wiring: Wiring
    queues: Queues
    wires: Wires


def run(
    tables: Tables,
    device: Column,
    priority: Column | None = None,
    *,
    order: str | None = None,
    contention: str = "serial",
) -> Outcome:
    """Run every op on its device.

    `order` is one of ORDERS; None: "priority" (smaller first) where priorities are given, else "fifo". `contention`
    says how transfers use links that do not say it themselves: one at a time ("serial"), all at once ("fair", max-min)
    or each as if it were alone ("none").

    Raises SimvizError for an assignment of the wrong length or with an unknown device and for times that add up to too
    much, InfeasibleError where there is no kernel, ClusterError where there is no route, UnsupportedError for an option
    that is not modelled, DeadlockError where ops wait for each other; all but the last before anything runs.
    """
    ready = prepare(tables, device, priority, order=order, contention=contention)
    column, crossing, wiring, queues, _ = ready
    played = _played(tables, ready)
    start_ns, asked = ints(played.start), ints(played.asked)
    run_ns = np.array(wiring.run_ns, np.int64)
    lane = queues.lane if isinstance(queues, Executor) else lanes(tables, column, crossing, start_ns)
    rule = discipline(tables.ways, contention)
    return outcome(tables, column, crossing, rule, played, start_ns, ints(start_ns + run_ns), asked, ids(lane))


def outcome(
    tables: Tables,
    device: Ids,
    crossing: Crossings,
    rule: Discipline,
    played: Played,
    start_ns: Ints,
    end_ns: Ints,
    asked: Ints,
    lane: Ids,
) -> Outcome:
    """Sort what the loop wrote down by ops and stretches of transfers; `start_ns`, `end_ns` and `lane` are of jobs."""
    n, transfers = len(tables), len(crossing)
    packs, unpacks = slice(n, n + transfers), slice(n + transfers, n + 2 * transfers)
    came, flows = ints(played.came), flowing(tables, crossing, rule)
    hold_ptr, hold_link, hold_ns = holds(tables, crossing, rule.held)
    return Outcome(
        makespan=played.makespan,
        device=device,
        ready_ns=ints(played.ready),
        start_ns=ints(start_ns[:n]),
        end_ns=ints(end_ns[:n]),
        first=ids(played.first),
        crossings=crossing,
        transfer_ready_ns=asked,
        pack_start_ns=ints(np.where(crossing.pack_ns > 0, start_ns[packs], asked)),
        pack_end_ns=ints(np.where(crossing.pack_ns > 0, end_ns[packs], asked)),
        transfer_start_ns=ints(played.sent),
        wire_end_ns=wire_end(tables, crossing.way, crossing.latency_ns, flows, came),
        transfer_end_ns=came,
        unpack_start_ns=ints(np.where(crossing.unpack_ns > 0, start_ns[unpacks], came)),
        unpack_end_ns=ints(np.where(crossing.unpack_ns > 0, end_ns[unpacks], came)),
        lane=ids(lane[:n]),
        pack_lane=ids(lane[packs]),
        unpack_lane=ids(lane[unpacks]),
        hold_ptr=hold_ptr,
        hold_link=hold_link,
        hold_start_ns=ints(played.begun_on),
        hold_end_ns=ints(ints(played.begun_on) + hold_ns),
    )


def makespan(
    tables: Tables,
    device: Column,
    priority: Column | None = None,
    *,
    order: str | None = None,
    contention: str = "serial",
) -> Nanos:
    """`run(...).makespan` without the record, for search."""
    return _played(tables, prepare(tables, device, priority, order=order, contention=contention)).makespan


def prepare(
    tables: Tables,
    device: Column,
    priority: Column | None = None,
    *,
    order: str | None = None,
    contention: str = "serial",
) -> Prepared:
    """Find the transfers and lay out what the loop reads; options and errors are those of `run`."""
    column = checked(tables, device)
    crossing = crossings(tables, column)
    wires = wires_of(tables, crossing, contention)
    wiring = wire(tables, column, crossing)
    return Prepared(column, crossing, wiring, _queues(tables, wiring, priority, order), wires)


def _played(tables: Tables, ready: Prepared) -> Played:
    played = play(tables, ready.crossing, ready.wiring, ready.queues, ready.wires)
    if min(played.ready, default=0) < 0:
        raise deadlock(tables, played.ready)
    return played


def chosen_order(priority: Column | None, order: str | None) -> str:
    """The order that is meant.

    Raises SimvizError for priorities that are missing, UnsupportedError for an order that does not exist.
    """
    if order is None:
        return "fifo" if priority is None else "priority"
    if order not in ORDERS:
        raise UnsupportedError(f"order={order!r} is not modelled; choose {' or '.join(map(repr, ORDERS))}.")
    if order == "priority" and priority is None:
        raise SimvizError('There are no priorities; give them or choose order="fifo" or "tensorflow".')
    return order


def _queues(tables: Tables, wiring: Wiring, priority: Column | None, order: str | None) -> Queues:
    chosen = chosen_order(priority, order)
    if chosen == "tensorflow":
        return Executor(tables, wiring)
    if chosen == "priority" and priority is not None:
        return ByPriority(tables, wiring, ranks(tables, priority))
    return Fifo(tables, wiring)


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


def lanes(tables: Tables, device: Ids, crossing: Crossings, start_ns: Ints) -> Ids:
    """[J] the lane of each job, found afterwards."""
    where, length = job_device(tables, device, crossing), job_ns(tables, device, crossing)
    taken = np.concatenate([~tables.instant, crossing.pack_ns > 0, crossing.unpack_ns > 0])
    return pack_lanes(where, start_ns, length, taken, tables.lanes)


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
