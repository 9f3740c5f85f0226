"""The demands of a step, of which prices make bounds: of the whole step, and around its barriers.

A barrier is an op that much depends on and that depends on much, such as one op through which all gradients go. What
comes before it is done when it starts, and what comes after it is not begun. So a step has two phases. Besides, the
barrier is on one device. The devices are halved there, for each device that it may use, and the least bound counts.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.bounds.classes import uses_between
from simulator.bounds.cuts import Values
from simulator.bounds.prices import Demand, Found, least_ns
from simulator.columns import Flags, Ints, alike, by_key
from simulator.units import NEVER, Nanos

if TYPE_CHECKING:
    from simulator.bounds.classes import Classes

_BARRIERS = 2  # that are tried
_LOOKS = 60_000_000  # at arcs, by all cuts: some half of a second
_SINGLE = 4  # classes, up to which each of them is a half once
_DEVICES, _GROUPS = 256, 200_000  # more take longer than the bound is worth


class BoundFacts(NamedTuple):
    """The facts of a step that a bound by prices needs. Axes: n ops, E edges, K classes."""

    classes: Classes
    group: Ints  # [n] those of one group are on one device
    gate: Flags  # [E] as of `gates`
    start_ns: Ints  # [n, K] least time before each op on each class
    end_ns: Ints  # [n, K] and after its end
    contention: str


class Priced(NamedTuple):
    """A bound by prices."""

    ns: Nanos
    barrier: int  # op; -1: none


def priced_bound(work: BoundFacts, above: Nanos) -> Priced:
    """The best bound by prices of a step, of which another bound is known already; 0 where it is too much work."""
    classes, tables = work.classes, work.classes.tables
    if not 1 < len(classes.of) <= _DEVICES or len(tables) == 0 or int(work.group.max()) >= _GROUPS:
        return Priced(0, -1)
    handed, split, left = _handed(work), classes.of.astype(np.int64), _LOOKS
    whole = _Phases(np.zeros(len(tables), np.int64), np.zeros(len(handed.tensor), np.int64), -1, -1)
    best = Priced(0, -1)
    for far in _halves(classes, split):
        found = least_ns(_demand(work, handed, whole, split, far), above, left)
        best, left = max(best, Priced(found.ns, -1), key=lambda one: one.ns), left - found.looks
    for op in _barriers(work, handed):
        found = _around(work, handed, op, max(best.ns, above), left)
        best, left = max(best, Priced(found.ns, op), key=lambda one: one.ns), left - found.looks
    return best


# --- values and barriers ----------------------------------------------------------------------------------------------


class _Handed(NamedTuple):
    """The values that may cross. Axes: T tensors, X pairs of tensor and reader; those of one row have the same ends."""

    tensor: Ints  # [T]
    maker: Ints  # [T] op
    row: Ints  # [T]
    ends: tuple[tuple[int, bytes], ...]  # of each row the group that makes it, and those that read it
    edge: Ints  # [X] by tensor
    of: Ints  # [X] place in `tensor` of each


class _Phases(NamedTuple):
    """The phases of a step: 0 before a barrier, 1 from its start on; 2 in either."""

    of: Ints  # [n]
    value: Ints  # [T]
    barrier: int  # op; -1: none, and one phase
    device: int  # of the barrier


def _handed(work: BoundFacts) -> _Handed:
    """Values of some bytes, between groups, that are sent, and that a GPU has in its own memory.

    A Merge of several values starts at the first of them. The others may cross after it, so they are left out.
    """
    tables = work.classes.tables
    tensor, maker = tables.edge_tensor.astype(np.int64), tables.tensor_op[tables.edge_tensor]
    free = tables.unsent[tensor] | tables.made_host[tensor] | tables.consumer_host
    reader = work.group[tables.consumer]
    apart = (work.group[maker] != reader) & (tables.tensor_bytes[tensor] > 0) & (tables.tensor_row[tensor] >= 0)
    edge = np.flatnonzero(apart & ~free & ~work.gate)
    first, of = alike(tensor[edge])
    once, _ = alike(of, reader[edge])
    ptr, readers = np.searchsorted(of[once], np.arange(len(first) + 1)).tolist(), reader[edge][once]
    makers, ends, row = work.group[maker[edge][first]].tolist(), dict[tuple[int, bytes], int](), []
    for at, group in enumerate(makers):
        row.append(ends.setdefault((group, readers[ptr[at] : ptr[at + 1]].tobytes()), len(ends)))
    return _Handed(
        tensor[edge][first], maker[edge][first].astype(np.int64), np.array(row, np.int64), tuple(ends), edge, of
    )


def _barriers(work: BoundFacts, handed: _Handed) -> list[int]:
    """The ops that read and make most bytes, each value counted once."""
    tables = work.classes.tables
    nbytes, consumer = tables.tensor_bytes[handed.tensor].astype(np.float64), tables.consumer[handed.edge]
    through = np.bincount(handed.maker, nbytes, len(tables)) + np.bincount(consumer, nbytes[handed.of], len(tables))
    return [op for op in np.argsort(-through, kind="stable")[:_BARRIERS].tolist() if through[op] > 0]


def _phases(work: BoundFacts, handed: _Handed, op: int) -> _Phases:
    """The phases before and after an op."""
    tables = work.classes.tables
    kept = np.flatnonzero(~work.gate)
    source, target = tables.tensor_op[tables.edge_tensor[kept]].astype(np.int64), tables.consumer[kept].astype(np.int64)
    before, after = _reached(target, source, op, len(tables)), _reached(source, target, op, len(tables))
    of = np.where(before, 0, np.where(after, 1, 2))
    of[op] = 1
    before[op] = True
    late = np.bincount(handed.of, ~before[tables.consumer[handed.edge]], len(handed.tensor)) > 0
    return _Phases(of, np.where(~late, 0, np.where(of[handed.maker] == 1, 1, 2)), op, -1)


def _reached(source: Ints, target: Ints, op: int, count: int) -> Flags:
    """[n] the ops that an op leads to."""
    order, first = by_key(source, count)
    after = target[order]
    found = np.zeros(count, bool)
    ends = np.array([op])
    while len(ends):
        sizes = first[ends + 1] - first[ends]
        rows = np.repeat(first[ends] - np.append(0, np.cumsum(sizes)[:-1]), sizes) + np.arange(sizes.sum())
        ends = np.unique(after[rows])
        ends = ends[~found[ends]]
        found[ends] = True
    return found


# --- devices ----------------------------------------------------------------------------------------------------------


def _around(work: BoundFacts, handed: _Handed, op: int, above: Nanos, looks: int) -> Found:
    """The bound around a barrier: the least over the devices that it may use, 0 if that is not above a known one.

    Halves are tried for the device of the least bound so far, until it has no more.
    """
    classes, every = work.classes, np.arange(len(work.classes.of))
    phases, left, known = _phases(work, handed, op), looks, dict[object, Nanos]()
    devices = np.flatnonzero(classes.may[classes.set_of[op]] & (classes.run_ns[op, classes.of] >= 0)).tolist()
    queue = [(ns, device, 0) for device in devices if (ns := sum(_path_ns(work, op, device))) < NEVER]
    heapify(queue)
    while queue:
        ns, device, tried = heappop(queue)
        _, split = alike(every == device, classes.task == classes.task[device], classes.of)
        halves = _halves(classes, split, device)
        if tried == len(halves) or left <= 0:
            return Found(ns if ns > above else 0, looks - left)
        demand = _demand(work, handed, phases._replace(device=device), split, halves[tried])
        kinds = classes.of[alike(split)[0]].tobytes()  # tasks of other devices may have as many lanes, and other speeds
        key = (demand.capacity, demand.uses, demand.path_ns, demand.far.tobytes(), kinds)
        if key not in known:
            found = least_ns(demand, above, left)
            known[key], left = found.ns, left - found.looks
        heappush(queue, (max(ns, known[key]), device, tried + 1))
    return Found(0, looks - left)


def _path_ns(work: BoundFacts, op: int, device: int) -> tuple[Nanos, Nanos]:
    """The time before an op on a device, and from its start on, at least."""
    row = work.classes.of[device]
    return int(work.start_ns[op, row]), int(work.classes.run_ns[op, row] + work.end_ns[op, row])


def _halves(classes: Classes, split: Ints, device: int = -1) -> list[Flags]:
    """Ways to halve the devices [D]: a device and its task, or each class, and all others; CPUs and others."""
    found: list[Flags] = []
    if device >= 0:
        found = [np.arange(len(split)) == device, classes.task == classes.task[device]]
    elif split.max() < _SINGLE:
        found = [split == one for one in range(int(split.max()) + 1)]
    found.append(classes.tables.cpu)
    different = {(half if half[0] else ~half).tobytes(): half for half in found if half.any() and not half.all()}
    return list(different.values())


def _demand(work: BoundFacts, handed: _Handed, phases: _Phases, split: Ints, far: Flags) -> Demand:
    """The demand of a step, by classes of devices [D], one half of which is far."""
    classes, tables, barrier = work.classes, work.classes.tables, phases.barrier
    first, _ = alike(split)
    parent, count, groups = classes.of[first], 1 if barrier < 0 else 3, int(work.group.max()) + 1
    time = np.zeros((len(classes.lanes), count, groups), np.int64)
    able = np.zeros((len(classes.lanes), groups), bool)
    for row, run in enumerate(classes.run_ns.T):
        np.add.at(time[row], (phases.of, work.group), run.clip(0))
        able[row] = np.bincount(work.group, run < 0, groups) == 0
    time, able = time[parent], able[parent]
    path: tuple[Nanos, ...] = (0,)
    if barrier >= 0:
        able[np.arange(len(first)) != split[phases.device], work.group[barrier]] = False
        path = _path_ns(work, barrier, phases.device)
    once, of = alike(handed.row, phases.value)
    nbytes = np.zeros(len(once), np.int64)
    np.add.at(nbytes, of, tables.tensor_bytes[handed.tensor])
    ends = [handed.ends[row] for row in handed.row[once].tolist()]
    readers = [np.frombuffer(read, np.int64) for _, read in ends]
    links, uses = uses_between(classes, split, far, work.contention)
    return Demand(
        capacity=(*np.bincount(split, tables.lanes).astype(np.int64).tolist(), *[1] * links),
        far=far[first],
        work_ns=time,
        able=able,
        values=Values(
            maker=np.array([maker for maker, _ in ends], np.int64),
            value=np.repeat(np.arange(len(once)), [len(one) for one in readers]),
            reader=np.concatenate([np.zeros(0, np.int64), *readers]),
        ),
        stretch=phases.value[once],
        number=np.bincount(of, minlength=len(once)).astype(np.int64),
        nbytes=nbytes,
        uses=uses,
        path_ns=path,
    )
