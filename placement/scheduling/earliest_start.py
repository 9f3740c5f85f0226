"""The list scheduling of ETF: of all ready ops and devices, the pair that starts first is entered next.

For each device there are two heaps: ops whose inputs will be there later, by that time, and ops whose inputs are there
when the device is free, by level. So a step costs a look at the heads of each device, not at each pair. An entry that
is out of date, since its op was placed or its group decided, is dropped when it comes to the head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace

from placement.problem import Problem
from placement.scheduling.readiness import Waits, at_once, open_waits, released
from placement.scheduling.timetable import Timetable, arrivals, choices, floats, settle
from simulator.units import Nanos

Pair = tuple[Nanos, int, int, int]  # start, minus the level, op, device: the smallest is entered next


@dataclass(slots=True)
class Board:
    """Where ready ops could start. Axes: n ops, D devices."""

    table: Timetable
    waits: Waits
    level: Sequence[int]  # [n] of ops that start at the same time the highest comes first
    favourite: Sequence[int]  # [n] the reader for which a device waits after this op, -1: none
    free: list[list[Nanos]]  # [D] heaps: when each lane becomes free
    last: list[int]  # [D] the op that was entered last, -1: none
    ready: dict[int, list[Nanos]]  # ops that are not entered, with [D] when their inputs are there
    later: list[list[tuple[Nanos, int, int]]]  # [D] heaps: inputs there, minus the level, op
    there: list[list[tuple[int, int]]]  # [D] heaps: minus the level, op; its inputs are there when the device is free
    urgent: list[list[tuple[Nanos, int, int]]]  # [D] heaps: inputs on all devices, minus the level, op
    start: list[Nanos]  # [n]


def earliest_start(table: Timetable, level: Sequence[int], favourite: Sequence[int] = ()) -> list[Nanos]:
    """Enter all ops, and return [n] when each starts.

    Ties in start go to the higher level, then to the smaller row, then to the device that TensorFlow would prefer. An
    op that takes no time is entered as soon as it is ready. Raises InfeasibleError where no device has room.

    With `favourite`, a device whose last op has a favourite waits for it, if the favourite is ready and starts nowhere
    earlier. Meanwhile it takes only urgent ops, whose inputs are on all of their devices. A device of several lanes
    does not wait.
    """
    problem = table.problem
    devices = range(len(problem.capacity))
    board = Board(
        table,
        open_waits(problem),
        level,
        favourite,
        free=[[0] * lanes for lanes in problem.tables.lanes.tolist()],
        last=[-1 for _ in devices],
        ready={},
        later=[[] for _ in devices],
        there=[[] for _ in devices],
        urgent=[[] for _ in devices],
        start=[0] * len(problem.group),
    )
    _offer(board, at_once(board.waits))
    while board.ready:
        found = [pair for device in devices if (pair := _head(board, device))]
        if not found:  # the devices that had room have none now, or a group was decided for another one
            _rebuild(board)
            continue
        first = min(found)
        begun, _, op, device = min(found, key=lambda pair: (*pair[:3], _preference(problem, op_of=pair, first=first)))
        _enter(board, op, device, begun)
    return board.start


def _preference(problem: Problem, *, op_of: Pair, first: Pair) -> int:
    """The place of a device among those that its op may use; of interest only where all else is equal."""
    if op_of[:3] != first[:3]:
        return 0
    return problem.allowed[problem.group[op_of[2]]].index(op_of[3])


def _offer(board: Board, ops: Sequence[int]) -> None:
    """Show ready ops to their devices; those that take no time are entered at once, with all that they release."""
    problem, pending = board.table.problem, sorted(ops)
    heapify(pending)
    while pending:
        op = heappop(pending)
        if floats(board.table, op):
            for reader in released(board.waits, op, 0):
                heappush(pending, reader)
        elif problem.instant[op]:
            when = arrivals(board.table, op)
            device = min(choices(board.table, op), key=when.__getitem__)
            board.start[op] = when[device]
            settle(board.table, op, device, when[device])
            for reader in released(board.waits, op, when[device]):
                heappush(pending, reader)
        else:
            board.ready[op] = arrivals(board.table, op)
            _show(board, op)


def _show(board: Board, op: int) -> None:
    when, low = board.ready[op], -board.level[op]
    devices = choices(board.table, op)
    for device in devices:
        heappush(board.later[device], (when[device], low, op))
    if board.favourite:
        everywhere = max(when[device] for device in devices)
        for device in devices:
            heappush(board.urgent[device], (everywhere, low, op))


def _rebuild(board: Board) -> None:
    """Show all that is ready again, to the devices that have room now."""
    for heaps in (board.later, board.there, board.urgent):
        for heap in heaps:
            heap.clear()
    for op in board.ready:
        _show(board, op)


def _head(board: Board, device: int) -> Pair | None:
    """The pair that a device would enter next."""
    now, later, there = board.free[device][0], board.later[device], board.there[device]
    while later and later[0][0] <= now:
        _, low, op = heappop(later)
        heappush(there, (low, op))
    if board.favourite and (pair := _awaited(board, device, now)):
        return pair
    while there and not _possible(board, there[0][1], device):
        heappop(there)
    if there:
        return now, *there[0], device
    while later and not _possible(board, later[0][2], device):
        heappop(later)
    return (*later[0], device) if later else None


def _awaited(board: Board, device: int, now: Nanos) -> Pair | None:
    """The pair of a device that waits for the favourite of its last op; None: it does not wait."""
    wanted = board.favourite[board.last[device]] if board.last[device] >= 0 else -1
    when = board.ready.get(wanted)
    if when is None or len(board.free[device]) > 1 or not _possible(board, wanted, device):
        return None
    begin = max(now, when[device])
    others = (max(board.free[d][0], when[d]) for d in choices(board.table, wanted))
    if begin > min(others):
        return None
    urgent = board.urgent[device]
    while urgent and not _possible(board, urgent[0][2], device):
        heappop(urgent)
    if urgent and max(now, urgent[0][0]) < begin:
        return max(now, urgent[0][0]), urgent[0][1], urgent[0][2], device
    return begin, -board.level[wanted], wanted, device


def _possible(board: Board, op: int, device: int) -> bool:
    return op in board.ready and device in choices(board.table, op)


def _enter(board: Board, op: int, device: int, begun: Nanos) -> None:
    end = begun + board.table.problem.run[op][device]
    heapreplace(board.free[device], end)
    board.last[device], board.start[op] = op, begun
    del board.ready[op]
    settle(board.table, op, device, end)
    _offer(board, released(board.waits, op, end))
