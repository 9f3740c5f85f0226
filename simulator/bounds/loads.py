"""Bounds by work on classes of devices, and by bytes on links, within a stretch of the step.

Each piece of work has a head, before which it can't begin, and a tail, which follows its end. Pieces with heads of a
or more and tails of b or more are done between a and b from the end. So a + b + their work over all that can do it is a
bound. This is the energetic argument of Erschler, Lopez and Thuriot (1991), over heads and tails alone.

Where classes differ in speed, work is shared between them by a linear program. Its dual gives each class a price; the
prices of all lanes together are 1. An op then counts with its cheapest class, and any prices give a bound.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Floats, alike
from simulator.execution.discipline import discipline
from simulator.units import NEVER, Nanos

if TYPE_CHECKING:
    from simulator.bounds.classes import Classes

_TAILS = 24  # thresholds of tails that are tried; all heads are
_ROUNDS = 6  # of the search for prices
_STEPS = (0.01, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95, 1.05, 1.15, 1.4, 2.0, 3.0, 10.0, 100.0)


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
