"""Plans: an algorithm's decision, the simulator's verdict on it, and the check of a plan by somebody else's algorithm.

A plan gives one device per group, so that no algorithm can split one. `placing.place` turns it into an Assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import numpy as np

from placement.problem import NEVER, Problem
from simulator.assignment import COST, NOT_RUN, ONLY, RULES, Bound, SearchRecord
from simulator.columns import Ints, alike, ids, ints
from simulator.errors import ClusterError, InfeasibleError, SimvizError
from simulator.execution.buffers import OWN
from simulator.execution.choosing import choose
from simulator.execution.evaluate import evaluate, evaluate_with_peaks
from simulator.units import Bytes, Nanos
from simulator.wording import counted, repr_of, some

_JUDGED_BY = ("group", "ops", "lawful", "allowed", "resident", "capacity")  # lists of a problem
_PLANS = 6  # judged until a graph is placed: those of the search, of some single devices, and the better ones


@dataclass(frozen=True, eq=False)
class Plan:
    """A device for each group, and what an algorithm has to say of it. Axes: N nodes of the graph, G groups.

    `device` is enough. Without `rule` and `decider`, each group counts as chosen by cost, by its first op.
    """

    device: list[int]  # [G]
    rule: list[int] = field(default_factory=list)  # [G] row of assignment.RULES
    decider: list[int] | None = None  # [G] op by which the group was decided, -1: by none
    priority: list[int] | None = None  # [N] smaller runs first; None: by ready time
    why: list[int] | None = None  # [N] row of assignment.RULES, where nodes of a group have rules of their own
    log_order: list[int] | None = None  # [N] as TensorFlow's placer would log the nodes of the graph
    notes: tuple[str, ...] = ()  # sentences for the reader of the result
    search: SearchRecord | None = None  # what a search for it did
    proven: Bound | None = None  # the least time of any plan, where the algorithm has a proof

    def __repr__(self) -> str:
        return repr_of(self, f"{counted(len(self.device), 'group')} on {counted(len(set(self.device)), 'device')}")


Algorithm: TypeAlias = Callable[[Problem], Plan]


def completed(problem: Problem, plan: Plan) -> Plan:
    """The plan with a rule and a decider for each group; by default a group is chosen by cost, by its first op."""
    only = np.fromiter(map(len, problem.allowed), np.int64, len(problem.allowed)) == 1
    first = np.full(len(only), -1)
    group = problem.columns.group
    first[group[::-1]] = np.arange(len(group))[::-1]  # of equal groups the last one counts
    rule = plan.rule or np.where(first < 0, NOT_RUN, np.where(only, ONLY, COST)).tolist()
    return replace(plan, rule=rule, decider=plan.decider or first.tolist())


# --- the simulator's verdict -----------------------------------------------------------------------------------------


def makespan(problem: Problem, plan: Plan) -> Nanos:
    """The time of the step under a plan.

    NEVER where no route leads a value to its reader, or control flow is moved to a device without a kernel for it.
    """
    return _simulated(problem, plan, peaks=False)[0]


class Verdict(NamedTuple):
    """The simulator's verdict on a plan: the smaller, the better."""

    full: bool  # memory runs out while the step runs
    ns: Nanos  # the makespan


def verdict(problem: Problem, plan: Plan) -> Verdict:
    """Simulate a plan, and judge it."""
    ends, held = _simulated(problem, plan, peaks=problem.tight)
    return Verdict(bool((held > np.array(problem.capacity)).any()), ends)


def _simulated(problem: Problem, plan: Plan, *, peaks: bool) -> tuple[Nanos, Ints]:
    """The makespan, and [D] the peak of each device's memory: 0 where it is not asked for or the step never ends."""
    device = ids(plan.device)[problem.constraints.group]
    options = problem.options
    engine = "compiled" if choose("auto", len(problem.tables) * _PLANS) else "python"
    prepared = problem.prepared.under(
        replace(options, order="auto" if problem.prioritised else options.order, engine=engine)
    )
    nothing = ints([0] * len(problem.capacity))
    priorities = plan.priority if problem.prioritised else None
    try:
        if peaks:
            found = evaluate_with_peaks(prepared, device[None], priorities=priorities, flavour=problem.flavour)
            return int(found.makespan_ns[0]), ints(found.peak_bytes[0])
        return int(evaluate(prepared, device[None], priorities=priorities, flavour=problem.flavour)[0]), nothing
    except (ClusterError, InfeasibleError):  # the docstring of `makespan` says so
        return NEVER, nothing


def lacking(problem: Problem, plan: Plan) -> list[Bytes]:
    """[D] the bytes that each device lacks at its peak under a plan."""
    _, held = _simulated(problem, plan, peaks=True)
    return np.maximum(held - np.array(problem.capacity), 0).tolist()  # type: ignore[no-any-return]  # numpy's tolist


def largest_alone(problem: Problem) -> tuple[int, Bytes, int] | None:
    """An op that fits no device, even alone: the op, the least that it holds, and the largest device that it may use.

    While it runs there are its inputs, its outputs, its scratch memory, and what stays with its group. Of several ops
    it is the one that lacks most; None: each op fits some device. Inputs in host memory and those that are resident
    elsewhere count nothing.
    """
    tables = problem.tables
    held = (tables.scratch_bytes + np.array(problem.resident, np.int64)[problem.group]).astype(np.int64)
    own = (tables.forwards == OWN) & (tables.made_bytes > 0)
    np.add.at(held, tables.tensor_op[own], tables.made_bytes[own])
    buffer = np.arange(len(own))
    while (passed := np.flatnonzero(tables.forwards[buffer] >= 0)).size:
        buffer[passed] = tables.edge_tensor[tables.forwards[buffer[passed]]]
    tensor, reader = tables.edge_tensor, tables.consumer
    counted_ = own[buffer[tensor]] & ~(tables.consumer_host | tables.unsent[tensor])
    counted_ &= ~tables.merge[reader]
    key = reader[counted_].astype(np.int64) * len(own) + buffer[tensor[counted_]]
    first, _ = alike(key)  # inputs that share a buffer are there once
    np.add.at(held, reader[counted_][first], tables.tensor_bytes[tensor[counted_][first]])
    held[tables.silent] = 0
    room = np.array([max((problem.capacity[d] for d in may), default=0) for may in problem.allowed], np.int64)
    missing = held - room[problem.group]
    if not len(held) or missing.max() <= 0:
        return None
    op = int(missing.argmax())
    return op, int(held[op]), max(problem.allowed[problem.group[op]], key=lambda device: problem.capacity[device])


def fits(problem: Problem, device: Sequence[int]) -> bool:
    """Tell whether every device can hold what stays on it for the whole step, given a device per group."""
    held = [0] * len(problem.capacity)
    for row, nbytes in enumerate(problem.resident):
        held[device[row]] += nbytes
    return all(used <= room for used, room in zip(held, problem.capacity, strict=True))


# --- plans of other people's algorithms ------------------------------------------------------------------------------


def plan_by(algorithm: Algorithm, name: str, problem: Problem) -> Plan:
    """The plan of an algorithm that is not simviz's own, checked.

    Raises SimvizError where it fails, changes the problem, by which its plan is judged, or returns no valid plan.
    Raises InfeasibleError for a device that a group may not use.
    """
    given = {key: list(getattr(problem, key)) for key in _JUDGED_BY}
    try:
        plan = algorithm(problem)
    except SimvizError:
        raise
    except Exception as error:  # somebody else's code may raise anything; the cause stays attached
        raise SimvizError(f"The algorithm {name!r} failed: {type(error).__name__}: {error}") from error
    if changed := [key for key, values in given.items() if getattr(problem, key) != values]:
        raise SimvizError(f"The algorithm {name!r} changed the problem's {changed[0]!r}; let it change a copy.")
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
    checked: dict[str, Any] = {  # Any: of each field its own type
        key: _column(name, key, *given, low=low.get(key, 0)) for key, given in optional.items() if given[0] is not None
    }
    return replace(plan, device=device, notes=_notes(name, plan.notes), **checked)


def _column(name: str, key: str, values: object, length: int, of: str, high: int, *, low: int = 0) -> list[int]:
    """The values as plain integers. Raises SimvizError for another length, and for a value that is no such integer."""
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
    """None for a value that is no integer: a bool, and an array, which says that it can be an index, too."""
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        return None
    try:
        return index(value)
    except TypeError:  # it is no integer, and the caller says so with its place
        return None


def _listed(whose: str, values: object) -> list[object]:
    """The entries, in a list. Raises SimvizError for a value without entries, and for a generator that fails."""
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
