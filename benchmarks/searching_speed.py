"""The speed of a search: judgements per second beside plain runs, its first answer, and its list schedules.

    PYTHONPATH=. python benchmarks/searching_speed.py GRAPH.pb [CLUSTER]

The graph loses its device strings. Judgements per second are the difference of two searches, one with three times the
placements of the other, so that starts count in neither; a plain run is the compiled loop on the placement that was
found, in one thread. The first answer is timed from a problem that is posed, and after the code was loaded. All in one
process on one core; medians of three.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from searching_instances import posed

from placement.algorithms import load as algorithm
from placement.effort import Effort, judged_in
from placement.plan import Plan
from placement.problem import Problem
from placement.scheduling.ranks import upward_ranks
from placement.search.decisions import decisions_of
from placement.search.starts import LISTED, lists
from simulator import load, load_cluster
from simulator.cluster.device_strings import without_devices
from simulator.errors import SimvizError
from simulator.execution.evaluate import evaluate

_RUNS = 200
_TIMES = 3


def timed(work: Callable[[], object]) -> float:
    """The median time in seconds."""
    found = []
    for _ in range(_TIMES):
        began = perf_counter()
        work()
        found.append(perf_counter() - began)
    return median(found)


def judgements(problem: Problem) -> tuple[float, Plan]:
    """Judgements per second in the walk, and the plan that was found."""
    count = judged_in(2.0, len(problem.group))

    def searched(judged: int) -> tuple[float, int, Plan]:
        began = perf_counter()
        plan = algorithm("search")(replace(problem, effort=Effort(judged=judged)))
        assert plan.search is not None
        return perf_counter() - began, plan.search.judged, plan

    rates = []
    for _ in range(_TIMES):
        short_s, few, _plan = searched(count)
        long_s, many, plan = searched(3 * count)
        rates.append((many - few) / (long_s - short_s))
    return median(rates), plan


def plain(problem: Problem, plan: Plan) -> float:
    """Plain compiled runs per second of a placement, whole and in one thread."""
    nodes = np.array(plan.device)[problem.constraints.group]
    rows = np.repeat(nodes[None], _RUNS, axis=0)
    evaluate(problem.prepared, rows[:1], flavour="local", threads=1)
    return _RUNS / timed(lambda: evaluate(problem.prepared, rows, flavour="local", threads=1))


def first_answer(problem: Problem) -> tuple[float, str]:
    """Seconds from the call to the first placement that is judged, and what the search said then."""
    said: list[tuple[float, str]] = []
    began = perf_counter()
    effort = Effort(seconds=1.0, say=lambda text: said.append((perf_counter() - began, text)))
    algorithm("search")(replace(problem, effort=effort))
    return said[0]


def main(path: Path, described: str) -> None:
    began = perf_counter()
    graph = without_devices(load(path))
    loaded = perf_counter()
    problem = posed(graph, load_cluster(described))
    ops = len(problem.group)
    print(f"{path.stem} on {described}: {len(graph):,} nodes, {ops:,} ops in the step")
    print(f"loaded in {loaded - began:.2f} s, posed in {perf_counter() - loaded:.2f} s")
    algorithm("search")(replace(problem, effort=Effort(judged=500)))  # loads the code
    for name in LISTED:
        try:
            print(f"{name}: {timed(partial(algorithm(name), problem)) * 1e3:.1f} ms")
        except SimvizError as error:
            print(f"{name}: {error}")
    ranks = upward_ranks(problem)
    print(f"upward ranks: {timed(lambda: upward_ranks(problem)) * 1e3:.1f} ms")
    made = decisions_of(problem, ranks, 0)
    print(f"decisions: {timed(lambda: decisions_of(problem, ranks, 0)) * 1e3:.1f} ms")
    print(f"a compiled list schedule: {timed(lambda: next(lists(made, ranks))) * 1e3:.1f} ms")
    seconds = sorted(first_answer(problem) for _ in range(_TIMES))
    print(f"first answer after {seconds[_TIMES // 2][0]:.2f} s: {seconds[_TIMES // 2][1]}")
    rate, plan = judgements(problem)
    runs = plain(problem, plan)
    print(f"{rate:,.0f} judgements/s, plain {runs:,.0f} runs/s: {rate / runs:.1f} x", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "4gpu")
