"""Cuts of an order of the groups: a device gets each stretch between two of them, and least crosses.

    a b c d │ e f g │ h i j k        until a stretch has its share of the work, or of the memory
     GPU:0  │ GPU:1 │  GPU:2         groups of a `Ground` stay where they are, or go to the CPU beside

`best_cut` finds it by dynamic programming over the places where the last stretch may end. Layers over devices are such
cuts; Baechi's m-TOPO (Jeon et al. 2020) fills one device after the other in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from placement.problem import Problem
from placement.search.decisions import ENDLESS, Decisions, fastest_on
from placement.search.reach import working
from simulator.columns import Flags, Floats, Ints, positions

_POINTS = 400  # places at which an order may be cut


class Ground(NamedTuple):
    """The groups that cuts of an order leave where they are."""

    device: Ints  # [G] of groups that may not be where their stretch is
    beside: Flags  # [M] groups that go to the CPU beside the device of their stretch
    work_ns: Floats  # [M] on a device, of what counts for its share: not that of those on CPUs


def ground(decisions: Decisions, device: npt.ArrayLike, beside: Flags | None = None) -> Ground:
    """The ground for cuts over devices [G], with some groups on the CPUs beside, or none."""
    some = np.zeros(len(decisions.free), bool) if beside is None else beside
    work_ns = fastest_on(decisions, working(decisions.problem)).astype(np.float64)
    return Ground(np.asarray(device, np.int64), some, np.where(some | (work_ns >= ENDLESS), 0.0, work_ns))


def placed(decisions: Decisions, base: Ground, order: Ints, stretch: Ints, busy: Sequence[int]) -> Ints:
    """[G] the device of each group: that of its stretch, else the CPU beside it, else that of `base`."""
    device: Ints = base.device.copy()
    home = np.array(decisions.problem.home, np.int64)
    free, wanted = decisions.free[order], np.array(busy, np.int64)[stretch % len(busy)]
    beside = decisions.allowed[order, home[wanted]]
    there = decisions.allowed[order, wanted] & ~(beside & base.beside[order])
    device[free] = np.where(there, wanted, np.where(beside, home[wanted], device[free]))
    return device


def speeds_of(decisions: Decisions) -> Floats:
    """[D] how fast each device does all of the work, of what has a kernel there."""
    times = decisions.problem.tables.kind_ns[decisions.ops].astype(np.float64)
    fastest = np.where(times < 0, np.inf, times).min(axis=1)
    taken = np.where(times < 0, np.where(fastest < np.inf, fastest, 0)[:, None], times).sum(axis=0)
    speed = (1.0 / (taken + 1))[decisions.problem.tables.kind]
    shares: Floats = speed / speed.max()
    return shares


def teams(busy: Sequence[int], speeds: Floats) -> list[list[int]]:
    """Some sets of these devices, the fastest ones of each size, in their order."""
    fastest = sorted(busy, key=lambda device: -speeds[device])
    return [sorted(fastest[:k], key=busy.index) for k in _counts(len(busy))]


def _counts(devices: int) -> list[int]:
    """The numbers of devices that are tried, of so many."""
    return [k for k in range(devices, 1, -1) if k <= 4 or k in (6, 8, 12, 16, 24, 32) or k == devices]


def subsets(problem: Problem, speeds: Floats) -> list[tuple[int, ...]]:
    """Some sets of devices: all, those of a task of each sort, and the fastest GPUs with all CPUs."""
    devices = range(len(problem.capacity))
    cpus = tuple(device for device in devices if problem.cpu[device])
    others = tuple(sorted((one for one in devices if not problem.cpu[one]), key=lambda one: -speeds[one]))
    task = problem.cluster.task_of
    found = [tuple(devices)]
    of_task = [tuple(device for device in devices if task[device] == one) for one in sorted(set(task))]
    if len(of_task) > 1:
        kinds = {tuple(problem.cluster.kind_of[device] for device in some): some for some in of_task[::-1]}
        found += sorted(kinds.values(), key=lambda some: -sum(speeds[device] for device in some if device in others))
    found += [others[:count] + cpus for count in (2, 3, 4, 6) if count < len(others)]
    return found


def held_by(decisions: Decisions) -> Floats:
    """[M] the bytes of each group: resident, and what its ops put out."""
    tables = decisions.problem.tables
    row = decisions.row[decisions.group[tables.tensor_op]]
    kept = row >= 0
    out = np.bincount(row[kept], tables.made_bytes[kept], len(decisions.free))
    return decisions.resident.astype(np.float64) + out


def crossing_of(decisions: Decisions, order: Ints, times_ns: Floats | None = None) -> Floats:
    """[-1 + groups in the order] what crosses if it is cut behind each place: each value between them once.

    By default a value takes its mean time between two devices, else that of `times_ns` [T].
    """
    tables, count = decisions.problem.tables, len(order)
    place = np.append(positions(order, len(decisions.free)), -1)[decisions.row[decisions.group]]
    maker, target = place[tables.tensor_op], place[tables.consumer]
    tensor = np.flatnonzero(np.diff(tables.consumer_ptr))  # whose readers stand together
    first = tables.consumer_ptr[tensor]
    low = np.minimum.reduceat(np.where(target < 0, count, target), first)
    high = np.maximum.reduceat(target, first)
    kept = (maker[tensor] >= 0) & (high >= 0)
    tensor, low, high = tensor[kept], low[kept], high[kept]
    wire_ns = (decisions.wire_ns if times_ns is None else times_ns)[tensor]
    change: Floats = np.bincount(np.minimum(low, maker[tensor]), wire_ns, count + 1).astype(float)
    change -= np.bincount(np.maximum(high, maker[tensor]), wire_ns, count + 1)
    return np.cumsum(change)[: count - 1]


def stretches(crossing: Floats, weight: Floats, speeds: Floats, slack: float) -> Ints:
    """[groups in the order] the stretch of each under the best cut; where none weighs anything, all weigh as much."""
    bounds = best_cut(crossing, weight + 1e-9, speeds, slack)
    return np.searchsorted(bounds, np.arange(len(weight)), side="right")


def best_cut(crossing: Floats, weight: Floats, speeds: Floats, slack: float) -> Ints:
    """[k - 1] before which groups to cut, so that least crosses and no stretch weighs (1 + slack) times its share.

    Shares are in proportion to the speeds [k] of devices.

    Of a long order it tries some places alone, those where least crosses.
    """
    until, cost = np.append(0.0, np.cumsum(weight)), np.concatenate([[0.0], crossing, [0.0]])
    points = _points(cost)
    until, cost = until[points], cost[points]
    most = np.maximum(until[-1] * (1 + slack) * speeds / speeds.sum(), np.diff(until).max(initial=0)) * (1 + 1e-9)
    best = np.where(until <= most[0], cost, np.inf)  # of one stretch more each time, by where the last ends
    before: list[Ints] = []
    same = False  # whether the last stretch changed nothing: then the next one of its weight doesn't, either
    for limit, last in zip(most[1:], most, strict=False):
        if not same or limit != last:
            first = np.searchsorted(until, until - limit)  # where a stretch that ends at each point may begin
            before.append(_lowest(best, first))
            further = best[before[-1]] + cost
            same = np.array_equal(best, further)
            best = further
        else:
            before.append(before[-1])
    at, bounds = len(until) - 1, []
    for taken in reversed(before):
        at = int(taken[at])
        bounds.append(at)
    found: Ints = points[np.array(bounds[::-1], np.int64)]
    return found


def best_chain(crossing: Floats, homewards: Floats, weight: Floats, capacity: Floats, work_ns: Ints) -> Ints | None:
    """[groups in the order] the device of each, k of which fill one after the other, or k: the processor.

    Groups run one after the other, each stretch within the capacity [k] of its device, and none of the processor's.
    Least is taken by their times `work_ns` [groups, k + 1] and by what crosses, between devices or to the processor.
    None: no cut fits.
    """
    devices, cost = len(capacity), np.concatenate([[0.0], crossing, [0.0]])
    points = _points(cost)
    until, cost, home = np.append(0.0, np.cumsum(weight))[points], cost[points], np.append(homewards, 0.0)[points - 1]
    spent = np.concatenate([np.zeros((1, devices + 1)), np.cumsum(work_ns, axis=0)])[points]
    home[0], on_home = 0.0, spent[:, devices].astype(np.float64)
    at_start = np.where(np.arange(len(points)) == 0, 0.0, np.inf)
    ends, turns = [(at_start, on_home)], []  # by devices used: least time to each point, if it ends there or at home
    for row in range(devices):
        before = np.stack([ends[-1][0] + cost, ends[-1][1] + home])
        first = np.searchsorted(until, until - capacity[row])
        least = before.min(axis=0) - spent[:, row]
        begin = _lowest(least, first)
        device_ns = least[begin] + spent[:, row]
        left = np.append(np.inf, (device_ns + home - on_home)[:-1])  # something is at home before the next device
        back = np.minimum.accumulate(left)
        leave = np.maximum.accumulate(np.where(left <= back, np.arange(len(points)) - 1, 0))
        ends.append((device_ns, back + on_home))
        turns.append((begin, before.argmin(axis=0), leave))
    row, side = min(
        ((row, side) for row in range(len(ends)) for side in (0, 1)), key=lambda end: float(ends[end[0]][end[1]][-1])
    )
    if not np.isfinite(ends[row][side][-1]):
        return None
    found, at = np.full(len(weight), devices), len(points) - 1
    while at > 0 and row > 0:
        begin, sides, leave = turns[row - 1]
        if side == 1:
            at, side = int(leave[at]), 0
        else:
            start = int(begin[at])
            found[points[start] : points[at]] = row - 1
            at, side, row = start, int(sides[start]), row - 1
    return found


def _points(cost: Floats) -> Ints:
    """The first and the last place, and of equal shares of those between the one that costs least."""
    inner = np.arange(1, len(cost) - 1)
    if len(inner) > _POINTS:
        width = -(-len(inner) // _POINTS)
        shares = np.full((-(-len(inner) // width), width), np.inf)
        shares.reshape(-1)[: len(inner)] = cost[inner]
        inner = 1 + np.arange(len(shares)) * width + shares.argmin(axis=1)
    return np.concatenate([[0], inner, [len(cost) - 1]])


def _lowest(values: Floats, first: Ints) -> Ints:
    """The place of the least of `values` from `first` up to each place; `first` never falls."""
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
