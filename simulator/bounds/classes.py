"""Classes of devices that a bound need not tell apart, the least times within and between them, and what those take.

Two devices are of one class if they are of one kind and no set of allowed devices holds one of them alone. So a group
that may use one of them may use both, at equal speed. A value that stays within a class takes no time, for the two
devices may be the same one. Only where it goes to the other memory of a GPU, it takes time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.bounds.prices import Use, Uses
from simulator.columns import Flags, Ids, Ints, alike, flags, ids, ints, positions
from simulator.execution.discipline import discipline
from simulator.execution.routes import Pace, Ways, alone_ns
from simulator.units import NEVER, Bytes, Nanos

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.cluster.cluster import Cluster
    from simulator.execution.preparing import Prepared
    from simulator.execution.routes import Routes
    from simulator.execution.tables import Tables
    from simulator.placer.constraints import Constraints

_PS_PER_S = 10**12
_MOST = 12  # classes; the time of a path grows with their square


@dataclass(frozen=True, eq=False)
class Classes:
    """Axes: n ops, K classes, D devices, S different sets of allowed devices."""

    tables: Tables
    task: Ids  # [D]
    set_of: Ids  # [n] the devices that each op may use, row of `may`
    may: Flags  # [S, D]
    of: Ids  # [D] class of each device
    run_ns: Ints  # [n, K] -1: not there; an op that may run nowhere takes no time anywhere
    lanes: Ints  # [K] of all its devices
    widest: Ints  # [K] of the device with the most

    def members(self, row: int) -> npt.NDArray[np.intp]:
        """The devices of a class."""
        return np.flatnonzero(self.of == row)


def classes_of(cluster: Cluster, prepared: Prepared, constraints: Constraints | None) -> Classes:
    """The classes of a step's devices. Without constraints each op may run wherever it has a kernel."""
    tables = prepared.tables
    set_of, may = _sets(prepared, constraints, len(cluster))
    kind_ns = tables.kind_ns
    _, of = alike(tables.kind, *may)
    if of.max() >= _MOST:
        of = _fewer(of, tables.kind, may, set_of)
    count = int(of.max()) + 1
    run_ns = np.full((len(tables), count), -1, np.int64)
    for row in range(count):
        there = np.flatnonzero(of == row)
        usable = np.array(may[:, there].any(axis=1))
        run_ns[:, row] = np.where(usable[set_of], kind_ns[:, tables.kind[there[0]]], -1)
    run_ns[(run_ns < 0).all(axis=1)] = 0
    lanes = np.bincount(of, tables.lanes, count)
    widest = np.zeros(count, np.int64)
    np.maximum.at(widest, of, tables.lanes)
    return Classes(tables, ids(cluster.task_of), ids(set_of), may, ids(of), run_ns, ints(lanes), ints(widest))


def _sets(prepared: Prepared, constraints: Constraints | None, devices: int) -> tuple[Ints, Flags]:
    """[n] the set of devices of each op, and [S, D] what is in it.

    The first is that of all devices: of control flow that the cut moves, and of all ops where nothing is known.
    """
    tables = prepared.tables
    sets: dict[tuple[int, ...], int] = {tuple(range(devices)): 0}
    set_of = np.zeros(len(tables), np.int64)
    if constraints is not None:
        of_group = np.array([sets.setdefault(tuple(sorted(allowed)), len(sets)) for allowed in constraints.allowed])
        set_of = of_group[constraints.group][tables.node] if len(tables) else set_of
        set_of[np.isin(tables.node, [node for node, _ in prepared.moves])] = 0
    for op in np.flatnonzero(tables.bound >= 0).tolist():
        set_of[op] = sets.setdefault((int(tables.bound[op]),), len(sets))
    may = np.zeros((len(sets), devices), bool)
    for allowed, row in sets.items():
        may[row, list(allowed)] = True
    return set_of, may


def _fewer(of: Ints, kind: Ids, may: Flags, set_of: Ints) -> Ints:
    """The same with the classes in which few ops are confined made one per kind."""
    sizes = np.bincount(set_of, minlength=len(may))
    confined = np.zeros(int(of.max()) + 1, np.int64)
    for row, allowed in enumerate(may):
        inside = np.unique(of[allowed])
        if len(inside) == 1:
            confined[inside[0]] += sizes[row]
    kinds = len(np.unique(kind))
    kept = np.argsort(-confined, kind="stable")[: max(_MOST - kinds, 0)]
    number = positions(kept, len(confined))
    _, merged = alike(np.where(number[of] >= 0, number[of], len(kept) + kind))
    return merged


# --- transfers --------------------------------------------------------------------------------------------------------


def changes_ns(classes: Classes, values: Sequence[tuple[Bytes, int]]) -> list[list[list[Nanos]]]:
    """[value][to][from] the least time between classes of a value of that size, packed and unpacked.

    The second number of a value is its way (`Tables.way`). A master's cut sends a value to one device of a task, which
    hands it on from the memory in which it arrived. So a route by a third class may be faster.
    """
    rows, ways = range(len(classes.lanes)), classes.tables.ways
    members = [classes.members(row) for row in rows]
    several = [len(np.unique(classes.task[one])) > 1 for one in members]
    between, within = [], []  # of each way the paces from class to class, and of what stays on one device
    for of in ways.pace:
        between.append([[_paces(of[np.ix_(one, to)], ways, apart=one is to) for one in members] for to in members])
        within.append([_paces(np.diagonal(of)[one], ways) for one in members])
    times: dict[tuple[frozenset[Pace], Bytes], Nanos] = {}

    def least(paces: frozenset[Pace], size: Bytes) -> Nanos:
        if (paces, size) not in times:
            times[paces, size] = min((alone_ns(pace, size) for pace in paces), default=NEVER)
        return times[paces, size]

    changes = []
    for size, way in values:
        onward = between[-1 if way % 2 else 0]  # made where it is read
        stays = [least(one, size) for one in within[way]]
        first = [[least(between[way][to][of], size) for of in rows] for to in rows]
        then = [[0 if to == of else least(onward[to][of], size) for of in rows] for to in rows]
        for row in rows:
            first[row][row] = min(first[row][row], stays[row])
        through = [[min(first[by][of] + then[to][by] for by in rows) for of in rows] for to in rows]
        for row in rows:
            if not several[row]:  # within a task nothing comes back
                through[row][row] = first[row][row]
        changes.append([[min(ns, NEVER) for ns in row] for row in through])
    return changes


def leaves_ns(classes: Classes, values: Sequence[tuple[Bytes, int]]) -> list[list[Nanos]]:
    """[value][class] the least time between two different devices of a class; NEVER where it has one alone.

    A value that is handed on has crossed to the other's task at least.
    """
    ways, task = classes.tables.ways, classes.task
    of_class = []
    for row in range(len(classes.lanes)):
        mine = classes.of == row
        there = (mine[:, None] & mine[None]) & ~np.eye(len(mine), dtype=bool)
        there |= mine[:, None] & np.isin(task, task[mine])[None] & (task[:, None] != task[None])
        of_class.append([_paces(of[there], ways) for of in ways.pace])
    return [
        [min((alone_ns(pace, size) for pace in paces[way]), default=NEVER) for paces in of_class]
        for size, way in values
    ]


def _paces(of: Ids, ways: Ways, *, apart: bool = False) -> frozenset[Pace]:
    """The different paces of these rows; with `apart` without those from a device to itself."""
    rows = np.unique(of[~np.eye(len(of), dtype=bool)] if apart else of).tolist()
    return frozenset(pace for row in rows if (pace := ways.paces[row]) is not None)


def apart_ns(classes: Classes) -> tuple[Ints, Ints]:
    """[E] the least time of each edge's value if its ends are on different devices, and in any case.

    The second is 0 where both ends may be on one device. A value that is handed on has crossed to the other's task at
    least.
    """
    tables, device_of = classes.tables, np.arange(len(classes.task))
    ways, way, tensor = tables.ways, tables.way, tables.edge_tensor
    free = tables.unsent[tensor]
    source, target = classes.set_of[tables.tensor_op[tensor]], classes.set_of[tables.consumer]
    size = tables.tensor_bytes[tensor]
    first, which = alike(source, target, size, way)
    least, forced = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    paces: dict[tuple[int, int, int], frozenset[Pace]] = {}
    rows = zip(*(column[first].tolist() for column in (source, target, way, size)), strict=True)
    for row, (here, there, by, nbytes) in enumerate(rows):
        if (here, there, by) not in paces:
            near = classes.may[there][None] & (device_of[:, None] != device_of[None])
            tasks = np.isin(classes.task, classes.task[classes.may[there]])
            near |= tasks[None] & (classes.task[:, None] != classes.task[None])
            paces[here, there, by] = _paces(ways.pace[by][near & classes.may[here][:, None]], ways)
        least[row] = min((alone_ns(pace, nbytes) for pace in paces[here, there, by]), default=NEVER)
        forced[row] = 0 if (classes.may[here] & classes.may[there]).any() else least[row]
    return ints(np.where(free, 0, least[which])), ints(np.where(free, 0, forced[which]))


# --- between two halves -----------------------------------------------------------------------------------------------


def uses_between(classes: Classes, split: Ints, far: Flags, contention: str) -> tuple[int, Uses]:
    """How many links there are, and how a value goes to the far half and back: its uses by each pair of classes.

    `split` and `far` are [D]. Links are numbered after the classes: one may stand for several that serve a device each.
    """
    routes = classes.tables.routes
    busy = discipline(routes, contention).contended
    links, found = 0, []
    for there in (far, ~far):
        source, target = np.flatnonzero(~there), np.flatnonzero(there)
        route = routes.between(*np.meshgrid(source, target, indexing="ij")).astype(np.int64)
        on_links = []
        for of in (route, route.T):
            if bytes_per_s := _rate(routes, of, busy):
                on_links.append(Use(int(split.max()) + 1 + links, 0, _PS_PER_S / bytes_per_s))
                links += 1
        pairs = product(np.unique(split[source]).tolist(), np.unique(split[target]).tolist())
        by = [_lanes(classes, split, route, (source, target), pair) for pair in pairs]
        found.append(tuple(dict.fromkeys((*lanes, *on_links) for lanes in by if lanes is not None)) or ((),))
    return links, (found[0], found[1])


def _rate(routes: Routes, route: Ints, busy: Flags) -> int:
    """Bytes per second of links, one for each row of routes, that all routes of that row lead over; 0: not for each."""
    chosen = set()
    for row in route:
        rows = np.unique(row[row >= 0])
        if len(rows):
            met = np.bincount(routes.links.at(rows).item, minlength=len(busy)) == len(rows)
            sure = np.flatnonzero(met & busy)
            if not len(sure):
                return 0
            chosen.add(int(sure[routes.link_bytes_per_s[sure].argmin()]))
    return sum(int(routes.link_bytes_per_s[link]) for link in chosen)


def _lanes(
    classes: Classes, split: Ints, route: Ints, ends: tuple[Ints, Ints], pair: tuple[int, int]
) -> tuple[Use, ...] | None:
    """The least time of lanes for a value from a device of one class to one of another; None: there is no route."""
    tables, routes = classes.tables, classes.tables.routes
    inside = [split[end] == of for end, of in zip(ends, pair, strict=True)]
    between, (source, target) = route[np.ix_(*inside)], (end[of] for end, of in zip(ends, inside, strict=True))
    at, _ = np.nonzero(between >= 0)
    pace = routes.pace[between[between >= 0]]
    if not len(pace):
        return None
    copied = routes.dispatched[pace]
    found = [Use(pair[0], int((copied * tables.dispatch_ns[source[at]]).min()), 0.0)]
    for some, work, per_byte, cores in (
        (source, routes.send_ns, routes.send_ps_per_byte, routes.send_cores),
        (target, routes.receive_ns, routes.receive_ps_per_byte, routes.receive_cores),
    ):
        homes = np.unique(split[tables.home[some]])
        each = ~copied * work[pace] // cores[pace], ~copied * per_byte[pace] / cores[pace]
        if len(homes) == 1:
            found.append(Use(int(homes[0]), int(each[0].min()), float(each[1].min())))
    return tuple(use for use in found if use.fixed_ns or use.ps_per_byte)


def gates(tables: Tables) -> Flags:
    """[E] the data inputs of Merges that have several: such a Merge waits for the first of them alone."""
    many = np.bincount(tables.consumer[tables.gate], minlength=len(tables)) > 1
    return flags(tables.gate & many[tables.consumer])
