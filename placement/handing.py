"""Algorithms that are handed in: what they return is checked before anything is made of it, and completed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from dataclasses import replace
from operator import index
from typing import SupportsIndex, TypeAlias

from placement.problem import Plan, Problem
from simulator.assignment import COST, NOT_RUN, ONLY, RULES
from simulator.errors import InfeasibleError, SimvizError
from simulator.wording import counted, some

Algorithm: TypeAlias = Callable[[Problem], Plan]


def name_of(algorithm: object) -> str:
    """What an algorithm is called in results and messages."""
    return algorithm if isinstance(algorithm, str) else str(getattr(algorithm, "__name__", type(algorithm).__name__))


def plan_by(algorithm: Algorithm, name: str, problem: Problem) -> Plan:
    """The plan of an algorithm that is not simviz's own, with a rule for each group.

    Raises SimvizError where it fails or returns what is no plan, InfeasibleError for a device that a group may not use.
    """
    try:
        plan = algorithm(problem)
    except SimvizError:
        raise
    except Exception as error:  # somebody else's code may raise anything; the cause stays attached
        raise SimvizError(f"The algorithm {name!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(plan, Plan):
        raise SimvizError(f"The algorithm {name!r} returned a {type(plan).__name__}, not a placement.Plan.")
    groups, nodes, devices = len(problem.lawful), len(problem.graph), len(problem.cluster)
    device = _column(name, "device", plan.device, groups, "group", devices)
    for group, chosen in enumerate(device):
        if chosen not in problem.allowed[group]:
            raise _refused(problem, name, group, chosen)
    optional = {
        "rule": (_unless_empty(plan.rule), groups, "group", len(RULES)),
        "decider": (plan.decider, groups, "group", len(problem.group)),
        "priority": (plan.priority, nodes, "node", 2**62),
        "why": (plan.why, nodes, "node", len(RULES)),
        "log_order": (plan.log_order, nodes, "node", nodes),
    }
    low = {"decider": -1, "priority": -(2**62)}
    checked = {
        key: _column(name, key, *given, low=low.get(key, 0)) for key, given in optional.items() if given[0] is not None
    }
    return replace(plan, device=device, notes=_notes(name, plan.notes), **{**_by_cost(problem), **checked})


def _by_cost(problem: Problem) -> dict[str, list[int]]:
    """Rule and decider of each group where the plan gives none: all was chosen, by the group's first op."""
    rules = [NOT_RUN if not ops else ONLY if len(may) == 1 else COST for ops, may in _groups(problem)]
    return {"rule": rules, "decider": [ops[0] if ops else -1 for ops in problem.ops]}


def _groups(problem: Problem) -> list[tuple[list[int], tuple[int, ...]]]:
    return list(zip(problem.ops, problem.lawful, strict=True))


def _column(name: str, key: str, values: object, length: int, of: str, high: int, *, low: int = 0) -> list[int]:
    """The values as plain integers. Raises SimvizError for another length, and for what is no integer in the range."""
    whose = f"The algorithm {name!r} returned a Plan whose {key}"
    given, found = _listed(whose, values), []
    if len(given) != length:
        raise SimvizError(f"{whose} has {counted(len(given), 'number')} for {counted(length, of)}.")
    for row, value in enumerate(given):
        number = _integer(value)
        if number is None or not low <= number < high:
            raise SimvizError(f"{whose} has {value!r} for {of} {row}; give an integer from {low} to {high - 1}.")
        found.append(number)
    return found


def _integer(value: object) -> int | None:
    """None for what is no integer: a bool, and an array, which says that it can be an index, too."""
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        return None
    try:
        return index(value)
    except TypeError:  # it is no integer, and the caller says so with its place
        return None


def _listed(whose: str, values: object) -> list[object]:
    """The entries, in a list. Raises SimvizError for what has none, and for a generator that fails on the way."""
    if not isinstance(values, Iterable):
        raise SimvizError(f"{whose} is a {type(values).__name__}, not a list.")
    try:
        return list(values)
    except Exception as error:  # somebody else's generator may raise anything; the cause stays attached
        raise SimvizError(f"{whose} failed: {type(error).__name__}: {error}") from error


def _unless_empty(values: object) -> object:
    return None if isinstance(values, Sized) and not len(values) else values


def _notes(name: str, notes: object) -> tuple[str, ...]:
    """The sentences of a plan; a lone text is one sentence."""
    if notes is None or isinstance(notes, str):
        return (notes,) if notes else ()
    return tuple(map(str, _listed(f"The algorithm {name!r} returned a Plan whose notes", notes)))


def _refused(problem: Problem, name: str, group: int, chosen: int) -> InfeasibleError:
    tables, devices = problem.tables, problem.cluster.devices
    members = problem.constraints.members
    inside = [problem.graph.names[row] for row in members[group]] if group < len(members) else []
    first = inside[0] if inside else tables.names[problem.ops[group][0]]
    may = some([devices[d].short for d in problem.allowed[group]])
    if chosen in problem.lawful[group]:
        why = "has no cost or no memory for it"
    else:
        why = "it may not use, by its kernels, its device string or its colocation"
    return InfeasibleError(
        f"The algorithm {name!r} puts {first!r} (group {group}) on {devices[chosen].short}, which {why}; "
        f"it may use {may}.",
        node=first,
        members=inside,
    )
