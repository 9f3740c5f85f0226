"""Run lowered tasks by the plain loop, over lists."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, ids, ints
from simulator.execution.arrays import EXECUTOR, NEVER, TIMES, Flows, SharedLinks, State, Tasks, Threads
from simulator.execution.declared import columns
from simulator.execution.event_loop import event_loop
from simulator.execution.routes import discipline
from simulator.execution.tables import Tables
from simulator.execution.task_graph import TaskGraph
from simulator.units import Nanos

_play = event_loop()


class Ran(NamedTuple):
    """When every task ran. Axis: J tasks."""

    makespan: Nanos  # or STUCK
    ready_ns: Ints  # [J] -1: never
    start_ns: Ints  # [J]
    end_ns: Ints  # [J]
    lane: Ids  # [J] of the executor's tasks, within the device; else 0


def play(tables: Tables, lowered: TaskGraph, contention: str, order: int) -> Ran:
    """Run the step; devices choose among ready tasks by that order."""
    tasks = lowered.tasks
    makespan, state, threads = span(tables, lowered, contention, order)
    lane = ids(threads.lane) if order == EXECUTOR else ids(np.zeros(len(tasks.length)))
    return times(tables, tasks, makespan, ints(state.ready_ns), ints(state.start_ns), ints(state.end_ns), lane)


def span(tables: Tables, lowered: TaskGraph, contention: str, order: int) -> tuple[Nanos, State, Threads]:
    """The makespan, or STUCK, without the record; and the state that remains."""
    tasks = lowered.tasks
    parts = [listed(part) for part in (tasks, *parts_of(tables, lowered, tasks, contention, order))]
    makespan = _play(*parts, order, len(tasks.length), [], NEVER, TIMES, ())
    return makespan, parts[1], parts[2]


def times(tables: Tables, tasks: Tasks, makespan: Nanos, ready: Ints, start: Ints, ended: Ints, lane: Ids) -> Ran:
    """The times of tasks, given those that the loop notes; `ended` are those of tasks on shared routes."""
    on_shared = tasks.resource >= len(tables.devices) + len(tables.routes.link_names)
    return Ran(
        makespan=makespan,
        ready_ns=ints(np.where(ready < 0, -1, np.maximum(ready, tasks.release_ns))),
        start_ns=start,
        end_ns=ints(np.where(on_shared, ended, start + tasks.length + tasks.lag_ns)),
        lane=lane,
    )


def parts_of(
    tables: Tables, lowered: TaskGraph, tasks: Tasks, contention: str, order: int, events: int = 0
) -> tuple[State, Threads, Flows, SharedLinks]:
    """All that the loop works in beside these tasks, with room for so many pending events if it runs over arrays."""
    threads = _threads(tables, lowered, tasks) if order == EXECUTOR else filled(Threads)
    shared, flows = _sharing(tables, tasks, contention) if tasks.shares[0] else (filled(SharedLinks), filled(Flows))
    count, devices = len(tasks.length), len(tables.devices)
    state = filled(
        State,
        {"J": count, "2J": events, "n": len(tables), "D": devices, "L": len(tables.routes.link_names), "1": 1},
        needs=tasks.needs,
        idle=tables.lanes,
        ready_ns=np.full(count, -1),
        head=np.full(devices, -1),
        batch=np.zeros(2 * count, np.int32),
    )
    return state, threads, flows, shared


def _threads(tables: Tables, lowered: TaskGraph, tasks: Tasks) -> Threads:
    crossing = lowered.transfers
    count, n, devices = len(tasks.length), len(tables), len(tables.devices)
    lanes = np.where(tables.cpu, tables.lanes, 1).astype(np.int64)
    own = tables.cpu[crossing.source] & (tables.routes.send_cores[crossing.route] == 1) & (lowered.pack >= 0)
    packs = np.zeros(count, bool)
    packs[lowered.pack[own]] = True
    threads: Threads = filled(
        Threads,
        {"J": count, "n": n, "D": devices, "lanes": int(lanes.sum())},
        inexpensive=tables.inexpensive | tables.instant,
        packs=packs,
        device=lowered.device,
        stream=~tables.cpu,
        lane_ptr=np.append(0, np.cumsum(lanes)),
        free=np.ones(int(lanes.sum()), bool),
        own_head=np.full(int(lanes.sum()), -1),
        pool_head=np.full(devices, -1),
        message_head=np.full(devices, -1),
        unlaunched=tasks.needs[:n],
    )
    return threads


def _sharing(tables: Tables, tasks: Tasks, contention: str) -> tuple[SharedLinks, Flows]:
    rule, known = discipline(tables.routes, contention), tables.routes
    links, routes = len(known.link_names), len(rule.shared)
    route = tasks.resource[tasks.resource >= len(tables.devices) + links] - len(tables.devices) - links
    link = np.array([one for links_of in rule.shared for one in links_of], np.int64)
    shared = filled(
        SharedLinks,
        link_ptr=[0, *accumulate(map(len, rule.shared))],
        link=link,
        user_ptr=np.append(0, np.cumsum(np.bincount(link, minlength=links))),
        cap=rule.cap,
        capacity=known.link_bytes_per_s,
    )
    base = np.append(0, np.cumsum(np.bincount(route, minlength=routes)))[:-1]
    sizes = {"W": routes, "L": links, "U": len(link), "F": len(route), "2": 2}
    return shared, filled(Flows, sizes, base=base, rank=np.full(routes, -1), level=np.full(links, NEVER))


def filled(kind: Any, sizes: Mapping[str, int] | None = None, **given: npt.ArrayLike) -> Any:
    """The tuple `kind` with copies of these columns; all others are zeros, as many as their axes have, if any."""
    return kind(
        *(
            np.array(given[name], dtype) if name in given else np.zeros(0 if sizes is None else sizes[axis], dtype)
            for name, dtype, axis in columns(kind)
        )
    )


def listed(part: Any) -> Any:  # Any: one of the tuples of columns, or a tuple of these
    """The same as lists, over which the plain loop runs."""
    if isinstance(part, tuple):
        return type(part)(*map(listed, part))
    return part.tolist()
