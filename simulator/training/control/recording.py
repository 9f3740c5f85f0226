"""The first steps of each client, task by task."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, ids, ints
from simulator.execution.trace_tasks import StepTimes, trace_of, trace_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simulator.execution.arrays import State, Tasks
    from simulator.execution.engine import Column
    from simulator.execution.task_graph import TaskGraph
    from simulator.execution.trace import Trace
    from simulator.training.clients.client_tables import Client, CombinedTables
    from simulator.training.clients.workload import Workload
    from simulator.units import Nanos

MAX_ROWS = 2_000_000  # tasks that are recorded at most, over all steps


class Recorder:
    """Writes down the first `steps` steps of each client, in order of their ends, as far as there is room."""

    def __init__(self, workload: Workload, combined: CombinedTables, lowered: TaskGraph, steps: int) -> None:
        self.steps, self.room = steps, MAX_ROWS
        self.recorded: list[StepTimes] = []
        op_ptr, every = workload.op_ptr, np.arange(len(lowered.kind))
        sender = (
            combined.tables.tensor_op[lowered.transfers.tensor[lowered.transfer]] if len(lowered.transfers) else every
        )
        op = np.where(lowered.transfer >= 0, sender, every)
        client = np.searchsorted(op_ptr, op, side="right") - 1  # of each task
        client[op_ptr[1:] - 1] = len(workload)  # the end of a step has no time of its own; nor have beginnings
        by_client = np.argsort(client, kind="stable")
        bounds = np.searchsorted(client[by_client], np.arange(len(workload) + 1))
        self.tasks = [ids(by_client[a:b]) for a, b in pairwise(bounds.tolist())]  # [C]
        self.on_shared = lowered.tasks.resource >= len(combined.tables.devices) + len(combined.tables.routes.link_names)
        self.lag_ns = lowered.tasks.lag_ns

    def note(self, client: int, number: int, tasks: Tasks, state: State, took: Ints, lane: Ids | None) -> None:
        """A step is over, of which all times are still there; `took` is how long each task lasted."""
        rows = self.tasks[client]
        if number >= self.steps or len(rows) > self.room:
            return
        self.room -= len(rows)

        def own(column: Column) -> npt.NDArray[np.integer]:
            return np.asarray(column)[rows] if isinstance(column, np.ndarray) else np.array([column[r] for r in rows])

        start, release = own(state.start_ns), own(tasks.release_ns)
        end = np.where(self.on_shared[rows], own(state.end_ns), start + own(took) + self.lag_ns[rows])
        self.recorded.append(
            StepTimes(
                client=client,
                number=number,
                tasks=rows,
                ready_ns=ints(np.maximum(own(state.ready_ns), release)),
                start_ns=ints(start),
                end_ns=ints(end),
                release_ns=ints(release),
                lane=None if lane is None else ids(own(lane)),
            )
        )


def recorded_trace(
    recorder: Recorder,
    clients: Sequence[Client],
    combined: CombinedTables,
    lowered: TaskGraph,
    how: Mapping[str, str],
    busy_ns: Sequence[int],
    end_ns: Nanos,
) -> Trace:
    """All recorded steps, in order of (client, step); memory is not reckoned with, and there is no critical path."""
    steps = sorted(recorder.recorded, key=lambda one: one[:2])
    nothing, none = ints([]), ints(np.zeros(len(busy_ns)))
    return trace_of(
        combined.tables,
        lowered,
        steps,
        trace_tasks(lowered, combined.tables, steps),
        [client.partitions for client in clients],
        combined.op_ptr,
        makespan=end_ns,
        busy_ns=ints(busy_ns),
        memory_device=ids([]),
        memory_time_ns=nothing,
        memory_bytes=nothing,
        peak_bytes=none,
        resident_bytes=none,
        notes=combined.tables.notes,
        **how,
    )
