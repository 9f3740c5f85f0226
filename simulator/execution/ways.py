"""The distinct ways between the devices of a cluster: which links, how fast, by which protocol, shared how."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.cluster.protocols import beside_ns, lane_ns
from simulator.columns import Flags, Ids, Ints, flags, ids, ints
from simulator.errors import ClusterError, UnsupportedError
from simulator.units import Bytes, Nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster

CONTENTIONS = ("serial", "fair", "none")  # how transfers use a link that does not say it itself
PS_PER_NS = 1000
_NO_BOUND = np.iinfo(np.int64).max


class Pace(NamedTuple):
    """What a transfer takes that waits for nothing: the wires, and the work of the processors at both ends."""

    latency_ns: Nanos
    bytes_per_s: int  # of the wires; 0 where bytes cost no time there
    send_ns: Nanos  # per message
    receive_ns: Nanos
    send_ps_per_byte: int
    receive_ps_per_byte: int
    send_cores: int  # of the lane
    receive_cores: int


AT_ONCE = Pace(0, 0, 0, 0, 0, 0, 1, 1)  # from a device to itself


@dataclass(frozen=True, eq=False)
class Ways:
    """A hand-over within a process is a way without links. Axes: W ways, L links, D devices."""

    of: Ids  # [D, D] row of the way; -1: no way, or the device itself
    links: tuple[tuple[int, ...], ...]  # [W] in order
    latency_ns: Ints  # [W] of all its links and the protocol, or of the hand-over
    bytes_per_s: Ints  # [W] of the slowest link; 0 where bytes cost no time
    request_ns: Ints  # [W] from the posted Recv until the sender knows of it
    send_ns: Ints  # [W] work of one core at the sender per transfer
    receive_ns: Ints  # [W] at the receiver
    send_ps_per_byte: Ints  # [W]
    receive_ps_per_byte: Ints  # [W]
    send_cores: Ints  # [W] of the lane of the sender's processor that can work on messages at once; 1 where none does
    receive_cores: Ints  # [W]
    link_names: tuple[str, ...]  # [L]
    link_bytes_per_s: Ints  # [L]
    link_contention: tuple[str | None, ...]  # [L] None: as the simulation says

    @cached_property
    def paces(self) -> tuple[Ids, tuple[Pace | None, ...]]:
        """[D, D] the row of the pace between two devices, and the different paces, which are few; None: no way."""
        work = (self.send_ns, self.receive_ns, self.send_ps_per_byte, self.receive_ps_per_byte)
        columns = (self.latency_ns, self.bytes_per_s, *work, self.send_cores, self.receive_cores)
        rows: dict[tuple[int, ...], int] = {}
        of_way = [rows.setdefault(row, len(rows)) for row in zip(*(column.tolist() for column in columns), strict=True)]
        of = np.array([*of_way, len(rows)], np.int64)[self.of]  # the last is that of -1
        np.fill_diagonal(of, len(rows) + 1)
        return ids(of), (*(Pace(*row) for row in rows), None, AT_ONCE)


@dataclass(frozen=True, eq=False)
class Discipline:
    """How transfers of each way use its links. Axes: W ways."""

    held: tuple[tuple[int, ...], ...]  # [W] links that one transfer at a time has to itself while its bytes pass
    shared: tuple[tuple[int, ...], ...]  # [W] links that all transfers on them share
    cap: tuple[int, ...]  # [W] what the other links let each of those have, bytes per second; 0: no bound
    flows: Flags  # [W] some link is shared


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
    return pace.latency_ns + wire + lanes + beside_ns(fixed, works, cores, wire)


def ways_of(cluster: Cluster) -> Ways:
    """Number the ways in order of (source, target); their columns say what `Cluster` says of each pair."""
    task, rows = cluster.task_of, dict[tuple[tuple[int, ...], tuple[int, int] | None], int]()
    protocol, at = (
        cluster.between_tasks,
        [cluster.between_tasks.cores(cluster.devices[home].cores) for home in cluster.home],
    )
    sends = at if protocol.pack_ns(1) else [1] * len(cluster)
    receives = at if protocol.unpack_ns(1) else [1] * len(cluster)
    of = [
        [
            -1
            if route is None or source == target
            else rows.setdefault(
                (route, (sends[source], receives[target]) if route and task[target] != mine else None), len(rows)
            )
            for target, route in enumerate(routes)
        ]
        for source, (mine, routes) in enumerate(zip(task, cluster.routes, strict=True))
    ]
    links = tuple(route for route, _ in rows)
    way = np.repeat(np.arange(len(rows)), [len(route) for route in links])
    link = np.fromiter(chain.from_iterable(links), np.int64, len(way))
    speed = ints([link.bytes_per_s for link in cluster.links])
    latency, rate = np.zeros(len(rows), np.int64), np.full(len(rows), _NO_BOUND)
    np.add.at(latency, way, ints([link.latency_ns for link in cluster.links])[link])
    np.minimum.at(rate, way, speed[link])
    cores = [cores or (1, 1) for _, cores in rows]
    spoken = np.array([cores is not None for _, cores in rows], bool)  # by the protocol between tasks
    handed_over = np.array([not route for route in links], bool)
    return Ways(
        of=ids(np.array(of).reshape(len(cluster), len(cluster))),
        links=links,
        latency_ns=ints(latency + handed_over * cluster.handover_ns + spoken * protocol.latency_ns),
        bytes_per_s=ints(np.where(handed_over, 0, rate)),
        request_ns=ints(spoken * protocol.request_ns),
        send_ns=ints(spoken * protocol.send_ns),
        receive_ns=ints(spoken * protocol.receive_ns),
        send_ps_per_byte=ints(spoken * protocol.send_ps_per_byte),
        receive_ps_per_byte=ints(spoken * protocol.receive_ps_per_byte),
        send_cores=ints([send for send, _ in cores]),
        receive_cores=ints([receive for _, receive in cores]),
        link_names=tuple(link.name for link in cluster.links),
        link_bytes_per_s=speed,
        link_contention=tuple(link.contention for link in cluster.links),
    )


def discipline(ways: Ways, contention: str) -> Discipline:
    """Apply the simulation's contention to the links that have none of their own.

    Raises ClusterError for a way on which one link serves in turn and another is shared: what the first would let
    through depends on what the second leaves. UnsupportedError for a contention that there is not.
    """
    if contention not in CONTENTIONS:
        raise UnsupportedError(
            f"contention={contention!r} is not modelled; choose {' or '.join(map(repr, CONTENTIONS))}."
        )
    of_link = [own or contention for own in ways.link_contention]
    held = [tuple(link for link in links if of_link[link] == "serial") for links in ways.links]
    shared = [tuple(link for link in links if of_link[link] == "fair") for links in ways.links]
    for waits, flows in zip(held, shared, strict=True):
        if waits and flows:
            raise _mixed(ways, waits[0], flows[0])
    rates = ways.link_bytes_per_s.tolist()
    cap = [
        min((rates[link] for link in links if link not in flows), default=0) if flows else 0
        for links, flows in zip(ways.links, shared, strict=True)
    ]
    return Discipline(tuple(held), tuple(shared), tuple(cap), flags([bool(flows) for flows in shared]))


def _mixed(ways: Ways, serial: int, fair: int) -> ClusterError:
    """The error for two links of one way; the simulation can mend it where it speaks for one of them."""
    asks = [link for link in (serial, fair) if ways.link_contention[link] is not None]
    if len(asks) == 2:
        advice = "Give them one contention."
    else:
        name, said = ways.link_names[asks[0]], ways.link_contention[asks[0]]
        advice = f"Simulate with the contention {said!r}, as {name!r} says itself, or let the other say it, too."
    return ClusterError(
        f"Link {ways.link_names[serial]!r} is serial and {ways.link_names[fair]!r} is shared fairly, but one way leads "
        f"over both. {advice}"
    )
