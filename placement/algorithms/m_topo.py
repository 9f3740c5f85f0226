"""m-TOPO: in topological order, one device after the other is filled with an equal share of the memory.

Jeon, Cai, Shetty et al., "Baechi: fast device placement of machine learning graphs", SoCC 2020, section 3.1. A device
takes ops until it holds the n-th part of what all ops hold, plus the largest of them. Costs and transfers play no part.
"""

from __future__ import annotations

import numpy as np

from placement.columns import Columns
from placement.plan import Plan
from placement.problem import Problem
from placement.scheduling.running import listed, runner_of
from placement.scheduling.timetable import (
    Timetable,
    allows,
    close,
    first_choice,
    floats,
    may_use,
    needed,
    open_timetable,
    require_room,
    settle,
)
from simulator.columns import Ints
from simulator.units import Bytes


def m_topo(problem: Problem) -> Plan:
    """Cut the topological order, ties by row, into a stretch per GPU; without GPUs, per CPU.

    A group goes where its first op goes. It counts with what stays resident, all that its ops make and the largest
    scratch memory of one, as if nothing were freed. A group that may not use the device whose turn it is goes to the
    CPU beside it. Else it goes to the first device that it may use. Raises InfeasibleError when memory runs out on the
    way.
    """
    runner, held, stages = runner_of(problem, fill), footprints(problem), _stages(problem)
    shared = [held[row] for row, devices in enumerate(problem.allowed) if problem.ops[row] and stages[0] in devices]
    cap = sum(shared) // len(stages) + max(shared, default=0)
    table = open_timetable(problem, runner)
    most = [min(cap, problem.capacity[device]) for device in stages]
    order = runner.of(problem.topological)
    runner.run(fill, table, order, runner.of(held), runner.of(stages), runner.of(most))
    require_room(problem, table)
    return Plan(listed(table.device), decider=listed(table.decider))


def fill(step: Columns, table: Timetable, order: Ints, held: Ints, stages: Ints, most: Ints) -> None:
    """Enter all ops in that order. It runs over columns (`placement.scheduling.running`)."""
    at, used = 0, 0
    for turn in range(len(order)):
        op = order[turn]
        if not floats(step, table, op):
            group, least = step.group[op], needed(step, table, op)
            if table.failed[0] < 0 and table.device[group] < 0 and allows(step, group, stages[at]):
                full = used + held[group] > most[at] or not may_use(table, group, stages[at], least)
                if full and at + 1 < len(stages):
                    at, used = at + 1, 0
                used += held[group]
            chosen = first_choice(step, table, op, stages[at], least)
            if chosen >= 0 and chosen != stages[at]:
                chosen = first_choice(step, table, op, step.home[stages[at]], least)  # the CPU beside it
            if chosen >= 0:
                settle(step, table, op, chosen, 0)
        if table.failed[0] >= 0:
            return
    close(step, table)


def footprints(problem: Problem) -> list[Bytes]:
    """[G] the bytes of a group if nothing were freed."""
    tables, group, held = problem.tables, problem.columns.group, np.array(problem.resident, np.int64)
    busy = ~tables.instant
    made = busy[tables.tensor_op]
    np.add.at(held, group[tables.tensor_op[made]], tables.tensor_bytes[made])
    scratch = np.zeros_like(held)
    np.maximum.at(scratch, group[busy], tables.scratch_bytes[busy])
    return (held + scratch).tolist()  # type: ignore[no-any-return]  # numpy


def _stages(problem: Problem) -> list[int]:
    """The devices to be filled, in their order: GPUs that some group may use, else CPUs."""
    usable = set().union(*{devices for devices, ops in zip(problem.allowed, problem.ops, strict=True) if ops})
    gpus = [device for device in sorted(usable) if not problem.cpu[device]]
    return gpus or sorted(usable) or [0]
