"""The list scheduling of ETF: of all ready ops and devices, the pair that starts first is entered next.

For each device there are two heaps. One has ops whose inputs will be there later, by that time. The other has ops whose
inputs are there when the device is free, by level. So a step costs a look at the heads of each device, not at each
pair. An entry that is out of date, since its op was placed or its group decided, is dropped when it comes to the head.

Functions over columns (`running`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from placement.columns import Columns
from placement.problem import Problem
from placement.scheduling.heaps import pop, push, replace_first
from placement.scheduling.insertion import Schedule, scheduled
from placement.scheduling.readiness import Waits, begin, open_waits, released
from placement.scheduling.running import Runner
from placement.scheduling.timetable import (
    Timetable,
    allows,
    arrival,
    close,
    floats,
    may_use,
    needed,
    open_timetable,
    settle,
)
from simulator.columns import Ints


class Board(NamedTuple):
    """Where ready ops could start. Axes: n ops, D devices, L lanes."""

    turn: Ints  # [n] of ops that start at the same time the smallest comes first
    of_turn: Ints  # [n] its inverse
    favourite: Ints  # [n] the reader for which a device waits after this op, -1: none; empty: no device waits
    of_device: Ints  # [D+1] first lane of each device
    free: Ints  # [L] a heap for each device: when each lane becomes free
    last: Ints  # [D] the op that was entered last, -1: none
    when: Ints  # [n * D] when the inputs of a ready op are there
    ready: Ints  # [n] ready ops that are not entered
    place: Ints  # [n] of an op among them, -1: it is not there
    sizes: Ints  # [1 + 3 * D] of `ready`, and of the heaps `later`, `there` and `urgent`
    later_ns: Ints  # [D * n] heaps: inputs there, turn
    later: Ints  # [D * n]
    there: Ints  # [D * n] heaps: turn, op; its inputs are there when the device is free
    there_op: Ints  # [D * n]
    urgent_ns: Ints  # [D * n] heaps: inputs on all devices, turn
    urgent: Ints  # [D * n]
    offered: Ints  # [n] a heap of ops that became ready
    offered_op: Ints  # [n]


def earliest_start(
    problem: Problem,
    runner: Runner,
    level: Ints,
    *,
    values: bool = False,
    favourite: Sequence[int] = (),
) -> Schedule:
    """Enter all ops.

    Ties in start go to the higher level, then to the smaller row, then to the device that TensorFlow would prefer. An
    op that takes no time is entered as soon as it is ready. With `values` devices need room for values, too. Raises
    InfeasibleError where no device has room.

    With `favourite`, a device whose last op has a favourite waits for it, if the favourite is ready and starts nowhere
    earlier. Meanwhile it takes only urgent ops, whose inputs are on all of their devices. A device of several lanes
    does not wait.
    """
    ops, devices, lanes = len(problem.group), len(problem.capacity), problem.tables.lanes.tolist()
    order = np.argsort(-level, kind="stable")
    turn = np.empty(ops, np.int64)
    turn[order] = np.arange(ops)
    table = open_timetable(problem, runner, values=values)
    board = Board(
        turn=runner.of(turn),
        of_turn=runner.of(order),
        favourite=runner.of(favourite),
        of_device=runner.of(np.cumsum([0, *lanes])),
        free=runner.new(sum(lanes)),
        last=runner.new(devices, -1),
        when=runner.new(ops * devices),
        ready=runner.new(ops),
        place=runner.new(ops, -1),
        sizes=runner.new(1 + 3 * devices),
        **{name: runner.new(ops * devices) for name in ("later_ns", "later", "there", "there_op")},
        **{name: runner.new(ops * devices if len(favourite) else 0) for name in ("urgent_ns", "urgent")},
        offered=runner.new(ops),
        offered_op=runner.new(ops),
    )
    runner.run(enter_first, table, open_waits(runner), board)
    return scheduled(problem, table)


def enter_first(step: Columns, table: Timetable, waits: Waits, board: Board) -> None:
    """Enter all ops, the pair that starts first next."""
    devices = len(step.lanes)
    _offer(step, table, waits, board, begin(step, waits))
    while board.sizes[0] > 0 and table.failed[0] < 0:
        begun, turn, device, rank = 0, -1, -1, 0
        for other in range(devices):
            start, its = _head(step, table, board, other)
            if its < 0 or (turn >= 0 and (start > begun or (start == begun and its > turn))):
                continue
            preferred = _preference(step, board.of_turn[its], other)
            if turn < 0 or start < begun or its < turn or preferred < rank:
                begun, turn, device, rank = start, its, other, preferred
        if turn < 0:  # the devices that had room have none now, or a group was decided for another one
            _rebuild(step, table, board)
        else:
            _enter(step, table, waits, board, board.of_turn[turn], device, begun)
    if table.failed[0] < 0:
        close(step, table)


def _preference(step: Columns, op: int, device: int) -> int:
    """The place of a device among those that an op may use."""
    low = step.set_first[step.allowed[step.group[op]]]
    at = low
    while step.device[at] != device:
        at += 1
    return at - low


def _offer(step: Columns, table: Timetable, waits: Waits, board: Board, fresh: int) -> None:
    """Show ready ops to their devices; those that take no time are entered at once, with all that they release."""
    size = _add(waits, board, 0, fresh)
    while size > 0 and table.failed[0] < 0:
        op = board.offered_op[0]
        pop(board.offered, board.offered_op, 0, size)
        size -= 1
        if floats(step, table, op):
            size = _add(waits, board, size, released(step, waits, op, 0))
        elif step.instant[op]:
            group, least, when, chosen = step.group[op], needed(step, table, op), 0, -1
            which = step.allowed[group]
            for at in range(step.set_first[which], step.set_first[which + 1]):
                device = step.device[at]
                if may_use(table, group, device, least):
                    there = arrival(step, table, op, device)
                    if chosen < 0 or there < when:
                        when, chosen = there, device
            if chosen < 0:
                return
            table.start[op] = when
            settle(step, table, op, chosen, when)
            size = _add(waits, board, size, released(step, waits, op, when))
        else:
            for device in range(len(step.lanes)):
                board.when[op * len(step.lanes) + device] = arrival(step, table, op, device)
            board.ready[board.sizes[0]], board.place[op] = op, board.sizes[0]
            board.sizes[0] += 1
            _show(step, table, board, op)


def _add(waits: Waits, board: Board, size: int, fresh: int) -> int:
    for at in range(fresh):
        push(board.offered, board.offered_op, 0, size + at, waits.fresh[at], waits.fresh[at])
    return size + fresh


def _show(step: Columns, table: Timetable, board: Board, op: int) -> None:
    group, least, ops, devices = step.group[op], needed(step, table, op), len(step.group), len(step.lanes)
    low, high = step.set_first[step.allowed[group]], step.set_first[step.allowed[group] + 1]
    everywhere = 0
    for at in range(low, high):
        device = step.device[at]
        if may_use(table, group, device, least):
            when, size = board.when[op * devices + device], board.sizes[1 + device]
            push(board.later_ns, board.later, device * ops, size, when, board.turn[op])
            board.sizes[1 + device] += 1
            everywhere = max(everywhere, when)
    for at in range(low, high if len(board.favourite) else low):
        device = step.device[at]
        if may_use(table, group, device, least):
            size = board.sizes[1 + 2 * devices + device]
            push(board.urgent_ns, board.urgent, device * ops, size, everywhere, board.turn[op])
            board.sizes[1 + 2 * devices + device] += 1


def _rebuild(step: Columns, table: Timetable, board: Board) -> None:
    """Show all that is ready again, to the devices that have room now."""
    for at in range(1, len(board.sizes)):
        board.sizes[at] = 0
    for at in range(board.sizes[0]):
        _show(step, table, board, board.ready[at])
        if table.failed[0] >= 0:
            return


def _head(step: Columns, table: Timetable, board: Board, device: int) -> tuple[int, int]:
    """The start and the turn of the op that a device would enter next; a turn of -1: none."""
    ops, devices = len(step.group), len(step.lanes)
    low, now = device * ops, board.free[board.of_device[device]]
    later, there = board.sizes[1 + device], board.sizes[1 + devices + device]
    while later > 0 and board.later_ns[low] <= now:
        turn = board.later[low]
        pop(board.later_ns, board.later, low, later)
        push(board.there, board.there_op, low, there, turn, turn)
        later, there = later - 1, there + 1
    start, found = now, -1
    if len(board.favourite):
        start, found = _awaited(step, table, board, device, now)
    if found < 0:
        while there > 0 and not _possible(step, table, board, board.of_turn[board.there[low]], device):
            pop(board.there, board.there_op, low, there)
            there -= 1
        if there > 0:
            start, found = now, board.there[low]
    if found < 0:
        while later > 0 and not _possible(step, table, board, board.of_turn[board.later[low]], device):
            pop(board.later_ns, board.later, low, later)
            later -= 1
        if later > 0:
            start, found = board.later_ns[low], board.later[low]
    board.sizes[1 + device], board.sizes[1 + devices + device] = later, there
    return start, found


def _awaited(step: Columns, table: Timetable, board: Board, device: int, now: int) -> tuple[int, int]:
    """The same for a device that waits for the favourite of its last op; a turn of -1: it does not wait."""
    devices, low = len(step.lanes), device * len(step.group)
    last = board.last[device]
    if last < 0 or step.lanes[device] > 1:
        return now, -1
    wanted = board.favourite[last]
    if wanted < 0 or board.place[wanted] < 0 or not allows(step, step.group[wanted], device):
        return now, -1
    if not _possible(step, table, board, wanted, device):
        return now, -1
    start = max(now, board.when[wanted * devices + device])
    group, least = step.group[wanted], needed(step, table, wanted)
    which = step.allowed[group]
    for at in range(step.set_first[which], step.set_first[which + 1]):
        other = step.device[at]
        soonest = max(board.free[board.of_device[other]], board.when[wanted * devices + other])
        if soonest < start and may_use(table, group, other, least):
            return now, -1
    size = board.sizes[1 + 2 * devices + device]
    while size > 0 and not _possible(step, table, board, board.of_turn[board.urgent[low]], device):
        pop(board.urgent_ns, board.urgent, low, size)
        size -= 1
    board.sizes[1 + 2 * devices + device] = size
    if size > 0 and max(now, board.urgent_ns[low]) < start:
        return max(now, board.urgent_ns[low]), board.urgent[low]
    return start, board.turn[wanted]


def _possible(step: Columns, table: Timetable, board: Board, op: int, device: int) -> bool:
    if board.place[op] < 0:
        return False
    return may_use(table, step.group[op], device, needed(step, table, op))


def _enter(step: Columns, table: Timetable, waits: Waits, board: Board, op: int, device: int, begun: int) -> None:
    end = begun + step.run_ns[op * len(step.lanes) + device]
    replace_first(board.free, board.of_device[device], board.of_device[device + 1], end)
    board.last[device], table.start[op] = op, begun
    board.sizes[0] -= 1
    other = board.ready[board.sizes[0]]
    board.ready[board.place[op]], board.place[other] = other, board.place[op]
    board.place[op] = -1
    settle(step, table, op, device, end)
    if table.failed[0] < 0:
        _offer(step, table, waits, board, released(step, waits, op, end))
