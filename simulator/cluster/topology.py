"""From machines and tasks to devices, links and routes.

    GPU:0 ──nvlink── GPU:1          same host: NVLink or NVSwitch where there is one, else over PCIe
      │ pcie           │ pcie
    [switch]───────────┘            a PCIe switch's uplink is shared by its GPUs
      │ uplink
     CPU ──nic out── (network) ──nic in── CPU of another host

Every link is a resource in one direction; its name says what it is. Two tasks of one host talk through the loopback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simulator.cluster.cluster import Cluster, Device, Link
from simulator.cluster.models import Model
from simulator.errors import ClusterError

MAX_DEVICES = 1024  # routes grow with the square


@dataclass(frozen=True, slots=True)
class Wire:
    """Speed of a connection in each of its directions."""

    latency_ns: int
    bytes_per_s: int


# PCI-SIG (2017): 16 GT/s x 16 lanes x 128/130; 5 us is what a small host-to-device copy takes (CUDA driver included).
PCIE4 = Wire(5_000, 31_508_000_000)
# What a PCIe switch adds to that: 100 ns from port to port at most (PLX, PEX 8747 product brief, 2010).
SWITCH_LATENCY_NS = 100
# 25 Gbit/s Ethernet (IEEE 802.3by, 2016). A gRPC hop of TensorFlow takes 105-130 us on a loopback (measured, 2026):
# half of it is counted at each end.
NIC_25GBE = Wire(55_000, 3_125_000_000)
# gRPC between two processes of one host: 105-130 us, 0.9-1.9 GB/s (measured on TensorFlow 2.21, 2026).
LOOPBACK = Wire(110_000, 1_400_000_000)


@dataclass(frozen=True, slots=True)
class Host:
    """A machine: its processor, its GPUs and what joins them."""

    name: str
    cpu: Model
    gpus: tuple[Model, ...] = ()
    pcie: Wire = PCIE4
    nic: Wire = NIC_25GBE
    switches: tuple[tuple[int, ...], ...] = ()  # GPUs that share one PCIe uplink
    nvlinks: Mapping[tuple[int, int], Wire] = field(default_factory=dict)  # (lower GPU, higher GPU) -> joined by
    nvswitch: Wire | None = None  # every GPU's port to a crossbar
    sockets: tuple[tuple[int, ...], ...] = ()  # GPUs of each socket, when crossing between them costs
    between_sockets: Wire | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A process of the cluster: where it runs and which of the host's GPUs are its own."""

    job: str
    number: int
    host: str
    cpus: int = 1
    gpus: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """ "/job:worker/replica:0/task:0"."""
        return f"/job:{self.job}/replica:0/task:{self.number}"


def connect(hosts: Sequence[Host], tasks: Sequence[Task], *, name: str, notes: Sequence[str] = ()) -> Cluster:
    """Make the cluster of these tasks on these hosts.

    The CPU devices of a host share its processor and memory evenly. Raises ClusterError where a task's host or GPU does
    not exist, a GPU belongs to two tasks, or there are more than MAX_DEVICES devices.
    """
    machines = {host.name: host for host in hosts}
    _check(machines, tasks)
    devices: list[Device] = []
    places: list[tuple[Host, int | None]] = []  # per device: its host and which GPU of the host it is
    for task in tasks:
        host = machines[task.host]
        on_host = sum(other.cpus for other in tasks if other.host == host.name)
        for number in range(task.cpus):
            devices.append(_device(task, "CPU", number, host.cpu.share(on_host), host))
            places.append((host, None))
        for number, gpu in enumerate(task.gpus):
            devices.append(_device(task, "GPU", number, host.gpus[gpu], host))
            places.append((host, gpu))
    wiring = _Wiring()
    routes = _routes(wiring, devices, places)
    return Cluster(tuple(devices), tuple(wiring.links), routes, name, tuple(notes))


def _check(machines: Mapping[str, Host], tasks: Sequence[Task]) -> None:
    owner: dict[tuple[str, int], str] = {}
    seen: set[str] = set()
    if not tasks:
        raise ClusterError("the cluster has no task")
    total = sum(task.cpus + len(task.gpus) for task in tasks)
    if total > MAX_DEVICES:
        raise ClusterError(f"the cluster has {total} devices; simviz takes at most {MAX_DEVICES}")
    for task in tasks:
        if task.name in seen:
            raise ClusterError(f"the cluster names {task.name} twice")
        seen.add(task.name)
        if task.host not in machines:
            raise ClusterError(f"{task.name} stands on host {task.host!r}, which is not described")
        for gpu in task.gpus:
            if gpu >= len(machines[task.host].gpus):
                raise ClusterError(
                    f"{task.name} wants GPU {gpu} of host {task.host!r}, which has {len(machines[task.host].gpus)}"
                )
            other = owner.setdefault((task.host, gpu), task.name)
            if other != task.name:
                raise ClusterError(f"GPU {gpu} of host {task.host!r} belongs to {other} and to {task.name}")


def _device(task: Task, type_: str, number: int, model: Model, host: Host) -> Device:
    return Device(
        name=f"{task.name}/device:{type_}:{number}",
        type=type_,
        kind=model.name,
        memory_bytes=model.memory_bytes,
        flop_per_s=model.flop_per_s,
        bytes_per_s=model.bytes_per_s,
        launch_ns=model.launch_ns,
        host=host.name,
    )


class _Wiring:
    """The links made so far, by name: the same name is the same resource."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.rows: dict[str, int] = {}

    def link(self, name: str, wire: Wire) -> int:
        if name not in self.rows:
            self.rows[name] = len(self.links)
            self.links.append(Link(name, wire.latency_ns, wire.bytes_per_s))
        return self.rows[name]


def _routes(
    wiring: _Wiring, devices: Sequence[Device], places: Sequence[tuple[Host, int | None]]
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The route of every ordered pair: each device's way to and from its host's memory is looked up once."""
    out = [_to_memory(wiring, host, gpu) for host, gpu in places]
    in_ = [_from_memory(wiring, host, gpu) for host, gpu in places]
    leave = [wiring.link(f"{host.name} nic out", host.nic) for host, _ in places] if _several(places) else []
    enter = [wiring.link(f"{host.name} nic in", host.nic) for host, _ in places] if _several(places) else []
    task = [device.task for device in devices]
    table = []
    for s, (here, gpu_here) in enumerate(places):
        row: list[tuple[int, ...]] = []
        for t, (there, gpu_there) in enumerate(places):
            if s == t:
                row.append(())
            elif task[s] == task[t]:
                row.append(_inside(wiring, here, gpu_here, gpu_there))
            elif here is there:
                row.append((*out[s], wiring.link(f"{here.name} loopback", LOOPBACK), *in_[t]))
            else:
                row.append((*out[s], leave[s], enter[t], *in_[t]))
        table.append(tuple(row))
    return tuple(table)


def _several(places: Sequence[tuple[Host, int | None]]) -> bool:
    return any(host is not places[0][0] for host, _ in places)


def _inside(wiring: _Wiring, host: Host, a: int | None, b: int | None) -> tuple[int, ...]:
    """Between two devices of one process: a hand-over, NVLink, NVSwitch or PCIe."""
    if a is None or b is None:
        return (*_to_memory(wiring, host, a), *_from_memory(wiring, host, b))
    wire = host.nvlinks.get((min(a, b), max(a, b)))
    if wire is not None:
        return (wiring.link(f"{host.name} nvlink {a}>{b}", wire),)
    if host.nvswitch is not None:
        out = wiring.link(f"{host.name} gpu{a} nvlink out", host.nvswitch)
        return (out, wiring.link(f"{host.name} gpu{b} nvlink in", host.nvswitch))
    up = wiring.link(f"{host.name} gpu{a} pcie out", host.pcie)
    down = wiring.link(f"{host.name} gpu{b} pcie in", host.pcie)
    sa, sb = _switch(host, a), _switch(host, b)
    if sa == sb and sa is not None:
        return (up, down)
    return (up, *_uplink(wiring, host, sa, "out"), *_socket(wiring, host, a, b), *_uplink(wiring, host, sb, "in"), down)


def _switch(host: Host, gpu: int) -> int | None:
    return next((row for row, members in enumerate(host.switches) if gpu in members), None)


def _uplink(wiring: _Wiring, host: Host, switch: int | None, way: str) -> tuple[int, ...]:
    if switch is None:
        return ()
    return (wiring.link(f"{host.name} switch{switch} {way}", Wire(SWITCH_LATENCY_NS, host.pcie.bytes_per_s)),)


def _socket(wiring: _Wiring, host: Host, a: int, b: int) -> tuple[int, ...]:
    if host.between_sockets is None:
        return ()
    sa = next((row for row, members in enumerate(host.sockets) if a in members), 0)
    sb = next((row for row, members in enumerate(host.sockets) if b in members), 0)
    return () if sa == sb else (wiring.link(f"{host.name} socket {sa}>{sb}", host.between_sockets),)


def _to_memory(wiring: _Wiring, host: Host, gpu: int | None) -> tuple[int, ...]:
    if gpu is None:
        return ()
    return (wiring.link(f"{host.name} gpu{gpu} pcie out", host.pcie), *_uplink(wiring, host, _switch(host, gpu), "out"))


def _from_memory(wiring: _Wiring, host: Host, gpu: int | None) -> tuple[int, ...]:
    if gpu is None:
        return ()
    return (*_uplink(wiring, host, _switch(host, gpu), "in"), wiring.link(f"{host.name} gpu{gpu} pcie in", host.pcie))
