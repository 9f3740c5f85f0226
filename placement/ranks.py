"""Upward ranks: how much work, transfers included, lies between an op's start and the end of the step, on average."""

from __future__ import annotations

import numpy as np

from placement.problem import Problem, topological

PS_PER_NS = 1000  # means of a few times are rarely whole nanoseconds; whole picoseconds keep ties exact


def upward_ranks(problem: Problem) -> list[int]:
    """[n] mean run time plus the largest (mean transfer time + rank) among the readers, in picoseconds.

    Means as in Topcuoglu et al. 2002, equations 2 to 6: a run time over the devices that the op's group may use, a
    transfer time over all ordered pairs of different devices that a route joins.
    """
    work = _mean_run(problem)
    wire = _mean_transfer(problem)
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


def _mean_run(problem: Problem) -> list[int]:
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


def _mean_transfer(problem: Problem) -> list[int]:
    """[T] in picoseconds, packed and unpacked, over all ordered pairs of different devices that a route joins."""
    ways = problem.tables.ways
    way = ways.of[ways.of >= 0]
    if not len(way):
        return [0] * len(problem.nbytes)
    rate = ways.bytes_per_s[way].astype(np.float64)
    wire = np.divide(1e9, rate, out=np.zeros(len(rate)), where=rate > 0)
    work = (ways.send_ps_per_byte[way] + ways.receive_ps_per_byte[way]) / PS_PER_NS
    fixed = ways.latency_ns[way] + ways.send_ns[way] + ways.receive_ns[way]
    mean = float(fixed.mean()) + np.asarray(problem.nbytes, np.float64) * (wire + work).mean()
    mean[np.array(problem.stays, bool)] = 0
    return np.rint(mean * PS_PER_NS).astype(np.int64).tolist()  # type: ignore[no-any-return]  # numpy's tolist has no type
