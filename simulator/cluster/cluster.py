"""The cluster: devices, the links between them, and the route of each pair.

A link is a resource in one direction (a full-duplex NIC is two links); a route is the list of links that a
transfer holds at the same time, from source to destination. The same link in several routes is how sharing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from simulator.columns import Ids, ids
from simulator.units import Bytes, Nanos

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True, slots=True)
class Device:
    """One device of one task."""

    name: str  # "/job:worker/replica:0/task:0/device:GPU:0", all five fields set
    type: str  # "CPU" or "GPU": which kernels exist
    kind: str  # the model: how fast; a column of CostTable.run_ns per kind
    memory_bytes: Bytes
    flop_per_s: int  # peak of the arithmetic that TensorFlow uses by default (float32)
    bytes_per_s: int  # bandwidth of its own memory
    launch_ns: Nanos  # from one op's end to the next op's start on a busy device
    lanes: int = 1  # ops that it runs at the same time
    host: str = ""  # machine that it stands in; tasks may share one

    @property
    def task(self) -> str:
        """ "/job:worker/replica:0/task:0": the process that owns it."""
        return self.name.rsplit("/device:", 1)[0]

    @property
    def short(self) -> str:
        """ "worker:0/GPU:1", for tables; unique within a cluster of one replica per task."""
        fields = dict(part.split(":", 1) for part in self.name.strip("/").split("/"))
        replica = "" if fields.get("replica", "0") == "0" else f".{fields['replica']}"
        return f"{fields['job']}{replica}:{fields['task']}/{fields['device']}"


@dataclass(frozen=True, slots=True)
class Link:
    """A resource that one transfer at a time holds, in one direction."""

    name: str
    latency_ns: Nanos
    bytes_per_s: int


# Handing a tensor to another CPU device of the same process passes a reference, whatever its size (measured on
# TensorFlow 2.21, one x86 machine, 2026).
HANDOVER_NS: Nanos = 1800

# The jobs to whose tasks a client connects by custom, the first there is; `standin_client` is one that was added for a
# client (client.py).
_CLIENT_JOBS = ("standin_client", "localhost", "chief", "master", "worker")


@dataclass(frozen=True, eq=False)
class Cluster:
    """Devices in TensorFlow's order of names per task, links, and the route of each ordered pair of devices."""

    devices: tuple[Device, ...]  # [D]
    links: tuple[Link, ...]  # [L]
    routes: tuple[tuple[tuple[int, ...] | None, ...], ...]  # [D][D] links in order; () a hand-over; None no way
    name: str = "a cluster"  # the user's words for it
    notes: tuple[str, ...] = ()  # what was assumed: which GPU model, which links, sources of figures
    handover_ns: Nanos = HANDOVER_NS
    master: str | None = None  # the task that the session connects to, "/job:ps/replica:0/task:1"; None: by custom

    def __len__(self) -> int:
        return len(self.devices)

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Row of each full device name."""
        return {device.name: row for row, device in enumerate(self.devices)}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """[K] the device kinds, in order of first appearance; `CostTable.run_ns` has one column each."""
        return tuple(dict.fromkeys(device.kind for device in self.devices))

    @cached_property
    def kind_of(self) -> tuple[int, ...]:
        """[D] column of each device in `kinds`."""
        column = {kind: k for k, kind in enumerate(self.kinds)}
        return tuple(column[device.kind] for device in self.devices)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The tasks in order of first appearance."""
        return tuple(dict.fromkeys(device.task for device in self.devices))

    @cached_property
    def client_task(self) -> str:
        """The task that a client connects to: TensorFlow prefers its devices to equal ones of other tasks.

        `master`, else by custom: the first task of a job chief, master or worker, else the first task.
        """
        if self.master is not None:
            return self.master
        for job in _CLIENT_JOBS:
            for task in self.tasks:
                if task.startswith(f"/job:{job}/"):
                    return task
        return self.tasks[0]

    @cached_property
    def client(self) -> int:
        """Row of the client's device, where feeds come from and fetches go to: CPU:0 of its task, else its first."""
        rows = [row for row, device in enumerate(self.devices) if device.task == self.client_task]
        named = self.index.get(f"{self.client_task}/device:CPU:0")
        return named if named is not None else min(rows, key=lambda row: self.devices[row].type != "CPU")

    @cached_property
    def home(self) -> Ids:
        """[D] the CPU that stands for each device: a CPU itself, a GPU's CPU:0 of its task, else the task's first CPU.

        A GPU whose task has no CPU stands for itself.
        """
        first: dict[str, int] = {}
        for row, device in enumerate(self.devices):
            if device.type == "CPU":
                first.setdefault(device.task, self.index.get(f"{device.task}/device:CPU:0", row))
        return ids([row if d.type == "CPU" else first.get(d.task, row) for row, d in enumerate(self.devices)])

    def transfer_ns(self, source: int, target: int, nbytes: Bytes) -> Nanos:
        """Time for one transfer that finds its route free: latencies, then bytes at the slowest link, rounded up.

        Raises LookupError if the two devices have no route.
        """
        route = self.routes[source][target]
        if route is None:
            raise LookupError(f"no route from {self.devices[source].name} to {self.devices[target].name}")
        if not route:
            return self.handover_ns
        rate = min(self.links[link].bytes_per_s for link in route)
        return sum(self.links[link].latency_ns for link in route) + -(-nbytes * 10**9 // rate)

    def to_networkx(self) -> networkx.MultiDiGraph:
        """Devices as nodes and one edge per ordered pair, with its links and its slowest rate."""
        import networkx

        drawn = networkx.MultiDiGraph(name=self.name)
        for device in self.devices:
            drawn.add_node(device.name, type=device.type, kind=device.kind, host=device.host)
        for s, row in enumerate(self.routes):
            for t, route in enumerate(row):
                if s != t and route is not None:
                    rate = min((self.links[k].bytes_per_s for k in route), default=0)
                    names = [self.links[k].name for k in route]
                    drawn.add_edge(self.devices[s].name, self.devices[t].name, links=names, bytes_per_s=rate)
        return drawn
