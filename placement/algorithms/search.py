"""A search: the best of many starts, improved by annealing, each placement judged by the event loop itself.

Other algorithms' plans are judged first (`placement.search.starts`). So the result is never worse than one of those
that are asked, or than the best single device. Then come list schedules that know links, full devices where memory may
lack, cuts of several orders, and a walk from the best (`placement.search`). At last groups go back to their neighbours
where that costs nothing. Memory comes first: a plan that fits beats each that does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from time import monotonic

import numpy as np

from placement.plan import Plan, Verdict, lacking, largest_alone, verdict
from placement.problem import NEVER, Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.decisions import decisions_of
from placement.search.judge import Candidate, Judge, as_ops, fewest
from placement.search.narrowing import SearchTasks
from placement.search.ordering import orders
from placement.search.starting import beforehand, started
from placement.search.starts import Asked, Listed, ask, fitting, plans_of, whom
from placement.search.tidying import tidied
from placement.search.walk import Progress
from placement.search.walks import side_by_side
from simulator.assignment import SearchRecord
from simulator.columns import Ids
from simulator.errors import UnsupportedError
from simulator.execution.choosing import load
from simulator.execution.flattening import workspace
from simulator.execution.layouts import PartialFunction
from simulator.units import Nanos, show_bytes
from simulator.wording import some

_ORDERED, _WALKED = 6, 3  # starts whose ops are ordered anew, and those that are walked from
_FINALS = 4  # placements that are judged at last by the cut that will be made of them
_SMALL, _FAR = 2000, 2  # in steps of more ops, those of other algorithms are not that take so many times as long


def search(problem: Problem) -> Plan:
    """The best plan that the effort finds; of equals the one with the least work: the time of all ops and transfers.

    Raises InfeasibleError where some group can't be placed at all.
    """
    choice = any(ops and len(allowed) > 1 for ops, allowed in zip(problem.ops, problem.allowed, strict=True))
    if not choice and (listed := ask(problem).found):
        return _best(problem, _allowed(problem, listed))[1]  # nothing can be decided
    try:
        play = _compiled(problem)
    except UnsupportedError as error:
        asked = ask(problem)
        if not (listed := asked.found):
            raise asked.failed[0] from None
        best = _best(problem, _allowed(problem, listed))[1]
        return replace(best, notes=(*best.notes, f"only other algorithms were judged: {error}"))
    began = monotonic()
    ranks = upward_ranks(problem)
    decisions = decisions_of(problem, ranks, problem.options.seed)
    with workspace(problem.tables, problem.options.contention, task=problem.handing) as own:
        judge, progress = Judge(decisions, own, play, problem.effort, began), Progress()
        asked = whom(problem)
        known = [
            judge.judge(one.algorithm, one.plan.device, _ops(problem, one.plan))
            for one in beforehand(problem, plans_of(problem, asked))
        ]
        listed = asked.found
        tasks = SearchTasks(decisions)
        found = started(judge, ranks, known, tasks.alone())
        if len(decisions.free) and judge.left():
            for start in dict.fromkeys([*fewest(found, _ORDERED), *tasks.best_of_some(found)]):
                found += [
                    judge.judge(f"order by {name}", start.device, ops)
                    for name, ops in orders(judge, start)
                    if judge.left()
                ]
            found, narrow = fewest(found, _WALKED), tasks.best_of_some(found)
            if judge.left():  # very large steps have no budget for a walk, and its layers take long to find
                found, progress = side_by_side(judge, tasks.walk_starts(found, narrow))
            found.insert(0, tidied(judge, found[0]))
        near = [each for each in zip(listed, known, strict=True) if _near(problem, each[1], found)]
        finals = fewest(found, _FINALS)
        if problem.options.order == "priority":
            near = [(one._replace(plan=_ranked(judge, one.plan, said)), said) for one, said in near]
            finals = [replace(one, ops=_by_start(judge, one)) for one in finals]
    last = [*(Listed("search", _plan(problem, one)) for one in finals), *(one for one, _ in near)]
    (full, _), chosen = _best(problem, last)
    record = _recorded(judge, asked, known, progress)
    notes = _shortage(problem, chosen) if full else ()
    return replace(chosen, notes=(*chosen.notes, *notes), search=record)


def _recorded(judge: Judge, asked: Asked, known: Sequence[Candidate], progress: Progress) -> SearchRecord:
    """The record of a search, which knows the plans of others so."""
    reached: dict[str, Nanos] = {}
    for one, said in zip(asked.found, known, strict=True):
        if not said.over and said.ns < NEVER:
            reached[one.algorithm] = min(said.ns, reached.get(one.algorithm, NEVER))
    problem = judge.decisions.problem
    return SearchRecord(
        judged=judge.judged,
        seed=problem.options.seed,
        effort=str(problem.effort),
        groups=len(judge.decisions.free),
        listed=tuple((name, reached.get(name)) for name in asked.names),
        left_out=asked.left_out,
        better=tuple((one.judged, one.how, one.ns) for one in judge.better),
        cycles=progress.cycles,
        accepted=progress.accepted,
        hopeless=progress.hopeless,
    )


def _best(problem: Problem, listed: Sequence[Listed]) -> tuple[Verdict, Plan]:
    """The first of the best plans as they will be cut, and its verdict; equal plans are judged once."""
    said: dict[tuple[tuple[int, ...], tuple[int, ...] | None], tuple[Verdict, Plan]] = {}
    for one in listed:
        key = (tuple(one.plan.device), None if one.plan.priority is None else tuple(one.plan.priority))
        if key not in said:
            said[key] = verdict(problem, one.plan), one.plan
    return min(said.values(), key=lambda one: (one[0].ns >= NEVER, one[0]))


def _near(problem: Problem, said: Candidate, found: Sequence[Candidate]) -> bool:
    """Tell whether a plan is to be judged by its own cut: always in small steps, in large ones where it may win."""
    best = min(one.ns for one in found)
    return len(problem.group) <= _SMALL or bool(said.over) or said.ns <= _FAR * best


def _allowed(problem: Problem, listed: list[Listed]) -> list[Listed]:
    """Those with priorities where the options ask for these; all where there are none."""
    if problem.options.order != "priority":
        return listed
    return [one for one in listed if one.plan.priority is not None] or listed


def _ranked(judge: Judge, plan: Plan, said: Candidate) -> Plan:
    """The plan with priorities, as it was judged."""
    return replace(plan, priority=_plan(judge.decisions.problem, replace(said, ops=_by_start(judge, said))).priority)


def _by_start(judge: Judge, of: Candidate) -> Ids | None:
    """[n] the order of a placement, or that in which its ops start: times stay as they are, but for ops of a loop."""
    if of.ops is not None or of.ns >= NEVER:
        return of.ops
    return judge.order_by_start("order by starts", of.device)


def _compiled(problem: Problem) -> PartialFunction:
    """The event loop compiled, and all else that a search needs, before its time runs."""
    play: PartialFunction = load().play
    import_module("placement.search.compiled")
    timed = problem.effort.seconds is not None
    if timed and "m_sct" in fitting(problem.size, len(problem.capacity), problem.effort):
        import_module("scipy.optimize")  # for its linear program; else no time runs, and `single` is judged sooner
    return play


def _ops(problem: Problem, plan: Plan) -> Ids | None:
    """[n] the ops in the order of a plan's priorities; None: it has none, or they are not to be used."""
    if plan.priority is None or not problem.prioritised:
        return None
    return as_ops(np.argsort(np.array(plan.priority)[problem.tables.node], kind="stable"))


def _plan(problem: Problem, found: Candidate) -> Plan:
    """As a plan: an order of ops becomes priorities of nodes."""
    device = np.asarray(found.device).tolist()
    if found.ops is None:
        return Plan(device)
    nodes = problem.tables.node[found.ops]
    place = np.full(len(problem.graph), len(nodes))
    np.minimum.at(place, nodes, np.arange(len(nodes)))
    return Plan(device, priority=place.tolist())


def _shortage(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """A note on what each device lacks under a plan that does not fit."""
    short = [
        f"{problem.cluster.devices[device].short} lacks {show_bytes(missing)} of {show_bytes(problem.capacity[device])}"
        for device, missing in enumerate(lacking(problem, plan))
        if missing > 0
    ]
    lacks = f"in this one, which lacks least, {some(short, 3)}"
    if (alone := largest_alone(problem)) is None:
        return (
            f"no placement that was judged fits; {lacks}: a smaller --batch, more devices or larger ones may hold it",
        )
    op, held, device = alone
    return (
        f"no placement fits: {problem.tables.names[op]} alone holds {show_bytes(held)} while it runs, and "
        f"{problem.cluster.devices[device].short} has {show_bytes(problem.capacity[device])}; {lacks}: a smaller "
        "--batch or larger devices may hold it",
    )
