"""All groups on one device: the yardstick for every other placement.

A transfer costs more than most ops, so a single device is hard to beat on a graph without parallel branches. ETF and
HEFT can lose to it by multiples on training graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from placement.plan import Plan, Verdict, fits, verdict
from placement.problem import Problem
from simulator.assignment import CPU_OF_TASK, DEFAULT, ONLY, SINGLE
from simulator.columns import Flags, Ints
from simulator.errors import InfeasibleError
from simulator.execution.routes import Routes
from simulator.units import Nanos, show_bytes


def single(problem: Problem) -> Plan:
    """Try every device and keep the one on which the step ends first; among equals the smaller row.

    A group that may not use the chosen device goes to the CPU of that device's task. Without that, it goes to the first
    device of that task that it may use, else to its first device at all. A device whose memory runs out while the step
    runs is taken only if there is no other. Raises InfeasibleError if the resident bytes fit nowhere.
    """
    sets = _sets(problem)
    best: Verdict | None = None
    chosen: Plan | None = None
    tried: set[object] = set()
    for device in range(len(problem.capacity)):
        targets = [_target(problem, device, allowed) for allowed in sets]
        shape = _shape(problem, [d for (d, _), runs in zip(targets, sets.values(), strict=True) if runs])
        if shape in tried:
            continue
        tried.add(shape)
        plan = all_on(problem, device)
        if not fits(problem, plan.device):
            continue
        if best is not None and (False, busiest(problem, plan)) >= best:
            continue
        reached = verdict(problem, plan)
        if best is None or reached < best:
            best, chosen = reached, plan
    if chosen is None:
        raise _too_large(problem)
    return chosen


def all_on(problem: Problem, device: int) -> Plan:
    """The plan that puts each group on the device where it may run there."""
    target = {allowed: _target(problem, device, allowed) for allowed in _sets(problem)}
    return Plan(
        [target[allowed][0] for allowed in problem.allowed], [target[allowed][1] for allowed in problem.allowed]
    )


def each_alone(problem: Problem) -> Iterator[Ints]:
    """[G] the devices of `all_on`, of each device of the cluster in turn."""
    sets = _sets(problem)  # of a large cluster a set is long, so it is looked up once
    row = {allowed: number for number, allowed in enumerate(sets)}
    of = np.array([row[allowed] for allowed in problem.allowed], np.int64)
    for device in range(len(problem.capacity)):
        yield np.array([_target(problem, device, allowed)[0] for allowed in sets], np.int64)[of]


def _sets(problem: Problem) -> dict[tuple[int, ...], bool]:
    """The different sets of devices that groups may use, and whether some group of the set runs."""
    runs: dict[tuple[int, ...], bool] = {}
    for allowed, ops in zip(problem.allowed, problem.ops, strict=True):
        runs[allowed] = runs.get(allowed, False) or bool(ops)
    return runs


def _target(problem: Problem, device: int, allowed: tuple[int, ...]) -> tuple[int, int]:
    """The device of a group when all should go to one, and the rule that decides it."""
    for place, rule in ((device, SINGLE), (problem.home[device], CPU_OF_TASK)):
        if place in allowed:
            return place, ONLY if len(allowed) == 1 else rule
    task = problem.cluster.task_of
    near = next((other for other in allowed if task[other] == task[device]), allowed[0])
    return near, ONLY if len(allowed) == 1 else DEFAULT


def busiest(problem: Problem, plan: Plan) -> Nanos:
    """The work of the busiest device over its lanes: no schedule of this plan ends earlier."""
    device = np.array(plan.device)[problem.group]
    taken = problem.tables.op_ns(device)
    lanes: list[int] = problem.tables.lanes.tolist()
    work: list[int] = [
        sum(taken[device == one].tolist()) for one in range(len(lanes))
    ]  # which may be more than 64 bits hold
    return max(-(-busy // count) for busy, count in zip(work, lanes, strict=True))


def _shape(problem: Problem, targets: Sequence[int]) -> object:
    """Equal for two choices only if the simulator cannot tell them apart; `targets` holds a device per set of groups.

    The used devices are numbered in order of their rows, and the links between them by first use. If targets, kinds,
    lanes, memory, times of transfers and shared links then agree, both runs take the same steps.
    """
    # copies of constants live on the CPU of a GPU's task
    used = sorted({place for device in set(targets) for place in (device, problem.home[device])})
    number = {device: place for place, device in enumerate(used)}
    tables, routes = problem.tables, problem.tables.routes
    links: dict[int, int] = {}
    between = tuple(
        None
        if (route := routes.of.item(s, t)) < 0
        else (
            tuple(column.item(routes.pace[route]) for column in _costs(routes)),
            tuple(links.setdefault(link, len(links)) for link in routes.links[route]),
        )
        for s in used
        for t in used
    )
    carriers = tuple((routes.link_bytes_per_s.item(link), routes.link_contention[link]) for link in links)
    tasks: dict[int, int] = {}  # a master's cut passes values on within a task
    devices = tuple(
        (
            tasks.setdefault(problem.cluster.task_of[d], len(tasks)),
            problem.cluster.kind_of[d],
            tables.lanes.item(d),
            problem.cpu[d],
            problem.capacity[d],
            number[problem.home[d]],
        )
        for d in used
    )
    return tuple(number[d] for d in targets), devices, between, carriers


def _costs(routes: Routes) -> tuple[Flags | Ints, ...]:
    """The columns that decide the time of a transfer on a route."""
    work = (routes.send_ns, routes.receive_ns, routes.send_ps_per_byte, routes.receive_ps_per_byte)
    others = (routes.staging_ps_per_byte, routes.dispatched, routes.send_cores, routes.receive_cores)
    return routes.latency_ns, routes.bytes_per_s, routes.request_ns, *work, *others


def _too_large(problem: Problem) -> InfeasibleError:
    """The device that has to hold more than it has, as no other may; else the size of the whole."""
    tied = [0] * len(problem.capacity)
    for allowed, nbytes in zip(problem.allowed, problem.resident, strict=True):
        if len(allowed) == 1:
            tied[allowed[0]] += nbytes
    for device, nbytes, room in zip(problem.cluster.devices, tied, problem.capacity, strict=True):
        if nbytes > room:
            return InfeasibleError(
                f"{device.short} has {show_bytes(room)}, but {show_bytes(nbytes)} stay resident there and may be on no "
                "other device. Give it more memory, or divide them among more devices."
            )
    return InfeasibleError(
        f"No single device holds the graph: {show_bytes(sum(problem.resident))} stay resident while the largest device "
        f"has {show_bytes(max(problem.capacity))}. Use a larger one, or an algorithm that spreads the graph."
    )
