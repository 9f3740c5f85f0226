"""Walks side by side, each in a thread and by a chance of its own: the best that any of them finds counts.

Chance leads a walk into one valley or another, and a longer walk seldom leaves it. So of two walks the better one is
worth more than one of twice the length. No walk hears of another. So where the effort is no time, the result depends
neither on a clock nor on the number of processors. Machine code runs without Python's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from placement.effort import Effort
from placement.search.judge import Candidate
from placement.search.walk import Progress, Walker, anneal
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


def side_by_side(walker: Walker, starts: Sequence[Candidate]) -> tuple[list[Candidate], Progress]:
    """Walk from these starts until the budget ends: what was found, best first, of equals that of the first walk.

    The judge of the given walker has the counts of all walks afterwards. What ends one ends all.
    """
    judge = walker.judge
    problem, since = judge.decisions.problem, judge.judged
    count = walks_of(problem.effort, len(judge.decisions.group)) - 1
    with ExitStack() as stack:
        walkers = [walker]
        for at in range(1, count + 1):
            own = stack.enter_context(workspace(problem.tables, problem.options.contention, task=problem.handing))
            seed = problem.options.seed + (at << _APART)
            walkers.append(Walker(judge.beside(own), walker.group_of, seed, walker.layer))
        counts = [Progress() for _ in walkers]
        pool = stack.enter_context(ThreadPoolExecutor(max(count, 1)))
        others = [pool.submit(anneal, *each) for each in zip(walkers[1:], [starts] * count, counts[1:], strict=True)]
        try:
            found = [anneal(walker, starts, counts[0]), *(other.result() for other in others)]
        finally:  # Ctrl-C reaches this thread alone
            for one in walkers[1:]:
                one.judge.ended = True
    judge.join([one.judge for one in walkers[1:]], since)
    return sorted((one for each in found for one in each), key=lambda one: one.rank), Progress(
        cycles=sum(each.cycles for each in counts),
        accepted=sum(each.accepted for each in counts),
        played=sum(each.played for each in counts),
        hopeless=all(each.hopeless for each in counts),
    )
