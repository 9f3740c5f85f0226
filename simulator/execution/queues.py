"""How a device chooses among the jobs that are ready: first ready first, by priority, or as TensorFlow's executor.

At the end of each round of an instant the loop asks which jobs `begin`, given those that ended and those that became
ready in it. A queue that is `grouped` wants to know more as it happens: what became ready together, and by whom.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import numpy as np

from simulator.execution.tables import Tables
from simulator.execution.wiring import INEXPENSIVE_NS, Wiring


class Fifo:
    """The job that was ready first; of one round of an instant the lowest."""

    grouped = False

    def __init__(self, tables: Tables, wiring: Wiring) -> None:
        self.device = wiring.device
        self.idle: list[int] = tables.lanes.tolist()
        self.waiting: list[deque[int]] = [deque() for _ in self.idle]

    def begin(self, released: list[int], fresh: list[int]) -> list[int]:
        """The jobs that start now, given those that have left their lanes and those that are ready now."""
        device, idle, waiting = self.device, self.idle, self.waiting
        touched = []
        for job in released:
            where = device[job]
            idle[where] += 1
            touched.append(where)
        fresh.sort()
        for job in fresh:
            where = device[job]
            waiting[where].append(job)
            touched.append(where)
        begun = []
        for where in touched:
            queue = waiting[where]
            while queue and idle[where]:
                idle[where] -= 1
                begun.append(queue.popleft())
        return begun

    def forget(self, owner: list[int], gone: int) -> None:
        """Drop the jobs of an owner, [J], that wait."""
        self.waiting = [deque(job for job in queue if owner[job] != gone) for queue in self.waiting]


class ByPriority:
    """The smallest (priority, row) among the ops that are ready; the work of transfers comes before all ops."""

    grouped = False

    def __init__(self, tables: Tables, wiring: Wiring, place: list[int]) -> None:
        jobs = len(wiring.run_ns)
        self.device = wiring.device
        self.idle: list[int] = tables.lanes.tolist()
        self.place = place + list(range(len(place) - jobs, 0))  # [J]
        self.job_at = [0] * jobs  # by place: what is below zero counts from the end
        for job, at in enumerate(self.place):
            self.job_at[at] = job
        self.waiting: list[list[int]] = [[] for _ in self.idle]  # heaps of places

    def begin(self, released: list[int], fresh: list[int]) -> list[int]:
        """The jobs that start now, given those that have left their lanes and those that are ready now."""
        device, idle, waiting = self.device, self.idle, self.waiting
        touched = []
        for job in released:
            where = device[job]
            idle[where] += 1
            touched.append(where)
        for job in fresh:
            where = device[job]
            heappush(waiting[where], self.place[job])
            touched.append(where)
        begun = []
        for where in touched:
            heap = waiting[where]
            while heap and idle[where]:
                idle[where] -= 1
                begun.append(self.job_at[heappop(heap)])
        return begun

    def forget(self, owner: list[int], gone: int) -> None:
        """Drop the jobs of an owner, [J], that wait."""
        self.waiting = [[place for place in heap if owner[self.job_at[place]] != gone] for heap in self.waiting]
        for heap in self.waiting:
            heapify(heap)


class Executor:
    """TensorFlow's executor (common_runtime/executor.cc, ScheduleReady), made deterministic; it is nearly depth-first.

    A lane of a CPU is an inter-op thread with a queue of its own; the device's threads share a pool. Of the ops that
    the end of one makes ready, a thread appends the inexpensive ones to its own queue, keeps the last expensive one if
    that queue is empty, and puts the others in front of the pool's. What an arrival makes ready, and the ops without
    inputs, go to the pool's end. A thread empties its own queue before it takes from the front of the pool; among idle
    threads the lowest is served first.

    A message is sent by such a thread, too, if its lanes are cores. Packing is a Send's work, which is always
    expensive, and comes first among what an op's end makes ready; so it waits while its thread goes on with the rest.
    Where the request comes after the value it is answered from the pool's end, as the server hands requests to the
    same pool (distributed_runtime/rpc/grpc_worker_service.cc). Where a lane stands for several cores another thread
    would send at once: there, and on behalf of GPUs, packing waits for the op that runs and comes before all others,
    and so does all unpacking, which is that of gRPC's own threads (measured; decision 0014).

    Constants and NoOps take no time, but a thread has to pass them. With one thread this is the order of the real one
    (tests/oracle/test_order.py), but for the readers of one op where there are more than eight, and for ops without
    inputs, which the session hands over one by one while the thread runs. Several real threads race for the pool and
    steal from each other's ends, so that TensorFlow promises no order.

    A GPU has one stream, whatever its lanes: its ops run in the order in which they were launched. An op is launched as
    soon as its inputs have arrived and the ops of its own device that it waits for are launched, not ended, as a
    launch does not wait for the stream; every op of a GPU is inexpensive to its executor. What also waits for a signal
    of another device, as loops of a whole step do, is launched when it is ready.
    """

    grouped = True

    def __init__(self, tables: Tables, wiring: Wiring) -> None:
        lanes = tables.lanes.tolist()
        self.device, self.run_ns = wiring.device, wiring.run_ns
        self.cheap = (tables.inexpensive | tables.instant).tolist()
        self.by_thread, self.packing = wiring.by_thread, len(tables)
        self.streams: list[bool] = (~tables.cpu).tolist()
        self.idle = [list(range(1 if stream else n)) for n, stream in zip(lanes, self.streams, strict=True)]  # sorted
        self.own: list[list[deque[int]]] = [[deque() for _ in idle] for idle in self.idle]
        self.pool: list[deque[int]] = [deque() for _ in lanes]
        self.messages: list[deque[int]] = [deque() for _ in lanes]  # work of transfers for which no thread is needed
        self.lane = [0] * len(wiring.run_ns)  # [J] of the jobs that have begun
        self.touched: list[int] = []
        self.local, self.local_ptr = wiring.local, wiring.local_ptr
        on_stream = ~tables.cpu[np.array(wiring.device[: len(tables)], np.int64)]
        self.instant: list[int] = (tables.instant & (on_stream | ~tables.threaded)).tolist()  # [n] at once
        self.consumer = tables.consumer.tolist()
        self.unlaunched = list(wiring.waits)  # [n] inputs that keep an op of a GPU from being launched
        self.merged = [False] * len(self.unlaunched)

    def take_sends(self, valued: list[int], first: int, by: int) -> list[int]:
        """Take out of `valued`, from there on, the transfers that are packed by threads as that which ran this op."""
        here, packing = self.device[by], self.packing
        own = [
            transfer
            for transfer in valued[first:]
            if self.by_thread[transfer] and self.run_ns[packing + transfer] and self.device[packing + transfer] == here
        ]
        if own:
            valued[first:] = [transfer for transfer in valued[first:] if transfer not in own]
        return sorted(own)

    def offer(self, jobs: list[int], by: int) -> None:
        """These are ready, in order of discovery; `by`: the op whose end made them so, -1: an arrival, or nobody."""
        if by >= 0 and not self.streams[self.device[by]]:
            where = self.device[by]
            here = [job for job in jobs if self.device[job] == where]
            self._schedule(here, self.own[where][self.lane[by]], self.pool[where])
            self.touched.append(where)
            if len(here) == len(jobs):
                return
            jobs = [job for job in jobs if self.device[job] != where]  # what reads copies of a constant, or a signal
        for job in jobs:
            where = self.device[job]
            if not self.streams[where]:
                self.pool[where].append(job)
                self.touched.append(where)
            elif self.unlaunched[job] > 0:  # else the stream has it already
                self.unlaunched[job] = 1
                self.arrive([job])

    def _schedule(self, jobs: list[int], own: deque[int], pool: deque[int]) -> None:
        kept = -1
        for job in jobs:
            if job < self.packing and (self.cheap[job] or self.run_ns[job] <= INEXPENSIVE_NS):
                own.append(job)
            else:
                if kept >= 0:
                    pool.appendleft(kept)
                kept = job
        if kept >= 0:
            if own:
                pool.appendleft(kept)
            else:
                own.append(kept)

    def begin(self, released: list[int], fresh: list[int]) -> list[int]:
        """The jobs that start now, given those that have left their lanes, and the work of transfers that is ready."""
        for job in sorted(fresh):
            transfer = job - self.packing
            pooled = transfer < len(self.by_thread) and self.by_thread[transfer]
            (self.pool if pooled else self.messages)[self.device[job]].append(job)
            self.touched.append(self.device[job])
        for job in released:
            insort(self.idle[self.device[job]], self.lane[job])
            self.touched.append(self.device[job])
        begun = []
        for where in sorted(set(self.touched)):
            idle, own, pool, messages = self.idle[where], self.own[where], self.pool[where], self.messages[where]
            for thread in list(idle):
                queue = messages or own[thread] or pool
                if queue:
                    idle.remove(thread)
                    job = queue.popleft()
                    self.lane[job] = thread
                    begun.append(job)
        self.touched.clear()
        return begun

    def forget(self, owner: list[int], gone: int) -> None:
        """Drop the jobs of an owner, [J], that wait."""
        self.pool = [deque(job for job in queue if owner[job] != gone) for queue in self.pool]
        self.messages = [deque(job for job in queue if owner[job] != gone) for queue in self.messages]
        self.own = [[deque(job for job in queue if owner[job] != gone) for queue in own] for own in self.own]

    def arrive(self, told: list[int]) -> None:
        """Ops were told of arrivals (or have no inputs): launch those of GPUs that nothing else keeps."""
        launched: list[int] = []
        self._count(told, launched, -1)
        for op in launched:  # grows meanwhile
            self._count(self.local[self.local_ptr[op] : self.local_ptr[op + 1]], launched, self.device[op])

    def _count(self, told: list[int], launched: list[int], by: int) -> None:
        """One thing less keeps these ops; `by`: the device on which it was launched, which alone knows; -1: all."""
        for entry in told:
            op = entry if entry >= 0 else self.consumer[~entry]
            where = self.device[op]
            if not self.streams[where] or (by >= 0 and where != by) or (entry < 0 and self.merged[op]):
                continue
            self.merged[op] |= entry < 0
            self.unlaunched[op] -= 1
            if not self.unlaunched[op]:
                launched.append(op)
                if not self.instant[op]:
                    self.pool[where].append(op)
                    self.touched.append(where)


Queues: TypeAlias = Fifo | ByPriority | Executor
