"""The time that work takes, and busy-time counters per task, device and link.

Events of one instant may be counted in any order: no time passes between them.

A serial link is busy while it is reserved; another one while bytes are on it, not while latencies go by. Without
contention, bytes are on each link of a route for as long as the slowest of them takes, from the same moment on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.training.control.arrays import ACTIVITY, FIRST, LAST, PENDING, SEED, WATCHED
from simulator.training.disturbances.noise import QUANTILES, entry, scaled, stretched
from simulator.training.training import COMPUTING, HANDLING, SENDING, WAITING

if TYPE_CHECKING:
    from simulator.execution.arrays import State, Tasks
    from simulator.training.control.arrays import Control, Counters


def lasting(control: Control, task: int, who: int, number: int, taken: int, now: int) -> int:
    """The duration of work on a task of the cluster that begins now, of a client's step or of an item.

    It is the usual time, longer or shorter by the step's noise, stretched by pauses.
    """
    disturbances = control.rules.disturbances
    if disturbances.noise_of[task] >= 0:
        drawn = entry(control.rules.numbers[SEED], task, who, number)
        taken = scaled(taken, disturbances.noise[disturbances.noise_of[task] * QUANTILES + drawn])
    if disturbances.length_ns[task] > 0:
        phase, period, length = disturbances.phase_ns[task], disturbances.period_ns[task], disturbances.length_ns[task]
        taken = stretched(now, taken, phase, period, length) - now
    return taken


def _turn(counters: Counters, where: int, now: int) -> None:
    """Enter what a task of the cluster has done until now, as it does something else next; of several kinds the
    first counts.
    """
    tasks = len(counters.since_ns)
    for kind in range(WAITING):
        if counters.under_way[kind * tasks + where] > 0:
            counters.task_ns[kind * tasks + where] += now - counters.since_ns[where]
            break
    counters.since_ns[where] = now


def _change(counters: Counters, kind: int, where: int, change: int, now: int) -> None:
    """There is one more, or less, of a kind under way at a task of the cluster."""
    at = kind * len(counters.since_ns) + where
    if counters.under_way[at] == 0 or counters.under_way[at] + change == 0:
        _turn(counters, where, now)
    counters.under_way[at] += change


def _send(control: Control, transfer: int, task: int, change: int, now: int) -> None:
    """There is one transfer more, or less, on the wires."""
    work, counters = control.rules.work, control.counters
    _change(counters, SENDING, work.source[transfer], change, now)
    _change(counters, SENDING, work.target[transfer], change, now)
    activate(control, task, change)


def activate(control: Control, task: int, change: int) -> None:
    """There is one more, or less, under way of the task's client, if crashes or background clients ask for that."""
    if control.rules.numbers[ACTIVITY] == 0:
        return
    owner = control.rules.work.owner[task]
    if owner >= 0:
        control.steps.active[owner] += change
        if not control.rules.clients.background[owner]:
            control.steps.totals[PENDING] += change


def _kind(control: Control, task: int) -> int:
    op_ptr = control.rules.clients.op_ptr
    return COMPUTING if task < op_ptr[len(op_ptr) - 1] else HANDLING


def works(control: Control, task: int, where: int, taken: int, now: int) -> None:
    """A task begins on a device; its whole time counts at once."""
    rules, counters = control.rules, control.counters
    kind = _kind(control, task)
    counters.busy_ns[where] += taken
    if kind == HANDLING:
        counters.message_ns[where] += taken
    _change(counters, kind, rules.task_of[where], 1, now)
    activate(control, task, 1)


def leaves(control: Control, task: int, where: int, now: int) -> None:
    """A task ends on a device."""
    _change(control.counters, _kind(control, task), control.rules.task_of[where], -1, now)
    activate(control, task, -1)


def joins(control: Control, tasks: Tasks, state: State, task: int, now: int) -> bool:
    """A task of a transfer joins a link, or a delay begins; whether `carries` is called when it starts."""
    work, counters = control.rules.work, control.counters
    devices = len(state.idle)
    where = tasks.resource[task]
    if devices <= where < devices + len(state.free_ns):
        counters.reserved_ns[where - devices] += tasks.length[task]
    if work.role[task] & FIRST:
        _send(control, work.transfer[task], task, 1, now)
    return bool(work.role[task] & WATCHED)


def _enter(counters: Counters, link: int, now: int) -> None:
    """Enter the time until now in which flows were on the link; `through_ns` is until when all is entered."""
    if counters.on_link[link] > 0:
        counters.link_ns[link] += max(0, now - counters.through_ns[link])
    counters.through_ns[link] = max(counters.through_ns[link], now)


def carries(control: Control, task: int, now: int) -> None:
    """Bytes of a transfer are on links from now on: of a flow until it ends, else for a time that is known."""
    rules, counters = control.rules, control.counters
    work = rules.work
    if work.role[task] & WATCHED == 0:
        return
    transfer = work.transfer[task]
    route = work.route[transfer]
    for place in range(rules.on_ptr[route], rules.on_ptr[route + 1]):
        link = rules.on[place]
        _enter(counters, link, now)
        if work.flows[transfer]:
            counters.on_link[link] += 1
        else:
            until = now + work.wire_ns[transfer]
            counters.link_ns[link] += max(0, until - counters.through_ns[link])
            counters.through_ns[link] = max(counters.through_ns[link], until)


def arrives(control: Control, task: int, now: int) -> None:
    """The last task of a transfer on the wires ends, if it is one."""
    rules, counters = control.rules, control.counters
    work = rules.work
    if work.role[task] & LAST == 0:
        return
    transfer = work.transfer[task]
    route = work.route[transfer]
    _send(control, transfer, task, -1, now)
    counters.carried[route] += work.nbytes[transfer]
    if work.flows[transfer]:
        for place in range(rules.on_ptr[route], rules.on_ptr[route + 1]):
            _enter(counters, rules.on[place], now)
            counters.on_link[rules.on[place]] -= 1
