"""Run a step under an assignment: when each op ran, and each stretch of each transfer.

tables, devices ──transfers_of──▶ transfers ──lower──▶ tasks ──event loop──▶ their times
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, ids
from simulator.errors import DeadlockError
from simulator.execution.arrays import CODES, EXECUTOR, PRIORITY, STUCK
from simulator.execution.options import SimulationOptions
from simulator.execution.running import play, span
from simulator.execution.tables import Tables
from simulator.execution.task_graph import TaskGraph, lower, ranks
from simulator.execution.trace import Stages, TraceTasks
from simulator.execution.trace_tasks import StepTimes, trace_tasks
from simulator.execution.transfers import Transfers, checked, transfers_of
from simulator.units import Nanos

Column = Sequence[int] | npt.NDArray[np.integer]


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
        """What crossed."""
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
    def stages(self) -> Stages:
        """[X] the moments of each transfer."""
        return self.tasks.stages


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

    Raises SimvizError for an assignment of the wrong length or with an unknown device, for priorities that are missing
    and for times that add up to too much, InfeasibleError where there is no kernel, ClusterError where there is no
    route, DeadlockError where ops wait for each other; all but the last before anything runs.
    """
    column, code = checked(tables, device), CODES[options.order_for(priority)]
    crossing = transfers_of(tables, column)
    lowered = lower(tables, column, crossing, options.contention, code, _places(tables, priority, code))
    ran = None
    if compiled:
        from simulator.execution.compiled.engine import run_one  # LLVM takes longer to load than a small step to run

        ran = run_one(tables, lowered, options.contention, code)
    if ran is None:  # or its times are more than compiled code can count
        ran = play(tables, lowered, options.contention, code)
    if ran.makespan == STUCK:
        raise deadlock(tables, ran.ready_ns[: len(tables)].tolist())
    begin = len(lowered.kind) - 1
    times = StepTimes(
        client=0,
        number=0,
        tasks=ids(np.arange(begin)),
        ready_ns=ran.ready_ns[:begin],
        start_ns=ran.start_ns[:begin],
        end_ns=ran.end_ns[:begin],
        release_ns=lowered.tasks.release_ns[:begin],
        lane=ran.lane[:begin] if code == EXECUTOR else None,
    )
    return StepRun(ran.makespan, lowered, times, trace_tasks(lowered, tables, [times]))


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
