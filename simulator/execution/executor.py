"""TensorFlow's executor (common_runtime/executor.cc, ScheduleReady), made deterministic; it is nearly depth-first.

A lane of a CPU is an inter-op thread with a queue of its own; the device's threads share a pool. Of the ops that the
end of one makes ready, a thread appends the inexpensive ones to its own queue. It keeps the last expensive one if that
queue is empty, and puts the others in front of the pool's. Ops that an arrival makes ready go to the pool's end. A
thread empties its own queue before it takes from the front of the pool; among idle threads the lowest is served first.

A step begins with one op, TensorFlow's source, which precedes all ops without inputs. The thread that passes it treats
these like the successors of any op. It goes through constants first, and then takes variables and Recvs from the pool,
the last first (decision 0055). So a Recv is posted when a thread comes to it.

A message is sent by such a thread, too, if its lanes are cores. Packing is a Send's work. It is always expensive, and
comes first among the tasks that an op's end makes ready. So it waits while its thread goes on with the rest. Where the
request comes after the value it is answered from the pool's end, as the server hands requests to the same pool
(distributed_runtime/rpc/grpc_worker_service.cc). Where a lane stands for several cores another thread would send at
once. There, and on behalf of GPUs, packing waits for the op that runs and comes before all others. So does all
unpacking, the work of gRPC's own threads (measured; decision 0014).

Constants and NoOps take no time, but a thread has to pass them. With one thread this is the order of the real executor
(tests/oracle/test_order.py). Exceptions are the readers of one op, and ops without inputs, where there are more than
eight. Several real threads race for the pool and steal from each other's ends, so TensorFlow promises no order.

A GPU has one stream, whatever its lanes: its ops run in the order in which they were launched. An op is launched as
soon as its inputs have arrived and the ops of its own device that it waits for are launched. These need not have ended,
as a launch does not wait for the stream. Every op of a GPU is inexpensive to its executor. An op that also waits for a
signal of another device, as in loops of a whole step, is launched when it is ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution.arrays import BEGINNING, BY_TIME, CHEAP
from simulator.execution.event_queue import sort

if TYPE_CHECKING:
    from simulator.columns import Flags, Ids
    from simulator.execution.arrays import State, Tasks, Threads

# The executor runs an op inline whose time it estimates at no more than 8000 cycles (tensorflow/core/common_runtime/
# executor.cc, kOpIsExpensiveThresholdCycles); at the 2.5 GHz of a usual server's processor this many nanoseconds.
INEXPENSIVE_NS = 3200


def touch(where: int, touched: Ids, touched_in: Ids, turn: int, touches: int) -> int:
    """Note that a lane or queue of a device changed in this round; how many devices that are now."""
    if touched_in[where] == turn:
        return touches
    touched_in[where] = turn
    touched[touches] = where
    return touches + 1


def append(task: int, at: int, head: Ids, last: Ids, behind: Ids) -> None:
    """Put a task at the end of a queue."""
    behind[task] = -1
    if head[at] < 0:
        head[at] = task
    else:
        behind[last[at]] = task
    last[at] = task


def _prepend(task: int, at: int, head: Ids, last: Ids, behind: Ids) -> None:
    """Put a task at the front of a queue."""
    behind[task] = head[at]
    if head[at] < 0:
        last[at] = task
    head[at] = task


def launch(
    threads: Threads, tasks: Tasks, state: State, ready: int, low: int, high: int, turn: int, touches: int
) -> int:
    """Launch ops of GPUs that nothing else keeps, after an arrival notified those successors, and all that follows.

    `ready` is one more op that is launched; -1: none.
    """
    resource, successor, ops = tasks.resource, tasks.successor, tasks.ops[0]
    stream, unlaunched, merged, stack = threads.stream, threads.unlaunched, threads.merged, threads.stack
    done, known, source = 0, 0, -1
    if ready >= 0:
        unlaunched[ready] = 0
        stack[0] = ready
        known = 1
        append(ready, resource[ready], threads.pool_head, threads.pool_last, state.behind)
        touches = touch(resource[ready], state.touched, state.touched_in, turn, touches)
    while True:
        for place in range(low, high):
            op = successor[place]
            data = op < 0
            if data:
                op = ~op
            if op >= ops:
                continue
            here = threads.device[op]
            if not stream[here] or (source >= 0 and here != source) or (data and merged[op]):
                continue
            if data:
                merged[op] = 1
            unlaunched[op] -= 1
            if unlaunched[op] == 0:
                stack[known] = op
                known += 1
                if resource[op] >= 0:
                    append(op, here, threads.pool_head, threads.pool_last, state.behind)
                    touches = touch(here, state.touched, state.touched_in, turn, touches)
        if done == known:
            return touches
        op = stack[done]
        low, high, source = tasks.next_from[op], tasks.next_to[op], threads.device[op]
        done += 1


def _inexpensive(tasks: Tasks, threads: Threads, op: int) -> bool:
    """Tell whether the executor takes an op for inexpensive, so that a thread runs it itself."""
    expense = threads.expense[op]
    return bool(expense == CHEAP or (expense == BY_TIME and tasks.length[op] <= INEXPENSIVE_NS))


def schedule(
    threads: Threads,
    tasks: Tasks,
    state: State,
    by: int,
    ops: int,
    sends: int,
    turn: int,
    touches: int,
) -> int:
    """Queue the ops in `woken`, and the packings in `sending`, that the end of a task made ready.

    `by` is that task if it is an op, else ARRIVAL, or BEGINNING of the step.
    """
    resource, woken, sending, behind = tasks.resource, state.woken, threads.sending, state.behind
    pool_head, pool_last, stream = threads.pool_head, threads.pool_last, threads.stream
    here, lane, kept = -1, -1, -1
    if by >= 0 and not stream[threads.device[by]]:
        here = threads.device[by]
        lane = threads.lane_ptr[here] + threads.lane[by]
        touches = touch(here, state.touched, state.touched_in, turn, touches)
    if sends > 1:
        sort(sending, sends)
    for at in range(sends):
        if kept >= 0:
            _prepend(kept, here, pool_head, pool_last, behind)
        kept = sending[at]
    for at in range(ops):
        op = woken[at]
        where = resource[op]
        if stream[where]:
            if threads.unlaunched[op] > 0:  # else the stream has it already
                touches = launch(threads, tasks, state, op, 0, 0, turn, touches)
        elif by == BEGINNING:
            if _inexpensive(tasks, threads, op):
                append(op, threads.lane_ptr[where], threads.own_head, threads.own_last, behind)
            else:
                _prepend(op, where, pool_head, pool_last, behind)
            touches = touch(where, state.touched, state.touched_in, turn, touches)
        elif where != here:  # reads a copy of a constant, or a signal
            append(op, where, pool_head, pool_last, behind)
            touches = touch(where, state.touched, state.touched_in, turn, touches)
        elif _inexpensive(tasks, threads, op):
            append(op, lane, threads.own_head, threads.own_last, behind)
        else:
            if kept >= 0:
                _prepend(kept, here, pool_head, pool_last, behind)
            kept = op
    if kept >= 0:
        if threads.own_head[lane] < 0:
            append(kept, lane, threads.own_head, threads.own_last, behind)
        else:
            _prepend(kept, here, pool_head, pool_last, behind)
    return touches


def enqueue(threads: Threads, state: State, task: int, where: int, turn: int, touches: int) -> int:
    """Queue the work of a transfer."""
    if threads.packs[task]:
        append(task, where, threads.pool_head, threads.pool_last, state.behind)
    else:
        append(task, where, threads.message_head, threads.message_last, state.behind)
    changed: int = touch(where, state.touched, state.touched_in, turn, touches)
    return changed


def assign(threads: Threads, where: int, behind: Ids, starting: Ids, starts: int) -> int:
    """Give idle threads of a device their next tasks; how many tasks start now."""
    free: Flags = threads.free
    for lane in range(threads.lane_ptr[where], threads.lane_ptr[where + 1]):
        if not free[lane]:
            continue
        task: int = threads.message_head[where]
        if task >= 0:
            threads.message_head[where] = behind[task]
        elif threads.own_head[lane] >= 0:
            task = threads.own_head[lane]
            threads.own_head[lane] = behind[task]
        elif threads.pool_head[where] >= 0:
            task = threads.pool_head[where]
            threads.pool_head[where] = behind[task]
        else:
            continue
        free[lane] = 0
        threads.lane[task] = lane - threads.lane_ptr[where]
        starting[starts] = task
        starts += 1
    return starts
