"""The accumulators and queues of a crew, and who of it waits in their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.training.crew.combining import DRAW
from simulator.training.crew.synchronising import DEQUEUE, ENQUEUE, TAKE, Accumulator, TokenQueue
from simulator.wording import counted

if TYPE_CHECKING:
    from simulator.training.crew.combining import Crew
    from simulator.units import Nanos

GATES = (TAKE, DEQUEUE)


class Gates:
    """Axes: C clients, M marked ops, H shared objects."""

    def __init__(self, crew: Crew, client: list[int]) -> None:
        """`client` is that of each marked op."""
        self.client = client  # [M]
        self.kind: list[int] = crew.marks.kind.tolist()  # [M]
        self.chiefs = {one for one, kind in zip(client, self.kind, strict=True) if kind == TAKE}  # they make updates
        self.shared: list[int] = crew.marks.shared.tolist()
        self.amount: list[int] = crew.marks.amount.tolist()
        self.reserve: list[int] = crew.marks.reserve.tolist()
        self.names = crew.shared.names
        self.machines: list[Accumulator | TokenQueue] = [
            TokenQueue(capacity) if queue else Accumulator()
            for queue, capacity in zip(crew.shared.queue.tolist(), crew.shared.capacity.tolist(), strict=True)
        ]
        self.task: list[int] = crew.shared.task.tolist()  # [H]
        self.tokens: list[int] = crew.shared.tokens.tolist()  # [H] at first
        self.gathered = [0] * len(self.machines)  # [H] examples behind an accumulator's gradients
        self.touched: list[int] = []  # in this round
        self.examples: list[int] = crew.examples.tolist()
        nothing = [0] * len(crew)
        self.local_step = list(nothing)  # [C] that of its last token
        self.takes, self.gradients, self.taken_examples = list(nothing), list(nothing), list(nothing)  # [C] in its step
        self.adding = list(nothing)  # [C] its enqueues that wait for room
        self.held, self.held_ns = list(nothing), list(nothing)  # [C] its gates that wait, since when
        self.waited_ns = list(nothing)  # [C] in its step
        self.dropped = 0
        self.initialise(0)

    def initialise(self, global_step: int) -> None:
        """A chief's session makes all ready: accumulators gather for that step, queues get their first tokens.

        A new session does so again, whatever is there: an update that the one before had under way is lost, with the
        tokens that it owed. Source: `_SyncReplicasOptimizerHook.after_create_session`
        (tensorflow/python/training/sync_replicas_optimizer.py).
        """
        for shared, machine in enumerate(self.machines):
            if isinstance(machine, Accumulator):
                machine.set_step(global_step)
            elif self.tokens[shared]:
                machine.enqueue(-1, global_step, self.tokens[shared])
                self.touched.append(shared)

    def begin(self, client: int) -> None:
        """Its step begins."""
        self.takes[client] = self.gradients[client] = self.taken_examples[client] = self.waited_ns[client] = 0

    def act(self, mark: int, global_step: int) -> None:
        """An op that is no gate has ended."""
        client, shared = self.client[mark], self.shared[mark]
        machine = self.machines[shared]
        if isinstance(machine, Accumulator):
            if machine.apply(self.local_step[client]):
                self.gathered[shared] += self.examples[client]
            else:
                self.dropped += 1
        else:
            machine.enqueue(mark, global_step, self.amount[mark])
            self.adding[client] += 1
        self.touched.append(shared)

    def ask(self, mark: int, now: Nanos) -> None:
        """A gate is ready: it waits in line."""
        client, machine = self.client[mark], self.machines[self.shared[mark]]
        if isinstance(machine, Accumulator):
            machine.ask(mark, self.amount[mark])
        else:
            machine.dequeue(mark, self.amount[mark], self.reserve[mark])
        self.touched.append(self.shared[mark])
        if not self.held[client]:
            self.held_ns[client] = now
        self.held[client] += 1

    def let_go(self, now: Nanos) -> list[int]:
        """The marked ops that wait no longer: gates that pass, enqueues of which all tokens are in."""
        found: list[int] = []
        for shared in sorted(set(self.touched)):
            machine = self.machines[shared]
            if isinstance(machine, Accumulator):
                count = machine.count
                while (mark := machine.admitted()) >= 0:
                    self._take(mark, count)
                    found.append(mark)
                    count = 0
            else:
                for mark, token in machine.admitted():
                    if token >= 0:
                        self.local_step[self.client[mark]] = token
                    if mark >= 0:  # not of the first tokens
                        found.append(mark)
        self.touched.clear()
        for mark in found:
            client = self.client[mark]
            if self.kind[mark] == ENQUEUE:
                self.adding[client] -= 1
                continue
            self.held[client] -= 1
            if not self.held[client]:
                self.waited_ns[client] += now - self.held_ns[client]
        return found

    def _take(self, mark: int, count: int) -> None:
        client, shared = self.client[mark], self.shared[mark]
        self.takes[client] += 1
        self.gradients[client] += count
        self.taken_examples[client] += self.gathered[shared]
        self.gathered[shared] = 0

    def forget(self, client: int, marks: list[int]) -> None:
        """Its step was cut short: its marked ops wait no longer."""
        for mark in marks:
            if self.shared[mark] >= 0 and self.kind[mark] != DRAW:
                self.machines[self.shared[mark]].forget(mark)
        self.held[client] = self.adding[client] = 0

    def restore(self, task: int, global_step: int) -> None:
        """A task is gone with what its objects hold; accumulators gather for the step to which all falls back."""
        for shared, machine in enumerate(self.machines):
            if isinstance(machine, Accumulator):
                machine.set_step(global_step)
                if self.task[shared] == task:
                    machine.count = self.gathered[shared] = 0
            elif self.task[shared] == task:
                machine.clear()

    def applied(self, client: int) -> tuple[int, int]:
        """Gradients and examples behind an update: its own, or the mean over what its step took."""
        if not self.takes[client]:
            return 1, self.examples[client]
        return self.gradients[client] // self.takes[client], self.taken_examples[client] // self.takes[client]

    def waiting(self) -> dict[int, list[str]]:
        """What each client waits for, and what that holds."""
        found: dict[int, list[str]] = {}
        for shared, machine in enumerate(self.machines):
            marks = [taker[0] for taker in machine.takers]
            what = counted(machine.count, "gradient") if isinstance(machine, Accumulator) else ""
            if isinstance(machine, TokenQueue):
                marks += [adder[0] for adder in machine.adders if adder[0] >= 0]
                what = counted(machine.size, "token")
            for mark in marks:
                needs = f"{self.amount[mark]:,} of the {self.names[shared]}, which has {what}"
                found.setdefault(self.client[mark], []).append(needs)
        return found
