"""Lower bounds on the makespan of a step: no assignment and no order can be faster.

    path     the longest chain of ops and of transfers between them (`heads`)
    work     what a class of devices, or several together, must do within a stretch of the step (`loads`)
    bytes    what must cross a link
    memory   the least time of a path whose stretches have to fit devices (`loads`): of placements that fit
    prices   what ops and transfers together take of devices and links, also around one op (`demands`, `prices`)

All take an op at its fastest among the devices that it may use, and a transfer as if nothing were in its way. Prices
need minimum cuts, which machine code finds (`cuts`, `flow`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.assignment import Bound as Bound
from simulator.bounds.classes import Classes, apart_ns, changes_ns, classes_of, gates, leaves_ns
from simulator.bounds.demands import BoundFacts, priced_bound
from simulator.bounds.heads import Predecessors, Room, heads
from simulator.bounds.loads import Load, PathSteps, filling_bound, link_bound, work_bound
from simulator.columns import Flags, Ints, alike, stable_order, topological
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.units import NEVER, Nanos
from simulator.wording import shortened, some

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.execution.preparing import Prepared
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step
    from simulator.placer.constraints import Constraints

DEPTH = 64  # the most ancestors of each op that are looked at
_LOOKS = 12_000  # at ancestors, by default: more take the plain functions longer than the rest


def lower_bound(
    graph: Graph,
    cluster: Cluster,
    costs: CostTable,
    *,
    step: Step,
    prepared: Prepared | None = None,
    constraints: Constraints | None = None,
    options: SimulationOptions = SimulationOptions(contention="none"),
) -> Nanos:
    """A time in ns below which no placement brings the step: the longest path, the work of devices, bytes on a link.

    Every op takes its time on the fastest device that it may use. It may use any with a kernel, or with `constraints`,
    as of `simulator.placer.constraints.constrain`, those of its group. `options` are those of `simulate`. Under the
    contention "none", the default here, no bytes wait for a link, so the bound holds for every contention. The options
    under which the step is simulated may bring a higher one. `prepared` is the result of `prepare` for the same values,
    where the caller has it already. The summary's bound has both, and those by prices, so it may be much higher. Raises
    what `prepare` raises.
    """
    return bound(graph, cluster, costs, step=step, prepared=prepared, constraints=constraints, options=options).ns


def bound(
    graph: Graph,
    cluster: Cluster,
    costs: CostTable,
    *,
    step: Step,
    prepared: Prepared | None = None,
    constraints: Constraints | None = None,
    options: SimulationOptions = SimulationOptions(contention="none"),
    depth: int | None = None,
    compiled: bool = False,
) -> Bound:
    """The largest of the bounds, by the arguments of `lower_bound`.

    `depth` ancestors of each op are looked at; by default DEPTH in small graphs and fewer in larger ones. With
    `compiled` machine code looks at DEPTH of them in any graph, and bounds by prices count, too. `fitting` of the
    result is the bound of placements whose memory suffices, where that is larger.
    """
    if prepared is None:
        prepared = prepare(graph, step, cluster, costs, options)
    prepared.check(graph, cluster)
    tables = prepared.tables
    if not len(tables):
        return Bound(0, "nothing to do")
    if depth is None:
        depth = DEPTH if compiled else min(DEPTH, _LOOKS // len(tables))
    classes = classes_of(cluster, prepared, constraints)
    apart, forced = apart_ns(classes)
    edges = _edges(classes)
    starts, ends = (
        _heads(classes, edges, apart, forced, depth, turned=turned, compiled=compiled) for turned in (False, True)
    )
    able = classes.run_ns >= 0
    run = np.where(able, classes.run_ns, 0)
    through = np.where(able, starts + run + ends, NEVER).min(axis=1)
    head = np.where(able, starts, NEVER).min(axis=1).astype(np.float64)
    tail = np.where(able, ends, NEVER).min(axis=1).astype(np.float64)
    sound = through < NEVER
    found = [Bound(int(through[sound].max(initial=0)), "the longest path")]
    work = work_bound(classes, np.where(sound, head, 0), np.where(sound, tail, 0))
    found.append(Bound(work.ns, f"the work of {_devices(cluster, classes, work)}"))
    crossing = np.flatnonzero((forced > 0) & (forced < NEVER) & ~edges.gate)
    made = np.where(able, starts + run, NEVER).min(axis=1)[tables.tensor_op[tables.edge_tensor]]
    after = np.where(able, run + ends, NEVER).min(axis=1)[tables.consumer]
    load = link_bound(
        classes, crossing, options.contention, made[crossing].astype(np.float64), after[crossing].astype(np.float64)
    )
    names = ", ".join(tables.routes.link_names[link] for link in load.whose)
    found.append(Bound(load.ns, f"the bytes on {names}"))
    if compiled:
        priceable = BoundFacts(classes, _groups(prepared, constraints), edges.gate, starts, ends, options.contention)
        priced = priced_bound(priceable, max(one.ns for one in found))
        around = "together" if priced.barrier < 0 else f"before and after {shortened(tables.names[priced.barrier])}"
        found.append(Bound(priced.ns, f"ops and transfers {around}"))
    best = max(found, key=lambda one: one.ns)  # the first of equals
    group = _groups(prepared, constraints)
    filled = Bound(filling_bound(_steps(classes, edges, group, cluster)), "the longest path, which memory cuts")
    return replace(best, fitting=filled) if filled.ns > best.ns else best


def _steps(classes: Classes, edges: _Edges, group: Ints, cluster: Cluster) -> PathSteps:
    """The ops of a step for the bound by memory. Each CPU may have a copy of a small constant, so that is free."""
    tables, kept = classes.tables, ~edges.gate
    copied = tables.replicable[tables.edge_tensor]
    room_bytes = np.zeros(len(classes.lanes), np.int64)
    np.maximum.at(room_bytes, classes.of, np.array([device.memory_bytes for device in cluster.devices], np.int64))
    held_bytes = np.zeros(int(group.max(initial=0)) + 1, np.int64)
    np.add.at(held_bytes, group, tables.resident_bytes)
    return PathSteps(
        order=edges.order,
        source=edges.source[kept],
        target=edges.target[kept],
        size=np.where(copied, len(edges.changes_ns) - 1, edges.size)[kept],
        changes_ns=edges.changes_ns,
        leaves_ns=edges.leaves_ns,
        run_ns=classes.run_ns,
        held_bytes=held_bytes[group],
        group=group,
        room_bytes=room_bytes,
    )


def _groups(prepared: Prepared, constraints: Constraints | None) -> Ints:
    """[n] the group of each op: those of one group are on one device.

    An op is alone with its iterations where nothing is known, where the cut moves it, and where the client has it.
    """
    tables = prepared.tables
    node = tables.node.astype(np.int64)
    apart = np.isin(node, [moved for moved, _ in prepared.moves]) | (tables.bound >= 0) | (constraints is None)
    group = node if constraints is None else constraints.group[node].astype(np.int64)
    _, found = alike(np.where(apart, node, -1), np.where(apart, tables.bound, group), apart.astype(np.int64))
    return found.astype(np.int64)


def _devices(cluster: Cluster, classes: Classes, load: Load) -> str:
    """The devices of a bound by work, in few words."""
    rows = np.flatnonzero(np.isin(classes.of, load.whose)).tolist()
    if len(rows) == len(cluster):
        return "all devices"
    return some([cluster.devices[row].short for row in rows], 2)


class _Edges(NamedTuple):
    """The edges of a step, E of them, and what a value costs that changes classes, by its size; K classes."""

    source: Ints  # [E] op
    target: Ints  # [E] op
    gate: Flags  # [E] as of `gates`
    size: Ints  # [E] row of `changes_ns`
    changes_ns: Ints  # [sizes, K, K]; the last row is of values that are free everywhere
    leaves_ns: Ints  # [sizes, K]
    order: Ints  # [n] the ops, each after all whose values it reads


def _edges(classes: Classes) -> _Edges:
    tables, count = classes.tables, len(classes.lanes)
    source, target = tables.tensor_op[tables.edge_tensor].astype(np.int64), tables.consumer.astype(np.int64)
    nbytes, way = tables.tensor_bytes[tables.edge_tensor], tables.way
    first, size = alike(nbytes, way)
    each = list(zip(nbytes[first].tolist(), way[first].tolist(), strict=True))
    changes = np.array(changes_ns(classes, each), np.int64).reshape(len(each), count, count)
    changes = np.concatenate([changes, np.zeros((1, count, count), np.int64)])
    leaves = np.array([*leaves_ns(classes, each), [0] * count], np.int64)
    size = np.where(tables.unsent[tables.edge_tensor], len(each), size)
    return _Edges(source, target, gates(tables), size, changes, leaves, _order(len(tables), source, target))


def _heads(
    classes: Classes,
    edges: _Edges,
    apart: Ints,
    forced: Ints,
    depth: int,
    *,
    turned: bool,
    compiled: bool,
) -> Ints:
    """[n, K] the least time before the start of each op on each class; turned around, after its end."""
    n, count = len(classes.tables), len(classes.lanes)
    source, target, gate, size, changes, _, order = edges
    kept = np.flatnonzero(~gate) if turned else np.arange(len(target))
    if turned:
        source, target, changes, order = target, source, changes.transpose(0, 2, 1), order[::-1]
    kept = kept[stable_order(target[kept])]
    gated = np.zeros(len(target), bool) if turned else gate
    waits = Predecessors(
        order=order,
        first=np.searchsorted(target[kept], np.arange(n + 1)),
        op=source[kept],
        size=size[kept],
        gate=gated[kept].astype(np.int64),
        apart_ns=apart[kept],
        forced_ns=forced[kept],
        change_ns=changes.reshape(-1),
        run_ns=classes.run_ns.reshape(-1),
        lanes=classes.widest,
    )
    lengths = (n * count, n * count, n, n, n, n, n, n, n, depth, depth, depth, depth)
    if compiled:
        from simulator.bounds.compiled import find_heads  # late: it loads LLVM

        room = Room(*(np.full(length, -1) for length in lengths))  # -1: no op has met another yet
        find_heads(Predecessors(*(np.array(column, np.int64, order="C") for column in waits)), room, depth)
    else:
        room = Room(*([-1] * length for length in lengths))  # type: ignore[arg-type]  # it runs over lists, too
        heads(Predecessors(*(column.tolist() for column in waits)), room, depth)
    return np.array(room.start_ns, np.int64).reshape(n, count)


def _order(n: int, source: Ints, target: Ints) -> Ints:
    """[n] the ops, each after all whose values it reads."""
    return np.arange(n) if (source < target).all() else np.array(topological(source, target, n), np.int64)
