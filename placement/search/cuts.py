"""Cuts of an order into stretches, one per device, where few bytes cross.

The groups of an order are cut into k stretches by dynamic programming. No stretch may have much more than its share of
the work, or of the memory. Of all such cuts the one is taken over which the least has to cross. Layers over devices are
such cuts; Baechi's m-TOPO (Jeon et al. 2020) fills one device after the other in one order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from placement.search.decisions import Decisions, Floats, Vector

if TYPE_CHECKING:
    from collections.abc import Sequence

_SLACKS = (0.3, 0.02, 0.8)  # share by which a stretch may pass its part of the whole
_POINTS = 400  # places at which an order may be cut


def cuts(made: Decisions, base: Sequence[int], *, tight: bool) -> Iterator[Vector]:
    """Devices [G] of cuts; a group keeps its device of `base` [G] where it may not have that of its stretch.

    `tight`: memory could be short, so cuts by memory come first.
    """
    problem = made.problem
    busy = [device for device, cpu in enumerate(problem.cpu) if not cpu]
    busy = busy if len(busy) > 1 else list(range(len(problem.cpu)))
    counts = [k for k in range(len(busy), 1, -1) if k <= 4 or k in (6, 8, 12, 16, 24, 32) or k == len(busy)]
    kinds = [made.work_ns, _held(made)]
    crossing = [_crossing(made, order) for order in made.orders]
    for slack in _SLACKS:
        for k in counts:
            for weight in kinds[::-1] if tight else kinds:
                for row, order in enumerate(made.orders):
                    bounds = _best_cut(crossing[row], weight[order] + 1e-9, k, slack)
                    stretch = np.searchsorted(bounds, np.arange(len(order)), side="right")
                    yield _placed(made, base, order, stretch, busy)


def _held(made: Decisions) -> Floats:
    """[M] the bytes of each group: resident, and what its ops put out."""
    tables = made.problem.tables
    row = made.row[made.group[tables.tensor_op]]
    kept = row >= 0
    out: Floats = np.bincount(row[kept], tables.tensor_bytes[kept], len(made.free)) + made.resident.astype(float)
    return out


def _crossing(made: Decisions, order: Vector) -> Floats:
    """[M - 1] what crosses if the order is cut behind each place: each value once."""
    tables, count = made.problem.tables, len(order)
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    source, target = (
        made.row[made.group[tables.tensor_op[tables.edge_tensor]]],
        made.row[made.group[tables.consumer]],
    )
    kept = (source >= 0) & (target >= 0)
    tensor = tables.edge_tensor[kept]
    low, high = np.full(len(tables.tensor_op), count), np.full(len(tables.tensor_op), -1)
    for end in (place[source[kept]], place[target[kept]]):
        np.minimum.at(low, tensor, end)
        np.maximum.at(high, tensor, end)
    spans = np.flatnonzero(high >= 0)
    change: Floats = np.bincount(low[spans], made.wire_ns[spans], count + 1).astype(float)
    change -= np.bincount(high[spans], made.wire_ns[spans], count + 1)
    return np.cumsum(change)[: count - 1]


def _best_cut(crossing: Floats, weight: Floats, k: int, slack: float) -> Vector:
    """[k - 1] before which groups to cut, so that least crosses and no stretch weighs more than (1 + slack) / k.

    Of a long order it tries some places alone, those where least crosses.
    """
    until, cost = np.append(0.0, np.cumsum(weight)), np.concatenate([[0.0], crossing, [0.0]])
    points = _points(cost)
    until, cost = until[points], cost[points]
    most = max(until[-1] * (1 + slack) / k, float(np.diff(until).max(initial=0)))
    first = np.searchsorted(until, until - most * (1 + 1e-9))  # where a stretch that ends at each point may begin
    best = np.where(until <= most * (1 + 1e-9), cost, np.inf)  # of one stretch more each time, by where the last ends
    before = []
    for _ in range(k - 1):
        before.append(_lowest(best, first))
        best = best[before[-1]] + cost
    at, bounds = len(until) - 1, []
    for taken in reversed(before):
        at = int(taken[at])
        bounds.append(at)
    found: Vector = points[np.array(bounds[::-1], np.int64)]
    return found


def _points(cost: Floats) -> Vector:
    """The first and the last place, and of equal shares of those between the one that costs least."""
    inner = np.arange(1, len(cost) - 1)
    if len(inner) > _POINTS:
        width = -(-len(inner) // _POINTS)
        shares = np.full((-(-len(inner) // width), width), np.inf)
        shares.reshape(-1)[: len(inner)] = cost[inner]
        inner = 1 + np.arange(len(shares)) * width + shares.argmin(axis=1)
    return np.concatenate([[0], inner, [len(cost) - 1]])


def _lowest(values: Floats, first: Vector) -> Vector:
    """Where the least of `values` from `first` up to each place is; `first` never falls."""
    found = np.empty(len(values), np.int64)
    queue = [0] * len(values)
    head = tail = 0
    listed, firsts = values.tolist(), first.tolist()
    for at, value in enumerate(listed):
        while tail > head and listed[queue[tail - 1]] > value:
            tail -= 1
        queue[tail] = at
        tail += 1
        while queue[head] < firsts[at]:
            head += 1
        found[at] = queue[head]
    return found


def _placed(made: Decisions, base: Sequence[int], order: Vector, stretch: Vector, busy: Sequence[int]) -> Vector:
    """[G] the device of each group: that of its stretch, else the CPU beside it, else that of `base`."""
    device, home = np.array(base, np.int64), np.array(made.problem.home, np.int64)
    wanted = np.array(busy, np.int64)[stretch % len(busy)]
    there, beside = made.allowed[order, wanted], made.allowed[order, home[wanted]]
    device[made.free[order]] = np.where(there, wanted, np.where(beside, home[wanted], device[made.free[order]]))
    return device
