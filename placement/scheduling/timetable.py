"""A partial schedule: the device of each group so far, and when the values of placed ops arrive on each device.

Transfers wait for nothing but their value: links and the processors that pack and unpack count as free, as in the
papers that use this. Each value goes to a device once, so later readers there find it when the first one did.

Functions over columns (`running`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement.columns import COPIED, STAYS, Columns
from placement.problem import NEVER, Problem, no_room
from placement.scheduling.running import Runner, listed
from simulator.columns import Ints

_ANY, _FULL = -(2**62), 2**62  # of memory that a device must have left: it does not matter, or none has as much


class Timetable(NamedTuple):
    """The decisions so far. Axes: n ops, T tensors, G groups, D devices."""

    device: Ints  # [G] -1: open
    decider: Ints  # [G] the op by which the group was decided
    room: Ints  # [D] memory left
    arrive: Ints  # [T * D] when a value is there; -1: its producer is not placed yet
    floating: Ints  # [n] 1: costs nothing anywhere and has no inputs, so it goes where it is first used
    unread: Ints  # [T] readers that are not placed yet; empty: values take no room
    start: Ints  # [n]
    failed: Ints  # [1] a group for which no device has room, -1: none yet


def open_timetable(problem: Problem, runner: Runner, *, values: bool = False) -> Timetable:
    """A schedule in which nothing is placed yet; `values`: they take room from their op on until their last reader."""
    groups, ops, tensors = len(problem.allowed), len(problem.group), len(problem.nbytes)
    return Timetable(
        device=runner.new(groups, -1),
        decider=runner.new(groups, -1),
        room=runner.copy(problem.capacity),
        arrive=runner.new(tensors * len(problem.capacity), -1),
        floating=runner.new(ops),
        unread=runner.copy(np.diff(problem.columns.reader_first) if values else ()),
        start=runner.new(ops),
        failed=runner.new(1, -1),
    )


def require_room(problem: Problem, table: Timetable) -> None:
    """Raise InfeasibleError where a group found no room."""
    if table.failed[0] >= 0:
        raise no_room(problem, int(table.failed[0]), listed(table.room))


def needed(step: Columns, table: Timetable, op: int) -> int:
    """The memory that a device must have left for an op, as `may_use` takes it.

    Where values take room, but no device has enough for them, what stays resident decides alone. The schedule fails
    where none has room for that.
    """
    group = step.group[op]
    if table.device[group] >= 0:
        return _ANY
    resident = step.resident[group]
    if len(table.unread):
        more = resident + _made_bytes(step, table, op)
        if more > resident and _some_holds(step, table, group, more):
            return more
    if resident == 0:
        return _ANY
    if _some_holds(step, table, group, resident):
        return resident
    table.failed[0] = group
    return _FULL


def _some_holds(step: Columns, table: Timetable, group: int, nbytes: int) -> bool:
    which = step.allowed[group]
    for at in range(step.set_first[which], step.set_first[which + 1]):  # noqa: SIM110  # `any` is not translated
        if table.room[step.device[at]] >= nbytes:
            return True
    return False


def may_use(table: Timetable, group: int, device: int, least: int) -> bool:
    """Tell whether a group may go to one of its devices: to its own, once that is decided, else where there is room."""
    if table.device[group] >= 0:
        return table.device[group] == device
    return table.room[device] >= least


def allows(step: Columns, group: int, device: int) -> bool:
    """Tell whether a device is among those of a group."""
    which = step.allowed[group]
    for at in range(step.set_first[which], step.set_first[which + 1]):  # noqa: SIM110  # as above
        if step.device[at] == device:
            return True
    return False


def first_choice(step: Columns, table: Timetable, op: int, wanted: int, least: int) -> int:
    """The device that is wanted if the op may use it, else the first that it may use; -1: none."""
    group, found = step.group[op], -1
    which = step.allowed[group]
    for at in range(step.set_first[which], step.set_first[which + 1]):
        device = step.device[at]
        if may_use(table, group, device, least):
            if device == wanted:
                return wanted
            if found < 0:
                found = device
    return found


def arrival(step: Columns, table: Timetable, op: int, device: int) -> int:
    """When all the inputs that are decided would be on a device."""
    devices, latest = len(step.lanes), 0
    for at in range(step.first[op], step.first[op + 1]):
        latest = max(latest, table.arrive[step.tensor[at] * devices + device])
    return latest


def floats(step: Columns, table: Timetable, op: int) -> bool:
    """Leave an op open, and say so, if it ends at once on every device; then its first reader breaks the tie.

    Constants are such ops. The papers leave the choice among equal devices open.
    """
    group = step.group[op]
    if not step.instant[op] or step.first[op] < step.first[op + 1] or table.device[group] >= 0:
        return False
    devices = len(step.lanes)
    table.floating[op] = 1
    least = needed(step, table, op)
    source = first_choice(step, table, op, -1, least)
    if source < 0:
        return True
    which = step.allowed[group]
    for tensor in range(step.made_first[op], step.made_first[op + 1]):  # readers elsewhere get it from the first one
        for device in range(devices):
            table.arrive[tensor * devices + device] = step.wire_ns[
                step.size[tensor] + step.pace[source * devices + device]
            ]
        for at in range(step.set_first[which], step.set_first[which + 1]):
            if may_use(table, group, step.device[at], least):
                table.arrive[tensor * devices + step.device[at]] = 0
    return True


def settle(step: Columns, table: Timetable, op: int, device: int, end: int) -> None:
    """Place an op, with its group and the open constants that it reads; `end` is when it ends."""
    _place(step, table, op, device, end)
    for at in range(step.first[op], step.first[op + 1]):
        source = step.maker[step.tensor[at]]
        if table.floating[source]:
            _land(step, table, source, device)
            if table.failed[0] >= 0:
                return
    if len(table.unread):
        _hold(step, table, op, device)


def _land(step: Columns, table: Timetable, op: int, device: int) -> None:
    """Place an open constant beside a device, or where it may be."""
    table.floating[op] = 0
    held = first_choice(step, table, op, device, needed(step, table, op))
    if held >= 0:
        _place(step, table, op, held, 0)


def _place(step: Columns, table: Timetable, op: int, device: int, end: int) -> None:
    """Give an op's group its device, and let its values arrive."""
    group, devices = step.group[op], len(step.lanes)
    if table.device[group] < 0:
        table.device[group], table.decider[group] = device, op
        table.room[device] -= step.resident[group]
    for tensor in range(step.made_first[op], step.made_first[op + 1]):
        row, spread = step.size[tensor], step.spread[tensor]
        copied = spread == COPIED and step.cpu[device] != 0  # CPUs get copies before the step: GPUs alone wait
        for to in range(devices):
            source = step.home[to] if copied else device
            wait = step.wire_ns[row + step.pace[source * devices + to]]
            if spread == STAYS or (copied and step.cpu[to] != 0):
                wait = 0
            table.arrive[tensor * devices + to] = min(end + wait, NEVER)


def _hold(step: Columns, table: Timetable, op: int, device: int) -> None:
    """Take room for what an op makes, and give back that of inputs which it reads last."""
    table.room[device] -= _made_bytes(step, table, op)
    for at in range(step.first[op], step.first[op + 1]):
        tensor = step.tensor[at]
        table.unread[tensor] -= 1
        source = step.maker[tensor]
        made = table.arrive[tensor * len(step.lanes)] >= 0  # a Merge does not wait for all that it reads
        if made and table.unread[tensor] == 0 and not step.instant[source]:
            table.room[table.device[step.group[source]]] += step.nbytes[tensor]


def _made_bytes(step: Columns, table: Timetable, op: int) -> int:
    """The bytes of an op's outputs; what takes no time hands on what is there, or stays resident.

    What Merges alone read, which went on with another value, takes no room.
    """
    total = 0
    for tensor in range(step.made_first[op], step.made_first[op + 1] if not step.instant[op] else 0):
        if table.unread[tensor] > 0 or step.reader_first[tensor] == step.reader_first[tensor + 1]:
            total += step.nbytes[tensor]
    return total


def close(step: Columns, table: Timetable) -> None:
    """Give a device to every group that is still open: constants that nobody reads, and ops that do not run."""
    for op in range(len(table.floating)):
        if table.floating[op] and table.failed[0] < 0:
            _land(step, table, op, -1)
    for group in range(len(table.device)):
        if table.device[group] < 0:
            table.device[group] = step.device[step.set_first[step.allowed[group]]]
