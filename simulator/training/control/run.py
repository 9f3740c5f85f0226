"""Run the clients of a training: the event loop with its controller, over lists or, compiled, over arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import DeadlockError
from simulator.execution.arrays import EXECUTOR, TIMES
from simulator.execution.event_loop import event_loop
from simulator.training.control.arrays import (
    COLUMNS,
    COUNTED,
    DONE,
    GLOBAL_STEP,
    LATEST,
    LIMIT,
    MORE,
    NEXT_SAMPLE,
    ROUND,
    ROUNDS,
    ROUNDS_AT_ONCE,
    SINCE_UPDATE,
    STEPS,
    UPDATES,
    WHY,
    Control,
)
from simulator.training.control.controller import HOOKS
from simulator.training.control.layout import LoopArrays, LoweredClients, as_lists, begun
from simulator.training.control.results import Log, Recorder, Samples, resource_usage, training_of
from simulator.training.control.synchronisation import patience_of
from simulator.training.disturbances.noise import MAX_FACTOR
from simulator.training.recognition.sync_ops import TAKE
from simulator.wording import counted, some

if TYPE_CHECKING:
    from simulator.execution.task_graph import TaskGraph
    from simulator.execution.trace_tasks import StepTimes
    from simulator.training.control.workload import Workload
    from simulator.training.training import Training

_MANY_ROUNDS = 2**30  # after so many they are counted anew, as 32 bits hold them
_play = event_loop(HOOKS)


def run(
    workload: Workload,
    given: LoweredClients,
    *,
    record: int = 0,
    limit: int | None = None,
    extend: Callable[[Training, int], int] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    compiled: bool = False,
) -> tuple[Training, list[StepTimes]] | None:
    """Let the clients work until there are so many updates; None: until the limit of the workload.

    Then `extend` gets the training and the number of updates, and returns how many there are to be. A run that goes on
    is the same as if that many had been asked for at first. It ends if there are to be no more. `on_progress` gets
    updates made, and updates to be made.

    Returns the training with its recorded steps. Returns None for what compiled code leaves to the plain loop: times
    that it can't count, or a run that hangs. Raises DeadlockError where nothing can happen any more before.
    """
    limit = workload.limit if limit is None else limit
    if compiled and not _is_countable(workload, given.lowered):
        return None
    made = begun(workload, given, record=record)
    made = made if compiled else as_lists(made)
    go_on = (_compiled if compiled else _plain)(made, given.order)
    steps, recorder, samples = made.control.steps, Recorder(made, given, record), Samples()
    log: Log = ([], [])
    why = MORE
    while why == MORE:
        steps.totals[LIMIT], steps.totals[ROUNDS] = limit, ROUNDS_AT_ONCE
        why = go_on()
        for rows, column, count in ((log[0], steps.steps, STEPS), (log[1], steps.updates, UPDATES)):
            rows.append(np.array(column[: COLUMNS * steps.totals[count]], np.int64).reshape(-1, COLUMNS))
        for client, number in log[0][-1][:, :2].tolist():
            recorder.note(client, number, made, own_lanes=given.order == EXECUTOR)
        _make_room(made)
        if steps.totals[COUNTED] >= samples.next:
            samples.note(resource_usage(made, given))
            steps.totals[NEXT_SAMPLE] = samples.next
            if on_progress is not None:
                on_progress(int(steps.totals[COUNTED]), limit)
        training = training_of(workload, made, given, log, samples.kept) if why == DONE else None
        more = limit if training is None or extend is None else extend(training, limit)
        if more > limit:
            limit, why = more, MORE
            steps.progress[WHY] = 0
    if training is not None:
        return training, recorder.recorded
    if compiled:
        return None
    raise _hangs(workload, made.control)


def _plain(made: LoopArrays, order: int) -> Callable[[], int]:
    return partial(_play, *made[:5], order, len(made.tasks.length), [], 1 << 200, TIMES, made.control)


def _compiled(made: LoopArrays, order: int) -> Callable[[], int]:
    from simulator.training.control.compiled import going_on  # LLVM takes long to load

    return going_on(made, order)


def _is_countable(workload: Workload, lowered: TaskGraph) -> bool:
    """Tell whether 64 bits hold all times."""
    longest, disturbed = int(lowered.tasks.length.max(initial=0)), workload.disturbed
    longest = max(longest, int(workload.inputs.period_ns.max(initial=0)))
    latest = int(max(workload.starts.session_ns.max(initial=0), workload.gap_ns.max(initial=0)))
    if len(disturbed.noise):
        longest *= MAX_FACTOR
    latest = max([latest, *(one.at_ns for _, one in disturbed.crashes), *(one.phase_ns for one in disturbed.pauses)])
    for _, period, length in disturbed.pauses:
        longest = max(longest, longest * period // (period - length) + period if period else longest + length)
    return max(latest, longest) < LATEST


def _make_room(made: LoopArrays) -> None:
    """Let the loop note further steps and updates, as those that were noted are entered."""
    totals, progress = made.control.steps.totals, made.control.steps.progress
    totals[STEPS], totals[UPDATES] = 0, 0
    if progress[WHY] == MORE:
        progress[WHY] = 0
    if progress[ROUND] > _MANY_ROUNDS:
        progress[ROUND] = 1
        for column in (made.state.touched_in, made.flows.seen, made.flows.link_seen):
            column[:] = [0] * len(column)


# ---- runs that will never end: nothing happens any more, or steps bring no update ------------------------------------


def _hangs(workload: Workload, control: Control) -> DeadlockError:
    """The error for a run that stops before its limit of updates: who waits for what, and what that holds."""
    totals = control.steps.totals
    waiting = {workload.names[client]: needs for client, needs in sorted(_waiting(workload, control).items())}
    told = some([f"{name} waits for {', '.join(needs)}" for name, needs in waiting.items()], 4)
    what = "nothing can happen any more" if totals[SINCE_UPDATE] <= patience_of(workload) else "none comes any more"
    message = f"After {totals[GLOBAL_STEP]:,} of {totals[LIMIT]:,} updates {what}: {told}.{_owed(workload)}"
    return DeadlockError(message, waiting=waiting)


def _waiting(workload: Workload, control: Control) -> dict[int, list[str]]:
    """The resources that each client waits for, and what they hold."""
    sync_ops, sync, found = control.rules.sync_ops, control.sync, dict[int, list[str]]()
    for row, queue in enumerate(workload.sync_resources.queue.tolist()):
        for first in (sync.first_taker[row], sync.first_adder[row]):
            who = first
            while who >= 0:
                if who < len(sync_ops.op):  # not the first tokens
                    what = counted(int(sync.stored[row]), "token" if queue else "gradient")
                    needs = f"{int(sync_ops.amount[who]):,} of the {workload.resource_names[row]}, which has {what}"
                    found.setdefault(int(sync_ops.client[who]), []).append(needs)
                who = sync.behind[who]
    return found


def _owed(workload: Workload) -> str:
    """A hint for a chief that dies: its new session has only the first tokens, and its own gradient.

    TensorFlow hangs there as well: its chief runs no more than `init_tokens_op` again.
    """
    takes = workload.sync_ops.kind == TAKE
    chiefs = workload.task[workload.sync_ops.client[takes]]
    if not np.isin(chiefs, workload.disturbed.crash_tasks).any():
        return ""
    needed, tokens = int(workload.sync_ops.amount[takes].max()), int(workload.sync_resources.tokens.sum())
    if tokens + 1 >= needed:
        return ""
    return (
        " When the chief dies, its update is lost with the tokens that it owed, and its new session hands out "
        f"{tokens}: start with tokens={needed - 1} or more, or let another task die."
    )
