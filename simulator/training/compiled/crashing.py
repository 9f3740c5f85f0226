"""What is left of steps that were cut short, as `crashing` has it; and what of them waits for lanes is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.heaps import offer
from simulator.execution.compiled.kernel import inner
from simulator.execution.compiled.threads import append
from simulator.execution.flat import EXECUTOR, RANKED
from simulator.training.compiled.arrays import DYING, GONE, Clients
from simulator.training.compiled.owners import owner_of, under_way

if TYPE_CHECKING:
    from simulator.columns import Ids
    from simulator.execution.flat import Flat, Threads, Work
    from simulator.training.compiled.arrays import Team


@inner
def runs_out(crew: Team, flat: Flat, work: Work, task: int, now: int) -> bool:
    """Whether what ends is left of a step that was cut short; then it tells nobody."""
    rules, _, steps, _, _ = crew
    if steps.totals[DYING] == 0 or task >= len(rules.clients.client_of) + 4 * len(flat.nodes.consumer):
        return False  # it goes on: a flow whose latency is over, or a transfer to its next link; and ends later
    client = owner_of(rules.clients, flat, work, task)
    if steps.remains[client] == 0:
        return False
    steps.remains[client] -= 1
    if steps.remains[client] == 0:
        steps.totals[DYING] -= 1
        steps.begin_ns[client] = max(now, steps.back_ns[client])
        steps.gone[steps.totals[GONE]] = client
        steps.totals[GONE] += 1
    return True


@inner
def cut_short(crew: Team, flat: Flat, work: Work, ops: Ids, size: int, order: int, client: int) -> bool:
    """Forget what waits of its step and count what is left; whether there is anything."""
    rules, _, steps, _, _ = crew
    if order == EXECUTOR:
        _forget_threads(rules.clients, flat, work, work.threads, client)
    else:
        _forget_queues(rules.clients, flat, work, ops, order, client)
    steps.remains[client] = under_way(rules.clients, flat, work, size, client, False)
    steps.totals[DYING] += steps.remains[client] > 0
    left: bool = steps.remains[client] > 0
    return left


@inner
def _forget_queues(clients: Clients, flat: Flat, work: Work, ops: Ids, order: int, client: int) -> None:
    queues, wires = work.queues, len(clients.client_of) + 2 * len(flat.nodes.consumer)
    for here in range(len(queues.region)):
        kept = 0
        for at in range(queues.head[here], queues.end[here]):
            entry = queues.queue[at]
            job = np.int64(entry)
            if order == RANKED:
                job = np.int64(ops[entry]) if entry >= 0 else np.int64(entry) + wires
            if owner_of(clients, flat, work, job) == client:
                continue
            if order == RANKED:
                offer(queues.queue, queues.head[here], kept, entry)
            else:
                queues.queue[queues.head[here] + kept] = entry
            kept += 1
        queues.end[here] = queues.head[here] + kept


@inner
def _forget_threads(clients: Clients, flat: Flat, work: Work, threads: Threads, client: int) -> None:
    for at in range(len(threads.pool_head)):
        _forget_list(clients, flat, work, threads.pool_head, threads.pool_tail, threads.following, at, client)
        _forget_list(clients, flat, work, threads.message_head, threads.message_tail, threads.following, at, client)
    for at in range(len(threads.own_head)):
        _forget_list(clients, flat, work, threads.own_head, threads.own_tail, threads.following, at, client)


@inner
def _forget_list(
    clients: Clients, flat: Flat, work: Work, head: Ids, tail: Ids, following: Ids, at: int, client: int
) -> None:
    job = np.int64(head[at])
    head[at] = -1
    while job >= 0:
        follows = np.int64(following[job])
        if owner_of(clients, flat, work, job) != client:
            append(job, at, head, tail, following)
        job = follows
