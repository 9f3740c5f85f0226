"""Synchronisation resources: accumulators of gradients and queues of tokens, and the ops that wait for them.

Waiting ops stand in linked lists, as an op waits in one at most. Equal tokens that follow each other are one run, so
that a ring holds all runs: there are no more than changes of the global step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.execution.event_queue import sort
from simulator.training.clients.operations import DEQUEUE, DRAW, ENQUEUE, TAKE
from simulator.training.control.arrays import DROPPED, FILLED, GLOBAL_STEP, TOUCHED

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.training.control.arrays import Control, Rules, SyncResourceRows, SyncState


def _append(waiter: int, at: int, first: Ids, last: Ids, behind: Ids) -> None:
    """Wait behind all others in a queue."""
    behind[waiter] = -1
    if first[at] < 0:
        first[at] = waiter
    else:
        behind[last[at]] = waiter
    last[at] = waiter


def _remove(first_op: int, end_op: int, at: int, first: Ids, last: Ids, behind: Ids) -> None:
    """Take a client's ops, from `first_op` until before `end_op`, out of a queue of waiting ops."""
    waiter = first[at]
    first[at] = -1
    while waiter >= 0:
        follows = behind[waiter]
        if not first_op <= waiter < end_op:
            _append(waiter, at, first, last, behind)
        waiter = follows


def _add(sync_resources: SyncResourceRows, sync: SyncState, row: int) -> bool:
    """Add tokens as far as there is room; whether any was."""
    moved = False
    base = sync_resources.run_ptr[row]
    ring = sync_resources.run_ptr[row + 1] - base
    while sync.first_adder[row] >= 0:
        waiter = sync.first_adder[row]
        fits = sync.needs[waiter]
        if sync_resources.capacity[row] >= 0:
            fits = min(fits, sync_resources.capacity[row] - sync.stored[row])
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
    sync_ops, sync_resources = rules.sync_ops, rules.sync_resources
    moved = False
    base = sync_resources.run_ptr[row]
    ring = sync_resources.run_ptr[row + 1] - base
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
        added = _add(rules.sync_resources, sync, row)
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
            _append(waiter, row, sync.first_adder, sync.last_adder, sync.behind)
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
        _append(sync_op, row, sync.first_adder, sync.last_adder, sync.behind)
        sync.enqueuing[client] += 1
    _touch(sync, totals, row)


def request(control: Control, sync_op: int, now: int) -> None:
    """A blocking op is ready: it waits for its resource."""
    rules, sync, steps = control.rules, control.sync, control.steps
    row, client = rules.sync_ops.sync_resource[sync_op], rules.sync_ops.client[sync_op]
    sync.needs[sync_op] = rules.sync_ops.amount[sync_op]
    _append(sync_op, row, sync.first_taker, sync.last_taker, sync.behind)
    _touch(sync, steps.totals, row)
    if sync.blocked[client] == 0:
        sync.blocked_from_ns[client] = now
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
            sync.waited_ns[client] += now - sync.blocked_from_ns[client]
    return count


def blocks(kind: int) -> bool:
    """Whether a synchronisation op of this kind waits for its resource before it runs."""
    return kind in (TAKE, DEQUEUE)


def may_block(kind: int) -> bool:
    """Whether a synchronisation op of this kind may have to wait when it is ready."""
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
