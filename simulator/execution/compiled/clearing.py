"""What a run needs clear before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.kernel import inner
from simulator.execution.compiled.lines import clear_lines
from simulator.execution.compiled.memory import hand_in, resident
from simulator.execution.compiled.shares import clear_flows
from simulator.execution.compiled.threads import clear_threads
from simulator.execution.compiled.transfers import find
from simulator.execution.flat import EXECUTOR, Flat, Nodes, Pending, Places, Queues, Work

if TYPE_CHECKING:
    from simulator.columns import Ids


@inner
def clear(nodes: Nodes, places: Places, queues: Queues, pending: Pending, full: bool) -> None:
    """Clear what a run needs clear."""
    waits, needs, merged, first, lanes = pending.waits, nodes.waits, pending.merged, pending.first, places.lanes
    idle, end, wire_end, free_ns = queues.idle, queues.end, queues.wire_end, queues.free_ns
    for where in range(len(idle)):
        idle[where] = lanes[where]
        end[where] = 0
    for way in range(len(wire_end)):
        wire_end[way] = 0
    for link in range(len(free_ns)):
        free_ns[link], queues.promised_ns[link] = 0, 0
    for op in range(len(waits)):
        waits[op] = needs[op]
    for op in range(len(waits) if nodes.merges[0] else 0):
        merged[op] = 0
    for op in range(len(waits) if full else 0):
        first[op] = -1


@inner
def divide(base: Ids, head: Ids, end: Ids, times: int) -> None:
    """Lengths in `end`, each so many times, become regions of a queue, with nothing in them."""
    at = np.int64(0)
    for row in range(len(end)):
        base[row], head[row] = at, at
        at += times * end[row]
        end[row] = head[row]


@inner
def shift_down(queue: Ids, base: Ids, head: Ids, end: Ids, at: int) -> None:
    """Move what waits to the beginning of its region; half of that was passed, so that it costs little for each."""
    count = end[at] - head[at]
    for place in range(count):
        queue[base[at] + place] = queue[head[at] + place]
    head[at], end[at] = base[at], base[at] + count


@inner
def conditions_of(post: Ids, tensor_of: Ids, pending: Pending, transfers: int) -> None:
    """What each transfer waits for, and which Recvs each op posts."""
    conditions, post_head, post_next = pending.conditions, pending.post_head, pending.post_next
    for op in range(len(post_head)):
        post_head[op] = -1
    for transfer in range(transfers - 1, -1, -1):  # so that each op has its own in order
        poster = post[tensor_of[transfer]]
        conditions[transfer] = 1 if poster < 0 else 2
        if poster >= 0:
            post_next[transfer], post_head[poster] = post_head[poster], transfer


@inner
def set_up(flat: Flat, work: Work, device: Ids, order: int, ops: Ids, full: bool, directed: bool, record: bool) -> int:
    """Find the transfers and clear what a run needs clear; how many there are, or REFUSED.

    Queues have twice the room where steps follow each other: `shift_down`.
    """
    nodes, places, shared, held = flat
    found, queues, lines, pending, in_round, noted, fair, threads, memory = work
    clear(nodes, places, queues, pending, full)
    transfers = find(nodes, places, found, queues, in_round.asking, memory.came_by, device, full, record)
    if transfers < 0:
        return transfers
    divide(queues.region, queues.head, queues.end, 1 + directed)
    divide(queues.wire_base, queues.wire_head, queues.wire_end, 1 + directed)
    if places.several[0]:
        clear_lines(places, queues, lines, transfers)
    for position in range(len(ops)):
        queues.place[ops[position]] = position
    for where in range(len(in_round.touched_in)):
        in_round.touched_in[where] = 0
    if places.pulls[0]:
        conditions_of(nodes.post, found.tensor_of, pending, transfers)
    for transfer in range(transfers if full and places.requests[0] else 0):
        pending.due_ns[transfer] = places.request_ns[found.way_of[transfer]]
    if full and len(shared.link) > 0:
        clear_flows(fair)
    if full and order == EXECUTOR:
        clear_threads(threads, nodes, places.cpu, device)
    if record:
        resident(nodes, places, held, memory, device, transfers)
        hand_in(held, memory, device, nodes.tensor_bytes)
        for job in range(len(noted.start_ns)):
            noted.start_ns[job] = 0
        for op in range(len(device)):
            noted.ready_ns[op] = -1
    return transfers
