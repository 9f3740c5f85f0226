"""Ops that are marked: which of them ask the director when they are ready, and which go on, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution.loop import ASKS
from simulator.execution.queues import Executor
from simulator.training.crew.combining import DRAW
from simulator.training.crew.gating import GATES

if TYPE_CHECKING:
    from simulator.execution.loop import State
    from simulator.training.crew.combining import Crew
    from simulator.units import Nanos

WAITS = (*GATES, DRAW)  # kinds of marked ops that may have to wait when they are ready


class Marked:
    """Axes: M marked ops, C clients, J jobs."""

    state: State

    def __init__(self, crew: Crew, client: list[int]) -> None:
        """`client` is of each job [J]."""
        self.op: list[int] = crew.marks.op.tolist()  # [M]
        self.kind: list[int] = crew.marks.kind.tolist()  # [M]
        self.client = [client[op] for op in self.op]  # [M]
        self.mark_of = [-1] * len(client)  # [J] of what does not matter; M + client for an END
        for mark, op in enumerate(self.op):
            self.mark_of[op] = mark
        for one, after in enumerate(crew.op_ptr[1:].tolist()):
            self.mark_of[after - 1] = len(self.op) + one
        self.of_client: list[list[int]] = [[] for _ in range(len(crew))]  # [C]
        for mark, one in enumerate(self.client):
            self.of_client[one].append(mark)
        self.at_ready = [0] * len(self.op)  # [M] entries of `instant` once it goes on
        self.going_on_ns = [-1] * len(self.op)  # [M] its timer counts that ends then; -1: none does

    def begin(self, state: State) -> None:
        """Let all ask that wait, and all that take no time, when they are ready."""
        self.state = state
        for mark, op in enumerate(self.op):
            self.at_ready[mark] = state.instant[op]
            if self.kind[mark] in WAITS or state.instant[op]:
                state.instant[op] = ASKS
                if isinstance(state.queues, Executor):
                    state.queues.unlaunched[op] += 1  # a stream gets it when it is let go

    def arm(self, client: int) -> None:
        """Let those of a client ask anew."""
        for mark in self.of_client[client]:
            if self.kind[mark] in WAITS or self.at_ready[mark]:
                self.state.instant[self.op[mark]] = ASKS

    def go_on(self, mark: int, when: Nanos) -> None:
        """It goes on by a timer that ends then, and is then as any other."""
        op = self.op[mark]
        self.state.instant[op], self.state.waits[op] = self.at_ready[mark], 1
        self.going_on_ns[mark] = when

    def told(self, mark: int, now: Nanos) -> list[int]:
        """Its timer has ended: the op that is told; none where its step was cut short meanwhile."""
        if self.going_on_ns[mark] != now:
            return []
        self.going_on_ns[mark] = -1
        return [self.op[mark]]

    def forget(self, client: int) -> None:
        """The client's step was cut short: whatever timers its ops have, they do not count."""
        for mark in self.of_client[client]:
            self.going_on_ns[mark] = -1
