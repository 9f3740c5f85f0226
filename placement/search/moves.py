"""The walk over placements: its moves, the rule by which they are taken, and where they aim.

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

if TYPE_CHECKING:
    from simulator.execution.layouts import Arena, Laid

# places in `Walk.counts`
TRIED, ACCEPTED, IMPROVED, CURRENT, BEST, BEST_OVER, PLAYED, SPENT, COUNTS = range(9)
ODDS = 1024  # entries of `Walk.odds`
ODD_BITS, HEAT_BITS, OVER_BITS = 12, 8, 20  # of fractions: of `Walk.odds`, of a temperature, of the price of a byte
SPREAD = 48  # bits between the ends of ops of two devices, as `find_critical` reads them
_NEVER = 2**61
_AIMED, _NEAR, _PULLED, _ALIKE, _SWAPPED = 600, 600, 300, 800, 100  # chances of moves, in thousandths
_WHOLE = 550  # a layer moves instead of a stretch
_LONGER = 750  # chance that a stretch is twice as long
_TRUSTED = 750  # of so many moves those are refused with which the step likely ends late
_DOUBT = 6  # late: by more than a 64th of the limit


class Groups(NamedTuple):
    """The groups that can move.

    Axes: M groups, n ops, D devices, P orders, C sizes of layers, A pairs of groups that hand on values.
    """

    first: Ints  # [M+1] first of the group's ops
    ops: Ints  # [n] those of all groups
    allowed: Ints  # [M * D] 1: the group may go there
    resident: Ints  # [M]
    order: Ints  # [P * M] groups
    place: Ints  # [P * M] of each group in each order
    member: Ints  # [C * M] groups, those of a layer side by side
    begin: Ints  # [C * M] where the layer of each group begins in its M members
    until: Ints  # [C * M] and ends
    near_first: Ints  # [M+1]
    near: Ints  # [2 A] groups that hand it values or get some


class Walk(NamedTuple):
    """The state of the walk. Axes: M groups, D devices, C groups on the critical path, some more than once."""

    device: Ints  # [M]
    best: Ints  # [M] the best that was found
    used: Ints  # [D] resident bytes
    capacity: Ints  # [D]
    changed: Ints  # [2 M] by the move that is tried: group, device before
    critical: Ints  # [C]
    until: Ints  # [C] sum of their times on the path so far
    on_path: Ints  # [1] how many there are
    counts: Ints  # [COUNTS]
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
        return below(walk, len(walk.device))
    wanted = (below(walk, 1 << 20) * (walk.until[count - 1] >> 10)) >> 10
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) >> 1
        if walk.until[middle] <= wanted:
            low = middle + 1
        else:
            high = middle
    return walk.critical[low]


def put(groups: Groups, walk: Walk, device: Ids, group: int, target: int) -> None:
    """Set a group, and all its ops, on a device."""
    walk.used[walk.device[group]] -= groups.resident[group]
    walk.used[target] += groups.resident[group]
    walk.device[group] = target
    for at in range(groups.first[group], groups.first[group + 1]):
        device[groups.ops[at]] = target


def move(groups: Groups, walk: Walk, device: Ids) -> int:
    """Move a layer, or a stretch of an order around some group, to another device: how many groups moved.

    Mostly only those move that were on the group's device. At times those of the other device come in their place.
    """
    devices, many = len(walk.capacity), len(walk.device)
    group = _pick(walk)
    here, there = walk.device[group], below(walk, devices)
    low, high = groups.near_first[group], groups.near_first[group + 1]
    if high > low and below(walk, 1000) < _NEAR:
        other = groups.near[low + below(walk, high - low)]
        there = walk.device[other]
        if below(walk, 1000) < _PULLED:  # the neighbour comes here instead
            group, here, there = other, there, here
    if here == there or groups.allowed[group * devices + there] == 0:
        return 0
    whole = below(walk, 1000) < _WHOLE
    if whole:
        order = below(walk, len(groups.member) // many) * many
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
        was = walk.device[one]
        back = swaps and was == there
        target = here if back else there
        if alike and was != here and not back:
            continue
        if was == target or groups.allowed[one * devices + target] == 0:
            continue
        walk.changed[2 * count], walk.changed[2 * count + 1] = one, was
        count += 1
        put(groups, walk, device, one, target)
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


def walk_on(
    laid: Laid,
    own: Arena,
    groups: Groups,
    walk: Walk,
    device: Ids,
    order: int,
    ops: Ids,
    best_ops: Ids,
    ahead: Ahead,
    tight: int,
    heat: int,
    per_byte: int,
    shifting: int,
    steps: int,
) -> None:
    """Try so many moves by Metropolis's rule at one temperature, `heat` in ns with HEAT_BITS of a fraction.

    The loop reads `device` and `ops`, which are written here. Where it is `tight`, memory counts: what a device lacks
    costs `per_byte` ns, with OVER_BITS of a fraction, and what is best is kept by what it lacks first. In `shifting` of
    a thousand moves the order of ops changes instead of a device.
    """
    counts, devices = walk.counts, len(walk.capacity)
    ranked = ops if len(ops) > 0 else device  # device: it is not read
    for _ in range(steps):
        moved, first, last = 0, 0, 0
        if shifting > 0 and below(walk, 1000) < shifting:
            first = below(walk, len(ops))
            last = first + 1 + below(walk, 1 << below(walk, 10))
            if last >= len(ops):
                continue
            if below(walk, 2) == 0:
                first, last = last, first
            shift(ops, first, last)
        else:
            moved = move(groups, walk, device)
            if moved == 0:
                continue
        fits = True
        for where in range(devices):
            if walk.used[where] > walk.capacity[where]:
                fits = False
        limit = counts[CURRENT] + ((heat * walk.odds[below(walk, ODDS)]) >> (ODD_BITS + HEAT_BITS))
        over, value, makespan, short = 0, _NEVER, -1, 0
        if fits or tight:
            counts[TRIED] += 1
            counts[SPENT] += (len(device) + len(ahead.reader)) >> 4
            latest = limit + (limit >> _DOUBT) if below(walk, 1000) < _TRUSTED else _NEVER
            if look_ahead(ahead, device, limit, latest):
                counts[PLAYED] += 1
                if tight:
                    add_up_bytes(ahead, device)
                for where in range(devices if tight else 0):
                    short |= ahead.held_bytes[where] > walk.capacity[where]
                notes = INSTANTS if short else 0
                makespan = play_one(laid, own, device, order, ranked, ahead.tail_ns, limit, notes)
                counts[SPENT] += work_of(len(device), len(ahead.reader), own.found.counts)
            if makespan >= 0:
                value = makespan
                for where in range(devices if short else 0):
                    over += max(own.lives.peak[where] - walk.capacity[where], 0)
                value += (over * per_byte) >> OVER_BITS
        if value <= limit:
            counts[ACCEPTED] += 1
            counts[CURRENT] = value
            if over < counts[BEST_OVER] or (over == counts[BEST_OVER] and makespan < counts[BEST]):
                counts[BEST], counts[BEST_OVER] = makespan, over
                counts[IMPROVED] += 1
                for group in range(len(walk.device)):
                    walk.best[group] = walk.device[group]
                for at in range(len(best_ops)):
                    best_ops[at] = ops[at]
        elif moved == 0:
            shift(ops, last, first)
        else:
            for at in range(moved):
                put(groups, walk, device, walk.changed[2 * at], walk.changed[2 * at + 1])


def find_critical(laid: Laid, own: Arena, device: Ids, by_end: Ints, ends: Ints, group_of: Ints, walk: Walk) -> None:
    """Fill in `critical` after a run, from its last op backwards, with the time of each on the path.

    `by_end` [n] are the ops in order of (device, end), and `ends` [n] their ends, 2**SPREAD apart between devices. A
    transfer counts for the groups at both its ends. `group_of` [n] is the group of each op that can be moved, or -1.
    """
    nodes, places, held, tasks, state, found = laid.nodes, laid.places, laid.held, own.tasks, own.state, own.found
    start, ready, length, resource = state.start_ns, state.ready_ns, tasks.length, tasks.resource
    op, latest = -1, -1
    for one in range(len(device)):
        if start[one] + length[one] > latest:
            op, latest = one, start[one] + length[one]
    count, total = 0, 0
    for _ in range(2 * len(device)):
        if op < 0 or count + 2 > len(walk.critical):
            break
        if group_of[op] >= 0:
            total += start[op] + length[op] - ready[op] + 1
            walk.critical[count], walk.until[count] = group_of[op], total
            count += 1
        before = -1
        if start[op] > ready[op]:  # who had the lane until then
            wanted = (device[op] << SPREAD) + start[op]
            low, high = 0, len(ends)
            while low < high:
                middle = (low + high) >> 1
                if ends[middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            while low < len(ends) and ends[low] == wanted:
                if length[by_end[low]] > 0:
                    before = by_end[low]
                low += 1
        else:
            by, came = -1, -1
            for at in range(held.in_ptr[op], held.in_ptr[op + 1]):
                edge = held.in_edge[at]
                source, transfer = held.tensor_op[nodes.edge_tensor[edge]], found.came_by[edge]
                task = source if transfer < 0 else found.last_of[transfer]
                end = start[task] + length[task]
                if resource[task] >= len(places.lanes) + len(state.free_ns):
                    end = state.end_ns[task]
                elif resource[task] >= len(places.lanes):
                    end += tasks.lag_ns[task]
                if came < end <= ready[op]:
                    before, by, came = source, transfer, end
            if by >= 0 and group_of[before] >= 0:
                total += came - start[before] - length[before] + 1
                walk.critical[count], walk.until[count] = group_of[before], total
                count += 1
        op = before
    walk.on_path[0] = count
