"""Memory over time, computed after the run, since it never delays anything.

    resident         variables and constants of the nodes that run: as long as the step lasts
    an output        from its producer's start until its last consumer and its last transfer have ended
    a received copy  from its transfer's start until its last consumer on that device has ended
    a fetch          on the client's device until the step ends
    a feed           as long as the step lasts, if anybody reads it: the call that hands it in keeps it
    scratch          while the op runs; likewise outputs that nobody reads

Ops that pass a buffer on (Identity, Reshape, Merge, ReadVariableOp, ...) only lengthen its life. So does a hand-over
between CPU devices of one process. So do lists, stacks and arrays that keep it (`stored`), and ops that write over it
when nobody else needs it (`REUSES`). What packs and unpacks a transfer holds nothing of its own. What ends at an
instant is freed before what begins there. Outputs of a GPU that live in host memory (shapes, counters) count on the
GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, different, ids, ints, stable_order
from simulator.execution.buffers import RESIDENT
from simulator.execution.engine import StepRun
from simulator.execution.tables import Tables
from simulator.execution.trace import Allocations, Residents
from simulator.execution.transfers import copied


@dataclass(frozen=True, eq=False)
class Usage:
    """Memory in use. Axes: M instants at which it changed, in order of (time, device); D devices."""

    device: Ids  # [M]
    time_ns: Ints  # [M]
    nbytes: Ints  # [M] in use on that device from that moment
    peak_bytes: Ints  # [D]
    peak_ns: Ints  # [D] when it was reached first; 0 if nothing is ever allocated
    resident_bytes: Ints  # [D]


def usage(tables: Tables, ran: StepRun, held: Allocations) -> Usage:
    """The memory curve and the peak of each device. A peak counts what lives for no time, too."""
    devices = len(tables.devices)
    always = residents(tables, ran.device)
    resident = np.zeros(devices, np.int64)
    np.add.at(resident, always.device, always.nbytes)
    # within an instant: what ends, what begins, and then the end of what also began there
    phase = np.concatenate([np.ones(len(held.device), np.int64), np.where(held.end_ns > held.start_ns, 0, 2)])
    time = np.concatenate([held.start_ns, held.end_ns])
    where = np.concatenate([held.device, held.device])
    order = stable_order(where, time, phase)
    where, time = where[order], time[order]
    level = np.cumsum(np.concatenate([held.nbytes, -held.nbytes])[order]) + resident[where]  # each device ends at 0
    peak, peak_ns = resident.copy(), np.zeros(devices, np.int64)
    for device in different(where).tolist():
        rows = np.flatnonzero(where == device)
        best = rows[np.argmax(level[rows])]
        if level[best] > peak[device]:
            peak[device], peak_ns[device] = level[best], time[best]
    last = np.append((where[1:] != where[:-1]) | (time[1:] != time[:-1]), True)[: len(where)]
    rows = np.flatnonzero(last)
    rows = rows[stable_order(time[rows], where[rows])]
    return Usage(ids(where[rows]), ints(time[rows]), ints(level[rows]), ints(peak), ints(peak_ns), ints(resident))


def residents(tables: Tables, device: Ids) -> Residents:
    """The memory that each device holds all the time, by op. Copies of constants come last, one for each CPU."""
    edges = np.flatnonzero(copied(tables, device)[tables.edge_tensor])
    op = tables.tensor_op[tables.edge_tensor[edges]]
    copy, home = np.unique(np.stack([op, tables.home[device[tables.consumer[edges]]]]), axis=1)
    kept = tables.resident_bytes > 0
    kept[np.unique(op)] = False
    stays = np.flatnonzero(kept)
    held = np.concatenate([stays, copy])
    return Residents(
        node=ids(tables.node[held]),
        device=ids(np.concatenate([device[stays], home])),
        nbytes=ints(tables.resident_bytes[held]),
    )


def allocations(tables: Tables, ran: StepRun) -> Allocations:
    """The life of every buffer, received copy and scratch."""
    crossing = ran.transfers
    count = len(tables.tensor_op)
    copy = _copies(tables, ran)
    owner = _owners(tables, ran, copy)
    fed = tables.bound[tables.tensor_op] >= 0  # there from the beginning, whenever an executor comes to it
    start = np.concatenate([np.where(fed, 0, ran.start_ns[tables.tensor_op]), ran.moments.sent_ns])
    end = np.concatenate([np.where(fed, ran.makespan, ran.end_ns[tables.tensor_op]), ran.moments.unpacked_ns])
    np.maximum.at(end, owner, end.copy())
    client = tables.bound[tables.consumer] >= 0  # what it gets is kept until the step ends
    np.maximum.at(end, owner[copy], np.where(client, ran.makespan, ran.end_ns[tables.consumer]))
    np.maximum.at(end, owner[crossing.tensor], ran.moments.arrived_ns)
    _lengthen(tables, end, owner, copy)
    nbytes = np.concatenate([tables.made_bytes, tables.tensor_bytes[crossing.tensor]])
    sized = nbytes > 0
    sized[:count] &= tables.forwards != RESIDENT
    owner, scratch_bytes = _written_over(tables, ran, owner, copy, end, sized)
    owner = _followed(owner)
    np.maximum.at(end, owner, end.copy())
    device = np.concatenate([ran.device[tables.tensor_op], crossing.target])
    tensor = np.concatenate([np.arange(count), crossing.tensor])
    transfer = np.concatenate([np.full(count, -1), np.arange(len(crossing))])
    real = (owner == np.arange(len(owner))) & sized
    rows, scratch = np.flatnonzero(real), np.flatnonzero(scratch_bytes > 0)
    return Allocations(
        tensor=ids(np.concatenate([tables.tensor_row[tensor[rows]], -1 - tables.node[scratch]])),
        transfer=ids(np.concatenate([transfer[rows], np.full(len(scratch), -1)])),
        device=ids(np.concatenate([device[rows], ran.device[scratch]])),
        start_ns=ints(np.concatenate([start[rows], ran.start_ns[scratch]])),
        end_ns=ints(np.concatenate([end[rows], ran.end_ns[scratch]])),
        nbytes=ints(np.concatenate([nbytes[rows], scratch_bytes[scratch]])),
    )


def _lengthen(
    tables: Tables,
    end: npt.NDArray[np.int64],
    owner: npt.NDArray[np.int64],
    copy: npt.NDArray[np.int64],
) -> None:
    """Lengthen what lists and arrays keep to their own life: the newest first, again where an older one was later."""
    keepers, kept = owner[tables.keeper[::-1]].tolist(), owner[copy[tables.kept[::-1]]].tolist()
    changed = bool(keepers)
    while changed:
        changed = False
        for keeper, one in zip(keepers, kept, strict=True):
            if end[one] < end[keeper]:
                end[one] = end[keeper]
                changed = True


def _copies(tables: Tables, ran: StepRun) -> npt.NDArray[np.int64]:
    """[E] which copy each consumer reads: the tensor itself, or T + the transfer that brought it."""
    arrived = ran.transfers.of_edge.astype(np.int64)
    return np.where(arrived < 0, tables.edge_tensor, len(tables.tensor_op) + arrived)


def _owners(tables: Tables, ran: StepRun, copy: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[T + X] whose buffer each tensor and received copy really is: its own, or the one that was passed on."""
    crossing = ran.transfers
    count = len(tables.tensor_op)
    owner = np.arange(count + len(crossing))
    handed = tables.routes.handed[crossing.route]
    owner[count:][handed] = crossing.tensor[handed]
    passing = np.flatnonzero(tables.forwards >= 0)
    owner[passing] = _views(tables, ran, copy, passing)
    return _followed(owner)


def _followed(owner: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The same with the end of each chain; the length of chains halves each time."""
    while True:
        further = owner[owner]
        if (further == owner).all():
            return owner
        owner = further


def _views(
    tables: Tables, ran: StepRun, copy: npt.NDArray[np.int64], passing: npt.NDArray[np.intp]
) -> npt.NDArray[np.int64]:
    """The copy that each of these tensors is a view of; a Merge passes on the input that woke it.

    A value that was stored on another device is a part of the copy of its list. Out of an array it is a copy of its
    own.
    """
    edge, first = tables.forwards[passing], woken_by(tables, ran)[tables.tensor_op[passing]]
    apart = ran.device[tables.consumer[edge]] != ran.device[tables.tensor_op[passing]]
    edge = np.where(first >= 0, first, np.where(apart, tables.out_of[passing], edge))
    found: npt.NDArray[np.int64] = np.where(edge < 0, passing, copy[edge])
    return found


def woken_by(tables: Tables, ran: StepRun) -> Ids:
    """[n] the edge whose value a Merge passes on: the data input that came first, of several the lowest; else -1."""
    found = np.full(len(tables), -1)
    edge = np.flatnonzero(tables.gate)
    by, here = ran.transfers.of_edge[edge], ran.end_ns[tables.tensor_op[tables.edge_tensor[edge]]]
    came = np.where(by < 0, here, np.append(ran.moments.unpacked_ns, 0)[by])
    order = np.lexsort((edge, came, tables.consumer[edge]))[::-1]  # the first of each comes last and stays
    found[tables.consumer[edge[order]]] = edge[order]
    return ids(found)


def _written_over(
    tables: Tables,
    ran: StepRun,
    owner: npt.NDArray[np.int64],
    copy: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    sized: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`owner` with the outputs that are written over an input, and [n] the scratch memory less those that nobody reads.

    Of each buffer, [T + X], `end` is when its last reader has ended, and `sized` tells whether the step made it.
    `copy` [E] is what each edge brings.
    """
    last, op, before = _last_uses(tables, ran, owner, copy, end)
    found = owner[copy[tables.over]]
    others = np.where(op[found] == tables.writer, before[found], last[found])
    free = np.flatnonzero(sized[found] & (others <= ran.start_ns[tables.writer]))
    pairs = free[np.unique(tables.writer[free], return_index=True)[1]]  # the first of each op
    joined, scratch = owner.copy(), tables.scratch_bytes.astype(np.int64)
    read = tables.written[pairs] >= 0
    joined[tables.written[pairs[read]]] = found[pairs[read]]
    unread = pairs[~read]
    scratch[tables.writer[unread]] -= tables.tensor_bytes[tables.edge_tensor[tables.over[unread]]]
    return joined, scratch


def _last_uses(
    tables: Tables, ran: StepRun, owner: npt.NDArray[np.int64], copy: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """By buffer: when its last user ends, which op that is (-1: none), and when the last of the others does."""
    count, crossing = len(tables.tensor_op), ran.transfers
    client = tables.bound >= 0
    makes = np.where(client[tables.tensor_op], ran.makespan, ran.end_ns[tables.tensor_op])
    reads = np.where(client[tables.consumer], ran.makespan, ran.end_ns[tables.consumer])
    kept = owner[copy[tables.kept]]
    uses: tuple[tuple[npt.NDArray[np.integer], ...], ...] = (  # of which buffer, until when, by which op
        (owner[:count], makes, tables.tensor_op),
        (owner[count:], ran.moments.unpacked_ns, np.full(len(crossing), -1)),
        (owner[copy], reads, tables.consumer),
        (owner[crossing.tensor], ran.moments.arrived_ns, np.full(len(crossing), -1)),
        (kept, end[owner[tables.keeper]], np.full(len(kept), -1)),
    )
    buffer, until, by = (np.concatenate(column).astype(np.int64) for column in zip(*uses, strict=True))
    last, op, before = np.zeros(len(owner), np.int64), np.full(len(owner), -1), np.zeros(len(owner), np.int64)
    np.maximum.at(last, buffer, until)
    latest = until == last[buffer]
    op[buffer[latest]] = by[latest]  # of several the last of these
    others = (by != op[buffer]) | (by < 0)
    np.maximum.at(before, buffer[others], until[others])
    return last, op, before
