"""Lines before serial links, of ways that have several: where a transfer stands, and how it goes on.

All that is known of a line in advance is when its link is free, which is all that a transfer that joins it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.heaps import rise, row
from simulator.execution.compiled.kernel import inner
from simulator.execution.compiled.transfers import bytes_ns, place_of
from simulator.execution.flat import SAFE_BYTES, Flat, Lines, Places, Queues, Work

if TYPE_CHECKING:
    from simulator.columns import Ids


@inner
def clear_lines(places: Places, queues: Queues, lines: Lines, transfers: int) -> None:
    """Nobody waits."""
    for way in range(len(queues.wire_base)):
        for place in range(places.held_ptr[way], places.held_ptr[way + 1]):
            lines.head[place], lines.end[place] = queues.wire_base[way], queues.wire_base[way]
    for transfer in range(transfers):
        lines.joined[transfer] = 0


@inner
def leave_line(places: Places, wire: Ids, lines: Lines, transfer: int, way: int) -> int:
    """The link before which a transfer waits begins: who takes its place in the heap, -1: nobody.

    It joins the line of its next link in this round.
    """
    follows: int = np.int64(-1)
    if places.in_turn[way]:
        place = row(places.held_ptr[way] + lines.joined[transfer] - 1)
        lines.head[place] += 1
        if lines.head[place] < lines.end[place]:
            follows = np.int64(wire[lines.head[place]])
    return follows


@inner
def join_lines(
    flat: Flat,
    work: Work,
    transfer: int,
    way: int,
    wire_ns: int,
    now: int,
    size: int,
    goes_on: int,
    noting: bool,
) -> tuple[int, int, int]:
    """Join the line of the next link and, as long as that begins at once, of the one after it.

    When the first link begins, -1: it began earlier; when its bytes are through all of them, -1: it is not known yet;
    and the size of the heap, where a task that goes on has the number `goes_on` plus its transfer's. Transfers that go
    on in this round may change their places: each writes itself where it stands, and all have done so when the round
    ends.
    """
    places, queues, lines = flat.places, work.queues, work.lines
    free_ns, wire, head, end = queues.free_ns, queues.wire, lines.head, lines.end
    first, last = row(places.held_ptr[way]), row(places.held_ptr[way + 1] - 1)
    place = row(first + lines.joined[transfer])
    sent, in_turn, even = np.int64(-1), places.in_turn[way], places.even[way]
    through, taken = now + wire_ns, wire_ns
    if place > first:
        through = lines.through_ns[transfer]
    if in_turn and place == first:
        room = np.int64(queues.wire_base[way + 1] if way + 1 < len(queues.wire_base) else len(wire))
        if end[first] == room:
            _shift_lines(queues, lines, way, first, last)
    while True:
        link = row(places.held[place])
        begin = max(now, free_ns[link])
        if not even:
            taken = _own_ns(flat, work.found.tensor_of[transfer], link, place, way, wire_ns)
        free_ns[link] = begin + taken
        queues.promised_ns[link] += taken
        if place == first:
            sent, through = begin, begin + wire_ns
        elif noting:
            lines.begun_ns[(place - first - 1) * len(lines.joined) + transfer] = begin
        through = max(through, begin + taken)
        if place == last:
            lines.joined[transfer] = 0
            return sent, through, size
        if in_turn:
            wire[end[place]] = transfer
            end[place] += 1
        if begin > now:
            break
        if in_turn:
            head[place] += 1
        place += 1
    lines.joined[transfer], lines.onward_ns[transfer], lines.through_ns[transfer] = place - first + 1, begin, through
    if not in_turn or head[place] + 1 == end[place]:
        size = rise(queues.key, queues.task, size, begin, goes_on + transfer)
    return sent, np.int64(-1), size


@inner
def _own_ns(flat: Flat, tensor: int, link: int, place: int, way: int, wire_ns: int) -> int:
    """How long a link is held for a tensor; `wire_ns` is what the slowest of the way takes."""
    places, nbytes = flat.places, flat.nodes.tensor_bytes[tensor]
    rate = flat.shared.capacity[link]
    if rate == places.bytes_per_s[way]:
        return wire_ns
    if nbytes <= SAFE_BYTES:
        taken: int = bytes_ns(nbytes, rate)
        return taken
    return places.big_held_ns[place_of(places.big, tensor), place]  # type: ignore[no-any-return]


@inner
def _shift_lines(queues: Queues, lines: Lines, way: int, first: int, last: int) -> None:
    """Move all transfers of a way that are under way to the beginning of its region."""
    by = queues.wire_head[way] - queues.wire_base[way]
    for at in range(queues.wire_head[way], lines.end[first]):
        queues.wire[at - by] = queues.wire[at]
    queues.wire_head[way] -= by
    queues.wire_end[way] -= by
    for place in range(first, last):
        lines.head[place] -= by
        lines.end[place] -= by
