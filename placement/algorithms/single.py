"""Everything on one device: the yardstick for every other placement.

A transfer costs more than most ops, so a single device is hard to beat on a graph without parallel branches; ETF and
HEFT can lose to it by multiples on training graphs.
"""

from __future__ import annotations

from placement.problem import Plan, Problem, fits, makespan, no_room
from simulator.assignment import CPU_OF_TASK, DEFAULT, ONLY, SINGLE
from simulator.units import Nanos


def single(problem: Problem) -> Plan:
    """Try every device and keep the one on which the step ends first; among equals the smaller row.

    A group that may not use the chosen device goes to the CPU of that device's task, and where it may not use that
    either, to the device that its own request leads to. Raises InfeasibleError if no choice fits the memory.
    """
    best: tuple[Nanos, int] | None = None
    chosen: Plan | None = None
    tried: set[object] = set()
    for device in range(len(problem.capacity)):
        plan = all_on(problem, device)
        if not fits(problem, plan.device):
            continue
        twin = _shape(problem, plan)
        if twin in tried or (best is not None and busiest(problem, plan) >= best[0]):
            continue
        tried.add(twin)
        reached = (makespan(problem, plan), device)
        if best is None or reached < best:
            best, chosen = reached, plan
    if chosen is None:
        largest = max(range(len(problem.resident)), key=lambda row: problem.resident[row])
        raise no_room(problem, largest, problem.capacity)
    return chosen


def all_on(problem: Problem, device: int) -> Plan:
    """The plan that puts each group on the device where it may run there."""
    home = problem.home[device]
    chosen, rule = [], []
    for allowed in problem.allowed:
        if device in allowed:
            chosen.append(device)
            rule.append(ONLY if len(allowed) == 1 else SINGLE)
        elif home in allowed:
            chosen.append(home)
            rule.append(ONLY if len(allowed) == 1 else CPU_OF_TASK)
        else:
            chosen.append(allowed[0])
            rule.append(ONLY if len(allowed) == 1 else DEFAULT)
    return Plan(chosen, rule)


def busiest(problem: Problem, plan: Plan) -> Nanos:
    """The work of the busiest device over its lanes: no schedule of this plan ends earlier."""
    work = [0] * len(problem.capacity)
    for row, times in zip(problem.group, problem.run, strict=True):
        work[plan.device[row]] += times[plan.device[row]]
    lanes: list[int] = problem.tables.lanes.tolist()
    return max(-(-busy // count) for busy, count in zip(work, lanes, strict=True))


def _shape(problem: Problem, plan: Plan) -> object:
    """Equal for two plans only if the simulator cannot tell them apart.

    The devices that are used are numbered in order of their rows, and so are the links between them by first use. If
    ops, kinds, lanes, memory types, latencies, rates and shared links then agree, the two runs take the same steps.
    """
    placed = [plan.device[row] for row in problem.group]
    used = sorted(set(placed))
    used = sorted({*used, *(problem.home[d] for d in used)})  # copies of constants live on the CPU of a GPU's task
    number = {device: place for place, device in enumerate(used)}
    tables = problem.tables
    links: dict[int, int] = {}
    ways = tuple(
        (
            tables.latency_ns.item(s, t),
            tables.bytes_per_s.item(s, t),
            None if (route := tables.routes[s][t]) is None else tuple(links.setdefault(k, len(links)) for k in route),
        )
        for s in used
        for t in used
    )
    devices = tuple(
        (problem.cluster.kind_of[d], tables.lanes.item(d), problem.cpu[d], number[problem.home[d]]) for d in used
    )
    return tuple(number[d] for d in placed), devices, ways
