"""Steps that begin, count and end: the clients' part of `training.director`, over arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.heaps import rise
from simulator.execution.compiled.kernel import inner
from simulator.training.compiled.arrays import (
    ASLEEP,
    AT_SLOWEST,
    BOUND,
    COLUMNS,
    COUNTED,
    DONE,
    GLOBAL_STEP,
    HUNG,
    LIMIT,
    MILESTONE,
    MORE,
    PATIENCE,
    RECORDED,
    SINCE_UPDATE,
    SLOWEST,
    STEPS,
    UPDATES,
    WAITING,
)
from simulator.training.compiled.owners import under_way

if TYPE_CHECKING:
    from simulator.columns import Flags, Ints
    from simulator.execution.flat import Flat, Work
    from simulator.training.compiled.arrays import Steps, Team


@inner
def push(crew: Team, flat: Flat, work: Work, timer: int, when: int, size: int) -> int:
    """Let a timer end then; the new size of the heap."""
    number = len(flat.nodes.waits) + 6 * len(flat.nodes.consumer) + timer
    grown: int = rise(work.queues.key, work.queues.task, size, when, number)
    return grown


@inner
def schedule(crew: Team, flat: Flat, work: Work, client: int, when: int, size: int) -> int:
    """Let the client begin a step then, but not before it is back from a crash."""
    steps = crew.steps
    steps.begin_ns[client] = max(when, steps.back_ns[client])
    grown: int = push(crew, flat, work, client, steps.begin_ns[client], size)
    return grown


@inner
def read(steps: Steps, client: int) -> None:
    """A step reads what it trains."""
    if not steps.has_read[client]:
        steps.base[client], steps.own[client], steps.has_read[client] = steps.totals[GLOBAL_STEP], 0, True


@inner
def count(crew: Team, client: int, now: int) -> None:
    """The client counts an update."""
    rules, lines, steps, _, _ = crew
    totals, takes = steps.totals, lines.takes[client]
    staleness = max(np.int64(0), totals[GLOBAL_STEP] - steps.base[client] - steps.own[client])
    steps.own[client] += 1
    totals[GLOBAL_STEP] += 1
    totals[SINCE_UPDATE] = 0
    at = COLUMNS * totals[UPDATES]
    steps.updates[at], steps.updates[at + 1], steps.updates[at + 2] = now, client, staleness
    steps.updates[at + 3], steps.updates[at + 4] = 1, rules.clients.examples[client]
    if takes > 0:
        steps.updates[at + 3] = lines.gradients[client] // takes
        steps.updates[at + 4] = lines.taken_examples[client] // takes
    totals[UPDATES] += 1
    totals[COUNTED] += 1
    if totals[COUNTED] >= totals[MILESTONE] and steps.progress[4] == 0:
        steps.progress[4] = MORE  # what was done until now is noted
    for crash in range(len(steps.saved)):
        if now <= rules.meets.checkpoint_ns[crash]:
            steps.saved[crash] = totals[GLOBAL_STEP]
    if totals[GLOBAL_STEP] >= rules.numbers[LIMIT]:
        steps.progress[4] = DONE


@inner
def may(crew: Team, client: int) -> bool:
    """Whether its clock lets it begin its next step; if not, it waits."""
    rules, _, steps, _, _ = crew
    bound, totals = rules.numbers[BOUND], steps.totals
    if bound < 0 or not rules.clients.clocked[client] or steps.clock[client] <= totals[SLOWEST] + bound:
        return True
    steps.waiting[totals[WAITING]], steps.waits[client] = client, True
    totals[WAITING] += 1
    return False


@inner
def _follow(crew: Team, flat: Flat, work: Work, client: int, size: int) -> int:
    """Its clock lets it begin its next step, once it knows."""
    rules, _, steps, _, _ = crew
    when, bound = steps.begin_ns[client], rules.numbers[BOUND]
    needed = steps.clock[client] - bound
    if bound >= 0 and needed > 0 and rules.clients.clocked[client]:
        steps.said_ns[needed % len(steps.said_ns)] += 1  # one is told after the other
        when = max(when, steps.said_ns[needed % len(steps.said_ns)] + rules.clients.hear_ns[client])
    grown: int = schedule(crew, flat, work, client, when, size)
    return grown


@inner
def _find_slowest(clocked: Flags, clock: Ints, totals: Ints, known: int) -> None:
    """The slowest clock, not above a known one, and how many show the same."""
    totals[SLOWEST] = known
    for other in range(len(clocked)):
        if clocked[other]:
            totals[SLOWEST] = min(totals[SLOWEST], clock[other])
    for other in range(len(clocked)):
        totals[AT_SLOWEST] += clocked[other] and clock[other] == totals[SLOWEST]


@inner
def _tick(crew: Team, flat: Flat, work: Work, client: int, now: int, size: int) -> int:
    """Its clock goes on; those that wait for the slowest may follow."""
    rules, _, steps, _, _ = crew
    totals, clocked = steps.totals, rules.clients.clocked
    if not clocked[client]:
        return size
    steps.clock[client] += 1
    at = steps.clock[client] % len(steps.said_ns)
    steps.said_ns[at] = max(steps.said_ns[at], now + rules.clients.tell_ns[client])
    if steps.clock[client] - 1 > totals[SLOWEST]:
        return size
    totals[AT_SLOWEST] -= 1
    if totals[AT_SLOWEST] > 0:
        return size
    _find_slowest(clocked, steps.clock, totals, steps.clock[client])
    waited, totals[WAITING] = totals[WAITING], 0
    for row in range(waited):
        other = np.int64(steps.waiting[row])
        steps.waits[other] = False
        if may(crew, other):
            size = _follow(crew, flat, work, other, size)
    return size


@inner
def _note(crew: Team, client: int, now: int) -> None:
    steps, at = crew.steps, COLUMNS * crew.steps.totals[STEPS]
    steps.steps[at], steps.steps[at + 1] = client, steps.number[client]
    steps.steps[at + 2], steps.steps[at + 3] = steps.begin_ns[client], now
    steps.steps[at + 4], steps.steps[at + 5] = crew.lines.waited_ns[client], crew.feeds.waited_ns[client]
    steps.totals[STEPS] += 1


@inner
def end_step(crew: Team, flat: Flat, work: Work, client: int, now: int, size: int) -> int:
    """A step is over; the next may follow."""
    rules, _, steps, _, _ = crew
    totals = steps.totals
    if rules.clients.counts[client]:
        count(crew, client, now)
    _note(crew, client, now)
    if steps.number[client] < rules.numbers[RECORDED] and steps.progress[4] == 0:
        steps.progress[4] = MORE  # its times are taken away before it begins anew
    totals[SINCE_UPDATE] += not rules.clients.idle[client]
    if totals[SINCE_UPDATE] > rules.numbers[PATIENCE] and steps.progress[4] != DONE:
        steps.progress[4] = HUNG
    steps.running[client] = False
    steps.begin_ns[client] = now + rules.clients.gap_ns[client]
    size = _tick(crew, flat, work, client, now, size)
    if rules.clients.idle[client] and under_way(rules.clients, flat, work, size, client, True) == 0:
        steps.asleep[totals[ASLEEP]], steps.sleeps[client] = client, True
        totals[ASLEEP] += 1
    elif may(crew, client):
        size = _follow(crew, flat, work, client, size)
    return size
