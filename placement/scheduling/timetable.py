"""A partial schedule: the device of each group so far, and when the values of placed ops arrive on each device.

Transfers wait for nothing but their value: links and the processors that pack and unpack count as free, as in both
papers that use this. Each value goes to a device once, so later readers there find it when the first one did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placement.plan import Plan
from placement.problem import Problem, no_room
from simulator.units import Bytes, Nanos


@dataclass(slots=True)
class Timetable:
    """The decisions so far. Axes: n ops, T tensors, G groups, D devices."""

    problem: Problem
    device: list[int]  # [G] -1: open
    decider: list[int]  # [G] the op by which the group was decided
    room: list[Bytes]  # [D] memory left
    arrive: list[list[Nanos]]  # [T][D] when a value is there; empty: its producer is not placed yet
    floating: list[bool]  # [n] costs nothing anywhere and has no inputs: goes where it is first used
    delay: dict[tuple[int, Bytes], list[Nanos]]  # transfer times by (source, bytes), remembered
    unread: list[int] | None  # [T] readers that are not placed yet; None: values take no room


def open_timetable(problem: Problem, *, values: bool = False) -> Timetable:
    """A schedule in which nothing is placed yet; `values`: they take room from their op on until their last reader."""
    return Timetable(
        problem,
        device=[-1] * len(problem.allowed),
        decider=[-1] * len(problem.allowed),
        room=list(problem.capacity),
        arrive=[[]] * len(problem.nbytes),
        floating=[False] * len(problem.group),
        delay={},
        unread=list(map(len, problem.consumers)) if values else None,
    )


def choices(table: Timetable, op: int) -> Sequence[int]:
    """Devices on which the op may still go: its group's, once that is decided; else all that have room for it.

    Where values take room, but none has enough for them, what stays resident decides alone. Raises InfeasibleError
    where none has room for that.
    """
    problem = table.problem
    row = problem.group[op]
    if table.device[row] >= 0:
        return (table.device[row],)
    resident, values = problem.resident[row], 0 if table.unread is None else _made(problem, op)
    for needed in (resident + values, resident) if values else (resident,):
        if not needed:
            return problem.allowed[row]
        if found := [d for d in problem.allowed[row] if needed <= table.room[d]]:
            return found
    raise no_room(problem, row, table.room)


def arrivals(table: Timetable, op: int) -> list[Nanos]:
    """[D] when all the inputs that are decided would be on each device."""
    rows = [row for tensor in table.problem.inputs[op] if (row := table.arrive[tensor])]
    if not rows:
        return [0] * len(table.room)
    return rows[0] if len(rows) == 1 else list(map(max, *rows))


def floats(table: Timetable, op: int) -> bool:
    """Leave an op open, and say so, if it ends at once on every device; then its first reader breaks the tie.

    Constants are such ops. Both papers leave the choice among equal devices open.
    """
    problem = table.problem
    if not problem.instant[op] or problem.inputs[op] or table.device[problem.group[op]] >= 0:
        return False
    table.floating[op] = True
    allowed = choices(table, op)
    for tensor in problem.outputs[op]:  # a reader elsewhere will get it from the first of them
        there = list(_delays(table, allowed[0], problem.nbytes[tensor]))
        for device in allowed:
            there[device] = 0
        table.arrive[tensor] = there
    return True


def settle(table: Timetable, op: int, device: int, end: Nanos) -> None:
    """Place an op, with its group and the open constants that it reads; `end` is when it ends."""
    problem = table.problem
    row = problem.group[op]
    if table.device[row] < 0:
        table.device[row] = device
        table.decider[row] = op
        table.room[device] -= problem.resident[row]
    for tensor in problem.outputs[op]:
        delays = _delays(table, device, problem.nbytes[tensor])
        if problem.stays[tensor]:
            delays = [0] * len(table.room)
        elif problem.replicable[tensor] and problem.cpu[device]:
            delays = _copied(table, problem.nbytes[tensor])
        table.arrive[tensor] = [end + wait for wait in delays] if end else delays
    for tensor in problem.inputs[op]:
        source = problem.tables.tensor_op.item(tensor)
        if table.floating[source]:
            table.floating[source] = False
            held = choices(table, source)
            settle(table, source, device if device in held else held[0], 0)
    if table.unread is not None:
        _hold(table, op, device, table.unread)


def _hold(table: Timetable, op: int, device: int, unread: list[int]) -> None:
    """Take room for what an op makes, and give back that of inputs which it reads last."""
    problem = table.problem
    table.room[device] -= _made(problem, op)
    for tensor in problem.inputs[op]:
        unread[tensor] -= 1
        source = problem.tables.tensor_op.item(tensor)
        if not unread[tensor] and not problem.instant[source]:
            table.room[table.device[problem.group[source]]] += problem.nbytes[tensor]


def _made(problem: Problem, op: int) -> Bytes:
    """The bytes of an op's outputs; what takes no time hands on what is there, or stays resident."""
    return 0 if problem.instant[op] else sum(map(problem.nbytes.__getitem__, problem.outputs[op]))


def close(table: Timetable) -> Plan:
    """Give a device to every group that is still open: constants that nobody reads, and ops that do not run.

    The plan leaves the order of ops to their ready times.
    """
    for op, floating in enumerate(table.floating):
        if floating:
            table.floating[op] = False
            settle(table, op, choices(table, op)[0], 0)
    for row, device in enumerate(table.device):
        if device < 0:
            table.device[row] = table.problem.allowed[row][0]
    return Plan(table.device, decider=table.decider)


def _delays(table: Timetable, source: int, nbytes: Bytes) -> list[Nanos]:
    key = (source, nbytes)
    found = table.delay.get(key)
    if found is None:
        found = table.delay[key] = table.problem.transfers_ns(source, nbytes)
    return found


def _copied(table: Timetable, nbytes: Bytes) -> list[Nanos]:
    """[D] for a small constant on a CPU, which every CPU gets a copy of before the step: only GPUs wait for theirs."""
    problem = table.problem
    return [0 if problem.cpu[d] else _delays(table, home, nbytes)[d] for d, home in enumerate(problem.home)]
