"""Runs that will never end: nothing happens any more, or steps bring no update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import DeadlockError
from simulator.training.crew.synchronising import TAKE
from simulator.wording import some

if TYPE_CHECKING:
    from simulator.training.crew.combining import Crew
    from simulator.training.crew.gating import Gates

PATIENCE = 100  # steps of each client


class Watch:
    """Counts the steps since the last update; `hung` once there will be none. Axis: C clients."""

    def __init__(self, crew: Crew, limit: int) -> None:
        """`limit` is how many updates are asked for."""
        self.names, self.limit = crew.names, limit
        self.idle: list[bool] = crew.idle.tolist()
        most = int(crew.marks.amount.max(initial=0)) + int(crew.shared.tokens.sum())
        self.patience = (PATIENCE + most) * len(crew)  # an update may need so many gradients, some of them too late
        self.owed = _owed(crew)
        self.steps = 0
        self.hung = False

    def updated(self) -> None:
        """There was an update."""
        self.steps = 0

    def stepped(self, client: int) -> None:
        """A client has finished a step."""
        self.steps += not self.idle[client]
        self.hung |= self.steps > self.patience

    def error(self, gates: Gates, global_step: int) -> DeadlockError:
        """Who waits for what, and what that holds."""
        waiting = {self.names[client]: needs for client, needs in sorted(gates.waiting().items())}
        told = some([f"{name} waits for {', '.join(needs)}" for name, needs in waiting.items()], 4)
        what = "nothing can happen any more" if self.steps <= self.patience else "none comes any more"
        message = f"After {global_step:,} of {self.limit:,} updates {what}: {told}.{self.owed}"
        return DeadlockError(message, waiting=waiting)


def _owed(crew: Crew) -> str:
    """What a chief that dies may leave all waiting for: its new session has the first tokens, and its own gradient.

    TensorFlow hangs there as well: its chief runs no more than `init_tokens_op` again.
    """
    takes = crew.marks.kind == TAKE
    chiefs = crew.task[np.searchsorted(crew.op_ptr, crew.marks.op[takes], side="right") - 1]
    if crew.disturbed is None or not np.isin(chiefs, crew.disturbed.crash_task).any():
        return ""
    needed, tokens = int(crew.marks.amount[takes].max()), int(crew.shared.tokens.sum())
    if tokens + 1 >= needed:
        return ""
    return (
        " When the chief dies, its update is lost with the tokens that it owed, and its new session hands out "
        f"{tokens}: start with tokens={needed - 1} or more, or let another task die."
    )
