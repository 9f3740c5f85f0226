"""The distinct routes between the devices of a cluster: which links, how fast, by which protocol, shared how."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.cluster.protocols import lane_ns, outside_lanes_ns
from simulator.columns import Flags, Ids, Ints, flags, ids, ints, pointers_of
from simulator.errors import ClusterError
from simulator.execution.arrays import SharedLinks, filled
from simulator.units import Bytes, Nanos
from simulator.wording import counted, repr_of

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster

PS_PER_NS = 1000
_NO_BOUND = np.iinfo(np.int64).max


class Pace(NamedTuple):
    """The time of a transfer that waits for nothing: the wires, and the work of the processors at both ends."""

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
class Routes:
    """A hand-over within a process is a route without links. Axes: W routes, L links, D devices."""

    of: Ids  # [D, D] row of the route; -1: no route, or the device itself
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

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.latency_ns), "route"), counted(len(self.link_names), "link"))

    @cached_property
    def disciplines(self) -> dict[str, Discipline]:
        """Results of `discipline`, by contention: the plans of a search are simulated on the same routes."""
        return {}

    @cached_property
    def paces(self) -> tuple[Ids, tuple[Pace | None, ...]]:
        """[D, D] the row of the pace between two devices, and the different paces, which are few; None: no route."""
        work = (self.send_ns, self.receive_ns, self.send_ps_per_byte, self.receive_ps_per_byte)
        columns = (self.latency_ns, self.bytes_per_s, *work, self.send_cores, self.receive_cores)
        rows: dict[tuple[int, ...], int] = {}
        of_way = [rows.setdefault(row, len(rows)) for row in zip(*(column.tolist() for column in columns), strict=True)]
        of = np.array([*of_way, len(rows)], np.int64)[self.of]  # the last is that of -1
        np.fill_diagonal(of, len(rows) + 1)
        return ids(of), (*(Pace(*row) for row in rows), None, AT_ONCE)


@dataclass(frozen=True, eq=False)
class Discipline:
    """The use that transfers of each route make of its links. Axes: W routes."""

    held: tuple[tuple[int, ...], ...]  # [W] links that one transfer at a time has to itself while its bytes pass
    shared: tuple[tuple[int, ...], ...]  # [W] links that all transfers on them share
    cap: tuple[int, ...]  # [W] what the other links let each of those have, bytes per second; 0: no bound
    flows: Flags  # [W] some link is shared

    @cached_property
    def held_ptr(self) -> Ids:
        """[W+1] where the held links of each route begin among `held_link`."""
        return pointers_of(self.held)

    @cached_property
    def held_link(self) -> Ids:
        """The held links of all routes, one route after the other."""
        return ids(chain.from_iterable(self.held))


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
    return pace.latency_ns + wire + lanes + outside_lanes_ns(fixed, works, cores, wire)


def routes_of(cluster: Cluster) -> Routes:
    """Number the routes in order of (source, target); their columns say what `Cluster` says of each pair."""
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
            if taken is None or source == target
            else rows.setdefault(
                (taken, (sends[source], receives[target]) if taken and task[target] != mine else None), len(rows)
            )
            for target, taken in enumerate(row)
        ]
        for source, (mine, row) in enumerate(zip(task, cluster.routes, strict=True))
    ]
    links = tuple(taken for taken, _ in rows)
    route = np.repeat(np.arange(len(rows)), [len(taken) for taken in links])
    link = np.fromiter(chain.from_iterable(links), np.int64, len(route))
    speed = ints([link.bytes_per_s for link in cluster.links])
    latency, rate = np.zeros(len(rows), np.int64), np.full(len(rows), _NO_BOUND)
    np.add.at(latency, route, ints([link.latency_ns for link in cluster.links])[link])
    np.minimum.at(rate, route, speed[link])
    cores = [cores or (1, 1) for _, cores in rows]
    by_protocol = np.array([cores is not None for _, cores in rows], bool)  # by the protocol between tasks
    handed_over = np.array([not taken for taken in links], bool)
    return Routes(
        of=ids(np.array(of).reshape(len(cluster), len(cluster))),
        links=links,
        latency_ns=ints(latency + handed_over * cluster.handover_ns + by_protocol * protocol.latency_ns),
        bytes_per_s=ints(np.where(handed_over, 0, rate)),
        request_ns=ints(by_protocol * protocol.request_ns),
        send_ns=ints(by_protocol * protocol.send_ns),
        receive_ns=ints(by_protocol * protocol.receive_ns),
        send_ps_per_byte=ints(by_protocol * protocol.send_ps_per_byte),
        receive_ps_per_byte=ints(by_protocol * protocol.receive_ps_per_byte),
        send_cores=ints([send for send, _ in cores]),
        receive_cores=ints([receive for _, receive in cores]),
        link_names=tuple(link.name for link in cluster.links),
        link_bytes_per_s=speed,
        link_contention=tuple(link.contention for link in cluster.links),
    )


def discipline(routes: Routes, contention: str) -> Discipline:
    """Apply the simulation's contention to the links that have none of their own.

    Raises ClusterError for a route on which one link serves in turn and another is shared: what the first would let
    through depends on what the second leaves.
    """
    found = routes.disciplines.get(contention)
    if found is None:
        found = routes.disciplines[contention] = _discipline(routes, contention)
    return found


def _discipline(routes: Routes, contention: str) -> Discipline:
    of_link = [own or contention for own in routes.link_contention]
    nothing: tuple[tuple[int, ...], ...] = ((),) * len(routes.links)
    if len(set(of_link)) <= 1:  # of a large cluster the routes are millions
        alike = of_link[0] if of_link else "none"
        all_held, all_shared = (routes.links if alike == one else nothing for one in ("serial", "fair"))
        return Discipline(all_held, all_shared, (0,) * len(routes.links), flags([bool(links) for links in all_shared]))
    held = [tuple(link for link in links if of_link[link] == "serial") for links in routes.links]
    shared = [tuple(link for link in links if of_link[link] == "fair") for links in routes.links]
    for waits, flows in zip(held, shared, strict=True):
        if waits and flows:
            raise _mixed(routes, waits[0], flows[0])
    rates = routes.link_bytes_per_s.tolist()
    cap = [
        min((rates[link] for link in links if link not in flows), default=0) if flows else 0
        for links, flows in zip(routes.links, shared, strict=True)
    ]
    return Discipline(tuple(held), tuple(shared), tuple(cap), flags([bool(flows) for flows in shared]))


def shared_links(routes: Routes, rule: Discipline) -> SharedLinks:
    """The shared links of all routes, as the loop reads them."""
    link = list(chain.from_iterable(rule.shared))
    users = np.bincount(np.array(link, np.int64), minlength=len(routes.link_names))
    found: SharedLinks = filled(
        SharedLinks,
        link_ptr=pointers_of(rule.shared),
        link=link,
        user_ptr=np.append(0, np.cumsum(users)),
        cap=rule.cap,
        capacity=routes.link_bytes_per_s,
    )
    return found


def _mixed(routes: Routes, serial: int, fair: int) -> ClusterError:
    """The error for two links of one route; the simulation can mend it where it speaks for one of them."""
    asks = [link for link in (serial, fair) if routes.link_contention[link] is not None]
    if len(asks) == 2:
        advice = "Give them one contention."
    else:
        name, said = routes.link_names[asks[0]], routes.link_contention[asks[0]]
        advice = f"Simulate with the contention {said!r}, as {name!r} says itself, or let the other say it, too."
    return ClusterError(
        f"Link {routes.link_names[serial]!r} is serial and {routes.link_names[fair]!r} is shared fairly, but one route "
        f"leads over both. {advice}"
    )
