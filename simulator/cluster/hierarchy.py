"""Routes by hierarchy: from a device to its host's memory, to the network of its rack, and to the other racks.

    s ── memory ──┬── network of the rack ──┬── racks        a route goes up from s to the first level that both
    t ── memory ──┘                         │                ends reach, and down from there to t
    u ── memory ── network of the rack ─────┘

A table of all pairs grows with the square of the devices. This grows with the devices and, inside a host, with the
pairs of GPUs that have wires of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import NamedTuple, TypeAlias, overload

from simulator.wording import counted, repr_of

Route: TypeAlias = tuple[int, ...]  # distinct links in order

NOWHERE = -1  # the host of a device whose transfers take no link


class LevelRoutes(NamedTuple):
    """The links between a device and each level, all those below it included; () where nothing is crossed."""

    memory: Route
    network: Route
    racks: Route


@dataclass(frozen=True, slots=True)
class Position:
    """The task, the host and the rack of a device as numbers; the links up from it, in order, and those down to it."""

    task: int
    host: int  # NOWHERE: all its routes are hand-overs
    rack: int  # -1: in no rack
    up: LevelRoutes
    down: LevelRoutes


@dataclass(frozen=True)
class Hierarchy(Sequence[Sequence[Route | None]]):
    """The route of each ordered pair of devices, made when it is asked for: `[source][target]`. Axis: D devices."""

    positions: tuple[Position, ...]  # [D]
    loopback: Mapping[int, int]  # link between the tasks of a host, by the host
    direct: Mapping[tuple[int, int], Route]  # of pairs within one task that have wires of their own

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self), "device"))

    def between(self, source: int, target: int) -> Route:
        """The links from `source` to `target`, two rows of devices."""
        a, b = self.positions[source], self.positions[target]
        if source == target or NOWHERE in (a.host, b.host):
            return ()
        if a.host != b.host:
            level = 1 if a.rack == b.rack else 2
            return a.up[level] + b.down[level]
        if a.task == b.task:
            found = self.direct.get((source, target))
            return a.up.memory + b.down.memory if found is None else found
        # two GPUs behind one half-duplex switch use its uplink in both directions: it is one link, listed once
        return tuple(dict.fromkeys((*a.up.memory, self.loopback[a.host], *b.down.memory)))

    def crossed(self) -> set[int]:
        """All links of its devices and hosts."""
        routes = (levels.racks for one in self.positions for levels in (one.up, one.down))
        return {*chain.from_iterable(routes), *self.loopback.values(), *chain.from_iterable(self.direct.values())}

    def take(self, rows: Sequence[int]) -> Hierarchy:
        """The routes among these devices, distinct rows, in this order."""
        new = {row: place for place, row in enumerate(rows)}
        positions = tuple(self.positions[row] for row in rows)
        hosts = {one.host for one in positions}
        return Hierarchy(
            positions,
            {host: link for host, link in self.loopback.items() if host in hosts},
            {(new[a], new[b]): route for (a, b), route in self.direct.items() if a in new and b in new},
        )

    def renumber(self, new: Mapping[int, int]) -> Hierarchy:
        """The same routes after its links got new numbers: `new` has one for each that is crossed."""

        def renumbered(old: LevelRoutes) -> LevelRoutes:
            return LevelRoutes(*(tuple(new[link] for link in route) for route in old))

        return Hierarchy(
            tuple(replace(one, up=renumbered(one.up), down=renumbered(one.down)) for one in self.positions),
            {host: new[link] for host, link in self.loopback.items()},
            {pair: tuple(new[link] for link in route) for pair, route in self.direct.items()},
        )

    def with_client(self) -> Hierarchy:
        """The same with one more device, the last, to which and from which all routes are hand-overs."""
        none = LevelRoutes((), (), ())
        return replace(self, positions=(*self.positions, Position(-1, NOWHERE, -1, none, none)))

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, source: int) -> RouteRow: ...

    @overload
    def __getitem__(self, source: slice) -> tuple[RouteRow, ...]: ...

    def __getitem__(self, source: int | slice) -> RouteRow | tuple[RouteRow, ...]:
        rows = range(len(self))[source]
        return RouteRow(self, rows) if isinstance(rows, int) else tuple(RouteRow(self, row) for row in rows)


@dataclass(frozen=True)
class RouteRow(Sequence["Route | None"]):
    """The routes from one device to each, itself included."""

    of: Hierarchy
    source: int

    def __len__(self) -> int:
        return len(self.of)

    @overload
    def __getitem__(self, target: int) -> Route: ...

    @overload
    def __getitem__(self, target: slice) -> tuple[Route, ...]: ...

    def __getitem__(self, target: int | slice) -> Route | tuple[Route, ...]:
        found = range(len(self))[target]
        if isinstance(found, int):
            return self.of.between(self.source, found)
        return tuple(self.of.between(self.source, one) for one in found)

    def __iter__(self) -> Iterator[Route]:
        return (self.of.between(self.source, target) for target in range(len(self)))


def crossed(routes: Sequence[Sequence[Route | None]]) -> set[int]:
    """The links on which a route of the cluster may lead; of a Hierarchy all those of its devices."""
    if isinstance(routes, Hierarchy):
        return routes.crossed()
    return set(chain.from_iterable(filter(None, chain.from_iterable(routes))))


def telling_pairs(routes: Sequence[Sequence[Route | None]]) -> list[tuple[int, int]]:
    """Pairs of different devices whose routes show of each link whether one or several devices, or tasks, use it.

    Of a table these are all pairs. Of a Hierarchy they are those within a host, and those between each device and a few
    others. The others are of two hosts of its rack, two of another rack and two of a third one. They grow with the
    devices.
    """
    every = range(len(routes))
    if not isinstance(routes, Hierarchy):
        return [(source, target) for source in every for target in every if source != target]
    of_host: dict[int, list[int]] = {}
    hosts: dict[int, dict[int, None]] = {}  # of each rack, in order
    for row, one in enumerate(routes.positions):
        if one.host != NOWHERE:
            of_host.setdefault(one.host, []).append(row)
            hosts.setdefault(one.rack, {})[one.host] = None
    some = {rack: list(islice(inside, 3)) for rack, inside in hosts.items()}  # one of them may be a device's own
    first = list(islice(some, 3))
    found: dict[tuple[int, int], None] = {}
    for row, one in enumerate(routes.positions):
        if one.host == NOWHERE:
            continue
        beside = [host for host in some[one.rack] if host != one.host]
        outside = [host for rack in first if rack != one.rack for host in some[rack]]
        near = of_host[one.host].copy()
        for host in (*beside, *outside):
            near += {of_host[host][0]: None, of_host[host][-1]: None}
        for other in near:
            if other != row:
                found[row, other] = found[other, row] = None
    return list(found)
