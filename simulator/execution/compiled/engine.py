"""The way into the compiled loop: lower, run, and count memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.columns import ids, ints
from simulator.execution.arrays import (
    EXECUTOR,
    FIFO,
    INFINITE,
    INSTANTS,
    PRIORITY,
    REFUSED,
    TIMES,
    BufferLives,
    Flows,
    FoundTransfers,
    State,
    Tasks,
    Threads,
)
from simulator.execution.choosing import STEP
from simulator.execution.compiled.kernel import Parameter, made
from simulator.execution.compiled.memory import measure
from simulator.execution.compiled.task_graph import add_up_work, find, write
from simulator.execution.compiled.translation import INT, Array, Table
from simulator.execution.event_loop import event_loop
from simulator.execution.flattening import workspace
from simulator.execution.layouts import Arena, FlatTables

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.execution.tables import Tables
    from simulator.execution.task_graph import TaskGraph

    Rows = npt.NDArray[np.int32]

_loop = event_loop()
_makespan_loop = event_loop()  # the same, compiled for the order FIFO alone, without notes


def _clear(laid: FlatTables, own: Arena, order: int) -> None:
    """Clear what a run needs clear."""
    tasks, state, threads, flows = own.tasks, own.state, own.threads, own.flows
    for where in range(len(state.idle)):
        state.idle[where], state.head[where], state.touched_in[where] = laid.places.lanes[where], -1, 0
    for link in range(len(state.free_ns)):
        state.free_ns[link], state.queued[link] = 0, -1
    for op in range(tasks.ops[0] if laid.nodes.merges[0] else 0):
        state.merged[op] = False
    if tasks.shares[0]:
        base = 0
        for route in range(len(flows.base)):
            flows.base[route], flows.active[route], flows.rank[route], flows.seen[route] = base, 0, -1, 0
            flows.served[route], flows.since_ns[route], flows.rate[route] = 0, 0, 0
            flows.counted[route], flows.share[route] = 0, 0
            base += own.found.flows[route]
        for link in range(len(flows.users)):
            flows.users[link], flows.many[link], flows.load[link] = 0, 0, 0
            flows.level[link], flows.link_seen[link] = INFINITE, 0
        flows.sizes[0], flows.sizes[1] = 0, 0
    if order == EXECUTOR:
        for lane in range(len(threads.free)):
            threads.free[lane], threads.own_head[lane] = True, -1
        for where in range(len(threads.pool_head)):
            threads.pool_head[where], threads.message_head[where] = -1, -1
        for op in range(tasks.ops[0]):
            threads.unlaunched[op], threads.merged[op] = tasks.needs[op], False


def play_one(
    laid: FlatTables, own: Arena, device: Ids, order: int, ranked: Ids, rest_ns: Ints, limit: int, notes: int
) -> int:
    """Run the step with its ops on these devices [n]: its makespan, or why there is none (see `event_loop`).

    `ranked` [n] are ops in order of priority; the order PRIORITY alone reads it. If INSTANTS are noted,
    `BufferLives.peak` has the peaks afterwards.
    """
    transfers = find(laid, own, device, order, notes)
    tasks, state, threads, flows, shared = own.tasks, own.state, own.threads, own.flows, laid.shared
    if transfers < 0:
        return transfers
    count = write(laid, own, device, ranked, order, notes, transfers)
    if order == EXECUTOR:
        for op in range(len(device)):
            threads.device[op] = device[op]
    add_up_work(laid, own, len(rest_ns))
    _clear(laid, own, order)
    if order == FIFO and notes == 0:
        makespan: int = _makespan_loop(tasks, state, threads, flows, shared, FIFO, count, rest_ns, limit, 0, ())
    else:
        makespan = _loop(tasks, state, threads, flows, shared, order, count, rest_ns, limit, notes, ())
    if notes & INSTANTS and makespan >= 0:
        measure(laid, own, device, transfers)
    return makespan


def _play(
    laid: FlatTables,
    own: Arena,
    assignments: Rows,
    column: Ids,
    chosen: Ids,
    order: int,
    ops: Rows,
    rest_ns: Ints,
    limit: int,
    notes: int,
    makespans: Ints,
    peaks: npt.NDArray[np.int64],
) -> None:
    """Run the `chosen` rows of `assignments` [B, N] without Python's lock; see `play_one`.

    `column` [n] is the column in which the device of each op stands; ~device: it is always there. `ops` has a row for
    all runs, or one per run. Fills in `makespans` [B] and, if INSTANTS are noted, `peaks` [B, D]. Of the last run the
    state remains.
    """
    device, devices = own.found.device, len(laid.places.lanes)
    for at in range(len(chosen)):
        run = chosen[at]
        row = assignments[run]
        makespans[run] = 0
        for op in range(len(column)):
            where = row[column[op]] if column[op] >= 0 else ~column[op]
            if where < 0 or where >= devices:  # somebody wrote there since it was checked
                makespans[run] = REFUSED
                where = 0
            device[op] = where
        if makespans[run] < 0:
            continue
        ranked = ops[min(run, len(ops) - 1)] if order == PRIORITY else device
        makespans[run] = play_one(laid, own, device, order, ranked, rest_ns, limit, notes)
        if notes & INSTANTS and makespans[run] >= 0:
            for where in range(devices):
                peaks[run, where] = own.lives.peak[where]


LAID = Parameter(Table(FlatTables))
ARENA = Parameter(Table(Arena), (Tasks, State, Threads, Flows, FoundTransfers, BufferLives))
_ROWS, _IDS = Parameter(Array("int32", 2)), Parameter(Array("int32", 1))
_COLUMN, _NUMBER = Parameter(Array("int64", 1)), Parameter(INT)
_RESULTS = [Parameter(Array("int64", 1), (Array,)), Parameter(Array("int64", 2), (Array,))]
play = made(_play, [LAID, ARENA, _ROWS, _IDS, _IDS, _NUMBER, _ROWS, _COLUMN, _NUMBER, _NUMBER, *_RESULTS], STEP)


def run_one(
    tables: Tables, lowered: TaskGraph, contention: str, order: int
) -> tuple[int, Ints, Ints, Ints, Ids] | None:
    """Run one step: its makespan; when tasks were ready, started and ended on shared routes; and their lanes.

    None: its times are more than compiled code can count, or it hangs, which the plain loop tells.
    """
    tasks, makespan = lowered.tasks, np.zeros(1, np.int64)
    ranked = np.zeros((0, len(tables)), np.int32)
    if order == PRIORITY:
        ranked = np.argsort(tasks.rank[: len(tables)])[None].astype(np.int32)
    column, first = ids(np.arange(len(tables))), ids([0])
    given = (ids(lowered.device[None]), column, first, order, ids(ranked), ints([]), INFINITE, TIMES)
    with workspace(tables, contention) as own:
        own.run(play, *given, makespan, np.zeros((0, 0), np.int64))
        if makespan[0] < 0:
            return None
        state, count = own.arena.state, len(tasks.length)
        ready, start, ended = (ints(column[:count]) for column in (state.ready_ns, state.start_ns, state.end_ns))
        return int(makespan[0]), ready, start, ended, ids(own.arena.threads.lane[:count])
