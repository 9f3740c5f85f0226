"""A second implementation of the engine's semantics, by SimPy's processes and resources, from the graph's own words.

It reads names and inputs, not tables, and knows nothing of the engine: a lane is a Resource of its device, a link a
Resource of one, and whoever asks first is served first. Tasks of no length are left to the engine's own tests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import simpy

from simulator.cluster.cluster import Cluster
from simulator.costs.table import CostTable
from simulator.graph.graph import Graph

SETTLE = 9  # a SimPy priority: after everything else that happens at an instant
INSTANT = ("Placeholder", "Const", "NoOp")


def simulate(graph: Graph, on: Cluster, priced: CostTable, rows: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Start and end of every node; all nodes run, placeholders are fed."""
    return _Run(graph, on, priced, rows).times


class _Run:
    def __init__(self, graph: Graph, on: Cluster, priced: CostTable, rows: Sequence[int]) -> None:
        self.graph, self.on, self.rows = graph, on, rows
        self.run_ns = [int(priced.run_ns[i, on.kind_of[rows[i]]]) for i in range(len(graph))]
        self.env = simpy.Environment()
        self.lanes = [simpy.Resource(self.env, device.lanes) for device in on.devices]
        self.links = [simpy.Resource(self.env, 1) for _ in on.links]
        self.times: dict[str, tuple[int, int]] = {}
        self.readers: dict[str, list[int]] = defaultdict(list)  # "a:0" or "^a" -> nodes
        self.missing = [self._needs(i) for i in range(len(graph))]
        self.ready = [i for i in range(len(graph)) if not self.missing[i]]
        self.crossing: list[tuple[int, int, int, str]] = []
        self.settling = False
        self._settle_soon()
        self.env.run()

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
        self.settling = False
        queued = []
        while self.ready:
            node = self.ready.pop()
            if self.graph.ops[node] in INSTANT:
                self.times[self.graph.names[node]] = (self.env.now, self.env.now)
                self._done(node)
            else:
                queued.append(node)
        for _node, _port, target, value in sorted(self.crossing):
            self.env.process(self._transfer(value, _node, target))
        self.crossing = []
        for node in sorted(queued):
            self.env.process(self._op(node))

    def _op(self, node: int) -> Iterator[simpy.Event]:
        with self.lanes[self.rows[node]].request() as lane:
            yield lane
            start = self.env.now
            yield self.env.timeout(self.run_ns[node])
            self.times[self.graph.names[node]] = (start, self.env.now)
            self._done(node)

    def _done(self, node: int) -> None:
        name, here = self.graph.names[node], self.rows[node]
        first = int(self.graph.tensor_ptr[node])
        ports = range(int(self.graph.tensor_ptr[node + 1]) - first)
        for port, value in [(port, f"{name}:{port}") for port in ports] + [(99, "^" + name)]:
            for target in sorted({self.rows[reader] for reader in self.readers[value]}):
                if target == here:
                    self._arrive(value, target)
                else:
                    self.crossing.append((node, port, target, value))
        self._settle_soon()

    def _transfer(self, value: str, node: int, target: int) -> Iterator[simpy.Event]:
        here = self.rows[node]
        nbytes = 0
        if value[0] != "^":
            port = int(value.rpartition(":")[2])
            nbytes = max(int(self.graph.tensor_bytes[self.graph.tensor_ptr[node] + port]), 0)
        held = [(self.links[link], self.links[link].request()) for link in self.on.routes[here][target]]
        yield self.env.all_of([request for _, request in held])
        yield self.env.timeout(self.on.transfer_ns(here, target, nbytes))
        for link, request in held:
            link.release(request)
        self._arrive(value, target)
        self._settle_soon()

    def _arrive(self, value: str, target: int) -> None:
        for reader in self.readers[value]:
            if self.rows[reader] == target:
                merge = self.graph.ops[reader] == "Merge" and value[0] != "^"
                needed = "any" if merge else value
                if needed in self.missing[reader]:
                    self.missing[reader].discard(needed)
                    if not self.missing[reader]:
                        self.ready.append(reader)
