"""Ranks of ops: how much work lies behind and before each, by mean times.

Topcuoglu, Hariri and Wu 2002, where they are the upward and the downward rank. The mean time of an op is over the
devices that its group may use. That of a transfer is over all ordered pairs of different devices that a route joins.
Ranks are whole picoseconds, at most the longest that a runner reckons with (`running`).

Functions over columns (`running`).
"""

from __future__ import annotations

from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from placement.columns import STAYS, Columns
from placement.problem import NEVER, Problem
from placement.scheduling.heaps import pop, push
from placement.scheduling.running import MOST_PS, Runner, runner_of
from simulator.columns import Ints, ints
from simulator.units import PS_PER_NS


def upward_ranks(problem: Problem, runner: Runner | None = None) -> Ints:
    """[n] mean run time plus the largest (mean transfer time + rank) among the readers.

    It is on average the work, transfers included, between an op's start and the end of the step.
    """
    return _upward(problem, runner or runner_of(problem, rank_up), mean_transfer(problem))


def levels(problem: Problem, runner: Runner | None = None) -> Ints:
    """[n] the upward rank without transfers, which is called the static level."""
    return _upward(problem, runner or runner_of(problem, rank_up), np.zeros(len(problem.nbytes), np.int64))


def ranks_on(problem: Problem, device: Ints, wire_ns: npt.NDArray[np.float64]) -> Ints:
    """[n] the upward rank where each op's device is known: its own run time, and only transfers between two devices.

    `wire_ns` [T] has the mean time of a transfer.
    """
    runner = runner_of(problem, rank_up_placed)
    work, wire = _picoseconds(problem.tables.op_ns(device).astype(np.float64)), _picoseconds(wire_ns)
    ranks = runner.new(len(device))
    given = (problem.topological, device, work, wire)
    runner.run(rank_up_placed, *map(runner.of, given), ranks)
    return ints(ranks)


def downward_ranks(problem: Problem, runner: Runner | None = None) -> Ints:
    """[n] the largest (rank + mean run time + mean transfer time) among those that an op reads from; 0 without any.

    It is on average the work between the begin of the step and an op's start.
    """
    runner = runner or runner_of(problem, rank_down)
    ranks = runner.new(len(problem.group))
    work, wire = runner.of(mean_run(problem)), runner.of(mean_transfer(problem))
    runner.run(rank_down, runner.of(problem.topological), work, wire, ranks)
    return ints(ranks)


def longest_paths(problem: Problem, work_ns: npt.NDArray[np.float64]) -> Ints:
    """[n] the longest path through each op, in picoseconds: ops take `work_ns` [n], transfers no time."""
    runner = runner_of(problem, rank_up)
    before, after = runner.new(len(problem.group)), runner.new(len(problem.group))
    order, work, wire = map(
        runner.of, (problem.topological, _picoseconds(work_ns), np.zeros(len(problem.nbytes), np.int64))
    )
    runner.run(rank_down, order, work, wire, before)
    runner.run(rank_up, order, work, wire, after)
    return ints(before) + ints(after)


def by_rank(runner: Runner, rank: npt.ArrayLike) -> Ints:
    """[n] the ops, each after its predecessors; among ready ones the highest rank first, then the smaller row."""
    turn = np.unique(-np.asarray(rank), return_inverse=True)[1].reshape(-1)  # whole numbers in the same order
    order, pending, keys, items = (runner.new(len(turn)) for _ in range(4))
    runner.run(take_by_rank, runner.of(turn), order, pending, keys, items)
    return ints(order)


def optimistic_costs(problem: Problem, runner: Runner | None = None) -> Ints:
    """[n * D] the time from an op's end on a device to the end of the step, in picoseconds.

    All that follows gets the device that suits it best. It is 0 for an op that nobody reads (Arabnejad and Barbosa
    2014, equation 3).
    """
    runner, count = runner or runner_of(problem, rank_by_device), len(problem.group)
    table, tail = (runner.new(count * len(problem.capacity)) for _ in range(2))
    wire, order = runner.of(mean_transfer(problem)), runner.of(problem.topological)
    runner.run(rank_by_device, order, wire, table, tail, runner.new(count))
    return table


def _upward(problem: Problem, runner: Runner, wire: Ints) -> Ints:
    ranks = runner.new(len(problem.group))
    work = runner.of(mean_run(problem))
    runner.run(rank_up, runner.of(problem.topological), work, runner.of(wire), ranks)
    return ints(ranks)


def rank_up(step: Columns, order: Ints, work: Ints, wire: Ints, ranks: Ints) -> None:
    """Fill in `ranks`, the readers of an op before it."""
    for at in range(len(order)):
        op, longest = order[len(order) - 1 - at], 0
        for tensor in range(step.made_first[op], step.made_first[op + 1]):
            for place in range(step.reader_first[tensor], step.reader_first[tensor + 1]):
                longest = max(longest, wire[tensor] + ranks[step.reader[place]])
        ranks[op] = min(work[op] + longest, MOST_PS)


def rank_up_placed(step: Columns, order: Ints, where: Ints, work: Ints, wire: Ints, ranks: Ints) -> None:
    """Fill in `ranks`, the readers of an op before it; a value on its reader's device is there at once."""
    for at in range(len(order)):
        op, longest = order[len(order) - 1 - at], 0
        for tensor in range(step.made_first[op], step.made_first[op + 1]):
            for place in range(step.reader_first[tensor], step.reader_first[tensor + 1]):
                reader = step.reader[place]
                away = 0 if where[reader] == where[op] else wire[tensor]
                longest = max(longest, away + ranks[reader])
        ranks[op] = min(work[op] + longest, MOST_PS)


def rank_down(step: Columns, order: Ints, work: Ints, wire: Ints, ranks: Ints) -> None:
    """Fill in `ranks`, an op before its readers."""
    for at in range(len(order)):
        op = order[at]
        for tensor in range(step.made_first[op], step.made_first[op + 1]):
            there = min(ranks[op] + work[op] + wire[tensor], MOST_PS)
            for place in range(step.reader_first[tensor], step.reader_first[tensor + 1]):
                reader = step.reader[place]
                ranks[reader] = max(ranks[reader], there)


def take_by_rank(step: Columns, turn: Ints, order: Ints, pending: Ints, keys: Ints, items: Ints) -> None:
    """Fill in `order`: of the ready ops the smallest turn first, then the smaller row."""
    size, done = 0, 0
    for op in range(len(turn)):
        pending[op] = step.first[op + 1] - step.first[op]
        if pending[op] == 0:
            push(keys, items, 0, size, turn[op], op)
            size += 1
    while size > 0:
        op = items[0]
        pop(keys, items, 0, size)
        size -= 1
        order[done] = op
        done += 1
        for tensor in range(step.made_first[op], step.made_first[op + 1]):
            for at in range(step.reader_first[tensor], step.reader_first[tensor + 1]):
                reader = step.reader[at]
                pending[reader] -= 1
                if pending[reader] == 0:
                    push(keys, items, 0, size, turn[reader], reader)
                    size += 1


def rank_by_device(step: Columns, order: Ints, wire: Ints, table: Ints, tail: Ints, best: Ints) -> None:
    """Fill in `table`: `tail` is an op and what follows it, where it may run, and `best` the least of that."""
    devices = len(step.lanes)
    for turn in range(len(order)):
        op = order[len(order) - 1 - turn]
        low = op * devices
        for tensor in range(step.made_first[op], step.made_first[op + 1]):
            for at in range(step.reader_first[tensor], step.reader_first[tensor + 1]):
                reader = step.reader[at]
                away = best[reader] + wire[tensor]
                for device in range(devices):
                    follows = min(tail[reader * devices + device], away)
                    table[low + device] = max(table[low + device], follows)
        for device in range(devices):
            tail[low + device] = NEVER
        best[op] = NEVER
        which = step.allowed[step.group[op]]
        for at in range(step.set_first[which], step.set_first[which + 1]):
            place = low + step.device[at]
            tail[place] = step.run_ns[place] * PS_PER_NS + table[place]
            best[op] = min(best[op], tail[place])


def mean_run(problem: Problem) -> Ints:
    """[n] in picoseconds, over the devices that each op's group may use."""
    step = problem.columns
    run_ns = np.ascontiguousarray(step.run_ns.reshape(-1, len(step.lanes)).T)  # numpy is slow over short rows
    means = np.zeros(len(step.group), np.int64)
    which = step.allowed[step.group]
    for row, (low, high) in enumerate(pairwise(step.set_first.tolist())):
        ops = np.flatnonzero(which == row)
        means[ops] = _picoseconds(run_ns[step.device[low:high]].take(ops, axis=1).mean(axis=0))
    return means


def mean_transfer(problem: Problem) -> Ints:
    """[T] in picoseconds, packed and unpacked, over all ordered pairs of different devices that a route joins.

    Wires and the work per byte at both ends are added up. A transfer that is alone streams them (`alone_ns`), and is
    shorter. With that time 35 plans each took 1.00 (heft), 0.97 (cpop) and 1.11 (peft) times as long in the mean, 0.5
    to 3.3. So ranks keep the sum.
    """
    found = _WIRE_PS.get(problem)  # six algorithms ask, and a thousand devices have a million routes
    if found is None:
        found = _WIRE_PS[problem] = _mean_transfer(problem)
    return found


_WIRE_PS: WeakKeyDictionary[Problem, Ints] = WeakKeyDictionary()


def _mean_transfer(problem: Problem) -> Ints:
    routes = problem.tables.routes
    rows = routes.pace[routes.of[routes.of >= 0]]
    if not len(rows):
        return np.zeros(len(problem.nbytes), np.int64)
    rate = routes.bytes_per_s[rows].astype(np.float64)
    wire = np.divide(1e9, rate, out=np.zeros(len(rate)), where=rate > 0)
    per_byte = (routes.send_ps_per_byte, routes.receive_ps_per_byte, routes.staging_ps_per_byte)
    work = sum(column[rows] for column in per_byte) / PS_PER_NS
    fixed = routes.latency_ns[rows] + routes.send_ns[rows] + routes.receive_ns[rows]
    mean = float(fixed.mean()) + problem.columns.nbytes.astype(np.float64) * (wire + work).mean()
    mean[problem.columns.spread == STAYS] = 0
    return _picoseconds(mean)


def _picoseconds(time_ns: npt.NDArray[np.float64]) -> Ints:
    """Whole picoseconds; a time that 64 bits can't hold is the longest that a runner reckons with (`running`)."""
    found: Ints = np.rint(np.minimum(time_ns * PS_PER_NS, float(MOST_PS))).astype(np.int64)
    return found
