"""The way into the compiled loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.columns import ids, ints
from simulator.execution.arrays import (
    EXECUTOR,
    INSTANTS,
    NEVER,
    PRIORITY,
    TIMES,
    Flows,
    Found,
    Lives,
    SharedLinks,
    State,
    Tasks,
    Threads,
)
from simulator.execution.caching import STEP
from simulator.execution.compiled.kernel import Parameter, made
from simulator.execution.compiled.memory_peaks import measure
from simulator.execution.compiled.task_graph import find, write
from simulator.execution.compiled.translation import INT, Array, Table
from simulator.execution.event_loop import event_loop
from simulator.execution.flattening import arena, laid_out
from simulator.execution.layouts import Held, Nodes, Places
from simulator.execution.running import Ran, times

if TYPE_CHECKING:
    from simulator.columns import Ints
    from simulator.execution.tables import Tables
    from simulator.execution.task_graph import TaskGraph

    Rows = npt.NDArray[np.int32]

_loop = event_loop()


def _clear(
    nodes: Nodes, places: Places, tasks: Tasks, state: State, threads: Threads, flows: Flows, found: Found, order: int
) -> None:
    """Clear what a run needs clear."""
    for where in range(len(state.idle)):
        state.idle[where], state.head[where], state.touched_in[where] = places.lanes[where], -1, 0
    for link in range(len(state.free_ns)):
        state.free_ns[link] = 0
    for op in range(len(state.merged) if nodes.merges[0] else 0):
        state.merged[op] = False
    if tasks.shares[0]:
        base = 0
        for route in range(len(flows.base)):
            flows.base[route], flows.active[route], flows.rank[route], flows.seen[route] = base, 0, -1, 0
            flows.served[route], flows.since_ns[route], flows.rate[route] = 0, 0, 0
            flows.counted[route], flows.share[route] = 0, 0
            base += found.flows[route]
        for link in range(len(flows.users)):
            flows.users[link], flows.many[link], flows.load[link] = 0, 0, 0
            flows.level[link], flows.link_seen[link] = NEVER, 0
        flows.sizes[0], flows.sizes[1] = 0, 0
    if order == EXECUTOR:
        for lane in range(len(threads.free)):
            threads.free[lane], threads.own_head[lane] = True, -1
        for where in range(len(threads.pool_head)):
            threads.pool_head[where], threads.message_head[where] = -1, -1
        for op in range(len(threads.unlaunched)):
            threads.unlaunched[op], threads.merged[op] = tasks.needs[op], False


def _play(
    nodes: Nodes,
    places: Places,
    shared: SharedLinks,
    held: Held,
    tasks: Tasks,
    state: State,
    threads: Threads,
    flows: Flows,
    found: Found,
    lives: Lives,
    devices: Rows,
    order: int,
    ops: Rows,
    tail: Ints,
    limit: int,
    notes: int,
    start: int,
    step: int,
    makespans: Ints,
    peaks: npt.NDArray[np.int64],
) -> None:
    """Runs start, start + step, ... of `devices` [B, n] without Python's lock; see `event_loop`.

    `ops` has a row for all runs, or one per run: ops in order of priority; the order PRIORITY alone reads it. Fills in
    `makespans` [B] and, if INSTANTS are noted, `peaks` [B, D]. Of the last run the state remains.
    """
    for run in range(start, len(devices), step):
        device = devices[run]
        ranked = ops[min(run, len(ops) - 1)] if order == PRIORITY else device
        transfers = find(nodes, places, shared, tasks, found, device, order)
        makespans[run] = transfers
        if transfers < 0:
            continue
        count = write(nodes, places, shared, tasks, threads, found, device, ranked, order, transfers)
        if order == EXECUTOR:
            for op in range(len(device)):
                threads.device[op] = device[op]
        _clear(nodes, places, tasks, state, threads, flows, found, order)
        makespans[run] = _loop(tasks, state, threads, flows, shared, order, count, tail, limit, notes, ())
        if notes & INSTANTS and makespans[run] >= 0:
            measure(nodes, places, held, state, found, lives, device, transfers)
            for where in range(peaks.shape[1]):
                peaks[run, where] = lives.peak[where]


_READ = [Parameter(Table(kind)) for kind in (Nodes, Places, SharedLinks, Held)]
_WRITTEN = [Parameter(Table(kind), (kind,)) for kind in (Tasks, State, Threads, Flows, Found, Lives)]
_ROWS, _COLUMN, _NUMBER = Parameter(Array("int32", 2)), Parameter(Array("int64", 1)), Parameter(INT)
_RESULTS = [Parameter(Array("int64", 1), (Array,)), Parameter(Array("int64", 2), (Array,))]
play = made(_play, [*_READ, *_WRITTEN, _ROWS, _NUMBER, _ROWS, _COLUMN, *[_NUMBER] * 4, *_RESULTS], STEP)


def run_one(tables: Tables, lowered: TaskGraph, contention: str, order: int) -> Ran | None:
    """Run one step; None: its times are more than compiled code can count, or it hangs, which the plain loop tells."""
    tasks, makespan = lowered.tasks, np.zeros(1, np.int64)
    ranked = np.zeros((0, len(tables)), np.int32)
    if order == PRIORITY:
        ranked = np.argsort(tasks.rank[: len(tables)])[None].astype(np.int32)
    given = (ids(lowered.device[None]), order, ids(ranked), ints([]), NEVER, TIMES, 0, 1)
    with arena(tables, contention) as own:
        play(*laid_out(tables, contention), *own, *given, makespan, np.zeros((0, 0), np.int64))
        if makespan[0] < 0:
            return None
        state, count = own.state, len(tasks.length)
        lane = own.threads.lane if order == EXECUTOR else np.zeros(count, np.int32)
        ready, start, ended = (ints(column[:count]) for column in (state.ready_ns, state.start_ns, state.end_ns))
        return times(tables, tasks, int(makespan[0]), ready, start, ended, ids(lane[:count]))
