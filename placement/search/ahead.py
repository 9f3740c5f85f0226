"""A look ahead: the least that a step can take under a placement, before it is simulated.

Each op takes its time on its device, and each value that crosses the time of a transfer that waits for nothing. So the
longest chain behind each op is known at the price of one pass, a fifth of a simulation's. It refuses most moves that
the simulation would refuse, and lets the simulation of others end early. It also adds up all bytes that a device ever
holds. Where these fit at once, the simulation need not find peaks. No decision of the walk changes by it.

Plain Python over arrays, to be compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from placement.problem import NEVER
from simulator.columns import Ids, Ints
from simulator.execution.buffers import OWN
from simulator.execution.routes import alone_ns

if TYPE_CHECKING:
    from placement.search.decisions import Decisions


class Ahead(NamedTuple):
    """A step to look ahead in. Axes: n ops, E edges, D devices, K kinds of devices, S sizes, R paces of routes."""

    order: Ints  # [n] ops, each after its readers
    first: Ints  # [n+1] first edge of each op
    reader: Ints  # [E] but data inputs of Merges, which wait for one of them alone
    size: Ints  # [E] of the value; the last one is of those that are everywhere at once
    pace: Ints  # [D * D] of the route from a device to another
    wire_ns: Ints  # [S * R]
    run_ns: Ints  # [n * D] 0 where there is no kernel: the simulation refuses it
    lane: Ints  # [D] 1: one op runs at a time
    instant: Ints  # [n] 1: it takes no lane
    tail_ns: Ints  # [n] the result: the least time from the start of each op to the end of the step
    load_ns: Ints  # [D] working memory
    after_ns: Ints  # [D] working memory
    own_bytes: (
        Ints  # [n] that an op holds at any time: buffers of its own, scratch, and what is resident; and copies of
    )
    # what it reads in the other memory of a GPU
    sent_bytes: Ints  # [E] that the reader's device holds if the value crosses
    other_bytes: Ints  # [D] that a device may hold besides
    held_bytes: Ints  # [D] the result: no less than each device holds at any time


def ahead_of(decisions: Decisions) -> Ahead:
    """Lay a step out."""
    problem = decisions.problem
    tables, devices = problem.tables, len(problem.capacity)
    gate = tables.merge[tables.consumer] & (tables.tensor_row[tables.edge_tensor] >= 0)
    kept = np.flatnonzero(~gate)
    tensor = tables.edge_tensor[kept]
    maker = tables.tensor_op[tensor]
    by = np.argsort(maker, kind="stable")
    sizes, size = np.unique(tables.tensor_bytes, return_inverse=True)
    size = np.where(tables.stays | tables.replicable, len(sizes), size.reshape(-1))
    pace, paces = tables.routes.paces
    wire = [[0 if one is None else min(alone_ns(one, nbytes), NEVER) for one in paces] for nbytes in sizes.tolist()]

    own = np.bincount(tables.tensor_op, np.where(tables.forwards == OWN, tables.tensor_bytes, 0), len(tables))
    copied_in = np.bincount(
        tables.consumer, np.where(tables.changes, tables.tensor_bytes[tables.edge_tensor], 0), len(tables)
    )
    copied = int(tables.resident_bytes[np.unique(tables.tensor_op[tables.replicable])].sum())  # constants, to CPUs
    gated = int(tables.tensor_bytes[tables.edge_tensor[gate]].sum())

    sent = np.where(tables.stays, 0, tables.tensor_bytes)

    def column(values: object) -> Ints:
        return np.array(values, np.int64, order="C").reshape(-1)

    return Ahead(
        order=column(problem.topological[::-1]),
        first=column(np.searchsorted(maker[by], np.arange(len(tables) + 1))),
        reader=column(tables.consumer[kept][by]),
        size=column(size[tensor[by]] * len(paces)),
        pace=column(pace),
        wire_ns=column([*wire, [0] * len(paces)]),
        run_ns=column(np.maximum(tables.run_ns, 0)),
        lane=column(tables.lanes == 1),
        instant=column(tables.instant),
        tail_ns=np.zeros(len(tables), np.int64),
        load_ns=np.zeros(devices, np.int64),
        after_ns=np.zeros(devices, np.int64),
        own_bytes=column((own + copied_in).astype(np.int64) + tables.scratch_bytes + tables.resident_bytes),
        sent_bytes=column(sent[tensor[by]]),
        other_bytes=column(gated + np.where(problem.cpu, copied, 0)),
        held_bytes=np.zeros(devices, np.int64),
    )


def look_ahead(ahead: Ahead, device: Ids, limit: int) -> bool:
    """Tell whether the step may end by the limit. If so, `tail_ns` says how long it takes from each op's start, and
    `held_bytes` what devices hold at most.
    """
    devices = len(ahead.lane)
    for where in range(devices):
        ahead.load_ns[where], ahead.after_ns[where] = 0, NEVER
        ahead.held_bytes[where] = ahead.other_bytes[where]
    for at in range(len(ahead.order)):
        op = ahead.order[at]
        here = device[op]
        after = 0
        for edge in range(ahead.first[op], ahead.first[op + 1]):
            reader = ahead.reader[edge]
            there = device[reader]
            least = ahead.tail_ns[reader]
            if there != here:
                least += ahead.wire_ns[ahead.size[edge] + ahead.pace[here * devices + there]]
                ahead.held_bytes[there] += ahead.sent_bytes[edge]
            after = max(after, least)
        taken = ahead.run_ns[op * devices + here]
        if taken + after > limit:
            return False
        ahead.tail_ns[op] = taken + after
        ahead.held_bytes[here] += ahead.own_bytes[op]
        if ahead.lane[here] and not ahead.instant[op]:
            ahead.load_ns[here] += taken
            ahead.after_ns[here] = min(ahead.after_ns[here], after)
    for where in range(devices):
        if ahead.load_ns[where] > 0 and ahead.load_ns[where] + ahead.after_ns[where] > limit:
            return False
    return True


def work_of(ops: int, edges: int, tasks: Ids) -> int:
    """The work of a simulation, in steps of some 40 ns: `tasks` are those of transfers by kind."""
    transfers = 0
    for kind in range(len(tasks)):
        transfers += tasks[kind]
    return ops + (edges >> 1) + 2 * transfers
