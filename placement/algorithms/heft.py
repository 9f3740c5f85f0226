"""HEFT: heterogeneous earliest finish time.

Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing", IEEE
Transactions on Parallel and Distributed Systems 13(3), 2002. Ops are taken by falling upward rank. Each goes to the
device on which it ends first, where it may slip into a gap between ops that were placed before it.
"""

from __future__ import annotations

import numpy as np

from placement.plan import Plan
from placement.problem import Problem
from placement.scheduling.insertion import Schedule, better, by_insertion, enter_all
from placement.scheduling.ranks import upward_ranks
from placement.scheduling.running import runner_of


def heft(problem: Problem) -> Plan:
    """Place by rank with insertion; the plan says in which order each device should take its ops, if that helps.

    Ties in rank go to the op that comes first in topological order, ties between devices to the one that TensorFlow
    would prefer. The first member of a group decides for all. Raises InfeasibleError when memory runs out on the way.
    """
    return better(schedule(problem))


def schedule(problem: Problem) -> Schedule:
    """The schedule of all ops, by falling rank; the sort is stable, so an op never overtakes its inputs."""
    runner = runner_of(problem, enter_all)
    ranks = upward_ranks(problem, runner)
    order = problem.topological
    return by_insertion(problem, runner, order[np.argsort(-ranks[order], kind="stable")])
