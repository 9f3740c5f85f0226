"""A bound by memory along a path: no stretch of it that stays on one device holds more than that device has.

    path      a  b  c │ d  e │ f  g          each op with what stays resident with its group
    device    GPU:0   │ GPU:1│ CPU:0         a value that leaves its device takes its time

A model that is larger than any device has to cross from one to another somewhere on its way. So the least time of a
path, over all ways to cut it into stretches that fit, is a bound for each placement whose memory suffices. A device
counts as empty again in each stretch, and what is beside the path counts nothing.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.units import NEVER, Nanos

if TYPE_CHECKING:
    from simulator.columns import Ints

_PULLS = (0, 1, 16)  # how much bytes count in the choice of a path: for a full device, so many mean crossings


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


def _longest(steps: PathSteps, weight: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[list[int], list[int]]:
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
