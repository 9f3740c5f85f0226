"""HEFT: heterogeneous earliest finish time.

Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing", IEEE
Transactions on Parallel and Distributed Systems 13(3), 2002. Ops are taken by falling upward rank; each goes to the
device on which it ends first, where it may slip into a gap between ops that were placed before it.
"""

from __future__ import annotations

from placement.plan import Plan
from placement.problem import Problem, topological
from placement.scheduling.insertion import Schedule, better, enter, open_schedule, plans
from placement.scheduling.ranks import upward_ranks
from placement.scheduling.timetable import floats


def heft(problem: Problem) -> Plan:
    """Place by rank with insertion; the plan says in which order each device should take its ops, if that helps.

    Ties in rank go to the op that comes first in topological order, ties between devices to the one that TensorFlow
    would prefer. The first member of a group decides for all. Raises InfeasibleError when memory runs out on the way.
    """
    return better(problem, plans(schedule(problem)))


def schedule(problem: Problem) -> Schedule:
    """All ops entered."""
    ranks = upward_ranks(problem)
    made = open_schedule(problem)
    for op in sorted(topological(problem), key=lambda op: -ranks[op]):  # stable: an op never overtakes its inputs
        if not floats(made.table, op):
            enter(made, op)
    return made
