"""Whose a task of the loop is, and all that is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.kernel import inner
from simulator.training.compiled.arrays import Clients

if TYPE_CHECKING:
    from simulator.execution.flat import Flat, Work


@inner
def owner_of(clients: Clients, flat: Flat, work: Work, task: int) -> int:
    """The client of an op or of what is done for a transfer."""
    n = len(clients.client_of)
    op = np.int64(task)
    if task >= n:
        op = np.int64(flat.held.tensor_op[work.found.tensor_of[(task - n) % len(flat.nodes.consumer)]])
    owner: int = np.int64(clients.client_of[op])
    return owner


@inner
def _behind(clients: Clients, flat: Flat, work: Work, first: int, end: int, client: int, idle: bool) -> int:
    """How many of the transfers behind the first, counted as in `under_way`."""
    count = 0
    for at in range(first + 1, end):
        owner = owner_of(clients, flat, work, len(clients.client_of) + work.queues.wire[at])
        count += not clients.idle[owner] if idle else owner == client
    return count


@inner
def under_way(clients: Clients, flat: Flat, work: Work, size: int, client: int, idle: bool) -> int:
    """How much is under way, or asked for, of a client or, with `idle`, of all that are no idlers; timers too there.

    In the heap of ends there is of a way in turn the first transfer alone, and the first before each of its links; the
    others are behind it; flows are apart.
    """
    queues, lines, fair, held_ptr = work.queues, work.lines, work.fair, flat.places.held_ptr
    n, edges = len(clients.client_of), len(flat.nodes.consumer)
    count = 0
    for at in range(size):
        task = np.int64(queues.task[at])
        timer = task - (n + 6 * edges)
        if task < n + 5 * edges:
            owner = owner_of(clients, flat, work, task)
            count += not clients.idle[owner] if idle else owner == client
        elif idle and timer >= 0:
            count += timer >= len(clients.idle) or not clients.idle[timer]
    for way in range(len(queues.wire_base)):
        if flat.places.in_turn[way]:
            count += _behind(clients, flat, work, queues.wire_head[way], queues.wire_end[way], client, idle)
            for place in range(held_ptr[way], held_ptr[way + 1] - 1):
                count += _behind(clients, flat, work, lines.head[place], lines.end[place], client, idle)
        for at in range(fair.flows[way] if len(flat.shared.link) > 0 else 0):
            owner = owner_of(clients, flat, work, n + fair.task[queues.wire_base[way] + at])
            count += not clients.idle[owner] if idle else owner == client
    return count
