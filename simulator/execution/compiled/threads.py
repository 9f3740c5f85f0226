"""TensorFlow's executor: `queues.Executor` with linked lists for its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.kernel import inner
from simulator.execution.flat import Nodes, Threads
from simulator.execution.wiring import INEXPENSIVE_NS

if TYPE_CHECKING:
    from simulator.columns import Flags, Ids, Ints


@inner
def clear_threads(threads: Threads, nodes: Nodes, cpu: Flags, device: Ids) -> None:
    """All threads idle, all queues empty, nothing launched."""
    waits, instant, threaded = nodes.waits, nodes.instant, nodes.threaded
    for lane in range(len(threads.free)):
        threads.free[lane], threads.own_head[lane] = True, -1
    for where in range(len(threads.pool_head)):
        threads.pool_head[where], threads.message_head[where] = -1, -1
    for op in range(len(waits)):
        threads.unlaunched[op], threads.merged[op] = waits[op], False
        threads.at_once[op] = instant[op] and not (threaded[op] and cpu[device[op]])
    for job in range(len(threads.lane)):
        threads.lane[job] = 0


@inner
def append(job: int, at: int, head: Ids, tail: Ids, following: Ids) -> None:
    """Put a job at the end of a queue."""
    following[job] = -1
    if head[at] < 0:
        head[at] = job
    else:
        following[tail[at]] = job
    tail[at] = job


@inner
def _prepend(job: int, at: int, head: Ids, tail: Ids, following: Ids) -> None:
    """Put a job at the front of a queue."""
    following[job] = head[at]
    if head[at] < 0:
        tail[at] = job
    head[at] = job


@inner
def launch(
    ready: int,
    low: int,
    high: int,
    told: Ids,
    block: Ids,
    local_end: Ids,
    consumer: Ids,
    cpu: Flags,
    instant: Flags,
    threads: Threads,
    device: Ids,
    touched: Ids,
    touched_in: Ids,
    turn: int,
    served: int,
) -> int:
    """Ops were told of arrivals (or have no inputs): launch those of GPUs that nothing else keeps, and what follows.

    `ready` is one more that is launched, -1: none.
    """
    done, known, source = np.int64(0), np.int64(0), np.int64(-1)
    if ready >= 0:
        threads.unlaunched[ready], threads.stack[0], known = 0, ready, np.int64(1)
        append(ready, device[ready], threads.pool_head, threads.pool_tail, threads.following)
        served = touch(device[ready], touched, touched_in, turn, served)
    while True:
        for place in range(low, high):
            entry = told[place]
            op = entry if entry >= 0 else consumer[~entry]
            here = device[op]
            if cpu[here] or (source >= 0 and here != source) or (entry < 0 and threads.merged[op]):
                continue
            threads.merged[op] |= entry < 0
            threads.unlaunched[op] -= 1
            if threads.unlaunched[op] == 0:
                threads.stack[known] = op
                known += 1
                if not instant[op]:
                    append(op, here, threads.pool_head, threads.pool_tail, threads.following)
                    served = touch(here, touched, touched_in, turn, served)
        if done == known:
            return served
        op = threads.stack[done]
        low, high, source = np.int64(block[op]), np.int64(local_end[op]), np.int64(device[op])
        done += 1


@inner
def touch(here: int, touched: Ids, touched_in: Ids, turn: int, served: int) -> int:
    """Note that a lane or queue of a device changed in this round; how many devices that are now."""
    if touched_in[here] == turn:
        return served
    touched_in[here], touched[served] = turn, here
    return served + 1


@inner
def schedule(
    threads: Threads,
    inexpensive: Flags,
    took_ns: Ints,
    sends: Ids,
    count: int,
    jobs: Ints,
    low: int,
    high: int,
    here: int,
    lane: int,
) -> None:
    """What the end of an op made ready: the inexpensive and the last other stay with its thread, the rest is pooled.

    First come the packings of `sends`, none of which is inexpensive, then ops.
    """
    kept = np.int64(-1)
    for at in range(count):
        if kept >= 0:
            _prepend(kept, here, threads.pool_head, threads.pool_tail, threads.following)
        kept = np.int64(sends[at])
    for at in range(low, high):
        job = jobs[at]
        if inexpensive[job] or took_ns[job] <= INEXPENSIVE_NS:
            append(job, lane, threads.own_head, threads.own_tail, threads.following)
        else:
            if kept >= 0:
                _prepend(kept, here, threads.pool_head, threads.pool_tail, threads.following)
            kept = job
    if kept >= 0 and threads.own_head[lane] < 0:
        append(kept, lane, threads.own_head, threads.own_tail, threads.following)
    elif kept >= 0:
        _prepend(kept, here, threads.pool_head, threads.pool_tail, threads.following)


@inner
def next_job(threads: Threads, here: int, lane: int) -> int:
    """What an idle thread takes: work of a transfer, else from its own queue, else from the pool; -1: nothing."""
    job: int = np.int64(threads.message_head[here])
    if job >= 0:
        threads.message_head[here] = threads.following[job]
        return job
    job = np.int64(threads.own_head[lane])
    if job >= 0:
        threads.own_head[lane] = threads.following[job]
        return job
    job = np.int64(threads.pool_head[here])
    if job >= 0:
        threads.pool_head[here] = threads.following[job]
    return job
