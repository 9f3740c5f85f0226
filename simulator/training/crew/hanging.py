"""Runs that will never end: nothing happens any more, or steps bring no update."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.errors import DeadlockError
from simulator.wording import some

if TYPE_CHECKING:
    from simulator.training.crew.combining import Crew
    from simulator.training.crew.gating import Gates

PATIENCE = 100  # steps of each client


class Watch:
    """Counts the steps since the last update; `hung` once there will be none. Axis: C clients."""

    def __init__(self, crew: Crew) -> None:
        self.names, self.limit = crew.names, crew.limit
        self.idle: list[bool] = crew.idle.tolist()
        most = int(crew.marks.amount.max(initial=0)) + int(crew.shared.tokens.sum())
        self.patience = (PATIENCE + most) * len(crew)  # an update may need so many gradients, some of them too late
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
        return DeadlockError(f"After {global_step:,} of {self.limit:,} updates {what}: {told}.", waiting=waiting)
