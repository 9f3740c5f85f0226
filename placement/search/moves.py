"""The walk over placements: its moves, and the rule by which they are taken.

These functions are plain Python over arrays and are compiled with the event loop (`compiled`), so that a move and its
simulation cost no Python. All numbers are whole: chances are drawn in thousandths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from placement.search.ahead import Ahead, add_up_bytes, look_ahead, work_of
from simulator.columns import Ids, Ints
from simulator.execution.arrays import INSTANTS
from simulator.execution.compiled.engine import play_one
from simulator.units import NEVER

if TYPE_CHECKING:
    from simulator.execution.layouts import Arena, FlatTables

# places in `Walk.counts`
TRIED, ACCEPTED, IMPROVED, CURRENT, BEST, BEST_OVER, BEST_WORK, SPENT, COUNTS = range(9)
ORDER, TIGHT, HEAT, PER_BYTE, SHIFTING, WHOLE, SIZES, RULES = range(8)  # places in `Walk.rules`
ODDS = 1024  # entries of `Walk.odds`
ODD_BITS, HEAT_BITS, OVER_BITS = 12, 8, 20  # of fractions: of `Walk.odds`, of a temperature, of the price of a byte
_AIMED, _NEAR, _PULLED, _ALIKE, _SWAPPED = 600, 600, 300, 800, 100  # chances of moves, in thousandths
_LONGER = 750  # chance that a stretch is twice as long
_TRUSTED = 750  # of so many moves those are refused with which the step likely ends late
_DOUBT = 6  # late: by more than a 64th of the limit


class Groups(NamedTuple):
    """The groups that can move.

    Axes: M groups, n ops, D devices, S sets of devices, P orders, C sizes of layers, A pairs of groups that hand on
    values.
    """

    first: Ints  # [M+1] first of the group's ops
    ops: Ints  # [n] those of all groups
    among: Ints  # [M] the set of devices to which the group may go
    allowed: Ints  # [S * D] 1: the device is in the set
    choice_first: Ints  # [S+1] where the devices of a set begin in `choice`
    choice: Ints  # the devices of each set
    resident: Ints  # [M]
    order: Ints  # [P * M] groups
    place: Ints  # [P * M] of each group in each order
    member: Ints  # [C * M] groups, those of a layer side by side
    begin: Ints  # [C * M] where the layer of each group begins in its M members
    until: Ints  # [C * M] and ends
    near_first: Ints  # [M+1]
    near: Ints  # [2 A] groups that hand it values or get some


class Walk(NamedTuple):
    """The state of the walk, and what it goes by.

    Axes: n ops, M groups, D devices, C groups on the critical path, some more than once.
    """

    device: Ids  # [n] as the loop reads it
    ops: Ids  # [n] in order of priority; empty where the order is another
    best_ops: Ids  # [n] of the best that was found
    chosen: Ints  # [M] device
    best: Ints  # [M] the best that was found
    used: Ints  # [D] resident bytes
    capacity: Ints  # [D]
    changed: Ints  # [2 M] by the move that is tried: group, device before
    critical: Ints  # [C]
    until: Ints  # [C] sum of their times on the path so far
    on_path: Ints  # [1] how many there are
    counts: Ints  # [COUNTS]
    rules: Ints  # [RULES] HEAT is a temperature in ns, with HEAT_BITS; PER_BYTE is in ns, with OVER_BITS; of a thousand
    # moves SHIFTING change the order, and of as many others WHOLE set a layer of one of the first SIZES elsewhere
    random: Ints  # [1] state of the generator
    odds: Ints  # [ODDS] how much slower a move may make the step, in temperatures, each equally likely


def below(walk: Walk, count: int) -> int:
    """A number from 0 on, below one of at most 2**31: xorshift, Marsaglia 2003."""
    state = np.uint64(walk.random[0])
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    walk.random[0] = np.int64(state)
    return (np.int64(state >> np.uint64(33)) * count) >> 31


def _pick(walk: Walk) -> int:
    """A group: from the critical path, in proportion to its time there, or any."""
    count = walk.on_path[0]
    if count == 0 or below(walk, 1000) >= _AIMED:
        return below(walk, len(walk.chosen))
    wanted = (below(walk, 1 << 20) * (walk.until[count - 1] >> 10)) >> 10
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) >> 1
        if walk.until[middle] <= wanted:
            low = middle + 1
        else:
            high = middle
    return walk.critical[low]


def put(groups: Groups, walk: Walk, group: int, target: int) -> None:
    """Set a group, and all its ops, on a device."""
    walk.used[walk.chosen[group]] -= groups.resident[group]
    walk.used[target] += groups.resident[group]
    walk.chosen[group] = target
    for at in range(groups.first[group], groups.first[group + 1]):
        walk.device[groups.ops[at]] = target


def move(groups: Groups, walk: Walk) -> int:
    """Move a layer, or a stretch of an order around some group, to another device: how many groups moved.

    Mostly only those move that were on the group's device. At times those of the other device come in their place.
    """
    devices, many = len(walk.capacity), len(walk.chosen)
    group = _pick(walk)
    low, high = groups.choice_first[groups.among[group]], groups.choice_first[groups.among[group] + 1]
    here, there = walk.chosen[group], groups.choice[low + below(walk, high - low)]
    low, high = groups.near_first[group], groups.near_first[group + 1]
    if high > low and below(walk, 1000) < _NEAR:
        other = groups.near[low + below(walk, high - low)]
        there = walk.chosen[other]
        if below(walk, 1000) < _PULLED:  # the neighbour comes here instead
            group, here, there = other, there, here
    if here == there or groups.allowed[groups.among[group] * devices + there] == 0:
        return 0
    whole = below(walk, 1000) < walk.rules[WHOLE]
    if whole:
        order = below(walk, min(walk.rules[SIZES], len(groups.member) // many)) * many
        begin, until = groups.begin[order + group], groups.until[order + group]
    else:
        order = below(walk, len(groups.order) // many) * many
        longest = 1
        while longest * 2 <= many and below(walk, 1000) < _LONGER:
            longest *= 2
        begin = groups.place[order + group] - below(walk, longest)
        until = min(begin + longest, many)
        begin = max(begin, 0)
    alike = until - begin == 1 or below(walk, 1000) < _ALIKE
    swaps = until - begin > 1 and below(walk, 1000) < _SWAPPED
    count = 0
    for at in range(begin, until):
        one = groups.member[order + at] if whole else groups.order[order + at]
        was = walk.chosen[one]
        back = swaps and was == there
        target = here if back else there
        if alike and was != here and not back:
            continue
        if was == target or groups.allowed[groups.among[one] * devices + target] == 0:
            continue
        walk.changed[2 * count], walk.changed[2 * count + 1] = one, was
        count += 1
        put(groups, walk, one, target)
    return count


def shift(ops: Ids, first: int, last: int) -> None:
    """Move one op in the order; the same call with its places swapped moves it back."""
    held = ops[first]
    at = first
    while at != last:
        after = at + 1 if first < last else at - 1
        ops[at] = ops[after]
        at = after
    ops[last] = held


def change(walk: Walk, groups: Groups) -> tuple[int, int, int]:
    """Change the placement, or the order of ops: how many groups moved, else from where to where an op was shifted."""
    shifting = walk.rules[SHIFTING]
    if shifting == 0 or below(walk, 1000) >= shifting:
        return move(groups, walk), 0, 0
    first = below(walk, len(walk.ops))
    last = first + 1 + below(walk, 1 << below(walk, 10))
    if last >= len(walk.ops):
        return 0, 0, 0
    if below(walk, 2) == 0:
        first, last = last, first
    shift(walk.ops, first, last)
    return 0, first, last


def change_back(walk: Walk, groups: Groups, moved: int, first: int, last: int) -> None:
    """Undo what `change` did."""
    if moved == 0:
        shift(walk.ops, last, first)
    for at in range(moved):
        put(groups, walk, walk.changed[2 * at], walk.changed[2 * at + 1])


def judge(laid: FlatTables, own: Arena, walk: Walk, ahead: Ahead, limit: int) -> tuple[int, int, int]:
    """Simulate the placement: what it costs in ns, its makespan, and the bytes that it lacks.

    A step that passes the limit costs `NEVER`. Where it is TIGHT, memory counts: what a device lacks costs PER_BYTE.
    Else a placement must fit.
    """
    counts, rules, device, tight = walk.counts, walk.rules, walk.device, walk.rules[TIGHT] > 0
    devices, short = len(walk.capacity), 0
    for where in range(devices):
        short |= walk.used[where] > walk.capacity[where]
    if short and not tight:
        return NEVER, -1, 0
    counts[TRIED] += 1
    counts[SPENT] += (len(device) + len(ahead.reader)) >> 4
    latest = limit + (limit >> _DOUBT) if below(walk, 1000) < _TRUSTED else NEVER
    if not look_ahead(ahead, device, limit, latest):
        return NEVER, -1, 0
    if tight:
        add_up_bytes(ahead, device)
    short = 0
    for where in range(devices if tight else 0):
        short |= ahead.held_bytes[where] > walk.capacity[where]
    ranked = walk.ops if len(walk.ops) > 0 else device  # device: it is not read
    makespan = play_one(laid, own, device, rules[ORDER], ranked, ahead.rest_ns, limit, INSTANTS if short else 0)
    counts[SPENT] += work_of(len(device), len(ahead.reader), own.found.counts)
    if makespan < 0:
        return NEVER, -1, 0
    over = 0
    for where in range(devices if short else 0):
        over += max(own.lives.peak[where] - walk.capacity[where], 0)
    return makespan + ((over * rules[PER_BYTE]) >> OVER_BITS), makespan, over


def keep(walk: Walk) -> None:
    """Keep the placement and its order as the best."""
    walk.counts[IMPROVED] += 1
    for group in range(len(walk.chosen)):
        walk.best[group] = walk.chosen[group]
    for at in range(len(walk.ops)):
        walk.best_ops[at] = walk.ops[at]


def walk_on(laid: FlatTables, own: Arena, walk: Walk, groups: Groups, ahead: Ahead, steps: int) -> None:
    """Try so many moves by Metropolis's rule at one temperature. The best is kept: by what it lacks, time and work."""
    counts = walk.counts
    for _ in range(steps):
        moved, first, last = change(walk, groups)
        if moved == 0 and first == last:
            continue
        limit = counts[CURRENT] + ((walk.rules[HEAT] * walk.odds[below(walk, ODDS)]) >> (ODD_BITS + HEAT_BITS))
        value, makespan, over = judge(laid, own, walk, ahead, limit)
        if value > limit:
            change_back(walk, groups, moved, first, last)
            continue
        counts[ACCEPTED] += 1
        counts[CURRENT] = value
        work_ns = own.found.work_ns[0]
        as_quick = over == counts[BEST_OVER] and makespan == counts[BEST]
        quicker = over < counts[BEST_OVER] or (over == counts[BEST_OVER] and makespan < counts[BEST])
        if quicker or (as_quick and work_ns < counts[BEST_WORK]):
            counts[BEST], counts[BEST_OVER], counts[BEST_WORK] = makespan, over, work_ns
            keep(walk)
