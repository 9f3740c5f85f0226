"""Runs that will never end: nothing happens any more, or steps bring no update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import DeadlockError
from simulator.training.clients.operations import TAKE
from simulator.training.control.arrays import GLOBAL_STEP, SINCE_UPDATE
from simulator.wording import counted, some

if TYPE_CHECKING:
    from simulator.training.clients.workload import Workload
    from simulator.training.control.arrays import Control

PATIENCE = 100  # steps of each client


def patience_of(workload: Workload) -> int:
    """After how many steps without an update a run hangs: an update may need so many gradients, some of them late."""
    most = int(workload.sync_ops.amount.max(initial=0)) + int(workload.sync_resources.tokens.sum())
    return (PATIENCE + most) * len(workload)


def hangs(workload: Workload, control: Control, limit: int) -> DeadlockError:
    """The error for a run that stops before its limit of updates: who waits for what, and what that holds."""
    totals = control.steps.totals
    waiting = {workload.names[client]: needs for client, needs in sorted(_waiting(workload, control).items())}
    told = some([f"{name} waits for {', '.join(needs)}" for name, needs in waiting.items()], 4)
    what = "nothing can happen any more" if totals[SINCE_UPDATE] <= patience_of(workload) else "none comes any more"
    message = f"After {totals[GLOBAL_STEP]:,} of {limit:,} updates {what}: {told}.{_owed(workload)}"
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
                    needs = (
                        f"{int(sync_ops.amount[who]):,} of the {workload.sync_resources.names[row]}, which has {what}"
                    )
                    found.setdefault(int(sync_ops.client[who]), []).append(needs)
                who = sync.behind[who]
    return found


def _owed(workload: Workload) -> str:
    """A hint for a chief that dies: its new session has only the first tokens, and its own gradient.

    TensorFlow hangs there as well: its chief runs no more than `init_tokens_op` again.
    """
    takes = workload.sync_ops.kind == TAKE
    chiefs = workload.task[np.searchsorted(workload.op_ptr, workload.sync_ops.op[takes], side="right") - 1]
    if workload.disturbed is None or not np.isin(chiefs, workload.disturbed.crash_task).any():
        return ""
    needed, tokens = int(workload.sync_ops.amount[takes].max()), int(workload.sync_resources.tokens.sum())
    if tokens + 1 >= needed:
        return ""
    return (
        " When the chief dies, its update is lost with the tokens that it owed, and its new session hands out "
        f"{tokens}: start with tokens={needed - 1} or more, or let another task die."
    )
