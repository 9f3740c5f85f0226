"""The way into the compiled loop: one run with its record, or many for their makespans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numba import boolean, int32, int64, types, void

from simulator.columns import ids, ints
from simulator.execution import engine
from simulator.execution.caching import STEP
from simulator.execution.compiled.addressing import tuple_of
from simulator.execution.compiled.kernel import made
from simulator.execution.compiled.loop import loop
from simulator.execution.crossings import checked, crossings
from simulator.execution.engine import Outcome, chosen_order, lanes, outcome
from simulator.execution.flat import CODES, EXECUTOR, NEVER, RANKED, Flat, Work
from simulator.execution.flattening import begun_on, flattened, workspace
from simulator.execution.links import holds
from simulator.execution.loop import Played
from simulator.execution.ways import discipline
from simulator.execution.wiring import ranks

if TYPE_CHECKING:
    from simulator.columns import Ids, Ints
    from simulator.execution.crossings import Crossings
    from simulator.execution.engine import Column
    from simulator.execution.tables import Tables
    from simulator.execution.ways import Discipline
    from simulator.units import Nanos

    Rows = npt.NDArray[np.int32]

_PLAIN_LOOP, _FULL_LOOP = loop(False), loop(True)


def _signature() -> object:
    """The one type of `play`."""
    flat, work = tuple_of(Flat, readonly=True), tuple_of(Work, readonly=False)
    rows, tail = types.Array(int32, 2, "C", readonly=True), types.Array(int64, 1, "C", readonly=True)
    return void(flat, work, rows, int64, rows, tail, int64, boolean, int64, int64, int64[::1], int64[:, ::1])


def _play(
    flat: Flat,
    work: Work,
    devices: Rows,
    order: int,
    ops: Rows,
    tail: Ints,
    limit: int,
    record: bool,
    start: int,
    step: int,
    makespans: Ints,
    peaks: npt.NDArray[np.int64],
) -> None:
    """Runs start, start + step, ... of `devices` [B, n] without Python's lock; see `loop`.

    `ops` has a row for all runs, or one per run; the order RANKED alone reads it. Fills in `makespans` [B] and, where
    it has rows, `peaks` [B, D]; a record of the last run is in the `Work`.
    """
    waits = flat.places.requests[0] or flat.places.works[0] or len(flat.shared.link) > 0
    plain = not (record or waits or order == EXECUTOR)
    for run in range(start, len(devices), step):
        ranked = ops[min(run, len(ops) - 1)] if order == RANKED else devices[run][:0]
        if plain:
            makespans[run] = _PLAIN_LOOP(flat, work, devices[run], order, ranked, tail, limit, False, ())
        else:
            makespans[run] = _FULL_LOOP(flat, work, devices[run], order, ranked, tail, limit, record, ())
        for where in range(peaks.shape[1] if len(peaks) > 0 else 0):
            peaks[run, where] = work.memory.peak[where]


play, kept = made(_play, _signature(), STEP)


def run(
    tables: Tables,
    device: Column,
    priority: Column | None = None,
    *,
    order: str | None = None,
    contention: str = "serial",
) -> Outcome:
    """The same as `engine.run`, errors included: what the compiled loop refuses it leaves to the specification."""
    column = checked(tables, device)
    chosen = chosen_order(priority, order)
    crossing = crossings(tables, column)
    ops = np.zeros((0, len(column)), np.int32)
    if chosen == "priority" and priority is not None:
        ops = np.argsort(ranks(tables, priority))[None].astype(np.int32)
    makespan = np.zeros(1, np.int64)
    given = (ids(column[None]), CODES[chosen], ids(ops), ints([]))
    with workspace(tables, contention) as work:
        play(flattened(tables, contention), work, *given, NEVER, True, 0, 1, makespan, np.zeros((0, 0), np.int64))
        if makespan[0] < 0:
            return engine.run(tables, device, priority, order=order, contention=contention)
        rule = discipline(tables.ways, contention)
        return _outcome(tables, column, crossing, rule, work, int(makespan[0]), own_lanes=chosen == "tensorflow")


def _outcome(
    tables: Tables, device: Ids, crossing: Crossings, rule: Discipline, work: Work, makespan: Nanos, *, own_lanes: bool
) -> Outcome:
    n, edges, transfers = len(tables), len(tables.consumer), len(crossing)
    links = ids(np.diff(holds(tables, crossing, rule.held).ptr))

    def of_jobs(column: Column) -> npt.NDArray[np.integer]:  # those that there are; 0 where no protocol has work
        if len(column) == n:
            return np.append(column, np.zeros(2 * transfers, np.int64))
        return np.concatenate([column[:n], column[n : n + transfers], column[n + edges : n + edges + transfers]])

    start_ns = ints(of_jobs(work.record.start_ns))
    took_ns = np.append(work.found.took_ns[:n], [crossing.pack_ns, crossing.unpack_ns])
    played = Played(
        makespan=makespan,
        ready=work.record.ready_ns.tolist(),
        first=work.pending.first.tolist(),
        start=[],
        asked=[],
        sent=work.record.sent_ns[:transfers].tolist(),
        came=work.record.came_ns[:transfers].tolist(),
        begun_on=begun_on(work.lines, work.record.sent_ns, ids(range(transfers)), links)[1].tolist(),
    )
    lane = ids(of_jobs(work.threads.lane)) if own_lanes else lanes(tables, device, crossing, start_ns)
    times = (start_ns, ints(start_ns + took_ns), ints(work.record.asked_ns[:transfers]))
    return outcome(tables, device, crossing, rule, played, *times, lane)
