"""Many assignments of one step at once: how long each takes, and what it holds at its peak.

The step is prepared once. Each assignment is then a run of the compiled loop, several at a time in threads that do not
hold Python's lock. A result depends on nothing but its own row, so it is the same whatever the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, ids, ints
from simulator.errors import SimvizError
from simulator.execution.arrays import CODES, INSTANTS, STUCK
from simulator.execution.choosing import choose, load, loads
from simulator.execution.engine import Column
from simulator.execution.engine import makespan as plain_makespan
from simulator.execution.engine import run as plain_run
from simulator.execution.flattening import workspace
from simulator.execution.lifetimes import allocations, usage
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import Prepared, cut_first, devices_of, pieces
from simulator.execution.tables import Tables
from simulator.execution.transfers import checked, transfers_of
from simulator.units import Nanos

_NEVER: Nanos = 2**62  # later than any makespan
Matrix = npt.NDArray[np.int64]
_FIRST = ids([0])


class Evaluated(NamedTuple):
    """Results of B assignments. Axes: B assignments, D devices."""

    makespan_ns: Ints  # [B]
    peak_bytes: Matrix  # [B, D] the most that each device holds at once


@dataclass(frozen=True, eq=False)
class _Rule:
    """Arguments that all runs of a call share."""

    tables: Tables
    column: Ids  # [n] as of `Prepared`
    options: SimulationOptions
    order: int  # of CODES
    compiled: bool
    threads: int


def evaluate(
    prepared: Prepared,
    assignments: Sequence[Sequence[int]] | npt.NDArray[np.integer],
    *,
    priorities: Column | None = None,
    flavour: str = "auto",
    threads: int | None = None,
) -> Ints:
    """[B] the makespan of each assignment [B, N], a device per node of the graph, by the options of `prepared`.

    It is that of `simulate` for the pieces of the same assignment. `flavour` is that of `partition`. A master's cut
    that hands a tensor on within a task is made for each such assignment, which takes many times as long. With
    flavour="local" every device fetches for itself, and no such cut is needed. An assignment with a loop across devices
    is cut, too, and so is one that copies a constant which waits for something. In the order "tensorflow" it is each
    with a transfer where tasks hand on, and each in which the Recv of a reference waits.

    `priorities` are [N], or [B, N]; the order has to make use of them. `threads`: by default one per processor. The
    engine "auto" is the compiled one wherever it can be had, compiled first if it must be: a search comes back.

    Raises SimvizError for assignments of a wrong shape or with an unknown device, and UnsupportedError for an engine
    that cannot be had. Raises InfeasibleError, ClusterError and DeadlockError as `engine.run`.
    """
    return _evaluated(prepared, assignments, priorities, flavour, threads, peaks=False).makespan_ns


def evaluate_with_peaks(
    prepared: Prepared,
    assignments: Sequence[Sequence[int]] | npt.NDArray[np.integer],
    *,
    priorities: Column | None = None,
    flavour: str = "auto",
    threads: int | None = None,
) -> Evaluated:
    """The makespans of `evaluate`, and the memory that each device holds at its peak, which takes longer to find."""
    return _evaluated(prepared, assignments, priorities, flavour, threads, peaks=True)


def _evaluated(
    prepared: Prepared,
    assignments: Sequence[Sequence[int]] | npt.NDArray[np.integer],
    priorities: Column | None,
    flavour: str,
    threads: int | None,
    *,
    peaks: bool,
) -> Evaluated:
    """Both; without `peaks` they are [0, D]."""
    rows = _rows(prepared, assignments)
    options = prepared.options
    order = options.order_for(priorities)
    orders = _orders(prepared, order, priorities, len(rows))
    if threads is not None and threads < 1:
        raise SimvizError(f"threads={threads}: give at least one, or None for one per processor.")
    makespans = np.zeros(len(rows), np.int64)
    held = np.zeros((len(rows) if peaks else 0, len(prepared.tables.devices)), np.int64)
    compiled = loads() if options.engine == "auto" else choose(options.engine, 0)
    rule = _Rule(prepared.tables, prepared.column, options, CODES[order], compiled, threads or usable_cores())
    cutting = cut_first(prepared, rows, flavour)
    _check(prepared, rows, cutting)
    _run(rule, rows, orders, np.flatnonzero(~cutting), makespans, held)
    for row in np.flatnonzero(cutting).tolist():
        tables, device, mine = pieces(prepared, rows[row], _of_row(priorities, row), flavour)
        own = replace(rule, tables=tables, column=ids(np.arange(len(tables))), threads=1)
        _run(own, device, mine, _FIRST, makespans[row : row + 1], held[row : row + 1])
    makespans.setflags(write=False)
    held.setflags(write=False)
    return Evaluated(makespans, held)


def _of_row(priorities: Column | None, row: int) -> Matrix | None:
    """Those of one assignment."""
    if priorities is None:
        return None
    given = np.atleast_2d(_table(priorities))
    mine: Matrix = given[min(row, len(given) - 1)]
    return mine


def usable_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rows(prepared: Prepared, assignments: Sequence[Sequence[int]] | npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """The assignments as the loop reads them."""
    devices, given = len(prepared.tables.devices), _table(assignments)
    if given.ndim != 2 or given.shape[1] != len(prepared.names) or given.dtype.kind not in "iu":
        raise SimvizError(
            f"Assignments of shape {list(given.shape)} and type {given.dtype}: give whole numbers [B, "
            f"{len(prepared.names)}], a row of devices per assignment with one for each node of the graph."
        )
    if given.min(initial=0) < 0 or given.max(initial=0) >= devices:
        row, node = np.argwhere((given < 0) | (given >= devices))[0].tolist()
        raise SimvizError(
            f"Assignment {row}: node {prepared.names[node]!r} is on device {given[row, node]}; the cluster has "
            f"{devices} devices."
        )
    found: npt.NDArray[np.int32] = np.ascontiguousarray(given, np.int32).view()
    found.setflags(write=False)
    return found


def _check(prepared: Prepared, rows: npt.NDArray[np.int32], cutting: npt.NDArray[np.bool_]) -> None:
    """Raise where a device lacks a kernel, or a transfer a route; which transfers a cut makes is known only by it."""
    tables = prepared.tables
    lost = int((tables.routes.of < 0).sum()) > len(tables.devices)  # a device has no route to itself
    for row in range(len(rows) if lost or prepared.lacks_kernels else 0):
        try:
            column = checked(tables, prepared.devices(rows[row]))
            if lost and not cutting[row]:
                transfers_of(tables, column)
        except SimvizError as error:
            error.args = (f"Assignment {row}: {error}",)
            raise


def _table(values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """As an array; of which type its caller checks."""
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise SimvizError(f"Rows of assignments or priorities are not equally long: {error}") from None


def _orders(
    prepared: Prepared,
    order: str,
    priorities: Column | None,
    count: int,
) -> npt.NDArray[np.int32]:
    """[0, 1 or B, n] ops in order of (priority, row)."""
    tables = prepared.tables
    if priorities is not None and order != "priority":
        raise SimvizError(f"order={order!r} makes no use of priorities; leave them out.")
    if priorities is None:
        made = np.zeros((0, len(tables)), np.int32)
    else:
        given = np.atleast_2d(_table(priorities))
        sized = given.ndim == 2 and given.shape[1] == len(prepared.names) and len(given) in (1, count)
        if not sized or given.dtype.kind not in "iuf" or (given != given).any():
            raise SimvizError(
                f"Priorities of shape {list(given.shape)} and type {given.dtype}: give one number per node, "
                f"[{len(prepared.names)}] or [{count}, {len(prepared.names)}]."
            )
        made = np.argsort(given[:, tables.node], axis=1, kind="stable").astype(np.int32)
    made.setflags(write=False)
    return made


def _run(
    rule: _Rule,
    rows: npt.NDArray[np.int32],
    orders: npt.NDArray[np.int32],
    chosen: npt.NDArray[np.integer],
    makespans: Matrix,
    peaks: Matrix,
) -> None:
    """Run some of the rows and fill in what they gave."""
    tables = rule.tables
    makespans[chosen] = STUCK  # all is left to the plain loop if the compiled one is not taken
    if rule.compiled:
        play = load().play
        given = (rule.order, orders, ints([]), _NEVER, INSTANTS if len(peaks) else 0, makespans, peaks)

        def run_some(some: Ids) -> None:
            with workspace(tables, rule.options.contention) as own:
                own.run(play, rows, rule.column, some, *given)

        parts = [ids(chosen[at :: rule.threads]) for at in range(min(rule.threads, len(chosen)))]
        if len(parts) == 1:
            run_some(parts[0])
        elif parts:
            with ThreadPoolExecutor(len(parts)) as pool:
                list(pool.map(run_some, parts))  # raises what a thread raised
    for row in chosen[makespans[chosen] < 0].tolist():
        priority = np.argsort(orders[min(row, len(orders) - 1)]) if len(orders) else None
        device = devices_of(rule.column, rows[row])
        # raises, or counts beyond what the compiled loop can
        if len(peaks):
            outcome = plain_run(tables, device, priority, rule.options)
            makespans[row] = outcome.makespan
            peaks[row] = usage(tables, outcome, allocations(tables, outcome)).peak_bytes
        else:
            makespans[row] = plain_makespan(tables, device, priority, rule.options)
