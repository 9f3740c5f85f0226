"""Heads: how early each op can start at best, on each class of devices; tails are heads of the step turned around.

An op waits for its inputs, each from the class on which it comes first. Besides, of its ancestors some run on its own
device, one after the other, and all others have to send what they made. Nobody can have both: see `_alone`. The bound
is that of Papadimitriou and Yannakakis, "Towards an architecture-independent analysis of parallel algorithms", SIAM
Journal on Computing 19(2), 1990. Here it is for different times of transfers, and heads on several classes.

The functions run over lists as they stand, and over arrays when they are compiled (`compiled`).
"""

from __future__ import annotations

from typing import NamedTuple

from simulator.columns import Ints
from simulator.units import NEVER


class Predecessors(NamedTuple):
    """The ops that each op waits for. Axes: n ops, E edges by the op that waits, K classes, Z sizes of values."""

    order: Ints  # [n] the ops, each after those that it waits for
    first: Ints  # [n+1] first edge of each op
    op: Ints  # [E] for which it waits
    size: Ints  # [E] row of `change_ns`
    gate: Ints  # [E] 1: of these one is enough
    apart_ns: Ints  # [E] on different devices the value takes this at least
    forced_ns: Ints  # [E] and this in any case
    change_ns: Ints  # [Z * K * K] by size, where to, where from
    run_ns: Ints  # [n * K] -1: not there
    lanes: Ints  # [K] of its widest device


class Room(NamedTuple):
    """The working memory of `heads`. Axes: n ops, K classes, M the most ancestors that are looked at."""

    start_ns: Ints  # [n * K] the result
    end_ns: Ints  # [n * K]
    earliest_ns: Ints  # [n] its end on its best class
    shortest_ns: Ints  # [n] its time on its fastest class
    place: Ints  # [n] in the order
    mark: Ints  # [n] the op for which it was met
    remote_ns: Ints  # [n] least time from its end to the start of that op, if it is on another device
    nearby_ns: Ints  # [n] the same in any case
    heap: Ints  # [n] places of ancestors, the last first
    who: Ints  # [M] ancestors by falling arrival
    comes_ns: Ints  # [M] earliest arrival of what they make, if they are on other devices
    begin_ns: Ints  # [M] of those on the same device, by rising head
    work_ns: Ints  # [M]


def _rise(heap: Ints, size: int, place: int) -> int:
    """Add a place to the heap, the largest of which is first: its new size."""
    at = size
    while at > 0 and heap[(at - 1) >> 1] < place:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = place
    return size + 1


def _sink(heap: Ints, size: int) -> None:
    """Put the first of the heap where it belongs."""
    place, at = heap[0], 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and heap[below + 1] > heap[below]:
            below += 1
        if heap[below] <= place:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = place


def _come(waits: Predecessors, room: Room, op: int, classes: int) -> None:
    """Start the op on each class when all its inputs are there, each from its best class."""
    change, start, end = waits.change_ns, room.start_ns, room.end_ns
    mine = op * classes
    for to in range(classes):
        latest, opened = 0, -1
        for edge in range(waits.first[op], waits.first[op + 1]):
            low, way = waits.op[edge] * classes, (waits.size[edge] * classes + to) * classes
            came = NEVER
            for source in range(classes):
                one = end[low + source] + change[way + source]
                if one < came:
                    came = one
            if not waits.gate[edge]:
                if came > latest:
                    latest = came
            elif opened < 0 or came < opened:
                opened = came
        start[mine + to] = max(latest, opened)


def _reach(waits: Predecessors, room: Room, op: int, through: int, size: int) -> int:
    """Meet those for which one op waits, by which another is reached: the new size of the heap.

    An ancestor that is not beside the op has sent something to `through`, or `through` is not beside it either.
    """
    for edge in range(waits.first[through], waits.first[through + 1]):
        if waits.gate[edge]:
            continue
        other, far, near = waits.op[edge], waits.apart_ns[edge], waits.forced_ns[edge]
        if through != op:
            took = room.shortest_ns[through]
            far = min(far + took + room.nearby_ns[through], near + took + room.remote_ns[through])
            near = near + took + room.nearby_ns[through]
        far, near = min(far, NEVER), min(near, NEVER)
        if room.mark[other] != op:
            room.mark[other], room.remote_ns[other], room.nearby_ns[other] = op, far, near
            size = _rise(room.heap, size, room.place[other])
        else:
            if far > room.remote_ns[other]:
                room.remote_ns[other] = far
            if near > room.nearby_ns[other]:
                room.nearby_ns[other] = near
    return size


def _meet(waits: Predecessors, room: Room, op: int, depth: int) -> int:
    """Collect the nearest ancestors by falling arrival: how many there are."""
    size = _reach(waits, room, op, op, 0)
    met = 0
    while size > 0 and met < depth:
        other = waits.order[room.heap[0]]
        size -= 1
        if size > 0:
            room.heap[0] = room.heap[size]
            _sink(room.heap, size)
        comes, at = room.earliest_ns[other] + room.remote_ns[other], met
        while at > 0 and room.comes_ns[at - 1] < comes:
            room.comes_ns[at], room.who[at] = room.comes_ns[at - 1], room.who[at - 1]
            at -= 1
        room.comes_ns[at], room.who[at] = comes, other
        met += 1
        size = _reach(waits, room, op, other, size)
    return met


def _alone(waits: Predecessors, room: Room, row: int, met: int, known: int) -> int:
    """The earliest start of an op on a device of a class, by its ancestors alone, and not before `known`.

    Let the j ancestors whose values would arrive last be on its own device and the next one elsewhere. Then it
    starts when that one's value is there and those j have run. So the least of this over all j is a bound.
    """
    classes, lanes = len(waits.lanes), waits.lanes[row]
    begin, work, least = room.begin_ns, room.work_ns, NEVER
    longest, total, soonest = 0, 0, NEVER
    for count in range(met + 1):
        done = longest
        if count > 0 and lanes == 1:
            end = 0
            for at in range(count):
                end = max(end, begin[at]) + work[at]
            done = max(done, end)
        elif count > 0:
            done = max(done, soonest + total // lanes)
        comes = room.comes_ns[count] if count < met else 0
        least = min(least, max(done, comes))
        if count == met or done >= least or least <= known:
            break
        other = room.who[count]
        length = waits.run_ns[other * classes + row]
        if length < 0:
            break  # it is never on this device
        start = room.start_ns[other * classes + row]
        longest = max(longest, start + length + room.nearby_ns[other])
        total += length
        soonest = min(soonest, start)
        at = count
        while at > 0 and begin[at - 1] > start:
            begin[at], work[at] = begin[at - 1], work[at - 1]
            at -= 1
        begin[at], work[at] = start, length
    return least


def heads(waits: Predecessors, room: Room, depth: int) -> None:
    """Fill in `start_ns`; at most `depth` ancestors of each op are looked at, 0: none."""
    order, first, run = waits.order, waits.first, waits.run_ns
    classes = len(waits.lanes)
    for at in range(len(order)):
        op = order[at]
        room.place[op] = at
        shortest = NEVER
        for row in range(op * classes, op * classes + classes):
            if 0 <= run[row] < shortest:
                shortest = run[row]
        room.shortest_ns[op] = shortest
    for at in range(len(order)):
        op = order[at]
        _come(waits, room, op, classes)
        if depth > 0 and first[op + 1] > first[op]:
            met = _meet(waits, room, op, depth)
            for row in range(classes):
                if run[op * classes + row] >= 0:
                    known = room.start_ns[op * classes + row]
                    room.start_ns[op * classes + row] = max(known, _alone(waits, room, row, met, known))
        least = NEVER
        for row in range(op * classes, op * classes + classes):
            if run[row] >= 0:
                room.end_ns[row] = min(room.start_ns[row] + run[row], NEVER)
                if room.end_ns[row] < least:
                    least = room.end_ns[row]
            else:
                room.end_ns[row] = NEVER
        room.earliest_ns[op] = least
