"""Inputs that may run dry: queues of bounded size which threads fill beside the steps, in closed form.

A thread makes an item, adds its elements as far as there is room, and begins the next item when all are in. Elements
enter in order of their items' ends, and whoever takes several gets each as soon as it is there, first come, first
served (`QueueBase` in tensorflow/core/kernels/queue_base.cc). Nothing else has a part in it, so no event is needed:
when an element enters follows from what was taken before, and is found when somebody asks for it.

    element k enters at max(its item is made, element k-1 has entered, element k-capacity was taken)
    element k is taken at max(it is asked for, element k-1 was taken, element k+reserve has entered)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.training.disturbances.noise import entry, scaled
from simulator.training.disturbances.pauses import stretched

if TYPE_CHECKING:
    from simulator.training.crew.combining import Crew
    from simulator.units import Nanos


class Feeder:
    """One input. `lasts` of its owner says how long an item takes that is begun at a moment."""

    def __init__(self, owner: Feeders, source: int) -> None:
        sources = owner.crew.sources
        self.owner, self.source = owner, source
        self.item, self.reserve = int(sources.item[source]), int(sources.reserve[source])
        self.capacity = int(sources.capacity[source])
        self.threads = int(sources.threads[source])
        self.numbers = 0  # items that were ever begun
        self.restart(int(sources.start_ns[source]))

    def restart(self, now: Nanos) -> None:
        """Lose what is there; all threads begin an item."""
        self.made_ns = [self._made(now) for _ in range(self.threads)]
        self.thread = self.left = 0  # whose elements enter, and how many of them still have to
        self.entered = 0
        self.taken = 0
        self.entered_ns = self.taken_ns = now
        self.taken_at = [now] * max(1, self.capacity)  # [element modulo capacity]

    def take(self, now: Nanos, count: int) -> Nanos:
        """When whoever asks now for so many elements has them all."""
        for _ in range(count):
            while self.entered <= self.taken + self.reserve:
                self._enter()
            self.taken_ns = max(self.taken_ns, now, self.entered_ns)
            if self.capacity > 0:
                self.taken_at[self.taken % self.capacity] = self.taken_ns
            self.taken += 1
        return max(now, self.taken_ns)

    def _enter(self) -> None:
        """The next element enters."""
        if not self.left:
            self.thread = min(range(self.threads), key=lambda thread: self.made_ns[thread])  # the first of equal ones
            self.left = self.item
            self.entered_ns = max(self.entered_ns, self.made_ns[self.thread])
        if 0 < self.capacity <= self.entered:
            self.entered_ns = max(self.entered_ns, self.taken_at[self.entered % self.capacity])
        self.entered += 1
        self.left -= 1
        if not self.left:
            self.made_ns[self.thread] = self._made(self.entered_ns)

    def _made(self, begun: Nanos) -> Nanos:
        self.numbers += 1
        return self.owner.made_ns(self.source, begun, self.numbers - 1)


class Feeders:
    """The inputs of a crew, and who waits for them. Axes: I inputs, C clients."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.period_ns: list[int] = crew.sources.period_ns.tolist()  # [I]
        self.task: list[int] = crew.sources.task.tolist()  # [I] that works
        self.kept_by: list[int] = crew.sources.kept_by.tolist()  # [I] that has the queue
        met = crew.disturbed
        self.noise_of = [] if met is None else met.noise_of.tolist()  # [K]
        self.machines = [Feeder(self, source) for source in range(len(crew.sources.names))]
        self.waited_ns = [0] * len(crew)  # [C] in its step
        self.until_ns = [0] * len(crew)  # [C] it is known to wait
        self.for_ns = [0] * len(self.machines)  # [I] in all, of all who wait at once

    def made_ns(self, source: int, begun: Nanos, number: int) -> Nanos:
        """When an item is made that is begun then: noise and pauses of the task that works are in it."""
        met, task, work = self.crew.disturbed, self.task[source], self.period_ns[source]
        if met is None:
            return begun + work
        if self.noise_of[task] >= 0:
            drawn = entry(self.crew.seed, task, len(self.crew) + source, number)
            work = scaled(work, int(met.noise[self.noise_of[task], drawn]))
        length = int(met.pause_length_ns[task])
        if not length:
            return begun + work
        return stretched(begun, work, int(met.pause_phase_ns[task]), int(met.pause_period_ns[task]), length)

    def begin(self, client: int) -> None:
        """Its step begins."""
        self.waited_ns[client] = 0

    def take(self, source: int, client: int, count: int, now: Nanos) -> Nanos:
        """When a client's op that asks now for so many elements may go on."""
        when = self.machines[source].take(now, count)
        self.waited_ns[client] += max(0, when - max(now, self.until_ns[client]))
        self.until_ns[client] = max(self.until_ns[client], when)
        self.for_ns[source] += when - now
        return when

    def forget(self, client: int, now: Nanos) -> None:
        """Its step was cut short: it waits no longer."""
        self.until_ns[client] = now

    def restart(self, task: int, back_ns: Nanos) -> None:
        """A task is gone with what it makes or keeps; all begins anew when it is back."""
        for source, machine in enumerate(self.machines):
            if task in (self.task[source], self.kept_by[source]):
                machine.restart(back_ns)
