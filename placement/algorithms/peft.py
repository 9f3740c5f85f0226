"""PEFT: predicted earliest finish time.

Arabnejad and Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table", IEEE
Transactions on Parallel and Distributed Systems 25(3), 2014, sections 4.1 to 4.3. The table has, for each op and
device, the time from the op's end there to the end of the step, if all that follows gets the device that suits it best
(equation 3). An op goes to the device with the smallest sum of its end and its entry in the table (equation 5).
"""

from __future__ import annotations

from placement.plan import Plan
from placement.problem import NEVER, Problem, topological
from placement.scheduling.insertion import Schedule, better, enter, open_schedule, plans
from placement.scheduling.ranks import PS_PER_NS, by_rank, mean_transfer
from placement.scheduling.timetable import floats


def peft(problem: Problem) -> Plan:
    """Place where the end and what must follow it take least; the plan has an order if that helps.

    Ready ops are taken by the mean of their row of the table (equation 4), ties by row. Ties between devices go to the
    one that TensorFlow would prefer. Only devices count that a group may use. The first member of a group decides for
    all. Raises InfeasibleError when memory runs out on the way.
    """
    return better(problem, plans(schedule(problem)))


def schedule(problem: Problem) -> Schedule:
    """All ops entered."""
    table = optimistic_costs(problem)
    may = [problem.allowed[row] for row in problem.group]
    ranks = [sum(row[d] for d in devices) / len(devices) for row, devices in zip(table, may, strict=True)]
    made = open_schedule(problem)
    for op in by_rank(problem, ranks):
        if not floats(made.table, op):
            enter(made, op, after=[entry / PS_PER_NS for entry in table[op]])
    return made


def optimistic_costs(problem: Problem) -> list[list[int]]:
    """[n][D] the table, in picoseconds; 0 for an op that nobody reads."""
    wire, devices = mean_transfer(problem), range(len(problem.capacity))
    table = [[0] * len(devices)] * len(problem.group)
    tail: list[list[int]] = [[]] * len(problem.group)  # [n][D] an op and what follows it, where it may run
    best = [0] * len(problem.group)  # [n] the least of them
    for op in reversed(topological(problem)):
        row = [0] * len(devices)
        for tensor in problem.outputs[op]:
            for reader in problem.consumers[tensor]:
                away = best[reader] + wire[tensor]
                row = [max(one, min(stays, away)) for one, stays in zip(row, tail[reader], strict=True)]
        table[op] = row
        tail[op] = [NEVER] * len(devices)
        for device in problem.allowed[problem.group[op]]:
            tail[op][device] = problem.run[op][device] * PS_PER_NS + row[device]
        best[op] = min(tail[op])
    return table
