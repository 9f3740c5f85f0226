"""Judge a plan by the simulator: how long the step takes, and whether memory holds it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement.problem import NEVER, Plan, Problem
from simulator.errors import ClusterError, InfeasibleError
from simulator.execution import engine
from simulator.execution.lifetimes import allocations, usage
from simulator.partitioning import settled
from simulator.units import Nanos


def _op_devices(problem: Problem, plan: Plan) -> list[int]:
    """[n] device of each op that runs: the plan's, but control flow goes where the cut will move it."""
    device = [plan.device[row] for row in problem.group]
    if not problem.moves:
        return device
    of_node = [0] * (max(problem.node) + 1)
    for node, where in zip(problem.node, device, strict=True):
        of_node[node] = where
    of_node = settled(of_node, problem.moves)
    return [of_node[node] for node in problem.node]


def _order(problem: Problem) -> str | None:
    """As the engine has it; None: by priority where a plan has one, which a demand for priorities comes to, too."""
    return None if problem.order in ("auto", "priority") else problem.order


def makespan(problem: Problem, plan: Plan) -> Nanos:
    """How long the step takes under a plan.

    NEVER where a value has no way to its reader, or control flow is moved to a device without a kernel for it.
    """
    try:
        return engine.makespan(
            problem.tables,
            _op_devices(problem, plan),
            plan.priority,
            order=_order(problem),
            contention=problem.contention,
        )
    except (ClusterError, InfeasibleError):  # the docstring says so
        return NEVER


def verdict(problem: Problem, plan: Plan) -> tuple[bool, Nanos]:
    """Whether memory runs out while the step runs, and its makespan: the smaller, the better."""
    ends = makespan(problem, plan)
    return ends < NEVER and overflows(problem, plan), ends


def overflows(problem: Problem, plan: Plan) -> bool:
    """Whether some device holds more than it has at some moment of the step."""
    tables = problem.tables
    # a device holds a value at most twice, its own and a copy in its host's memory: mostly that settles it
    most = 2 * int(tables.tensor_bytes.sum()) + int(tables.scratch_bytes.sum()) + int(tables.resident_bytes.sum())
    if most <= min(problem.capacity):
        return False
    outcome = engine.run(
        tables, _op_devices(problem, plan), plan.priority, order=_order(problem), contention=problem.contention
    )
    peak = usage(tables, outcome, allocations(tables, outcome)).peak_bytes
    return bool(np.any(peak > np.array(problem.capacity)))


def fits(problem: Problem, device: Sequence[int]) -> bool:
    """Whether every device can hold what stays on it for the whole step, given a device per group."""
    held = [0] * len(problem.capacity)
    for row, nbytes in enumerate(problem.resident):
        held[device[row]] += nbytes
    return all(used <= room for used, room in zip(held, problem.capacity, strict=True))
