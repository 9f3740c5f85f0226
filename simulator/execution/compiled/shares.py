"""Flows that share links: `sharing`, found anew only for ways that share links with one whose flows changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.heaps import row
from simulator.execution.compiled.kernel import inner
from simulator.execution.flat import NEVER, Fair, Shared

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
        way = row(part[row(at)])
        at += 1
        share[way] = -1
        capped |= cap[way] > 0
        for place in range(row(link_ptr[way]), row(link_ptr[way + 1])):
            one = row(link[row(place)])
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
            one = row(span[row(at)])
            if open_[one] > 0:
                here = np.int64(np.uint64(left[one]) // np.uint64(open_[one]))  # unsigned: without corrections
                if here < least or (here == least and one < tightest):
                    least, tightest = here, one
        alone = -1
        for at in range(ways if capped else 0):
            way = row(part[row(at)])
            able = count[way] > 0 and share[way] < 0 and 0 < cap[way] <= least
            if able and (alone < 0 or cap[way] < least or way < alone):
                least, alone = cap[way], way
        for place in range(sharer_ptr[tightest] if alone < 0 else 0, sharer_ptr[tightest + 1] if alone < 0 else 1):
            way = row(sharer[place] if alone < 0 else alone)
            if count[way] == 0 or share[way] >= 0:
                continue
            share[way] = least
            waiting -= 1
            for other in range(row(link_ptr[way]), row(link_ptr[way + 1])):
                one = row(link[row(other)])
                left[one] -= least * count[way]
                open_[one] -= count[way]
    for at in range(ways):
        way = part[at]
        if count[way] == 0:
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
    for link in range(len(fair.link_seen)):
        fair.link_seen[link] = 0
    fair.sizes[0], fair.sizes[1] = 0, 0
