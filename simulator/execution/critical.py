"""The critical path of a run: back from what ended last, through whatever delayed each start.

A task starts when its last needed input has come (for a Merge: its first data input, or a control input after it), or
later, when a lane or a link becomes free: then the task that held it until that moment is to blame. So each task on
the path ends exactly when the next one starts, and the path explains the whole makespan.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.execution.engine import Outcome
from simulator.execution.tables import Tables


@dataclass(frozen=True, eq=False)
class _Record:
    """Workings: the outcome as lists, and who ended where at which moment."""

    tables: Tables
    outcome: Outcome
    device: list[int]
    ready: list[int]  # ops
    start: list[int]
    end: list[int]
    asked: list[int]  # transfers
    sent: list[int]
    came: list[int]
    lane_until: dict[tuple[int, int], int]  # (device, time) -> an op of some length that ended then
    link_until: dict[tuple[int, int], list[int]]  # (link, time) -> transfers that ended then


def critical_path(tables: Tables, outcome: Outcome) -> list[int]:
    """Tasks in order of time: ops (>= 0) and transfers (-1 - row), from one that starts at 0 to one that ends last."""
    if not len(tables):
        return []
    record = _record(tables, outcome)
    last = max(range(len(tables)), key=lambda op: (record.end[op], -op))
    if max(record.came, default=0) > record.end[last]:  # to a Merge that did not wait for it
        last = -1 - record.came.index(max(record.came))
    path, seen = [last], {last}
    while (before := _before(record, path[-1], seen)) is not None:
        path.append(before)
        seen.add(before)
    return path[::-1]


def _record(tables: Tables, outcome: Outcome) -> _Record:
    device, start, end = outcome.device.tolist(), outcome.start_ns.tolist(), outcome.end_ns.tolist()
    came = outcome.transfer_end_ns.tolist()
    link_until: dict[tuple[int, int], list[int]] = {}
    for transfer, route in enumerate(outcome.crossings.route):
        for link in route:
            link_until.setdefault((link, came[transfer]), []).append(transfer)
    return _Record(
        tables=tables,
        outcome=outcome,
        device=device,
        ready=outcome.ready_ns.tolist(),
        start=start,
        end=end,
        asked=outcome.transfer_ready_ns.tolist(),
        sent=outcome.transfer_start_ns.tolist(),
        came=came,
        lane_until={(device[op], end[op]): op for op in range(len(end)) if end[op] > start[op]},
        link_until=link_until,
    )


def _before(record: _Record, task: int, seen: set[int]) -> int | None:
    """The task whose end let this one start; None: nothing held it, it starts at 0."""
    if task < 0:
        return _before_transfer(record, -1 - task, seen)
    if record.start[task] > record.ready[task]:
        return record.lane_until[record.device[task], record.start[task]]
    return _last_input(record, task, seen)


def _before_transfer(record: _Record, transfer: int, seen: set[int]) -> int:
    crossing, began = record.outcome.crossings, record.sent[transfer]
    if began == record.asked[transfer]:
        return int(record.tables.tensor_op[crossing.tensor[transfer]])
    holders = [
        other
        for link in crossing.route[transfer]
        for other in record.link_until.get((link, began), ())
        if other != transfer and -1 - other not in seen
    ]
    # one of some length, if there is one: what takes no time holds no link
    return -1 - min(holders, key=lambda other: (record.sent[other] == began, record.asked[other], other))


def _last_input(record: _Record, op: int, seen: set[int]) -> int | None:
    tables = record.tables
    edges = tables.in_edge[tables.in_ptr[op] : tables.in_ptr[op + 1]]
    tensors = tables.edge_tensor[edges]
    if tables.merge[op]:  # a value that came last, but not first, was not needed: look at the control inputs first
        order = tables.tensor_row[tensors].argsort(kind="stable")
        edges, tensors = edges[order], tensors[order]
    for edge, tensor in zip(edges.tolist(), tensors.tolist(), strict=True):
        transfer = int(record.outcome.crossings.of_edge[edge])
        cause = int(tables.tensor_op[tensor]) if transfer < 0 else -1 - transfer
        came = record.end[cause] if transfer < 0 else record.came[transfer]
        if came == record.ready[op] and cause not in seen:
            return cause
    return None
