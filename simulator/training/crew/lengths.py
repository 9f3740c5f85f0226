"""How long work takes that begins now: its usual time, longer or shorter by the step's noise, stretched by pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.training.disturbances.noise import entry, scaled
from simulator.training.disturbances.pauses import stretched

if TYPE_CHECKING:
    from simulator.training.crew.combining import Crew
    from simulator.units import Nanos


class Lengths:
    """Axes: J jobs, K tasks, C clients."""

    def __init__(self, crew: Crew, usual_ns: list[int], client: list[int], task: list[int]) -> None:
        """`usual_ns`, `client` and `task` are of each job [J]."""
        self.usual_ns, self.client, self.task, self.seed = usual_ns, client, task, crew.seed
        self.vary = False
        disturbed = crew.disturbed
        if disturbed is None:
            return
        self.noise: list[list[int]] = disturbed.noise.tolist()
        self.noise_of: list[int] = disturbed.noise_of.tolist()
        self.phase: list[int] = disturbed.pause_phase_ns.tolist()
        self.period: list[int] = disturbed.pause_period_ns.tolist()
        self.length: list[int] = disturbed.pause_length_ns.tolist()
        self.vary = any(row >= 0 for row in self.noise_of) or any(self.length)

    def set(self, begun: list[int], number: list[int], now: Nanos, run_ns: list[int]) -> None:
        """Enter the times of the jobs that begin now; `number` is the step of each client."""
        for job in begun:
            work, task, client = self.usual_ns[job], self.task[job], self.client[job]
            if self.noise_of[task] >= 0:
                drawn = entry(self.seed, task, client, number[client])
                work = scaled(work, self.noise[self.noise_of[task]][drawn])
            if self.length[task]:
                work = stretched(now, work, self.phase[task], self.period[task], self.length[task]) - now
            run_ns[job] = work
