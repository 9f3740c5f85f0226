"""A search: the best of many starts, improved by annealing, each placement judged by the event loop itself.

All other algorithms' plans are judged first, so the result is never worse than one of them, or than the best single
device. Then come list schedules that know links, cuts of several orders, and a walk from the best (`placement.search`).
Memory comes first: a plan that fits beats each that does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import NamedTuple

import numpy as np

from placement.algorithms.single import all_on
from placement.plan import Plan, completed, lacking, verdict
from placement.problem import NEVER, Problem, upward_ranks
from placement.search.decisions import decisions_of
from placement.search.judge import Candidate, Judge, fewest
from placement.search.starts import cuts, lists
from placement.search.walk import Progress, Walker, anneal, orders
from simulator.assignment import SearchRecord
from simulator.columns import Ids
from simulator.errors import InfeasibleError, UnsupportedError
from simulator.execution.choosing import load
from simulator.execution.flattening import workspace
from simulator.execution.layouts import PartialFunction
from simulator.units import Nanos, show_bytes

LISTED = ("single", "whitepaper", "heft", "tensorflow", "requested")  # whose plans are judged, too
_STARTS = 600_000  # ops in starts: so many, divided by the ops of a step, are judged
_LISTS = 0.3  # share of them that list schedules may take
_WALKED = 3  # starts that are walked from
_FINALS = 4  # placements that are judged at last by the cut that will be made of them


class Judged(NamedTuple):
    """A plan, and what the simulator says of it as it will be cut."""

    verdict: tuple[bool, Nanos]
    algorithm: str
    plan: Plan


def search(problem: Problem) -> Plan:
    """The best plan that the effort finds; of equals the one that was found first.

    Raises InfeasibleError where some group can't be placed at all.
    """
    judged, failed = _listed(problem)
    if judged and not any(ops and len(allowed) > 1 for ops, allowed in zip(problem.ops, problem.allowed, strict=True)):
        return min(judged, key=lambda one: one.verdict).plan  # nothing can be decided
    try:
        play = _compiled()
    except UnsupportedError as error:
        if not judged:
            raise failed[0] from None
        best = min(judged, key=lambda one: one.verdict)
        return replace(best.plan, notes=(*best.plan.notes, f"only other algorithms were judged: {error}"))
    ranks = upward_ranks(problem)
    made = decisions_of(problem, ranks, problem.options.seed)
    with workspace(problem.tables, problem.options.contention) as own:
        judge, progress = Judge(made, own, play, problem.effort), Progress()
        found = _starts(judge, ranks, judged)
        if len(made.free):
            walker = Walker(judge, made.row[made.group], problem.options.seed)
            for start in fewest(found, _WALKED):
                found += [
                    judge.judge(f"order by {name}", start.device, ops)
                    for name, ops in orders(walker, start)
                    if judge.left()
                ]
            found = anneal(walker, fewest(found, _WALKED), progress)
    for one in fewest(found, _FINALS):
        plan = _plan(problem, one)
        judged.append(Judged(verdict(problem, plan), "search", plan))
    best = min(judged, key=lambda one: one.verdict)  # the first of equals
    record = SearchRecord(
        judged=judge.judged,
        seed=problem.options.seed,
        effort=str(problem.effort),
        groups=len(made.free),
        listed=tuple((name, _makespan(judged, name)) for name in LISTED),
        better=tuple(judge.better),
        cycles=progress.cycles,
        accepted=progress.accepted,
    )
    notes = _shortage(problem, best.plan) if best.verdict[0] else ()
    return replace(best.plan, notes=(*best.plan.notes, *notes), search=record)


def _compiled() -> PartialFunction:
    """The event loop compiled, and all else that a search needs, before its time runs."""
    play: PartialFunction = load().play
    import_module("placement.search.compiled")
    return play


def _listed(problem: Problem) -> tuple[list[Judged], list[InfeasibleError]]:
    """The plans of the other algorithms, judged, and the errors of those that find none."""
    from placement.algorithms import load as algorithm  # late: the table names this module

    judged: list[Judged] = []
    failed: list[InfeasibleError] = []
    for name in LISTED:
        try:
            plan = completed(problem, algorithm(name)(problem))
        except InfeasibleError as error:
            failed.append(error)
            continue
        lawful = all(device in allowed for device, allowed in zip(plan.device, problem.allowed, strict=True))
        if lawful and (said := verdict(problem, plan))[1] < NEVER:
            judged.append(Judged(said, name, plan))
    return judged, failed


def _makespan(judged: Sequence[Judged], name: str) -> Nanos | None:
    return next((one.verdict[1] for one in judged if one.algorithm == name and not one.verdict[0]), None)


def _starts(judge: Judge, ranks: list[int], judged: Sequence[Judged]) -> list[Candidate]:
    """Placements to begin with: those of the other algorithms, all on a device, list schedules and cuts."""
    problem = judge.made.problem
    most = max(_STARTS // len(judge.made.group), 12)
    found = [judge.judge(one.algorithm, one.plan.device, _ops(problem, one.plan)) for one in judged]
    if not found:
        found.append(judge.judge("first devices", [allowed[0] for allowed in problem.allowed]))
    alone = (all_on(problem, device).device for device in range(len(problem.capacity)))
    base = min(found, key=lambda one: one.rank).device.tolist()
    for how, source, share in (
        ("one device", alone, 0.2),
        ("list schedules", lists(judge.made, ranks), _LISTS),
        ("cuts", cuts(judge.made, base, tight=judge.tight), 1.0),
    ):
        for device in source:
            if not judge.left() or judge.judged >= most * share:
                break
            found.append(judge.judge(how, device))
    return found


def _ops(problem: Problem, plan: Plan) -> Ids | None:
    """[n] the ops in the order of a plan's priorities; None: it has none, or they are not to be used."""
    if plan.priority is None or problem.options.order not in ("auto", "priority"):
        return None
    order: Ids = np.argsort(np.array(plan.priority)[problem.tables.node], kind="stable").astype(np.int32)
    order.setflags(write=False)
    return order


def _plan(problem: Problem, found: Candidate) -> Plan:
    """As a plan: an order of ops becomes priorities of nodes."""
    device = [int(one) for one in found.device]
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
    return (
        f"no placement that was judged fits; in this one, which lacks least, {', '.join(short)}: a smaller --batch, "
        "more devices or larger ones would hold it",
    )
