"""Runs that will never end: nothing happens any more, or steps bring no update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import DeadlockError
from simulator.training.clients.client_set import TAKE
from simulator.training.control.arrays import GLOBAL_STEP, SINCE_UPDATE
from simulator.wording import counted, some

if TYPE_CHECKING:
    from simulator.training.clients.client_set import ClientSet
    from simulator.training.control.arrays import Control

PATIENCE = 100  # steps of each client


def patience_of(client_set: ClientSet) -> int:
    """After how many steps without an update a run hangs: an update may need so many gradients, some of them late."""
    most = int(client_set.marks.amount.max(initial=0)) + int(client_set.shared.tokens.sum())
    return (PATIENCE + most) * len(client_set)


def hangs(client_set: ClientSet, control: Control, limit: int) -> DeadlockError:
    """The error for a run that stops before its limit of updates: who waits for what, and what that holds."""
    totals = control.steps.totals
    waiting = {client_set.names[client]: needs for client, needs in sorted(_waiting(client_set, control).items())}
    told = some([f"{name} waits for {', '.join(needs)}" for name, needs in waiting.items()], 4)
    what = "nothing can happen any more" if totals[SINCE_UPDATE] <= patience_of(client_set) else "none comes any more"
    message = f"After {totals[GLOBAL_STEP]:,} of {limit:,} updates {what}: {told}.{_owed(client_set)}"
    return DeadlockError(message, waiting=waiting)


def _waiting(client_set: ClientSet, control: Control) -> dict[int, list[str]]:
    """What each client waits for, and what that holds."""
    marks, lines, found = control.rules.marks, control.lines, dict[int, list[str]]()
    for shared, queue in enumerate(client_set.shared.queue.tolist()):
        for first in (lines.taker[shared], lines.adder[shared]):
            who = first
            while who >= 0:
                if who < len(marks.op):  # not the first tokens
                    what = counted(int(lines.there[shared]), "token" if queue else "gradient")
                    needs = f"{int(marks.amount[who]):,} of the {client_set.shared.names[shared]}, which has {what}"
                    found.setdefault(int(marks.client[who]), []).append(needs)
                who = lines.behind[who]
    return found


def _owed(client_set: ClientSet) -> str:
    """What a chief that dies may leave all waiting for: its new session has the first tokens, and its own gradient.

    TensorFlow hangs there as well: its chief runs no more than `init_tokens_op` again.
    """
    takes = client_set.marks.kind == TAKE
    chiefs = client_set.task[np.searchsorted(client_set.op_ptr, client_set.marks.op[takes], side="right") - 1]
    if client_set.disturbed is None or not np.isin(chiefs, client_set.disturbed.crash_task).any():
        return ""
    needed, tokens = int(client_set.marks.amount[takes].max()), int(client_set.shared.tokens.sum())
    if tokens + 1 >= needed:
        return ""
    return (
        " When the chief dies, its update is lost with the tokens that it owed, and its new session hands out "
        f"{tokens}: start with tokens={needed - 1} or more, or let another task die."
    )
