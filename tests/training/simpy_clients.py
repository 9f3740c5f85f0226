"""A second implementation of many clients by SimPy's processes, from the graphs' own words.

Every op of every step is a process, gradients are in a Container, tokens in a Store, links and lanes are unshared, so
that nobody waits for anything but inputs, gradients, tokens and clocks. It knows no tables and no rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import simpy

from simulator.cluster.cluster import Cluster
from tests.execution.simpy_reference import Process
from tests.training.workloads import Priced

Step = tuple[int, int, int, int]  # client, number, start, end


@dataclass
class World:
    """What the clients share."""

    env: simpy.Environment
    tokens: simpy.Store
    gradients: dict[str, simpy.Container] = field(default_factory=dict)
    gathers: dict[str, int] = field(default_factory=dict)  # the step that an accumulator gathers for
    global_step: int = 0
    steps: list[Step] = field(default_factory=list)
    updates: list[tuple[int, int, int]] = field(default_factory=list)  # time, client, staleness
    dropped: int = 0
    clock: dict[int, int] = field(default_factory=dict)
    ticked: list[simpy.Event] = field(default_factory=list)
    said: dict[int, int] = field(
        default_factory=lambda: {0: 0}
    )  # when it was known of each clock that all have come to it


def simulate(given: Sequence[Priced], on: Cluster, *, updates: int, tokens: int = 0, bound: int = -1) -> World:
    """Run until there were that many updates."""
    env = simpy.Environment()
    world = World(env, simpy.Store(env))
    world.tokens.items.extend([0] * tokens)
    enough = env.event()
    apart = any(client.program.role == "updates" for client, _ in given)
    world.clock = {c: 0 for c, (client, _) in enumerate(given) if client.program.role == "worker"}
    for c, priced in enumerate(given):
        env.process(_Client(world, c, priced, on, updates, enough, at_end=not apart).run(bound))
    env.run(until=enough)
    return world


class _Client:
    def __init__(
        self,
        world: World,
        row: int,
        priced: Priced,
        on: Cluster,
        limit: int,
        enough: simpy.Event,
        *,
        at_end: bool,
    ) -> None:
        self.world, self.row, self.on, self.limit, self.enough = world, row, on, limit, enough
        client, costs = priced
        self.graph, self.counts = client.program.graph, client.program.counts
        self.counts_at_end = at_end and not self.counts
        pieces = client.partitions
        where = {pieces.graph.names[row]: int(pieces.device[row]) for row in range(len(pieces.graph))}
        self.where = [where[name] for name in self.graph.names]
        self.run_ns = [int(costs.run_ns[row, on.kind_of[self.where[row]]]) for row in range(len(self.graph))]
        self.here = next(row for row, device in enumerate(on.devices) if device.task == client.program.task)
        self.local_step = self.base = 0

    def run(self, bound: int) -> Process:
        world, number = self.world, 0
        while True:
            while bound >= 0 and self.row in world.clock and number > min(world.clock.values()) + bound:
                event = world.env.event()
                world.ticked.append(event)
                yield event
            if bound >= 0 and self.row in world.clock:
                yield world.env.timeout(self._known(number - bound))
            start, self.base = int(world.env.now), world.global_step
            ended: dict[str, simpy.Event] = {}
            for row in self._order():
                ended[self.graph.names[row]] = world.env.process(self._op(row, dict(ended)))
            yield world.env.all_of(list(ended.values()))
            if self.counts_at_end:
                self._count()
            world.steps.append((self.row, number, start, int(world.env.now)))
            number += 1
            if self.row in world.clock:
                world.clock[self.row] += 1
                self._told()
                yield world.env.timeout(0)  # those who have waited ask first

    def _told(self) -> None:
        """Who has waited for a clock asks anew; the first device keeps the clocks."""
        world, clock = self.world, self.world.clock[self.row]
        heard = int(world.env.now) + (self.on.transfer_ns(self.here, 0, 0) if self.here else 0)
        world.said[clock] = max(heard, world.said.get(clock, 0))
        waiting, world.ticked = world.ticked, []
        for event in waiting:
            event.succeed()

    def _known(self, clock: int) -> int:
        """How long it takes until it knows that this clock is not ahead of the others."""
        if clock <= 0:
            return 0
        self.world.said[clock] += 1
        heard = self.world.said[clock] + (self.on.transfer_ns(0, self.here, 0) if self.here else 0)
        return max(0, heard - int(self.world.env.now))

    def _order(self) -> list[int]:
        """Inputs first."""
        placed: dict[str, int] = {}
        while len(placed) < len(self.graph):
            for row, name in enumerate(self.graph.names):
                if name not in placed and all(_node(one) in placed for one in self.graph.inputs_of(row)):
                    placed[name] = row
        return list(placed.values())

    def _op(self, row: int, ended: dict[str, simpy.Event]) -> Process:
        arrivals = [
            self.world.env.process(self._arrive(name, row, ended[_node(name)])) for name in self.graph.inputs_of(row)
        ]
        yield self.world.env.all_of(arrivals)
        kind, name = self.graph.ops[row], self.graph.names[row]
        if kind == "AccumulatorTakeGradient":
            yield from self._take(self.graph.inputs_of(row)[0])
        elif kind == "QueueDequeueV2":
            self.local_step = yield self.world.tokens.get()
        yield self.world.env.timeout(self.run_ns[row])
        if kind == "AccumulatorApplyGradient":
            self._apply(self.graph.inputs_of(row)[0])
        elif kind == "QueueEnqueueManyV2":
            handed = self.graph.index["dims"]
            for _ in range(int.from_bytes(self.graph.attrs[handed]["value"].tensor.tensor_content, "little")):
                self.world.tokens.put(self.world.global_step)
        elif name in self.counts:
            self._count()

    def _arrive(self, name: str, row: int, ended: simpy.Event) -> Process:
        yield ended
        source = self.graph.index[_node(name)]
        if self.where[source] != self.where[row]:
            port = 0 if ":" not in name else int(name.rpartition(":")[2])
            nbytes = 0 if name[0] == "^" else int(self.graph.tensor_bytes[self.graph.tensor_ptr[source] + port])
            yield self.world.env.timeout(self.on.transfer_ns(self.where[source], self.where[row], max(nbytes, 0)))

    def _accumulator(self, name: str) -> simpy.Container:
        self.world.gathers.setdefault(name, 0)
        return self.world.gradients.setdefault(name, simpy.Container(self.world.env))

    def _apply(self, name: str) -> None:
        gradients = self._accumulator(name)
        if self.local_step < self.world.gathers[name]:
            self.world.dropped += 1
        else:
            gradients.put(1)

    def _take(self, name: str) -> Process:
        gradients = self._accumulator(name)
        needed = self.graph.index["needed"]
        yield gradients.get(int.from_bytes(self.graph.attrs[needed]["value"].tensor.tensor_content, "little"))
        if gradients.level:
            yield gradients.get(gradients.level)
        self.world.gathers[name] += 1

    def _count(self) -> None:
        world = self.world
        world.updates.append((int(world.env.now), self.row, world.global_step - self.base))
        world.global_step += 1
        if world.global_step == self.limit:
            self.enough.succeed()


def _node(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]
