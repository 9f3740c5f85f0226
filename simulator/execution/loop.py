"""The event loop. Plain Python; this is the specification that the compiled engine is held to.

Resources are lanes of devices and links; tasks are jobs (ops, and the work of processors for transfers) and what is on
the wires; an event is the end of one. At each instant, in rounds until nothing more happens at it,

    1. every task that ends now is retired, in order of number: ops whose last needed input arrived are ready, instant
       ones end at once and retire with them, and values that others need elsewhere ask for their transfers;
    2. transfers whose value is there and whose Recv was posted early enough are packed, where that takes time, or go to
       the wire; these, and those that go on to their next link now, join lines in the order of `Crossings`, but first
       what goes on and has no bytes, as others may have begun behind it on the link that it leaves;
    3. idle lanes take from the queues of their devices.

Each serial link has a line and serves it first come, first served, every transfer for as long as its bytes take at the
link's own rate. When one begins, the transfer joins the line of its next: bytes cut through, or wait in a buffer with
room for all. So no link idles while somebody stands in its line, and who joins knows when it will begin. Bytes are
through when each link has had its time with them, and no earlier than alone since the first one began.

A task of no length ends at the instant at which it starts, in a round of its own. A Merge waits for its control inputs
and the first of its data inputs; of several that come in one round it takes the lowest edge. Any other op waits for
all. A search calls this loop with many assignments, so it runs over lists and ints: an event costs some 1 us.

Without a director there is one step, which begins at once. A director lets clients begin their steps when it wants to,
again and again, is asked by ops that are marked, and says how long work takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.execution.asking import asked_now
from simulator.execution.crossings import Crossings
from simulator.execution.queues import Executor, Queues
from simulator.execution.sharing import NEVER, Sharing
from simulator.execution.tables import Tables
from simulator.execution.wiring import Wiring
from simulator.units import Nanos

Column: TypeAlias = list[int] | npt.NDArray[np.integer]
AT_ONCE, ASKS = 1, 2  # entries of `instant`: the op ends when it is ready; it asks the director


@dataclass(frozen=True, slots=True)
class Played:
    """What the loop wrote down. Axes: n ops, X transfers, J = n + 2X jobs, H holds of `Wires`."""

    makespan: Nanos
    ready: Column  # [n] -1: never
    first: Column  # [n] the edge that made a Merge ready, -1
    start: Column  # [J] 0 for work that is not done
    asked: Column  # [X]
    sent: Column  # [X] on the wire: its first serial link begins
    came: Column  # [X] arrived
    begun_on: Column  # [H] when each serial link began


@dataclass(frozen=True, slots=True)
class Wires:
    """How transfers use links. Axes: X transfers, H holds: of each transfer in turn, a row per serial link."""

    held: list[tuple[int, ...]]  # [X] serial links of its route, in order: it has each to itself while its bytes pass
    held_ptr: list[int]  # [X+1] first hold of each
    held_ns: list[int]  # [H] for how long; 0 of what has no bytes, which stands in line, too
    wire_ns: list[int]  # [X] its bytes at the slowest link of its route; 0 of a flow
    latency_ns: list[int]  # [X] from its last bytes until it arrives; of a flow, until it joins the others
    flows: list[bool]  # [X] shares links: joins the flows once its latency is over
    sharing: Sharing | None
    links: int


class State(NamedTuple):
    """What changes while the loop runs, for a director to read and to set anew. Axes: as in `Wiring` and `Played`."""

    waits: list[int]  # [n] inputs that an op still needs
    instant: list[int]  # [n] 0, AT_ONCE or ASKS
    first: list[int]  # [n]
    ready: list[int]  # [n]
    start: list[int]  # [J]
    run_ns: list[int]  # [J]
    conditions: list[int]  # [X] what a transfer still waits for
    due: list[int]  # [X] when its sender knows of a Recv
    asked: list[int]  # [X]
    sent: list[int]  # [X]
    came: list[int]  # [X]
    begun_on: list[int]  # [H]
    free: list[int]  # [L] until when each serial link is promised to those in its line
    promised_ns: list[int]  # [L] for how long in all, since the beginning
    heap: list[int]  # end << shift | task
    shift: int
    timer: int  # the first task number that is the director's
    queues: Queues
    sharing: Sharing | None


class Director(Protocol):
    """Who decides what the loop does not know: when steps begin, who waits for whom, how long work takes now."""

    @property
    def timers(self) -> int:
        """How many task numbers it needs."""

    def begin(self, state: State) -> None:
        """Take the state over and put the first timers into the heap, from which alone anything begins."""

    def sift(self, ended: list[int], now: Nanos) -> list[int]:
        """Take out what ends now and nobody waits for any more; the jobs among it, which leave their lanes."""

    def told(self, timer: int, now: Nanos) -> list[int]:
        """A timer has ended: who is told, as in `Wiring.local`; a new list."""

    def act(self, now: Nanos, ended: list[int], asks: list[int], to_wire: list[int], begun: list[int]) -> bool:
        """What happened in this round: ends, marked ops that became ready, transfers that go to the wire, not those
        that go on there, and jobs that begin, whose time it may set. Whether the run is over.
        """


def play(
    tables: Tables,
    crossing: Crossings,
    wiring: Wiring,
    queues: Queues,
    wires: Wires,
    director: Director | None = None,
) -> Played:
    """Run the step, or all that the director begins, until nothing happens any more.

    One long function, because a call per event would double its time. A heap entry is end time and task in one
    number: comparing numbers is faster than comparing tuples. Tasks are jobs, then transfers that arrive, transfers
    whose request is under way, transfers that go on (flows once their latency is over, others when they join their
    next link), and timers: the beginning of the step, or a director's.
    """
    n, transfers = len(tables), len(crossing)
    packing, unpacking, wire = n, n + transfers, n + 2 * transfers
    request, onward, timer = wire + transfers, wire + 2 * transfers, wire + 3 * transfers
    shift = (timer if director is None else timer + director.timers).bit_length()
    task_of = (1 << shift) - 1
    waits, local, local_ptr, asked_ptr = list(wiring.waits), wiring.local, wiring.local_ptr, wiring.asked_ptr
    served, served_ptr, usual, run_ns = wiring.served, wiring.served_ptr, wiring.run_ns, list(wiring.run_ns)
    pulls, posts, conditions, request_ns = wiring.pulls, wiring.posts, list(wiring.conditions), wiring.request_ns
    consumer = tables.consumer.tolist()
    held, held_ptr, wire_ns, latency_ns = wires.held, wires.held_ptr, wires.wire_ns, wires.latency_ns
    flows, sharing, held_ns = wires.flows, wires.sharing, wires.held_ns
    way, nbytes = crossing.way.tolist(), tables.tensor_bytes[crossing.tensor].tolist()
    works = any(usual[packing:])
    executor = queues if isinstance(queues, Executor) else None
    instant: list[int] = tables.instant.tolist() if executor is None else executor.instant
    free, promised_ns = [0] * wires.links, [0] * wires.links
    first, in_round = [-1] * n, [-1] * n
    ready, start = [-1] * n, [0] * wire
    asked, sent, came = [0] * transfers, [0] * transfers, [0] * transfers
    begun_on, joined = [0] * held_ptr[-1], [0] * transfers
    due = list(request_ns)  # when the sender knows of a Recv
    heap: list[int] = []
    now = rounds = 0
    ended = [timer]  # the step begins
    if director is not None:
        ended = []
        progress = (asked, sent, came, begun_on, free, promised_ns, heap, shift, timer, queues, sharing)
        director.begin(State(waits, instant, first, ready, start, run_ns, conditions, due, *progress))
    while True:
        valued: list[int] = []  # transfers of which one more condition holds
        to_wire: list[int] = []
        moving: list[int] = []  # transfers that join their next link now
        released: list[int] = [] if director is None else director.sift(ended, now)
        fresh: list[int] = []  # jobs that are ready now
        asks: list[int] = []  # marked ops that are ready now
        for task in ended:
            known = len(valued)
            if task < n:
                released.append(task)
                told = local[local_ptr[task] : local_ptr[task + 1]]
                valued += range(asked_ptr[task], asked_ptr[task + 1])
                if pulls and task in posts:
                    for transfer in posts[task]:
                        due[transfer] = now + request_ns[transfer]
                    valued += posts[task]
            elif wire <= task < request:
                transfer = task - wire
                came[transfer] = now
                if works and usual[unpacking + transfer]:
                    fresh.append(unpacking + transfer)
                    continue
                told = served[served_ptr[transfer] : served_ptr[transfer + 1]]
            elif task < wire:
                released.append(task)
                if task < unpacking:
                    to_wire.append(task - packing)
                    continue
                told = served[served_ptr[task - unpacking] : served_ptr[task - unpacking + 1]]
            elif task < onward:
                valued.append(task - request)
                continue
            elif task < timer:
                transfer = task - onward
                if sharing is not None and flows[transfer]:
                    sharing.join(transfer, way[transfer], nbytes[transfer], now)
                else:
                    moving.append(transfer)
                continue
            else:
                told = list(wiring.roots) if director is None else director.told(task - timer, now)
            woken = fresh
            if executor is not None:
                woken = []
                if task >= n:
                    executor.arrive(told)
            for entry in told:  # grows meanwhile: what is instant tells its own consumers at once
                op = entry
                if entry < 0:
                    edge = ~entry
                    op = consumer[edge]
                    if first[op] >= 0:
                        if in_round[op] == rounds and edge < first[op]:
                            first[op] = edge
                        continue
                    first[op] = edge
                    in_round[op] = rounds
                waits[op] -= 1
                if not waits[op]:
                    ready[op] = now
                    how = instant[op]
                    if not how:
                        woken.append(op)
                    elif how == ASKS:
                        asks.append(op)
                    else:
                        start[op] = now
                        told += local[local_ptr[op] : local_ptr[op + 1]]
                        valued += range(asked_ptr[op], asked_ptr[op + 1])
                        if pulls and op in posts:
                            for transfer in posts[op]:
                                due[transfer] = now + request_ns[transfer]
                            valued += posts[op]
            if executor is not None:
                if works and task < n:
                    sends = executor.take_sends(valued, known, task)
                    if pulls:
                        sends = asked_now(sends, conditions, due, now, heap, shift, request)
                    for transfer in sends:
                        asked[transfer] = now
                    woken = [*(packing + transfer for transfer in sends), *woken]
                executor.offer(woken, task if task < n else -1)
        if valued:
            if pulls:
                valued = asked_now(valued, conditions, due, now, heap, shift, request)
            for transfer in valued:
                asked[transfer] = now
            if works:
                fresh += [packing + transfer for transfer in valued if usual[packing + transfer]]
                valued = [transfer for transfer in valued if not usual[packing + transfer]]
        to_wire += valued
        for transfer in sorted(to_wire + moving, key=lambda one: (nbytes[one] > 0 or not joined[one], one)):
            begin, place, links, hold = now, joined[transfer], held[transfer], held_ptr[transfer]
            while begin == now and place < len(links):
                begun_on[hold + place] = begin = max(now, free[links[place]])
                free[links[place]] = begin + held_ns[hold + place]
                promised_ns[links[place]] += held_ns[hold + place]
                place += 1
            if not joined[transfer]:
                sent[transfer] = begun_on[hold] if links else now
            if place < len(links):
                joined[transfer] = place
                heappush(heap, begin << shift | onward + transfer)
                continue
            joined[transfer] = 0
            through = (begun_on[one] + held_ns[one] for one in range(hold, hold + len(links)))
            end = max([sent[transfer] + wire_ns[transfer], *through]) + latency_ns[transfer]
            if sharing is None or not flows[transfer]:
                heappush(heap, end << shift | wire + transfer)
            elif end > now:
                heappush(heap, end << shift | onward + transfer)
            else:
                sharing.join(transfer, way[transfer], nbytes[transfer], now)
        begun = queues.begin(released, fresh) if released or fresh or executor is not None else []
        if director is not None and director.act(now, ended, asks, to_wire, begun):
            return Played(now, ready, first, start, asked, sent, came, begun_on)
        for job in begun:
            start[job] = now
            heappush(heap, now + run_ns[job] << shift | job)
        if sharing is not None:
            sharing.settle()
            upcoming = min(heap[0] >> shift if heap else NEVER, sharing.next_ns)
        elif heap:
            upcoming = heap[0] >> shift
        else:
            upcoming = NEVER
        if upcoming == NEVER:
            return Played(now, ready, first, start, asked, sent, came, begun_on)
        now = upcoming
        rounds += 1
        limit = now + 1 << shift
        ended = []
        while heap and heap[0] < limit:
            ended.append(heappop(heap) & task_of)
        if sharing is not None and sharing.next_ns == now:
            ended = sorted([*ended, *(wire + transfer for transfer in sharing.ended(now))])
