"""The same makespan with less work and fewer devices: what a walk left somewhere by chance goes where it costs least.

A walk takes moves that change nothing, so off the critical path it leaves ops wherever they came to be. Here devices
that hardly work hand all that they have to one that works more, first to those with the most time left. Then each
group is set where its ops and its transfers take least. Such moves are made all at once; where the step gets slower,
half at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement.problem import NEVER
from placement.search.decisions import Decisions
from placement.search.judge import KEPT, Candidate, Judge
from simulator.columns import Ints, alike

_ROUNDS = 4
_HARDLY = 20  # a device with less than that part of the work of the one that works most
_TARGETS = 4  # devices that are tried for what such devices have
_MOST = 200  # judgements
_DENSE = 16  # entries of a table for each edge, up to which the table is used
_LOOKED = 8_000_000  # edges that are looked at for moves that are not judged, in each round and for each target


@dataclass(frozen=True, eq=False)
class ValueEdges:
    """Values that ops hand on, which take time where they cross. Axes: E edges."""

    tensor: Ints  # [E]
    source: Ints  # [E] op
    target: Ints  # [E] op
    wire_ns: Ints  # [E] mean time of a transfer

    def moved_ns(self, where: Ints) -> int:
        """The time of all transfers under the devices of ops [n]: of a tensor, one to each other device."""
        crossing = np.flatnonzero(where[self.source] != where[self.target])
        devices, tensors = int(where.max(initial=0)) + 1, int(self.tensor.max(initial=-1)) + 1
        key = self.tensor[crossing] * devices + where[self.target[crossing]]
        if tensors * devices > _DENSE * len(self.tensor):
            return int(self.wire_ns[crossing[alike(key)[0]]].sum())
        first = np.zeros(tensors * devices, np.int64)  # a table of all is filled sooner than its entries are sorted
        first[key] = self.wire_ns[crossing]
        return int(first.sum())

    @property
    def looks(self) -> int:
        """The number of times that all edges may be looked at."""
        return _LOOKED // max(len(self.tensor), 1)


def tidied(judge: Judge, best: Candidate) -> Candidate:
    """The best placement with less work, as quick and with no more memory lacking; else it itself."""
    decisions, most = judge.decisions, judge.judged + min(judge.judged // KEPT, _MOST)
    if best.ns >= NEVER or judge.judged >= most:
        return best
    values = values_of(decisions)
    best = _gathered(judge, values, best, most)
    least_ns = _cost_ns(decisions, values, best.device)
    for _ in range(_ROUNDS):
        before, waiting, looks = best, [pulled(decisions, values, best.device)], values.looks
        while waiting and looks and judge.judged < most:
            moves, looks = waiting.pop(), looks - 1
            device = best.device.copy()
            device[moves[:, 0]] = moves[:, 1]
            after_ns = _cost_ns(decisions, values, device)
            found = judge.judge("less work", device, best.ops) if after_ns < least_ns else best
            if after_ns < least_ns and found.order <= best.order:
                best, least_ns = found, after_ns
            elif len(moves) > 1:
                waiting += [moves[len(moves) // 2 :], moves[: len(moves) // 2]]
        if best is before:
            break
    return best


def _gathered(judge: Judge, values: ValueEdges, best: Candidate, most: int) -> Candidate:
    """The placement with fewer devices that hardly work, as quick and with no more transfers; else it itself."""
    decisions = judge.decisions
    where, devices = decisions.spread(best.device), decisions.allowed.shape[1]
    work = np.bincount(where, decisions.problem.tables.op_ns(where), devices)
    order, hardly = np.argsort(work, kind="stable"), work * _HARDLY < work.max()
    moved_ns, targets = values.moved_ns(where), order[~hardly[order]].tolist()
    for target in dict.fromkeys([*targets[: _TARGETS - 1], *targets[-1:]]):
        on = best.device[decisions.free]
        small = [decisions.free[on == device] for device in np.flatnonzero(hardly).tolist()]
        small = [groups for groups in small if len(groups) and decisions.allowed[decisions.row[groups], target].all()]
        waiting, looks = [small] if small else [], values.looks
        while waiting and looks and judge.judged < most:
            some, looks = waiting.pop(), looks - 1
            device = best.device.copy()
            device[np.concatenate(some)] = target
            after_ns = values.moved_ns(decisions.spread(device))
            found = judge.judge("fewer devices", device, best.ops) if after_ns <= moved_ns else best
            if after_ns <= moved_ns and found.order <= best.order:
                best, moved_ns = found, after_ns
            elif len(some) > 1:
                waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    return best


def values_of(decisions: Decisions) -> ValueEdges:
    """All values that may have to cross."""
    tables = decisions.problem.tables
    wire_ns = np.rint(decisions.wire_ns).astype(np.int64)  # whole: the same on every machine
    kept = np.flatnonzero(wire_ns[tables.edge_tensor] > 0)
    tensor, target = tables.edge_tensor[kept].astype(np.int64), tables.consumer[kept].astype(np.int64)
    return ValueEdges(tensor, tables.tensor_op[tensor].astype(np.int64), target, wire_ns[tensor])


def _cost_ns(decisions: Decisions, values: ValueEdges, device: Ints) -> int:
    """The time of all ops and transfers under the devices of groups [G], added."""
    where = decisions.spread(device)
    return values.moved_ns(where) + int(decisions.problem.tables.op_ns(where).sum())


def pulled(decisions: Decisions, values: ValueEdges, device: Ints) -> Ints:
    """[C, 2] groups that would have less to do and to transfer elsewhere, and the device for it, the largest gain
    first.
    """
    one, other = decisions.group[values.source], decisions.group[values.target]
    apart = one != other
    pull = np.zeros((len(device), decisions.allowed.shape[1]), np.int64)
    np.add.at(pull, (one[apart], device[other[apart]]), values.wire_ns[apart])
    np.add.at(pull, (other[apart], device[one[apart]]), values.wire_ns[apart])
    rows, here = np.arange(len(decisions.free)), device[decisions.free]
    pull = pull[decisions.free] - decisions.run_ns
    found = np.where(decisions.allowed, pull, pull[rows, here][:, None])
    there = found.argmax(axis=1)
    gain = found[rows, there] - pull[rows, here]
    order = np.argsort(-gain, kind="stable")
    order = order[gain[order] > 0]
    return np.stack([decisions.free[order], there[order]], axis=1)
