"""Judge a plan by the simulator: how long the step takes, and whether memory holds it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement.problem import NEVER, Plan, Problem
from simulator.columns import Ints, ids, ints
from simulator.errors import ClusterError, InfeasibleError
from simulator.execution.choosing import choose
from simulator.execution.evaluate import evaluate
from simulator.units import Nanos

_PLANS = 6  # that are judged until a graph is placed: those of the search, of some single devices, and the better ones


def makespan(problem: Problem, plan: Plan) -> Nanos:
    """How long the step takes under a plan.

    NEVER where a value has no way to its reader, or control flow is moved to a device without a kernel for it.
    """
    return _judged(problem, plan, peaks=False)[0]


def verdict(problem: Problem, plan: Plan) -> tuple[bool, Nanos]:
    """Whether memory runs out while the step runs, and its makespan: the smaller, the better."""
    tables = problem.tables
    # a device holds a value at most twice, its own and a copy in its host's memory: mostly that settles it
    most = 2 * int(tables.tensor_bytes.sum()) + int(tables.scratch_bytes.sum()) + int(tables.resident_bytes.sum())
    ends, held = _judged(problem, plan, peaks=most > min(problem.capacity))
    return bool((held > np.array(problem.capacity)).any()), ends


def _judged(problem: Problem, plan: Plan, *, peaks: bool) -> tuple[Nanos, Ints]:
    """The makespan and [D] what each device holds at its peak, 0 where that is not asked or it never ends."""
    device = ids(plan.device)[problem.constraints.group]
    order = (
        problem.order if problem.order in ("fifo", "tensorflow") else "fifo" if plan.priority is None else "priority"
    )
    nothing = ints([0] * len(problem.capacity))
    engine = "compiled" if choose("auto", len(problem.tables) * _PLANS) else "python"
    try:
        found = evaluate(
            problem.prepared,
            device[None],
            order=order,
            contention=problem.contention,
            flavour=problem.flavour,
            priorities=plan.priority if order == "priority" else None,
            engine=engine,
            peaks=peaks,
        )
    except (ClusterError, InfeasibleError):  # the docstring of `makespan` says so
        return NEVER, nothing
    ends, held = (found[0], found[1][0]) if isinstance(found, tuple) else (found, nothing)
    return int(ends[0]), held


def fits(problem: Problem, device: Sequence[int]) -> bool:
    """Whether every device can hold what stays on it for the whole step, given a device per group."""
    held = [0] * len(problem.capacity)
    for row, nbytes in enumerate(problem.resident):
        held[device[row]] += nbytes
    return all(used <= room for used, room in zip(held, problem.capacity, strict=True))
