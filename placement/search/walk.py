"""Simulated annealing over stretches of orders, from good starts and again from the best so far.

A move sets a layer (`layers`) or a stretch of an order on another device, mostly near the critical path. Or it shifts
one op in the order of priority. Of layers there are several sizes, down to a few ops. A move is taken by Metropolis's
rule, its simulation stopped as soon as it would be refused. Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by
simulated annealing", Science 220, 1983. Cycles cool from 0.3 % of the makespan, every other from a tenth of that, and
grow by half each time. So nothing depends on how large the budget is, which only ends the walk. The best and starts
that are nearly as good take turns. After cycles that bring nothing the next begins hotter, and may change the order of
ops where it was that of ready times. The path is looked for anew every few judgements. Where no budget is given, idle
cycles end the walk. Any walk ends that has judged `limits.PATIENCE` times as many as its best took.

A race of eight short cycles goes before. These are three times as hot, and large layers alone move: which of them are
together on a device is seldom changed later. Of what they find the best is the first start.

All numbers in the walk are whole, so that it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np

from placement.search.ahead import ahead_of
from placement.search.critical import SPREAD
from placement.search.decisions import Decisions
from placement.search.gathering import sizes
from placement.search.judge import Candidate, Judge, as_ops
from placement.search.ordering import orders, reordered_by_start
from placement.search.reach import working
from placement.search.tidying import tidied
from simulator import limits
from simulator.columns import Ints
from simulator.execution.arrays import PRIORITY

_HOT, _COLD = 0.003, 1e-5  # temperatures, as shares of the makespan
_SHARE_BITS = 40  # of fractions of these
_COOLING = [round(_HOT * (_COLD / _HOT) ** (at / 64) * 2**_SHARE_BITS) for at in range(65)]  # within a cycle
NEAR = 103  # a start that takes more than so many hundredths of the best is not walked from
_GROWTH = 1.5


class CycleKind(NamedTuple):
    """Temperatures and moves of a cycle."""

    tenths: int  # temperatures, in tenths of those above
    whole: int = 550  # of a thousand moves so many set a layer elsewhere, the others a stretch
    sizes: int = 2**31  # of layers that move, the largest first


_WARM, _COOL = CycleKind(10), CycleKind(1)  # of cycles in turn
_REHEATED = (_WARM, CycleKind(30), CycleKind(100))  # after idle cycles, by their number
_RACING = CycleKind(30, whole=1000, sizes=4)
_RACES, _RACE = 8, 4  # so many cycles race, each for so great a part of the first one's length
_RACED = 3_000  # ops: in larger steps a race would take half of the judgements that are made by default
_SHIFTED = 200  # of a thousand moves change the order of ops
_FIRST, _SLICE = 0.25, 0.02  # the most that the first cycle and a slice take, in `Judge.steps`'s seconds
_TURNS = 16  # the first cycle tries each group on each device so often at most
_IDLE = 3  # cycles one after the other that bring nothing


@dataclass(eq=False)
class Progress:
    """The counts of a walk."""

    cycles: int = 0
    accepted: int = 0  # moves
    hopeless: bool = False  # it ended since nothing better was to be expected


class Walker:
    """The arrays that machine code walks over."""

    def __init__(self, judge: Judge, decisions: Decisions, seed: int, layer: Ints | None = None) -> None:
        from placement.search.moves import COUNTS, ODD_BITS, ODDS, RULES, Groups, Walk  # late: it loads LLVM

        devices = len(judge.capacity)
        moved, n = len(decisions.free), len(decisions.group)
        near_first, near, _ = decisions.neighbours
        self.layer = sizes(decisions) if layer is None else layer  # [C, M]
        member, begin, until = _members(self.layer)
        sets = list(dict.fromkeys(map(bytes, decisions.allowed)))
        inside = np.frombuffer(b"".join(sets), bool).reshape(len(sets), devices)
        rows = {of: row for row, of in enumerate(sets)}
        among = np.array([rows[bytes(of)] for of in decisions.allowed], np.int64)
        self.judge, self.decisions = judge, decisions
        self.patience = limits.PATIENCE.most  # read here: the walk may be in another thread
        self.group_of = decisions.row[decisions.group]
        self.groups = Groups(
            first=decisions.first.astype(np.int64),
            ops=decisions.ops.astype(np.int64),
            among=among,
            allowed=inside.astype(np.int64).reshape(-1),
            choice_first=np.append(0, inside.sum(axis=1).cumsum()),
            choice=np.nonzero(inside.reshape(-1))[0] % devices,
            resident=decisions.resident,
            order=decisions.orders.reshape(-1),
            place=decisions.places.reshape(-1),
            member=member.reshape(-1),
            begin=begin.reshape(-1),
            until=until.reshape(-1),
            near_first=near_first,
            near=near,
        )
        self.walk = Walk(
            device=np.zeros(n, np.int32),
            ops=np.zeros(0, np.int32),
            best_ops=np.zeros(0, np.int32),
            chosen=np.zeros(moved, np.int64),
            best=np.zeros(moved, np.int64),
            used=np.zeros(devices, np.int64),
            capacity=judge.capacity,
            changed=np.zeros(2 * moved, np.int64),
            critical=np.zeros(4 * n + 4, np.int64),
            until=np.zeros(4 * n + 4, np.int64),
            on_path=np.zeros(1, np.int64),
            counts=np.zeros(COUNTS, np.int64),
            rules=np.zeros(RULES, np.int64),
            random=np.array([(seed * 2654435761 + 88172645463325252) % 2**63], np.int64),
            odds=np.array([round(-log((at + 0.5) / ODDS) * 2**ODD_BITS) for at in range(ODDS)], np.int64),
        )
        self.ahead = ahead_of(decisions)
        self.latest_first = self.ahead.order.copy()  # in topological order
        self.rows = self.walk.device.view().reshape(1, -1)
        self.rows.setflags(write=False)
        self.resident = np.array(decisions.problem.resident, np.int64)
        tables = decisions.problem.tables
        self.room_bytes = max(int(judge.capacity[working(decisions.problem)].max()), 1)  # a host's may be far more
        self.bytes_ = 3 * int(tables.tensor_bytes.sum() + tables.resident_bytes.sum() + tables.scratch_bytes.sum())
        choices = int(decisions.allowed.sum())
        self.first = min(judge.steps(_FIRST), _TURNS * choices)  # judgements of a walk's first cycle
        often = np.bincount(decisions.problem.tables.node)
        self.looped = int(often.max(initial=0)) > 1  # some node is several ops, of one priority

    def widened(self) -> Walker:
        """The same walk over all that the judge may decide."""
        if self.decisions is self.judge.decisions:
            return self
        wide = Walker(self.judge, self.judge.decisions, 0)
        wide.walk.random[:] = self.walk.random
        return wide

    def cycle(self, start: Candidate, length: int, kind: CycleKind, progress: Progress) -> Candidate:
        """Walk from a start for so many judgements, cooling: the best that was found, or the start."""
        from placement.search.moves import ACCEPTED, HEAT, HEAT_BITS, IMPROVED

        judge, count = self.judge, self.walk.counts
        self._begin(start, kind)
        done, best = 0, start
        while done < length and judge.left():
            share = _COOLING[64 * done // length]
            self.walk.rules[HEAT] = min((start.ns * share >> _SHARE_BITS - HEAT_BITS) * kind.tenths // 10, 2**46)
            seen = int(count[IMPROVED])
            done += self._slice()
            if count[IMPROVED] > seen:
                best = self._best(start)
                judge.consider(best, "annealing")
        progress.accepted += int(count[ACCEPTED])
        return best

    def _begin(self, start: Candidate, kind: CycleKind) -> None:
        """Set the walk on a start."""
        from placement.search import moves as at  # late: it loads LLVM

        judge, count, rules = self.judge, self.walk.counts, self.walk.rules
        ops = np.zeros(0, np.int32) if start.ops is None else np.array(start.ops, np.int32)
        self.walk = walk = self.walk._replace(ops=ops, best_ops=ops.copy())
        walk.chosen[:] = start.device[self.decisions.free]
        walk.best[:] = walk.chosen
        walk.device[:] = self.decisions.spread(start.device)
        walk.used[:] = np.bincount(start.device, self.resident, len(judge.capacity)).astype(np.int64)
        most = 2**61 // max(self.bytes_, 1)  # so that 64 bits hold what all bytes cost
        rules[at.ORDER], rules[at.TIGHT] = judge.code(start.ops), judge.tight
        rules[at.PER_BYTE] = min(int(10 * start.ns / self.room_bytes * 2**at.OVER_BITS), most)
        rules[at.WHOLE], rules[at.SIZES] = kind.whole, kind.sizes
        rules[at.SHIFTING] = _SHIFTED if rules[at.ORDER] == PRIORITY and not self.looped else 0
        count[:] = 0
        count[at.CURRENT] = start.ns + (int(rules[at.PER_BYTE]) * start.over >> at.OVER_BITS)
        count[at.BEST], count[at.BEST_OVER], count[at.BEST_WORK] = start.ns, start.over, start.work_ns

    def _slice(self) -> int:
        """Walk some way at one temperature, along the critical path of the placement: how many judgements at least."""
        from placement.search.compiled import walk as go  # late: it loads LLVM
        from placement.search.moves import SPENT, TRIED

        judge, count = self.judge, self.walk.counts
        left = judge.left()
        self._aim()
        tried, spent = int(count[TRIED]), int(count[SPENT])
        judge.work.run(go, self.walk, self.groups, self.ahead, min(judge.steps(_SLICE), left))
        tried = int(count[TRIED]) - tried
        judge.judged += tried
        judge.spent += int(count[SPENT]) - spent
        return max(tried, 1)

    def _best(self, start: Candidate) -> Candidate:
        from placement.search.moves import BEST, BEST_OVER, BEST_WORK  # late: it loads LLVM

        device = start.device.copy()
        device[self.decisions.free] = self.walk.best
        ops, count = self.walk.best_ops, self.walk.counts
        return Candidate(device, as_ops(ops) if len(ops) else None, *count[[BEST, BEST_OVER, BEST_WORK]].tolist())

    def _aim(self) -> None:
        """Find the critical path of the current placement, along which most moves are tried."""
        from placement.search.compiled import critical  # late: it loads LLVM
        from placement.search.moves import ORDER

        judge, walk = self.judge, self.walk
        ranked = walk.ops.view().reshape(min(len(walk.ops), 1), len(walk.device))
        ranked.setflags(write=False)
        judge.run(self.rows, int(walk.rules[ORDER]), ranked)
        walk.on_path[0] = 0
        if judge.makespan[0] < 0:
            return
        # each after its readers, also where these start with it
        self.ahead.order[:] = self.latest_first[np.argsort(-judge.start_ns()[self.latest_first], kind="stable")]
        lengths = judge.work.arena.tasks.length[: len(walk.device)]
        ends = judge.start_ns() + lengths + (walk.device.astype(np.int64) << SPREAD)
        by_end = np.argsort(ends, kind="stable")
        judge.work.run(critical, walk, by_end, ends[by_end], self.group_of)


def anneal(walker: Walker, starts: Sequence[Candidate], progress: Progress) -> list[Candidate]:
    """Walk until the budget ends: first from each start, then from the best. The best of each cycle, best first."""
    judge, idle, length = walker.judge, 0, walker.first
    starts = raced(walker, starts, progress)
    best, found = starts[0], list(starts)
    first = judge.judged + length
    while judge.left() and (judge.effort.limited or idle < _IDLE):
        if judge.judged > walker.patience * max(first, judge.better[-1].judged):
            progress.hopeless = True
            break
        turn = progress.cycles
        start = best
        if turn % 2 == 0 and turn // 2 < len(starts) and 100 * starts[turn // 2].ns < NEAR * best.ns:
            start = starts[turn // 2]
        known = best
        if idle:
            start, kind = reordered_by_start(judge, start, looped=walker.looped), _REHEATED[idle % len(_REHEATED)]
        else:
            kind = _WARM if turn % 2 == 0 else _COOL
        one = walker.cycle(start, length, kind, progress)
        if judge.left():
            one = tidied(judge, one)
        found.append(one)
        progress.cycles += 1
        if one.order < best.order:
            best = one
        for name, ops in orders(judge, best):
            if judge.left():
                other = judge.judge(name, best.device, ops)
                found.append(other)
                if other.order < best.order:
                    best = other
        idle = 0 if best.rank < known.rank else idle + 1
        if idle:
            walker = walker.widened()
        length = int(length * _GROWTH)
    return sorted(found, key=lambda one: one.order)


def raced(walker: Walker, starts: Sequence[Candidate], progress: Progress) -> list[Candidate]:
    """Walk some times from the first start, with large layers alone: the best that was found, then the starts."""
    random = walker.walk.random.copy()
    count = _RACES if len(walker.decisions.group) <= _RACED else 0
    length = max(walker.first // _RACE, 1)
    found = [walker.cycle(starts[0], length, _RACING, progress) for _ in range(count) if walker.judge.left()]
    walker.walk.random[:] = random  # so a race that brings nothing changes nothing, but takes its time
    return list(dict.fromkeys([min([starts[0], *found], key=lambda one: one.order), *starts]))


def _members(layer: Ints) -> tuple[Ints, Ints, Ints]:
    """[C, M] groups by layer, and of each group where its layer begins there and ends."""
    member = np.argsort(layer, axis=1, kind="stable")
    begin, until = np.zeros_like(layer), np.zeros_like(layer)
    for at, of in enumerate(layer):
        ordered = of[member[at]]
        begin[at], until[at] = np.searchsorted(ordered, of), np.searchsorted(ordered, of, side="right")
    return member, begin, until
