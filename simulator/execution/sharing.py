"""Max-min fair sharing of links by the transfers that are on them, in integers.

The model is that of flow-level network simulation (Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2,
progressive filling). No flow's rate can grow without that of one with no larger rate shrinking. Rates are whole bytes
per second, so that work, rate times nanoseconds, is a whole number of nanobytes (10^-9 byte). So 64-bit integers hold
what a transfer of MAX_FLOW_BYTES still has before it. Shares are rounded down and ends up, so a link never carries more
than its rate over any interval. A transfer that is alone takes exactly its bytes at the slowest link, rounded up.

All flows of one route have the same rate and make one class. A class keeps how much each of its flows has been served
since the class was last empty.

Progressive filling fixes rates in a certain order, by rate. Of one rate those of routes at their caps come first, by
route, then those of full links, by link. A route is fixed by its cap or one of its links, whichever comes first in this
order. When a link comes, and whether at all, depends on nothing but which of its own routes were fixed before it, and
at which rates. So rates for which that holds of every route and every link are the result. At the first place in the
order at which another result could differ, all that counts would still be equal.

Hence only the links of routes whose flows began or ended are filled anew, as if all other links came where they came
before. Where that changes the rate of a route, its other links are looked at. Those that fixed rates are filled anew,
too. Those that fixed none still fix none if they could give a byte per second more to each of their flows. Whenever a
rate is fixed, they could then give more to all that wait. This is repeated until no link must be added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution.arrays import INFINITE

if TYPE_CHECKING:
    from simulator.columns import Ids
    from simulator.execution.arrays import Flows, SharedLinks

NANO = 10**9
MAX_FLOW_BYTES = 2**62 // NANO  # 4.6 GB; twice it still fits a signed 64-bit integer
_RECOUNT = 2**61  # service of a class above which it is counted from 0 again, so that 64 bits hold it


def _put(route: int, rank: int, flows: Flows, size: int) -> None:
    """Put a route where it belongs in the heap by the end of their first flow; there is room at `rank`."""
    soonest, rank_of, next_ns = flows.soonest, flows.rank, flows.next_ns
    hole = rank
    while hole > 0 and next_ns[soonest[(hole - 1) >> 1]] > next_ns[route]:
        soonest[hole] = soonest[(hole - 1) >> 1]
        rank_of[soonest[hole]] = hole
        hole = (hole - 1) >> 1
    child = 2 * hole + 1
    while child < size:
        if child + 1 < size and next_ns[soonest[child + 1]] < next_ns[soonest[child]]:
            child += 1
        if next_ns[soonest[child]] >= next_ns[route]:
            break
        soonest[hole] = soonest[child]
        rank_of[soonest[hole]] = hole
        hole = child
        child = 2 * hole + 1
    soonest[hole] = route
    rank_of[route] = hole


def _serve(flows: Flows, route: int, now: int, turn: int) -> None:
    """Count what the flows of a route were served until now; they change in this round."""
    flows.served[route] += flows.rate[route] * (now - flows.since_ns[route])
    flows.since_ns[route] = now
    if flows.seen[route] != turn:
        flows.seen[route] = turn
        flows.changed[flows.sizes[1]] = route
        flows.sizes[1] += 1


def join(flows: Flows, route: int, task: int, nbytes: int, now: int, turn: int) -> None:
    """A flow begins."""
    key, tasks, base, count = flows.key, flows.task, flows.base[route], flows.active[route]
    _serve(flows, route, now, turn)
    if count == 0:
        flows.served[route] = 0
        flows.rate[route] = 0
    elif flows.served[route] > _RECOUNT:
        for at in range(base, base + count):
            key[at] -= flows.served[route]
        flows.served[route] = 0
    hole = count
    end = flows.served[route] + nbytes * NANO
    while hole > 0 and key[base + ((hole - 1) >> 1)] > end:
        above = base + ((hole - 1) >> 1)
        key[base + hole] = key[above]
        tasks[base + hole] = tasks[above]
        hole = (hole - 1) >> 1
    key[base + hole] = end
    tasks[base + hole] = task
    flows.active[route] = count + 1


def _leave(flows: Flows, route: int) -> int:
    """Take the first flow of a route from its heap."""
    key, tasks, base = flows.key, flows.task, flows.base[route]
    found: int = tasks[base]
    size = flows.active[route] - 1
    flows.active[route] = size
    end, task = key[base + size], tasks[base + size]
    hole, child = 0, 1
    while child < size:
        if child + 1 < size and key[base + child + 1] < key[base + child]:
            child += 1
        if key[base + child] >= end:
            break
        key[base + hole] = key[base + child]
        tasks[base + hole] = tasks[base + child]
        hole = child
        child = 2 * hole + 1
    key[base + hole] = end
    tasks[base + hole] = task
    return found


def finish(flows: Flows, now: int, turn: int, ended: Ids, ending: int) -> int:
    """Put the flows that end now behind the tasks that end; how many those are then."""
    sizes, soonest, next_ns = flows.sizes, flows.soonest, flows.next_ns
    while sizes[0] > 0 and next_ns[soonest[0]] <= now:
        route = soonest[0]
        _serve(flows, route, now, turn)
        while flows.active[route] > 0 and flows.key[flows.base[route]] <= flows.served[route]:
            ended[ending] = _leave(flows, route)
            ending += 1
        next_ns[route] = INFINITE
        _put(route, 0, flows, sizes[0])
    return ending


def _add(flows: Flows, link: int, links: int, turn: int) -> int:
    """Have a link filled anew."""
    if flows.link_seen[link] == turn:
        return links
    flows.link_seen[link] = turn
    flows.span[links] = link
    return links + 1


def _count_anew(flows: Flows, shared: SharedLinks, turn: int) -> int:
    """Count the flows on the routes that changed: how many links are in `span` on which there are more or less."""
    count, counted, user, users = flows.active, flows.counted, flows.user, flows.users
    links = 0
    for at in range(flows.sizes[1]):
        route = flows.changed[at]
        more = count[route] - counted[route]
        for place in range(shared.link_ptr[route], shared.link_ptr[route + 1] if more != 0 else 0):
            one = shared.link[place]
            flows.many[one] += more
            flows.load[one] += more * flows.share[route]
            first = shared.user_ptr[one]
            if counted[route] == 0:
                user[first + users[one]] = route
                users[one] += 1
            elif count[route] == 0:
                users[one] -= 1
                hole = first
                while user[hole] != route:
                    hole += 1
                user[hole] = user[first + users[one]]
            links = _add(flows, one, links, turn)
        counted[route] = count[route]
        if count[route] == 0:
            flows.share[route] = 0
    return links


def _limit(flows: Flows, shared: SharedLinks, routes: int, turn: int) -> None:
    """Find how much caps, and links that are not filled anew, let each route have; and where in the order."""
    for at in range(routes):
        route = flows.part[at]
        most, by = INFINITE, 0
        if shared.cap[route] > 0:
            most, by = shared.cap[route], route - len(shared.cap)
        for place in range(shared.link_ptr[route], shared.link_ptr[route + 1]):
            one = shared.link[place]
            level = flows.level[one]
            if flows.link_seen[one] != turn and (level < most or (level == most and one < by)):
                most, by = level, one
        flows.trial[route] = most
        flows.trial_by[route] = by


def _pour(flows: Flows, shared: SharedLinks, links: int) -> None:
    """Fill the links of `span` in the order in which they fix rates.

    `least` is the share that a link can give as far as is known. The more of its routes are fixed before it, the more
    it is. So the first of all has the least, if that is still its share.
    """
    span, least, level, many, user, count = (
        flows.span,
        flows.least,
        flows.level,
        flows.many,
        flows.user,
        flows.active,
    )
    trial, trial_by = flows.trial, flows.trial_by
    for at in range(links):
        one = span[at]
        level[one], least[one] = INFINITE, INFINITE
        if many[one] > 0:
            least[one] = shared.capacity[one] // many[one]
    while links > 0:
        low, one, where = INFINITE, 0, 0
        for at in range(links):
            other = span[at]
            if least[other] < low or (least[other] == low and other < one):
                low, one, where = least[other], other, at
        if low == INFINITE:
            return
        left, waiting, first = shared.capacity[one], 0, shared.user_ptr[one]
        for place in range(first, first + flows.users[one]):
            route = user[place]
            if trial[route] < low or (trial[route] == low and trial_by[route] < one):
                left -= trial[route] * count[route]
            else:
                waiting += count[route]
        if waiting > 0:
            if waiting < many[one]:
                least[one] = left // waiting
                if least[one] > low:
                    continue
            level[one] = low
            for place in range(first, first + flows.users[one]):
                route = user[place]
                if trial[route] > low or (trial[route] == low and trial_by[route] > one):
                    trial[route] = low
                    trial_by[route] = one
        links -= 1  # it is done
        span[where] = span[links]
        span[links] = one


def _reach(flows: Flows, shared: SharedLinks, routes: int, links: int, turn: int) -> int:
    """Take over the rates that were found: how many links are to be filled anew, now that they are known."""
    for at in range(routes):
        route = flows.part[at]
        rate, by = flows.trial[route], flows.trial_by[route]
        if flows.active[route] == 0 or (rate == flows.share[route] and by == flows.share_by[route]):
            continue
        more = (rate - flows.share[route]) * flows.active[route]
        flows.share[route] = rate
        flows.share_by[route] = by
        for place in range(shared.link_ptr[route], shared.link_ptr[route + 1]):
            one = shared.link[place]
            flows.load[one] += more
            if flows.level[one] < INFINITE or flows.load[one] + flows.many[one] > shared.capacity[one]:
                links = _add(flows, one, links, turn)
    return links


def _fill(flows: Flows, shared: SharedLinks, turn: int) -> int:
    """Find the rates after flows began or ended: how many routes are in `part`, the changed ones first."""
    part, span, user, seen = flows.part, flows.span, flows.user, flows.seen
    routes: int = flows.sizes[1]
    links, known = _count_anew(flows, shared, turn), 0
    for at in range(routes):
        part[at] = flows.changed[at]
    while known < links:
        for at in range(known, links):
            one = span[at]
            first = shared.user_ptr[one]
            for place in range(first, first + flows.users[one]):
                route = user[place]
                if seen[route] != turn:
                    seen[route] = turn
                    part[routes] = route
                    routes += 1
        known = links
        _limit(flows, shared, routes, turn)
        _pour(flows, shared, links)
        links = _reach(flows, shared, routes, links, turn)
    return routes


def settle(flows: Flows, shared: SharedLinks, now: int, turn: int) -> int:
    """Give flows that a change reaches their max-min rates: when the first of all flows ends; INFINITE: none does."""
    next_ns, rate, share, sizes = flows.next_ns, flows.rate, flows.share, flows.sizes
    if sizes[1] > 0:
        for at in range(_fill(flows, shared, turn)):
            route = flows.part[at]
            if flows.active[route] == 0:
                if flows.rank[route] >= 0:  # the last of the heap takes its place
                    sizes[0] -= 1
                    rank = flows.rank[route]
                    flows.rank[route] = -1
                    if rank < sizes[0]:
                        _put(flows.soonest[sizes[0]], rank, flows, sizes[0])
            elif at < sizes[1] or share[route] != rate[route]:
                flows.served[route] += rate[route] * (now - flows.since_ns[route])
                flows.since_ns[route] = now
                rate[route] = share[route]
                ahead = flows.key[flows.base[route]] - flows.served[route]
                next_ns[route] = now + (ahead + rate[route] - 1) // rate[route]
                if flows.rank[route] < 0:
                    flows.rank[route] = sizes[0]
                    sizes[0] += 1
                _put(route, flows.rank[route], flows, sizes[0])
        sizes[1] = 0
    return next_ns[flows.soonest[0]] if sizes[0] > 0 else INFINITE
