"""Prove optima of the random problems of `searching_instances`, and write those that were proven beside it.

    PYTHONPATH=. python benchmarks/searching_exact.py [SEEDS] [SECONDS]      `pip install ortools` first

CP-SAT gets each op as an interval on one of the devices and each edge as one on the link that it crosses, if any; no
two may overlap. A device may wait there and a transfer may let another pass, which the simulation allows neither, so
its optimum is at most that of the simulation. What a search found is the solver's first upper bound; a search that
goes below a proven optimum would show a fault.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import import_module
from typing import Any  # Any: the solver ships no types for what is used

from searching_instances import OPTIMA, layered, two_level

from placement.algorithms.search import search
from placement.effort import Effort
from placement.plan import verdict
from placement.problem import Problem
from simulator.execution.routes import alone_ns

_JUDGED = 400_000


def proven(problem: Problem, found_ns: int, seconds: float) -> int | None:
    """The optimum where the solver proves it within the time, none slower than `found_ns`."""
    cp: Any = import_module("ortools.sat.python.cp_model")
    model = cp.CpModel()
    end = model.new_int_var(0, found_ns, "end")
    starts, chosen = [], []
    on_device: list[list[Any]] = [[] for _ in problem.capacity]
    for run in problem.tables.run_ns.tolist():
        start, here = model.new_int_var(0, found_ns, ""), [model.new_bool_var("") for _ in run]
        model.add_exactly_one(here)
        for device, (taken, is_here) in enumerate(zip(run, here, strict=True)):
            on_device[device].append(model.new_optional_fixed_size_interval_var(start, taken, is_here, ""))
        model.add(end >= start + _total(run, here))
        starts.append(start)
        chosen.append(here)
    _transfers(problem, model, found_ns, starts, chosen)
    for intervals in on_device:
        model.add_no_overlap(intervals)
    model.minimize(end)
    solver = cp.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 4
    said = solver.solve(model)
    return round(solver.objective_value) if said == cp.OPTIMAL else None


def _total(run: list[int], here: list[Any]) -> Any:
    return sum(taken * is_here for taken, is_here in zip(run, here, strict=True))


def _transfers(problem: Problem, model: Any, last_ns: int, starts: list[Any], chosen: list[list[Any]]) -> None:
    """Let each op wait for its inputs, which hold the one link of their route."""
    tables, routes = problem.tables, problem.tables.routes
    of, paces = routes.paces
    on_link: dict[int, list[Any]] = {}
    for tensor, target in zip(tables.edge_tensor.tolist(), tables.consumer.tolist(), strict=True):
        source, nbytes = int(tables.tensor_op[tensor]), int(tables.tensor_bytes[tensor])
        taken = _total(tables.run_ns[source].tolist(), chosen[source])
        model.add(starts[target] >= starts[source] + taken)
        ways: dict[int, list[tuple[int, int]]] = {}
        for here in range(len(problem.capacity)):
            for there in range(len(problem.capacity)):
                if here != there:
                    ways.setdefault(problem.cluster.routes[here][there][0], []).append((here, there))  # type: ignore[index]  # one each
        for link, pairs in ways.items():
            pace = paces[int(of[pairs[0]])]
            assert pace is not None
            latency = problem.cluster.links[link].latency_ns
            holds = alone_ns(pace, nbytes) - latency
            used, begin = model.new_bool_var(""), model.new_int_var(0, last_ns, "")
            for here, there in pairs:
                model.add_bool_or([chosen[source][here].negated(), chosen[target][there].negated(), used])
            model.add(begin >= starts[source] + taken).only_enforce_if(used)
            model.add(starts[target] >= begin + holds + latency).only_enforce_if(used)
            on_link.setdefault(link, []).append(model.new_optional_fixed_size_interval_var(begin, holds, used, ""))
    for intervals in on_link.values():
        model.add_no_overlap(intervals)


def main(seeds: int, seconds: float) -> None:
    kept: dict[str, dict[str, int]] = json.loads(OPTIMA.read_text()) if OPTIMA.exists() else {}
    for family, make in (("layered", layered), ("two_level", two_level)):
        of_family = kept.setdefault(family, {})
        for seed in range(seeds):
            problem = make(seed)
            found = verdict(problem, search(replace(problem, effort=Effort(judged=_JUDGED))))[1]
            best = proven(problem, found, seconds)
            print(family, seed, len(problem.group), found, best, best and found / best, flush=True)
            if best is not None:
                of_family[str(seed)] = best
            OPTIMA.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
