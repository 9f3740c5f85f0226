"""The beginning of a step: its client's rows as if nothing had happened yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution.compiled.kernel import inner
from simulator.execution.flat import EXECUTOR
from simulator.training.compiled.arrays import GLOBAL_STEP
from simulator.training.compiled.lines import initialise, may_wait

if TYPE_CHECKING:
    from simulator.execution.flat import Flat, Work
    from simulator.training.compiled.arrays import Team


@inner
def arm(crew: Team, flat: Flat, work: Work, client: int, now: int, order: int) -> None:
    """A client begins a step."""
    rules, lines, steps, _, feeds = crew
    first, after = rules.clients.op_ptr[client], rules.clients.op_ptr[client + 1]
    _rows(flat, work, first, after, now, order)
    for mark in range(rules.clients.mark_ptr[client], rules.clients.mark_ptr[client + 1]):
        if may_wait(rules.marks.kind[mark]) or steps.at_ready[mark]:
            op = rules.marks.op[mark]
            steps.armed[mark], steps.instants[op] = True, True
            if order == EXECUTOR:
                work.threads.at_once[op] = True
                work.threads.unlaunched[op] += 1  # a stream gets it when it is let go
    steps.running[client] = True
    steps.number[client] += 1
    steps.base[client], steps.own[client], steps.has_read[client] = steps.totals[GLOBAL_STEP], 0, False
    lines.takes[client], lines.gradients[client] = 0, 0
    lines.taken_examples[client], lines.waited_ns[client] = 0, 0
    feeds.waited_ns[client] = 0
    if rules.clients.own_step[client] or steps.restarted[client]:
        lines.local_step[client] = steps.totals[GLOBAL_STEP]
    if steps.restarted[client] and rules.clients.chief[client]:
        initialise(crew)
    steps.restarted[client] = False


@inner
def _rows(flat: Flat, work: Work, first: int, after: int, now: int, order: int) -> None:
    nodes, places, found, pending, threads = flat.nodes, flat.places, work.found, work.pending, work.threads
    for op in range(first, after):
        pending.waits[op] = nodes.waits[op]
    for op in range(first, after if nodes.merges[0] else first):
        pending.merged[op] = 0
    for op in range(first, after if order == EXECUTOR else first):
        threads.unlaunched[op], threads.merged[op] = nodes.waits[op], False
    if not places.pulls[0]:
        return
    for transfer in range(found.asked_ptr[first], found.asked_ptr[after]):
        pending.conditions[transfer] = 1 if nodes.post[found.tensor_of[transfer]] < 0 else 2
        if places.requests[0]:
            pending.due_ns[transfer] = now + places.request_ns[found.way_of[transfer]]
