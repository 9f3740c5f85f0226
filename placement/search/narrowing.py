"""A search on a part of a cluster: some tasks alone, as if there were no others.

A step may be quickest on one of several hosts. There a walk over all of them loses its way. It takes moves that change
nothing, so groups off the critical path come to other hosts. Their values are then late when they would count. Starts
lose, too: what belongs together depends on how far devices are from each other, and in a cluster of hosts that is the
network.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from placement.search.decisions import Decisions, decisions_of
from placement.search.reach import narrowed, within_reach, working
from simulator.columns import Ints

if TYPE_CHECKING:
    from placement.search.judge import Candidate

_MOST = 100_000  # ops: in larger steps few starts are judged, and there is one walk
_NEAR = 1.1  # times as long as the best start, a start on some tasks alone has a walk


class WalkStarts(NamedTuple):
    """The decisions of a walk, and the starts from which it begins."""

    decisions: Decisions
    starts: Sequence[Candidate]


class SearchTasks:
    """The tasks of a cluster over which a search may place a step."""

    def __init__(self, whole: Decisions) -> None:
        self.whole = whole
        self.task: Sequence[int] = whole.problem.cluster.task_of  # [D]
        self._all = frozenset(self.task[device] for device in within_reach(whole.problem))
        self._known = {self._all: whole}

    def alone(self) -> list[Decisions]:
        """The decisions on one task of each sort, where several have devices that do the work."""
        problem = self.whole.problem
        busy = sorted({self.task[device] for device in working(problem)})
        if len(busy) < 2 or len(self.whole.group) > _MOST:
            return []
        sorts: dict[tuple[int, ...], int] = {}
        for one in busy:
            kinds = tuple(problem.cluster.kind_of[at] for at in within_reach(problem) if self.task[at] == one)
            sorts.setdefault(kinds, one)
        return [made for one in sorts.values() if len((made := self.on({one})).free)]

    def on(self, tasks: Collection[int]) -> Decisions:
        """The decisions on these tasks alone."""
        if (key := frozenset(tasks)) not in self._known:
            devices = {device for device, task in enumerate(self.task) if task in key}
            problem = narrowed(self.whole.problem, devices)
            self._known[key] = decisions_of(problem, self.whole.ranks, self.whole.seed)
        return self._known[key]

    def used(self, start: Candidate) -> frozenset[int]:
        """The tasks on which a start has something that could be elsewhere."""
        return frozenset(self.task[device] for device in np.unique(start.device[self.whole.free]).tolist())

    def best_of_some(self, found: Sequence[Candidate]) -> list[Candidate]:
        """The best start that leaves out tasks, if it takes nearly as short as the best of all and lacks no more."""
        best = min(found, key=lambda one: one.order)
        near = (one for one in found if one.over <= best.over and one.ns <= _NEAR * best.ns)
        some = [one for one in near if self.used(one) < self._all]
        return [min(some, key=lambda one: one.order)] if some else []

    def walk_starts(self, starts: Sequence[Candidate], narrow: Sequence[Candidate]) -> list[WalkStarts]:
        """The starts over all tasks, and those of a narrow start over its tasks alone, if it fits."""
        found = [WalkStarts(self.whole, starts)]
        for start in narrow if len(self.whole.group) <= _MOST else ():
            tasks = self.used(start)
            if not start.over and len((some := self.on(tasks)).free):
                found.append(
                    WalkStarts(some, [start, *(one for one in starts if one is not start and self.used(one) <= tasks)])
                )
        return found


def permitted(decisions: Decisions, device: npt.ArrayLike) -> Ints:
    """[G] these devices; of a group that may not be there the first that it may use."""
    allowed = decisions.problem.allowed
    chosen = np.asarray(device, np.int64).tolist()
    return np.array([at if at in may or not may else may[0] for at, may in zip(chosen, allowed, strict=True)], np.int64)
