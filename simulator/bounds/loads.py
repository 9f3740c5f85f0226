"""Bounds by work on classes of devices, and by bytes on links, within a stretch of the step; and by memory on a path.

Each piece of work has a head, before which it can't begin, and a tail, which follows its end. Pieces with heads of a
or more and tails of b or more are done between a and b from the end. So a + b + their work over all that can do it is a
bound. This is the energetic argument of Erschler, Lopez and Thuriot (1991), over heads and tails alone.

Where classes differ in speed, work is shared between them by a linear program. Its dual gives each class a price; the
prices of all lanes together are 1. An op then counts with its cheapest class, and any prices give a bound.

    path      a  b  c │ d  e │ f  g          each op with what stays resident with its group
    device    GPU:0   │ GPU:1│ CPU:0         a value that leaves its device takes its time

A model that is larger than any device has to cross from one to another somewhere on its way. A path is cut into
stretches that fit. The least time over all ways to do so is a bound for each placement whose memory suffices. A device
counts as empty again in each stretch, and what is beside the path counts nothing.
"""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Floats, Ints, alike
from simulator.execution.discipline import discipline
from simulator.units import NEVER, Nanos

if TYPE_CHECKING:
    from simulator.bounds.classes import Classes

_TAILS = 24  # thresholds of tails that are tried; all heads are
_ROUNDS = 6  # of the search for prices
_STEPS = (0.01, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95, 1.05, 1.15, 1.4, 2.0, 3.0, 10.0, 100.0)
_PULLS = (0, 1, 16)  # how much bytes count in the choice of a path: for a full device, so many mean crossings


class Load(NamedTuple):
    """A bound by what must be done."""

    ns: Nanos
    whose: tuple[int, ...]  # the classes or the link that have to do it


def work_bound(classes: Classes, head_ns: Floats, tail_ns: Floats) -> Load:
    """The best bound over stretches and some prices: of each class alone, of all, and of the best found for all.

    `head_ns` and `tail_ns` are [n].
    """
    busy = np.flatnonzero((classes.run_ns > 0).any(axis=1))
    if not len(busy):
        return Load(0, ())
    run = np.where(classes.run_ns[busy] < 0, np.inf, classes.run_ns[busy].astype(np.float64))
    first, which = alike(*np.where(classes.run_ns[busy] < 0, NEVER, classes.run_ns[busy]).T)
    rows, counts = run[first], np.bincount(which).astype(np.float64)
    lanes = classes.lanes.astype(np.float64)
    tried: list[Floats] = [*np.eye(len(lanes)), *_sides(rows), np.ones(len(lanes))]
    tried.append(_prices(rows, counts, lanes, tried))
    best = Load(0, ())
    for price in tried:
        share = price / (price * lanes).sum()
        ns = _stretch(_cheapest(run, share), head_ns[busy], tail_ns[busy])
        if ns > best.ns:
            best = Load(ns, tuple(np.flatnonzero(share * lanes > 0.01).tolist()))
    return best


def _sides(rows: Floats) -> list[Floats]:
    """Equal prices for the classes to which some ops are confined."""
    return [side.astype(np.float64) for side in np.unique(~np.isinf(rows), axis=0)]


def _prices(rows: Floats, counts: Floats, lanes: Floats, starts: list[Floats]) -> Floats:
    """Prices that make the work of all ops the most that a search by coordinates finds."""

    def value(price: Floats) -> float:
        return float((_cheapest(rows, price / (price * lanes).sum()) * counts).sum())

    price = np.maximum(max(starts, key=value), 1e-6)
    best = value(price)
    for _ in range(_ROUNDS if len(lanes) > 1 else 0):
        before = best
        for row in range(len(lanes)):
            for step in _STEPS:
                other = price.copy()
                other[row] *= step
                if (found := value(other)) > best:
                    best, price = found, other
        if best <= before * 1.0005:
            break
    return price


def _cheapest(run: Floats, share: Floats) -> Floats:
    """[n] the least of time times price over the classes where an op can run; a class of no price is free."""
    least: Floats = np.where(np.isinf(run), np.inf, np.where(np.isinf(run), 0, run) * share).min(axis=1)
    return least


def _stretch(work: Floats, head_ns: Floats, tail_ns: Floats) -> Nanos:
    """The largest least head + work + least tail, over all thresholds of heads and some of tails."""
    order = np.argsort(-head_ns, kind="stable")
    work, head_ns, tail_ns = work[order], head_ns[order], tail_ns[order]
    thresholds = np.unique(np.quantile(tail_ns[work > 0], np.linspace(0, 1, _TAILS))) if (work > 0).any() else ()
    best = 0.0
    for tail in thresholds:
        inside = np.flatnonzero((tail_ns >= tail) & (work > 0))
        if len(inside):
            best = max(best, float((head_ns[inside] + np.cumsum(work[inside])).max()) + float(tail))
    return ceil(best * (1 - 1e-12))  # a makespan is a whole number; sums of floats are a little wrong


# --- links ------------------------------------------------------------------------------------------------------------


def link_bound(classes: Classes, edge: npt.NDArray[np.intp], contention: str, head_ns: Floats, tail_ns: Floats) -> Load:
    """The bytes that must cross a link, at its rate. `edge` holds those edges whose ends never share a device.

    A value crosses a link once for all readers of one task. Where a link's contention is "none", transfers do not share
    it. `head_ns` [len(edge)] is when each value is there, `tail_ns` what follows its arrival.
    """
    tables, routes = classes.tables, classes.tables.routes
    if not len(edge) or not len(routes.link_names):
        return Load(0, ())
    waits = discipline(routes, contention).contended
    tensor = tables.edge_tensor[edge]
    source, target = classes.set_of[tables.tensor_op[tensor]], classes.set_of[tables.consumer[edge]]
    ends = source, target, tables.made_host[tensor], tables.consumer_host[edge]
    kinds = list(zip(*(column.tolist() for column in ends), strict=True))
    sure = {kind: _sure_links(classes, *kind) & waits for kind in sorted(set(kinds))}
    best = Load(0, ())
    for link in range(len(routes.link_names)):
        mine = np.array([sure[kind][link] for kind in kinds], bool)
        rows = np.flatnonzero(mine)
        if not len(rows):
            continue
        first, which = alike(tensor[rows])
        tail = np.full(len(first), np.inf)
        np.minimum.at(tail, which, tail_ns[rows])
        work: Floats = tables.tensor_bytes[tensor[rows][first]] * np.float64(1e9 / int(routes.link_bytes_per_s[link]))
        ns = _stretch(work, head_ns[rows][first], tail)
        if ns > best.ns:
            best = Load(ns, (link,))
    return best


def _sure_links(classes: Classes, here: int, there: int, made_host: bool, host: bool) -> Flags:
    """[L] the links that every route leads over, from a device of one set to the task of a device of the other.

    The last two say whether a GPU makes the value in host memory, and whether one reads it there.
    """
    routes, host_device = classes.tables.routes, classes.tables.host_device.tolist()
    targets = np.isin(classes.task, classes.task[classes.may[there]])
    sure = np.ones(len(routes.link_names), bool)
    for source in np.flatnonzero(classes.may[here]).tolist():
        outside = targets & (classes.task != classes.task[source])
        for target in np.flatnonzero(outside | classes.may[there]).tolist():
            ends = host_device[source] if made_host else source, host_device[target] if host else target
            route = routes.between_all.item(*ends)
            if route < 0:
                continue
            on = np.zeros(len(sure), bool)
            on[list(routes.links[route])] = True
            sure &= on
            if not sure.any():
                return sure
    return sure


# --- memory -----------------------------------------------------------------------------------------------------------


class PathSteps(NamedTuple):
    """The ops of a step as paths go through them. Axes: n ops, E edges, K classes of devices, Z sizes of values."""

    order: Ints  # [n] the ops, each after all whose values it reads
    source: Ints  # [E] op; no edge for the data inputs of a Merge, as one of them is enough
    target: Ints  # [E] op
    size: Ints  # [E] row of `changes_ns`
    changes_ns: Ints  # [Z, K, K] least time from class to class, by where to and where from; within one it may stay
    leaves_ns: Ints  # [Z, K] least time between two different devices of a class
    run_ns: Ints  # [n, K] -1: not there
    held_bytes: Ints  # [n] what is resident with the op's group
    group: Ints  # [n] that of each op
    room_bytes: Ints  # [K] of the largest device


def filling_bound(steps: PathSteps) -> Nanos:
    """The least time of some long paths; 0 where all that is resident fits each device, or nothing fits."""
    once = np.unique(steps.group, return_index=True)[1]
    if not len(once) or int(steps.held_bytes[once].sum()) <= int(steps.room_bytes.min()):
        return 0
    able = steps.run_ns >= 0
    shortest = np.where(able, steps.run_ns, NEVER).min(axis=1).astype(np.float64)
    found, crossing = 0, 0.0
    for pull in _PULLS:
        weight = shortest + pull * crossing * steps.held_bytes / max(int(steps.room_bytes.min()), 1)
        ops, edges = _longest(steps, weight)
        if not pull and len(edges):
            crossing = float(np.minimum(steps.leaves_ns.min(axis=1), NEVER)[steps.size[edges]].mean())
        found = max(found, _least(steps, ops, edges))
    return found


def _longest(steps: PathSteps, weight: Floats) -> tuple[list[int], list[int]]:
    """The ops of the path that weighs most, and the edges between them."""
    by = np.argsort(steps.target, kind="stable")
    first = np.searchsorted(steps.target[by], np.arange(len(weight) + 1)).tolist()
    edges, source, own = by.tolist(), steps.source.tolist(), weight.tolist()
    until, entered = [0.0] * len(own), [-1] * len(own)
    for op in steps.order.tolist():
        for edge in edges[first[op] : first[op + 1]]:
            if entered[op] < 0 or until[source[edge]] > until[op]:
                until[op], entered[op] = until[source[edge]], edge
        until[op] += own[op]
    ops, taken = [max(range(len(until)), key=until.__getitem__)], list[int]()
    while entered[ops[-1]] >= 0:
        taken.append(entered[ops[-1]])
        ops.append(source[taken[-1]])
    return ops[::-1], taken[::-1]


def _least(steps: PathSteps, ops: list[int], edges: list[int]) -> Nanos:
    """The least time of a path that is cut into stretches, each on one device that has room; 0 where there is none."""
    rows = range(len(steps.room_bytes))
    run, room = steps.run_ns[ops].tolist(), steps.room_bytes.tolist()
    changes, leaves = steps.changes_ns[steps.size[edges]].tolist(), steps.leaves_ns[steps.size[edges]].tolist()
    _, once = np.unique(steps.group[ops], return_index=True)
    held = np.zeros(len(ops), np.int64)
    held[once] = steps.held_bytes[ops][once]
    until = [0, *np.cumsum(held).tolist()]
    spent, ends = [0] * len(room), [0] * len(room)  # of each class, with the path so far on one device; ending there
    opened: list[deque[tuple[int, Nanos]]] = [deque() for _ in rows]  # places where its stretch may begin, best first
    for at in range(len(ops)):
        before = list(ends)
        for row in rows:
            stays = changes[at - 1][row][row] if at else 0
            come = min((_come(changes, leaves, before, at, row, of) for of in rows), default=0) if at else 0
            if run[at][row] < 0:
                opened[row].clear()
                ends[row] = NEVER
                continue
            begins = opened[row]
            spent[row] += stays
            while begins and begins[-1][1] >= come - spent[row]:
                begins.pop()
            begins.append((at, come - spent[row]))
            while begins and until[at + 1] - until[begins[0][0]] > room[row]:
                begins.popleft()
            spent[row] += run[at][row]
            ends[row] = min(begins[0][1] + spent[row], NEVER) if begins else NEVER
    least = min(ends)
    return least if least < NEVER else 0


def _come(
    changes: list[list[list[Nanos]]], leaves: list[list[Nanos]], ends: list[Nanos], at: int, to: int, of: int
) -> Nanos:
    """When the value of the op before is on another device, from one of a class."""
    return ends[of] + (leaves[at - 1][to] if of == to else changes[at - 1][to][of])
