"""m-SCT: small communication times, under memory.

Jeon, Cai, Shetty et al., "Baechi: fast device placement of machine learning graphs", SoCC 2020, section 3.3. Its
source is Hanen and Munier, "An approximation algorithm for scheduling dependent tasks on m processors with small
communication delays", ETFA 1995. A linear program for as many devices as ops finds favourites. An op has at most one
among its readers, and a reader is that of at most one op. A transfer between them is spared. Then ETF runs under
memory, and a device waits for the favourite of its last op. Meanwhile it takes only urgent ops.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from placement.plan import Plan
from placement.problem import Problem
from placement.scheduling.earliest_start import earliest_start, enter_first
from placement.scheduling.insertion import Schedule, better
from placement.scheduling.ranks import levels, mean_run, mean_transfer
from placement.scheduling.running import runner_of
from simulator.columns import Ids, Ints

_ITERATIONS = 2  # of the simplex, for each variable: real graphs take 0.4 to 0.8, some dense ones a hundred
_SHARE = 0.2  # of a time that is given, for the program
_UNSOLVED = "the linear program of m_sct was not solved in its iterations or its time, so no op has a favourite reader"
_SPARED = 0.5 - 1e-6  # of an op's transfers at most one is less in the program, as their sum is at least all but one


def m_sct(problem: Problem) -> Plan:
    """Take the pair that starts first, where no device waits for a favourite; ties and memory are those of m-ETF.

    An op is urgent when its inputs are on all of its devices. Mean times stand in the program, as the paper has equal
    devices. Raises InfeasibleError when memory runs out on the way.
    """
    spared = favourites(problem)
    plan = better(_entered(problem, spared))
    return plan if spared is not None else replace(plan, notes=(*plan.notes, _UNSOLVED))


def schedule(problem: Problem) -> Schedule:
    """The schedule of all ops; a search judges it with and without its order."""
    return _entered(problem, favourites(problem))


def _entered(problem: Problem, spared: list[int] | None) -> Schedule:
    runner = runner_of(problem, enter_first)
    spared = [-1] * len(problem.group) if spared is None else spared
    return earliest_start(problem, runner, levels(problem, runner), values=True, favourite=spared)


class Reads(NamedTuple):
    """Ops and their readers, each pair once. Axis: P pairs."""

    op: Ids  # [P]
    reader: Ids  # [P]
    wire: Ints  # [P] mean time of the longest transfer between them, in picoseconds


def favourites(problem: Problem) -> list[int] | None:
    """[n] the reader to which the transfer is spared by the program, rounded; -1: none. None: it was not solved."""
    pairs = _pairs(problem)
    found = [-1] * len(problem.group)
    if len(pairs.op):
        shares = _program(problem, pairs)
        if shares is None:
            return None
        spared = np.flatnonzero((shares < _SPARED) & (pairs.wire > 0))
        for op, reader in zip(pairs.op[spared].tolist(), pairs.reader[spared].tolist(), strict=True):
            found[op] = reader
    return found


def _pairs(problem: Problem) -> Reads:
    wire, longest = mean_transfer(problem).tolist(), dict[tuple[int, int], int]()
    for op, tensors in enumerate(problem.outputs):
        for tensor in tensors:
            for reader in problem.consumers[tensor]:
                together = problem.group[op] == problem.group[reader]
                longest[op, reader] = max(longest.get((op, reader), 0), 0 if together else wire[tensor])
    ends = np.array(list(longest), np.int32).reshape(-1, 2)
    return Reads(ends[:, 0], ends[:, 1], np.array(list(longest.values()), np.int64))


def _program(problem: Problem, pairs: Reads) -> np.typing.NDArray[np.float64] | None:
    """[P] the share of each transfer that is not spared, at the smallest makespan (section 3.3, equation 1).

    Variables are these shares, the start of each op, and the makespan. Only transfers that take time have a share. None
    where the solver gives up, or goes on beyond its iterations, or its share of a time that is given. It could take
    minutes for some thousand ops.
    """
    from scipy.optimize import linprog  # late: the import takes longer than a small step
    from scipy.sparse import coo_array

    work, some = mean_run(problem).astype(np.float64), np.flatnonzero(pairs.wire > 0)
    unit = max(float(work.sum()), 1.0)  # so that numbers are about 1
    count, ops, shares = len(pairs.op), len(work), len(some)
    rows: list[np.typing.NDArray[np.int64]] = []
    columns: list[np.typing.NDArray[np.int64]] = []
    values: list[np.typing.NDArray[np.float64]] = []

    def add(row: np.typing.NDArray[np.int64], column: np.typing.NDArray[np.int64], value: object) -> None:
        rows.append(row)
        columns.append(column)
        values.append(np.broadcast_to(np.asarray(value, np.float64), row.shape))

    before, after = pairs.op.astype(np.int64), pairs.reader.astype(np.int64)
    every = np.arange(count)
    add(every, shares + before, 1)  # start + run time + share * transfer <= start of the reader
    add(every, shares + after, -1)
    add(some, np.arange(shares), pairs.wire[some] / unit)
    ends = count + np.arange(ops)
    add(ends, shares + np.arange(ops), 1)  # start + run time <= makespan
    add(ends, np.full(ops, shares + ops), -1)
    limits = [-work[before] / unit, -work / unit]
    first = count + ops
    for side in (before[some], after[some]):  # at most one transfer of an op, and to a reader, is spared
        present, place, number = np.unique(side, return_inverse=True, return_counts=True)
        add(first + place, np.arange(shares), -1)
        limits.append(np.asarray(1.0 - number, np.float64))
        first += len(present)
    matrix = coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(first, shares + ops + 1)
    )
    aim = np.zeros(shares + ops + 1)
    aim[-1] = 1
    bounds = np.zeros((len(aim), 2))
    bounds[:, 1] = np.inf
    bounds[:shares, 1] = 1
    most: dict[str, float] = {"maxiter": _ITERATIONS * len(aim)}
    if problem.effort.seconds is not None:
        most["time_limit"] = _SHARE * problem.effort.seconds
    solved = linprog(aim, matrix.tocsc(), np.concatenate(limits), bounds=bounds, method="highs-ds", options=most)
    if solved.x is None:
        return None
    found = np.ones(count)
    found[some] = solved.x[:shares]
    return found
