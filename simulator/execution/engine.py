"""Run a step under an assignment: when each op ran, and each stretch of each transfer.

tables, devices ──transfers_of──▶ transfers ──lower──▶ tasks ──event loop──▶ their times
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, ids, ints, pointers, positions, stable_order
from simulator.errors import DeadlockError, SimvizError
from simulator.execution.arrays import (
    CODES,
    DEAR,
    EXECUTOR,
    INFINITE,
    PRIORITY,
    STUCK,
    TIMES,
    Flows,
    SharedLinks,
    State,
    Tasks,
    Threads,
    filled,
    listed,
)
from simulator.execution.discipline import discipline
from simulator.execution.event_loop import event_loop
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables
from simulator.execution.task_graph import TaskGraph, lower
from simulator.execution.trace import Moments, TraceTasks
from simulator.execution.trace_tasks import StepTimes, trace_tasks
from simulator.execution.transfers import Transfers, checked, transfers_of
from simulator.units import Nanos

Column = Sequence[int] | npt.NDArray[np.integer]
_play = event_loop()


@dataclass(frozen=True, eq=False)
class StepRun:
    """One step as it ran. Axes: n ops, X transfers of `transfers_of`."""

    makespan: Nanos
    lowered: TaskGraph
    times: StepTimes
    tasks: TraceTasks  # the first n are the ops, in their order; the others are of transfers

    @property
    def device(self) -> Ids:
        """[n] of each op."""
        return self.lowered.device

    @property
    def transfers(self) -> Transfers:
        """The transfers of the assignment."""
        return self.lowered.transfers

    @property
    def ready_ns(self) -> Ints:
        """[n] when each op had all that it needs."""
        return self.tasks.ready_ns[: len(self.device)]

    @property
    def start_ns(self) -> Ints:
        """[n] the start of each op."""
        return self.tasks.start_ns[: len(self.device)]

    @property
    def end_ns(self) -> Ints:
        """[n] the end of each op."""
        return self.tasks.end_ns[: len(self.device)]

    @property
    def moments(self) -> Moments:
        """[X] the moments of each transfer."""
        return self.tasks.moments


def run(
    tables: Tables,
    device: Column,
    priority: Column | None = None,
    options: SimulationOptions = SimulationOptions(),
    *,
    compiled: bool = False,
) -> StepRun:
    """Run every op on its device.

    Of the options, `order` and `contention` count. `compiled`: by the compiled loop, which gives the same.

    Raises SimvizError for an assignment of the wrong length or with an unknown device. So it does for priorities that
    are missing and for times that add up to too much. Raises InfeasibleError where there is no kernel, and ClusterError
    where there is no route. These come before anything runs. Raises DeadlockError where ops wait for each other.
    """
    lowered, code = lowered_by(tables, device, priority, options)
    ran: tuple[Nanos, Column, Column, Column, Column] | None = None
    if compiled:
        from simulator.execution.compiled.engine import run_one  # LLVM takes longer to load than a small step to run

        ran = run_one(tables, lowered, options.contention, code)
    if ran is None:  # or its times are more than compiled code can count
        found, state, threads = _played(tables, lowered, options.contention, code)
        ran = found, state.ready_ns, state.start_ns, state.end_ns, threads.lane
    found, ready, start, ended, lane = ran
    if found == STUCK:
        raise deadlock(tables, list(ready[: len(tables)]))
    times = _times(tables, lowered, code, ready, start, ended, lane)
    return StepRun(found, lowered, times, trace_tasks(lowered, tables, [times]))


def makespan(
    tables: Tables,
    device: Column,
    priority: Column | None = None,
    options: SimulationOptions = SimulationOptions(),
) -> Nanos:
    """`run(...).makespan` without the record, for search."""
    lowered, code = lowered_by(tables, device, priority, options)
    found, state, _ = _played(tables, lowered, options.contention, code)
    if found == STUCK:
        raise deadlock(tables, list(state.ready_ns[: len(tables)]))
    return found


def lowered_by(
    tables: Tables, device: Column, priority: Column | None, options: SimulationOptions, op_ptr: Column = ()
) -> tuple[TaskGraph, int]:
    """The tasks of a step under these options, and the order in which devices choose among them, of CODES.

    Several steps stand side by side where `op_ptr` says it, as for `lower`. Errors are those of `lower`, and of
    `checked` for the devices.
    """
    column, code = checked(tables, device), CODES[options.order_for(priority)]
    place = _places(tables, priority) if code == PRIORITY and priority is not None else ()
    return lower(tables, column, transfers_of(tables, column), options.contention, code, place, op_ptr), code


def _places(tables: Tables, priority: Column) -> Column:
    """[n] the place of each op in order of (priority, row)."""
    column = ints(priority)
    if column.shape != (len(tables),):
        raise SimvizError(f"There are {column.size} priorities for {len(tables)} ops; give one per op that runs.")
    return positions(stable_order(column), len(column))


def _played(tables: Tables, lowered: TaskGraph, contention: str, order: int) -> tuple[Nanos, State, Threads]:
    """Run the plain loop: the makespan, or STUCK, and the state that remains."""
    tasks = lowered.tasks
    parts = [listed(part) for part in (tasks, *parts_of(tables, lowered, tasks, contention, order))]
    found = _play(*parts, order, len(tasks.length), [], INFINITE, TIMES, ())
    return found, parts[1], parts[2]


def _times(
    tables: Tables, lowered: TaskGraph, order: int, ready: Column, start: Column, ended: Column, lane: Column
) -> StepTimes:
    """The times of all tasks but the beginning, as the loop notes them; `ended` are those of tasks on shared routes."""
    tasks, count = lowered.tasks, len(lowered.kind) - 1
    on_shared = tasks.resource[:count] >= tables.routes.first_shared
    begin, came, release = ints(start[:count]), ints(ready[:count]), tasks.release_ns[:count]
    return StepTimes(
        client=0,
        number=0,
        tasks=ids(np.arange(count)),
        ready_ns=ints(np.where(came < 0, -1, np.maximum(came, release))),
        start_ns=begin,
        end_ns=ints(np.where(on_shared, ended[:count], begin + tasks.length[:count] + tasks.lag_ns[:count])),
        release_ns=release,
        lane=ids(lane[:count]) if order == EXECUTOR else None,
    )


def parts_of(
    tables: Tables, lowered: TaskGraph, tasks: Tasks, contention: str, order: int, events: int = 0
) -> tuple[State, Threads, Flows, SharedLinks]:
    """All that the loop works in beside these tasks, with room for so many pending events if it runs over arrays."""
    threads = _threads(tables, lowered, tasks) if order == EXECUTOR else filled(Threads)
    shared, flows = _sharing(tables, tasks, contention) if tasks.shares[0] else (filled(SharedLinks), filled(Flows))
    count, devices = len(tasks.length), len(tables.devices)
    state = filled(
        State,
        {
            "J": count,
            "2J": events,
            "n": len(tables),
            "O": int(tasks.ops[0]),
            "D": devices,
            "L": len(tables.routes.link_names),
            "1": 1,
        },
        needs=tasks.needs,
        idle=tables.lanes,
        ready_ns=np.full(count, -1),
        head=np.full(devices, -1),
        queued=np.full(len(tables.routes.link_names), -1),
        batch=np.zeros(2 * count, np.int32),
    )
    return state, threads, flows, shared


def _threads(tables: Tables, lowered: TaskGraph, tasks: Tasks) -> Threads:
    crossing = lowered.transfers
    count, posts, devices = len(tasks.length), lowered.posts, len(tables.devices)
    ops = len(tables) + len(posts)
    lanes = np.where(tables.cpu, tables.lanes, 1).astype(np.int64)
    packs = np.zeros(count, bool)
    packs[lowered.pack[crossing.by_thread]] = True
    packs[lowered.answer[lowered.answer >= 0]] = True
    threads: Threads = filled(
        Threads,
        {"J": count, "O": ops, "D": devices, "lanes": int(lanes.sum())},
        expense=np.append(tables.expense, np.full(len(posts), DEAR)),
        packs=packs,
        device=np.append(lowered.device, posts),
        stream=~tables.cpu,
        lane_ptr=np.append(0, np.cumsum(lanes)),
        free=np.ones(int(lanes.sum()), bool),
        own_head=np.full(int(lanes.sum()), -1),
        pool_head=np.full(devices, -1),
        message_head=np.full(devices, -1),
        unlaunched=tasks.needs[:ops],
    )
    return threads


def _sharing(tables: Tables, tasks: Tasks, contention: str) -> tuple[SharedLinks, Flows]:
    shared = discipline(tables.routes, contention).links
    links, routes = len(shared.capacity), len(shared.cap)
    route = tasks.resource[tasks.resource >= tables.routes.first_shared] - tables.routes.first_shared
    base = pointers(route, routes)[:-1]
    sizes = {"W": routes, "L": links, "U": len(shared.link), "F": len(route), "2": 2}
    return shared, filled(Flows, sizes, base=base, rank=np.full(routes, -1), level=np.full(links, INFINITE))


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
