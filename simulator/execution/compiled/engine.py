"""The way into the compiled loop: lower, run, and count memory by the rules of `lifetimes`."""

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
    Flows,
    Found,
    Lives,
    State,
    Tasks,
    Threads,
)
from simulator.execution.buffers import RESIDENT
from simulator.execution.choosing import STEP
from simulator.execution.compiled.kernel import Parameter, made
from simulator.execution.compiled.task_graph import add_up_work, find, write
from simulator.execution.compiled.translation import INT, Array, Table
from simulator.execution.event_loop import event_loop
from simulator.execution.flattening import workspace
from simulator.execution.layouts import Arena, Laid

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.execution.tables import Tables
    from simulator.execution.task_graph import TaskGraph

    Rows = npt.NDArray[np.int32]

_loop = event_loop()
_makespan_loop = event_loop()  # the same, compiled for the order FIFO alone, without notes


def _clear(laid: Laid, own: Arena, order: int) -> None:
    """Clear what a run needs clear."""
    tasks, state, threads, flows = own.tasks, own.state, own.threads, own.flows
    for where in range(len(state.idle)):
        state.idle[where], state.head[where], state.touched_in[where] = laid.places.lanes[where], -1, 0
    for link in range(len(state.free_ns)):
        state.free_ns[link], state.queued[link] = 0, -1
    for op in range(len(state.merged) if laid.nodes.merges[0] else 0):
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
        for op in range(len(threads.unlaunched)):
            threads.unlaunched[op], threads.merged[op] = tasks.needs[op], False


def play_one(
    laid: Laid, own: Arena, device: Ids, order: int, ranked: Ids, rest_ns: Ints, limit: int, notes: int
) -> int:
    """Run the step with its ops on these devices [n]: its makespan, or why there is none (see `event_loop`).

    `ranked` [n] are ops in order of priority; the order PRIORITY alone reads it. If INSTANTS are noted, `Lives.peak`
    has the peaks afterwards.
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
        _measure(laid, own, device, transfers)
    return makespan


def _play(
    laid: Laid,
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


def _measure(laid: Laid, own: Arena, device: Ids, transfers: int) -> None:
    """Fill in `Lives.peak`, for a run whose instants were noted."""
    nodes, places, held, state, found, lives = laid.nodes, laid.places, laid.held, own.state, own.found, own.lives
    began_in, ended_in = state.began_in, state.ended_in
    owner, since, until, at, nbytes = lives.owner, lives.since, lives.until, lives.at, lives.nbytes
    consumer, edge_tensor, tensor_op, came_by = nodes.consumer, nodes.edge_tensor, held.tensor_op, found.came_by
    tensors, n, final = len(nodes.tensor_bytes), len(device), state.noted[0]
    copies = tensors + transfers
    _keep_residents(laid, lives, device)
    for tensor in range(tensors):
        op = tensor_op[tensor]
        owner[tensor], nbytes[tensor], at[tensor] = tensor, nodes.tensor_bytes[tensor], device[op]
        since[tensor], until[tensor] = 0 if held.bound[op] else began_in[op], ended_in[op]
        if held.passes[tensor] == RESIDENT:
            owner[tensor] = -1
        elif held.passes[tensor] >= 0:
            edge = _passed_on(laid, own, op, held.passes[tensor])
            owner[tensor] = edge_tensor[edge] if came_by[edge] < 0 else tensors + came_by[edge]
    for transfer in range(transfers):
        copy, tensor = tensors + transfer, found.tensor_of[transfer]
        handed = places.handed[found.route_of[transfer]]
        owner[copy], nbytes[copy] = found.sent[transfer] if handed else copy, nodes.tensor_bytes[tensor]
        at[copy] = found.target_of[transfer]
        since[copy], until[copy] = began_in[found.wire_of[transfer]], ended_in[found.last_of[transfer]]
    for copy in range(copies):
        _lengthen(lives, copy, until[copy])
    for transfer in range(transfers):
        _lengthen(lives, found.sent[transfer], ended_in[found.end_of[transfer]])
    for edge in range(len(consumer)):
        op = consumer[edge]
        copy = edge_tensor[edge] if came_by[edge] < 0 else tensors + came_by[edge]
        _lengthen(lives, copy, final if held.bound[op] else ended_in[op])
    for instant in range(final + 1):
        lives.begin_head[instant], lives.end_head[instant] = -1, -1
    for copy in range(copies):
        if owner[copy] == copy and nbytes[copy] > 0:
            _enter(lives, copy)
    for op in range(n):
        if held.scratch_bytes[op] > 0:
            one = copies + op
            since[one], until[one], at[one] = began_in[op], ended_in[op], device[op]
            nbytes[one] = held.scratch_bytes[op]
            _enter(lives, one)
    _add_up(lives, final)


def _passed_on(laid: Laid, own: Arena, op: int, edge: int) -> int:
    """The edge whose buffer an op passes on: of a Merge the data input that came first; of several the lowest."""
    nodes, held, found = laid.nodes, laid.held, own.found
    if not nodes.merges[0]:
        return edge
    best, when = edge, -1
    for place in range(held.in_ptr[op], held.in_ptr[op + 1]):
        one = held.in_edge[place]
        if nodes.reader[one] < 0:  # a data input of a Merge
            by = found.came_by[one]
            came = own.state.ended_in[held.tensor_op[nodes.edge_tensor[one]] if by < 0 else found.last_of[by]]
            if when < 0 or came < when or (came == when and one < best):
                best, when = one, came
    return best


def _lengthen(lives: Lives, copy: int, until: int) -> None:
    """A buffer is needed until then at least."""
    owner = lives.owner
    last = copy
    while last >= 0 and owner[last] != last:
        last = owner[last]
    while copy >= 0 and owner[copy] != last:  # so that the way is short next time
        after = owner[copy]
        owner[copy] = last
        copy = after
    if last >= 0 and lives.until[last] < until:
        lives.until[last] = until


def _enter(lives: Lives, one: int) -> None:
    """Note a buffer at the instants at which it is allocated and freed."""
    since, until = lives.since[one], lives.until[one]
    lives.begin_next[one], lives.begin_head[since] = lives.begin_head[since], one
    lives.end_next[one], lives.end_head[until] = lives.end_head[until], one


def _add_up(lives: Lives, final: int) -> None:
    """Go through the instants: of each, first all that lived before ends, then what begins, then what was brief."""
    level, peak, since = lives.level, lives.peak, lives.since
    for instant in range(final + 1):
        one = lives.end_head[instant]
        while one >= 0:
            if since[one] < instant:
                level[lives.at[one]] -= lives.nbytes[one]
            one = lives.end_next[one]
        one = lives.begin_head[instant]
        while one >= 0:
            where = lives.at[one]
            level[where] += lives.nbytes[one]
            peak[where] = max(peak[where], level[where])
            one = lives.begin_next[one]
        one = lives.end_head[instant]
        while one >= 0:
            if since[one] == instant:
                level[lives.at[one]] -= lives.nbytes[one]
            one = lives.end_next[one]


def _keep_residents(laid: Laid, lives: Lives, device: Ids) -> None:
    """Begin with what each device holds all the time; every CPU that keeps a copy of a constant holds it."""
    nodes, places, held = laid.nodes, laid.places, laid.held
    cpu, home, tensor_ptr, tensor_edge = places.cpu, places.home, held.tensor_ptr, held.tensor_edge
    consumer, resident_bytes, level, peak = nodes.consumer, held.resident_bytes, lives.level, lives.peak
    for where in range(len(level)):
        level[where] = 0
        peak[where] = -1
    for op in range(len(device)):
        if resident_bytes[op] == 0:
            continue
        copied = False
        for tensor in range(tensor_ptr[op], tensor_ptr[op + 1] if cpu[device[op]] else 0):
            first, last = tensor_edge[tensor], tensor_edge[tensor + 1] if nodes.replicable[tensor] else 0
            for edge in range(first, last):
                copied |= home[device[consumer[edge]]] != home[device[consumer[first]]]
            for edge in range(first, last if copied else 0):
                where = home[device[consumer[edge]]]
                if peak[where] != op:  # used as a stamp
                    peak[where] = op
                    level[where] += resident_bytes[op]
        if not copied:
            level[device[op]] += resident_bytes[op]
    for where in range(len(level)):
        peak[where] = level[where]


LAID, ARENA = Parameter(Table(Laid)), Parameter(Table(Arena), (Tasks, State, Threads, Flows, Found, Lives))
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
