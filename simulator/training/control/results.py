"""Results of a run: steps, updates, the use of its time, also at samples in between, and its first steps in full.

All but steps and updates are sums, so that memory grows by a few numbers per step and update, whatever the graph.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator import limits
from simulator.columns import by_key, ids, ints
from simulator.execution.trace_tasks import StepTimes, trace_of, trace_tasks
from simulator.training.control.arrays import COLUMNS, COUNTED, DROPPED, EVENTS, NOW
from simulator.training.control.clocks import AHEAD, CODE
from simulator.training.disturbances.disturbed import upsets_of
from simulator.training.regimes import BOUNDED
from simulator.training.training import WAITING, CutShort, ResourceUsage, Training

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simulator.execution.engine import Column
    from simulator.execution.trace import Trace
    from simulator.training.clients import Client
    from simulator.training.control.layout import LoopArrays, LoweredClients
    from simulator.training.control.workload import Workload

Log: TypeAlias = "tuple[list[npt.NDArray[np.int64]], list[npt.NDArray[np.int64]]]"


def training_of(
    workload: Workload, made: LoopArrays, given: LoweredClients, log: Log, samples: Sequence[ResourceUsage]
) -> Training:
    """The training until now, without its record; `log` has the rows of `Steps.steps` and of `Steps.updates`."""
    state, cluster, clocks = made.control.steps, workload.disturbed.cluster, workload.clocks.numbers
    step, update = (np.concatenate([np.zeros((0, COLUMNS), np.int64), *rows]) for rows in log)
    step = step[np.lexsort((step[:, 0], step[:, 3]))]
    return Training(
        regime="",
        tasks=cluster.tasks,
        devices=cluster.device_names,
        links=tuple(link.name for link in cluster.links),
        clients=workload.names,
        client_task=workload.task,
        is_worker=workload.clocks.clocked,
        session_ns=workload.starts.session_ns,
        waited_for=workload.starts.waited_for,
        step_client=ids(step[:, 0]),
        step_number=ids(step[:, 1]),
        step_start_ns=ints(step[:, 2]),
        step_end_ns=ints(step[:, 3]),
        step_waiting_ns=ints(step[:, 4]),
        step_input_ns=ints(step[:, 5]),
        update_ns=ints(update[:, 0]),
        update_client=ids(update[:, 1]),
        update_staleness=ids(update[:, 2]),
        update_gradients=ids(update[:, 3]),
        update_examples=ints(update[:, 4]),
        dropped=int(state.totals[DROPPED]),
        lost_updates=int(sum(state.lost)),
        device_lanes=ids([device.lanes for device in cluster.devices]),
        usage=resource_usage(made, given),
        end_ns=int(state.progress[NOW]),
        samples=tuple(samples),
        under_way=_under_way(made),
        lost_by_crash=ints(state.lost),
        upsets=upsets_of(workload.disturbed),
        cut_short=_cut_short(made),
        input_ns=ints(made.control.input_state.for_ns),
        bound=int(clocks[AHEAD]) if clocks[CODE] == BOUNDED else None,
    )


def _cut_short(made: LoopArrays) -> tuple[CutShort, ...]:
    """The steps that crashes cut short."""
    disturbances, steps = made.control.rules.disturbances, made.control.steps
    number = np.asarray(steps.cut_number)
    crash = np.repeat(np.arange(len(disturbances.crash_task)), np.diff(disturbances.hit_ptr))
    when = np.asarray(disturbances.crash_at_ns)[crash]
    columns = (np.asarray(disturbances.hit), number, np.asarray(steps.cut_start_ns), when, crash)
    return tuple(CutShort(*row) for row in np.stack(columns, axis=1)[number >= 0].tolist())


def _under_way(made: LoopArrays) -> tuple[tuple[int, int, int], ...]:
    """The steps that have taken time already when the run ends, by client."""
    steps, end_ns = made.control.steps, int(made.control.steps.progress[NOW])
    rows = enumerate(zip(list(steps.running), list(steps.number), list(steps.begin_ns), strict=True))
    return tuple((client, at, begin) for client, (runs, at, begin) in rows if runs and begin < end_ns)


def resource_usage(made: LoopArrays, given: LoweredClients) -> ResourceUsage:
    """The counters until now, work under way included."""
    counters, steps, state, tables = made.control.counters, made.control.steps, made.state, given.combined.tables
    now, size = int(steps.progress[NOW]), int(steps.progress[EVENTS])
    pending: Any = state.key  # Any: an array, or a list of both
    if isinstance(pending, list):
        when, task = np.array(pending, np.int64).reshape(-1, 2).T
    else:
        when, task = pending[:size], state.event[:size]
    inside = task < len(made.tasks.length)
    when, task = when[inside], task[inside]
    where = np.asarray(made.tasks.resource)[task]
    running = (where >= 0) & (where < len(tables.devices))
    busy_ns, message_ns = np.array(counters.busy_ns), np.array(counters.message_ns)
    np.subtract.at(busy_ns, where[running], when[running] - now)
    messages = running & (task >= len(tables))
    np.subtract.at(message_ns, where[messages], when[messages] - now)
    through, on_link = np.array(counters.through_ns), np.array(counters.on_link)
    ahead = through - now  # known already, or of flows not known yet
    link_ns = np.array(counters.link_ns) - np.where(on_link > 0, ahead, np.maximum(ahead, 0))
    # from now until a serial link is free it is never idle
    link_ns += np.array(counters.reserved_ns) - np.maximum(np.array(state.free_ns) - now, 0)
    under_way = np.array(counters.under_way).reshape(WAITING, -1) > 0
    counts = under_way & (np.cumsum(under_way, axis=0) == 1)  # of all that is under way at a task, the first kind
    task_ns = np.array(counters.task_ns).reshape(WAITING, -1) + np.where(counts, now - np.array(counters.since_ns), 0)
    tasks = np.concatenate([task_ns, now - task_ns.sum(axis=0, keepdims=True)]).T.copy()
    tasks.setflags(write=False)
    link_bytes = np.zeros(len(link_ns), np.int64)
    route, link = given.crossed
    np.add.at(link_bytes, link, np.asarray(counters.carried)[route])
    return ResourceUsage(
        updates=int(steps.totals[COUNTED]),
        ns=now,
        task_ns=tasks,
        device_busy_ns=ints(busy_ns),
        message_ns=ints(message_ns),
        link_bytes=ints(link_bytes),
        link_busy_ns=ints(link_ns),
    )


MOST = 128


class Samples:
    """Samples of a run. At first every update is one; of too many every second is dropped, and half as many follow."""

    def __init__(self) -> None:
        self.kept: list[ResourceUsage] = []
        self.every, self.next = 1, 1  # updates between two samples, and at the next one

    def note(self, usage: ResourceUsage) -> None:
        """Keep what was done until now; there are `next` updates or, where several come at once, more."""
        self.kept.append(usage)
        if len(self.kept) == MOST:
            self.kept = self.kept[1::2]
            self.every *= 2
        self.next = usage.updates + self.every


class Recorder:
    """Writes down the first `steps` steps of each client, in order of their ends, as far as there is room."""

    def __init__(self, made: LoopArrays, given: LoweredClients, steps: int) -> None:
        lowered, clients = given.lowered, len(given.combined.op_ptr) - 1
        self.steps, self.room = steps, limits.RECORDED.most
        self.recorded: list[StepTimes] = []
        client = np.array(made.control.rules.work.owner[: len(lowered.kind)])  # of each task
        client[given.combined.op_ptr[1:] - 1] = clients  # the end of a step has no time of its own,
        client[len(client) - clients :] = clients  # nor has its beginning
        order, bounds = by_key(client, clients)
        self.tasks = [ids(order[a:b]) for a, b in pairwise(bounds.tolist())]  # [C]
        self.on_shared = given.on_shared
        self.lag_ns = lowered.tasks.lag_ns

    def note(self, client: int, number: int, made: LoopArrays, *, own_lanes: bool) -> None:
        """A step is over, of which all times are still there; `own_lanes`: the executor gave each task its lane."""
        tasks, state, took = made.tasks, made.state, made.control.counters.took_ns
        took = took if len(took) else tasks.length
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
                lane=ids(own(made.threads.lane)) if own_lanes else None,
            )
        )


def recorded_trace(
    run: Training,
    recorded: Sequence[StepTimes],
    clients: Sequence[Client],
    given: LoweredClients,
    how: Mapping[str, str],
) -> Trace:
    """All recorded steps, in order of (client, step); memory is not reckoned with, and there is no critical path."""
    combined, lowered = given.combined, given.lowered
    steps = sorted(recorded, key=lambda one: one[:2])
    nothing, none = ints([]), ints(np.zeros(len(run.devices)))
    return trace_of(
        combined.tables,
        lowered,
        steps,
        trace_tasks(lowered, combined.tables, steps),
        [client.partitions for client in clients],
        combined.op_ptr,
        makespan=run.end_ns,
        busy_ns=run.usage.device_busy_ns,
        memory_device=ids([]),
        memory_time_ns=nothing,
        memory_bytes=nothing,
        peak_bytes=none,
        resident_bytes=none,
        notes=combined.tables.notes,
        **how,
    )
