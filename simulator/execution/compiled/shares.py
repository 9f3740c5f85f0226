"""Flows that share links, as in `sharing`: a heap per way of when they end, and a heap of the ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.filling import empty_links, fill
from simulator.execution.compiled.heaps import row
from simulator.execution.compiled.kernel import inner
from simulator.execution.flows import Fair, Shared

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints

_RECOUNT = 2**61  # service of a class above which it is counted from 0 again, so that 64 bits hold it


@inner
def put_way(way: int, rank: int, soonest: Ids, rank_of: Ids, next_ns: Ints, size: int) -> None:
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


@inner
def serve(fair: Fair, way: int, now: int, turn: int) -> None:
    """Count what the flows of a way were served until now; they change in this round."""
    fair.served[way] += fair.rate[way] * (now - fair.since_ns[way])
    fair.since_ns[way] = now
    if fair.seen[way] != turn:
        fair.seen[way] = turn
        fair.changed[fair.sizes[1]] = way
        fair.sizes[1] += 1


@inner
def join(fair: Fair, base: int, way: int, transfer: int, nbytes: int, now: int, turn: int) -> None:
    """A flow begins."""
    key, task, count = fair.key, fair.task, fair.flows[way]
    serve(fair, way, now, turn)
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


@inner
def leave(fair: Fair, base: int, way: int) -> int:
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


@inner
def settle(fair: Fair, shared: Shared, wire_base: Ids, now: int, turn: int) -> None:
    """Give the flows that a change reaches their max-min rates, and find when the first of each way ends."""
    next_ns, rate, share = fair.next_ns, fair.rate, fair.share
    for at in range(fill(fair, shared, turn)):
        way = row(fair.part[row(at)])
        if fair.flows[way] == 0:
            if fair.rank[way] >= 0:  # the last of the heap takes its place
                fair.sizes[0] -= 1
                rank, fair.rank[way] = fair.rank[way], -1
                if rank < fair.sizes[0]:
                    put_way(fair.soonest[fair.sizes[0]], rank, fair.soonest, fair.rank, next_ns, fair.sizes[0])
        elif at < fair.sizes[1] or share[way] != rate[way]:
            fair.served[way] += rate[way] * (now - fair.since_ns[way])
            fair.since_ns[way], rate[way] = now, share[way]
            ahead = fair.key[wire_base[way]] - fair.served[way]
            next_ns[way] = now + (ahead + rate[way] - 1) // rate[way]
            if fair.rank[way] < 0:
                fair.rank[way] = fair.sizes[0]
                fair.sizes[0] += 1
            put_way(way, fair.rank[way], fair.soonest, fair.rank, next_ns, fair.sizes[0])
    fair.sizes[1] = 0


@inner
def clear_flows(fair: Fair) -> None:
    """No flows."""
    for way in range(len(fair.flows)):
        fair.flows[way], fair.rank[way], fair.seen[way] = 0, -1, 0
        fair.served[way], fair.since_ns[way], fair.rate[way] = 0, 0, 0
    empty_links(fair)
    fair.sizes[0], fair.sizes[1] = 0, 0
