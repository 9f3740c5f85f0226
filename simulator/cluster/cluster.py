"""The cluster: devices, the links between them, and the route of each pair.

A link is a wire in one direction (a full-duplex NIC is two links). A route is the list of links of a transfer, in order
from source to destination. Routes with a link in common share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from simulator.cluster.chips import Chip
from simulator.cluster.contention import CONTENTIONS, Contention
from simulator.cluster.copies import CopyLinks, copies_ns, copy_links, dispatch_ns, staging_ps_per_byte
from simulator.cluster.devicespec import LOCALHOST
from simulator.cluster.hierarchy import Route, crossed
from simulator.cluster.peaks import NO_PEAKS, Peaks
from simulator.cluster.protocols import (
    IN_PROCESS,
    MAX_LATENCY_NS,
    PLAIN,
    Protocol,
    find_protocol,
    lane_ns,
    outside_lanes_ns,
    protocol_note,
)
from simulator.columns import Ids, ids
from simulator.errors import ClusterError
from simulator.units import PS_PER_NS, SECOND_NS, Bytes, Nanos, is_whole, show_bytes
from simulator.wording import counted, repr_of

MAX_RATE = 10**15  # bytes per second; a thousand times the fastest memory of a GPU
MAX_CORES = 2**12  # of one host; ten times the largest server so far


@dataclass(frozen=True, slots=True)
class Device:
    """One device of one task."""

    name: str  # "/job:worker/replica:0/task:0/device:GPU:0", all five fields set
    type: str  # "CPU" or "GPU": which kernels exist
    kind: str  # the model: how fast; a column of CostTable.run_ns per kind
    memory_bytes: Bytes
    flop_per_s: int  # peak in float32, of plain units: CUDA cores, vector units
    bytes_per_s: int  # bandwidth of its own memory
    launch_ns: Nanos  # from one op's end to the next op's start on a busy device
    lanes: int = 1  # ops that it runs at the same time
    host: str = ""  # the machine of the device; tasks may share one
    cores: int = 1  # of each of its lanes; the work for a message needs one of them
    peaks: Peaks = NO_PEAKS  # in other formats, and of matrix units
    chip: Chip | None = None  # of a GPU: how far its kernels stay below the peaks; None: they reach them
    whole: Device | None = None  # all of the processor of which it is a part; None: it is all of it

    def __repr__(self) -> str:
        return repr_of(self, self.name, self.kind, show_bytes(self.memory_bytes))

    @property
    def task(self) -> str:
        """ "/job:worker/replica:0/task:0": the process that owns it."""
        return self.name.rsplit("/device:", 1)[0]

    def share(self, parts: int) -> Device:
        """One of so many equal parts of the processor, for devices that share a host; its kind ends in "/parts"."""
        if parts == 1:
            return self
        return replace(
            self,
            kind=f"{self.kind}/{parts}",
            memory_bytes=self.memory_bytes // parts,
            flop_per_s=max(1, self.flop_per_s // parts),
            bytes_per_s=max(1, self.bytes_per_s // parts),
            cores=max(1, self.cores // parts),
            peaks=self.peaks.scaled(1, parts),
            whole=self,
        )

    @property
    def parts(self) -> int:
        """The number of equal parts of its processor of which it is one."""
        if self.whole is None:
            return 1
        return int(self.kind.removeprefix(f"{self.whole.kind}/").partition(" ")[0])  # of a slower kind there is more

    def op_ns(self, kernel_ns: Nanos, kernels: int = 1, *, library: bool = False) -> Nanos:
        """Time of an op whose kernels take that long together: launched, and no less than the host takes for them."""
        took = kernels * self.launch_ns + kernel_ns
        return took if self.chip is None else max(self.chip.host_ns(kernels, library=library), took)

    @property
    def short(self) -> str:
        """ "worker:0/GPU:1", for tables; unique within a cluster of one replica per task."""
        fields = dict(part.split(":", 1) for part in self.name.strip("/").split("/"))
        replica = "" if fields.get("replica", "0") == "0" else f".{fields['replica']}"
        return f"{fields['job']}{replica}:{fields['task']}/{fields['device']}"


@dataclass(frozen=True, slots=True)
class Link:
    """A wire that transfers share, in one direction or, half duplex, in both.

    `contention` is the rule of sharing. "none": each transfer has the whole link. "serial": one after the other, each
    for the time of its bytes. "fair": all at once, each with its part. None: the rule of the simulation. Raises
    ClusterError for an impossible speed.
    """

    name: str
    latency_ns: Nanos
    bytes_per_s: int
    contention: Contention | None = None
    kind: str = ""  # "nic", "pcie", "nvlink", ..: equal links of a kind are alike; "": this one alone

    def __post_init__(self) -> None:
        whole = is_whole(self.latency_ns) and is_whole(self.bytes_per_s)
        if not (whole and 0 <= self.latency_ns <= MAX_LATENCY_NS and 0 < self.bytes_per_s <= MAX_RATE):
            raise ClusterError(
                f"Link {self.name!r} has latency {self.latency_ns} ns and {self.bytes_per_s} bytes/s; give a latency "
                f"from 0 to {MAX_LATENCY_NS:,} ns and a bandwidth from 1 to {MAX_RATE:,} bytes/s, whole numbers both."
            )
        if self.contention not in (None, *CONTENTIONS):
            raise ClusterError(
                f"Link {self.name!r} has contention {self.contention!r}; give one of {', '.join(CONTENTIONS)}."
            )


# Handing a tensor to another CPU device of the same process passes a reference, whatever its size (measured on
# TensorFlow 2.21, one x86 machine, 2026).
HANDOVER_NS: Nanos = 1800

# Jobs to whose tasks a client connects by custom; the first that exists counts. master.py adds `standin_client`.
_CLIENT_JOBS = ("standin_client", LOCALHOST, "chief", "master", "worker")


@dataclass(frozen=True, eq=False)
class Cluster:
    """Devices in TensorFlow's order of names per task, links, and the route of each ordered pair of devices."""

    devices: tuple[Device, ...]  # [D]
    links: tuple[Link, ...]  # [L]
    # [D][D] distinct links in order; () a hand-over; None: no route. A table, or a Hierarchy
    routes: Sequence[Sequence[Route | None]]
    name: str = "a cluster"  # as the user wrote it
    notes: tuple[str, ...] = ()  # assumptions: GPU model, links, sources of figures
    handover_ns: Nanos = HANDOVER_NS
    master: str | None = None  # the task that the session connects to, "/job:ps/replica:0/task:1"; None: by custom
    between_tasks: Protocol = PLAIN  # of messages between processes

    def __post_init__(self) -> None:
        """Raise ClusterError for routes that are not of these devices and links."""
        count, links, routes = len(self.devices), len(self.links), self.routes
        if len(routes) != count or any(len(row) != count for row in routes):
            said = f"The routes of {self.name!r} are no table of its {count} by {count} devices"
            raise ClusterError(f"{said}; give each ordered pair a route, or None.")
        unknown = crossed(routes) - set(range(links))
        if unknown:
            raise ClusterError(f"A route in {self.name!r} crosses link {min(unknown)}; it has {links} links, from 0.")
        for device in self.devices:
            if not (is_whole(device.cores) and 1 <= device.cores <= MAX_CORES):
                raise ClusterError(f"{device.name} has {device.cores!r} cores; give 1 to {MAX_CORES}.")
        if not 0 <= self.handover_ns <= MAX_LATENCY_NS:
            raise ClusterError(f"{self.name!r} hands over in {self.handover_ns} ns; give 0 to {MAX_LATENCY_NS:,} ns.")

    def __len__(self) -> int:
        return len(self.devices)

    def __repr__(self) -> str:
        tasks, devices = counted(len(self.tasks), "task"), counted(len(self), "device")
        return repr_of(self, self.name, tasks, devices, counted(len(self.links), "link"))

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Row of each full device name."""
        return {name: row for row, name in enumerate(self.device_names)}

    @cached_property
    def device_names(self) -> tuple[str, ...]:
        """[D] the full name of each device."""
        return tuple(device.name for device in self.devices)

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
    def task_index(self) -> Mapping[str, int]:
        """Row of each task in `tasks`."""
        return {task: row for row, task in enumerate(self.tasks)}

    @cached_property
    def client_task(self) -> str:
        """The task to which a client connects; TensorFlow prefers its devices to equal ones of other tasks.

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

    @cached_property
    def task_of(self) -> tuple[int, ...]:
        """[D] row of each device's task in `tasks`."""
        return tuple(self.task_index[device.task] for device in self.devices)

    @cached_property
    def _link_latency_ns(self) -> tuple[Nanos, ...]:  # read for each pair of devices, up to a million
        return tuple(link.latency_ns for link in self.links)

    def protocol(self, source: int, target: int) -> Protocol:
        """The protocol of a message between the two devices: IN_PROCESS within a task or for a hand-over."""
        if self.task_of[source] == self.task_of[target] or self.routes[source][target] == ():
            return IN_PROCESS
        return self.between_tasks

    def cores(self, source: int, target: int) -> tuple[int, int]:
        """Numbers of cores of a lane that can work on transfers at once, at the source and at the target."""
        protocol, ends = self.protocol(source, target), (self.home[source], self.home[target])
        sends, receives = (protocol.cores(self.devices[home].cores) for home in ends)
        return sends, receives

    def latency_ns(self, source: int, target: int, nbytes: Bytes = 0) -> Nanos:
        """Time of a message without that of its bytes on the wires, or the time of a hand-over within a device.

        It has five parts: latency of the wires, latency of the protocol, dispatches and looks of copies, bytes of
        copies, and work at both ends. The copies are those of GPUs, and the bytes those before and after a staged
        message. Of the work only what is outside the lanes counts, and only while no bytes are on the wires. Raises
        LookupError if the two devices have no route.
        """
        route = self._route(source, target)
        if not route:
            return self.handover_ns
        wires, protocol = self._link_latency_ns, self.protocol(source, target)
        works = protocol.pack_ns(nbytes), protocol.unpack_ns(nbytes)
        fixed, cores = (protocol.send_ns, protocol.receive_ns), self.cores(source, target)
        outside = outside_lanes_ns(fixed, works, cores, self._wire_ns(route, nbytes))
        copies = copies_ns(protocol, self.devices[source].chip, self.devices[target].chip)
        staging = self._staging_ns(source, target, nbytes) if protocol.staged else 0
        return protocol.latency_ns + outside + copies + staging + sum([wires[link] for link in route])

    def transfer_ns(self, source: int, target: int, nbytes: Bytes) -> Nanos:
        """Time of one transfer on free links: its bytes at the slowest link, rounded up, and latency.

        The work of both ends in their lanes, `pack_ns` and `unpack_ns`, is not included. Raises LookupError if the two
        devices have no route.
        """
        return self.latency_ns(source, target, nbytes) + self._wire_ns(self._route(source, target), nbytes)

    def pack_ns(self, source: int, target: int, nbytes: Bytes) -> Nanos:
        """Time of a transfer, before it is sent, in a lane of the CPU that stands for the source, `home[source]`.

        Within a task it is the dispatch of a copy, in the lane of the source.
        """
        if self.task_of[source] == self.task_of[target] and self.routes[source][target]:
            return dispatch_ns(self.devices[source].chip)
        return lane_ns(self.protocol(source, target).pack_ns(nbytes), self.cores(source, target)[0])

    def unpack_ns(self, source: int, target: int, nbytes: Bytes) -> Nanos:
        """Time of a transfer, after it arrived, in a lane of the CPU that stands for the target, `home[target]`."""
        return lane_ns(self.protocol(source, target).unpack_ns(nbytes), self.cores(source, target)[1])

    @cached_property
    def copy_links(self) -> CopyLinks:
        """The links between the memories of GPUs and of their hosts."""
        rates = [link.bytes_per_s for link in self.links]
        return copy_links([device.chip for device in self.devices], self.home.tolist(), self.routes, rates)

    def _staging_ns(self, source: int, target: int, nbytes: Bytes) -> Nanos:
        own, rates = self.copy_links, {link: self.links[link].bytes_per_s for link in self._route(source, target)}
        network = [rate for link, rate in rates.items() if link not in own.links]
        copies = own.from_gpu[source], own.to_gpu[target]
        return -(-nbytes * staging_ps_per_byte(copies, min(network, default=0), min(rates.values())) // PS_PER_NS)

    def _wire_ns(self, route: Route, nbytes: Bytes) -> Nanos:
        rate = min((self.links[link].bytes_per_s for link in route), default=None)
        return 0 if rate is None else -(-nbytes * SECOND_NS // rate)

    def _route(self, source: int, target: int) -> Route:
        route = self.routes[source][target]
        if route is None:
            raise LookupError(f"no route from {self.devices[source].name} to {self.devices[target].name}")
        return route


def with_protocol(cluster: Cluster, name: str) -> Cluster:
    """The cluster with that protocol between its tasks; the cluster's own protocol keeps its name.

    Raises ClusterError for an unknown name.
    """
    old = cluster.between_tasks
    new = find_protocol(name, {old.name: old})
    notes = [note for note in cluster.notes if note != protocol_note(old)]
    said = [protocol_note(new)] if len(cluster.tasks) > 1 else []
    return replace(cluster, between_tasks=new, notes=(*notes, *said))
