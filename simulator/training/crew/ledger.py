"""What is counted while many steps run: work per device and task, bytes per link, steps, updates.

Sums alone, so that memory grows by a few numbers per step and update, whatever the graph. A serial link is busy while
it is held, another one while bytes are on it: latencies go by without it. On a link without contention that is for as
long as they take on the slowest link of their way, from when their first one begins with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.columns import Ints, ints
from simulator.execution.ways import Ways
from simulator.training.training import COMPUTING, HANDLING, SENDING, WAITING, CutShort, Spent

if TYPE_CHECKING:
    from simulator.execution.crossings import Crossings
    from simulator.execution.loop import State, Wires
    from simulator.execution.wiring import Wiring
    from simulator.training.crew.combining import Crew
    from simulator.training.crew.recording import Recorder
    from simulator.units import Nanos


# Client, number, start, end, time in which a gate waited, time in which an input was waited for.
Row: TypeAlias = tuple[int, int, int, int, int, int]


class Noted(NamedTuple):
    """What is known when a run is over."""

    ledger: Ledger
    dropped: int  # gradients
    recorder: Recorder
    end_ns: Nanos
    under_way: tuple[tuple[int, int, int], ...]  # (client, number, start) of steps that the end of the run cut off
    spent: Spent
    marks: tuple[Spent, ...]  # at some updates before
    input_ns: Ints  # [I] that all who drew from each input waited for it


def under_way(
    running: Sequence[bool], number: Sequence[int], begin_ns: Sequence[Nanos], end_ns: Nanos
) -> tuple[tuple[int, int, int], ...]:
    """The steps that have taken time already when the run ends, by client."""
    rows = enumerate(zip(running, number, begin_ns, strict=True))
    return tuple((client, at, begin) for client, (runs, at, begin) in rows if runs and begin < end_ns)


class Ledger:
    """Axes: K tasks, D devices, W ways, L links, S steps, U updates, Z crashes."""

    def __init__(self, crew: Crew, ways: Ways, crossing: Crossings, nbytes: Ints, wiring: Wiring, wires: Wires) -> None:
        tasks = int(crew.task_of.max(initial=0)) + 1
        self.jobs, self.transfers = len(wiring.run_ns), len(crossing)
        self.ops = self.jobs - 2 * self.transfers
        self.device = wiring.device
        self.task: list[int] = crew.task_of[wiring.device].tolist()
        self.source: list[int] = crew.task_of[crossing.source].tolist()
        self.target: list[int] = crew.task_of[crossing.target].tolist()
        self.nbytes: list[int] = nbytes.tolist()
        self.way: list[int] = crossing.way.tolist()
        pairs = [(way, link) for way, links in enumerate(ways.links) for link in links]
        self.links = np.array(pairs, np.int64).reshape(len(pairs), 2).T  # [2, pairs]
        self.shared = _shared(ways, crossing, wires)
        self.wire_ns, self.latency_ns, self.flows = wires.wire_ns, wires.latency_ns, wires.flows
        self.under_way = [[0] * tasks for _ in range(WAITING)]  # [kind, K] how much; of several kinds the first counts
        self.task_ns = [[0] * tasks for _ in range(WAITING)]  # [kind, K]
        self.since = [0] * tasks
        self.busy_ns, self.message_ns = [0] * len(crew.task_of), [0] * len(crew.task_of)  # [D] all jobs, of transfers
        self.carried = [0] * len(ways.links)  # [W] bytes
        self.on_link, self.link_since = [0] * len(ways.link_names), [0] * len(ways.link_names)
        self.link_ns = [0] * len(ways.link_names)  # [L] of links that nobody holds
        self.turns: list[list[tuple[int, bool]]] = [
            [] for _ in ways.link_names
        ]  # when bytes come, or go, to be counted
        self.steps: list[Row] = []
        self.updates: list[tuple[int, int, int, int, int]] = []  # time, client, staleness, gradients, examples
        self.reached: list[int] = []  # [U] the global step after it
        self.lost = [0] * (0 if crew.disturbed is None else len(crew.disturbed.crash_task))  # [Z] updates
        self.cut: list[CutShort] = []

    def note(self, now: Nanos, ended: list[int], to_wire: list[int], begun: list[int], state: State) -> None:
        """Tasks that end, transfers that go to the wire and jobs that begin at this moment.

        What begins comes first: a task that goes on with something else does not change.
        """
        (computing, handling, sending), jobs, ops = self.under_way, self.jobs, self.ops
        start, sent = state.start, state.sent
        task_of, device, busy_ns, message_ns = self.task, self.device, self.busy_ns, self.message_ns
        for job in begun:
            where, works = task_of[job], computing if job < ops else handling
            if not works[where]:
                self._turn(where, now)
            works[where] += 1
        for transfer in to_wire:
            for where in (self.source[transfer], self.target[transfer]):
                if not sending[where]:
                    self._turn(where, now)
                sending[where] += 1
            if self.flows[transfer]:
                if not self.latency_ns[transfer]:
                    self._turns(transfer, now, False, now)
            elif self.shared[self.way[transfer]] and self.wire_ns[transfer]:
                self._turns(transfer, sent[transfer], False, now)
                self._turns(transfer, sent[transfer] + self.wire_ns[transfer], True, now)
        for task in ended:
            if task < jobs:
                where, works = task_of[task], computing if task < ops else handling
                busy_ns[device[task]] += now - start[task]
                if task >= ops:
                    message_ns[device[task]] += now - start[task]
                if works[where] == 1:
                    self._turn(where, now)
                works[where] -= 1
            elif task < jobs + self.transfers:
                self._arrive(task - jobs, now)
            elif jobs + 2 * self.transfers <= task < jobs + 3 * self.transfers:
                transfer = task - jobs - 2 * self.transfers
                if self.flows[transfer]:
                    self._turns(transfer, now, False, now)

    def _turn(self, where: int, now: Nanos) -> None:
        """What the task does changes: enter what it has done."""
        kind = self._kind(where)
        if kind != WAITING:
            self.task_ns[kind][where] += now - self.since[where]
        self.since[where] = now

    def _kind(self, where: int) -> int:
        """What the task does."""
        return next((kind for kind in (COMPUTING, HANDLING, SENDING) if self.under_way[kind][where]), WAITING)

    def _turns(self, transfer: int, when: Nanos, ends: bool, now: Nanos) -> None:
        """Its bytes come to the links that it does not hold, or go; not before this moment."""
        for link in self.shared[self.way[transfer]]:
            self._count(link, now)
            heappush(self.turns[link], (when, ends))

    def _count(self, link: int, now: Nanos) -> None:
        """Enter what came to a link, and went, until now."""
        turns = self.turns[link]
        while turns and turns[0][0] <= now:
            when, ends = heappop(turns)
            if ends:
                self.on_link[link] -= 1
                if not self.on_link[link]:
                    self.link_ns[link] += when - self.link_since[link]
            else:
                if not self.on_link[link]:
                    self.link_since[link] = when
                self.on_link[link] += 1

    def _arrive(self, transfer: int, now: Nanos) -> None:
        for where in (self.source[transfer], self.target[transfer]):
            if self.under_way[SENDING][where] == 1:
                self._turn(where, now)
            self.under_way[SENDING][where] -= 1
        self.carried[self.way[transfer]] += self.nbytes[transfer]
        if self.flows[transfer]:
            self._turns(transfer, now, True, now)

    def spent(self, now: Nanos, state: State) -> Spent:
        """What was done until this moment, that which is under way included."""
        for link in range(len(self.on_link)):
            self._count(link, now)
        turns = zip(self.link_ns, self.on_link, self.link_since, strict=True)
        link_ns = [spent + (now - since if on else 0) for spent, on, since in turns]
        busy_ns, message_ns = list(self.busy_ns), list(self.message_ns)
        for link, (promised, free) in enumerate(zip(state.promised_ns, state.free, strict=True)):
            link_ns[link] += promised - max(0, free - now)  # from now until then it is never idle
        mask = (1 << state.shift) - 1
        for task in [entry & mask for entry in state.heap]:
            if task < self.jobs:
                busy_ns[self.device[task]] += now - state.start[task]
            if self.ops <= task < self.jobs:
                message_ns[self.device[task]] += now - state.start[task]
        task_ns = np.array(self.task_ns, np.int64)
        for where, since in enumerate(self.since):
            if self._kind(where) != WAITING:
                task_ns[self._kind(where), where] += now - since
        return self.summed(len(self.updates), now, task_ns, (busy_ns, message_ns), self.carried, link_ns)

    def summed(
        self,
        updates: int,
        now: Nanos,
        task_ns: npt.NDArray[np.int64],
        busy_ns: tuple[Sequence[int] | Ints, Sequence[int] | Ints],
        carried: Sequence[int] | Ints,
        link_ns: Sequence[int] | Ints,
    ) -> Spent:
        """Sums as columns. `task_ns` [kind, K] is without waiting; `busy_ns` is that of all jobs, and of the work for
        transfers alone; `carried` [W] is by way.
        """
        way, link = self.links
        link_bytes = np.zeros(len(link_ns), np.int64)
        np.add.at(link_bytes, link, np.asarray(carried, np.int64)[way])
        tasks = np.concatenate([task_ns, now - task_ns.sum(axis=0, keepdims=True)]).T.copy()
        tasks.setflags(write=False)
        return Spent(updates, now, tasks, ints(busy_ns[0]), ints(busy_ns[1]), ints(link_bytes), ints(link_ns))


def _shared(ways: Ways, crossing: Crossings, wires: Wires) -> list[tuple[int, ...]]:
    """[W] links on which a transfer is not alone: those that it does not hold."""
    held: list[tuple[int, ...]] = [()] * len(ways.links)
    for way, links in zip(crossing.way.tolist(), wires.held, strict=True):
        held[way] = links
    return [tuple(link for link in links if link not in mine) for links, mine in zip(ways.links, held, strict=True)]
