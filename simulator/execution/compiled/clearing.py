"""What a run needs clear before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.kernel import inner
from simulator.execution.flat import Nodes, Pending, Places, Queues

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
        free_ns[link] = 0
    for op in range(len(waits)):
        waits[op] = needs[op]
    for op in range(len(waits) if nodes.merges[0] else 0):
        merged[op] = 0
    for op in range(len(waits) if full else 0):
        first[op] = -1


@inner
def divide(base: Ids, head: Ids, end: Ids) -> None:
    """Lengths in `end` become regions of a queue, with nothing in them."""
    at = np.int64(0)
    for row in range(len(end)):
        base[row], head[row] = at, at
        at += end[row]
        end[row] = head[row]


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
