"""PEFT: predicted earliest finish time.

Arabnejad and Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table", IEEE
Transactions on Parallel and Distributed Systems 25(3), 2014. Sections 4.1 to 4.3 describe it. For each op and device
the table has the time from the op's end there to the end of the step. In it all that follows gets the device that suits
it best (equation 3). An op goes to the device with the smallest sum of its end and its entry in the table (equation 5).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placement.plan import Plan
from placement.problem import Problem
from placement.scheduling.insertion import Schedule, better, by_insertion, enter_all
from placement.scheduling.ranks import by_rank, optimistic_costs
from placement.scheduling.running import runner_of


def peft(problem: Problem) -> Plan:
    """Place where the end and what must follow it take least; the plan has an order if that helps.

    Ready ops are taken by the mean of their row of the table (equation 4), ties by row. Ties between devices go to the
    one that TensorFlow would prefer. Only devices count that a group may use. The first member of a group decides for
    all. Raises InfeasibleError when memory runs out on the way.
    """
    return better(schedule(problem))


def schedule(problem: Problem) -> Schedule:
    """The schedule of all ops; a search judges it with and without its order."""
    runner = runner_of(problem, enter_all)
    table = optimistic_costs(problem, runner)
    ranks = _means(np.array(table, np.int64).reshape(-1, len(problem.capacity)), problem)
    return by_insertion(problem, runner, by_rank(runner, ranks), after_ps=table)


def _means(table: NDArray[np.int64], problem: Problem) -> list[float]:
    """[n] the mean of each row of `table` [n, D] over the devices that it may use; of an exact sum, rounded once."""
    devices = [np.array(may, np.int64) for may in problem.allowed]
    found = []
    for row, group in enumerate(problem.group):
        at = table[row, devices[group]]
        # A list of Python's integers takes 40 bytes an entry. A sum may pass 64 bits, one of halves doesn't.
        found.append(((int((at >> 32).sum()) << 32) + int((at & 0xFFFFFFFF).sum())) / len(at))
    return found
