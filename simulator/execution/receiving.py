"""Receive late: keep each Recv waiting until its copy is needed (TensorFlow white paper, 2015, section 5.2).

A Recv without inputs is posted when the step begins. Its copy takes memory from the moment at which the value can be
had, however late it is read. The paper delays such Recvs by control edges, found by ASAP and ALAP times. Here the times
come from a simulation and are walked back from its end (`critical.latest_ends`). A Recv looks at the ops on its device
that have ended, at their latest, when the transfer must be asked for. It waits for that one of them which ended last.

No cycle can arise. Latest times never fall along an edge of the pieces but into a Merge, and rise along an added one,
since a transfer takes time. So no Recv waits for an op behind a Merge. Nor does one wait for an op
behind a Switch or an Enter, which may be dead or run more than once. A Recv that waits for something already, as in
loops, stays as it is.

While nobody overtakes in a lane or on a link, nothing ends after its latest time and the step is as long as it was.
What becomes ready later may be overtaken, though, and a value that is sent later is kept longer where it was made. So
the pieces are simulated again. The new edges stay if the step takes no longer, no device's peak is higher and copies
are held no longer, all in all. If not, each half of them is tried by itself, and so on, in a bounded number of
simulations. Larger parts and those that gain more come first.

TensorFlow's own `enable_recv_scheduling` (partitioning/passes/scheduling.py) is another thing. It measures nothing,
counts each op as a microsecond, and lets every Recv begin six hundredths of that step before its turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, ids
from simulator.execution.critical import latest_ends
from simulator.execution.trace import Kind, Trace
from simulator.partitioning.partitions import unconditional, with_waits
from simulator.units import Nanos

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.partitioning.partitions import Partitions

MOST_TRIALS = 24  # simulations at most, besides the one that gives the times


@dataclass(frozen=True, eq=False)
class Received:
    """The pieces of a step with Recvs delayed, and how it ran without and with that."""

    rule: str  # "whitepaper": here; "tensorflow": as enable_recv_scheduling does
    cut: Partitions  # as they were
    partitions: Partitions  # where some Recvs wait
    without: Trace
    trace: Trace

    @cached_property
    def delayed(self) -> Ids:
        """Transfers whose Recvs wait and did not before, ascending."""
        return ids(np.flatnonzero(_wait(self.partitions) & ~_wait(self.cut)))


@dataclass(frozen=True, slots=True)
class _Wait:
    """A Recv that could wait for an op."""

    transfer: int
    op: int
    gain: int  # bytes of the copy times ns by which it would come later


def receive_late(
    partitions: Partitions,
    cluster: Cluster,
    simulate: Callable[[Partitions], Trace],
    *,
    trials: int = MOST_TRIALS,
) -> Received:
    """Delay the Recvs of the pieces as far as it costs no time and no memory anywhere, by `simulate`.

    The makespan is not longer and no device's peak higher than without, nor are copies held longer. Deterministic;
    ties between ops go to the one that may end earlier, then to the lower row.
    """
    without = simulate(partitions)
    waits = sorted(_waits(without, partitions, cluster), key=lambda one: (-one.gain, one.transfer))
    kept: list[_Wait] = []
    best, cut = without, partitions
    parts = deque([waits] if waits else [])
    while parts and trials:
        trials -= 1
        part = parts.popleft()
        tried = with_waits(partitions, _edges(partitions, [*kept, *part]))
        trace = simulate(tried)
        if _better(trace, best, without.makespan):
            kept, best, cut = [*kept, *part], trace, tried
        elif len(part) > 1:
            parts += [part[: len(part) // 2], part[len(part) // 2 :]]
    return Received("whitepaper", partitions, cut, without, best)


def _wait(partitions: Partitions) -> npt.NDArray[np.bool_]:
    """[X] whether each transfer's Recv waits for something else than its value."""
    waits: npt.NDArray[np.bool_] = np.diff(partitions.graph.in_ptr)[partitions.recv] > 0
    return waits


def _better(trace: Trace, best: Trace, makespan: Nanos) -> bool:
    """Tell whether a step with more waits takes no longer than that, has no higher peak than the best, and gains.

    Where one copy waits another may take its place in line and be held longer: that is no gain.
    """
    lower = bool((trace.peak_bytes <= best.peak_bytes).all())
    return trace.makespan <= makespan and lower and copies_held(trace) < copies_held(best)


def copies_held(trace: Trace) -> int:
    """Byte-nanoseconds for which received copies are held in a step, on all devices."""
    held = trace.allocations
    if held is None:
        return 0
    lives = zip(held.transfer.tolist(), held.start_ns.tolist(), held.end_ns.tolist(), held.nbytes.tolist(), strict=True)
    return sum((end - start) * nbytes for transfer, start, end, nbytes in lives if transfer >= 0)


def _edges(partitions: Partitions, waits: list[_Wait]) -> list[tuple[int, int]]:
    return [(one.op, int(partitions.recv[one.transfer])) for one in sorted(waits, key=lambda one: one.transfer)]


def _waits(trace: Trace, partitions: Partitions, cluster: Cluster) -> Iterator[_Wait]:
    """For each Recv that could be posted later the op after which it should be."""
    graph, tasks, moments = partitions.graph, trace.tasks, trace.moments
    latest, first = latest_ends(tasks), _first_tasks(trace)
    latest_asked = latest[first] - tasks.end_ns[first] + tasks.start_ns[first]
    ops = _ends(trace, latest, partitions)
    begun = moments.sent_ns - (moments.packed_ns - tasks.start_ns[first]) * (tasks.kind[first] == Kind.PACK)
    often = np.bincount(trace.transfers.row, minlength=len(partitions.recv))
    for taken in np.flatnonzero(often[trace.transfers.row] == 1).tolist():
        row = int(trace.transfers.row[taken])
        recv = partitions.recv[row]
        source, target = int(partitions.src_device[row]), int(partitions.dst_device[row])
        nbytes = int(trace.transfers.nbytes[taken])
        lasts = moments.arrived_ns[taken] > moments.sent_ns[taken]
        posted_at_once = graph.in_ptr[recv] == graph.in_ptr[recv + 1]
        if nbytes <= 0 or not cluster.routes[source][target] or not lasts or not posted_at_once:
            continue
        request = cluster.protocol(source, target).request_ns
        found = _last_before(ops.get(int(partitions.device[recv])), int(latest_asked[taken]) - request)
        if found is not None and found[0] + request > begun[taken]:
            yield _Wait(row, found[1], nbytes * (found[0] + request - int(begun[taken])))


def _first_tasks(trace: Trace) -> Ids:
    """[X] the task with which each transfer begins once it is asked for."""
    tasks, found = trace.tasks, np.full(len(trace.transfers), -1)
    moved = np.flatnonzero((tasks.kind != Kind.OP) & (tasks.kind != Kind.REQUEST))
    order = np.lexsort((tasks.kind[moved], tasks.ready_ns[moved]))[::-1]  # the first of each comes last and stays
    found[tasks.of[moved[order]]] = moved[order]
    return ids(found)


_End: TypeAlias = tuple[Nanos, int]  # of an op, and its node


def _ends(trace: Trace, latest: Ints, partitions: Partitions) -> dict[int, tuple[list[Nanos], list[_End]]]:
    """Per device latest ends, ascending, and for each the op that ended last of those that must have ended by then."""
    ops, once = trace.ops, np.bincount(trace.ops.node, minlength=len(partitions.graph)) == 1
    rows = np.flatnonzero((once & unconditional(partitions))[ops.node])
    by = latest[ops.task]
    found: dict[int, tuple[list[Nanos], list[_End]]] = {}
    for row in rows[np.lexsort((ops.node[rows], by[rows]))].tolist():
        moments, last = found.setdefault(int(ops.device[row]), ([], []))
        own = (int(ops.end_ns[row]), int(ops.node[row]))
        moments.append(int(by[row]))
        last.append(own if not last or own[0] > last[-1][0] else last[-1])
    return found


def _last_before(ends: tuple[list[Nanos], list[_End]] | None, moment: Nanos) -> _End | None:
    """The op of `_ends` for that moment."""
    place = bisect_right(ends[0], moment) if ends else 0
    return ends[1][place - 1] if ends and place else None
