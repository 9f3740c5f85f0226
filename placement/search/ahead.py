"""A look ahead: the least that a step can take under a placement, and what it likely takes, before it is simulated.

Each op takes its time on its device, and each value that crosses the time of a transfer that waits for nothing. So the
longest chain behind each op is known at the price of one pass, a tenth of a simulation's. It lets the simulation end
early. It also adds up all bytes that a device ever holds. Where these fit at once, the simulation need not find peaks.

The time that a step likely takes follows in the same pass. In it ops of a lane wait for each other in the order in
which they start under the current placement. Most moves are refused without a simulation where the step would then end
clearly past the limit. So twice as many are tried in the same time. But some change the order for the better, as an op
that waits for a transfer lets others go first. So one of four moves is simulated all the same.

Plain Python over arrays, to be compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from placement.columns import alone_of_sizes
from simulator.columns import Ids, Ints, stable_order
from simulator.execution.buffers import OWN
from simulator.units import NEVER

if TYPE_CHECKING:
    from placement.search.decisions import Decisions


class Ahead(NamedTuple):
    """A step to look ahead in. Axes: n ops, E edges, D devices, K kinds of devices, S sizes, R paces of routes."""

    order: Ids  # [n] ops, each after its readers: by falling start under the current placement, where that is known
    first: Ids  # [n+1] first edge of each op
    reader: Ids  # [E] but data inputs of Merges, which wait for one of them alone
    size: Ids  # [E] of the value; the last one is of those that are everywhere at once
    way: Ids  # [E] where the values of its way begin in `pace`
    pace: Ids  # [ways * D * D] by way and devices of both ends
    wire_ns: Ints  # [S * R]
    run_ns: Ints  # [n * K] 0 where there is no kernel: the simulation refuses it
    kind: Ids  # [D]
    lane: Ids  # [D] 1: one op runs at a time
    instant: Ids  # [n] 1: it takes no lane
    rest_ns: Ints  # [n] the result: the least time from the start of each op to the end of the step
    load_ns: Ints  # [D] working memory
    after_ns: Ints  # [D] working memory
    likely_ns: Ints  # [n] working memory: as `rest_ns`, where ops wait for lanes in their order
    lane_ns: Ints  # [D] working memory: the likely time from the start of the last op that was seen on the lane
    # [n] that an op holds: buffers of its own, scratch, what is resident, and copies in the other memory of a GPU
    own_bytes: Ints
    sent_bytes: Ints  # [E] that the reader's device holds if the value crosses
    other_bytes: Ints  # [D] that a device may hold besides
    held_bytes: Ints  # [D] the result: no less than each device holds at any time


def ahead_of(decisions: Decisions) -> Ahead:
    """Lay a step out."""
    problem = decisions.problem
    tables, devices = problem.tables, len(problem.capacity)
    gate = tables.gate
    kept = np.flatnonzero(~gate)
    tensor = tables.edge_tensor[kept]
    maker = tables.tensor_op[tensor]
    by = stable_order(maker)
    ways = tables.ways
    size, wire = alone_of_sizes(tables, ways.paces, no_route=0)  # the simulation refuses a transfer that has none
    sizes, paces = wire.shape
    size = np.where(tables.unsent, sizes, size)

    own = np.bincount(tables.tensor_op, np.where(tables.forwards == OWN, tables.made_bytes, 0), len(tables))
    changes = tables.made_host[tables.edge_tensor] != tables.consumer_host
    copied_in = np.bincount(tables.consumer, np.where(changes, tables.tensor_bytes[tables.edge_tensor], 0), len(tables))
    copied = int(tables.resident_bytes[np.unique(tables.tensor_op[tables.replicable])].sum())  # constants, to CPUs
    gated = int(tables.tensor_bytes[tables.edge_tensor[gate]].sum())

    sent = np.where(tables.stays, 0, tables.tensor_bytes)

    def column(values: object) -> Ints:
        return np.array(values, np.int64, order="C").reshape(-1)

    def narrow(values: object) -> Ids:  # what every op and edge reads fits a nearer cache
        return np.array(values, np.int32, order="C").reshape(-1)

    return Ahead(
        order=narrow(problem.topological[::-1]),
        first=narrow(np.searchsorted(maker[by], np.arange(len(tables) + 1))),
        reader=narrow(tables.consumer[kept][by]),
        size=narrow(size[tensor[by]] * paces),
        way=narrow(tables.way[kept][by] * devices**2),
        pace=narrow(ways.pace),
        wire_ns=column([*wire, [0] * paces]),
        run_ns=column(np.maximum(tables.kind_ns, 0)),
        kind=narrow(tables.kind),
        lane=narrow(tables.lanes == 1),
        instant=narrow(tables.instant),
        rest_ns=np.zeros(len(tables), np.int64),
        load_ns=np.zeros(devices, np.int64),
        after_ns=np.zeros(devices, np.int64),
        likely_ns=np.zeros(len(tables), np.int64),
        lane_ns=np.zeros(devices, np.int64),
        own_bytes=column((own + copied_in).astype(np.int64) + tables.scratch_bytes + tables.resident_bytes),
        sent_bytes=column(sent[tensor[by]]),
        other_bytes=column(gated + np.where(problem.cpu, copied, 0)),
        held_bytes=np.zeros(devices, np.int64),
    )


def look_ahead(ahead: Ahead, device: Ids, limit: int, latest: int) -> bool:
    """Tell whether the step may end by the limit, and in its order by the latest moment. If so, `rest_ns` says how long
    it takes from each op's start, and `held_bytes` what devices hold at most.
    """
    devices = len(ahead.lane)
    kinds = len(ahead.run_ns) // max(len(ahead.order), 1)
    for where in range(devices):
        ahead.load_ns[where], ahead.after_ns[where], ahead.lane_ns[where] = 0, NEVER, 0
    for at in range(len(ahead.order)):
        op = ahead.order[at]
        here = device[op]
        after, likely = 0, 0
        for edge in range(ahead.first[op], ahead.first[op + 1]):
            reader = ahead.reader[edge]
            there = device[reader]
            wire = ahead.wire_ns[ahead.size[edge] + ahead.pace[ahead.way[edge] + here * devices + there]]
            after = max(after, ahead.rest_ns[reader] + wire)
            likely = max(likely, ahead.likely_ns[reader] + wire)
        taken = ahead.run_ns[op * kinds + ahead.kind[here]]
        if ahead.lane[here] > 0 and ahead.instant[op] == 0:
            likely = max(likely, ahead.lane_ns[here])
            ahead.lane_ns[here] = likely + taken
            ahead.load_ns[here] += taken
            ahead.after_ns[here] = min(ahead.after_ns[here], after)
        if taken + after > limit or taken + likely > latest:
            return False
        ahead.rest_ns[op], ahead.likely_ns[op] = taken + after, taken + likely
    for where in range(devices):
        if ahead.load_ns[where] > 0 and ahead.load_ns[where] + ahead.after_ns[where] > limit:
            return False
    return True


def add_up_bytes(ahead: Ahead, device: Ids) -> None:
    """Fill in `held_bytes`."""
    for where in range(len(ahead.lane)):
        ahead.held_bytes[where] = ahead.other_bytes[where]
    for op in range(len(device)):
        here = device[op]
        ahead.held_bytes[here] += ahead.own_bytes[op]
        for edge in range(ahead.first[op], ahead.first[op + 1]):
            there = device[ahead.reader[edge]]
            if there != here:
                ahead.held_bytes[there] += ahead.sent_bytes[edge]


def work_of(ops: int, edges: int, tasks: Ids) -> int:
    """The work of a simulation, in steps of some 40 ns: `tasks` are those of transfers by kind."""
    transfers = 0
    for kind in range(len(tasks)):
        transfers += tasks[kind]
    return ops + (edges >> 1) + 2 * transfers
