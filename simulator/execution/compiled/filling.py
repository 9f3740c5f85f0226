"""Rates of flows that share links: those of `sharing.shares`, found anew only where a change reaches.

Progressive filling fixes rates in a certain order: by rate; of one rate first those of ways at their caps, by way, then
those of full links, by link. A way is fixed by its cap or one of its links, whichever comes first in this order. When a
link comes, and whether at all, depends on nothing but which of its own ways were fixed before it, and at which rates.
So rates for which that holds of every way and every link are the result: at the first place in the order at which
another result could differ, all that counts would still be equal.

Hence only the links of ways whose flows began or ended are filled anew, as if all other links came where they came
before. Of the others on ways whose rate is now another one, those that fixed rates are filled anew, too; those that
fixed none still fix none if they could give a byte per second more to each of their flows, for then, whenever a rate is
fixed, they could give more to all that wait. This is repeated until no link must be added.
"""

from __future__ import annotations

import numpy as np

from simulator.execution.compiled.heaps import row
from simulator.execution.compiled.kernel import inner
from simulator.execution.flat import NEVER
from simulator.execution.flows import Fair, Shared


@inner
def fill(fair: Fair, shared: Shared, turn: int) -> int:
    """Find the rates after flows began or ended: how many ways are in `part`, the changed ones first."""
    part, span, user, seen = fair.part, fair.span, fair.user, fair.seen
    ways, links, known = np.int64(fair.sizes[1]), _count_anew(fair, shared, turn), 0
    for at in range(ways):
        part[at] = fair.changed[at]
    while known < links:
        for at in range(known, links):
            one = row(span[row(at)])
            first = row(shared.user_ptr[one])
            for place in range(first, row(first + fair.users[one])):
                way = row(user[row(place)])
                if seen[way] != turn:
                    seen[way] = turn
                    part[ways] = way
                    ways += 1
        known = links
        _limit(fair, shared, ways, turn)
        _pour(fair, shared, links)
        links = _reach(fair, shared, ways, links, turn)
    found: int = ways
    return found


@inner
def _count_anew(fair: Fair, shared: Shared, turn: int) -> int:
    """Enter how many flows there are now on the ways that changed: how many links are in `span` on which it differs."""
    count, counted, user, users = fair.flows, fair.counted, fair.user, fair.users
    links = 0
    for at in range(fair.sizes[1]):
        way = row(fair.changed[at])
        more = np.int64(count[way] - counted[way])
        for place in range(row(shared.link_ptr[way]), row(shared.link_ptr[way + 1]) if more != 0 else 0):
            one = row(shared.link[row(place)])
            fair.many[one] += more
            fair.load[one] += more * fair.share[way]
            first = row(shared.user_ptr[one])
            if counted[way] == 0:
                user[first + users[one]] = way
                users[one] += 1
            elif count[way] == 0:
                users[one] -= 1
                hole = first
                while user[hole] != way:
                    hole += 1
                user[hole] = user[first + users[one]]
            links = _add(fair, one, links, turn)
        counted[way] = count[way]
        if count[way] == 0:
            fair.share[way] = 0
    return links


@inner
def _add(fair: Fair, link: int, links: int, turn: int) -> int:
    """Have a link filled anew."""
    if fair.link_seen[link] == turn:
        return links
    fair.link_seen[link] = turn
    fair.span[links] = link
    return links + 1


@inner
def _limit(fair: Fair, shared: Shared, ways: int, turn: int) -> None:
    """What caps, and links that are not filled anew, let each way have: where in the order that is."""
    for at in range(ways):
        way = row(fair.part[row(at)])
        most, by = np.int64(NEVER), np.int64(0)
        if shared.cap[way] > 0:
            most, by = shared.cap[way], np.int64(way - len(shared.cap))
        for place in range(row(shared.link_ptr[way]), row(shared.link_ptr[way + 1])):
            one = np.int64(shared.link[place])
            if fair.link_seen[one] != turn and (fair.level[one] < most or (fair.level[one] == most and one < by)):
                most, by = fair.level[one], one
        fair.trial[way], fair.trial_by[way] = most, by


@inner
def _pour(fair: Fair, shared: Shared, links: int) -> None:
    """Fill the links of `span` in the order in which they fix rates.

    `least` is what a link can give as far as is known: the more of its ways are fixed before it the more it is. So the
    first of all has the least, if that is still what it can give.
    """
    span, least, level, many, user, count = fair.span, fair.least, fair.level, fair.many, fair.user, fair.flows
    trial, trial_by = fair.trial, fair.trial_by
    for at in range(links):
        one = row(span[at])
        level[one], least[one] = NEVER, NEVER
        if many[one] > 0:
            least[one] = np.int64(np.uint64(shared.capacity[one]) // np.uint64(many[one]))  # unsigned: no corrections
    while links > 0:
        low, one, where = np.int64(NEVER), np.int64(0), 0
        for at in range(links):
            other = np.int64(span[row(at)])
            if least[other] < low or (least[other] == low and other < one):
                low, one, where = least[other], other, at
        if low == NEVER:
            return
        left, waiting, first = shared.capacity[one], np.int64(0), row(shared.user_ptr[one])
        for place in range(first, row(first + fair.users[one])):
            way = row(user[row(place)])
            if trial[way] < low or (trial[way] == low and trial_by[way] < one):
                left -= trial[way] * count[way]
            else:
                waiting += count[way]
        if waiting > 0:
            if waiting < many[one]:
                least[one] = np.int64(np.uint64(left) // np.uint64(waiting))
                if least[one] > low:
                    continue
            level[one] = low
            for place in range(first, row(first + fair.users[one])):
                way = row(user[row(place)])
                if trial[way] > low or (trial[way] == low and trial_by[way] > one):
                    trial[way], trial_by[way] = low, one
        links -= 1  # it is done
        span[where], span[links] = span[links], span[where]


@inner
def _reach(fair: Fair, shared: Shared, ways: int, links: int, turn: int) -> int:
    """Take over what was found: how many links are to be filled anew, now that these rates are what they are."""
    for at in range(ways):
        way = row(fair.part[row(at)])
        rate, by = fair.trial[way], fair.trial_by[way]
        if fair.flows[way] == 0 or (rate == fair.share[way] and by == fair.share_by[way]):
            continue
        more = (rate - fair.share[way]) * fair.flows[way]
        fair.share[way], fair.share_by[way] = rate, by
        for place in range(row(shared.link_ptr[way]), row(shared.link_ptr[way + 1])):
            one = row(shared.link[row(place)])
            fair.load[one] += more
            if fair.level[one] < NEVER or fair.load[one] + fair.many[one] > shared.capacity[one]:
                links = _add(fair, one, links, turn)
    return links


@inner
def empty_links(fair: Fair) -> None:
    """No flows on any link."""
    for way in range(len(fair.counted)):
        fair.counted[way], fair.share[way] = 0, 0
    for link in range(len(fair.users)):
        fair.users[link], fair.many[link], fair.load[link] = 0, 0, 0
        fair.level[link], fair.link_seen[link] = NEVER, 0
