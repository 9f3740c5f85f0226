"""The critical path of a run: back from what ended last, through whatever delayed each start.

A task starts when its last needed input has come. For a Merge that is the data input that woke it, or a control input
after it. A task starts later where it waits for a lane or a link: then the task before it there is on the path.

A transfer is up to five tasks, one after the other: its request, packing, the wire, its latency, and unpacking. In its
latency its links are free for others. So each task on the path ends exactly when the next one starts, and the path
explains the whole makespan.

On the wire a transfer may wait for each of its serial links anew. The path has the link that was through with its bytes
last, and before that whatever occupied this link. So the wire counts for as long as that link is occupied, and a
transfer may be there twice, for two of its links. Where transfers share a link, the time that others cost a transfer
counts as its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.execution.engine import Outcome
from simulator.execution.tables import Tables
from simulator.execution.trace import PACK, REQUEST, UNPACK, WIRE, transfer_of, transfer_task
from simulator.units import Nanos


@dataclass(frozen=True, eq=False)
class _StepRecord:
    """Workings: the outcome as lists, and who ended where at which moment."""

    tables: Tables
    outcome: Outcome
    device: list[int]  # of each op
    ready: list[int]
    start: list[int]
    end: list[int]
    begin: list[list[int]]  # [5][X] of each stretch of each transfer
    until: list[list[int]]  # [5][X] its end
    lane_until: dict[tuple[int, int], int]  # (device, time) -> a task of some length that ended then
    first_hold: list[int]  # [X+1]
    held_by: list[int]  # [H] transfer
    hold_start: list[int]  # [H]
    link: list[int]  # [H]
    hold_until: list[int]  # [H]
    link_until: dict[tuple[int, int], int]  # (link, time) -> the hold of some length that ended then


def critical_path(tables: Tables, outcome: Outcome) -> list[tuple[int, Nanos]]:
    """Tasks in order of time, with the beginning of each: ops (>= 0) and stretches of transfers (`transfer_task`), from
    one that starts at 0 to one that ends last, each until the next begins. A wire is there for one of its links.
    """
    if not len(tables):
        return []
    record = _record(tables, outcome)
    last = max(range(len(tables)), key=lambda op: (record.end[op], -op))
    came = record.until[UNPACK]
    if max(came, default=0) > record.end[last]:  # to a Merge that did not wait for it
        last = transfer_task(came.index(max(came)), UNPACK)
    path, seen = [last], {last}
    while (before := _before(record, path[-1], seen)) is not None:
        path.append(before)
        seen.add(before)
    return [_named(record, task) for task in path[::-1] if _counts(record, task)]


def _record(tables: Tables, outcome: Outcome) -> _StepRecord:
    crossing = outcome.transfers
    device, start, end = outcome.device.tolist(), outcome.start_ns.tolist(), outcome.end_ns.tolist()
    asked, sent = outcome.transfer_ready_ns.tolist(), outcome.transfer_start_ns.tolist()
    packed, through, came = (
        column.tolist() for column in (outcome.pack_end_ns, outcome.wire_end_ns, outcome.transfer_end_ns)
    )
    request = (outcome.transfer_ready_ns - tables.routes.request_ns[crossing.route]).tolist()
    begin = [request, outcome.pack_start_ns.tolist(), sent, through, outcome.unpack_start_ns.tolist()]
    until = [asked, packed, through, came, outcome.unpack_end_ns.tolist()]
    link, until_ns = outcome.hold_link.tolist(), outcome.hold_end_ns.tolist()
    lasting = np.flatnonzero(outcome.hold_end_ns > outcome.hold_start_ns).tolist()
    link_until = {(link[hold], until_ns[hold]): hold for hold in lasting}
    lane_until = {(device[op], end[op]): op for op in range(len(end)) if end[op] > start[op]}
    for stretch, where in ((PACK, crossing.source), (UNPACK, crossing.target)):
        for transfer, home in enumerate(tables.home[where].tolist()):
            if until[stretch][transfer] > begin[stretch][transfer]:
                lane_until.setdefault((home, until[stretch][transfer]), transfer_task(transfer, stretch))
    return _StepRecord(
        tables=tables,
        outcome=outcome,
        device=device,
        ready=outcome.ready_ns.tolist(),
        start=start,
        end=end,
        begin=begin,
        until=until,
        lane_until=lane_until,
        first_hold=outcome.hold_ptr.tolist(),
        held_by=np.repeat(np.arange(len(crossing)), np.diff(outcome.hold_ptr)).tolist(),
        hold_start=outcome.hold_start_ns.tolist(),
        hold_until=until_ns,
        link=link,
        link_until=link_until,
    )


def _counts(record: _StepRecord, task: int) -> bool:
    """Whether it is to be shown: not a stretch of no length, but for the wire."""
    transfer, stretch = transfer_of(task)
    return task >= 0 or stretch == WIRE or record.until[stretch][transfer] > record.begin[stretch][transfer]


def _named(record: _StepRecord, task: int) -> tuple[int, Nanos]:
    """The task, and when it began."""
    if task >= len(record.start):
        hold = task - len(record.start)
        return transfer_task(record.held_by[hold], WIRE), record.hold_start[hold]
    if task >= 0:
        return task, record.start[task]
    transfer, stretch = transfer_of(task)
    return task, record.begin[stretch][transfer]


def _before(record: _StepRecord, task: int, seen: set[int]) -> int | None:
    """The task whose end let this one start; None: nothing held it, it starts at 0.

    While the path is looked for, n + h stands for the wire of a transfer as its hold h has it.
    """
    if task >= len(record.start):
        return _before_hold(record, task - len(record.start))
    if task >= 0:
        if record.start[task] > record.ready[task]:
            return record.lane_until[record.device[task], record.start[task]]
        return _last_input(record, task, seen)
    transfer, stretch = transfer_of(task)
    if stretch == REQUEST:
        return _poster(record, transfer)
    began = record.begin[stretch][transfer]
    if stretch == PACK and began == record.until[REQUEST][transfer]:
        return _asker(record, transfer)
    if began == record.until[stretch - 1][transfer]:
        return _through(record, transfer) if stretch - 1 == WIRE else transfer_task(transfer, stretch - 1)
    home = record.tables.home[getattr(record.outcome.transfers, "source" if stretch == PACK else "target")[transfer]]
    return record.lane_until[int(home), began]


def _asker(record: _StepRecord, transfer: int) -> int:
    """What a transfer waited for before it was asked for: its value, its Recv, or the request of that."""
    value = int(record.tables.tensor_op[record.outcome.transfers.tensor[transfer]])
    asked = record.until[REQUEST][transfer]
    if record.end[value] == asked:
        return value
    if record.begin[REQUEST][transfer] < asked:
        return transfer_task(transfer, REQUEST)
    return int(record.tables.post[record.outcome.transfers.tensor[transfer]])


def _poster(record: _StepRecord, transfer: int) -> int | None:
    """The op that posted the Recv; None: it was posted when the step began."""
    poster = int(record.tables.post[record.outcome.transfers.tensor[transfer]])
    return poster if poster >= 0 else None


def _through(record: _StepRecord, transfer: int) -> int:
    """The wire of a transfer, for the link that its bytes were through last; for the first, where none of those is."""
    first, end = record.first_hold[transfer : transfer + 2]
    if first == end:
        return transfer_task(transfer, WIRE)
    through = record.until[WIRE][transfer]
    slowest = next((hold for hold in range(first, end) if record.hold_until[hold] == through), first)
    return len(record.start) + slowest


def _before_hold(record: _StepRecord, hold: int) -> int:
    """What kept a transfer from a link until then: whoever had this link, or the one before it, or packing."""
    transfer, began = record.held_by[hold], record.hold_start[hold]
    while hold > record.first_hold[transfer] and record.hold_start[hold - 1] == began:
        hold -= 1
    if hold == record.first_hold[transfer] and began == record.until[PACK][transfer]:
        return transfer_task(transfer, PACK)
    return len(record.start) + record.link_until[record.link[hold], began]


def _last_input(record: _StepRecord, op: int, seen: set[int]) -> int | None:
    tables = record.tables
    edges = tables.in_edge[tables.in_ptr[op] : tables.in_ptr[op + 1]]
    if tables.merge[op]:  # a value that came last, but not first, was not needed: look at the control inputs first
        control = edges[tables.tensor_row[tables.edge_tensor[edges]] < 0]
        edges = np.append(control, record.outcome.first[op])
    for edge, tensor in zip(edges.tolist(), tables.edge_tensor[edges].tolist(), strict=True):
        transfer = int(record.outcome.transfers.of_edge[edge])
        cause = int(tables.tensor_op[tensor]) if transfer < 0 else transfer_task(transfer, UNPACK)
        came = record.end[cause] if transfer < 0 else record.until[UNPACK][transfer]
        if came == record.ready[op] and cause not in seen:
            return cause
    return None
