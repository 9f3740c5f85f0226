"""Topology: the devices, links and routes that follow from machines and tasks.

    GPU:0 ──nvlink── GPU:1          same host: NVLink or NVSwitch where there is one, else over PCIe
      │ pcie           │ pcie
    [switch]───────────┘            a PCIe switch's uplink is shared by its GPUs
      │ uplink
     CPU ──nic out──[rack out]── (network) ──[rack in]──nic in── CPU of another host

A wire makes a link in each direction, or one for both where it is half duplex; the link's name says what it is. The
traffic of a rack's hosts to other racks shares the rack's uplink. Two tasks of one host talk through the loopback.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from simulator import limits
from simulator.cluster.cluster import Cluster, Device, Link
from simulator.cluster.contention import Contention
from simulator.cluster.devicespec import MAX_NUMBER, is_job
from simulator.cluster.hierarchy import Hierarchy, LevelRoutes, Position, Route
from simulator.cluster.models import Model
from simulator.cluster.protocols import GRPC, Protocol, protocol_note
from simulator.errors import ClusterError
from simulator.units import show_rate


@dataclass(frozen=True, slots=True)
class Wire:
    """A connection: its speed in each direction, and the sharing of its bandwidth."""

    latency_ns: int
    bytes_per_s: int
    contention: Contention | None = None  # as of a Link
    half: bool = False  # half duplex: both directions are one link


# By generation, x16: what copies between page-locked memory and a GPU reach of 15.75, 31.5 and 63 GB/s (PCI-SIG 2010,
# 2017, 2019). NVIDIA's nvbandwidth shows 12.36 GB/s (its README), 24.8 to 25.1 on A100 (its issue 42) and 52.8 on H100
# (issue 24). 5 us is what a small host-to-device copy takes (CUDA driver included).
PCIE = {3: Wire(5_000, 12_360_000_000), 4: Wire(5_000, 25_000_000_000), 5: Wire(5_000, 52_800_000_000)}
PCIE4 = PCIE[4]
# A PCIe switch adds: 100 ns from port to port at most (PLX, PEX 8747 product brief, 2010).
SWITCH_LATENCY_NS = 100
# 25 Gbit/s Ethernet (IEEE 802.3by, 2016). An adapter adds up to 0.6 us (Mellanox, ConnectX-5 EN product brief, 2017), a
# switch 0.3 us (Mellanox, Spectrum-2, 2017): 1 us is counted at each end. The protocol adds the software's time.
NIC_25GBE = Wire(1_000, 3_125_000_000)
# Between two processes of one host, taken as long as between two hosts. TensorFlow over gRPC moves 0.9 to 1.9 GB/s
# there (measured on TensorFlow 2.21, 2026): 0.71 ns per byte at 1.4 GB/s, of which the protocol counts 0.6 as work.
LOOPBACK = Wire(2_000, 9_000_000_000)
# From a rack's switch to the others: 100 Gbit/s Ethernet (IEEE 802.3bj, 2014) and 0.3 us of one more switch.
UPLINK = Wire(300, 12_500_000_000)


@dataclass(frozen=True, slots=True)
class Host:
    """A machine: its processor, its GPUs and the wires between them."""

    name: str
    cpu: Model
    gpus: tuple[Model, ...] = ()
    pcie: Wire | None = None  # of every GPU; None: each as its model has it, which the host keeps up with
    nic: Wire = NIC_25GBE
    loopback: Wire = LOOPBACK
    switches: tuple[tuple[int, ...], ...] = ()  # GPUs that share one PCIe uplink
    nvlinks: Mapping[tuple[int, int], Wire] = field(default_factory=dict)  # by (lower GPU, higher GPU)
    nvswitch: Wire | None = None  # every GPU's port to a crossbar
    sockets: tuple[tuple[int, ...], ...] = ()  # GPUs of each socket, where a transfer between sockets costs
    between_sockets: Wire | None = None

    def pcie_of(self, *gpus: int) -> Wire:
        """The wire of a GPU, or the uplink that several share: that of the fastest."""
        return self.pcie or PCIE[max(self.gpus[gpu].pcie for gpu in gpus)]


@dataclass(frozen=True, slots=True)
class Rack:
    """Hosts behind one switch, and the uplink from it to the other racks."""

    name: str
    hosts: tuple[str, ...]
    uplink: Wire


@dataclass(frozen=True, slots=True)
class Task:
    """A process of the cluster: its job, its host, and the GPUs of the host that it owns."""

    job: str
    number: int
    host: str
    cpus: int = 1
    gpus: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """ "/job:worker/replica:0/task:0"."""
        return f"/job:{self.job}/replica:0/task:{self.number}"


def connect(
    hosts: Sequence[Host],
    tasks: Sequence[Task],
    *,
    name: str,
    notes: Sequence[str] = (),
    protocol: Protocol = GRPC,
    racks: Sequence[Rack] = (),
) -> Cluster:
    """Make the cluster of these tasks on these hosts, with that protocol between tasks.

    The CPU devices of a host share its processor and memory evenly. A host in no rack has no uplink. The notes of the
    cluster are the figures assumed of its hosts, `notes`, and the protocol.

    Raises ClusterError for a host or GPU that does not exist, a GPU of two tasks, and a host in two racks. A task that
    no device string can name is refused, too. So are more devices than `limits.DEVICES`, and names of jobs and hosts of
    more characters than `limits.NAME`.
    """
    machines = {host.name: host for host in hosts}
    _check(machines, tasks)
    rack_of = _racked(machines, racks)
    cpus = Counter[str]()
    for task in tasks:
        cpus[task.host] += task.cpus
    devices: list[Device] = []
    places: list[tuple[Host, int | None]] = []  # per device: its host and which GPU of the host it is
    for task in tasks:
        host = machines[task.host]
        for number in range(task.cpus):
            devices.append(_device(task, "CPU", number, host.cpu, host).share(cpus[host.name]))
            places.append((host, None))
        for number, gpu in enumerate(task.gpus):
            devices.append(_device(task, "GPU", number, host.gpus[gpu], host))
            places.append((host, gpu))
    links = _Links()
    routes = _routes(links, devices, places, rack_of)
    said = (*_assumptions(hosts), *notes, *([protocol_note(protocol)] if len(tasks) > 1 else []))
    return Cluster(tuple(devices), tuple(links.made), routes, name, said, between_tasks=protocol)


def _assumptions(hosts: Sequence[Host]) -> list[str]:
    """The figures on which a description rests: device models, links inside a host, links between hosts."""
    models = dict.fromkeys([host.cpu for host in hosts] + [gpu for host in hosts for gpu in host.gpus])
    said = [f"{model.type} model {model.name}: {model.title}" for model in models]
    bare = [host for host in hosts if host.nvswitch is None and not host.nvlinks]
    slots = dict.fromkeys((host.pcie, gpu.pcie) for host in bare for gpu in host.gpus)
    if wires := dict.fromkeys(wire or PCIE[generation] for wire, generation in slots):
        names = {wire: f"PCIe {generation}.0 x16" for generation, wire in PCIE.items()}
        said.append(f"GPUs of a host are joined by {_each_way({wire: names.get(wire, 'PCIe') for wire in wires})}")
    if len(hosts) > 1:
        adapters = dict.fromkeys(host.nic for host in hosts)
        kinds = {wire: "25 Gbit/s Ethernet" if wire == NIC_25GBE else "a network" for wire in adapters}
        said.append(f"hosts are joined by {_each_way(kinds)}")
    return said


def _each_way(names: Mapping[Wire, str]) -> str:
    """Wires by their names and speeds."""
    return " and ".join(
        dict.fromkeys(f"{name}, {show_rate(wire.bytes_per_s)} each way" for wire, name in names.items())
    )


def check_name(what: str, name: str) -> None:
    """Raise ClusterError for a name of a host or a job that is too long."""
    if len(name) > limits.NAME.most:  # the names of its devices and links repeat it
        raise ClusterError(
            f"the name of the {what} {name[:20]}... has {len(name):,} characters; simviz takes at most "
            f"{limits.NAME.most}; {limits.NAME.remedy}"
        )


def _check(machines: Mapping[str, Host], tasks: Sequence[Task]) -> None:
    owner: dict[tuple[str, int], str] = {}
    seen: set[str] = set()
    if not tasks:
        raise ClusterError("the cluster has no task")
    total = sum(task.cpus + len(task.gpus) for task in tasks)
    most = limits.DEVICES
    if total > most.most:
        raise ClusterError(f"the cluster has {total} devices; simviz takes at most {most.most:,}; {most.remedy}")
    for host in machines:
        check_name("host", host)
    for task in tasks:
        check_name("job", task.job)
        if not is_job(task.job) or not 0 <= task.number <= MAX_NUMBER:
            raise ClusterError(
                f"there can be no task {task.number} of the job {task.job!r}: a job's name is of letters, digits and "
                f"_, and a task's number is from 0 to {MAX_NUMBER}"
            )
        if task.name in seen:
            raise ClusterError(f"the cluster names {task.name} twice")
        seen.add(task.name)
        if task.host not in machines:
            raise ClusterError(f"{task.name} is on host {task.host!r}, which is not described")
        for gpu in task.gpus:
            if gpu >= len(machines[task.host].gpus):
                raise ClusterError(
                    f"{task.name} wants GPU {gpu} of host {task.host!r}, which has {len(machines[task.host].gpus)}"
                )
            if (other := owner.get((task.host, gpu))) is not None:
                raise ClusterError(
                    f"GPU {gpu} of host {task.host!r} belongs to {other} and to {task.name}; list it once"
                )
            owner[task.host, gpu] = task.name
    wired = sum(len(host.gpus) ** 2 for host in machines.values() if _has_wires(host))
    if wired > limits.GPU_PAIRS.most:
        raise ClusterError(
            f"the GPUs of the hosts make {wired:,} pairs with NVLinks, PCIe switches or sockets; simviz takes at most "
            f"{limits.GPU_PAIRS.most:,}; {limits.GPU_PAIRS.remedy}"
        )


def _racked(machines: Mapping[str, Host], racks: Sequence[Rack]) -> dict[str, Rack]:
    """The rack of each host that stands in one."""
    found: dict[str, Rack] = {}
    for rack in racks:
        for host in rack.hosts:
            if host not in machines:
                raise ClusterError(f"rack {rack.name!r} holds host {host!r}, which is not described")
            other = found.setdefault(host, rack)
            if other is not rack:
                raise ClusterError(f"host {host!r} is in rack {other.name!r} and in rack {rack.name!r}")
    return found


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
        cores=max(model.cores, 1),
        peaks=model.peaks,
        chip=model.chip,
    )


class _Links:
    """The links made so far, by name: the same name is the same resource."""

    def __init__(self) -> None:
        self.made: list[Link] = []
        self.rows: dict[str, int] = {}

    def link(self, owner: str, kind: str, wire: Wire, direction: str = "", *, name: str = "") -> int:
        """Row of the wire's link in that direction; a half-duplex wire has one link for both. `name`: if not the kind.

        `owner` is the host, GPU or rack that has the wire.
        """
        name = f"{owner} {name or kind}"
        name = f"{name} {direction}" if direction and not wire.half else name
        if name not in self.rows:
            self.rows[name] = len(self.made)
            self.made.append(Link(name, wire.latency_ns, wire.bytes_per_s, wire.contention, kind))
        return self.rows[name]

    def between(self, owner: str, kind: str, a: int, b: int, wire: Wire) -> int:
        """Row of the link from `a` to `b` of a wire that only these two share."""
        return self.link(owner, kind, wire, name=f"{kind} {min(a, b)}-{max(a, b)}" if wire.half else f"{kind} {a}>{b}")


def _routes(
    links: _Links,
    devices: Sequence[Device],
    places: Sequence[tuple[Host, int | None]],
    rack_of: Mapping[str, Rack],
) -> Hierarchy:
    """The routes by hierarchy. Links are numbered as a walk over all pairs of one host, row by row, would meet them."""
    out = [_to_memory(links, host, gpu) for host, gpu in places]
    in_ = [_from_memory(links, host, gpu) for host, gpu in places]
    hosts = [host for host, _ in places]
    number = {name: row for row, name in enumerate(dict.fromkeys(host.name for host in hosts))}
    racks = [rack_of.get(host.name) for host in hosts]
    stands = {rack: row for row, rack in enumerate(dict.fromkeys(id(rack) for rack in racks if rack is not None))}
    inside = all(rack is racks[0] for rack in racks)
    leave, enter = ([_port(links, host, side, alone=len(number) == 1) for host in hosts] for side in ("out", "in"))
    up, down = ([_rack_port(links, rack, side, alone=inside) for rack in racks] for side in ("out", "in"))
    task_row: dict[str, int] = {}
    positions = [
        Position(
            task=task_row.setdefault(device.task, len(task_row)),
            host=number[hosts[row].name],
            rack=-1 if (rack := racks[row]) is None else stands[id(rack)],
            up=LevelRoutes(out[row], (*out[row], *leave[row]), (*out[row], *leave[row], *up[row])),
            down=LevelRoutes(in_[row], (*enter[row], *in_[row]), (*down[row], *enter[row], *in_[row])),
        )
        for row, device in enumerate(devices)
    ]
    return Hierarchy(tuple(positions), *_within_hosts(links, positions, places))


def _within_hosts(
    links: _Links, positions: Sequence[Position], places: Sequence[tuple[Host, int | None]]
) -> tuple[dict[int, int], dict[tuple[int, int], Route]]:
    """The loopback of each host with several tasks, and the routes of pairs that do not lead through its memory."""
    rows_of: dict[int, list[int]] = {}
    for row, position in enumerate(positions):
        rows_of.setdefault(position.host, []).append(row)
    loopback: dict[int, int] = {}
    direct: dict[tuple[int, int], Route] = {}
    shared = {one.host for one in positions if one.task != positions[rows_of[one.host][0]].task}
    for source, (host, gpu) in enumerate(places):
        here = positions[source]
        if here.host in shared and here.host not in loopback:
            loopback[here.host] = links.link(host.name, "loopback", host.loopback)
        if gpu is None or not _has_wires(host):
            continue
        for target in rows_of[here.host]:
            there, other = positions[target], places[target][1]
            if other is not None and other != gpu and here.task == there.task:
                route = _inside(links, host, gpu, other)
                if route != here.up.memory + there.down.memory:
                    direct[source, target] = route
    return loopback, direct


def _has_wires(host: Host) -> bool:
    """Tell whether some pair of the host's GPUs may have a route that does not lead through its memory."""
    return bool(host.nvlinks or host.nvswitch is not None or host.switches or host.between_sockets is not None)


def _port(links: _Links, host: Host, direction: str, *, alone: bool) -> Route:
    """The host's NIC in one direction; none where there is no other host."""
    return () if alone else (links.link(host.name, "nic", host.nic, direction),)


def _rack_port(links: _Links, rack: Rack | None, direction: str, *, alone: bool) -> Route:
    """The rack's uplink in one direction; none outside a rack or where there is nothing outside it."""
    return () if rack is None or alone else (links.link(rack.name, "uplink", rack.uplink, direction),)


def _inside(links: _Links, host: Host, a: int, b: int) -> Route:
    """The route between two GPUs of one process: NVLink, NVSwitch or PCIe."""
    wire = host.nvlinks.get((min(a, b), max(a, b)))
    if wire is not None:
        return (links.between(host.name, "nvlink", a, b, wire),)
    if host.nvswitch is not None:
        out = links.link(f"{host.name} gpu{a}", "nvlink", host.nvswitch, "out")
        return (out, links.link(f"{host.name} gpu{b}", "nvlink", host.nvswitch, "in"))
    up, down = _pcie(links, host, a, "out"), _pcie(links, host, b, "in")
    sa, sb = _switch(host, a), _switch(host, b)
    if sa == sb and sa is not None:
        return (up, down)
    return (up, *_uplink(links, host, sa, "out"), *_socket(links, host, a, b), *_uplink(links, host, sb, "in"), down)


def _pcie(links: _Links, host: Host, gpu: int, direction: str) -> int:
    return links.link(f"{host.name} gpu{gpu}", "pcie", host.pcie_of(gpu), direction)


def _switch(host: Host, gpu: int) -> int | None:
    return next((row for row, members in enumerate(host.switches) if gpu in members), None)


def _uplink(links: _Links, host: Host, switch: int | None, direction: str) -> Route:
    if switch is None:
        return ()
    wire = replace(host.pcie_of(*host.switches[switch]), latency_ns=SWITCH_LATENCY_NS)
    return (links.link(host.name, "pcie", wire, direction, name=f"switch{switch}"),)


def _socket(links: _Links, host: Host, a: int, b: int) -> Route:
    if host.between_sockets is None:
        return ()
    sa, sb = (next((row for row, members in enumerate(host.sockets) if gpu in members), 0) for gpu in (a, b))
    return () if sa == sb else (links.between(host.name, "socket", sa, sb, host.between_sockets),)


def _to_memory(links: _Links, host: Host, gpu: int | None) -> Route:
    if gpu is None:
        return ()
    return (_pcie(links, host, gpu, "out"), *_uplink(links, host, _switch(host, gpu), "out"))


def _from_memory(links: _Links, host: Host, gpu: int | None) -> Route:
    if gpu is None:
        return ()
    return (*_uplink(links, host, _switch(host, gpu), "in"), _pcie(links, host, gpu, "in"))
