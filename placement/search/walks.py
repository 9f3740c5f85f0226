"""Walks side by side, each in a thread and by a chance of its own: the best that any of them finds counts.

Chance leads a walk into one valley or another, and a longer walk seldom leaves it. So of two walks the better one is
worth more than one of twice the length. No walk hears of another. So where the effort is no time, the result depends
neither on a clock nor on the number of processors. Machine code runs without Python's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle

from placement.effort import Effort
from placement.search.decisions import Decisions
from placement.search.judge import Candidate, Judge
from placement.search.narrowing import WalkStarts
from placement.search.walk import Progress, Walker, anneal
from simulator.columns import Ints
from simulator.execution.evaluate import usable_cores
from simulator.execution.flattening import workspace

_WALKS, _MOST = 2, 8
_ALONE = 100_000  # ops: in larger steps a second walk is not worth its memory
_APART = 32  # bits between the seeds of walks, so that another seed of the user has other walks


def walks_of(effort: Effort, ops: int) -> int:
    """The number of walks that a search takes side by side in a step of so many ops, each in a thread of its own.

    A time has one for each processor. A number of placements has one, and two where nothing is said, so these repeat on
    every machine.
    """
    if effort.judged is not None or ops > _ALONE:
        return 1
    return _WALKS if effort.seconds is None else min(usable_cores(), _MOST)


def side_by_side(judge: Judge, starts: Sequence[WalkStarts]) -> tuple[list[Candidate], Progress]:
    """Walk from these starts in turn until the budget ends: what was found, best first, of equals that of the first.

    The judge has the counts of all walks afterwards. What ends one ends all.
    """
    problem, since = judge.decisions.problem, judge.judged
    count = walks_of(problem.effort, len(judge.decisions.group))
    judges, layers = [judge], dict[Decisions, Ints]()
    with ExitStack() as stack:
        for _ in range(count - 1):
            own = stack.enter_context(workspace(problem.tables, problem.options.contention, task=problem.handing))
            judges.append(judge.beside(own))
        walks = []
        for at, (one, those) in enumerate(zip(judges, cycle(starts), strict=False)):
            seed = problem.options.seed + (at << _APART)
            walker = Walker(one, those.decisions, seed, layers.get(those.decisions))
            layers[those.decisions] = walker.layer
            walks.append((walker, those.starts, Progress()))
        pool = stack.enter_context(ThreadPoolExecutor(max(count - 1, 1)))
        others = [pool.submit(anneal, *each) for each in walks[1:]]
        try:
            found = [anneal(*walks[0]), *(other.result() for other in others)]
        finally:  # Ctrl-C reaches this thread alone
            for one in judges[1:]:
                one.ended = True
    judge.join(judges[1:], since)
    counts = [progress for _, _, progress in walks]
    return sorted((one for each in found for one in each), key=lambda one: one.order), Progress(
        cycles=sum(each.cycles for each in counts),
        accepted=sum(each.accepted for each in counts),
        hopeless=all(each.hopeless for each in counts),
    )
