"""Inputs that run dry: closed forms, and a second implementation by SimPy's processes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.columns import ids, ints
from simulator.execution.options import SimulationOptions
from simulator.training.clients import CombinedTables
from simulator.training.control.arrays import Inputs
from simulator.training.control.layout import as_lists, begun, lower_clients
from simulator.training.control.synchronisation import (
    begin_inputs,
    deliver,
    release,
    request,
    restart_inputs,
    take_input,
)
from simulator.training.control.workload import Workload
from simulator.training.recognition.sync_ops import DEQUEUE, ENQUEUE
from tests.execution.cases import apart
from tests.training.workloads import chain, pushing, updating, workload


def source(
    *, threads: int = 1, period_ns: int, item: int = 1, capacity: int = -1, reserve: int = 0, start_ns: int = 0
) -> Inputs:
    """One input, on the first task."""
    columns = (ints([period_ns]), ints([item]), ints([capacity]), ints([reserve]))
    places = ids([0, max(0, capacity)])
    return Inputs(ids([0, threads]), *columns, ids([0]), ids([0]), ints([start_ns]), places)


class Feeders:
    """The inputs of a run, as the controller has them over lists."""

    def __init__(self, made: tuple[Workload, CombinedTables]) -> None:
        together, combined = made
        given = lower_clients(combined, None, SimulationOptions(order="fifo", contention="serial"))
        self.control = as_lists(begun(together, given, record=0)).control
        begin_inputs(self.control)

    def take(self, source: int, client: int, count: int, now: int) -> int:
        """When a client that asks now for so many elements has them."""
        found: int = take_input(self.control, source, client, count, now)
        return found

    def restart(self, task: int, back_ns: int) -> None:
        """A task dies and is back then."""
        restart_inputs(self.control, task, back_ns)

    @property
    def waited_ns(self) -> Sequence[int]:
        """[C] in a step."""
        return list(self.control.input_state.waited_ns)

    @property
    def for_ns(self) -> Sequence[int]:
        """[I] for which each input was waited for."""
        return list(self.control.input_state.for_ns)


def fed(inputs: Inputs, clients: int = 1) -> tuple[Workload, CombinedTables]:
    """Clients that have these inputs."""
    on = apart(1)
    made, combined = workload([chain(on, f"worker:{k}", [(0, 10)]) for k in range(clients)], on, steps=1)
    return replace(made, inputs=inputs), combined


class _World:
    """Threads, a queue and those who take from it, as processes: every element by itself."""

    def __init__(self, threads: int, period_ns: int, item: int, capacity: int, reserve: int) -> None:
        self.env = simpy.Environment()
        self.room, self.reserve = capacity if capacity >= 0 else 10**9, reserve
        self.there = 0
        self.adding, self.taking = simpy.Resource(self.env), simpy.Resource(self.env)
        self.changed: list[simpy.Event] = []
        for _ in range(threads):
            self.env.process(self._thread(period_ns, item))

    def _wait(self) -> simpy.Event:
        event = self.env.event()
        self.changed.append(event)
        return event

    def _change(self, by: int) -> None:
        self.there += by
        waiting, self.changed = self.changed, []
        for event in waiting:
            event.succeed()

    def _thread(self, period_ns: int, item: int) -> Generator[simpy.Event, Any, None]:
        while True:
            yield self.env.timeout(period_ns)
            with self.adding.request() as turn:
                yield turn
                for _ in range(item):
                    while self.there >= self.room:
                        yield self._wait()
                    self._change(1)

    def take(self, count: int) -> Generator[simpy.Event, Any, int]:
        """Take elements one by one; when all are there."""
        with self.taking.request() as turn:
            yield turn
            for _ in range(count):
                while self.there <= self.reserve:
                    yield self._wait()
                self._change(-1)
        return int(self.env.now)


def simulated(asks: Sequence[tuple[int, int]], world: _World) -> list[int]:
    """When each of those who ask (how long after the one before, for how many) has its elements."""
    found: list[int] = [0] * len(asks)

    def one(row: int, count: int) -> Generator[simpy.Event, Any, None]:
        found[row] = yield from world.take(count)

    def all_of_them() -> Generator[simpy.Event, Any, None]:
        takers = []
        for row, (pause, count) in enumerate(asks):
            yield world.env.timeout(pause)
            takers.append(world.env.process(one(row, count)))
        yield world.env.all_of(takers)

    world.env.run(until=world.env.process(all_of_them()))
    return found


@settings(max_examples=120, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 50),
    st.integers(1, 4),
    st.one_of(st.just(-1), st.integers(1, 6)),
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(0, 120), st.integers(1, 5)), min_size=1, max_size=12),
)
def test_whoever_takes_has_its_elements_when_simpy_says(
    threads: int, period_ns: int, item: int, capacity: int, reserve: int, asks: list[tuple[int, int]]
) -> None:
    """Threads that block on a full queue, items that enter in parts, takers that wait for one another."""
    reserve = min(reserve, capacity - 1) if capacity >= 0 else reserve
    made = fed(source(threads=threads, period_ns=period_ns, item=item, capacity=capacity, reserve=reserve))
    feeders, now, ours = Feeders(made), 0, []
    for pause, count in asks:
        now += pause
        ours.append(feeders.take(0, 0, count, now))
    assert ours == simulated(asks, _World(threads, period_ns, item, capacity, reserve))


@settings(max_examples=35)
@given(st.integers(1, 4), st.integers(1, 1000), st.integers(1, 8), st.integers(1, 1000), st.integers(0, 8))
def test_the_rate_is_that_of_the_slower(threads: int, period_ns: int, batch: int, step_ns: int, more: int) -> None:
    """Of a consumer that works after it has its batch; the queue has room for a batch and what threads hold."""
    made = fed(source(threads=threads, period_ns=period_ns, capacity=batch + threads + more))
    feeders, now, ends = Feeders(made), 0, []
    for _ in range(400):
        now = feeders.take(0, 0, batch, now) + step_ns
        ends.append(now)
    each = (ends[-1] - ends[199]) / 200
    slower = max(step_ns, batch * period_ns / threads)
    assert slower <= each + period_ns / 200 + 1e-9
    assert each <= slower * 1.02 + period_ns / 100


def test_time_that_two_ops_of_a_step_wait_at_once_counts_once() -> None:
    """Elements come every 100 ns; of two that ask at 10 the second waits longer, and the step 190 in all."""
    feeders = Feeders(fed(source(period_ns=100)))
    assert [feeders.take(0, 0, 1, 10), feeders.take(0, 0, 1, 10)] == [100, 200]
    assert (feeders.waited_ns, feeders.for_ns) == ([190], [90 + 190])


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=12))
def test_a_moment_counts_for_an_input_or_for_tokens(asks: list[tuple[int, bool]]) -> None:
    """What waited for both counted twice, so that a step's parts were longer than the step."""
    on = apart(2)
    pair = [pushing(on, "worker:0", [(1, 5)], task=1), updating(on, aggregate=1, handed=1)]
    together, combined = workload(pair, on, steps=1)
    feeders = Feeders((replace(together, inputs=source(period_ns=40)), combined))
    control, kinds = feeders.control, together.sync_ops.kind.tolist()
    dequeue, enqueue = kinds.index(DEQUEUE), kinds.index(ENQUEUE)
    now, blocked, since = 0, set[int](), -1
    dry = set[int]()
    for pause, asks_input in [*asks, (7, False), (500, False)]:
        now += pause
        if asks_input:
            dry |= set(range(now, feeders.take(0, 0, 1, now)))
        elif since < 0:
            request(control, dequeue, now)
            since = now
        else:
            deliver(control, enqueue)
            assert release(control, now) == 2
            blocked |= set(range(since, now))
            since = -1
    if since >= 0:
        deliver(control, enqueue)
        release(control, now)
        blocked |= set(range(since, now))
    assert control.sync.waited_ns[0] == len(blocked - dry)
    assert feeders.waited_ns[0] == len(dry)


def test_after_a_crash_threads_begin_anew_with_an_empty_queue() -> None:
    feeders = Feeders(fed(source(period_ns=100, capacity=4)))
    assert feeders.take(0, 0, 1, 1000) == 1000  # four were there
    feeders.restart(0, 2000)
    assert feeders.take(0, 0, 1, 1100) == 2100
    feeders.restart(1, 9000)  # another task
    assert feeders.take(0, 0, 1, 2300) == 2300
