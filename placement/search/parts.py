"""The parts of a step that share little, as the towers of data parallelism do: found by what ops read, not by names.

From the first op to the last, each joins the parts whose values it reads. Some ops tie parts together and belong to
none. Those that may run soon after the beginning are weights, or split a batch. Those that read from several large
parts sum gradients up, or losses. What little follows from these, as updates of weights, joins no large part, even if
the end of a step reads both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from placement.search.layers import root_of
from simulator.columns import Flags, Floats, Ints, by_key, positions

if TYPE_CHECKING:
    from placement.problem import Problem


_SOON = 0.02  # share of the longest chain: what may end by then belongs to no part
_LARGE = 12  # a part has a device's share of the work, divided by this, at least
_ROUNDS = 100  # groups of a chain that are added to a part


def parts_of(problem: Problem, work_ns: Floats, crossing: Flags, devices: int) -> Ints:
    """[n] the part of each op, from 0 on; -1: it ties parts together, or its part is small.

    `work_ns` [n] is the work of each op, `crossing` [T] tells what takes time on the wire.
    """
    tables, count = problem.tables, len(work_ns)
    into, first = by_key(tables.consumer, count)
    tensor = tables.edge_tensor[into]
    sources, counts = tables.tensor_op[tensor].tolist(), crossing[tensor].tolist()
    bounds, work, order = first.tolist(), work_ns.tolist(), problem.topological.tolist()
    end = [0.0] * count
    for op in order:
        end[op] = work[op] + max([end[source] for source in sources[bounds[op] : bounds[op + 1]]], default=0.0)
    soon, large = _SOON * max(end), float(work_ns.sum()) / (_LARGE * devices)
    ties, whole = [one <= soon for one in end], list(work)
    joined: Ints = list(range(count))  # type: ignore[assignment]  # a list is faster
    follows = [False] * count  # it reads sums over parts; of a tie: it is such a sum
    for op in order:
        if ties[op]:
            continue
        reads = [sources[at] for at in range(bounds[op], bounds[op + 1]) if counts[at]]
        parts = {root_of(joined, source) for source in reads if not ties[source]}
        several = sum(whole[part] >= large for part in parts)
        if several > 1:
            ties[op] = follows[op] = True
            continue
        if several:
            parts = {part for part in parts if whole[part] >= large or not follows[part]}
        follows[op] = any(follows[source] for source in reads if ties[source]) or any(follows[part] for part in parts)
        for part in parts:
            joined[part] = op
            whole[op] += whole[part]
    root, tied = np.array([root_of(joined, op) for op in range(count)]), np.array(ties)
    total = np.bincount(root[~tied], work_ns[~tied], count)
    return np.where(tied, -1, positions(np.flatnonzero(total >= large), count)[root])


def of_groups(part: Ints, row: Ints, pair: Ints, count: int) -> Ints:
    """[M] the part of each of so many groups, if its ops are of one alone: that of `part` [n], with `row` [n] groups.

    To these come groups that hand on values within one part alone. `pair` [A, 2] are groups of which one hands values
    to the other.
    """
    known = (part >= 0) & (row >= 0)
    found = _single(row[known], part[known], count)
    one, other = np.concatenate([pair, pair[:, ::-1]]).T
    for _ in range(_ROUNDS):
        near = (found[one] < 0) & (found[other] >= 0)
        more = _single(one[near], found[other[near]], count)
        if (more < 0).all():
            break
        found = np.maximum(found, more)
    return found


def _single(key: Ints, part: Ints, count: int) -> Ints:
    """[count] the part of each key that has one alone, else -1."""
    low, high = np.full(count, int(part.max(initial=0))), np.full(count, -1)
    np.minimum.at(low, key, part)
    np.maximum.at(high, key, part)
    return np.where(low == high, low, -1)


def spread(device: Ints, pair: Ints, pair_ns: Floats, resident: Ints, devices: int) -> Ints:
    """[M] the device of each group, of so many; those that had none are what parts share.

    What is resident is spread evenly. Each other group goes where most of its values come from or go to. Those beside a
    shared group come first, so a sum of gradients goes to its weight by way of what scales it.
    """
    device, shared = device.copy(), device < 0
    held = np.zeros(devices, np.int64)
    weights = np.flatnonzero(shared & (resident > 0))
    for group in weights[np.argsort(-resident[weights], kind="stable")].tolist():
        device[group] = held.argmin()
        held[device[group]] += resident[group]
    (one, other), both_ns = np.concatenate([pair, pair[:, ::-1]]).T, np.concatenate([pair_ns, pair_ns])
    while (opened := (device[one] < 0) & (device[other] >= 0)).any():
        after_shared = opened & shared[other]
        near = np.flatnonzero(after_shared if after_shared.any() else opened)
        near = near[np.argsort(both_ns[near], kind="stable")]
        device[one[near]] = device[other[near]]  # the last that is written stays
    return np.where(device < 0, 0, device)
