"""The judge of a search: how long a step takes under devices and an order, by the compiled event loop.

Every judgement is counted. A budget in judgements makes a search repeat; one in seconds ends the same search earlier
or later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from placement.effort import Effort, judged_in
from placement.problem import NEVER
from placement.search.ahead import work_of
from placement.search.decisions import Decisions
from simulator.columns import Ids, Ints, ids, ints
from simulator.execution.arrays import CODES, FIFO, INSTANTS, PRIORITY, TIMES
from simulator.execution.layouts import PartialFunction, Workspace
from simulator.progress import silent
from simulator.units import Bytes, Nanos, show_nanos

_ENDLESS = 2**60
KEPT = 20  # one of so many judgements is kept for `tidying`
_DEFAULT = 36_000_000  # steps of `ahead.work_of` for each walk, about a second on a busy machine, if nothing is said


@dataclass(frozen=True, eq=False)
class Candidate:
    """A placement and how it was judged. Axes: G groups of the problem, n ops."""

    device: Ints  # [G]
    ops: Ids | None  # [n] in order of priority; None: by ready time, or as the options say
    ns: Nanos  # NEVER where it cannot run
    over: Bytes  # that devices lack, all of them together
    work_ns: Nanos  # of all ops and transfers

    @property
    def rank(self) -> tuple[Bytes, Nanos]:
        """The smaller, the better."""
        return self.over, self.ns

    @property
    def order(self) -> tuple[Bytes, Nanos, Nanos]:
        """The same; of those that are as quick the one with less work comes first."""
        return self.over, self.ns, self.work_ns


class Better(NamedTuple):
    """A placement that is better than all before it."""

    judged: int  # judgements until then, its own included
    how: str  # it was found
    rank: tuple[Bytes, Nanos]

    @property
    def ns(self) -> Nanos:
        """Its makespan."""
        return self.rank[1]


@dataclass(eq=False)
class Judge:
    """The compiled loop over one problem, its memory, and what is left of the budget."""

    decisions: Decisions
    work: Workspace
    play: PartialFunction
    effort: Effort
    started: float = field(default_factory=monotonic)
    judged: int = 0
    spent: int = 0  # work, as `ahead.work_of` counts it
    best: Candidate | None = None
    better: list[Better] = field(default_factory=list)
    ended: bool = False  # nobody waits for it any more

    def __post_init__(self) -> None:
        problem = self.decisions.problem
        self.tight = problem.tight
        self.capacity = np.array(problem.capacity, np.int64)
        self.columns = ids(np.arange(len(problem.tables)))
        self.orders = problem.prioritised
        self.makespan = np.zeros(1, np.int64)
        self.peaks = np.zeros((1 if self.tight else 0, len(problem.capacity)), np.int64)

    def left(self) -> int:
        """The number of judgements that the budget still allows, 0 if its time or its work is done but for tidying."""
        seconds, judged = self.effort.seconds, self.effort.judged
        if self.ended:
            return 0
        if seconds is not None and monotonic() - self.started >= seconds * (1 - 1 / KEPT):
            return 0
        if not self.effort.limited and self.spent >= _DEFAULT:
            return 0
        return _ENDLESS if judged is None else max(judged - judged // KEPT - self.judged, 0)

    def steps(self, seconds: float) -> int:
        """The number of judgements that take about so long; it depends on the size of the step alone."""
        return judged_in(seconds, self.decisions.problem.size)

    def consider(self, found: Candidate, how: str) -> None:
        """Keep a placement if it is better than all so far."""
        quicker = self.best is None or found.rank < self.best.rank
        if self.best is None or found.order < self.best.order:
            self.best = found
        if quicker:
            self.better.append(Better(self.judged, how, found.rank))
            self.effort.say(f"searching: {self.judged:,} placements judged, the best takes {show_nanos(found.ns)}")

    def code(self, ops: Ids | None) -> int:
        """The order as the loop knows it."""
        if ops is not None:
            return PRIORITY
        return FIFO if self.orders else CODES[self.decisions.problem.options.order]

    def judge(self, how: str, device: npt.ArrayLike, ops: Ids | None = None) -> Candidate:
        """Judge devices [G], which were found so; with `ops` in that order."""
        chosen = np.asarray(device, np.int64)
        rows = ids(self.decisions.spread(chosen))[None]
        ranked = ids(np.zeros((0, rows.shape[1]), np.int32)) if ops is None else ops[None]
        self.run(rows, self.code(ops), ranked)
        over = int(np.maximum(self.peaks[0] - self.capacity, 0).sum()) if self.tight else 0
        ended, work_ns = int(self.makespan[0]), int(self.work.arena.found.work_ns[0])
        said = (ended, over, work_ns) if ended >= 0 else (NEVER, NEVER, NEVER)
        found = Candidate(chosen, ops, *said)
        self.consider(found, how)
        return found

    def run(self, rows: Ids, order: int, ranked: Ids) -> None:
        """Run one step to its end."""
        self.judged += 1
        notes = TIMES + (INSTANTS if len(self.peaks) else 0)
        given = (order, ranked, ints([]), 2**62, notes, self.makespan, self.peaks)
        self.work.run(self.play, rows, self.columns, ids([0]), *given)
        tables = self.decisions.problem.tables
        self.spent += work_of(len(tables), len(tables.consumer), self.work.arena.found.counts.tolist())

    def beside(self, work: Workspace) -> Judge:
        """A judge in another workspace who knows what this one knows; only this one tells of progress."""
        return replace(
            self,
            work=work,
            effort=replace(self.effort, say=silent),
            better=list(self.better),
        )

    def join(self, others: Sequence[Judge], since: int) -> None:
        """Take over what judges beside it did since so many judgements, as if all had judged in turn."""
        every = (self, *others)
        found = sorted(
            ((one.judged, at, one) for at, judge in enumerate(every) for one in judge.better if one.judged > since),
            key=lambda each: each[:2],
        )
        self.judged = since + sum(judge.judged - since for judge in every)
        self.better = [one for one in self.better if one.judged <= since]
        for judged, _, one in found:
            if not self.better or one.rank < self.better[-1].rank:
                turn = min(since + (judged - since) * len(every), self.judged)
                self.better.append(one._replace(judged=turn))
        known = [judge.best for judge in every if judge.best is not None]
        self.best = min(known, key=lambda one: one.order, default=None)

    def order_by_start(self, how: str, device: Ints) -> Ids:
        """[n] the ops as they start under devices [G], which are judged for it."""
        self.judge(how, device)
        return as_ops(np.argsort(self.start_ns(), kind="stable"))

    def start_ns(self) -> Ints:
        """[n] when each op started in the last run."""
        return self.work.arena.state.start_ns[: len(self.decisions.group)]


def as_ops(order: npt.ArrayLike) -> Ids:
    """An order of ops as a column of its own."""
    return ids(np.array(order, np.int32))


def fewest(found: list[Candidate], count: int) -> list[Candidate]:
    """The best placements; of those that take equally long the first by work, as the others mostly mirror it."""
    kept: dict[tuple[Bytes, Nanos], Candidate] = {}
    for one in sorted(found, key=lambda one: one.order):
        kept.setdefault(one.rank, one)
    return list(kept.values())[:count]
