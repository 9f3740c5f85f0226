"""Bounds by prices: the least that a step pays for the time of devices and links, whatever its placement.

A step is cut into phases. In each a nanosecond of every lane and every link has a price, and those of one phase come
to 1 together. So a step pays its makespan at most. An op pays at least for its time at the lowest price of the phases
in which it may run. A value that crosses between two halves of the devices pays for the links on all of its ways. It
also pays for the lanes that dispatch, pack and unpack it. Groups stay together. So a minimum cut finds the cheapest
placement, and what it pays is a bound (`cuts`).

A path through all phases is a resource, too, of which each phase uses a known length at least.

Prices rise where recent placements need more time than they pay for on the whole, and fall elsewhere. Each step starts
from the best prices so far: Barahona and Anbil, "The volume algorithm", Mathematical Programming 87, 2000. All sums
are of whole numbers, so every machine finds the same bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.bounds.cuts import ENDLESS, Values, halves
from simulator.columns import Flags, Ints
from simulator.units import Nanos

_WHOLE = 2**20  # shares of one phase together
_LEAST = 2**7  # of any: one of nothing would never rise
_BITS, _COARSEST = 60, 12  # of the sum of all that is paid, and of a price at least
_ROUNDS, _STEP = 60, 700  # prices change by 700 thousandths at first, then by less
_ROUND = 40  # looks that a round takes besides, for each group and value
_FIRST = 20  # rounds, after which the bound should be close


class Use(NamedTuple):
    """A resource that a value uses as it crosses."""

    resource: int
    fixed_ns: int  # for each value
    ps_per_byte: float


Uses = tuple[tuple[tuple[Use, ...], ...], tuple[tuple[Use, ...], ...]]  # to the far half and back, by pairs of classes


class Demand(NamedTuple):
    """All that a step asks of devices and links. Axes: R resources, K classes, P phases, S stretches, G groups.

    The classes' lanes are the first K resources. Stretches are the phases, and where there are several, all of them.
    """

    capacity: tuple[int, ...]  # [R] lanes of a class; 1 of links
    far: Flags  # [K] classes in the far half
    work_ns: Ints  # [K, S, G]
    able: Flags  # [K, G] what has no class is free
    values: Values  # makers and readers are groups
    stretch: Ints  # [Y] in which the value crosses
    number: Ints  # [Y] values of the same maker and readers
    nbytes: Ints  # [Y] of them together
    uses: Uses
    path_ns: tuple[Nanos, ...]  # [P] of a path through all phases, at least


class _Used(NamedTuple):
    """The time of a resource that values use as they cross."""

    resource: int
    time_ns: Ints  # [Y]


class _Paid(NamedTuple):
    """The cheapest placement at some prices."""

    ns: Nanos  # that is paid, rounded up
    time_ns: list[list[int]]  # [P][R + 1] of each resource at its capacity; the last is the path
    looks: int


class Found(NamedTuple):
    """The result of a search for prices."""

    ns: Nanos
    looks: int  # at arcs, of all its cuts


def least_ns(demand: Demand, above: Nanos, looks: int) -> Found:
    """The highest bound that a search for prices finds by so many looks at arcs, and a round more.

    It ends early where that will hardly come above a known bound.
    """
    resources, phases = len(demand.capacity) + 1, len(demand.path_ns)
    used = [[_used(demand, uses) for uses in way] for way in demand.uses]
    bits = _BITS - _most_ns(demand, used).bit_length()
    if bits < _COARSEST:
        return Found(sum(demand.path_ns), 0)
    round_of = len(demand.number) + demand.able.shape[1]
    shares, best, looked = [[_WHOLE // resources] * resources] * phases, sum(demand.path_ns), 0
    center, highest, step = shares, 0, _STEP
    times: list[list[int]] = []  # of recent placements, the last most
    for count in range(_ROUNDS):
        paid = _paid(demand, shares, used, bits)
        best, looked = max(best, paid.ns), looked + paid.looks + _ROUND * round_of
        if looked > looks or (count >= _FIRST and paid.ns * 10 < above * 9):
            break
        if paid.ns > highest:
            center, highest, step = shares, paid.ns, min(step * 11 // 10, 1000)
        else:
            step = step * 9 // 10
        pairs = zip(times or paid.time_ns, paid.time_ns, strict=True)
        times = [[(7 * old + 3 * new) // 10 for old, new in zip(*rows, strict=True)] for rows in pairs]
        shares = [_after(row, of, step) for row, of in zip(center, times, strict=True)]
    return Found(best, looked)


def _after(shares: list[int], times: list[int], step: int) -> list[int]:
    """The shares after a step, in thousandths: higher of what takes longer than all pay for together."""
    paid, grown = sum(share * time for share, time in zip(shares, times, strict=True)) // _WHOLE, []
    for share, time in zip(shares, times, strict=True):
        most = max(time, paid, 1)
        grown.append(max(share * (1000 * most + step * (time - paid)) // (1000 * most), _LEAST))
    return [share * _WHOLE // sum(grown) for share in grown]


def _used(demand: Demand, uses: tuple[Use, ...]) -> list[_Used]:
    """The time of each resource that each value uses."""
    return [
        _Used(use.resource, demand.number * use.fixed_ns + (demand.nbytes * (use.ps_per_byte / 1000)).astype(np.int64))
        for use in uses
    ]


def _most_ns(demand: Demand, used: list[list[list[_Used]]]) -> int:
    """The most time that can be paid for."""
    groups = np.where(demand.able, demand.work_ns.sum(axis=1), 0).max(axis=0, initial=0)
    values = sum(int(use.time_ns.sum()) for way in used for uses in way for use in uses)
    return int(groups.sum()) + values + sum(demand.path_ns) + 1


def _paid(demand: Demand, shares: list[list[int]], used: list[list[list[_Used]]], bits: int) -> _Paid:
    """The cheapest placement, where the shares of each phase are prices at which all capacity is had for 1."""
    full = (*demand.capacity, 1)
    each = [[(share << bits) // (_WHOLE * of) for share, of in zip(row, full, strict=True)] for row in shares]
    price = np.array(each, np.int64)
    phase = np.repeat(np.arange(len(each))[:, None], len(full), axis=1)  # in which each stretch pays
    if len(each) > 1:
        phase = np.append(phase, price.argmin(axis=0)[None], axis=0)
        price = np.append(price, price.min(axis=0)[None], axis=0)
    classes, groups = demand.able.shape
    cost = np.einsum("ksg,sk->kg", demand.work_ns, price[:, :classes])
    cost = np.where(demand.able, cost, ENDLESS)
    cost[:, ~demand.able.any(axis=0)] = 0
    rows, group = np.arange(classes), np.arange(groups)
    chosen = [rows[half][cost[half].argmin(axis=0)] for half in (~demand.far, demand.far)]
    near, far = (cost[of, group] for of in chosen)
    crossing = [_cheapest(demand, of, price) for of in used]
    (forth, _), (back, _) = crossing
    cut = halves(far - near, demand.values, forth, back)
    path = sum(ns * row[-1] for ns, row in zip(demand.path_ns, each, strict=True))
    paid = int(np.minimum(near, far).sum()) + cut.flow + path
    time = np.zeros((len(price), len(full)), np.int64)
    of = np.where(cut.far, *chosen[::-1])
    for row in rows:
        time[:, row] = demand.work_ns[row][:, of == row].sum(axis=1)
    maker, value, reader = demand.values
    for side, (way, (_, which)) in enumerate(zip(used, crossing, strict=True)):
        there = cut.far if side == 0 else ~cut.far
        crosses = np.bincount(value, there[reader], len(maker)) * ~there[maker] > 0
        for number, uses in enumerate(way):
            mine = crosses & (which == number)
            for use in uses:
                np.add.at(time[:, use.resource], demand.stretch[mine], use.time_ns[mine])
    total = np.zeros((len(each), len(full)), np.int64)
    np.add.at(total, (phase, np.arange(len(full))), time)
    total[:, -1] = demand.path_ns
    return _Paid(-(-paid >> bits), (total // full).tolist(), cut.looks)


def _cheapest(demand: Demand, way: list[list[_Used]], price: Ints) -> tuple[Ints, Ints]:
    """[Y] what each value pays to cross, at least, and by which pair of classes."""
    costs = [
        sum((use.time_ns * price[demand.stretch, use.resource] for use in uses), np.zeros(len(demand.number), np.int64))
        for uses in way
    ]
    which = np.argmin(costs, axis=0)
    return np.min(costs, axis=0), which
