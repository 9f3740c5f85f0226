"""Synchronisation resources: accumulators of gradients, queues of tokens and inputs, and the ops that wait for them.

Waiting ops stand in linked lists, as an op waits in one at most. Equal tokens that follow each other are one run, so
that a ring holds all runs. There are no more of them than changes of the global step.

An input that may run dry is a queue of bounded size which threads fill beside the steps, in closed form. A thread makes
an item, adds its elements as far as there is room, and begins the next item when all are in. Elements enter in order of
their items' ends. An op that takes several gets each as soon as it is there, first come, first served (`QueueBase` in
tensorflow/core/kernels/queue_base.cc). No event is needed: when an element enters follows from the elements that were
taken before, and is found when an op asks for it.

    element k enters at max(its item is made, element k-1 has entered, element k-capacity was taken)
    element k is taken at max(it is asked for, element k-1 was taken, element k+reserve has entered)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution.event_queue import sort
from simulator.execution.executor import append
from simulator.training.control.arrays import DROPPED, FILLED, GLOBAL_STEP, TOUCHED
from simulator.training.control.counters import lasting
from simulator.training.recognition.sync_ops import DEQUEUE, DRAW, ENQUEUE, TAKE

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.training.control.arrays import Control, Rules, SyncState
    from simulator.training.control.workload import Workload

PATIENCE_STEPS = 100  # steps of each client without an update, after which a run hangs


def _remove(first_op: int, end_op: int, at: int, first: Ids, last: Ids, behind: Ids) -> None:
    """Take a client's ops, from `first_op` until before `end_op`, out of a queue of waiting ops."""
    waiter = first[at]
    first[at] = -1
    while waiter >= 0:
        follows = behind[waiter]
        if not first_op <= waiter < end_op:
            append(waiter, at, first, last, behind)
        waiter = follows


def _add(rules: Rules, sync: SyncState, row: int) -> bool:
    """Add tokens as far as there is room; whether any was."""
    moved, capacity = False, rules.sync_resources.capacity[row]
    base = rules.run_ptr[row]
    ring = rules.run_ptr[row + 1] - base
    while sync.first_adder[row] >= 0:
        waiter = sync.first_adder[row]
        fits = sync.needs[waiter]
        if capacity >= 0:
            fits = min(fits, capacity - sync.stored[row])
        if fits != 0:
            runs = sync.runs[row]
            last = base + (sync.run_head[row] + runs + ring - 1) % ring
            if runs > 0 and sync.run_token[last] == sync.token[waiter]:
                sync.run_count[last] += fits
            else:
                last = base + (sync.run_head[row] + runs) % ring
                sync.run_token[last], sync.run_count[last] = sync.token[waiter], fits
                sync.runs[row] += 1
            sync.stored[row] += fits
            moved = True
        if fits < sync.needs[waiter]:
            sync.needs[waiter] -= fits
            break
        sync.first_adder[row] = sync.behind[waiter]
        sync.released[sync.released_size[0]] = waiter
        sync.released_size[0] += 1
    return moved


def _take(rules: Rules, sync: SyncState, row: int) -> bool:
    """Take tokens as far as there are any; whether any was."""
    sync_ops, moved = rules.sync_ops, False
    base = rules.run_ptr[row]
    ring = rules.run_ptr[row + 1] - base
    while sync.first_taker[row] >= 0:
        waiter = sync.first_taker[row]
        wanted, reserve = sync.needs[waiter], sync_ops.reserve[waiter]
        taken, token = 0, -1
        while taken < wanted and sync.stored[row] > reserve:
            at = base + sync.run_head[row]
            token, there = sync.run_token[at], sync.run_count[at]
            some = min(min(wanted - taken, there), sync.stored[row] - reserve)
            taken += some
            sync.stored[row] -= some
            sync.run_count[at] = there - some
            if some == there:
                sync.run_head[row] = (sync.run_head[row] + 1) % ring
                sync.runs[row] -= 1
        moved |= taken > 0
        if taken < wanted:
            sync.needs[waiter] -= taken
            break
        sync.first_taker[row] = sync.behind[waiter]
        if token >= 0:
            sync.local_step[sync_ops.client[waiter]] = token
        sync.released[sync.released_size[0]] = waiter
        sync.released_size[0] += 1
    return moved


def _serve(rules: Rules, sync: SyncState, row: int) -> None:
    """Let all go on who have what they asked for."""
    while True:
        added = _add(rules, sync, row)
        taken = _take(rules, sync, row)
        if not (added or taken):
            return


def _touch(sync: SyncState, totals: Ints, row: int) -> None:
    if not sync.is_touched[row]:
        sync.is_touched[row] = True
        sync.touched[totals[TOUCHED]] = row
        totals[TOUCHED] += 1


def initialise(control: Control) -> None:
    """Make all ready for the global step, as a chief's session does: queues get their first tokens."""
    rules, sync, steps = control.rules, control.sync, control.steps
    totals = steps.totals
    for row in range(len(sync.stored)):
        if not rules.sync_resources.queue[row]:
            sync.step[row] = totals[GLOBAL_STEP]
        elif rules.sync_resources.tokens[row] > 0:
            waiter = len(rules.sync_ops.op) + totals[FILLED]
            totals[FILLED] += 1
            sync.needs[waiter], sync.token[waiter] = rules.sync_resources.tokens[row], totals[GLOBAL_STEP]
            append(waiter, row, sync.first_adder, sync.last_adder, sync.behind)
            _touch(sync, totals, row)


def deliver(control: Control, sync_op: int) -> None:
    """An op that does not block has ended: a gradient comes, or tokens are to be added."""
    rules, sync, steps = control.rules, control.sync, control.steps
    totals, row, client = steps.totals, rules.sync_ops.sync_resource[sync_op], rules.sync_ops.client[sync_op]
    if not rules.sync_resources.queue[row]:
        if sync.local_step[client] < sync.step[row]:
            totals[DROPPED] += 1
        else:
            sync.stored[row] += 1
            sync.gathered[row] += rules.clients.examples[client]
    else:
        sync.needs[sync_op], sync.token[sync_op] = rules.sync_ops.amount[sync_op], totals[GLOBAL_STEP]
        append(sync_op, row, sync.first_adder, sync.last_adder, sync.behind)
        sync.enqueuing[client] += 1
    _touch(sync, totals, row)


def request(control: Control, sync_op: int, now: int) -> None:
    """A blocking op is ready: it waits for its resource."""
    rules, sync, steps = control.rules, control.sync, control.steps
    row, client = rules.sync_ops.sync_resource[sync_op], rules.sync_ops.client[sync_op]
    sync.needs[sync_op] = rules.sync_ops.amount[sync_op]
    append(sync_op, row, sync.first_taker, sync.last_taker, sync.behind)
    _touch(sync, steps.totals, row)
    if sync.blocked[client] == 0:
        sync.blocked_from_ns[client] = max(now, control.input_state.until_ns[client])
    sync.blocked[client] += 1


def release(control: Control, now: int) -> int:
    """Release blocking ops that have what they need, and enqueues whose tokens are all in; how many there are."""
    rules, sync, steps = control.rules, control.sync, control.steps
    sync_ops, totals = rules.sync_ops, steps.totals
    if totals[TOUCHED] > 1:
        sort(sync.touched, totals[TOUCHED])
    sync.released_size[0] = 0
    for at in range(totals[TOUCHED]):
        row = sync.touched[at]
        sync.is_touched[row] = False
        if rules.sync_resources.queue[row]:
            _serve(rules, sync, row)
            continue
        while sync.first_taker[row] >= 0 and sync.stored[row] >= sync.needs[sync.first_taker[row]]:
            sync_op = sync.first_taker[row]
            sync.first_taker[row] = sync.behind[sync_op]
            client = sync_ops.client[sync_op]
            sync.takes[client] += 1
            sync.gradients[client] += sync.stored[row]
            sync.taken_examples[client] += sync.gathered[row]
            sync.stored[row], sync.gathered[row] = 0, 0
            sync.step[row] += 1
            sync.released[sync.released_size[0]] = sync_op
            sync.released_size[0] += 1
    totals[TOUCHED] = 0
    count: int = 0
    for at in range(sync.released_size[0]):
        sync_op = sync.released[at]
        if sync_op >= len(sync_ops.op):
            continue  # the tokens of the beginning
        sync.released[count] = sync_op
        count += 1
        client = sync_ops.client[sync_op]
        if sync_ops.kind[sync_op] == ENQUEUE:
            sync.enqueuing[client] -= 1
            continue
        sync.blocked[client] -= 1
        if sync.blocked[client] == 0:
            sync.waited_ns[client] += max(0, now - sync.blocked_from_ns[client])
    return count


def blocks(kind: int) -> bool:
    """Tell whether a synchronisation op of this kind waits for its resource before it runs."""
    return kind in (TAKE, DEQUEUE)


def may_block(kind: int) -> bool:
    """Tell whether a synchronisation op of this kind may have to wait when it is ready."""
    return kind in (TAKE, DEQUEUE, DRAW)


def cancel(control: Control, client: int) -> None:
    """A client's step was cut short: its ops wait no longer."""
    rules, sync = control.rules, control.sync
    low, high = rules.clients.sync_op_ptr[client], rules.clients.sync_op_ptr[client + 1]
    for sync_op in range(low, high):
        row = rules.sync_ops.sync_resource[sync_op]
        if row >= 0 and rules.sync_ops.kind[sync_op] != DRAW:
            _remove(low, high, row, sync.first_taker, sync.last_taker, sync.behind)
            _remove(low, high, row, sync.first_adder, sync.last_adder, sync.behind)
    sync.blocked[client], sync.enqueuing[client] = 0, 0


def restore(control: Control, task: int) -> None:
    """A task is gone with what its resources hold; accumulators gather for the step to which all falls back."""
    rules, sync, steps = control.rules, control.sync, control.steps
    for row in range(len(sync.stored)):
        if not rules.sync_resources.queue[row]:
            sync.step[row] = steps.totals[GLOBAL_STEP]
            if rules.sync_resources.task[row] == task:
                sync.stored[row], sync.gathered[row] = 0, 0
        elif rules.sync_resources.task[row] == task:
            sync.runs[row], sync.stored[row] = 0, 0


# ---- inputs ----------------------------------------------------------------------------------------------------------


def _made(control: Control, source: int, begun: int) -> int:
    """The moment at which an item is made that a thread begins at `begun`."""
    rules, input_state = control.rules, control.input_state
    number, who = input_state.numbers[source], len(rules.clients.gap_ns) + source
    input_state.numbers[source] += 1
    ends: int = begun + lasting(control, rules.inputs.task[source], who, number, rules.inputs.period_ns[source], begun)
    return ends


def _restart_one(control: Control, source: int, now: int) -> None:
    """Lose what is there; all threads begin an item."""
    inputs, input_state = control.rules.inputs, control.input_state
    for thread in range(inputs.thread_ptr[source], inputs.thread_ptr[source + 1]):
        input_state.made_ns[thread] = _made(control, source, now)
    input_state.entering[source], input_state.left[source] = 0, 0
    input_state.entered[source], input_state.taken[source] = 0, 0
    input_state.entered_ns[source], input_state.taken_ns[source] = now, now


def _enter(control: Control, source: int) -> None:
    """The next element enters."""
    inputs, input_state = control.rules.inputs, control.input_state
    if input_state.left[source] == 0:
        first = inputs.thread_ptr[source]
        for thread in range(first + 1, inputs.thread_ptr[source + 1]):
            if input_state.made_ns[thread] < input_state.made_ns[first]:
                first = thread
        input_state.entering[source], input_state.left[source] = first, inputs.item[source]
        input_state.entered_ns[source] = max(input_state.entered_ns[source], input_state.made_ns[first])
    room = inputs.capacity[source]
    if room > 0 and room <= input_state.entered[source]:
        place = inputs.place_ptr[source] + input_state.entered[source] % room
        input_state.entered_ns[source] = max(input_state.entered_ns[source], input_state.taken_at[place])
    input_state.entered[source] += 1
    input_state.left[source] -= 1
    if input_state.left[source] == 0:
        input_state.made_ns[input_state.entering[source]] = _made(control, source, input_state.entered_ns[source])


def begin_inputs(control: Control) -> None:
    """All inputs are empty, and their threads begin."""
    for source in range(len(control.rules.inputs.item)):
        _restart_one(control, source, control.rules.inputs.start_ns[source])


def take_input(control: Control, source: int, client: int, count: int, now: int) -> int:
    """The moment at which a client's op that asks now for `count` elements may go on.

    Until then the client waits for this input, whatever else of it waits for tokens.
    """
    inputs, input_state, sync = control.rules.inputs, control.input_state, control.sync
    room = inputs.capacity[source]
    for _ in range(count):
        while input_state.entered[source] <= input_state.taken[source] + inputs.reserve[source]:
            _enter(control, source)
        input_state.taken_ns[source] = max(max(input_state.taken_ns[source], now), input_state.entered_ns[source])
        if room > 0:
            place = inputs.place_ptr[source] + input_state.taken[source] % room
            input_state.taken_at[place] = input_state.taken_ns[source]
        input_state.taken[source] += 1
    when: int = max(now, input_state.taken_ns[source])
    input_state.waited_ns[client] += max(0, when - max(now, input_state.until_ns[client]))
    input_state.until_ns[client] = max(input_state.until_ns[client], when)
    if sync.blocked[client] > 0:
        sync.waited_ns[client] += max(0, now - sync.blocked_from_ns[client])
        sync.blocked_from_ns[client] = max(sync.blocked_from_ns[client], input_state.until_ns[client])
    input_state.for_ns[source] += when - now
    return when


def restart_inputs(control: Control, task: int, back_ns: int) -> None:
    """A task is gone with what it makes or keeps; all begins anew when it is back."""
    inputs = control.rules.inputs
    for source in range(len(inputs.item)):
        if inputs.task[source] == task or inputs.kept_by[source] == task:
            _restart_one(control, source, back_ns)


def patience_of(workload: Workload) -> int:
    """After how many steps without an update a run hangs: an update may need so many gradients, some of them late."""
    most = int(workload.sync_ops.amount.max(initial=0)) + int(workload.sync_resources.tokens.sum())
    return (PATIENCE_STEPS + most) * len(workload)
