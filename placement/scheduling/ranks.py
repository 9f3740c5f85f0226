"""Ranks of ops: how much work lies behind and before each, by mean times.

Topcuoglu, Hariri and Wu 2002, where they are the upward and the downward rank. The mean time of an op is over the
devices that its group may use, that of a transfer over all ordered pairs of different devices that a route joins. Ranks
are whole picoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from placement.problem import Problem, topological

PS_PER_NS = 1000  # means of a few times are rarely whole nanoseconds; whole picoseconds keep ties exact


def upward_ranks(problem: Problem) -> list[int]:
    """[n] mean run time plus the largest (mean transfer time + rank) among the readers.

    It is on average the work, transfers included, between an op's start and the end of the step.
    """
    return _upward(problem, mean_run(problem), mean_transfer(problem))


def levels(problem: Problem) -> list[int]:
    """[n] the upward rank without transfers, which is called the static level."""
    return _upward(problem, mean_run(problem), [0] * len(problem.nbytes))


def downward_ranks(problem: Problem) -> list[int]:
    """[n] the largest (rank + mean run time + mean transfer time) among those that an op reads from; 0 without any.

    It is on average the work between the begin of the step and an op's start.
    """
    work, wire = mean_run(problem), mean_transfer(problem)
    ranks = [0] * len(work)
    for op in topological(problem):
        begun = ranks[op] + work[op]
        for tensor in problem.outputs[op]:
            there = begun + wire[tensor]
            for reader in problem.consumers[tensor]:
                if there > ranks[reader]:
                    ranks[reader] = there
    return ranks


def by_rank(problem: Problem, rank: Sequence[float]) -> list[int]:
    """[n] the ops, each after its predecessors; among ready ones the highest rank first, then the smaller row."""
    pending = [len(tensors) for tensors in problem.inputs]
    ready = [(-rank[op], op) for op, count in enumerate(pending) if not count]
    heapify(ready)
    order = []
    while ready:
        op = heappop(ready)[1]
        order.append(op)
        for tensor in problem.outputs[op]:
            for reader in problem.consumers[tensor]:
                pending[reader] -= 1
                if not pending[reader]:
                    heappush(ready, (-rank[reader], reader))
    return order


def _upward(problem: Problem, work: Sequence[int], wire: Sequence[int]) -> list[int]:
    ranks = [0] * len(work)
    for op in reversed(topological(problem)):
        longest = 0
        for tensor in problem.outputs[op]:
            wait = wire[tensor]
            for reader in problem.consumers[tensor]:
                if wait + ranks[reader] > longest:
                    longest = wait + ranks[reader]
        ranks[op] = work[op] + longest
    return ranks


def mean_run(problem: Problem) -> list[int]:
    """[n] in picoseconds, over the devices that each op's group may use."""
    known: dict[tuple[int, ...], list[int]] = {}
    means = [0] * len(problem.group)
    for op, row in enumerate(problem.group):
        known.setdefault(problem.allowed[row], []).append(op)
    run_ns = problem.tables.run_ns
    for devices, ops in known.items():
        mean = np.rint(run_ns[np.ix_(ops, devices)].mean(axis=1) * PS_PER_NS).astype(np.int64)
        for op, value in zip(ops, mean.tolist(), strict=True):
            means[op] = value
    return means


def mean_transfer(problem: Problem) -> list[int]:
    """[T] in picoseconds, packed and unpacked, over all ordered pairs of different devices that a route joins."""
    routes = problem.tables.routes
    rows = routes.of[routes.of >= 0]
    if not len(rows):
        return [0] * len(problem.nbytes)
    rate = routes.bytes_per_s[rows].astype(np.float64)
    wire = np.divide(1e9, rate, out=np.zeros(len(rate)), where=rate > 0)
    work = (routes.send_ps_per_byte[rows] + routes.receive_ps_per_byte[rows]) / PS_PER_NS
    fixed = routes.latency_ns[rows] + routes.send_ns[rows] + routes.receive_ns[rows]
    mean = float(fixed.mean()) + np.asarray(problem.nbytes, np.float64) * (wire + work).mean()
    mean[np.array(problem.stays, bool)] = 0
    return np.rint(mean * PS_PER_NS).astype(np.int64).tolist()  # type: ignore[no-any-return]  # numpy's tolist has no type
