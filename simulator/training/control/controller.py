"""The controller of a training: the clients' steps, one after the other, on the event loop.

A client's step begins with a timer, at which its tasks are reset, and ends with its END. Synchronisation ops act at
the end of the round of an instant in which they ended or became ready. First those that ended act, in order of number.
Then blocking ops join the waiting ops of their resources, in order of number. Then accumulators and queues release the
ops that they can, which go on in the next round of the same instant. Last, steps end.

Timers are tasks of the loop: the beginnings of the clients' steps, then synchronisation ops that go on, then crashes.
An op that draws from an input goes on when its elements are there, which is known as soon as it asks.

When a task of the cluster dies, each client with an op or its session there stops. Tasks that have begun, transfers on
the wires and requests run out and notify nobody; tasks that wait are dropped. Once nothing of the step is left, and the
task is back, the client begins a new step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution.arrays import ASKS, AT_ONCE, EXECUTOR, FIFO
from simulator.execution.event_loop import Hooks, meld
from simulator.execution.event_queue import events_of, push, sort
from simulator.execution.executor import append
from simulator.training.control.arrays import (
    ACTED,
    ASLEEP,
    COLUMNS,
    COUNTED,
    CRASHING,
    DONE,
    DYING,
    EVENTS,
    GLOBAL_STEP,
    GONE,
    HUNG,
    LAST,
    LIMIT,
    MORE,
    NEXT_SAMPLE,
    PATIENCE,
    PENDING,
    RECORDED,
    ROUNDS,
    SINCE_UPDATE,
    STEPS,
    SYNC_OP,
    TIMERS,
    TOUCHED,
    UPDATES,
    WHY,
    WOKEN,
)
from simulator.training.control.clocks import WAITERS, advance, knows_ns, may_begin
from simulator.training.control.counters import activate, arrives, carries, lasting, leaves
from simulator.training.control.counters import joins as counts_joining
from simulator.training.control.counters import works as counts_work
from simulator.training.control.synchronisation import (
    begin_inputs,
    blocks,
    cancel,
    deliver,
    initialise,
    may_block,
    release,
    request,
    restart_inputs,
    restore,
    take_input,
)
from simulator.training.recognition.sync_ops import COUNT, DRAW, READ

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.execution.arrays import State, Tasks, Threads
    from simulator.training.control.arrays import Control


def _asked_of(control: Control) -> tuple[Ints, Ints]:
    return control.steps.asked, control.steps.progress


# --- timers --------------------------------------------------------------------------------------------------


def _start_timer(control: Control, state: State, timer: int, when: int) -> None:
    """Let a timer end then."""
    progress, task = control.steps.progress, control.rules.numbers[TIMERS] + timer
    owner = control.rules.work.owner[task]
    if owner < 0 or not control.rules.clients.background[owner]:
        control.steps.totals[PENDING] += 1
    progress[EVENTS] = push(events_of(state), progress[EVENTS], when, task)


def _schedule(control: Control, state: State, client: int, when: int) -> None:
    """Let the client begin a step then, but not before it is back from a crash."""
    steps = control.steps
    steps.begin_ns[client] = max(when, steps.back_ns[client])
    _start_timer(control, state, client, steps.begin_ns[client])


def _begin(control: Control, state: State) -> int:
    """Let the first steps begin; the size of the event queue."""
    rules, clients = control.rules, len(control.rules.clients.gap_ns)
    initialise(control)
    begin_inputs(control)
    for client in range(clients):
        _schedule(control, state, client, rules.clients.start_ns[client])
    for crash in range(len(rules.disturbances.crash_at_ns)):
        timer = clients + len(rules.sync_ops.op) + crash
        _start_timer(control, state, timer, rules.disturbances.crash_at_ns[crash])
    size: int = control.steps.progress[EVENTS]
    return size


def _reset(control: Control, tasks: Tasks, state: State, threads: Threads, client: int, now: int, order: int) -> None:
    """Reset a client's tasks at the start of a step."""
    rules, sync, steps = control.rules, control.sync, control.steps
    clients, work, sync_ops = rules.clients, rules.work, rules.sync_ops
    for op in range(clients.op_ptr[client], clients.op_ptr[client + 1]):
        state.needs[op] = work.needs[op]
        state.merged[op] = 0
        if order == EXECUTOR:
            threads.unlaunched[op] = work.needs[op]
            threads.merged[op] = 0
    for place in range(work.own_ptr[client], work.own_ptr[client + 1]):
        task = work.own[place]
        state.needs[task] = work.needs[task]
        if work.request_ns[task] > 0:
            tasks.release_ns[task] = now + work.request_ns[task]
    for sync_op in range(clients.sync_op_ptr[client], clients.sync_op_ptr[client + 1]):
        if may_block(sync_ops.kind[sync_op]) or work.resource_of[sync_op] == AT_ONCE:
            tasks.resource[sync_ops.op[sync_op]] = ASKS
            if order == EXECUTOR:
                threads.unlaunched[sync_ops.op[sync_op]] += 1  # a stream gets it when it goes on
    steps.running[client] = True
    steps.number[client] += 1
    steps.base[client] = steps.totals[GLOBAL_STEP]
    steps.own[client] = 0
    steps.has_read[client] = False
    sync.takes[client] = 0
    sync.gradients[client] = 0
    sync.taken_examples[client] = 0
    sync.waited_ns[client] = 0
    control.input_state.waited_ns[client] = 0
    if clients.own_step[client] or steps.restarted[client]:
        sync.local_step[client] = steps.totals[GLOBAL_STEP]
    if steps.restarted[client] and clients.chief[client]:
        initialise(control)
    steps.restarted[client] = False


def _timer_ends(
    control: Control, tasks: Tasks, state: State, threads: Threads, task: int, now: int, order: int
) -> bool:
    """A timer has ended; whether its successors are not notified."""
    rules, steps = control.rules, control.steps
    clients, sync_ops = len(rules.clients.gap_ns), len(rules.sync_ops.op)
    owner = rules.work.owner[task]
    if owner < 0 or not rules.clients.background[owner]:
        steps.totals[PENDING] -= 1
    timer = task - rules.numbers[TIMERS]
    if timer >= clients + sync_ops:
        steps.crashing[steps.totals[CRASHING]] = timer - clients - sync_ops
        steps.totals[CRASHING] += 1
        return True
    if timer >= clients:
        if steps.going_on_ns[timer - clients] != now:
            return True  # its step was cut short
        steps.going_on_ns[timer - clients] = -1
        return False
    if steps.running[timer] or steps.remains[timer] > 0 or now != steps.begin_ns[timer]:
        return True  # it was put off
    _reset(control, tasks, state, threads, timer, now, order)
    return False


# --- what the loop reports -------------------------------------------------------------------------------------


def _runs_out(control: Control, task: int, now: int) -> bool:
    """Count down what is left of a step that was cut short; whether there was any."""
    steps = control.steps
    if steps.totals[DYING] == 0:
        return False
    client = control.rules.work.owner[task]
    if client < 0 or steps.remains[client] == 0:
        return False
    steps.remains[client] -= 1
    if steps.remains[client] == 0:
        steps.totals[DYING] -= 1
        steps.begin_ns[client] = max(now, steps.back_ns[client])
        steps.gone[steps.totals[GONE]] = client
        steps.totals[GONE] += 1
    return True


def _ended(control: Control, tasks: Tasks, state: State, threads: Threads, task: int, now: int, order: int) -> bool:
    """A task has ended; whether its successors are not notified."""
    work = control.rules.work
    if task >= control.rules.numbers[TIMERS]:
        ignored: bool = _timer_ends(control, tasks, state, threads, task, now, order)
        return ignored
    where = tasks.resource[task]
    if 0 <= where < len(state.idle):
        leaves(control, task, where, now)
    elif work.role[task] & LAST:
        arrives(control, task, now)
    else:
        return False
    if _runs_out(control, task, now):
        return True
    if work.role[task] & SYNC_OP:
        control.steps.acted[control.steps.totals[ACTED]] = work.sync_op_of[task]
        control.steps.totals[ACTED] += 1
    return False


def _awaits(control: Control, task: int) -> None:
    """A task is to be released."""
    activate(control, task, 1)


def _released(control: Control, task: int, now: int) -> bool:
    """A task is released; whether it is left of a step that was cut short."""
    activate(control, task, -1)
    dropped: bool = _runs_out(control, task, now)
    return dropped


def _works(control: Control, tasks: Tasks, task: int, where: int, now: int) -> int:
    """A task starts on a device; its duration."""
    rules, steps = control.rules, control.steps
    taken: int = tasks.length[task]
    if len(control.counters.took_ns) > 0:
        owner = rules.work.owner[task]
        taken = lasting(control, rules.task_of[where], owner, steps.number[owner], taken, now)
        control.counters.took_ns[task] = taken
    counts_work(control, task, where, taken, now)
    if steps.totals[ASLEEP] > 0 and not rules.clients.background[rules.work.owner[task]]:
        steps.totals[WOKEN] = 1
    return taken


# --- steps -----------------------------------------------------------------------------------------------------


def _count(control: Control, client: int, now: int) -> None:
    """The client counts an update."""
    rules, sync, steps = control.rules, control.sync, control.steps
    totals, takes = steps.totals, sync.takes[client]
    staleness = max(0, totals[GLOBAL_STEP] - steps.base[client] - steps.own[client])
    steps.own[client] += 1
    totals[GLOBAL_STEP] += 1
    totals[SINCE_UPDATE] = 0
    at = COLUMNS * totals[UPDATES]
    steps.updates[at], steps.updates[at + 1], steps.updates[at + 2] = now, client, staleness
    steps.updates[at + 3], steps.updates[at + 4] = (
        rules.clients.gradients[client],
        rules.clients.examples[client],
    )
    if takes > 0:
        steps.updates[at + 3] = sync.gradients[client] // takes
        steps.updates[at + 4] = sync.taken_examples[client] // takes
    totals[UPDATES] += 1
    totals[COUNTED] += 1
    if totals[COUNTED] >= totals[NEXT_SAMPLE] and steps.progress[WHY] == 0:
        steps.progress[WHY] = MORE  # what was done until now is noted
    for crash in range(len(steps.saved)):
        if now <= rules.disturbances.checkpoint_ns[crash]:
            steps.saved[crash] = totals[GLOBAL_STEP]
    if totals[GLOBAL_STEP] >= totals[LIMIT]:
        steps.progress[WHY] = DONE


def _begin_next(control: Control, state: State, client: int) -> None:
    """Let a client that may begin its next step do so once it knows."""
    when = knows_ns(control.rules.clocks, control.clocks, client, control.steps.begin_ns[client])
    _schedule(control, state, client, when)


def _ask_again(control: Control, state: State) -> None:
    """The slowest clock has gone on: those that waited for it begin, or wait again."""
    rules, clocks = control.rules.clocks, control.clocks
    waiters = clocks.totals[WAITERS]
    clocks.totals[WAITERS] = 0
    for row in range(waiters):
        client = clocks.waiting[row]
        clocks.waits[client] = False
        if may_begin(rules, clocks, client):
            _begin_next(control, state, client)


def _end_step(control: Control, state: State, client: int, now: int) -> None:
    """A step is over; the next may follow."""
    rules, steps = control.rules, control.steps
    totals = steps.totals
    if rules.clients.counts[client]:
        _count(control, client, now)
    at = COLUMNS * totals[STEPS]
    steps.steps[at], steps.steps[at + 1] = client, steps.number[client]
    steps.steps[at + 2], steps.steps[at + 3] = steps.begin_ns[client], now
    steps.steps[at + 4], steps.steps[at + 5] = control.sync.waited_ns[client], control.input_state.waited_ns[client]
    totals[STEPS] += 1
    if steps.number[client] < rules.numbers[RECORDED] and steps.progress[WHY] == 0:
        steps.progress[WHY] = MORE  # its times are taken away before it begins anew
    totals[SINCE_UPDATE] += not rules.clients.background[client]
    if totals[SINCE_UPDATE] > rules.numbers[PATIENCE] and steps.progress[WHY] != DONE:
        steps.progress[WHY] = HUNG
    steps.running[client] = False
    steps.begin_ns[client] = now + rules.clients.gap_ns[client]
    if advance(rules.clocks, control.clocks, client, now):
        _ask_again(control, state)
    if rules.clients.background[client] and totals[PENDING] == 0:
        steps.asleep[totals[ASLEEP]] = client
        steps.sleeps[client] = True
        totals[ASLEEP] += 1
    elif may_begin(rules.clocks, control.clocks, client):
        _begin_next(control, state, client)


# --- crashes ---------------------------------------------------------------------------------------------------


def _keep_others(control: Control, client: int, at: int, head: Ids, last: Ids, behind: Ids) -> None:
    """Drop a client's tasks from a queue."""
    task = head[at]
    head[at] = -1
    while task >= 0:
        follows = behind[task]
        if control.rules.work.owner[task] != client:
            append(task, at, head, last, behind)
        task = follows


def _keep_others_ranked(control: Control, tasks: Tasks, state: State, client: int, at: int) -> None:
    """Drop a client's tasks from a heap: it is taken to pieces, and those of others are put in again."""
    stack, size = state.fresh, 0
    if state.head[at] >= 0:
        stack[0] = state.head[at]
        size = 1
    state.head[at] = -1
    while size > 0:
        size -= 1
        task = stack[size]
        for below in (state.behind[task], state.beside[task]):
            if below >= 0:
                stack[size] = below
                size += 1
        if control.rules.work.owner[task] != client:
            state.behind[task] = -1
            state.beside[task] = -1
            state.head[at] = meld(state.head[at], task, state.behind, state.beside, tasks.rank)


def _drop_waiting(control: Control, tasks: Tasks, state: State, threads: Threads, client: int, order: int) -> None:
    """Drop what waits for lanes of a client's step."""
    if order == EXECUTOR:
        for at in range(len(threads.pool_head)):
            _keep_others(control, client, at, threads.pool_head, threads.pool_last, state.behind)
            _keep_others(control, client, at, threads.message_head, threads.message_last, state.behind)
        for at in range(len(threads.own_head)):
            _keep_others(control, client, at, threads.own_head, threads.own_last, state.behind)
    else:
        for at in range(len(state.head)):
            if order == FIFO:
                _keep_others(control, client, at, state.head, state.last, state.behind)
            else:
                _keep_others_ranked(control, tasks, state, client, at)


def _cut_short(
    control: Control, tasks: Tasks, state: State, threads: Threads, client: int, now: int, order: int
) -> None:
    """A client stops in the midst of its step."""
    steps, clients = control.steps, control.rules.clients
    steps.running[client] = False
    steps.at_end[client] = False
    cancel(control, client)
    for sync_op in range(clients.sync_op_ptr[client], clients.sync_op_ptr[client + 1]):
        steps.going_on_ns[sync_op] = -1
    control.input_state.until_ns[client] = now
    steps.begin_ns[client] = now
    _drop_waiting(control, tasks, state, threads, client, order)
    steps.remains[client] = steps.active[client]
    if steps.remains[client] > 0:
        steps.totals[DYING] += 1
    else:
        _schedule(control, state, client, now)


def _crash(control: Control, tasks: Tasks, state: State, threads: Threads, number: int, now: int, order: int) -> None:
    """A task of the cluster dies: its clients are cut short, updates since its checkpoint are lost."""
    steps, disturbances = control.steps, control.rules.disturbances
    totals = steps.totals
    if disturbances.checkpoint_ns[number] >= 0:
        steps.lost[number] = totals[GLOBAL_STEP] - steps.saved[number]
        totals[GLOBAL_STEP] = steps.saved[number]
    for at in range(disturbances.hit_ptr[number], disturbances.hit_ptr[number + 1]):
        client = disturbances.hit[at]
        steps.back_ns[client] = max(steps.back_ns[client], now + disturbances.away_ns[number])
        steps.restarted[client] = True
        if steps.running[client]:
            steps.cut_number[at] = steps.number[client]
            steps.cut_start_ns[at] = steps.begin_ns[client]
            _cut_short(control, tasks, state, threads, client, now, order)
        elif not (steps.remains[client] > 0 or control.clocks.waits[client] or steps.sleeps[client]):
            _schedule(control, state, client, steps.begin_ns[client])
    restart_inputs(control, disturbances.crash_task[number], now + disturbances.away_ns[number])
    if disturbances.restores[number]:
        restore(control, disturbances.crash_task[number])


# --- the end of a round ----------------------------------------------------------------------------------------


def _acts(control: Control, sync_op: int, now: int) -> None:
    """A synchronisation op that waits for nothing has ended."""
    steps, sync_ops = control.steps, control.rules.sync_ops
    kind, client = sync_ops.kind[sync_op], sync_ops.client[sync_op]
    if kind == COUNT:
        _count(control, client, now)
    elif kind == READ:
        if not steps.has_read[client]:
            steps.base[client] = steps.totals[GLOBAL_STEP]
            steps.own[client] = 0
            steps.has_read[client] = True
    elif not may_block(kind):
        deliver(control, sync_op)


def _go_on(control: Control, tasks: Tasks, state: State, sync_op: int, when: int) -> None:
    """Let a synchronisation op wait no longer then: its timer releases it, and it runs as any other op."""
    op = control.rules.sync_ops.op[sync_op]
    tasks.resource[op] = control.rules.work.resource_of[sync_op]
    state.needs[op] = 1
    control.steps.going_on_ns[sync_op] = when
    _start_timer(control, state, len(control.rules.clients.gap_ns) + sync_op, when)


def _wake(control: Control, state: State, now: int) -> None:
    """Clients of which nothing is left, and background clients as somebody's work begins, go on."""
    steps = control.steps
    for at in range(steps.totals[GONE]):
        client = steps.gone[at]
        _start_timer(control, state, client, steps.begin_ns[client])
    steps.totals[GONE] = 0
    if steps.totals[WOKEN] > 0:
        for at in range(steps.totals[ASLEEP]):
            client = steps.asleep[at]
            steps.sleeps[client] = False
            _schedule(control, state, client, max(now, steps.begin_ns[client]))
        steps.totals[ASLEEP] = 0
        steps.totals[WOKEN] = 0


def _act(
    control: Control, tasks: Tasks, state: State, threads: Threads, size: int, now: int, order: int, asks: int
) -> int:
    """A round is over, in which `asks` synchronisation ops and ENDs became ready; the new size of the queue."""
    steps, totals = control.steps, control.steps.totals
    steps.progress[EVENTS] = size
    _wake(control, state, now)
    totals[ROUNDS] -= 1
    if totals[ROUNDS] <= 0 and steps.progress[WHY] == 0:
        steps.progress[WHY] = MORE
    if totals[ACTED] > 0 or asks > 0 or totals[CRASHING] > 0 or totals[TOUCHED] > 0:
        _synchronise(control, tasks, state, threads, now, order, asks)
    grown: int = steps.progress[EVENTS]
    return grown


def _synchronise(
    control: Control, tasks: Tasks, state: State, threads: Threads, now: int, order: int, asks: int
) -> None:
    """Let synchronisation ops act, release what has waited for them, end steps, let tasks die."""
    rules, sync, steps = control.rules, control.sync, control.steps
    totals, sync_ops, clients = steps.totals, len(rules.sync_ops.op), len(rules.clients.gap_ns)
    sort(steps.acted, totals[ACTED])
    for at in range(totals[ACTED]):
        _acts(control, steps.acted[at], now)
    totals[ACTED] = 0
    sort(steps.asked, asks)
    ends = 0
    for at in range(asks):
        sync_op = rules.work.sync_op_of[steps.asked[at]]
        if sync_op >= sync_ops:
            steps.ends[ends] = sync_op - sync_ops
            ends += 1
        elif blocks(rules.sync_ops.kind[sync_op]):
            request(control, sync_op, now)
        elif rules.sync_ops.kind[sync_op] == DRAW:
            client, source = rules.sync_ops.client[sync_op], rules.sync_ops.sync_resource[sync_op]
            when = take_input(control, source, client, rules.sync_ops.amount[sync_op], now)
            _go_on(control, tasks, state, sync_op, when)
        else:
            _acts(control, sync_op, now)
            _go_on(control, tasks, state, sync_op, now)
    for at in range(release(control, now)):
        sync_op = sync.released[at]
        client = rules.sync_ops.client[sync_op]
        if blocks(rules.sync_ops.kind[sync_op]):
            _go_on(control, tasks, state, sync_op, now)
        elif steps.at_end[client] and sync.enqueuing[client] == 0:
            steps.at_end[client] = False
            steps.ends[ends] = client
            ends += 1
    for at in range(ends):
        client = steps.ends[at]
        steps.at_end[client] = sync.enqueuing[client] > 0
        if not steps.at_end[client]:
            _end_step(control, state, client, now)
    sort(steps.crashing, totals[CRASHING])
    for at in range(totals[CRASHING]):
        _crash(control, tasks, state, threads, steps.crashing[at], now, order)
    totals[CRASHING] = 0
    most = len(steps.steps) // COLUMNS - clients - sync_ops
    if steps.progress[WHY] == 0 and (totals[STEPS] > most or totals[UPDATES] > most):
        steps.progress[WHY] = MORE


HOOKS = Hooks(_asked_of, _begin, _ended, _awaits, _released, counts_joining, carries, _works, _act)
