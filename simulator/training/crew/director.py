"""The director of a crew: what the loop asks when many clients take step after step (execution/loop.py).

A client's step begins with a timer, at which its rows are armed anew, and ends with its END. Marked ops act at the end
of the round of an instant in which they ended or became ready: first those that ended act, in order of number, then
gates join their lines, in order of number, then accumulators and queues let go whom they can, who go on in the next
round of the same instant, and last steps end.

Timers are the beginnings of the clients' steps, then marked ops that go on, then crashes. An op that draws from an
input goes on when its elements are there, which is known as soon as it asks.
"""

from __future__ import annotations

from heapq import heappush
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from simulator.columns import ints
from simulator.execution.loop import ASKS, State
from simulator.execution.queues import Executor
from simulator.training.crew.arming import arm
from simulator.training.crew.combining import COUNT, DRAW, READ
from simulator.training.crew.crashing import Crashes
from simulator.training.crew.feeding import Feeders
from simulator.training.crew.gating import GATES, Gates
from simulator.training.crew.goal import Goal
from simulator.training.crew.hanging import Watch
from simulator.training.crew.idling import Idlers
from simulator.training.crew.ledger import Ledger, Noted, under_way
from simulator.training.crew.lengths import Lengths
from simulator.training.crew.marking import WAITS, Marked
from simulator.training.crew.milestones import Milestones
from simulator.training.crew.recording import Recorder, Times, times_of
from simulator.training.crew.staleness import Staleness
from simulator.training.crew.synchronising import DEQUEUE, Clocks
from simulator.training.crew.telling import News
from simulator.training.training import CutShort

if TYPE_CHECKING:
    from simulator.execution.engine import Prepared
    from simulator.execution.tables import Tables
    from simulator.training.crew.combining import Crew
    from simulator.units import Nanos


class Director:
    """Axes: C clients, M marked ops, H shared objects, K tasks, n ops, X transfers."""

    state: State
    times: Times

    def __init__(self, crew: Crew, tables: Tables, given: Prepared, record: int = 0, goal: Goal | None = None) -> None:
        """`record` is how many steps of each client are recorded."""
        crossing, wiring, wires = given.crossing, given.wiring, given.wires
        self.crew, self.wiring, self.goal = crew, wiring, goal or Goal(crew.limit)
        clients, ops, transfers = len(crew), len(tables), len(crossing)
        self.ledger = Ledger(crew, tables.ways, crossing, tables.tensor_bytes[crossing.tensor], wiring, wires)
        self.op_ptr: list[int] = crew.op_ptr.tolist()
        of_op = np.repeat(np.arange(clients), np.diff(crew.op_ptr))
        of_transfer = of_op[tables.tensor_op[crossing.tensor]]
        self.transfer_ptr: list[int] = np.searchsorted(of_transfer, np.arange(clients + 1)).tolist()
        self.client: list[int] = np.concatenate([of_op, of_transfer, of_transfer]).tolist()  # [J]
        self.ops, self.transfers = ops, transfers
        roots = np.array(wiring.roots, np.int64)
        bounds = np.searchsorted(roots, crew.op_ptr).tolist()
        self.roots: list[list[int]] = [wiring.roots[a:b] for a, b in pairwise(bounds)]
        self.marked = marked = Marked(crew, self.client)
        self.gates, self.feeders = Gates(crew, marked.client), Feeders(crew)
        kind = marked.kind
        self.own_step = [
            all(kind[mark] != DEQUEUE for mark in own) for own in marked.of_client
        ]  # reads the global step
        self.clocks = Clocks(crew.clocked.tolist(), crew.bound)
        self.global_step, self.over = 0, False
        self.number = [-1] * clients
        self.running = [False] * clients
        self.recorder = Recorder(self.op_ptr, self.transfer_ptr, wires.held_ptr, record)
        self.begin_ns: list[int] = crew.start_ns.tolist()  # when its next step begins, or that under way began
        self.gap_ns: list[int] = crew.gap_ns.tolist()
        self.news = News(crew.word, crew.bound)
        self.counts: list[bool] = crew.counts.tolist()
        self.back_ns = [0] * clients  # not before it is back from a crash
        self.staleness, self.milestones = Staleness(clients), Milestones()
        self.at_end = [False] * clients  # its END came while an enqueue waited for room
        self.restarted = [False] * clients  # its session is a new one
        self.crashing: list[int] = []
        owner = [*self.client, *of_transfer.tolist()]
        self.crashes = Crashes(crew, wiring.device, owner, transfers)
        self.idlers = Idlers(crew.idle.tolist(), owner, len(self.client))
        self.watch = Watch(crew, self.goal.limit)
        self.lengths = Lengths(crew, wiring.run_ns, self.client, self.ledger.task)

    @property
    def timers(self) -> int:
        """How many task numbers it needs."""
        return len(self.crew) + len(self.marked.op) + len(self.crashes.when)

    def begin(self, state: State) -> None:
        """Take the loop's state over; let the first steps begin."""
        self.state = state
        self.times = times_of(state, self.ops, self.transfers)
        self.marked.begin(state)
        for after in self.op_ptr[1:]:
            state.instant[after - 1] = ASKS
        self.unlaunched = list(state.queues.unlaunched) if isinstance(state.queues, Executor) else []
        for client in range(len(self.crew)):
            self._schedule(client, self.begin_ns[client])
        for crash, when in enumerate(self.crashes.when):
            self._push(when, len(self.crew) + len(self.marked.op) + crash)

    def _push(self, when: Nanos, timer: int) -> None:
        heappush(self.state.heap, when << self.state.shift | self.state.timer + timer)

    def _schedule(self, client: int, when: Nanos) -> None:
        self.begin_ns[client] = max(when, self.back_ns[client])
        self._push(self.begin_ns[client], client)

    def told(self, timer: int, now: Nanos) -> list[int]:
        """A timer has ended: the ops that are told."""
        clients, marks = len(self.crew), len(self.marked.op)
        if timer >= clients + marks:
            self.crashing.append(timer - clients - marks)
            return []
        if timer >= clients:
            return self.marked.told(timer - clients, now)
        if self.running[timer] or self.crashes.remains[timer] or now != self.begin_ns[timer]:
            return []  # it was put off
        self._arm(timer, now)
        return list(self.roots[timer])

    def _arm(self, client: int, now: Nanos) -> None:
        """Make the rows of a client as if nothing had happened yet."""
        ops, transfers = (slice(*ptr[client : client + 2]) for ptr in (self.op_ptr, self.transfer_ptr))
        arm(self.state, self.wiring, self.unlaunched, ops, transfers, now)
        self.marked.arm(client)
        self.running[client] = True
        self.number[client] += 1
        self.staleness.begin(client, self.global_step)
        self.gates.begin(client)
        self.feeders.begin(client)
        if self.own_step[client] or self.restarted[client]:
            self.gates.local_step[client] = self.global_step
        if self.restarted[client] and client in self.gates.chiefs:
            self.gates.initialise(self.global_step)
        self.restarted[client] = False

    def sift(self, ended: list[int], now: Nanos) -> list[int]:
        """Take out what is left of steps that were cut short; the jobs among it."""
        if not self.crashes.dying:
            return []
        jobs, gone = self.crashes.sift(ended, self.state.timer)
        for client in gone:
            self._schedule(client, now)
        return jobs

    def act(self, now: Nanos, ended: list[int], asks: list[int], to_wire: list[int], begun: list[int]) -> bool:
        """What happened in this round; whether the run is over."""
        if self.crashes.left:
            self.ledger.note(now, [*ended, *self.crashes.left], to_wire, begun, self.state)
            self.crashes.left.clear()
        else:
            self.ledger.note(now, ended, to_wire, begun, self.state)
        if self.lengths.vary:
            self.lengths.set(begun, self.number, now, self.state.run_ns)
        for client in self.idlers.woken(begun):
            self._schedule(client, max(now, self.begin_ns[client]))
        mark_of, ops = self.marked.mark_of, self.ops
        for task in ended:
            if task < ops and mark_of[task] >= 0:
                self._acts(mark_of[task], now)
        ends = []
        for op in sorted(asks):
            if mark_of[op] < len(self.marked.op):
                self._asked(mark_of[op], now)
            else:
                ends.append(mark_of[op] - len(self.marked.op))
        if self.gates.touched:
            for mark in self.gates.let_go(now):
                if self.gates.kind[mark] in GATES:
                    self._go_on(mark, now)
                elif self.at_end[self.gates.client[mark]] and not self.gates.adding[self.gates.client[mark]]:
                    self.at_end[self.gates.client[mark]] = False  # several may be let go at once
                    ends.append(self.gates.client[mark])
        for client in ends:
            self.at_end[client] = self.gates.adding[client] > 0
            if not self.at_end[client]:
                self._end(client, now, begun)
        while self.crashing:
            self._crash(self.crashing.pop(0), now, begun)
        if len(self.ledger.updates) >= self.milestones.next:
            self.milestones.note(self.ledger.spent(now, self.state))
            self.goal.tell(len(self.ledger.updates))
        if self.over and self.goal.put_off(lambda: self.noted(now)):
            self.over, self.watch.limit = False, self.goal.limit
        return self.over or self.watch.hung

    def noted(self, now: Nanos) -> Noted:
        """What there is to say of the run until now."""
        left = under_way(self.running, self.number, self.begin_ns, now)
        spent, marks = self.ledger.spent(now, self.state), tuple(self.milestones.kept)
        waits = ints(self.feeders.for_ns)
        return Noted(self.ledger, self.gates.dropped, self.recorder, now, left, spent, marks, waits)

    def _acts(self, mark: int, now: Nanos) -> None:
        """A marked op that is no gate has ended."""
        if self.gates.kind[mark] == COUNT:
            self._count(self.gates.client[mark], now)
        elif self.gates.kind[mark] == READ:
            self.staleness.read(self.gates.client[mark], self.global_step)
        elif self.gates.kind[mark] not in WAITS:
            self.gates.act(mark, self.global_step)

    def _asked(self, mark: int, now: Nanos) -> None:
        """A marked op is ready: gates wait in line, what takes no time goes on."""
        if self.gates.kind[mark] in GATES:
            self.gates.ask(mark, now)
        elif self.gates.kind[mark] == DRAW:
            gates = self.gates
            self._go_on(mark, self.feeders.take(gates.shared[mark], gates.client[mark], gates.amount[mark], now))
        else:
            self._acts(mark, now)
            self._go_on(mark, now)

    def _go_on(self, mark: int, when: Nanos) -> None:
        self.marked.go_on(mark, when)
        self._push(when, len(self.crew) + mark)

    def _count(self, client: int, now: Nanos) -> None:
        """The client counts an update."""
        staleness = self.staleness.count(client, self.global_step)
        self.global_step += 1
        self.watch.updated()
        gradients, examples = self.gates.applied(client)
        self.ledger.updates.append((now, client, staleness, gradients, examples))
        self.ledger.reached.append(self.global_step)
        self.over |= self.global_step >= self.goal.limit

    def _end(self, client: int, now: Nanos, begun: list[int]) -> None:
        """A step is over; the next may follow."""
        if self.counts[client]:
            self._count(client, now)
        self.ledger.steps.append(
            (
                client,
                self.number[client],
                self.begin_ns[client],
                now,
                self.gates.waited_ns[client],
                self.feeders.waited_ns[client],
            )
        )
        self.recorder.note(client, self.number[client], self.times)
        self.watch.stepped(client)
        self.running[client] = False
        self.begin_ns[client] = now + self.gap_ns[client]
        released = self.clocks.tick(client)
        if self.clocks.clocked[client]:
            self.news.told(client, self.clocks.clock[client], now)
        for other in released:
            self._follow(other)
        if self.idlers.idle[client] and self.idlers.alone(begun, self.state):
            self.idlers.asleep.append(client)
        elif self.clocks.may(client):
            self._follow(client)

    def _follow(self, client: int) -> None:
        """Its clock lets it begin its next step, once it knows."""
        known_ns = self.news.known_ns(client, self.clocks.clock[client])
        self._schedule(client, max(known_ns, self.begin_ns[client]))

    def _crash(self, crash: int, now: Nanos, begun: list[int]) -> None:
        """A task dies: its clients are cut short, updates since its checkpoint are lost."""
        crashes, task = self.crashes, self.crashes.task[crash]
        self.global_step = crashes.fallen_back(crash, now, self.ledger, self.global_step)
        for client in crashes.clients[crash]:
            self.back_ns[client] = max(self.back_ns[client], now + crashes.away_ns[crash])
            self.restarted[client] = True
            if self.running[client]:
                self.ledger.cut.append(CutShort(client, self.number[client], self.begin_ns[client], now, crash))
                self._cut_short(client, now, begun)
            elif not (crashes.remains[client] or client in self.clocks.waiting or client in self.idlers.asleep):
                self._schedule(client, self.begin_ns[client])
        self.feeders.restart(task, now + crashes.away_ns[crash])
        if crashes.keeps[task] or task in self.gates.task:
            self.gates.restore(task, self.global_step)

    def _cut_short(self, client: int, now: Nanos, begun: list[int]) -> None:
        self.running[client] = self.at_end[client] = False
        self.gates.forget(client, self.marked.of_client[client])
        self.feeders.forget(client, now)
        self.marked.forget(client)
        self.begin_ns[client] = now
        if not self.crashes.cut_short(client, begun, self.state):
            self._schedule(client, now)
