"""The distinct routes between the devices of a cluster: which links, how fast and by which protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.cluster.chips import Chip
from simulator.cluster.cluster import Cluster
from simulator.cluster.copies import copies_ns, dispatch_ns, look_ns, staging_ps_per_byte
from simulator.cluster.hierarchy import Hierarchy, Route
from simulator.cluster.memories import host_devices, memory_ends
from simulator.cluster.protocols import IN_PROCESS, lane_ns, outside_lanes_ns
from simulator.columns import Flags, Ids, Ints, Lists, alike, flags, ids, in_order, ints, joined, lists
from simulator.units import PS_PER_NS, Bytes, Nanos
from simulator.wording import counted, repr_of

_NO_BOUND = np.iinfo(np.int64).max


class Pace(NamedTuple):
    """The time of a transfer that waits for nothing: the wires, and the work of the processors at both ends."""

    latency_ns: Nanos
    bytes_per_s: int  # of the wires; 0 where bytes cost no time there
    send_ns: Nanos  # per message
    receive_ns: Nanos
    send_ps_per_byte: int
    receive_ps_per_byte: int
    staging_ps_per_byte: int  # of whole copies before and after, besides the slowest of them and the wires
    send_cores: int  # of the lane
    receive_cores: int


SAME_DEVICE = Pace(0, 0, 0, 0, 0, 0, 0, 1, 1)  # from a device to itself


@dataclass(frozen=True, eq=False)
class Routes:
    """The routes of some ordered pairs of devices. A hand-over within a process is a route without links.

    Routes between hosts nearly all differ by their links. But their times differ by kinds of hosts and links alone: of
    these *paces* there are few. Axes: P pairs, W routes, Q paces, L links, D devices.
    """

    devices: int  # D
    pairs: Ints | None  # [P] source * D + target, ascending; None: all pairs
    route_of: Ids  # [P] row of the route; -1: no route, or the device itself
    at_hand: int  # row of the hand-over within the memory of a CPU; -1: no GPU has values there
    links: Lists  # [W] in order
    pace: Ids  # [W] row of the pace
    latency_ns: Ints  # [Q] of all its links and the protocol, or of the hand-over
    bytes_per_s: Ints  # [Q] of the slowest link; 0 where bytes cost no time
    request_ns: Ints  # [Q] from the posted Recv until the sender knows of it
    send_ns: Ints  # [Q] work of one core at the sender per transfer, or the dispatch of a GPU's copy
    dispatched: Flags  # [Q] within a task, over links: the device of the Send dispatches a copy, in its own lane
    receive_ns: Ints  # [Q] at the receiver
    send_ps_per_byte: Ints  # [Q]
    receive_ps_per_byte: Ints  # [Q]
    staging_ps_per_byte: Ints  # [Q] of whole copies of GPUs before and after a message, besides its slowest stretch
    send_cores: Ints  # [Q] of the lane of the sender's processor that can work on messages at once; 1 where none does
    receive_cores: Ints  # [Q]
    link_names: tuple[str, ...]  # [L]
    link_bytes_per_s: Ints  # [L]
    link_contention: tuple[str | None, ...]  # [L] None: as the simulation says

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.links), "route"), counted(len(self.link_names), "link"))

    def between(self, source: npt.NDArray[np.integer], target: npt.NDArray[np.integer]) -> Ids:
        """The row of the route from each memory to that beside it, which may be the same; -1: none, or not of these."""
        if self.pairs is None:
            return ids(np.where(source == target, self.at_hand, self.of[source, target]))
        asked = source.astype(np.int64) * self.devices + target
        place = np.searchsorted(self.pairs, asked)
        known = np.append(self.pairs, -1)[place] == asked
        found = np.where(source == target, self.at_hand, np.append(self.route_of, -1)[place])
        return ids(np.where(known, found, -1))

    @property
    def first_shared(self) -> int:
        """The resource of a run that the first of the routes is as a whole, if transfers share its links.

        Resources are the devices, then the links, then the routes.
        """
        return self.devices + len(self.link_names)

    @cached_property
    def of(self) -> Ids:
        """[D, D] the row of the route of each pair; -1: none, or not of these pairs."""
        if self.pairs is None:
            return self.route_of.reshape(self.devices, self.devices)
        found = np.full(self.devices**2, -1, np.int32)
        found[self.pairs] = self.route_of
        return ids(found.reshape(self.devices, self.devices))

    @cached_property
    def between_all(self) -> Ids:
        """[D, D] `between` of each pair."""
        if self.at_hand < 0:
            return self.of
        every = np.arange(self.devices)
        return self.between(*np.broadcast_arrays(every[:, None], every))

    @cached_property
    def handed(self) -> Flags:
        """[W] the route is a hand-over."""
        return flags(self.links.sizes == 0)

    @cached_property
    def paces(self) -> tuple[Ids, tuple[Pace | None, ...]]:
        """[D, D] the row of the pace between two devices, and the different paces, which are few; None: no route."""
        fixed, per_byte = (self.send_ns, self.receive_ns), (self.send_ps_per_byte, self.receive_ps_per_byte)
        cores = (self.send_cores, self.receive_cores)
        columns = (self.latency_ns, self.bytes_per_s, *fixed, *per_byte, self.staging_ps_per_byte, *cores)
        different = np.stack(columns, axis=1).tolist()
        of = np.append(self.pace, np.int32(len(different)))[self.of]  # the last is that of -1
        np.fill_diagonal(of, len(different) + 1)
        return ids(of), (*(Pace(*row) for row in different), None, SAME_DEVICE)


class Ways(NamedTuple):
    """The paces of values between two devices, by the memories at both ends. Axis: D devices.

    Of ways there are four. A GPU makes a value in its own memory or in host memory, and one reads it in either. They
    are in order of twice the former and the latter, where 1 is host memory. Without GPUs of two memories there is one.
    """

    pace: npt.NDArray[np.int32]  # [ways, D, D] row of `paces` by way, device that makes it, and device that reads it
    paces: tuple[Pace | None, ...]  # those of `Routes.paces` come first; None: no route


def ways_of(routes: Routes, host_device: Ids, dispatch_ns: Ints) -> Ways:
    """The ways between all devices, [D], given the host device of each and its time for a copy that it sends."""
    every = np.arange(routes.devices)
    near, paces = routes.paces
    if (host_device == every).all():
        return Ways(near[None], paces)
    source, target = np.broadcast_arrays(every[:, None], every)
    sends_ns = dispatch_ns[source]
    pace_of = np.append(routes.pace, np.int32(len(routes.latency_ns)))  # the last is of -1, no route
    dispatched = np.append(routes.dispatched, False)
    between, known = [], list(paces)
    for made_host, host in product((False, True), repeat=2):
        lies, arrives = memory_ends(host_device, source, target, made_host, host)
        pace = pace_of[routes.between(lies, arrives)]
        stays = (source == target) & (lies == arrives)
        copied = dispatched[pace] & ~stays & made_host & (sends_ns > 0)  # by the GPU that sends, not by its CPU
        kinds, row = np.unique([pace[copied], sends_ns[copied]], axis=1, return_inverse=True)
        pace = np.where(stays, np.diagonal(near), pace)
        pace[copied] = len(known) + row.reshape(-1)
        known += [one and one._replace(send_ns=ns) for one, ns in ((paces[of], ns) for of, ns in kinds.T.tolist())]
        between.append(pace)
    return Ways(np.array(between, np.int32), tuple(known))


def alone_ns(pace: Pace, nbytes: Bytes) -> Nanos:
    """From the moment at which a transfer is asked for until its readers have it, if it waits for nothing.

    Each part is rounded up, as the engine does.
    """
    wire = -(-nbytes * 10**9 // pace.bytes_per_s) if pace.bytes_per_s else 0
    fixed, cores = (pace.send_ns, pace.receive_ns), (pace.send_cores, pace.receive_cores)
    works = (
        pace.send_ns - (-nbytes * pace.send_ps_per_byte // PS_PER_NS),
        pace.receive_ns - (-nbytes * pace.receive_ps_per_byte // PS_PER_NS),
    )
    lanes = lane_ns(works[0], cores[0]) + lane_ns(works[1], cores[1])
    staging = -(-nbytes * pace.staging_ps_per_byte // PS_PER_NS)
    return pace.latency_ns + wire + lanes + staging + outside_lanes_ns(fixed, works, cores, wire)


def routes_of(cluster: Cluster, pairs: Ints | None = None) -> Routes:
    """The routes of all pairs, or of these alone: [P] source * D + target, ascending.

    They are numbered in order of (source, target). Their columns say what `Cluster` says of each pair.
    """
    protocol = cluster.between_tasks
    at = [protocol.cores(cluster.devices[home].cores) for home in cluster.home.tolist()]
    one = [1] * len(cluster)
    copying, model = _ways_to_copy(cluster)
    apart = _Ends(
        task=ids(cluster.task_of),
        sends=ids(at if protocol.staged else one),
        receives=ids(at if protocol.unpack_ns(1) else one),
        model=model,
    )
    found = _numbered(cluster.routes, apart, pairs)
    at_hand = -1
    if (host_devices(cluster) != np.arange(len(cluster))).any():
        at_hand, found = len(found.links), found.with_hand_over()
    links = found.links
    speed = ints([link.bytes_per_s for link in cluster.links])
    latency = np.zeros(len(links), np.int64)
    np.add.at(latency, links.of, ints([link.latency_ns for link in cluster.links])[links.item])
    between_hosts = flags([link not in cluster.copy_links.links for link in range(len(speed))])
    rate, network = (_slowest(links, speed, of) for of in (np.ones(len(speed), bool), between_hosts))
    _, number = alike(latency, rate, network, found.sends, found.receives, found.source, found.target)
    pace, first = in_order(number)
    latency, rate, sends, receives = latency[first], rate[first], found.sends[first], found.receives[first]
    by_protocol, handed_over = sends > 0, links.sizes[first] == 0
    source, target = ([copying[row] for row in of[first].tolist()] for of in (found.source, found.target))
    protocols = [protocol if one else IN_PROCESS for one in by_protocol.tolist()]
    copies = ints([copies_ns(of, a.chip, b.chip) for of, a, b in zip(protocols, source, target, strict=True)])
    dispatch = np.where(by_protocol | handed_over, 0, [dispatch_ns(one.chip) for one in source])
    network = np.where(network == _NO_BOUND, 0, network)[first]
    ends = zip(protocols, source, target, network.tolist(), rate.tolist(), strict=True)
    staging = [
        staging_ps_per_byte((a.from_gpu, b.to_gpu), wires, least) if of.staged else 0 for of, a, b, wires, least in ends
    ]
    return Routes(
        devices=len(cluster),
        pairs=pairs,
        route_of=found.of,
        at_hand=at_hand,
        links=links,
        pace=ids(pace),
        latency_ns=ints(
            latency + np.where(handed_over, cluster.handover_ns, copies) + by_protocol * protocol.latency_ns
        ),
        bytes_per_s=ints(np.where(handed_over, 0, rate)),
        request_ns=ints(by_protocol * protocol.request_ns),
        send_ns=ints(by_protocol * protocol.send_ns + dispatch),
        dispatched=flags(~by_protocol & ~handed_over),
        receive_ns=ints(by_protocol * protocol.receive_ns),
        send_ps_per_byte=ints(by_protocol * protocol.send_ps_per_byte),
        receive_ps_per_byte=ints(by_protocol * protocol.receive_ps_per_byte),
        staging_ps_per_byte=ints(staging),
        send_cores=ints(np.maximum(sends, 1)),
        receive_cores=ints(np.maximum(receives, 1)),
        link_names=tuple(link.name for link in cluster.links),
        link_bytes_per_s=speed,
        link_contention=tuple(link.contention for link in cluster.links),
    )


def _slowest(links: Lists, speed: Ints, counts: npt.NDArray[np.bool_]) -> Ints:
    """[W] the rate of the slowest link of each route, of those that count; _NO_BOUND where none does."""
    rate = np.full(len(links), _NO_BOUND)
    np.minimum.at(rate, links.of, np.where(counts, speed, _NO_BOUND)[links.item])
    return rate


def pairs_of(source: npt.NDArray[np.integer], target: npt.NDArray[np.integer], devices: int) -> Ints:
    """The different pairs of these sources and targets, as `routes_of` takes them."""
    return ints(np.unique(source.astype(np.int64) * devices + target))


class _Copier(NamedTuple):
    """The way in which a device copies from and to its memory."""

    chip: Chip | None
    from_gpu: int  # bytes per second, 0: none
    to_gpu: int


def _ways_to_copy(cluster: Cluster) -> tuple[list[_Copier], Ids]:
    """One device for each way to copy from and to its memory, and [D] the row of each device's."""
    rows: dict[tuple[Nanos, Nanos, int, int], int] = {}
    ways: list[_Copier] = []
    found = []
    own = cluster.copy_links
    for device, out, back in zip(cluster.devices, own.from_gpu, own.to_gpu, strict=True):
        key = (dispatch_ns(device.chip), look_ns(device.chip), out, back)
        if rows.setdefault(key, len(rows)) == len(ways):
            ways.append(_Copier(device.chip, out, back))
        found.append(rows[key])
    return ways, ids(found)


# ---- numbers of routes ---------------------------------------------------------------------------------------------
# Two pairs of devices have one route where links, protocol, cores and ways to copy are the same. Routes of GPUs nearly
# all differ. A step that is cut needs those of its transfers. One that is placed may need all: those of a thousand
# devices are a million, so those of a Hierarchy are numbered by whole columns.


@dataclass(frozen=True, eq=False)
class _Numbered:
    """The distinct routes. Axes: P pairs, W routes."""

    of: Ids  # [P] row of the route; -1: no route, or the device itself
    links: Lists  # [W]
    sends: Ids  # [W] cores that work on a message of the protocol between tasks, at the sender; 0: no such message
    receives: Ids  # [W] at the receiver
    source: Ids  # [W] how the sender copies
    target: Ids  # [W] how the receiver copies

    def with_hand_over(self) -> _Numbered:
        """With one more route, the last, within a process and without links."""
        ends = {name: ids(np.append(getattr(self, name), 0)) for name in ("sends", "receives", "source", "target")}
        return replace(self, links=Lists(ids(np.append(self.links.ptr, self.links.ptr[-1])), self.links.item), **ends)


@dataclass(frozen=True, eq=False)
class _Ends:
    """How devices differ as ends of a route, besides their links. Axis: D devices."""

    task: Ids  # [D]
    sends: Ids  # [D] cores of a lane for messages
    receives: Ids  # [D]
    model: Ids  # [D] how it copies from and to its memory


def _numbered(routes: Sequence[Sequence[Route | None]], ends: _Ends, pairs: Ints | None) -> _Numbered:
    """Number the routes between devices with these ends."""
    if pairs is None and isinstance(routes, Hierarchy) and not _goes_back(routes):
        return _of_hierarchy(routes, ends)
    task, sends, receives, model = (column.tolist() for column in vars(ends).values())
    rows = dict[tuple[Route, tuple[int, ...]], int]()
    of = []
    for pair in range(len(task) ** 2) if pairs is None else pairs.tolist():
        source, target = divmod(pair, len(task))
        taken = None if source == target else routes[source][target]
        message = (sends[source], receives[target]) if taken and task[source] != task[target] else (0, 0)
        copies = (model[source], model[target]) if taken else (0, 0)
        of.append(-1 if taken is None else rows.setdefault((taken, (*message, *copies)), len(rows)))
    columns = np.array([numbers for _, numbers in rows], np.int32).reshape(len(rows), 4).T
    return _Numbered(ids(of), lists([taken for taken, _ in rows]), *map(ids, columns))


def _goes_back(routes: Hierarchy) -> bool:
    """Tell whether some link leads both up and down, as half duplex does: then two ways may be one route."""
    up = {link for one in routes.positions for link in one.up.racks}
    return any(link in up for one in routes.positions for link in one.down.racks)


def _of_hierarchy(routes: Hierarchy, ends: _Ends) -> _Numbered:
    """A route is a way up, a loopback and a way down, or a host's own for the pair: a number for each part."""
    positions, count = routes.positions, len(routes)
    host, rack = np.array([(one.host, one.rack) for one in positions], np.int32).T
    level = np.where(host[:, None] == host, 0, np.where(rack[:, None] == rack, 1, 2)).astype(np.int8)
    level[host < 0] = level[:, host < 0] = 3  # a hand-over
    up_row, ups = _ways([[*one.up, ()] for one in positions])
    down_row, downs = _ways([[*one.down, ()] for one in positions])
    every = np.arange(count)
    up, down = up_row[every[:, None], level], down_row[every, level]
    apart = ends.task[:, None] != ends.task
    loop = np.array([routes.loopback.get(one, -1) for one in host.tolist()], np.int32)[:, None]
    loop = np.where(apart & (level == 0), loop, np.int32(-1))
    crosses = (ups.sizes[up] + downs.sizes[down] + (loop >= 0)) > 0
    send = np.where(apart & crosses, ends.sends[:, None], np.int32(0))
    receive = np.where(apart & crosses, ends.receives, np.int32(0))
    model = ends.model.astype(np.int16)  # of which there are fewer than devices
    source, target = np.where(crosses, model[:, None], np.int16(0)), np.where(crosses, model, np.int16(0))
    direct, own = _direct(routes)
    ways = (np.where(own < 0, up, np.int32(-1)), loop, np.where(own < 0, down, np.int32(-1)), own)
    key = np.zeros((count, count), np.int64)
    for part in (*ways, send, receive, source, target):
        key *= int(part.max()) + 2
        key += part
        key += 1
    key[every, every] = -1
    of, first = in_order(key.reshape(-1))
    link = np.arange(int(loop.max()) + 1)
    tables = (ups, Lists(ids(np.arange(len(link) + 1)), ids(link)), downs, direct)
    return _Numbered(
        of=ids(of),
        links=joined(*(table.at(way.reshape(-1)[first]) for table, way in zip(tables, ways, strict=True))),
        sends=ids(send.reshape(-1)[first]),
        receives=ids(receive.reshape(-1)[first]),
        source=ids(source.reshape(-1)[first]),
        target=ids(target.reshape(-1)[first]),
    )


def _ways(of: Sequence[Sequence[Route]]) -> tuple[Ids, Lists]:
    """[D, levels] the row of each way among the different ones, and these."""
    rows: dict[Route, int] = {}
    found = [[rows.setdefault(way, len(rows)) for way in ways] for ways in of]
    return ids(np.array(found)), lists(list(rows))


def _direct(routes: Hierarchy) -> tuple[Lists, Ids]:
    """The different routes that hosts have for pairs, and [D, D] the row of each pair's; -1: none."""
    found = np.full((len(routes), len(routes)), -1, np.int32)
    rows: dict[Route, int] = {}
    for (source, target), route in routes.direct.items():
        found[source, target] = rows.setdefault(route, len(rows))
    return lists(list(rows)), found
