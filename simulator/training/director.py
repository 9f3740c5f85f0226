"""The director of a crew: what the loop asks when many clients take step after step (execution/loop.py).

A client's step begins with a timer, at which its rows are armed anew, and ends with its END. Marked ops act at the end
of the round of an instant in which they ended or became ready: first those that ended act, in order of number, then
gates join their lines, in order of number, then accumulators and queues let go whom they can, who go on in the next
round of the same instant, and last steps end.

Timers are the beginnings of the clients' steps, then marked ops that go on, then crashes.
"""

from __future__ import annotations

from heapq import heappush
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import DeadlockError
from simulator.execution.loop import ASKS, State
from simulator.execution.queues import Executor
from simulator.training.combining import COUNT
from simulator.training.ledger import Ledger
from simulator.training.synchronising import APPLY, DEQUEUE, ENQUEUE, TAKE, Accumulator, Clocks, TokenQueue
from simulator.wording import counted, some

if TYPE_CHECKING:
    from simulator.execution.crossings import Crossings
    from simulator.execution.loop import Wires
    from simulator.execution.tables import Tables
    from simulator.execution.wiring import Wiring
    from simulator.training.combining import Crew
    from simulator.units import Nanos


class Director:
    """Axes: C clients, M marked ops, H shared objects, K tasks, n ops, X transfers."""

    state: State

    def __init__(self, crew: Crew, tables: Tables, crossing: Crossings, wiring: Wiring, wires: Wires) -> None:
        self.crew, self.wiring = crew, wiring
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
        self.pulls = wiring.pulls
        # marked ops
        marks = crew.marks
        self.op: list[int] = marks.op.tolist()  # [M]
        self.kind, self.shared = marks.kind.tolist(), marks.shared.tolist()
        self.amount, self.reserve = marks.amount.tolist(), marks.reserve.tolist()
        self.mark_of = [-1] * len(wiring.run_ns)  # [J] of what does not matter; M + client for an END
        for mark, op in enumerate(self.op):
            self.mark_of[op] = mark
        for client in range(clients):
            self.mark_of[self.op_ptr[client + 1] - 1] = len(self.op) + client
        self.at_ready = [0] * len(self.op)  # [M] entries of `instant` once a gate lets go
        self.marks_of: list[list[int]] = [[] for _ in range(clients)]
        for mark, op in enumerate(self.op):
            self.marks_of[self.client[op]].append(mark)
        self.going_on = [False] * len(self.op)  # [M] its timer counts
        self.own_step = [all(self.kind[mark] != DEQUEUE for mark in own) for own in self.marks_of]  # reads global step
        # what they share
        shared = crew.shared
        self.machines: list[Accumulator | TokenQueue] = [
            TokenQueue(capacity) if queue else Accumulator()
            for queue, capacity in zip(shared.queue.tolist(), shared.capacity.tolist(), strict=True)
        ]
        self.gathered = [0] * len(self.machines)  # [H] examples behind the gradients of an accumulator
        self.touched: list[int] = []
        self.clocks = Clocks(crew.clocked.tolist(), crew.bound)
        self.global_step = 0
        self.over = False
        # steps
        self.number = [-1] * clients
        self.running = [False] * clients
        self.begin_ns: list[int] = crew.start_ns.tolist()  # when its next step begins, or that under way began
        self.gap_ns: list[int] = crew.gap_ns.tolist()
        self.examples: list[int] = crew.examples.tolist()
        self.counts: list[bool] = crew.counts.tolist()
        self.back_ns = [0] * clients  # not before it is back from a crash
        self.local_step = [0] * clients
        self.base = [0] * clients  # global step when the step began
        self.own = [0] * clients  # updates of its own since
        self.took, self.taken, self.taken_examples = [0] * clients, [0] * clients, [0] * clients
        self.held, self.held_ns, self.waited = [0] * clients, [0] * clients, [0] * clients
        self.adding, self.at_end = [0] * clients, [False] * clients  # enqueues that wait for room; END came meanwhile
        self.remains = [0] * clients  # jobs and transfers of a step that was cut short
        self.crashing: list[int] = []
        self.left: list[int] = []  # remains that end now
        self.idle: list[bool] = crew.idle.tolist()

    @property
    def timers(self) -> int:
        """How many task numbers it needs."""
        return len(self.crew) + len(self.op) + self._crashes()

    def _crashes(self) -> int:
        return 0 if self.crew.disturbed is None else len(self.crew.disturbed.crash_task)

    def begin(self, state: State) -> None:
        """Take the loop's state over; let the first steps begin."""
        self.state = state
        for mark, op in enumerate(self.op):
            self.at_ready[mark] = state.instant[op]
            if self.kind[mark] in (TAKE, DEQUEUE) or state.instant[op]:
                state.instant[op] = ASKS
                if isinstance(state.queues, Executor):
                    state.queues.unlaunched[op] += 1  # a stream gets it when it is let go
        for after in self.op_ptr[1:]:
            state.instant[after - 1] = ASKS
        if isinstance(state.queues, Executor):
            self.unlaunched = list(state.queues.unlaunched)
        for machine, tokens in zip(self.machines, self.crew.shared.tokens.tolist(), strict=True):
            if isinstance(machine, TokenQueue) and tokens:
                machine.enqueue(-1, 0, tokens)
                machine.admitted()
        for client in range(len(self.crew)):
            self._schedule(client, self.begin_ns[client])
        if self.crew.disturbed is not None:
            for crash, when in enumerate(self.crew.disturbed.crash_at_ns.tolist()):
                self._push(when, len(self.crew) + len(self.op) + crash)

    def _push(self, when: Nanos, timer: int) -> None:
        heappush(self.state.heap, when << self.state.shift | self.state.timer + timer)

    def _schedule(self, client: int, when: Nanos) -> None:
        self.begin_ns[client] = max(when, self.back_ns[client])
        self._push(self.begin_ns[client], client)

    def told(self, timer: int, now: Nanos) -> list[int]:
        """A timer has ended: the ops that are told."""
        clients, marks = len(self.crew), len(self.op)
        if timer >= clients + marks:
            self.crashing.append(timer - clients - marks)
            return []
        if timer >= clients:
            going_on, self.going_on[timer - clients] = self.going_on[timer - clients], False
            return [self.op[timer - clients]] if going_on else []
        if self.running[timer] or self.remains[timer] or now != self.begin_ns[timer]:
            return []  # it was put off
        self._arm(timer, now)
        return list(self.roots[timer])

    def _arm(self, client: int, now: Nanos) -> None:
        """Make the rows of a client as if nothing had happened yet."""
        state, wiring = self.state, self.wiring
        a, b = self.op_ptr[client], self.op_ptr[client + 1]
        x, y = self.transfer_ptr[client], self.transfer_ptr[client + 1]
        state.waits[a:b] = wiring.waits[a:b]
        state.first[a:b] = [-1] * (b - a)
        if self.pulls:
            state.conditions[x:y] = wiring.conditions[x:y]
            state.due[x:y] = [now + request for request in wiring.request_ns[x:y]]
        if isinstance(state.queues, Executor):
            state.queues.unlaunched[a:b] = self.unlaunched[a:b]
            state.queues.merged[a:b] = [False] * (b - a)
        for mark in self.marks_of[client]:
            if self.kind[mark] in (TAKE, DEQUEUE) or self.at_ready[mark]:
                state.instant[self.op[mark]] = ASKS
        self.running[client] = True
        self.number[client] += 1
        self.base[client], self.own[client] = self.global_step, 0
        self.took[client] = self.taken[client] = self.taken_examples[client] = 0
        self.waited[client] = 0
        if self.own_step[client]:
            self.local_step[client] = self.global_step

    def sift(self, ended: list[int]) -> list[int]:
        """Take out what is left of steps that were cut short; the jobs among it."""
        return []

    def act(self, now: Nanos, ended: list[int], asks: list[int], to_wire: list[int], begun: list[int]) -> bool:
        """What happened in this round; whether the run is over."""
        self.ledger.note(now, ended, to_wire, begun, self.state)
        mark_of, ops = self.mark_of, self.ops
        for task in ended:
            if task < ops and mark_of[task] >= 0:
                self._acts(mark_of[task], now)
        ends = []
        for op in sorted(asks):
            if mark_of[op] < len(self.op):
                self._asked(mark_of[op], now)
            else:
                ends.append(mark_of[op] - len(self.op))
        if self.touched:
            self._let_go(now)
        for client in ends:
            if self.adding[client]:
                self.at_end[client] = True
            else:
                self._end(client, now)
        return self.over

    def _acts(self, mark: int, now: Nanos) -> None:
        """A marked op has ended."""
        kind, shared = self.kind[mark], self.shared[mark]
        client = self.client[self.op[mark]]
        if kind == COUNT:
            self._count(client, now)
            return
        machine = self.machines[shared]
        if kind == APPLY:
            assert isinstance(machine, Accumulator)
            if machine.apply(self.local_step[client]):
                self.gathered[shared] += self.examples[client]
            else:
                self.ledger.dropped += 1
            self.touched.append(shared)
        elif kind == ENQUEUE:
            assert isinstance(machine, TokenQueue)
            machine.enqueue(mark, self.global_step, self.amount[mark])
            self.adding[client] += 1
            self.touched.append(shared)

    def _asked(self, mark: int, now: Nanos) -> None:
        """A marked op is ready: gates wait in line, what takes no time goes on."""
        kind, shared = self.kind[mark], self.shared[mark]
        client = self.client[self.op[mark]]
        if kind not in (TAKE, DEQUEUE):
            self._acts(mark, now)
            self._go_on(mark, now)
            return
        machine = self.machines[shared]
        if isinstance(machine, Accumulator):
            machine.ask(mark, self.amount[mark])
        else:
            machine.dequeue(mark, self.amount[mark], self.reserve[mark])
        self.touched.append(shared)
        if not self.held[client]:
            self.held_ns[client] = now
        self.held[client] += 1

    def _let_go(self, now: Nanos) -> None:
        """Whoever accumulators and queues have enough for goes on."""
        for shared in sorted(set(self.touched)):
            machine = self.machines[shared]
            if isinstance(machine, Accumulator):
                count = machine.count
                while (mark := machine.admitted()) >= 0:
                    client = self.client[self.op[mark]]
                    self.took[client] += 1
                    self.taken[client] += count
                    self.taken_examples[client] += self.gathered[shared]
                    self.gathered[shared] = count = 0
                    self._release(mark, now)
            else:
                for mark, token in machine.admitted():
                    client = self.client[self.op[mark]]
                    if token < 0:
                        self._added(client, now)
                    else:
                        self.local_step[client] = token
                        self._release(mark, now)
        self.touched.clear()

    def _added(self, client: int, now: Nanos) -> None:
        self.adding[client] -= 1
        if self.at_end[client] and not self.adding[client]:
            self.at_end[client] = False
            self._end(client, now)

    def _release(self, mark: int, now: Nanos) -> None:
        """A gate lets go."""
        client = self.client[self.op[mark]]
        self.held[client] -= 1
        if not self.held[client]:
            self.waited[client] += now - self.held_ns[client]
        self._go_on(mark, now)

    def _go_on(self, mark: int, now: Nanos) -> None:
        op = self.op[mark]
        self.state.instant[op], self.state.waits[op] = self.at_ready[mark], 1
        self.going_on[mark] = True
        self._push(now, len(self.crew) + mark)

    def _count(self, client: int, now: Nanos) -> None:
        """The client counts an update."""
        staleness = self.global_step - self.base[client] - self.own[client]
        self.own[client] += 1
        self.global_step += 1
        gradients, examples = 1, self.examples[client]
        if self.took[client]:
            gradients = self.taken[client] // self.took[client]
            examples = self.taken_examples[client] // self.took[client]
        self.ledger.updates.append((now, client, staleness, gradients, examples))
        self.ledger.reached.append(self.global_step)
        self.over |= self.global_step >= self.crew.limit

    def _end(self, client: int, now: Nanos) -> None:
        """A step is over; the next may follow."""
        if self.counts[client]:
            self._count(client, now)
        self.ledger.steps.append((client, self.number[client], self.begin_ns[client], now, self.waited[client]))
        self.running[client] = False
        self.begin_ns[client] = now + self.gap_ns[client]
        for other in self.clocks.tick(client):
            self._schedule(other, max(now, self.begin_ns[other]))
        if self.clocks.may(client):
            self._schedule(client, self.begin_ns[client])

    def deadlock(self) -> DeadlockError:
        """The error for a run in which nothing can happen any more."""
        waiting: dict[str, list[str]] = {}
        for mark, op in enumerate(self.op):
            client = self.client[op]
            if self.kind[mark] in (TAKE, DEQUEUE) and self.running[client] and self.held[client]:
                waiting.setdefault(self.crew.names[client], []).append(self._holds(self.shared[mark]))
        stuck = "; ".join(f"{name} waits for {some(objects)}" for name, objects in list(waiting.items())[:5])
        return DeadlockError(
            f"After {self.global_step} of {self.crew.limit} updates nothing can happen any more: {stuck}.",
            waiting=waiting,
        )

    def _holds(self, shared: int) -> str:
        machine, name = self.machines[shared], self.crew.shared.names[shared]
        if isinstance(machine, Accumulator):
            return f"{name}, which has {counted(machine.count, 'gradient')}"
        return f"{name}, which has {counted(machine.size, 'token')}"
