"""A second implementation of the engine's semantics, by SimPy's processes and resources, from the graph's own words.

It reads names and inputs, not tables, and knows nothing of the engine: a lane is a place in the resource of its device,
a link that transfers hold in turn is a resource of one, and whoever asks first is served first; who is served asks for
the next link of its route; on links that are
shared fairly each transfer counts down what it still has to carry. What happens at one instant is collected and settled
after everything else of it. Tasks of no length are left to the engine's own tests.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import simpy
from simpy.events import EventPriority
from simpy.resources.resource import PriorityRequest, Request

from simulator.cluster.cluster import Cluster, Link
from simulator.cluster.protocols import Protocol
from simulator.costs.table import CostTable
from simulator.graph import ops
from simulator.graph.graph import Graph

SETTLE = EventPriority(9)  # a SimPy priority: after everything else that happens at an instant
INSTANT = ("Placeholder", "Const", "NoOp")
OP, PACK, UNPACK = 0, 1, 2  # what takes a lane, in the order in which it is served where it asks at the same time

Process: TypeAlias = Generator[simpy.Event, Any, None]  # Any: what an event tells
Span = tuple[int, int]
Sent = tuple[int, int, int]  # on the wire, off it, and in its readers' hands
Holds = list[tuple[int, int]]  # the links that a transfer holds, in turn, and when each began


class Crossing(NamedTuple):
    """A value that goes to a device; those of one instant are served in this order."""

    node: int
    port: int
    target: int
    host: bool  # into host memory
    value: str  # "a:0", or "^a" where only its end is waited for


class Simulated(NamedTuple):
    """Start and end of every node, and of transfers, by value, target and whether it is read in host memory."""

    times: dict[str, Span]
    sent: dict[tuple[str, int, bool], Sent]
    holds: dict[tuple[str, int, bool], Holds]


class _Job(NamedTuple):
    """What takes a lane."""

    where: int
    urgency: tuple[int | str, ...]  # smaller first
    ns: int
    then: Callable[[int], None]  # told when it began


def simulate(
    graph: Graph,
    on: Cluster,
    priced: CostTable,
    rows: Sequence[int],
    *,
    contention: str = "serial",
    priority: Sequence[int] | None = None,
) -> Simulated:
    """Run the step. All nodes run, placeholders are fed."""
    run = _Run(graph, on, priced, rows, contention, priority)
    run.env.run()
    return Simulated(run.times, run.sent, {(one.value, one.target, one.host): held for one, held in run.began.items()})


class _Run:
    def __init__(
        self,
        graph: Graph,
        on: Cluster,
        priced: CostTable,
        rows: Sequence[int],
        contention: str,
        priority: Sequence[int] | None,
    ) -> None:
        self.graph, self.on, self.rows, self.priority = graph, on, rows, priority
        self.run_ns = [int(priced.run_ns[i, on.kind_of[rows[i]]]) for i in range(len(graph))]
        self.env = simpy.Environment()
        self.lanes = [simpy.PriorityResource(self.env, device.lanes) for device in on.devices]
        self.contention = [link.contention or contention for link in on.links]
        self.links = {row: simpy.Resource(self.env, 1) for row, how in enumerate(self.contention) if how == "serial"}
        self.flows = Flows(self.env, on, self.contention)
        self.times: dict[str, Span] = {}
        self.sent: dict[tuple[str, int, bool], Sent] = {}
        self.readers: dict[str, list[int]] = defaultdict(list)  # of values
        self.missing = [self._needs(i) for i in range(len(graph))]
        self.ready = [i for i in range(len(graph)) if not self.missing[i]]
        self.asking: list[Crossing] = []
        self.leaving: list[Crossing] = []  # for the wire
        self.going_on: list[Crossing] = []  # there, to the next link
        self.began: dict[Crossing, Holds] = {}
        self.passing: dict[Crossing, list[simpy.Process]] = {}  # a process for each link that it has begun
        self.working: list[tuple[int, Crossing]] = []  # PACK or UNPACK
        self.over: list[tuple[simpy.PriorityResource, PriorityRequest]] = []  # lanes to be given back
        self.settling = False
        self._settle_soon()

    @property
    def _now(self) -> int:
        return int(self.env.now)  # SimPy's own type allows fractions

    def _needs(self, node: int) -> set[str]:
        if self.graph.ops[node] == "Placeholder":
            return set()
        needs = {name if name[0] == "^" or ":" in name else name + ":0" for name in self.graph.inputs_of(node)}
        for name in sorted(needs):
            self.readers[name].append(node)
        if self.graph.ops[node] == "Merge":
            needs = {name for name in needs if name[0] == "^"} | {"any"}
        return needs

    def _settle_soon(self) -> None:
        if not self.settling:
            self.settling = True
            event = self.env.event()
            event._ok, event._value = True, None
            event.callbacks.append(self._settle)
            self.env.schedule(event, priority=SETTLE)

    def _settle(self, _: simpy.Event) -> None:
        jobs: list[_Job] = []
        while self.ready:
            node = self.ready.pop()
            if self.graph.ops[node] in INSTANT:
                self.times[self.graph.names[node]] = (self._now, self._now)
                self._done(node)
            else:
                jobs.append(self._op(node))
        for crossing in sorted(self.asking):
            if self._work_ns(PACK, crossing):
                self.working.append((PACK, crossing))
            else:
                self.leaving.append(crossing)
        going_on, self.going_on = self.going_on, []  # those that get a link now join the next one in another round
        for crossing in sorted(crossing for crossing in going_on if not self._nbytes(crossing)):
            self._go_on(crossing)  # it may have begun before others that go on
        on_the_wire = [(crossing, self._go_on) for crossing in going_on if self._nbytes(crossing)]
        for crossing, moves in sorted([*on_the_wire, *((crossing, self._leave) for crossing in self.leaving)]):
            moves(crossing)
        jobs += [self._work(kind, crossing) for kind, crossing in self.working]
        for job in sorted(jobs, key=lambda job: job.urgency):
            self.env.process(self._hold(job, self.lanes[job.where].request(self._rank(job))))
        for lane, request in self.over:  # after all that ask, among whom the most urgent is to get it
            lane.release(request)
        self.asking, self.leaving, self.working, self.over = [], [], [], []
        self.flows.settle()
        self.settling = False
        if self.going_on:
            self._settle_soon()

    def _op(self, node: int) -> _Job:
        urgency = (OP, node) if self.priority is None else (OP, self.priority[node], node)
        return _Job(self.rows[node], urgency, self.run_ns[node], lambda start: self._ended(node, start))

    def _work(self, kind: int, crossing: Crossing) -> _Job:
        """What the processor at one end has to do for a transfer: with priorities, before all ops."""
        where = int(self.on.home[self.rows[crossing.node] if kind == PACK else crossing.target])
        if kind == PACK and self._dispatch_ns(crossing):
            where = self.rows[crossing.node]  # the host of a GPU dispatches a copy as an op
        urgency = (kind, *crossing) if self.priority is None else (kind - UNPACK - 1, *crossing)

        def then(_: int) -> None:
            if kind == PACK:
                self.leaving.append(crossing)
            else:
                self._delivered(crossing)

        return _Job(where, urgency, self._work_ns(kind, crossing), then)

    def _rank(self, job: _Job) -> Any:  # SimPy compares whatever it is given
        return () if self.priority is None else job.urgency

    def _hold(self, job: _Job, request: PriorityRequest) -> Process:
        """Wait for a lane, keep it as long as the job takes."""
        yield request
        start = self._now
        yield self.env.timeout(job.ns)
        self.over.append((self.lanes[job.where], request))
        job.then(start)
        self._settle_soon()

    def _ended(self, node: int, start: int) -> None:
        self.times[self.graph.names[node]] = (start, self._now)
        self._done(node)

    def _done(self, node: int) -> None:
        name, here = self.graph.names[node], self.rows[node]
        ports = range(int(self.graph.tensor_ptr[node + 1] - self.graph.tensor_ptr[node]))
        for port, value in [(port, f"{name}:{port}") for port in ports] + [(99, "^" + name)]:
            for target, host in sorted(
                {(self.rows[reader], self._host(reader, value)) for reader in self.readers[value]}
            ):
                crossing = Crossing(node, port, target, host, value)
                if target == here and not self._copied(crossing):
                    self._arrive(crossing)
                elif self._now < self.on.protocol(here, target).request_ns:
                    self.env.process(self._requested(crossing))
                else:
                    self.asking.append(crossing)
        self._settle_soon()

    def _requested(self, crossing: Crossing) -> Process:
        """The value is there, but the sender does not yet know who wants it; Recvs are posted when the step begins."""
        yield self.env.timeout(self._protocol(crossing).request_ns - self._now)
        self.asking.append(crossing)
        self._settle_soon()

    def _leave(self, crossing: Crossing) -> None:
        """It goes to the wire."""
        self.began[crossing] = []
        if self._nbytes(crossing) > 0 and any(self.contention[row] == "fair" for row in self._rows(crossing)):
            self.env.process(self._flow(crossing))
        else:
            self._go_on(crossing)

    def _go_on(self, crossing: Crossing) -> None:
        """Ask for the next link, or arrive."""
        serial = [row for row in self._rows(crossing) if row in self.links]
        if len(self.began[crossing]) < len(serial):
            row = serial[len(self.began[crossing])]
            request = self.links[row].request()
            if not request.triggered:
                self.env.process(self._wait(crossing, row, request))
                return
            self._hold_link(crossing, row, request)
        if len(self.began[crossing]) < len(serial):
            self.going_on.append(crossing)
            return
        start = self.began[crossing][0][1] if serial else self._now
        self.env.process(self._arrive_from(crossing, start))

    def _wait(self, crossing: Crossing, row: int, request: Request) -> Process:
        """In line for a link; those that get one at the same instant go on in order, what has no bytes first."""
        yield request
        self._hold_link(crossing, row, request)
        self.going_on.append(crossing)
        self._settle_soon()

    def _hold_link(self, crossing: Crossing, row: int, request: Request) -> None:
        self.began[crossing].append((row, self._now))
        if self._nbytes(crossing):
            self.passing.setdefault(crossing, []).append(self.env.process(self._give_back(crossing, row, request)))
        else:
            self.links[row].release(request)

    def _give_back(self, crossing: Crossing, row: int, request: Request) -> Process:
        yield self.env.timeout(self._bytes_ns(crossing, [self.on.links[row]]))
        self.links[row].release(request)

    def _arrive_from(self, crossing: Crossing, start: int) -> Process:
        """Its last link has begun: until all are through with it, those that it does not hold too; then its latency."""
        at_least = self.env.timeout(max(0, start + self._bytes_ns(crossing, self._route(crossing)) - self._now))
        yield self.env.all_of([at_least, *self.passing.get(crossing, [])])
        yield self.env.timeout(self._latency_ns(crossing))
        self._arrived(crossing, start)

    def _flow(self, crossing: Crossing) -> Process:
        start = self._now
        yield self.env.timeout(self._latency_ns(crossing))
        self._settle_soon()
        yield self.flows.join(self._rows(crossing), self._nbytes(crossing))
        self._arrived(crossing, start)

    def _arrived(self, crossing: Crossing, start: int) -> None:
        self.sent[crossing.value, crossing.target, crossing.host] = (start, self._now, -1)
        if self._work_ns(UNPACK, crossing):
            self.working.append((UNPACK, crossing))
        else:
            self._delivered(crossing)
        self._settle_soon()

    def _delivered(self, crossing: Crossing) -> None:
        key = (crossing.value, crossing.target, crossing.host)
        self.sent[key] = (*self.sent[key][:2], self._now)
        self._arrive(crossing)

    def _arrive(self, crossing: Crossing) -> None:
        for reader in self.readers[crossing.value]:
            if self.rows[reader] == crossing.target and self._host(reader, crossing.value) == crossing.host:
                merge = self.graph.ops[reader] == "Merge" and crossing.value[0] != "^"
                needed = "any" if merge else crossing.value
                if needed in self.missing[reader]:
                    self.missing[reader].discard(needed)
                    if not self.missing[reader]:
                        self.ready.append(reader)

    def _on_gpu(self, node: int) -> bool:
        return self.on.devices[self.rows[node]].type == "GPU"

    def _host(self, reader: int, value: str) -> bool:
        """Whether a node reads a value in host memory."""
        if not self._on_gpu(reader):
            return True
        given = [name if name[0] == "^" or ":" in name else name + ":0" for name in self.graph.inputs_of(reader)]
        held = ops.host_memory(self.graph.ops[reader], self.graph.attrs[reader], "GPU", self.graph.library)[0]
        return value[0] != "^" and given.index(value) in held

    def _copied(self, crossing: Crossing) -> bool:
        """Whether a value that stays on its device goes to the other memory of a GPU."""
        if crossing.value[0] == "^" or not self._on_gpu(crossing.node):
            return False
        return self._made_on_host(crossing) != crossing.host and bool(self._rows(crossing))

    def _made_on_host(self, crossing: Crossing) -> bool:
        """Whether a GPU makes the value in host memory."""
        if crossing.value[0] == "^" or not self._on_gpu(crossing.node):
            return False
        made = ops.host_memory(
            self.graph.ops[crossing.node], self.graph.attrs[crossing.node], "GPU", self.graph.library
        )[1]
        return crossing.port in made

    def _protocol(self, crossing: Crossing) -> Protocol:
        return self.on.protocol(*self._ends(crossing))

    def _nbytes(self, crossing: Crossing) -> int:
        if crossing.value[0] == "^":
            return 0
        return max(int(self.graph.tensor_bytes[self.graph.tensor_ptr[crossing.node] + crossing.port]), 0)

    def _ends(self, crossing: Crossing) -> tuple[int, int]:
        """The devices whose memories the value is in: a GPU's host memory is that of its CPU."""
        source, target = self.rows[crossing.node], crossing.target
        made = self._host_device(source) if self._made_on_host(crossing) else source
        return made, self._host_device(target) if crossing.host else target

    def _host_device(self, device: int) -> int:
        """The CPU of a GPU with links to it and back; the device itself if it is none."""
        home, routes = int(self.on.home[device]), self.on.routes
        return home if routes[device][home] and routes[home][device] else device

    def _apart(self, crossing: Crossing) -> bool:
        """It goes to another task."""
        source, target = (self.on.devices[end].task for end in self._ends(crossing))
        return source != target

    def _dispatch_ns(self, crossing: Crossing) -> int:
        """For how long the lane of a GPU is busy with a copy that its host dispatches."""
        sender = self.on.devices[self.rows[crossing.node]]
        if not sender.chip or self._apart(crossing) or not self._rows(crossing):
            return 0
        return sender.chip.dispatch_ns

    def _copies_ns(self, crossing: Crossing) -> int:
        """Until somebody looks for the end of each copy, and the dispatches around a message."""
        chips = [chip for end in self._ends(crossing) if (chip := self.on.devices[end].chip)]
        protocol = self._protocol(crossing)
        if protocol.send_ns + protocol.send_ps_per_byte > 0:  # each copies from or to its host's memory
            return sum(10_000 + chip.dispatch_ns for chip in chips)
        dispatch = max((chip.dispatch_ns for chip in chips), default=0) if self._apart(crossing) else 0
        return dispatch + 10_000 * min(len(chips), 1)

    def _work_ns(self, kind: int, crossing: Crossing) -> int:
        if kind == PACK and (dispatch := self._dispatch_ns(crossing)):
            return dispatch
        end = self.rows[crossing.node] if kind == PACK else crossing.target
        cores = self.on.devices[int(self.on.home[end])].cores
        cores = min(cores, self._protocol(crossing).threads or cores)
        return math.ceil(Fraction(self._whole_ns(kind, crossing), cores))

    def _whole_ns(self, kind: int, crossing: Crossing) -> int:
        """The work of one core at that end."""
        protocol = self._protocol(crossing)
        fixed, each = (
            (protocol.send_ns, protocol.send_ps_per_byte)
            if kind == PACK
            else (protocol.receive_ns, protocol.receive_ps_per_byte)
        )
        return fixed + math.ceil(Fraction(self._nbytes(crossing) * each, 1000))

    def _rows(self, crossing: Crossing) -> tuple[int, ...]:
        source, target = self._ends(crossing)
        return self.on.routes[source][target] or ()

    def _route(self, crossing: Crossing) -> list[Link]:
        return [self.on.links[row] for row in self._rows(crossing)]

    def _latency_ns(self, crossing: Crossing) -> int:
        route = self._route(crossing)
        if not route:
            return self.on.handover_ns
        protocol = self._protocol(crossing)
        fixed = {PACK: protocol.send_ns, UNPACK: protocol.receive_ns}
        cores = [min(each, protocol.threads or each) for each in self._lanes_of(crossing)]
        aside = sum(fixed[kind] - math.ceil(Fraction(fixed[kind], of)) for kind, of in zip(fixed, cores, strict=True))
        wire = self._bytes_ns(crossing, route)
        streamed = max(wire, *(self._whole_ns(kind, crossing) - fixed[kind] for kind in fixed))
        in_lanes = sum(self._work_ns(kind, crossing) for kind in fixed) - self._dispatch_ns(crossing)
        beside = max(aside, sum(fixed.values()) + streamed - wire - in_lanes)
        late = protocol.latency_ns + beside + self._copies_ns(crossing) + self._staging_ns(crossing)
        return sum(link.latency_ns for link in route) + late

    def _staging_ns(self, crossing: Crossing) -> int:
        """Of the copy out, the wires and the copy in, one after the other, all but the slowest link of the way."""
        protocol, (source, target) = self._protocol(crossing), self._ends(crossing)
        if protocol.send_ns + protocol.send_ps_per_byte == 0:
            return 0
        home, devices = self.on.home.tolist(), self.on.devices
        apart = [row for row, device in enumerate(devices) if device.chip is not None and home[row] != row]
        ways = {row: (self.on.routes[row][home[row]] or (), self.on.routes[home[row]][row] or ()) for row in apart}
        copies = {link for both in ways.values() for way in both for link in way}
        own = [ways[source][0]] if source in ways else []
        own += [ways[target][1]] if target in ways else []
        rates = [min(self.on.links[link].bytes_per_s for link in way) for way in own if way]
        if not rates:
            return 0
        between = [self.on.links[link].bytes_per_s for link in self._rows(crossing) if link not in copies]
        rates += [min(between)] if between else []
        slowest = min(link.bytes_per_s for link in self._route(crossing))
        each = max(0, round(10**12 * (sum(Fraction(1, rate) for rate in rates) - Fraction(1, slowest))))
        return math.ceil(Fraction(self._nbytes(crossing) * each, 1000))

    def _lanes_of(self, crossing: Crossing) -> tuple[int, int]:
        """The cores for which the lanes at both ends stand."""
        ends = (self.rows[crossing.node], crossing.target)
        sends, receives = (self.on.devices[int(self.on.home[end])].cores for end in ends)
        return sends, receives

    def _bytes_ns(self, crossing: Crossing, links: list[Link]) -> int:
        rates = [link.bytes_per_s for link in links]
        return math.ceil(Fraction(self._nbytes(crossing) * 10**9, min(rates))) if rates else 0


class Flows:
    """Transfers that share links, each by itself: what it has left, in 10^-9 bytes, and its bytes per second."""

    def __init__(self, env: simpy.Environment, on: Cluster, contention: Sequence[str]) -> None:
        self.env, self.on, self.contention = env, on, contention
        self.route: dict[simpy.Event, tuple[int, ...]] = {}  # by the event that tells a flow's end
        self.left: dict[simpy.Event, int] = {}
        self.rate: dict[simpy.Event, int] = {}
        self.now = self.changes = self.settled = 0

    def join(self, route: tuple[int, ...], nbytes: int) -> simpy.Event:
        self._advance()
        ended = self.env.event()
        self.route[ended], self.left[ended], self.rate[ended] = route, nbytes * 10**9, 0
        self.changes += 1
        return ended

    def settle(self) -> None:
        """Share the links anew, once all that begin or end at this instant have done so."""
        if self.settled < self.changes and self.route:
            self._share()
            soonest = min(-(-left // self.rate[flow]) for flow, left in self.left.items())
            self.env.process(self._wait(soonest, self.changes))
        self.settled = self.changes

    def _wait(self, ns: int, changes: int) -> Process:
        yield self.env.timeout(ns)
        if changes < self.changes:  # another one began or ended meanwhile: that settlement waits in its own way
            return
        self._advance()
        for flow in [flow for flow, left in self.left.items() if left <= 0]:
            del self.route[flow], self.left[flow], self.rate[flow]
            self.changes += 1
            flow.succeed()

    def _advance(self) -> None:
        now = int(self.env.now)
        for flow, rate in self.rate.items():
            self.left[flow] -= rate * (now - self.now)
        self.now = now

    def _share(self) -> None:
        """Fill the links: the one with the least for each flow that has no rate yet rules them, in whole bytes."""
        self.rate = {}
        while len(self.rate) < len(self.route):
            waiting = [flow for flow in self.route if flow not in self.rate]
            offers = []
            for row, link in enumerate(self.on.links):
                mine = [flow for flow in waiting if row in self.route[flow]]
                if mine and self.contention[row] == "fair":
                    taken = sum(rate for flow, rate in self.rate.items() if row in self.route[flow])
                    offers.append(((link.bytes_per_s - taken) // len(mine), 1, row, mine))
                elif mine:  # it has this much for each
                    offers.append((link.bytes_per_s, 0, row, mine))
            rate, _, _, flows = min(offers, key=lambda offer: offer[:3])
            self.rate.update(dict.fromkeys(flows, rate))
