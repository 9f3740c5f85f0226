"""Reference for `training.control.synchronisation`: conditional accumulators, queues of tokens, bounded clocks.

Resources are asked by number, an op or a client, and answer with the numbers that may go on, first come, first served.
The numbers mean nothing here. No resource knows of time, so that each can stand beside TensorFlow's own ops.
"""

from __future__ import annotations

from collections import deque


class Accumulator:
    """TensorFlow's ConditionalAccumulator, without the gradients (kernels/conditional_accumulator_base.cc).

    Its own step begins at 0 and is that of the update for which it gathers; a gradient of an earlier one is dropped.
    """

    def __init__(self) -> None:
        self.step = 0
        self.count = 0  # gradients since the last take
        self.dropped = 0
        self.takers: deque[tuple[int, int]] = deque()  # (who, gradients that it needs)

    def apply(self, local_step: int) -> bool:
        """Take a gradient in that was computed for `local_step`, which may lie ahead; whether it was not too late."""
        if local_step < self.step:
            self.dropped += 1
            return False
        self.count += 1
        return True

    def ask(self, who: int, gradients: int) -> None:
        """`who` waits for that many gradients, one or more, behind all that wait already."""
        self.takers.append((who, gradients))

    def admitted(self) -> int:
        """Who takes all gradients that there are now, -1: nobody. Ask again until then, as a take empties it."""
        if not self.takers or self.count < self.takers[0][1]:
            return -1
        self.count = 0
        self.step += 1
        return self.takers.popleft()[0]

    def set_step(self, step: int) -> None:
        """Gather for another update, even for an earlier one; what was gathered stays."""
        self.step = step

    def cancel(self, who: int) -> None:
        """`who` waits no longer."""
        self.takers = deque(taker for taker in self.takers if taker[0] != who)


class TokenQueue:
    """TensorFlow's FIFOQueue of steps (kernels/fifo_queue.cc, queue_base.cc); `capacity` -1: without bound.

    Whoever adds or takes several does so as far as there is room or tokens, and waits with the rest at the head of the
    others. Equal tokens that were added together are kept as one run.
    """

    def __init__(self, capacity: int = -1) -> None:
        self.capacity = capacity
        self.size = 0
        self.runs: deque[list[int]] = deque()  # [token, how often], none of them empty
        self.adders: deque[list[int]] = deque()  # [who, token, how many are still to be added]
        self.takers: deque[list[int]] = deque()  # [who, how many it still waits for, how many must remain]

    def enqueue(self, who: int, token: int, count: int) -> None:
        """`who` adds that many equal tokens, behind all that wait for room; none are added at once."""
        self.adders.append([who, token, count])

    def dequeue(self, who: int, count: int, reserve: int = 0) -> None:
        """`who` asks for that many, behind all that wait for tokens; `reserve` (min_after_dequeue) must remain."""
        self.takers.append([who, count, reserve])

    def admitted(self) -> list[tuple[int, int]]:
        """(who, last token that it took, -1: it added) of those that have all they asked for now, in that order."""
        done: list[tuple[int, int]] = []
        while self._add(done) | self._take(done):
            pass
        return done

    def cancel(self, who: int) -> None:
        """`who` waits no longer; what it has added stays, what it has taken is lost."""
        self.adders = deque(adder for adder in self.adders if adder[0] != who)
        self.takers = deque(taker for taker in self.takers if taker[0] != who)

    def clear(self) -> None:
        """Lose all tokens."""
        self.runs.clear()
        self.size = 0

    def _add(self, done: list[tuple[int, int]]) -> bool:
        moved = False
        while self.adders:
            who, token, count = self.adders[0]
            fits = count if self.capacity < 0 else min(count, self.capacity - self.size)
            if fits:
                self.runs.append([token, fits])
                self.size += fits
                moved = True
            if fits < count:
                self.adders[0][2] = count - fits
                break
            self.adders.popleft()
            done.append((who, -1))
        return moved

    def _take(self, done: list[tuple[int, int]]) -> bool:
        moved = False
        while self.takers:
            who, wanted, reserve = self.takers[0]
            taken, token = 0, -1
            while taken < wanted and self.size > reserve:
                token, there = self.runs[0]
                some = min(wanted - taken, there, self.size - reserve)
                taken, self.size, self.runs[0][1] = taken + some, self.size - some, there - some
                if some == there:
                    self.runs.popleft()
            moved |= taken > 0
            if taken < wanted:
                self.takers[0][1] -= taken
                break
            self.takers.popleft()
            done.append((who, token))
        return moved


class Clocks:
    """Stale synchronous parallel: nobody begins a step whose clock is more than `bound` ahead of the slowest clock.

    Source: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server", NIPS 2013. A
    clock counts the steps that its client has finished. A bound of -1: there is none.
    """

    def __init__(self, clocked: list[bool], bound: int) -> None:
        self.bound = bound
        self.clocked = clocked
        self.clock = [0] * len(clocked)
        self.waiting: deque[int] = deque()
        self.slowest = 0
        self.at_slowest = sum(clocked)

    def may(self, client: int) -> bool:
        """Whether it may begin its next step; if not, it waits."""
        if self.bound < 0 or not self.clocked[client] or self.clock[client] <= self.slowest + self.bound:
            return True
        self.waiting.append(client)
        return False

    def tick(self, client: int) -> list[int]:
        """It has finished a step: who of those that waited may begin theirs now, in the order in which they asked."""
        if not self.clocked[client]:
            return []
        self.clock[client] += 1
        if self.clock[client] - 1 > self.slowest:
            return []
        self.at_slowest -= 1
        if self.at_slowest:
            return []
        of_all = [clock for clock, counts in zip(self.clock, self.clocked, strict=True) if counts]
        self.slowest = min(of_all)
        self.at_slowest = of_all.count(self.slowest)
        waiting, self.waiting = self.waiting, deque()
        return [one for one in waiting if self.may(one)]
