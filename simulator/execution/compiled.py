"""The engine compiled: the same results as `engine`, bit for bit, at the speed of machine code.

`loop`, `queues` and `sharing` say what simulated time means and `lifetimes` what memory holds; nothing is decided
here. What is different is how it is found:

    - a pass over the edges finds the transfers of an assignment, numbered as `crossings` numbers them, and puts the
      readers that one event tells next to each other;
    - the heap of ends holds only what runs: a job per busy lane, and of the transfers that leave a way in turn the
      first; where order is by readiness the next job takes the place of the one that ended;
    - within a round jobs that are ready are sorted by number, and so are transfers that go to the wire; what ends in
      it is sorted only for TensorFlow's executor, as nothing else depends on that order;
    - fair shares are found anew only for ways that share links, by others or not, with one whose flows changed;
    - memory is counted by reference while the loop runs, round by round.

Kernel and helpers share this module, because numba's cache does not notice an edit in another file. `play` alone has
a signature and a cache: what it calls is compiled into it. Arrays are told of in `flat`. Import this module where it
is used, not before: numba takes longer to load than a small step to simulate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
from numba import boolean, config, from_dtype, int32, int64, njit, types, void

from simulator.columns import ids, ints
from simulator.execution import engine
from simulator.execution.crossings import checked, crossings
from simulator.execution.engine import Outcome, chosen_order, lanes, outcome
from simulator.execution.flat import (
    CODES,
    EXECUTOR,
    GIVEN_UP,
    MATRICES,
    NEVER,
    PLAIN,
    RANKED,
    REFUSED,
    SAFE_BYTES,
    STUCK,
    Fair,
    Flat,
    Found,
    Held,
    Memory,
    Nodes,
    Pending,
    Places,
    Queues,
    Shared,
    Threads,
    Work,
    fields,
)
from simulator.execution.loop import Played
from simulator.execution.sharing import MAX_FLOW_BYTES
from simulator.execution.tables import OWN
from simulator.execution.wiring import INEXPENSIVE_NS, ranks

if TYPE_CHECKING:
    from simulator.columns import Flags, Ids, Ints
    from simulator.execution.crossings import Crossings
    from simulator.execution.engine import Column
    from simulator.execution.tables import Tables
    from simulator.units import Nanos

    Rows = npt.NDArray[np.int32]

_COUNTABLE_NS = 2.0**61 * 0.999  # a sum of times above this is left to the specification, which is exact
_LOW = 0xFFFFFFFF
_RECOUNT = 2**61  # service of a class above which it is counted from 0 again, so that 64 bits hold it

_F = TypeVar("_F", bound=Callable[..., object])


def _inner(function: _F) -> _F:
    """Compiled into what calls it. Nothing is allocated, so that arrays need no reference counts (_nrt)."""
    made: _F = njit(
        function, nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    return made


@_inner
def _at(row: int) -> int:
    """A row that is not negative, which spares the check whether it counts from the end."""
    known: int = np.int64(np.uint32(row))
    return known


@_inner
def _sort(values: Ints, count: int) -> None:
    """Sort the first values: by insertion, as they are few or nearly in order; by heap where that takes long."""
    budget = 16 * count
    for i in range(1, count):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
        budget -= i - j
        if budget < 0:
            break
    if budget >= 0:
        return
    for turn in range(2 * count - 1):  # first build the heap, from the last parent up; then take the largest, in turn
        size = min(count, 2 * count - 1 - turn)
        root = max(count - 1 - turn, 0)
        value = values[root]
        if turn >= count:
            value = values[size]
            values[size] = values[0]
        child = 2 * root + 1
        while child < size:
            if child + 1 < size and values[child + 1] > values[child]:
                child += 1
            if values[child] <= value:
                break
            values[root] = values[child]
            root = child
            child = 2 * root + 1
        values[root] = value


@_inner
def _rise(key: Ints, task: Ids, size: int, when: int, what: int) -> int:
    """Add an entry to a heap by key; its new size."""
    hole = _at(size)
    while hole > 0:
        above = _at((hole - 1) >> 1)
        if key[above] <= when:
            break
        key[hole], task[hole] = key[above], task[above]
        hole = above
    key[hole], task[hole] = when, what
    return size + 1


@_inner
def _sink(key: Ints, task: Ids, size: int, when: int, what: int) -> None:
    """Put an entry in the place of the first."""
    hole, child = np.int64(0), np.int64(1)
    while child < size:
        child = _at(child + (child + 1 < size and key[child + 1] < key[child]))
        if key[child] >= when:
            break
        key[hole], task[hole] = key[child], task[child]
        hole = child
        child = _at(2 * hole + 1)
    key[hole], task[hole] = when, what


@_inner
def _offer(queue: Ids, base: int, count: int, place: int) -> None:
    """Add a place to a device's heap of `count`."""
    hole = count
    while hole > 0:
        above = (hole - 1) >> 1
        if queue[base + above] <= place:
            break
        queue[base + hole] = queue[base + above]
        hole = above
    queue[base + hole] = place


@_inner
def _take(queue: Ids, base: int, count: int) -> np.int32:
    """Take the smallest place from a device's heap of `count`."""
    found: np.int32 = queue[base]
    place = queue[base + count - 1]
    hole, child = 0, 1
    while child < count - 1:
        if child + 1 < count - 1 and queue[base + child + 1] < queue[base + child]:
            child += 1
        if queue[base + child] >= place:
            break
        queue[base + hole] = queue[base + child]
        hole = child
        child = 2 * hole + 1
    queue[base + hole] = place
    return found


@_inner
def _wire_ns(nbytes: int, rate: int) -> int:
    """Time of the bytes, rounded up; their number times 10**9 fits 64 bits."""
    # unsigned: one division without the corrections of a signed one
    taken: int = np.int64((np.uint64(nbytes) * np.uint64(10**9) + np.uint64(rate) - np.uint64(1)) // np.uint64(rate))
    return taken


@_inner
def _work_ns(fixed: int, nbytes: int, ps_per_byte: int) -> int:
    """Time of a processor for a transfer, rounded up; -1: more than can be counted."""
    if float(nbytes) * float(ps_per_byte) > _COUNTABLE_NS:
        return -1
    return fixed + (nbytes * ps_per_byte + 999) // 1000


@_inner
def _row(values: Ids, value: int) -> int:
    """Where a value is."""
    for row in range(len(values)):
        if values[row] == value:
            return row
    return 0


@_inner
def _find(
    nodes: Nodes,
    places: Places,
    found: Found,
    queues: Queues,
    across: Ints,
    came_by: Ids,
    device: Ids,
    full: bool,
    record: bool,
) -> int:
    """The transfers of an assignment, as `crossings`; how many there are, or REFUSED.

    Counts on the way what each device and each way may have to queue. `full`: not only what the plain loop asks for.
    Long, because its arrays are in local names.
    """
    block, group_ptr, group_edge, edge_tensor = nodes.block, nodes.group_ptr, nodes.group_edge, nodes.edge_tensor
    consumer, reader, host, kind_ns, kind = nodes.consumer, nodes.reader, nodes.host, nodes.kind_ns, places.kind
    cpu, home, way, replicable, flowing = places.cpu, places.home, places.way, nodes.replicable, places.flowing
    stays, end, wire_end = nodes.stays, queues.end, queues.wire_end
    works, posts = full and places.works[0], full or places.pulls[0]
    latency_ns, bytes_per_s, tensor_bytes = places.latency_ns, places.bytes_per_s, nodes.tensor_bytes
    told, local_end, asked_ptr, took_ns = found.told, found.local_end, found.asked_ptr, found.took_ns
    span_from, span_to, way_of, end_ns = found.span_from, found.span_to, found.way_of, found.end_ns
    tensor_of, source_of, target_of = found.tensor_of, found.source_of, found.target_of
    n, edges = len(device), len(consumer)
    transfers, flows, slowest = 0, 0, np.int64(NEVER)
    total = 0.0
    for op in range(n):
        here = _at(device[op])
        taken = kind_ns[op, _at(kind[here])]
        if taken < 0:
            return REFUSED
        took_ns[op] = taken
        total += taken
        end[here] += 1
        asked_ptr[op] = transfers
        low, high = _at(block[op]), _at(block[op + 1])
        for group in range(_at(group_ptr[op]), _at(group_ptr[op + 1])):
            first, last = _at(group_edge[group]), _at(group_edge[group + 1])
            copied = False
            if replicable[_at(edge_tensor[first])] and cpu[here]:
                for edge in range(first + 1, last):
                    copied |= home[device[consumer[edge]]] != home[device[consumer[first]]]
            crossing = 0
            for edge in range(first, last):
                target = _at(device[_at(consumer[edge])])
                source = _at(home[target]) if copied else here
                if source == target or stays[_at(edge_tensor[edge])]:
                    told[low] = reader[edge]
                    low += 1
                    if record:
                        came_by[edge] = -1
                else:
                    key = np.int64(target) << 1 | (cpu[target] or host[edge])
                    across[crossing] = key << 32 | edge
                    crossing += 1
            if crossing > 1:
                _sort(across, crossing)
            high -= crossing
            known, carried = np.int64(-1), np.int64(-1)
            for at in range(crossing):
                key, edge = across[at] >> 32, across[at] & _LOW
                if key != known or edge_tensor[edge] != carried:
                    known, carried = key, np.int64(edge_tensor[edge])
                    target = _at(key >> 1)
                    source = _at(home[target]) if copied else here
                    path = np.int64(way[source, target])
                    if path < 0:
                        return REFUSED
                    nbytes, rate, wire_ns = tensor_bytes[carried], bytes_per_s[path], np.int64(0)
                    if rate > 0 and nbytes <= SAFE_BYTES:
                        wire_ns = _wire_ns(nbytes, rate)
                    elif rate > 0:
                        wire_ns = places.big_ns[_row(places.big, carried), path]
                        if wire_ns < 0:
                            return REFUSED
                    total += latency_ns[path] + wire_ns
                    if full and flowing[path] and nbytes > 0:
                        if nbytes > MAX_FLOW_BYTES:
                            return REFUSED
                        flows += 1
                        slowest = min(slowest, rate)
                        wire_ns = np.int64(0)
                    if works:
                        pack = _work_ns(places.send_ns[path], nbytes, places.send_ps[path])
                        unpack = _work_ns(places.receive_ns[path], nbytes, places.receive_ps[path])
                        if pack < 0 or unpack < 0:
                            return REFUSED
                        took_ns[n + transfers], took_ns[n + edges + transfers] = pack, unpack
                        total += pack + unpack
                        end[_at(home[source])] += pack > 0
                        end[_at(home[target])] += unpack > 0
                    if posts:
                        tensor_of[transfers] = carried
                    if full:
                        source_of[transfers], target_of[transfers] = source, target
                    way_of[transfers] = path
                    wire_end[path] += 1
                    end_ns[transfers] = latency_ns[path] + wire_ns
                    span_from[transfers] = high + at
                    transfers += 1
                told[high + at] = reader[edge]
                span_to[transfers - 1] = high + at + 1
                if record:
                    came_by[edge] = transfers - 1
        local_end[op] = low
    asked_ptr[n] = transfers
    return transfers if total < _COUNTABLE_NS and flows <= slowest else REFUSED


@_inner
def _clear(nodes: Nodes, places: Places, queues: Queues, pending: Pending, full: bool) -> None:
    """Clear what a run needs clear."""
    waits, needs, merged, first, lanes = pending.waits, nodes.waits, pending.merged, pending.first, places.lanes
    idle, end, wire_end, free_ns = queues.idle, queues.end, queues.wire_end, queues.free_ns
    for where in range(len(idle)):
        idle[where] = lanes[where]
        end[where] = 0
    for way in range(len(wire_end)):
        wire_end[way] = 0
    for link in range(len(free_ns)):
        free_ns[link] = 0
    for op in range(len(waits)):
        waits[op] = needs[op]
    for op in range(len(waits) if nodes.merges[0] else 0):
        merged[op] = 0
    for op in range(len(waits) if full else 0):
        first[op] = -1


@_inner
def _divide(base: Ids, head: Ids, end: Ids) -> None:
    """Lengths in `end` become regions of a queue, with nothing in them."""
    at = np.int64(0)
    for row in range(len(end)):
        base[row], head[row] = at, at
        at += end[row]
        end[row] = head[row]


@_inner
def _conditions(post: Ids, tensor_of: Ids, pending: Pending, transfers: int) -> None:
    """What each transfer waits for, and which Recvs each op posts."""
    conditions, post_head, post_next = pending.conditions, pending.post_head, pending.post_next
    for op in range(len(post_head)):
        post_head[op] = -1
    for transfer in range(transfers - 1, -1, -1):  # so that each op has its own in order
        poster = post[tensor_of[transfer]]
        conditions[transfer] = 1 if poster < 0 else 2
        if poster >= 0:
            post_next[transfer], post_head[poster] = post_head[poster], transfer


@_inner
def _place(way: int, rank: int, soonest: Ids, rank_of: Ids, next_ns: Ints, size: int) -> None:
    """Put a way where it belongs in the heap of ways by the end of their first flow; now there is room at `rank`."""
    hole = rank
    while hole > 0 and next_ns[soonest[(hole - 1) >> 1]] > next_ns[way]:
        soonest[hole] = soonest[(hole - 1) >> 1]
        rank_of[soonest[hole]] = hole
        hole = (hole - 1) >> 1
    child = 2 * hole + 1
    while child < size:
        if child + 1 < size and next_ns[soonest[child + 1]] < next_ns[soonest[child]]:
            child += 1
        if next_ns[soonest[child]] >= next_ns[way]:
            break
        soonest[hole] = soonest[child]
        rank_of[soonest[hole]] = hole
        hole = child
        child = 2 * hole + 1
    soonest[hole] = way
    rank_of[way] = hole


@_inner
def _serve(fair: Fair, way: int, now: int, turn: int) -> None:
    """Count what the flows of a way were served until now; they change in this round."""
    fair.served[way] += fair.rate[way] * (now - fair.since_ns[way])
    fair.since_ns[way] = now
    if fair.seen[way] != turn:
        fair.seen[way] = turn
        fair.changed[fair.sizes[1]] = way
        fair.sizes[1] += 1


@_inner
def _join(fair: Fair, base: int, way: int, transfer: int, nbytes: int, now: int, turn: int) -> None:
    """A flow begins."""
    key, task, count = fair.key, fair.task, fair.flows[way]
    _serve(fair, way, now, turn)
    if count == 0:
        fair.served[way], fair.rate[way] = 0, 0
    elif fair.served[way] > _RECOUNT:
        for at in range(base, base + count):
            key[at] -= fair.served[way]
        fair.served[way] = 0
    hole, when = count, fair.served[way] + nbytes * 10**9
    while hole > 0 and key[base + ((hole - 1) >> 1)] > when:
        key[base + hole], task[base + hole] = key[base + ((hole - 1) >> 1)], task[base + ((hole - 1) >> 1)]
        hole = (hole - 1) >> 1
    key[base + hole], task[base + hole] = when, transfer
    fair.flows[way] = count + 1


@_inner
def _leave(fair: Fair, base: int, way: int) -> int:
    """Take the first flow of a way from its heap."""
    key, task = fair.key, fair.task
    found: int = np.int64(task[base])
    size = fair.flows[way] - 1
    fair.flows[way] = size
    when, what = key[base + size], task[base + size]
    hole, child = 0, 1
    while child < size:
        if child + 1 < size and key[base + child + 1] < key[base + child]:
            child += 1
        if key[base + child] >= when:
            break
        key[base + hole], task[base + hole] = key[base + child], task[base + child]
        hole = child
        child = 2 * hole + 1
    key[base + hole], task[base + hole] = when, what
    return found


@_inner
def _settle(fair: Fair, shared: Shared, wire_base: Ids, now: int, turn: int) -> None:
    """Give the flows that a change may touch their max-min rates (`sharing.shares`).

    Rates depend on nothing beyond links that are shared, by others or not, with ways that changed: elsewhere the same
    shares would be given in the same order.
    """
    link_ptr, link, sharer_ptr, sharer = shared.link_ptr, shared.link, shared.sharer_ptr, shared.sharer
    cap, capacity, count, part, span, share = shared.cap, shared.capacity, fair.flows, fair.part, fair.span, fair.share
    seen, link_seen, left, open_, next_ns, rate = (
        fair.seen,
        fair.link_seen,
        fair.left,
        fair.open,
        fair.next_ns,
        fair.rate,
    )
    ways, links, capped = fair.sizes[1], 0, False
    for at in range(ways):
        part[at] = fair.changed[at]
    at = 0
    while at < ways:  # grows meanwhile
        way = _at(part[_at(at)])
        at += 1
        share[way] = -1
        capped |= cap[way] > 0
        for place in range(_at(link_ptr[way]), _at(link_ptr[way + 1])):
            one = _at(link[_at(place)])
            if link_seen[one] != turn:
                link_seen[one] = turn
                left[one], open_[one] = capacity[one], 0
                span[links] = one
                links += 1
                for other in range(sharer_ptr[one], sharer_ptr[one + 1]):
                    if count[sharer[other]] > 0 and seen[sharer[other]] != turn:
                        seen[sharer[other]] = turn
                        part[ways] = sharer[other]
                        ways += 1
            open_[one] += count[way]
    waiting = 0
    for at in range(ways):
        waiting += count[part[at]] > 0
    while waiting > 0:
        least, tightest = np.int64(NEVER), -1
        for at in range(links):
            one = _at(span[_at(at)])
            if open_[one] > 0:
                here = np.int64(np.uint64(left[one]) // np.uint64(open_[one]))  # unsigned: without corrections
                if here < least or (here == least and one < tightest):
                    least, tightest = here, one
        alone = -1
        for at in range(ways if capped else 0):
            way = _at(part[_at(at)])
            able = count[way] > 0 and share[way] < 0 and 0 < cap[way] <= least
            if able and (alone < 0 or cap[way] < least or way < alone):
                least, alone = cap[way], way
        for place in range(sharer_ptr[tightest] if alone < 0 else 0, sharer_ptr[tightest + 1] if alone < 0 else 1):
            way = _at(sharer[place] if alone < 0 else alone)
            if count[way] == 0 or share[way] >= 0:
                continue
            share[way] = least
            waiting -= 1
            for other in range(_at(link_ptr[way]), _at(link_ptr[way + 1])):
                one = _at(link[_at(other)])
                left[one] -= least * count[way]
                open_[one] -= count[way]
    for at in range(ways):
        way = part[at]
        if count[way] == 0:
            if fair.rank[way] >= 0:  # the last of the heap takes its place
                fair.sizes[0] -= 1
                rank, fair.rank[way] = fair.rank[way], -1
                if rank < fair.sizes[0]:
                    _place(fair.soonest[fair.sizes[0]], rank, fair.soonest, fair.rank, next_ns, fair.sizes[0])
        elif at < fair.sizes[1] or share[way] != rate[way]:
            fair.served[way] += rate[way] * (now - fair.since_ns[way])
            fair.since_ns[way], rate[way] = now, share[way]
            ahead = fair.key[wire_base[way]] - fair.served[way]
            next_ns[way] = now + (ahead + rate[way] - 1) // rate[way]
            if fair.rank[way] < 0:
                fair.rank[way] = fair.sizes[0]
                fair.sizes[0] += 1
            _place(way, fair.rank[way], fair.soonest, fair.rank, next_ns, fair.sizes[0])
    fair.sizes[1] = 0


@_inner
def _clear_flows(fair: Fair) -> None:
    for way in range(len(fair.flows)):
        fair.flows[way], fair.rank[way], fair.seen[way] = 0, -1, 0
        fair.served[way], fair.since_ns[way], fair.rate[way] = 0, 0, 0
    for link in range(len(fair.link_seen)):
        fair.link_seen[link] = 0
    fair.sizes[0], fair.sizes[1] = 0, 0


@_inner
def _clear_threads(threads: Threads, nodes: Nodes, cpu: Flags, device: Ids) -> None:
    waits, instant, threaded = nodes.waits, nodes.instant, nodes.threaded
    for lane in range(len(threads.free)):
        threads.free[lane], threads.own_head[lane] = True, -1
    for where in range(len(threads.pool_head)):
        threads.pool_head[where] = -1
    for op in range(len(waits)):
        threads.unlaunched[op], threads.merged[op] = waits[op], False
        threads.at_once[op] = instant[op] and not (threaded[op] and cpu[device[op]])
    for job in range(len(threads.lane)):
        threads.lane[job] = 0


@_inner
def _append(job: int, at: int, head: Ids, tail: Ids, following: Ids) -> None:
    """Put a job at the end of a queue."""
    following[job] = -1
    if head[at] < 0:
        head[at] = job
    else:
        following[tail[at]] = job
    tail[at] = job


@_inner
def _prepend(job: int, at: int, head: Ids, tail: Ids, following: Ids) -> None:
    """Put a job at the front of a queue."""
    following[job] = head[at]
    if head[at] < 0:
        tail[at] = job
    head[at] = job


@_inner
def _launch(
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
        _append(ready, device[ready], threads.pool_head, threads.pool_tail, threads.following)
        served = _touch(device[ready], touched, touched_in, turn, served)
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
                    _append(op, here, threads.pool_head, threads.pool_tail, threads.following)
                    served = _touch(here, touched, touched_in, turn, served)
        if done == known:
            return served
        op = threads.stack[done]
        low, high, source = np.int64(block[op]), np.int64(local_end[op]), np.int64(device[op])
        done += 1


@_inner
def _touch(here: int, touched: Ids, touched_in: Ids, turn: int, served: int) -> int:
    """Note that a lane or queue of a device changed in this round; how many devices that are now."""
    if touched_in[here] == turn:
        return served
    touched_in[here], touched[served] = turn, here
    return served + 1


@_inner
def _schedule(
    threads: Threads, inexpensive: Flags, took_ns: Ints, jobs: Ints, low: int, high: int, here: int, lane: int
) -> None:
    """Ops that one's end made ready: the inexpensive and the last other stay with its thread, the rest is pooled."""
    kept = np.int64(-1)
    for at in range(low, high):
        job = jobs[at]
        if inexpensive[job] or took_ns[job] <= INEXPENSIVE_NS:
            _append(job, lane, threads.own_head, threads.own_tail, threads.following)
        else:
            if kept >= 0:
                _prepend(kept, here, threads.pool_head, threads.pool_tail, threads.following)
            kept = job
    if kept >= 0 and threads.own_head[lane] < 0:
        _append(kept, lane, threads.own_head, threads.own_tail, threads.following)
    elif kept >= 0:
        _prepend(kept, here, threads.pool_head, threads.pool_tail, threads.following)


@_inner
def _next_job(threads: Threads, here: int, lane: int) -> int:
    """What an idle thread takes: from its own queue, else from the pool; -1: there is nothing."""
    job: int = np.int64(threads.own_head[lane])
    if job >= 0:
        threads.own_head[lane] = threads.following[job]
        return job
    job = np.int64(threads.pool_head[here])
    if job >= 0:
        threads.pool_head[here] = threads.following[job]
    return job


@_inner
def _resident(nodes: Nodes, places: Places, held: Held, memory: Memory, device: Ids, transfers: int) -> None:
    """What each device holds all the time; a copied constant is held by every CPU that keeps a copy."""
    cpu, home, tensor_ptr, tensor_edge = places.cpu, places.home, held.tensor_ptr, held.tensor_edge
    consumer, replicable, resident_bytes = nodes.consumer, nodes.replicable, held.resident_bytes
    level, peak, over = memory.level, memory.peak, memory.over
    for where in range(len(level)):
        level[where] = 0
        peak[where] = -1
    for op in range(len(device)):
        if resident_bytes[op] == 0:
            continue
        copied = False
        for tensor in range(tensor_ptr[op], tensor_ptr[op + 1] if cpu[device[op]] else 0):
            first, last = tensor_edge[tensor], tensor_edge[tensor + 1] if replicable[tensor] else 0
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
        memory.freed[where], memory.begun[where], memory.brief[where] = 0, 0, 0
    for task in range(len(device) + transfers):
        over[task] = False


@_inner
def _advance(level: Ints, peak: Ints, freed: Ints, begun: Ints, brief: Ints) -> None:
    """An instant is over: first what ended is freed, then what began is added, then what also ended at it is freed."""
    for where in range(len(level)):
        now = level[where] - freed[where] + begun[where]
        peak[where] = max(peak[where], now)
        level[where] = now - brief[where]
        freed[where] = 0
        begun[where] = 0
        brief[where] = 0


@_inner
def _drop(
    buffer: int, now: int, holds: Ids, since_ns: Ints, held_by: Ids, nbytes: Ints, freed: Ints, brief: Ints
) -> None:
    """One needs the buffer less; when none does, it is freed."""
    if buffer >= 0:
        holds[buffer] -= 1
        if holds[buffer] == 0 and since_ns[buffer] < now:
            freed[held_by[buffer]] += nbytes[buffer]
        elif holds[buffer] == 0:
            brief[held_by[buffer]] += nbytes[buffer]


@_inner
def _hand_in(held: Held, memory: Memory, device: Ids, tensor_bytes: Ints) -> None:
    """What the client hands in is there from the beginning, whenever an executor comes to it."""
    for op in range(len(device)):
        for tensor in range(held.tensor_ptr[op], held.tensor_ptr[op + 1] if held.bound[op] else 0):
            memory.owner[tensor], memory.holds[tensor], memory.since_ns[tensor] = tensor, 1, 0
            memory.held_by[tensor], memory.nbytes[tensor] = device[op], tensor_bytes[tensor]
            memory.begun[device[op]] += tensor_bytes[tensor]


@_inner
def _begin_all(
    held: Held,
    memory: Memory,
    device: Ids,
    tensor_bytes: Ints,
    handed: Flags,
    way_of: Ids,
    tensor_of: Ids,
    target_of: Ids,
    count: int,
    now: int,
) -> None:
    """What began in this round takes memory."""
    owner, n, tensors = memory.owner, len(device), len(tensor_bytes)
    for i in range(count):
        task = memory.began[i]
        if task < n:
            here = device[task]
            memory.begun[here] += held.scratch_bytes[task]
            low, high = np.int64(held.tensor_ptr[task]), np.int64(held.tensor_ptr[task + 1])
            if held.bound[task]:
                continue  # it was there from the beginning
        else:
            here = target_of[task - n]
            low = tensors + task - n
            owner[low] = -1  # handed over: as its tensor, once that is there
            high = low if handed[way_of[task - n]] else low + 1
        for copy in range(low, high):
            owner[copy] = -1
            if copy >= tensors or held.passes[copy] == OWN:
                owner[copy], memory.holds[copy], memory.since_ns[copy], memory.held_by[copy] = copy, 1, now, here
                memory.nbytes[copy] = tensor_bytes[copy if copy < tensors else tensor_of[copy - tensors]]
                memory.begun[here] += memory.nbytes[copy]


@_inner
def _end_all(
    held: Held,
    memory: Memory,
    device: Ids,
    consumer: Ids,
    edge_tensor: Ids,
    told: Ids,
    first: Ids,
    handed: Flags,
    way_of: Ids,
    tensor_of: Ids,
    span_from: Ids,
    span_to: Ids,
    asked_ptr: Ids,
    start_ns: Ints,
    tensors: int,
    count: int,
    now: int,
) -> None:
    """What ended in this round hands its outputs to those who wait for them, and lets go of what it read."""
    owner, holds, over, came_by = memory.owner, memory.holds, memory.over, memory.came_by
    since_ns, held_by, nbytes, freed, brief = (
        memory.since_ns,
        memory.held_by,
        memory.nbytes,
        memory.freed,
        memory.brief,
    )
    tensor_ptr, tensor_edge, passes, n = held.tensor_ptr, held.tensor_edge, held.passes, len(device)
    edges = len(consumer)
    for i in range(count):
        task = memory.ended[i]
        low, high = 0, 0  # the buffers that it filled
        if task >= n + edges:  # off the wire
            if not handed[way_of[task - n - edges]]:
                _drop(owner[tensor_of[task - n - edges]], now, holds, since_ns, held_by, nbytes, freed, brief)
            continue
        over[task] = True
        if task >= n:
            tensor, copy = tensor_of[task - n], tensors + task - n
            if handed[way_of[task - n]]:
                owner[copy] = owner[tensor]
            else:
                low, high = copy, copy + 1
            for place in range(span_from[task - n], span_to[task - n]):
                reader = told[place]
                if owner[copy] >= 0 and not over[reader if reader >= 0 else consumer[~reader]]:
                    holds[owner[copy]] += 1
            if handed[way_of[task - n]]:
                _drop(owner[tensor], now, holds, since_ns, held_by, nbytes, freed, brief)
        else:
            low, high = tensor_ptr[task], tensor_ptr[task + 1]
            for tensor in range(low, high):
                if passes[tensor] >= 0:
                    edge = first[task] if first[task] >= 0 else passes[tensor]
                    owner[tensor] = owner[edge_tensor[edge] if came_by[edge] < 0 else tensors + came_by[edge]]
                for edge in range(tensor_edge[tensor], tensor_edge[tensor + 1]):
                    if owner[tensor] >= 0 and came_by[edge] < 0 and not over[consumer[edge]]:
                        holds[owner[tensor]] += 1
            for transfer in range(asked_ptr[task], asked_ptr[task + 1]):
                if owner[tensor_of[transfer]] >= 0:
                    holds[owner[tensor_of[transfer]]] += 1
            if start_ns[task] < now:
                freed[device[task]] += held.scratch_bytes[task]
            else:
                brief[device[task]] += held.scratch_bytes[task]
            # the client keeps what it gets
            for place in range(held.in_ptr[task], held.in_ptr[task + 1] if not held.bound[task] else 0):
                edge = held.in_edge[place]
                tensor, transfer = edge_tensor[edge], came_by[edge]
                # a value that comes too late for its Merge will find that it has ended
                if over[held.tensor_op[tensor] if transfer < 0 else n + transfer]:
                    buffer = owner[tensor if transfer < 0 else tensors + transfer]
                    _drop(buffer, now, holds, since_ns, held_by, nbytes, freed, brief)
        for copy in range(low, high):
            if owner[copy] == copy:
                _drop(copy, now, holds, since_ns, held_by, nbytes, freed, brief)


@_inner
def _give_back(held: Held, memory: Memory, edge_tensor: Ids, tensors: int, now: int) -> None:
    """The step is over: the client lets go of what it got."""
    for op in range(len(held.bound)):
        for place in range(held.in_ptr[op], held.in_ptr[op + 1] if held.bound[op] else 0):
            edge = held.in_edge[place]
            transfer = memory.came_by[edge]
            buffer = memory.owner[edge_tensor[edge] if transfer < 0 else tensors + transfer]
            _drop(
                buffer,
                now,
                memory.holds,
                memory.since_ns,
                memory.held_by,
                memory.nbytes,
                memory.freed,
                memory.brief,
            )


def _loop(full: bool) -> Callable[..., int]:
    """The loop, whole or without what few runs need: a third of its time goes into asking for that."""

    @_inner
    def _play(
        flat: Flat,
        work: Work,
        device: Ids,
        order: int,
        ops: Ids,
        tail: Ints,
        limit: int,
        noting: bool,
    ) -> int:
        """One run: its makespan, or why there is none. `ops`: by (priority, row), for the order RANKED.

        Long, because the state of the loop is in local names. `tail` is empty or says for each op how long the step
        takes at least from its start. `noting`: fill in a record and count memory.
        """
        nodes, places, shared, held = flat
        found, queues, pending, in_round, noted, fair, threads, memory = work
        _clear(nodes, places, queues, pending, full)
        transfers = _find(nodes, places, found, queues, in_round.asking, memory.came_by, device, full, full and noting)
        if transfers < 0:
            return transfers
        _divide(queues.region, queues.head, queues.end)
        _divide(queues.wire_base, queues.wire_head, queues.wire_end)
        block, instant, consumer, tensor_bytes = nodes.block, nodes.instant, nodes.consumer, nodes.tensor_bytes
        home, flowing, in_turn, request_ns = places.home, places.flowing, places.in_turn, places.request_ns
        held_ptr, held_link = places.held_ptr, places.held
        told, local_end, asked_ptr, took_ns = found.told, found.local_end, found.asked_ptr, found.took_ns
        span_from, span_to, way_of, end_ns = found.span_from, found.span_to, found.way_of, found.end_ns
        tensor_of, source_of, target_of = found.tensor_of, found.source_of, found.target_of
        key, task, queue, free_ns, place_of = queues.key, queues.task, queues.queue, queues.free_ns, queues.place
        idle, region, head, queue_end, wire = queues.idle, queues.region, queues.head, queues.end, queues.wire
        wire_base, wire_head, wire_end = queues.wire_base, queues.wire_head, queues.wire_end
        waits, merged, first, conditions = pending.waits, pending.merged, pending.first, pending.conditions
        due_ns, post_head, post_next = pending.due_ns, pending.post_head, pending.post_next
        batch, woken, fresh, asking = in_round.batch, in_round.woken, in_round.fresh, in_round.asking
        valued = in_round.valued if full else asking  # whose value is there goes to the wire at once
        chain, touched, touched_in = in_round.chain, in_round.touched, in_round.touched_in
        ready_ns, start_ns, asked_ns, sent_ns, came_ns = (
            noted.ready_ns,
            noted.start_ns,
            noted.asked_ns,
            noted.sent_ns,
            noted.came_ns,
        )
        began, ended = memory.began, memory.ended
        flow_count, flow_key, served_by, next_ns, soonest, sizes = (
            fair.flows,
            fair.key,
            fair.served,
            fair.next_ns,
            fair.soonest,
            fair.sizes,
        )
        lane_ptr, lane_free, lane_of = threads.lane_ptr, threads.free, threads.lane
        n, edges, bounded = len(device), len(consumer), len(tail) > 0
        pulls, requesting = places.pulls[0], full and places.requests[0]
        works, record = full and places.works[0], full and noting
        unpacking, wires = n + edges, n + 2 * edges
        requests, latent, begins = wires + edges, wires + 2 * edges, wires + 3 * edges
        last, executor, shares = len(chain) - 1, full and order == EXECUTOR, full and len(shared.link) > 0
        for position in range(len(ops)):
            place_of[ops[position]] = position
        for where in range(len(touched_in)):
            touched_in[where] = 0
        if pulls:
            _conditions(nodes.post, tensor_of, pending, transfers)
        for transfer in range(transfers if requesting else 0):
            due_ns[transfer] = request_ns[way_of[transfer]]
        if shares:
            _clear_flows(fair)
        if executor:
            _clear_threads(threads, nodes, places.cpu, device)
            instant = threads.at_once
        if record:
            _resident(nodes, places, held, memory, device, transfers)
            _hand_in(held, memory, device, tensor_bytes)
            for job in range(len(start_ns)):
                start_ns[job] = 0
            for op in range(n):
                ready_ns[op] = -1
        now, size, left, turn = np.int64(0), np.int64(0), n, 0
        while True:
            turn += 1
            ready, news, values, asks, brief, served, tasks = 0, 0, 0, 0, 0, 0, 0
            starts, ends = np.int64(0), np.int64(0)
            if turn == 1:
                batch[0], tasks = -1, 1  # the step begins
            while size > 0 and key[0] <= now:
                what = _at(task[0])
                when, follows = now, np.int64(-1)  # what takes its place in the heap
                if what < wires:
                    here = _at(
                        device[what]
                        if not works or what < n
                        else home[source_of[what - n]]
                        if what < unpacking
                        else home[target_of[what - unpacking]]
                    )
                    if order == PLAIN and head[here] < queue_end[here]:
                        job = _at(queue[_at(head[here])])
                        head[here] += 1
                        if took_ns[job] > 0:
                            when, follows = now + took_ns[job], np.int64(job)
                            if bounded and job < n and now + tail[job] > limit:
                                return GIVEN_UP
                            if record:
                                start_ns[job] = now
                                if job < n:
                                    began[starts] = job
                                    starts += 1
                        else:
                            chain[_at(last - brief)] = job
                            brief += 1
                    elif executor:
                        lane_free[lane_ptr[here] + lane_of[what]] = True
                        served = _touch(here, touched, touched_in, turn, served)
                    else:
                        idle[here] += 1
                        if order == RANKED:
                            served = _touch(here, touched, touched_in, turn, served)
                elif not full or what < requests or latent <= what < begins:
                    way = _at(way_of[_at(what - wires if what < requests else what - latent)])
                    if in_turn[way]:
                        wire_head[way] += 1
                        if wire_head[way] < wire_end[way]:
                            transfer = _at(wire[_at(wire_head[way])])
                            when = end_ns[transfer]
                            joins = shares and flowing[way] and tensor_bytes[tensor_of[transfer]] > 0
                            follows = (latent if joins else wires) + transfer
                            if record and held_ptr[way] < held_ptr[way + 1]:  # else it began when it was asked for
                                if sent_ns[transfer] <= now:
                                    began[starts] = n + transfer
                                    starts += 1
                                else:
                                    size = _rise(key, task, size, sent_ns[transfer], begins + transfer)
                elif what >= begins:
                    began[starts] = n + what - begins
                    starts += 1
                if follows >= 0:
                    _sink(key, task, size, when, follows)
                else:
                    size -= 1
                    _sink(key, task, size, key[size], task[size])
                if not full or what < begins:
                    batch[_at(tasks)] = what
                    tasks += 1
            while shares and sizes[0] > 0 and next_ns[soonest[0]] <= now:
                way = soonest[0]
                _serve(fair, way, now, turn)
                while flow_count[way] > 0 and flow_key[wire_base[way]] <= served_by[way]:
                    batch[tasks] = wires + _leave(fair, wire_base[way], way)
                    tasks += 1
                next_ns[way] = NEVER
                _place(way, 0, soonest, fair.rank, next_ns, sizes[0])
            if executor and tasks > 1:
                _sort(batch, tasks)
            for at in range(tasks):
                what = batch[_at(at)]
                by, woken_from = np.int64(-1), ready
                low, high = np.int64(edges), np.int64(len(told))
                if 0 <= what < n:
                    by, low, high = what, _at(block[what]), _at(local_end[what])
                    for transfer in range(_at(asked_ptr[what]), _at(asked_ptr[what + 1])):
                        valued[_at(values)] = transfer
                        values += 1
                    transfer = np.int64(post_head[what] if pulls else -1)
                    while transfer >= 0:
                        if requesting:
                            due_ns[transfer] = now + request_ns[way_of[transfer]]
                        valued[values] = transfer
                        values += 1
                        transfer = post_next[transfer]
                    if record:
                        ended[ends] = what
                        ends += 1
                elif full and what >= latent:
                    path = way_of[what - latent]
                    _join(fair, wire_base[path], path, what - latent, tensor_bytes[tensor_of[what - latent]], now, turn)
                    continue
                elif full and what >= requests:
                    valued[values] = what - requests
                    values += 1
                    continue
                elif what >= n:
                    transfer = _at(
                        what - wires
                        if not works or what >= wires
                        else what - unpacking
                        if what >= unpacking
                        else what - n
                    )
                    if works and what < unpacking:
                        asking[asks] = transfer
                        asks += 1
                        continue
                    if record and what >= wires:
                        came_ns[transfer] = now
                        ended[ends] = unpacking + transfer
                        ends += 1
                    if works and what >= wires and took_ns[unpacking + transfer] > 0:
                        fresh[news] = unpacking + transfer
                        news += 1
                        continue
                    if record:
                        ended[ends] = n + transfer
                        ends += 1
                    low, high = _at(span_from[transfer]), _at(span_to[transfer])
                if executor and by < 0:
                    served = _launch(
                        np.int64(-1),
                        low,
                        high,
                        told,
                        block,
                        local_end,
                        consumer,
                        places.cpu,
                        instant,
                        threads,
                        device,
                        touched,
                        touched_in,
                        turn,
                        served,
                    )
                chained, done = 0, 0
                while True:
                    for place in range(low, high):
                        op = np.int64(told[_at(place)])
                        if op < 0:
                            edge = ~op
                            op = _at(consumer[edge])
                            if merged[op]:
                                if full and merged[op] == turn:
                                    first[op] = min(first[op], edge)
                                continue
                            merged[op] = turn
                            if full:
                                first[op] = edge
                        waits[op] -= 1
                        if waits[op] == 0:
                            left -= 1
                            if record:
                                ready_ns[op] = now
                            if instant[op]:
                                chain[_at(chained)] = op
                                chained += 1
                            else:
                                woken[_at(ready)] = op
                                ready += 1
                    if done == chained:
                        break
                    op = _at(chain[done])
                    done += 1
                    low, high = _at(block[op]), _at(local_end[op])
                    for transfer in range(_at(asked_ptr[op]), _at(asked_ptr[op + 1])):
                        valued[_at(values)] = transfer
                        values += 1
                    transfer = np.int64(post_head[op] if pulls else -1)
                    while transfer >= 0:
                        if requesting:
                            due_ns[transfer] = now + request_ns[way_of[transfer]]
                        valued[values] = transfer
                        values += 1
                        transfer = post_next[transfer]
                    if record:
                        start_ns[op] = now
                        began[starts], ended[ends] = op, op
                        starts, ends = starts + 1, ends + 1
                if executor:
                    mine = woken_from  # what a thread makes ready on its own device is the thread's, all else is pooled
                    for one in range(woken_from, ready):
                        here = device[woken[one]]
                        if not places.cpu[here]:
                            if threads.unlaunched[woken[one]] > 0:  # else the stream has it already
                                served = _launch(
                                    np.int64(woken[one]),
                                    np.int64(0),
                                    np.int64(0),
                                    told,
                                    block,
                                    local_end,
                                    consumer,
                                    places.cpu,
                                    instant,
                                    threads,
                                    device,
                                    touched,
                                    touched_in,
                                    turn,
                                    served,
                                )
                        elif by >= 0 and here == device[by]:
                            woken[mine] = woken[one]
                            mine += 1
                        else:
                            _append(woken[one], here, threads.pool_head, threads.pool_tail, threads.following)
                            served = _touch(here, touched, touched_in, turn, served)
                    if by >= 0 and places.cpu[device[by]]:
                        here = device[by]
                        lane = lane_ptr[here] + lane_of[by]
                        _schedule(threads, nodes.inexpensive, took_ns, woken, woken_from, mine, here, lane)
                        served = _touch(here, touched, touched_in, turn, served)
            if not (full or pulls):
                asks = values
            for i in range(values if full or pulls else 0):
                transfer = _at(valued[i])
                if pulls:
                    conditions[transfer] -= 1
                    if conditions[transfer] > 0:
                        continue
                    if requesting and due_ns[transfer] > now:
                        size = _rise(key, task, size, due_ns[transfer], requests + transfer)
                        continue
                if record:
                    asked_ns[transfer] = now
                if works and took_ns[n + transfer] > 0:
                    fresh[news] = n + transfer
                    news += 1
                else:
                    asking[asks] = transfer
                    asks += 1
            if asks > 1:
                _sort(asking, asks)
            for i in range(asks):
                transfer = _at(asking[_at(i)])
                way = _at(way_of[transfer])
                begin = now
                for place in range(held_ptr[way], held_ptr[way + 1]):
                    begin = max(begin, free_ns[_at(held_link[_at(place)])])
                end = begin + end_ns[transfer]
                for place in range(held_ptr[way], held_ptr[way + 1]):
                    free_ns[_at(held_link[_at(place)])] = end
                end_ns[transfer] = end
                if record:
                    sent_ns[transfer] = begin
                joins = shares and flowing[way] and tensor_bytes[tensor_of[transfer]] > 0
                if joins and end == now:
                    alone = True
                    _join(fair, wire_base[way], way, transfer, tensor_bytes[tensor_of[transfer]], now, turn)
                else:
                    alone = not in_turn[way] or wire_head[way] == wire_end[way]
                    if in_turn[way]:
                        wire[_at(wire_end[way])] = transfer
                        wire_end[way] += 1
                    if alone:
                        size = _rise(key, task, size, end, (latent if joins else wires) + transfer)
                if record and (alone or held_ptr[way] == held_ptr[way + 1]):
                    if begin > now:
                        size = _rise(key, task, size, begin, begins + transfer)
                    else:
                        began[starts] = n + transfer
                        starts += 1
            if executor:
                if news > 1:
                    _sort(fresh, news)
                for i in range(news):
                    job = fresh[i]
                    here = home[source_of[job - n]] if job < unpacking else home[target_of[job - unpacking]]
                    _append(job, here, threads.pool_head, threads.pool_tail, threads.following)
                    served = _touch(here, touched, touched_in, turn, served)
                for i in range(served):
                    here = touched[i]
                    for lane in range(lane_ptr[here], lane_ptr[here + 1]):
                        follows = _next_job(threads, here, lane) if lane_free[lane] else np.int64(-1)
                        if follows >= 0:
                            lane_free[lane] = False
                            lane_of[follows] = lane - lane_ptr[here]
                            chain[last - brief] = follows
                            brief += 1
            else:
                for i in range(news):
                    woken[ready] = fresh[i]
                    ready += 1
                if ready > 1 and order == PLAIN:
                    _sort(woken, ready)
                for i in range(ready):
                    job = _at(woken[_at(i)])
                    here = _at(
                        device[job]
                        if not works or job < n
                        else home[source_of[job - n]]
                        if job < unpacking
                        else home[target_of[job - unpacking]]
                    )
                    if order == RANKED:
                        place = place_of[job] if job < n else job - wires  # the work of transfers comes before all ops
                        _offer(queue, region[here], queue_end[here] - head[here], place)
                        queue_end[here] += 1
                        served = _touch(here, touched, touched_in, turn, served)
                    elif idle[here] > 0:
                        idle[here] -= 1
                        chain[_at(last - brief)] = job
                        brief += 1
                    else:
                        queue[_at(queue_end[here])] = job
                        queue_end[here] += 1
                for i in range(served):
                    here = touched[i]
                    while idle[here] > 0 and head[here] < queue_end[here]:
                        best = _take(queue, region[here], queue_end[here] - head[here])
                        queue_end[here] -= 1
                        idle[here] -= 1
                        chain[last - brief] = ops[best] if best >= 0 else best + wires
                        brief += 1
            for i in range(brief):
                job = _at(chain[_at(last - i)])
                if bounded and job < n and now + tail[job] > limit:
                    return GIVEN_UP
                if record:
                    start_ns[job] = now
                    if job < n:
                        began[starts] = job
                        starts += 1
                size = _rise(key, task, size, now + took_ns[job], job)
            if record:
                _begin_all(held, memory, device, tensor_bytes, places.handed, way_of, tensor_of, target_of, starts, now)
                _end_all(
                    held,
                    memory,
                    device,
                    consumer,
                    nodes.edge_tensor,
                    told,
                    first,
                    places.handed,
                    way_of,
                    tensor_of,
                    span_from,
                    span_to,
                    asked_ptr,
                    start_ns,
                    len(tensor_bytes),
                    ends,
                    now,
                )
            upcoming = key[0] if size > 0 else np.int64(NEVER)
            if shares:
                if sizes[1] > 0:
                    _settle(fair, shared, wire_base, now, turn)
                if sizes[0] > 0:
                    upcoming = min(upcoming, next_ns[soonest[0]])
            if upcoming == NEVER:
                break
            if upcoming > now:
                if record:
                    _advance(memory.level, memory.peak, memory.freed, memory.begun, memory.brief)
                now = upcoming
                if now > limit:
                    return GIVEN_UP
        if record and left == 0:
            _give_back(held, memory, nodes.edge_tensor, len(tensor_bytes), now)
            _advance(memory.level, memory.peak, memory.freed, memory.begun, memory.brief)
        return now if left == 0 else STUCK

    return _play


_PLAIN_LOOP, _FULL_LOOP = _loop(False), _loop(True)


def _signature() -> object:
    """The one type of `play`, as the fields of `Flat` and `Work` say it."""

    def tuple_of(kind: type, *, readonly: bool) -> object:
        made = [
            tuple_of(element, readonly=readonly)
            if isinstance(element, type)
            else types.Array(from_dtype(element), 2 if name in MATRICES else 1, "C", readonly=readonly)
            for name, element in fields(kind).items()
        ]
        if len(set(made)) == 1:  # numba has a type of its own for these
            return types.NamedUniTuple(made[0], len(made), kind)
        return types.NamedTuple(made, kind)

    flat, work = tuple_of(Flat, readonly=True), tuple_of(Work, readonly=False)
    rows, tail = types.Array(int32, 2, "C", readonly=True), types.Array(int64, 1, "C", readonly=True)
    return void(flat, work, rows, int64, rows, tail, int64, boolean, int64, int64, int64[::1], int64[:, ::1])


def _play_some(
    flat: Flat,
    work: Work,
    devices: Rows,
    order: int,
    ops: Rows,
    tail: Ints,
    limit: int,
    record: bool,
    start: int,
    step: int,
    makespans: Ints,
    peaks: npt.NDArray[np.int64],
) -> None:
    """Runs start, start + step, ... of `devices` [B, n] without Python's lock; see `_loop`.

    `ops` has a row for all runs, or one per run; the order RANKED alone reads it. Fills in `makespans` [B] and, where
    it has rows, `peaks` [B, D]; a record of the last run is in the `Work`.
    """
    waits = flat.places.requests[0] or flat.places.works[0] or len(flat.shared.link) > 0
    plain = not (record or waits or order == EXECUTOR)
    for run in range(start, len(devices), step):
        ranked = ops[min(run, len(ops) - 1)] if order == RANKED else devices[run][:0]
        if plain:
            makespans[run] = _PLAIN_LOOP(flat, work, devices[run], order, ranked, tail, limit, False)
        else:
            makespans[run] = _FULL_LOOP(flat, work, devices[run], order, ranked, tail, limit, record)
        for where in range(peaks.shape[1] if len(peaks) > 0 else 0):
            peaks[run, where] = work.memory.peak[where]


def made(
    function: Callable[..., None],
    signature: object,
    compiler: Callable[..., Callable[..., Callable[..., None]]] = njit,
) -> tuple[Callable[..., None], bool]:
    """The function compiled, now or taken from numba's cache, and whether it is kept there.

    numba keeps it in NUMBA_CACHE_DIR, else beside this file, else in the user's cache; where none can be written it is
    compiled again by every process.
    """
    options = {"nogil": True, "error_model": "numpy", "_nrt": False}
    vectorize, config.LOOP_VECTORIZE = config.LOOP_VECTORIZE, 0  # most lists are of two or three: it costs a tenth more
    try:
        return compiler(signature, cache=True, **options)(function), True
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return compiler(signature, **options)(function), False
    finally:
        config.LOOP_VECTORIZE = vectorize


play, kept = made(_play_some, _signature())


def run(
    tables: Tables,
    device: Column,
    priority: Column | None = None,
    *,
    order: str | None = None,
    contention: str = "serial",
) -> Outcome:
    """The same as `engine.run`, errors included: what the compiled loop refuses it leaves to the specification."""
    column = checked(tables, device)
    chosen = chosen_order(priority, order)
    crossing = crossings(tables, column)
    ops = np.zeros((0, len(column)), np.int32)
    if chosen == "priority" and priority is not None:
        ops = np.argsort(ranks(tables, priority))[None].astype(np.int32)
    makespan = np.zeros(1, np.int64)
    given = (ids(column[None]), CODES[chosen], ids(ops), ints([]))
    with tables.layouts.workspace() as work:
        play(tables.layouts.flat(contention), work, *given, NEVER, True, 0, 1, makespan, np.zeros((0, 0), np.int64))
        if makespan[0] < 0:
            return engine.run(tables, device, priority, order=order, contention=contention)
        return _outcome(tables, column, crossing, work, int(makespan[0]), own_lanes=chosen == "tensorflow")


def _outcome(
    tables: Tables, device: Ids, crossing: Crossings, work: Work, makespan: Nanos, *, own_lanes: bool
) -> Outcome:
    n, edges, transfers = len(tables), len(tables.consumer), len(crossing)

    def of_jobs(column: Column) -> npt.NDArray[np.integer]:  # those that there are; 0 where no protocol has work
        if len(column) == n:
            return np.append(column, np.zeros(2 * transfers, np.int64))
        return np.concatenate([column[:n], column[n : n + transfers], column[n + edges : n + edges + transfers]])

    start_ns = ints(of_jobs(work.record.start_ns))
    took_ns = np.append(work.found.took_ns[:n], [crossing.pack_ns, crossing.unpack_ns])
    played = Played(
        makespan=makespan,
        ready=work.record.ready_ns.tolist(),
        first=work.pending.first.tolist(),
        start=[],
        asked=[],
        sent=work.record.sent_ns[:transfers].tolist(),
        came=work.record.came_ns[:transfers].tolist(),
    )
    lane = ids(of_jobs(work.threads.lane)) if own_lanes else lanes(tables, device, crossing, start_ns)
    asked = ints(work.record.asked_ns[:transfers])
    return outcome(tables, device, crossing, played, start_ns, ints(start_ns + took_ns), asked, lane)
