"""List schedules by falling upward rank, in machine code, aware of the links that transfers hold.

The list is HEFT's (Topcuoglu, Hariri and Wu 2002). An op goes to the device on which it ends first. Its inputs are sent
there and wait for links that earlier ones hold, as in Sinnen and Sousa, "Communication contention in task scheduling",
IEEE TPDS 16(6), 2005. This is done over all devices and over some of them, as fewer are often faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from placement.problem import Problem, topological
from placement.search.decisions import Decisions, Vector
from placement.search.schedules import RATE_BITS, Jobs, Schedule
from simulator.columns import Ints
from simulator.execution.routes import discipline


def lists(made: Decisions, ranks: Sequence[int]) -> Iterator[Vector]:
    """Devices [G] of list schedules, with and without links; those that run out of room are left out."""
    from placement.search.compiled import schedule as run  # late: it loads LLVM

    problem = made.problem
    place = np.empty(len(ranks), np.int64)
    place[topological(problem)] = np.arange(len(ranks))
    order = np.lexsort((place, -np.array(ranks, np.float64))).astype(np.int64)
    jobs, devices = _jobs(made), len(problem.capacity)
    lanes = np.minimum(problem.tables.lanes, 64)
    links = max(len(problem.tables.routes.link_names), 1)
    for some in subsets(problem):
        use = np.zeros(devices, np.int64)
        use[list(some)] = 1
        may = jobs.may.reshape(-1, devices)
        chosen = np.where((may * use).any(axis=1, keepdims=True), may * use, may)
        for aware in (1, 0):
            schedule = Schedule(
                device=np.full(len(may), -1),
                of_op=np.full(len(ranks), -1),
                end_ns=np.zeros(len(ranks), np.int64),
                arrive_ns=np.full(len(problem.nbytes) * devices, -1),
                free_ns=np.zeros(links, np.int64),
                trial_ns=np.zeros(links, np.int64),
                trial=np.full(links, -1),
                lane_ns=np.zeros(devices * int(lanes.max()), np.int64),
                room=np.array(problem.capacity, np.int64),
                order=order,
            )
            run(jobs._replace(may=np.ascontiguousarray(chosen.reshape(-1))), schedule, aware)
            if schedule.room.min() < 0:
                continue
            first = np.array([allowed[0] if allowed else 0 for allowed in problem.allowed], np.int64)
            yield np.where(schedule.device < 0, first, schedule.device)


def subsets(problem: Problem) -> list[tuple[int, ...]]:
    """Some sets of devices: all, the first GPUs with all CPUs, and those of a task of each sort."""
    devices = range(len(problem.capacity))
    cpus = tuple(device for device in devices if problem.cpu[device])
    others = tuple(device for device in devices if not problem.cpu[device])
    task = problem.cluster.task_of
    found = [tuple(devices), *(others[:count] + cpus for count in (2, 3, 4, 6) if count < len(others))]
    of_task = [tuple(device for device in devices if task[device] == one) for one in sorted(set(task))]
    if len(of_task) > 1:
        found += {tuple(problem.cluster.kind_of[device] for device in some): some for some in of_task}.values()
    return found


def _jobs(made: Decisions) -> Jobs:
    """What the schedule reads, as columns of 64 bits."""
    problem = made.problem
    tables, routes = problem.tables, problem.tables.routes
    held = discipline(routes, problem.options.contention).held
    may = np.zeros((len(problem.allowed), len(problem.capacity)), np.int64)
    for group, allowed in enumerate(problem.allowed):
        may[group, list(allowed)] = 1
    fixed = routes.latency_ns + routes.send_ns + routes.receive_ns + routes.request_ns
    inputs = [np.array(tensors, np.int64) for tensors in problem.inputs]

    def column(values: npt.ArrayLike) -> Vector:
        return np.array(values, np.int64).reshape(-1)

    return Jobs(
        group=column(made.group),
        may=column(may),
        run_ns=column(tables.run_ns),
        instant=column(tables.instant),
        first=column(np.append(0, np.cumsum([len(tensors) for tensors in inputs]))),
        tensor=np.concatenate([*inputs, np.zeros(0, np.int64)]),
        maker=column(tables.tensor_op),
        nbytes=column(np.minimum(tables.tensor_bytes, 2**32)),
        free=column(tables.stays | tables.replicable),
        route=column(routes.of),
        fixed_ns=column(fixed),
        per_byte=_per_byte(routes.bytes_per_s),
        held_first=column(np.append(0, np.cumsum([len(links) for links in held]))),
        held=column([link for links in held for link in links] or [0]),
        link_per_byte=_per_byte(routes.link_bytes_per_s) if len(routes.link_names) else column([0]),
        lanes=column(np.minimum(tables.lanes, 64)),
        resident=column(problem.resident),
    )


def _per_byte(bytes_per_s: Ints) -> Vector:
    """Nanoseconds per byte, with RATE_BITS of a fraction; 0 where bytes cost no time."""
    rate = np.maximum(bytes_per_s, 1).astype(np.float64)
    made: Vector = np.where(bytes_per_s > 0, np.minimum(1e9 * 2**RATE_BITS / rate, 2.0**30), 0).astype(np.int64)
    return made
