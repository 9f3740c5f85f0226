"""Tasks that die and come back: which clients are cut short, and when what is left of their steps has run out.

Whoever has an op or its session on a task that dies stops. What has begun of its jobs, what is on the wire, and its
requests run out and tell nobody; whatever waits is forgotten. Once all that is gone and the task is back it begins a
new step.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from simulator.execution.loop import State
    from simulator.training.crew.combining import Crew
    from simulator.training.crew.ledger import Ledger
    from simulator.units import Nanos


class Crashes:
    """Axes: Z crashes, K tasks, C clients."""

    def __init__(self, crew: Crew, device: list[int], owner: list[int], transfers: int) -> None:
        """`device` is that of each job; `owner` is the client of each job, after them of each transfer."""
        self.owner, self.transfers = owner, transfers
        self.jobs = len(owner) - transfers
        self.remains = [0] * len(crew)  # [C] jobs and transfers of a step that was cut short
        self.dying = 0  # clients of which something is left
        self.left: list[int] = []  # of it what ends in this round
        disturbed = crew.disturbed
        self.when: list[int] = [] if disturbed is None else disturbed.crash_at_ns.tolist()
        if disturbed is None or not self.when:
            return
        self.task: list[int] = disturbed.crash_task.tolist()  # [Z]
        self.away_ns: list[int] = (disturbed.crash_down_ns + disturbed.crash_restore_ns).tolist()
        self.checkpoint_ns: list[int] = disturbed.crash_checkpoint_ns.tolist()
        self.keeps: list[bool] = [False] * len(disturbed.up_ns) if crew.keeps is None else crew.keeps.tolist()
        tasks = np.concatenate((crew.task_of[device], crew.task)).astype(np.int64)  # a session dies with its master
        pairs = np.unique(tasks * len(crew) + np.concatenate((owner[: self.jobs], np.arange(len(crew)))))
        self.clients = [(pairs[pairs // len(crew) == task] % len(crew)).tolist() for task in self.task]  # [Z] hit

    def cut_short(self, client: int, begun: list[int], state: State) -> bool:
        """Count what is left of its step, `begun` in this very round included; whether there is anything."""
        state.queues.forget(self.owner, client)
        mask = (1 << state.shift) - 1
        tasks = [entry & mask for entry in state.heap]
        flows = [] if state.sharing is None else [one for heap in state.sharing.flows.values() for _, one in heap]
        count = sum(self.owner[job] == client for job in begun)
        count += sum(task < state.timer and self.owner_of(task) == client for task in tasks)
        count += sum(self.owner[self.jobs + transfer] == client for transfer in flows)
        self.remains[client] = count
        self.dying += count > 0
        return count > 0

    def owner_of(self, task: int) -> int:
        """The client of a job, a transfer, its request or its flow."""
        return self.owner[task if task < self.jobs else self.jobs + (task - self.jobs) % self.transfers]

    def sift(self, ended: list[int], timer: int) -> tuple[list[int], list[int]]:
        """Take out what is left of steps that were cut short: the jobs among it, and clients of which all is gone."""
        kept, gone = [], []
        request, flow = self.jobs + self.transfers, self.jobs + 2 * self.transfers
        for task in ended:
            client = -1 if task >= timer else self.owner_of(task)
            if client < 0 or not self.remains[client]:
                kept.append(task)
            elif task >= flow:
                kept.append(task)  # it joins the flows, and ends as one
            else:
                if task < request:
                    self.left.append(task)
                self.remains[client] -= 1
                if not self.remains[client]:
                    self.dying -= 1
                    gone.append(client)
        ended[:] = kept
        return [task for task in self.left if task < self.jobs], gone

    def fallen_back(self, crash: int, now: Nanos, ledger: Ledger, global_step: int) -> int:
        """The global step after a crash; the ledger is told what is lost."""
        every = self.checkpoint_ns[crash]
        if not every or not self.keeps[self.task[crash]]:
            return global_step
        updates = bisect_left(ledger.updates, (now // every * every + 1,))
        saved = ledger.reached[updates - 1] if updates else 0
        ledger.lost[crash] = global_step - saved
        return saved
