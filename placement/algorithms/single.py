"""Everything on one device: the yardstick for every other placement.

A transfer costs more than most ops, so a single device is hard to beat on a graph without parallel branches; ETF and
HEFT can lose to it by multiples on training graphs.
"""

from __future__ import annotations

from placement.judging import fits, op_devices, verdict
from placement.problem import Plan, Problem
from simulator.assignment import CPU_OF_TASK, DEFAULT, ONLY, SINGLE
from simulator.errors import InfeasibleError
from simulator.units import Nanos, show_bytes


def single(problem: Problem) -> Plan:
    """Try every device and keep the one on which the step ends first; among equals the smaller row.

    A group that may not use the chosen device goes to the CPU of that device's task, and where it may not use that
    either, to the device that its own request leads to. A device whose memory runs out while the step runs is taken
    only if there is no other. Raises InfeasibleError if what stays resident fits nowhere.
    """
    best: tuple[bool, Nanos] | None = None
    chosen: Plan | None = None
    tried: set[object] = set()
    for device in range(len(problem.capacity)):
        plan = all_on(problem, device)
        if not fits(problem, plan.device):
            continue
        twin = _shape(problem, plan)
        if twin in tried or (best is not None and (False, busiest(problem, plan)) >= best):
            continue
        tried.add(twin)
        reached = verdict(problem, plan)
        if best is None or reached < best:
            best, chosen = reached, plan
    if chosen is None:
        raise _too_large(problem)
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
    ops, kinds, lanes, memory, latencies, rates and shared links then agree, the two runs take the same steps.
    """
    placed = op_devices(problem, plan)
    used = sorted(
        {home for d in set(placed) for home in (d, problem.home[d])}
    )  # copies of constants live on the CPU of a GPU's task
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
        (problem.cluster.kind_of[d], tables.lanes.item(d), problem.cpu[d], problem.capacity[d], number[problem.home[d]])
        for d in used
    )
    return tuple(number[d] for d in placed), devices, ways


def _too_large(problem: Problem) -> InfeasibleError:
    largest = max(problem.capacity)
    return InfeasibleError(
        f"No single device holds the graph: {show_bytes(sum(problem.resident))} stay resident while the largest device "
        f"has {show_bytes(largest)}. Use a larger one, or an algorithm that spreads the graph."
    )
