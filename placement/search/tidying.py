"""The same makespan with fewer transfers: what a walk left on devices by chance goes back to its neighbours.

A walk takes moves that change nothing, so off the critical path it leaves ops wherever they came to be. Here each group
is set where most of its values are, all such groups at once. Where the step gets slower, half of them at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement.problem import NEVER
from placement.search.decisions import Decisions, Vector
from placement.search.judge import KEPT, Candidate, Judge

_ROUNDS = 4
_MOST = 200  # judgements


@dataclass(frozen=True, eq=False)
class Values:
    """Values that ops hand on, which take time where they cross. Axes: E edges."""

    tensor: Vector  # [E]
    source: Vector  # [E] op
    target: Vector  # [E] op
    wire_ns: Vector  # [E] mean time of a transfer

    def moved_ns(self, where: Vector) -> int:
        """The time of all transfers under the devices of ops [n]: of a tensor, one to each other device."""
        crossing = np.flatnonzero(where[self.source] != where[self.target])
        key = self.tensor[crossing] * (int(where.max(initial=0)) + 1) + where[self.target[crossing]]
        _, first = np.unique(key, return_index=True)
        return int(self.wire_ns[crossing[first]].sum())


def tidied(judge: Judge, best: Candidate) -> Candidate:
    """The best placement with fewer transfers, as quick and with no more memory lacking; else it itself."""
    made, most = judge.made, judge.judged + min(judge.judged // KEPT, _MOST)
    if best.ns >= NEVER:
        return best
    values = _values(made)
    moved_ns = values.moved_ns(made.spread(best.device))
    for _ in range(_ROUNDS):
        before, waiting = best, [_pulled(made, values, best.device)]
        while waiting and judge.judged < most:
            moves = waiting.pop()
            device = best.device.copy()
            device[moves[:, 0]] = moves[:, 1]
            after_ns = values.moved_ns(made.spread(device))
            found = judge.judge("fewer transfers", device, best.ops) if after_ns < moved_ns else best
            if after_ns < moved_ns and found.rank <= best.rank:
                best, moved_ns = found, after_ns
            elif len(moves) > 1:
                waiting += [moves[len(moves) // 2 :], moves[: len(moves) // 2]]
        if best is before:
            break
    return best


def _values(made: Decisions) -> Values:
    """All values that may have to cross."""
    tables = made.problem.tables
    wire_ns = np.rint(made.wire_ns).astype(np.int64)  # whole: the same on every machine
    kept = np.flatnonzero(wire_ns[tables.edge_tensor] > 0)
    tensor, target = tables.edge_tensor[kept].astype(np.int64), tables.consumer[kept].astype(np.int64)
    return Values(tensor, tables.tensor_op[tensor].astype(np.int64), target, wire_ns[tensor])


def _pulled(made: Decisions, values: Values, device: Vector) -> Vector:
    """[C, 2] groups that would have less to transfer elsewhere and the device for it, the most pulled one first."""
    one, other = made.group[values.source], made.group[values.target]
    apart = one != other
    pull = np.zeros((len(device), made.allowed.shape[1]), np.int64)
    np.add.at(pull, (one[apart], device[other[apart]]), values.wire_ns[apart])
    np.add.at(pull, (other[apart], device[one[apart]]), values.wire_ns[apart])
    here = pull[made.free, device[made.free]]
    pull = np.where(made.allowed, pull[made.free], -1)
    there = pull.argmax(axis=1)
    gain = pull[np.arange(len(there)), there] - here
    order = np.argsort(-gain, kind="stable")
    order = order[gain[order] > 0]
    return np.stack([made.free[order], there[order]], axis=1)
