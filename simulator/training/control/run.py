"""Run the clients of a training: the event loop with its controller, over lists or, compiled, over arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simulator.columns import Ints, ints
from simulator.execution.arrays import CODES, EXECUTOR, PRIORITY, TIMES, Flows, SharedLinks, State, Tasks, Threads
from simulator.execution.event_loop import event_loop
from simulator.execution.options import SimulationOptions
from simulator.execution.running import filled, listed, parts_of
from simulator.execution.task_graph import TaskGraph, lower, ranks
from simulator.execution.transfers import checked, transfers_of
from simulator.training.control import layout
from simulator.training.control.arrays import (
    COLUMNS,
    COUNTED,
    DONE,
    DROPPED,
    LIMIT,
    MORE,
    NEXT_SAMPLE,
    ROUNDS,
    ROUNDS_AT_ONCE,
    STEPS,
    UPDATES,
    WRITTEN,
    Control,
    Rules,
)
from simulator.training.control.controller import HOOKS
from simulator.training.control.deadlock import hangs
from simulator.training.control.recording import Recorder
from simulator.training.control.results import RunResult, Samples, StepLog, StopCondition, under_way
from simulator.training.disturbances.noise import MAX_FACTOR
from simulator.training.training import WAITING, ResourceUsage

if TYPE_CHECKING:
    from simulator.execution.tables import Tables
    from simulator.training.clients.client_tables import CombinedTables
    from simulator.training.clients.workload import Workload

LATEST = 2**61  # a time above this is left to the plain loop
_MANY_ROUNDS = 2**30  # after so many they are counted anew, as 32 bits hold them
_play = event_loop(HOOKS)


class LoweredClients(NamedTuple):
    """A training, lowered to tasks."""

    lowered: TaskGraph
    order: int
    contention: str


def prepare(combined: CombinedTables, priority: Ints | None, options: SimulationOptions) -> LoweredClients:
    """Lower all clients' steps. Errors are those of `lower`, and of `checked` for the devices."""
    tables, code, contention = combined.tables, CODES[options.order_for(priority)], options.contention
    device = checked(tables, combined.device)
    place = ranks(tables, priority) if code == PRIORITY and priority is not None else ()
    transfers = transfers_of(tables, device)
    return LoweredClients(lower(tables, device, transfers, contention, code, place, combined.op_ptr), code, contention)


class Run(NamedTuple):
    """The arrays, or lists, that the loop reads and writes."""

    tasks: Tasks
    state: State
    threads: Threads
    flows: Flows
    shared: SharedLinks
    control: Control


def run(
    workload: Workload,
    combined: CombinedTables,
    given: LoweredClients,
    *,
    record: int = 0,
    stop: StopCondition | None = None,
    compiled: bool = False,
) -> RunResult | None:
    """Let the clients work until their limit, or until `stop`.

    None for what compiled code leaves to the plain loop: times that it can't count, or a run that hangs. Raises
    DeadlockError where nothing can happen any more before.
    """
    stop, tables, lowered = stop or StopCondition(workload.limit), combined.tables, given.lowered
    if compiled and not _is_countable(workload, lowered):
        return None
    tasks = layout.with_timers(workload, lowered)
    rules = layout.rules_of(workload, tables, lowered, tasks, given.contention, record=record)
    made = arrays_of(combined, given, tasks, rules)
    if not compiled:
        made = as_lists(made)
    log, recorder = StepLog(workload, tables.routes), Recorder(workload, combined, lowered, record)
    play = _compiled() if compiled else _plain
    why, taken, steps = MORE, Samples(), made.control.steps

    def result() -> RunResult:
        end_ns = int(steps.progress[0])
        log.lost, log.cut = list(map(int, steps.lost)), layout.cut_short(rules, steps)
        left = under_way(list(steps.running), list(steps.number), list(steps.begin_ns), end_ns)
        whole, samples = usage(log, made, tables), tuple(taken.kept)
        waits = ints(made.control.input_state.for_ns)
        return RunResult(log, int(steps.totals[DROPPED]), recorder, end_ns, left, whole, samples, waits)

    while why == MORE:
        made = made._replace(control=_until(made.control, stop.limit))
        steps.totals[ROUNDS] = ROUNDS_AT_ONCE
        why = play(made, given.order)
        _take_away(made, log, recorder, own_lanes=given.order == EXECUTOR)
        if steps.totals[COUNTED] >= taken.next:
            taken.note(usage(log, made, tables))
            steps.totals[NEXT_SAMPLE] = taken.next
            stop.report(int(steps.totals[COUNTED]))
        if why == DONE and stop.put_off(result):
            why = MORE
            steps.progress[4] = 0
    if why == DONE:
        return result()
    if compiled:
        return None
    raise hangs(workload, made.control, stop.limit)


def _plain(made: Run, order: int) -> int:
    count = len(made.tasks.length)
    why: int = _play(*made[:5], order, count, [], 1 << 200, TIMES, made.control)
    return why


def _compiled() -> Any:  # Any: a function of compiled code
    from simulator.training.control.compiled import go_on  # LLVM takes long to load

    return go_on


def arrays_of(combined: CombinedTables, given: LoweredClients, tasks: Tasks, rules: Rules) -> Run:
    """All that the loop and the controller read and write; nothing has happened yet."""
    tables = combined.tables
    parts = parts_of(tables, given.lowered, tasks, given.contention, given.order, layout.events_of(rules))
    sizes = layout.sizes_of(rules, tables)
    written = [filled(kind, sizes) for kind in WRITTEN]
    layout.initialise(written, rules, tasks)
    own = Tasks(*map(np.array, tasks))  # may be written
    state, threads, flows, shared = parts
    return Run(own, state, threads, flows, shared, Control(rules, *written))


def as_lists(made: Run) -> Run:
    """The same as lists, with a list of events for the event queue."""
    lists = Run(*map(listed, made))
    events: Any = []  # Any: a list in the place of an array
    return lists._replace(state=lists.state._replace(key=events))


def _until(control: Control, limit: int) -> Control:
    """With another number of updates to be made."""
    numbers = list(control.rules.numbers)
    numbers[LIMIT] = limit
    kept: Any = numbers
    if isinstance(control.rules.numbers, np.ndarray):
        kept = ints(numbers)
    return control._replace(rules=control.rules._replace(numbers=kept))


def _is_countable(workload: Workload, lowered: TaskGraph) -> bool:
    """Whether 64 bits hold all times."""
    longest, disturbed = int(lowered.tasks.length.max(initial=0)), workload.disturbed
    longest = max(longest, int(workload.producers.period_ns.max(initial=0)))
    latest = int(max(workload.start_ns.max(initial=0), workload.gap_ns.max(initial=0)))
    if disturbed is None:
        return latest < LATEST
    if len(disturbed.noise):
        longest *= MAX_FACTOR
    latest = max(latest, int(disturbed.crash_at_ns.max(initial=0)), int(disturbed.pause_phase_ns.max(initial=0)))
    for period, length in zip(disturbed.pause_period_ns.tolist(), disturbed.pause_length_ns.tolist(), strict=True):
        longest = max(longest, longest * period // (period - length) + period if period else longest + length)
    return max(latest, longest) < LATEST


def _take_away(made: Run, log: StepLog, recorder: Recorder, *, own_lanes: bool) -> None:
    """Enter the steps and updates that were noted, so that there is room for others."""
    steps = made.control.steps
    totals, progress = steps.totals, steps.progress
    ended = np.asarray(steps.steps[: COLUMNS * totals[STEPS]]).reshape(-1, COLUMNS)
    updates = np.asarray(steps.updates[: COLUMNS * totals[UPDATES]]).reshape(-1, COLUMNS)[:, : COLUMNS - 1]
    log.steps += [(a, b, c, d, e, f) for a, b, c, d, e, f in ended.tolist()]
    log.updates += [(a, b, c, d, e) for a, b, c, d, e in updates.tolist()]
    for client, number in ended[:, :2].tolist():
        if number < recorder.steps:
            took = made.control.counters.took_ns if len(made.control.counters.took_ns) else made.tasks.length
            recorder.note(client, number, made.tasks, made.state, took, made.threads.lane if own_lanes else None)
    totals[STEPS], totals[UPDATES] = 0, 0
    if progress[4] == MORE:
        progress[4] = 0
    if progress[2] > _MANY_ROUNDS:
        progress[2] = 1
        for column in (made.state.touched_in, made.flows.seen, made.flows.link_seen):
            column[:] = [0] * len(column)


def usage(log: StepLog, made: Run, tables: Tables) -> ResourceUsage:
    """The counters until now, work under way included."""
    counters, steps, state = made.control.counters, made.control.steps, made.state
    now, size = int(steps.progress[0]), int(steps.progress[1])
    pending: Any = state.key  # or a list of both
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
    under_way, task_ns = (
        np.array(counters.under_way).reshape(WAITING, -1) > 0,
        np.array(counters.task_ns).reshape(WAITING, -1),
    )
    counts = under_way & (np.cumsum(under_way, axis=0) == 1)  # of all that is under way at a task, the first kind
    task_ns = task_ns + np.where(counts, now - np.array(counters.since_ns), 0)
    updates = int(steps.totals[COUNTED])
    return log.summed(updates, now, task_ns, (ints(busy_ns), ints(message_ns)), ints(counters.carried), ints(link_ns))
