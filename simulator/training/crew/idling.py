"""Clients that only keep links busy: they stop where nobody else can go on, so that a deadlock shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.execution.loop import State


class Idlers:
    """Axes: C clients, J jobs, X transfers."""

    def __init__(self, idle: list[bool], owner: list[int], jobs: int) -> None:
        """`owner` is the client of each job, after them of each transfer."""
        self.idle, self.owner, self.jobs = idle, owner, jobs
        self.transfers = len(owner) - jobs
        self.asleep: list[int] = []

    def alone(self, begun: list[int], state: State) -> bool:
        """Whether nothing is under way, begins in this round or is to come but what idlers do."""
        mask = (1 << state.shift) - 1
        flows = [] if state.sharing is None else [one for heap in state.sharing.flows.values() for _, one in heap]
        tasks = [*begun, *(entry & mask for entry in state.heap)]
        return all(self._idles(task, state.timer) for task in tasks) and all(
            self.idle[self.owner[self.jobs + transfer]] for transfer in flows
        )

    def _idles(self, task: int, timer: int) -> bool:
        if task >= timer:  # the first timers are the clients'; the others are of no idler
            return task - timer < len(self.idle) and self.idle[task - timer]
        return self.idle[self.owner[task if task < self.jobs else self.jobs + (task - self.jobs) % self.transfers]]

    def woken(self, begun: list[int]) -> list[int]:
        """Those that go on, as somebody's work has begun that had waited for a device."""
        if not self.asleep or all(self.idle[self.owner[job]] for job in begun):
            return []
        woken, self.asleep = self.asleep, []
        return woken
