"""What the compiled loop asks of a crew's director: `training.director`, over arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.execution.compiled.heaps import sort
from simulator.execution.compiled.kernel import inner
from simulator.execution.compiled.loop import Direction
from simulator.execution.flat import EXECUTOR
from simulator.training.compiled import feeding
from simulator.training.compiled import lines as gates
from simulator.training.compiled.arming import arm
from simulator.training.compiled.arrays import (
    ASLEEP,
    COLUMNS,
    CRASHING,
    GLOBAL_STEP,
    GONE,
    MORE,
    ROUNDS,
    STEPS,
    TOUCHED,
    UPDATES,
    WOKEN,
)
from simulator.training.compiled.crashing import cut_short, runs_out
from simulator.training.compiled.lengths import length_of
from simulator.training.compiled.owners import owner_of
from simulator.training.compiled.stepping import count, end_step, push, read, schedule
from simulator.training.compiled.sums import arrives, carries, is_watched, job_ends, sends, works
from simulator.training.crew.combining import COUNT, DRAW, READ

if TYPE_CHECKING:
    from typing import Any

    from simulator.columns import Ids
    from simulator.execution.flat import Flat, Work
    from simulator.training.compiled.arrays import Team


@inner
def _state(crew: Team) -> Any:  # Any: a tuple of arrays
    rules, _, steps, _, _ = crew
    room = (steps.until_ns, steps.queue_room, steps.wire_room)
    return rules.clients.mark_of, steps.armed, steps.acted, steps.asked, *room, steps.progress, steps.instants


@inner
def _room(base: Ids, room: Ids, size: int) -> None:
    """Where each region of a queue ends."""
    for at in range(len(base)):
        room[at] = base[at + 1] if at + 1 < len(base) else size


@inner
def _first_timers(crew: Team, flat: Flat, work: Work) -> int:
    rules = crew.rules
    clients, size = len(rules.clients.gap_ns), np.int64(0)
    for client in range(clients):
        size = schedule(crew, flat, work, client, rules.clients.start_ns[client], size)
    for crash in range(len(rules.meets.crash_at_ns)):
        timer = clients + len(rules.marks.op) + crash
        size = push(crew, flat, work, timer, rules.meets.crash_at_ns[crash], size)
    grown: int = size
    return grown


@inner
def _begin(crew: Team, flat: Flat, work: Work, order: int) -> int:
    """Lay out what the run needs; let the first steps begin."""
    rules, _, steps, _, _ = crew
    marks, clients, queues = rules.marks, len(rules.clients.gap_ns), work.queues
    for op in range(len(steps.instants)):
        steps.instants[op] = flat.nodes.instant[op]
    instants = work.threads.at_once if order == EXECUTOR else steps.instants
    roots = len(flat.nodes.consumer) + len(flat.nodes.roots)
    for mark in range(len(marks.op)):
        op = marks.op[mark]
        steps.at_ready[mark] = instants[op]
        work.found.told[roots + mark] = op
    for client in range(clients):
        instants[rules.clients.op_ptr[client + 1] - 1] = True
        steps.armed[len(marks.op) + client] = True
    _room(queues.region, steps.queue_room, len(queues.queue))
    _room(queues.wire_base, steps.wire_room, len(queues.wire))
    gates.initialise(crew)
    feeding.begin(crew)
    grown: int = _first_timers(crew, flat, work)
    return grown


@inner
def _told(crew: Team, flat: Flat, work: Work, timer: int, now: int, order: int) -> tuple[int, int]:
    """A timer has ended: where those who are told are; (-1, -1): nobody is."""
    rules, _, steps, _, _ = crew
    clients, marks, edges = len(rules.clients.gap_ns), len(rules.marks.op), len(flat.nodes.consumer)
    nobody = (np.int64(-1), np.int64(-1))
    if timer >= clients + marks:
        steps.crashing[steps.totals[CRASHING]] = timer - clients - marks
        steps.totals[CRASHING] += 1
        return nobody
    if timer >= clients:
        if steps.going_on_ns[timer - clients] != now:
            return nobody  # its step was cut short
        steps.going_on_ns[timer - clients] = -1
        place = np.int64(edges + len(flat.nodes.roots) + timer - clients)
        return place, place + 1
    if steps.running[timer] or steps.remains[timer] > 0 or now != steps.begin_ns[timer]:
        return nobody  # it was put off
    arm(crew, flat, work, timer, now, order)
    root_ptr = rules.clients.root_ptr
    return np.int64(edges + root_ptr[timer]), np.int64(edges + root_ptr[timer + 1])


@inner
def _job_begins(crew: Team, flat: Flat, work: Work, job: int, here: int, taken: int, now: int) -> None:
    rules, _, steps, sums, _ = crew
    works(rules, sums, job, here, taken, now)
    if steps.totals[ASLEEP] > 0 and not rules.clients.idle[owner_of(rules.clients, flat, work, job)]:
        steps.totals[WOKEN] = 1


@inner
def _acts(crew: Team, mark: int, now: int) -> None:
    """A marked op that is no gate has ended."""
    if crew.rules.marks.kind[mark] == COUNT:
        count(crew, crew.rules.marks.client[mark], now)
    elif crew.rules.marks.kind[mark] == READ:
        read(crew.steps, crew.rules.marks.client[mark])
    elif not gates.may_wait(crew.rules.marks.kind[mark]):
        gates.applies(crew, mark)


@inner
def _go_on(crew: Team, flat: Flat, work: Work, mark: int, when: int, order: int, size: int) -> int:
    """A marked op waits no longer then: it is told by a timer, and is then as any other."""
    rules, _, steps, _, _ = crew
    op = rules.marks.op[mark]
    if order == EXECUTOR:
        work.threads.at_once[op] = steps.at_ready[mark]
    steps.instants[op], steps.armed[mark] = steps.at_ready[mark], False
    work.pending.waits[op] = 1
    steps.going_on_ns[mark] = when
    grown: int = push(crew, flat, work, len(rules.clients.gap_ns) + mark, when, size)
    return grown


@inner
def _cut_short(crew: Team, flat: Flat, work: Work, ops: Ids, client: int, now: int, order: int, size: int) -> int:
    """A client stops in the midst of its step."""
    rules, _, steps, _, _ = crew
    steps.running[client], steps.at_end[client] = False, False
    gates.forget(crew, client)
    for mark in range(rules.clients.mark_ptr[client], rules.clients.mark_ptr[client + 1]):
        steps.going_on_ns[mark] = -1
    crew.feeds.until_ns[client] = now
    steps.begin_ns[client] = now
    if not cut_short(crew, flat, work, ops, size, order, client):
        size = schedule(crew, flat, work, client, now, size)
    return size


@inner
def _crash(crew: Team, flat: Flat, work: Work, ops: Ids, crash: int, now: int, order: int, size: int) -> int:
    """A task dies: its clients are cut short, updates since its checkpoint are lost."""
    rules, _, steps, _, _ = crew
    meets, totals = rules.meets, steps.totals
    if meets.checkpoint_ns[crash] >= 0:
        steps.lost[crash] = totals[GLOBAL_STEP] - steps.saved[crash]
        totals[GLOBAL_STEP] = steps.saved[crash]
    for at in range(meets.hit_ptr[crash], meets.hit_ptr[crash + 1]):
        client = np.int64(meets.hit[at])
        steps.back_ns[client] = max(steps.back_ns[client], now + meets.away_ns[crash])
        steps.restarted[client] = True
        if steps.running[client]:
            steps.cut_number[at], steps.cut_start_ns[at] = steps.number[client], steps.begin_ns[client]
            size = _cut_short(crew, flat, work, ops, client, now, order, size)
        elif not (steps.remains[client] > 0 or steps.waits[client] or steps.sleeps[client]):
            size = schedule(crew, flat, work, client, steps.begin_ns[client], size)
    feeding.restart(crew, meets.crash_task[crash], now + meets.away_ns[crash])
    if meets.restores[crash]:
        gates.restore(crew, meets.crash_task[crash])
    return size


@inner
def _wake(crew: Team, flat: Flat, work: Work, now: int, size: int) -> int:
    """Clients of which all remains are gone, and idlers as somebody's work begins, go on."""
    steps = crew.steps
    for at in range(steps.totals[GONE]):
        client = np.int64(steps.gone[at])
        size = push(crew, flat, work, client, steps.begin_ns[client], size)
    steps.totals[GONE] = 0
    if steps.totals[WOKEN] > 0:
        for at in range(steps.totals[ASLEEP]):
            client = np.int64(steps.asleep[at])
            steps.sleeps[client] = False
            size = schedule(crew, flat, work, client, max(now, steps.begin_ns[client]), size)
        steps.totals[ASLEEP], steps.totals[WOKEN] = 0, 0
    return size


@inner
def _act(crew: Team, flat: Flat, work: Work, ops: Ids, size: int, now: int, order: int, acted: int, asked: int) -> int:
    """A round is over, in which marked ops ended (`acted`) and were ready (`asked`): the new size of the heap."""
    rules, lines, steps, _, _ = crew
    totals, marks, clients = steps.totals, len(rules.marks.op), len(rules.clients.gap_ns)
    size = _wake(crew, flat, work, now, size)
    totals[ROUNDS] -= 1
    if totals[ROUNDS] <= 0 and steps.progress[4] == 0:
        steps.progress[4] = MORE
    if acted == 0 and asked == 0 and totals[CRASHING] == 0 and totals[TOUCHED] == 0:
        return size
    sort(steps.acted, acted)
    for at in range(acted):
        _acts(crew, steps.acted[at], now)
    sort(steps.asked, asked)
    ends = np.int64(0)
    for at in range(asked):
        mark = steps.asked[at]
        if mark >= marks:
            steps.ends[ends] = mark - marks
            ends += 1
        elif gates.is_gate(rules.marks.kind[mark]):
            gates.asks(crew, mark, now)
        elif rules.marks.kind[mark] == DRAW:
            client, shared = rules.marks.client[mark], rules.marks.shared[mark]
            when = feeding.take(crew, shared, client, rules.marks.amount[mark], now)
            size = _go_on(crew, flat, work, mark, when, order, size)
        else:
            _acts(crew, mark, now)
            size = _go_on(crew, flat, work, mark, now, order, size)
    for at in range(gates.let_go(crew, now)):
        mark = lines.found[at]
        client = rules.marks.client[mark]
        if gates.is_gate(rules.marks.kind[mark]):
            size = _go_on(crew, flat, work, mark, now, order, size)
        elif steps.at_end[client] and lines.adding[client] == 0:
            steps.at_end[client] = False
            steps.ends[ends] = client
            ends += 1
    for at in range(ends):
        client = np.int64(steps.ends[at])
        steps.at_end[client] = lines.adding[client] > 0
        if not steps.at_end[client]:
            size = end_step(crew, flat, work, client, now, size)
    sort(steps.crashing, totals[CRASHING])
    for at in range(totals[CRASHING]):
        size = _crash(crew, flat, work, ops, steps.crashing[at], now, order, size)
    totals[CRASHING] = 0
    most = len(steps.steps) // COLUMNS - clients - marks
    if steps.progress[4] == 0 and (totals[STEPS] > most or totals[UPDATES] > most):
        steps.progress[4] = MORE
    return size


DIRECTION = Direction(
    state=_state,
    begin=_begin,
    told=_told,
    runs_out=runs_out,
    length_of=length_of,
    job_begins=_job_begins,
    job_ends=job_ends,
    sends=sends,
    is_watched=is_watched,
    carries=carries,
    arrives=arrives,
    act=_act,
)
