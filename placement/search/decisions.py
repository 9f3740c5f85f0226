"""The decisions of a search: groups with a choice of devices, the values that they hand on, and orders of them.

A stretch of an order is moved as a whole. So each order sets groups side by side that belong together. It goes along
the flow of values, by rank, by name, or by trees of those that hand on much.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from placement.problem import NEVER, Problem
from placement.search.parts import of_groups, parts_of
from placement.search.reach import working
from simulator.columns import Flags, Floats, Ints, alike, by_key, positions
from simulator.execution.routes import alone_ns

if TYPE_CHECKING:
    from collections.abc import Sequence


ENDLESS = 2**40  # ns, which no group takes
_TREES = 100_000  # groups up to which trees are built: above, few of their cuts would be judged
_PAIRS_OF_A_TREE = 2**24  # looked at on all of its levels: what thousands of groups read joins with one at a level


@dataclass(frozen=True, eq=False)
class Decisions:
    """Axes: n ops, G groups of the problem, M groups that have a choice, D devices, T tensors, A pairs of groups."""

    problem: Problem
    group: Ints  # [n] group whose device the op takes: the cut moves some control flow beside another node
    free: Ints  # [M] groups that run and have a choice
    row: Ints  # [G] place in `free`, -1: it has none
    first: Ints  # [M+1]
    ops: Ints  # ops of the groups in `free`, one after the other
    allowed: Flags  # [M, D]
    resident: Ints  # [M]
    wire_ns: Floats  # [T] mean time of a transfer between two devices; 0 where the value stays
    work_ns: Floats  # [M] on the fastest device that is allowed
    pair: Ints  # [A, 2] groups in `free`, by row, one of which hands values to the other
    pair_ns: Floats  # [A] how long these take on the wire
    ranks: Floats  # [n] upward ranks
    seed: int  # of one of the orders

    @cached_property
    def orders(self) -> Ints:
        """[P, M] rows of `free`. They take longer than all else, so the first placements are judged before."""
        return _orders(self)

    @cached_property
    def part(self) -> Ints:
        """[M] the part of each group (`parts`); -1: it is shared. In large steps there are none."""
        if len(self.free) > _TREES:
            return np.full(len(self.free), -1)
        work_ns = fastest(self.problem)
        of_op = parts_of(self.problem, work_ns, self.wire_ns > 0, len(working(self.problem)))
        return of_groups(of_op, self.row[self.group], self.pair, len(self.free))

    @cached_property
    def run_ns(self) -> Ints:
        """[M, D] the time of each group on each device; an op without a kernel there counts nothing."""
        tables = self.problem.tables
        times = np.maximum(tables.kind_ns[self.ops], 0).astype(np.int64)
        return np.asarray(np.add.reduceat(times, self.first[:-1])[:, tables.kind])

    @cached_property
    def neighbours(self) -> tuple[Ints, Ints, Ints]:
        """[M+1] first neighbour, [2 A] groups that hand values to each or get some, and how long these take, in ns."""
        one, other = np.concatenate([self.pair, self.pair[:, ::-1]]).T
        by, first = by_key(one, len(self.free))
        wire_ns = np.concatenate([self.pair_ns, self.pair_ns])[by]
        return first.astype(np.int64), other[by].astype(np.int64), np.rint(wire_ns).astype(np.int64)

    @cached_property
    def places(self) -> Ints:
        """[P, M] where each group is in each order."""
        return np.argsort(self.orders, axis=1)

    def spread(self, device: Sequence[int] | Ints) -> Ints:
        """[n] the device of each op, given one for each group [G]."""
        return np.asarray(device, np.int64)[self.group]


def decisions_of(problem: Problem, ranks: npt.ArrayLike, seed: int) -> Decisions:
    """Find what can be decided. `ranks` [n] are the upward ranks of ops; `seed` is for one of the orders."""
    group = effective_groups(problem)
    runs = np.bincount(group, minlength=len(problem.ops)) > 0
    free = np.flatnonzero(runs & (problem.may.sum(axis=1) > 1))
    row = positions(free, len(problem.ops))
    members = np.flatnonzero(row[group] >= 0)
    members = members[np.argsort(row[group[members]], kind="stable")]
    wire_ns = _wire(problem)
    pair, pair_ns = pairs(problem, row[group], wire_ns)
    work_ns = _sums(row[group[members]], fastest(problem)[members], len(free))
    return Decisions(
        problem=problem,
        group=group,
        free=free,
        row=row,
        first=np.searchsorted(row[group[members]], np.arange(len(free) + 1)),
        ops=members,
        allowed=problem.may[free],
        resident=np.array(problem.resident, np.int64)[free],
        wire_ns=wire_ns,
        work_ns=work_ns,
        pair=pair,
        pair_ns=pair_ns,
        ranks=np.asarray(ranks, np.float64),
        seed=seed,
    )


def fastest(problem: Problem) -> Floats:
    """[n] the time of each op on the device that is fastest for it."""
    times = problem.tables.run_ns
    found = np.where((times < 0).all(axis=1), 0, np.where(times < 0, NEVER, times).min(axis=1))
    return found.astype(np.float64)


def fastest_on(decisions: Decisions, devices: Sequence[int] | Ints) -> Ints:
    """[M] the time of each group on the fastest of some devices, in ns; as good as endless where it may be on none."""
    tables, some = decisions.problem.tables, np.asarray(devices, np.int64)
    times = tables.kind_ns[:, np.unique(tables.kind[some])].astype(np.int64)
    least = np.where(times < 0, NEVER, times).min(axis=1).clip(0, ENDLESS)
    least[tables.instant & (least < ENDLESS)] = 0
    total = np.add.reduceat(least[decisions.ops], decisions.first[:-1])
    total[~decisions.allowed[:, some].any(axis=1)] = ENDLESS
    return total.clip(0, ENDLESS)


def effective_groups(problem: Problem) -> Ints:
    """[n] the group whose device an op takes."""
    tables, nodes = problem.tables, len(problem.graph)
    clients = len(problem.ops) - len(problem.constraints.members)
    of_node = np.concatenate([problem.constraints.group, len(problem.constraints.members) + np.arange(clients)])
    for node, beside in problem.prepared.moves:
        of_node[node] = of_node[beside]
    group = of_node[tables.node].astype(np.int64)
    bound = np.flatnonzero(tables.bound >= 0)
    group[bound] = of_node[nodes:]
    return group


def _wire(problem: Problem) -> Floats:
    """[T] the mean time of each tensor's transfer between two devices, of those that do the work if there are any."""
    busy = np.array(working(problem))
    one, other = (ends[~np.eye(len(busy), dtype=bool)] for ends in np.meshgrid(busy, busy, indexing="ij"))
    return wire_times(problem, one, other)


def wire_times(problem: Problem, source: Ints, target: Ints) -> Floats:
    """[T] the mean time of each tensor's transfer, over pairs of devices; 0 where the value stays, or is everywhere."""
    tables = problem.tables
    of, paces = tables.routes.paces
    rows, counts = np.unique(of[source, target], return_counts=True)
    sizes, which = np.unique(tables.tensor_bytes, return_inverse=True)
    total = np.zeros(len(sizes))
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        if (pace := paces[row]) is not None:
            total += count * np.array([alone_ns(pace, size) for size in sizes.tolist()], np.float64)
    mean: Floats = (total / max(int(counts.sum()), 1))[which.reshape(-1)]
    mean[tables.unsent] = 0
    return mean


def pairs(problem: Problem, row: Ints, wire_ns: Floats) -> tuple[Ints, Floats]:
    """The pairs of rows that hand on values, each once, and the time that these take on the wire; `row` [n] of ops."""
    tables = problem.tables
    source, target = row[tables.tensor_op[tables.edge_tensor]], row[tables.consumer]
    kept = (source >= 0) & (target >= 0) & (source != target) & ~tables.stays[tables.edge_tensor]
    both = np.sort(np.stack([source[kept], target[kept]], axis=1), axis=1)
    first, which = alike(*both.T)
    return both[first], _sums(which, wire_ns[tables.edge_tensor[kept]], len(first))


def _sums(key: npt.NDArray[np.integer], value: Floats, count: int) -> Floats:
    """[count] the sum of the values of each key."""
    return np.bincount(key.reshape(-1), value, count).astype(np.float64)


# --- orders -----------------------------------------------------------------------------------------------------------


def _orders(decisions: Decisions) -> Ints:
    """[P, M] orders of the groups, alike ones left out."""
    problem, count = decisions.problem, len(decisions.free)
    if not count:
        return np.zeros((0, 0), np.int64)
    of_op = decisions.row[decisions.group]
    mine = of_op >= 0

    def mean(value: Floats) -> Floats:
        size = np.bincount(of_op[mine], minlength=count).clip(1)
        found: Floats = _sums(of_op[mine], value[mine], count) / size
        return found

    deep, wide = (positions(order, len(of_op)).astype(float) for order in (depth_first(problem), problem.topological))
    highest = np.zeros(count)
    np.maximum.at(highest, of_op[mine], decisions.ranks[mine])
    chance = np.random.default_rng(decisions.seed)
    found = [
        np.argsort(mean(deep), kind="stable"),
        np.argsort(-highest, kind="stable"),
        np.argsort(mean(wide), kind="stable"),
        np.array(sorted(range(count), key=_names(decisions).__getitem__), np.int64),
        *(
            _by_tree(decisions, chance, noise=noise)
            for noise in (False, True)
            if max(count, len(decisions.pair) // 4) <= _TREES
        ),
    ]
    different = {order.tobytes(): order for order in found}
    return np.array(list(different.values()), np.int64)


def _names(decisions: Decisions) -> list[tuple[str, int]]:
    """[M] the name of each group's first op, as it is in the forward part: gradients beside what they are of."""
    names = decisions.problem.tables.names
    firsts = decisions.ops[decisions.first[:-1]].tolist()
    cut = ("gradients/", "gradients_1/", "_grad", "train/update_", "update_")
    found = []
    for at, op in enumerate(firsts):
        name = names[op]
        for part in cut:
            name = name.replace(part, "")
        found.append((name, at))
    return found


def depth_first(problem: Problem) -> list[int]:
    """[n] the ops, each after its inputs, a chain as long as it goes."""
    waits = [len(tensors) for tensors in problem.inputs]
    stack = [op for op in range(len(waits) - 1, -1, -1) if not waits[op]]
    done = []
    while stack:
        op = stack.pop()
        done.append(op)
        for tensor in problem.outputs[op]:
            for reader in problem.consumers[tensor]:
                waits[reader] -= 1
                if not waits[reader]:
                    stack.append(reader)
    return done


def _by_tree(decisions: Decisions, chance: np.random.Generator, *, noise: bool) -> Ints:
    """The groups in order of a tree: pairs that hand on much for their work are joined, again and again.

    That is heavy-edge matching (Karypis and Kumar 1998). `noise` makes another tree of it.
    """
    first = last = np.arange(len(decisions.free))  # leaves of each tree, whose leaves `after` links
    after = np.full(len(decisions.free), -1)
    size, pair, weight = decisions.work_ns + 1.0, decisions.pair, decisions.pair_ns
    left = _PAIRS_OF_A_TREE
    while len(pair) and left > 0:
        left -= len(pair)
        score = weight / np.sqrt(size[pair[:, 0]] * size[pair[:, 1]])
        if noise:
            score = score * (0.25 + chance.random(len(score)))
        mate = _matched(pair[np.argsort(-score, kind="stable")], len(first))
        if (mate < 0).all():
            break
        head = np.flatnonzero((mate < 0) | (np.arange(len(mate)) < mate))
        number = positions(head, len(first))
        joined = np.where(number < 0, number[mate], number)
        two = head[mate[head] >= 0]
        after[last[two]] = first[mate[two]]
        first, last = first[head], np.where(mate[head] >= 0, last[mate[head]], last[head])
        size = _sums(joined, size, len(head))
        both = np.sort(joined[pair], axis=1)
        keep = both[:, 0] != both[:, 1]
        both, weight = both[keep], weight[keep]
        once, which = alike(*both.T)
        pair, weight = both[once], _sums(which, weight, len(once))
    following, order = after.tolist(), []
    for leaf in first.tolist():
        while leaf >= 0:
            order.append(leaf)
            leaf = following[leaf]
    return np.array(order, np.int64)


def _matched(pair: Ints, count: int) -> Ints:
    """[count] the partner of each by going through the pairs and taking each of which neither has one; -1: none.

    Rounds over whole columns are faster, but for a chain, which has as many rounds as pairs.
    """
    mate = [-1] * count
    for one, other in pair.tolist():
        if mate[one] < 0 > mate[other]:
            mate[one], mate[other] = other, one
    return np.array(mate, np.int64)
