"""m-TOPO: in topological order, one device after the other is filled with an equal share of the memory.

Jeon, Cai, Shetty et al., "Baechi: fast device placement of machine learning graphs", SoCC 2020, section 3.1. A device
takes ops until it holds the n-th part of what all ops hold, plus the largest of them. Costs and transfers play no part.
"""

from __future__ import annotations

from placement.plan import Plan
from placement.problem import Problem, topological
from placement.scheduling.timetable import Timetable, choices, close, floats, open_timetable, settle
from simulator.units import Bytes


def m_topo(problem: Problem) -> Plan:
    """Cut the topological order, ties by row, into a stretch per GPU; without GPUs, per CPU.

    A group goes where its first op goes. It counts with what stays resident, all that its ops make and the largest
    scratch memory of one, as if nothing were freed. A group that may not use the device whose turn it is goes to the
    CPU beside it, else to the first device that it may use. Raises InfeasibleError when memory runs out on the way.
    """
    table, held = open_timetable(problem), footprints(problem)
    stages = _stages(problem)
    shared = [held[row] for row, devices in enumerate(problem.allowed) if problem.ops[row] and stages[0] in devices]
    cap = sum(shared) // len(stages) + max(shared, default=0)
    at, used = 0, 0
    for op in topological(problem):
        if floats(table, op):
            continue
        row = problem.group[op]
        if table.device[row] < 0 and stages[at] in problem.allowed[row]:
            full = used + held[row] > min(cap, problem.capacity[stages[at]]) or stages[at] not in choices(table, op)
            if full and at + 1 < len(stages):
                at, used = at + 1, 0
            used += held[row]
        settle(table, op, _near(table, op, stages[at]), 0)
    return close(table)


def footprints(problem: Problem) -> list[Bytes]:
    """[G] the bytes of a group if nothing were freed."""
    scratch = problem.tables.scratch_bytes.tolist()
    held = list(problem.resident)
    for row, ops in enumerate(problem.ops):
        busy = [op for op in ops if not problem.instant[op]]
        held[row] += sum(problem.nbytes[tensor] for op in busy for tensor in problem.outputs[op])
        held[row] += max((scratch[op] for op in busy), default=0)
    return held


def _stages(problem: Problem) -> list[int]:
    """The devices to be filled, in their order: GPUs that some group may use, else CPUs."""
    usable = {device for row, devices in enumerate(problem.allowed) if problem.ops[row] for device in devices}
    gpus = [device for device in sorted(usable) if not problem.cpu[device]]
    return gpus or sorted(usable) or [0]


def _near(table: Timetable, op: int, device: int) -> int:
    """The device itself, the CPU beside it, or the first that the op may use."""
    may = choices(table, op)
    return next((place for place in (device, table.problem.home[device]) if place in may), may[0])
