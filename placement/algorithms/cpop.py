"""CPOP: all of the critical path on one processor.

Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing", IEEE
Transactions on Parallel and Distributed Systems 13(3), 2002. The priority of an op is its upward plus its
downward rank, so that the ops of a critical path have the same, the highest. They go to the device that runs all of
them in the least time. Any other op goes where it ends first, with insertion. Ready ops are taken by priority.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

import numpy as np

from placement.plan import Plan
from placement.problem import Problem
from placement.scheduling.insertion import Schedule, better, by_insertion, enter_all
from placement.scheduling.ranks import by_rank, downward_ranks, upward_ranks
from placement.scheduling.running import runner_of


def cpop(problem: Problem) -> Plan:
    """Place the critical path on one device, and the other ops where they end first.

    The paper has one entry and one exit. Here the path begins at the first of the ops without inputs that has the
    highest priority. It goes on with the first reader of the same priority. An op of the path that may not use its
    device, or whose group went elsewhere, is placed as any other. Ties go to the smaller row, ties between devices to
    the one that TensorFlow would prefer. The plan has an order if that helps. Raises InfeasibleError when memory runs
    out on the way.
    """
    return better(schedule(problem))


def schedule(problem: Problem) -> Schedule:
    """The schedule of all ops; a search judges it with and without its order."""
    runner = runner_of(problem, enter_all)
    priority = upward_ranks(problem, runner) + downward_ranks(problem, runner)
    path, only = critical(problem, priority.tolist()), np.full(len(priority), -1)
    only[path] = processor(problem, path)
    return by_insertion(problem, runner, by_rank(runner, priority), only=only)


def critical(problem: Problem, priority: Sequence[int]) -> list[int]:
    """The ops of a critical path, from one without inputs to one without readers."""
    entries = [op for op, tensors in enumerate(problem.inputs) if not tensors]
    path = [max(entries, key=lambda op: (priority[op], -op))] if entries else []
    while path:
        readers = [reader for tensor in problem.outputs[path[-1]] for reader in problem.consumers[tensor]]
        following = [reader for reader in readers if priority[reader] == priority[path[0]]]
        if not following:
            break
        path.append(min(following))
    return path


def processor(problem: Problem, path: Sequence[int]) -> int:
    """The device that runs the path in the least time; what it may not run counts as on the slowest that may."""
    whole = [0] * len(problem.capacity)
    for op in path:
        run, may = problem.run[op], problem.allowed[problem.group[op]]
        times = [max(run[device] for device in may)] * len(whole)
        for device in may:
            times[device] = run[device]
        whole = list(map(add, whole, times))
    return whole.index(min(whole))
