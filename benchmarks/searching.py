"""Placements: what is shown by default and what a search finds, against the best known and the bound.

    python benchmarks/searching.py FOLDER [KNOWN.json] [--only=PART]

Each graph of the folder is placed on six clusters, with its device strings kept and dropped. "Shown" is the default
algorithm. The search has the placements that a quiet core judges in about 1 s and 4 s, by the size of the step, so the
table repeats. The best known is the best of all these and of KNOWN.json, which is updated. Memory: the same with
GPUs of 75, 50 and 35 % of what one device needs. Random: graphs of 5 and 6 groups, against all placements of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

from placement.algorithms import load as algorithm
from placement.effort import Effort, judged_in
from placement.plan import Plan, lacking, verdict
from placement.problem import Problem, pose
from simulator import choose_step, estimate, load_cluster
from simulator import load as load_graph
from simulator.bounds import bound
from simulator.cluster.cluster import Cluster
from simulator.cluster.device_strings import without_devices
from simulator.columns import ints
from simulator.errors import SimvizError
from simulator.execution.evaluate import evaluate
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.graph.graph import Graph
from simulator.placer.constraints import constrain

CLUSTERS = ("2gpu", "4gpu", "8gpu", "dgx-a100", "ps=2,worker=2x2gpu", "worker=2x4gpu")
SECONDS = (1.0, 4.0)
SHARES = (0.75, 0.5, 0.35)


@dataclass
class Row:
    """One problem, and how long its step takes."""

    name: str
    ops: int
    shown: int
    found: list[int]  # per budget
    full: list[bool]  # of what was found: it does not fit
    bound: int
    best: int = 0


def posed(graph: Graph, cluster: Cluster) -> Problem:
    prepared = prepare(graph, choose_step(graph), cluster, estimate(graph, cluster), SimulationOptions())
    return pose(graph, prepared, cluster, constrain(graph, cluster))


def shown(problem: Problem) -> tuple[bool, int]:
    """The verdict on the default algorithm and the single device that may replace it."""
    reached = []
    for name in ("whitepaper", "single"):
        try:
            reached.append(verdict(problem, algorithm(name)(problem)))
        except SimvizError:
            continue
    return min(reached, default=(True, 2**61))


def searched(problem: Problem, seconds: float) -> Plan:
    judged = judged_in(seconds, len(problem.group))
    return algorithm("search")(replace(problem, effort=Effort(judged=judged)))


def row(name: str, problem: Problem) -> Row:
    given = problem.prepared.given
    assert given is not None
    below = bound(
        problem.graph,
        problem.cluster,
        given.costs,
        step=given.step,
        prepared=problem.prepared,
        constraints=problem.constraints,
        options=problem.options,
        compiled=True,
    )
    reached = [verdict(problem, searched(problem, seconds)) for seconds in SECONDS]
    return Row(
        name, len(problem.group), shown(problem)[1], [ns for _, ns in reached], [full for full, _ in reached], below.ns
    )


def graphs(folder: Path) -> Iterator[tuple[str, Graph]]:
    """Each graph that can be loaded; without its device strings, too, if it has any."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            graph = load_graph(path)
        except (SimvizError, UnicodeDecodeError):
            continue
        yield path.stem, graph
        if any(graph.requested):
            yield f"{path.stem}, no strings", without_devices(graph)


def real(folder: Path) -> Iterator[Row]:
    for name, graph in graphs(folder):
        for described in CLUSTERS:
            try:
                yield row(f"{name} on {described}", posed(graph, load_cluster(described)))
            except SimvizError as error:
                print(f"{name} on {described}: {str(error)[:80]}", file=sys.stderr)


def tight(folder: Path) -> Iterator[Row]:
    """Graphs without device strings on four GPUs whose memory is a share of what a step on one of them needs."""
    on = load_cluster("4gpu")
    for name, graph in graphs(folder):
        if any(graph.requested):
            continue
        whole = posed(graph, on)
        alone = algorithm("single")(whole)
        empty = replace(whole, capacity=[0] * len(whole.capacity))
        need = max(lacking(empty, alone))
        for share in SHARES:
            devices = [replace(one, memory_bytes=int(need * share)) for one in on.devices]
            small = replace(on, devices=tuple(devices))
            try:
                yield row(f"{name} with {share:.0%}", posed(graph, small))
            except SimvizError as error:
                print(f"{name} with {share:.0%}: {str(error)[:80]}", file=sys.stderr)


def proven(count: int) -> Iterator[tuple[float, float, float]]:
    """Random graphs of few ops: shown, searched and bound over the best of all placements, in order of ready time."""
    chance = np.random.default_rng(1)
    for _ in range(count):
        problem = random_problem(chance)
        every = np.array(list(product(*problem.allowed)), np.int64)
        nodes = every[:, problem.constraints.group]
        best = int(evaluate(problem.prepared, nodes).min())
        under = problem.prepared.under(SimulationOptions(order="fifo"))
        fixed = replace(problem, prepared=under)
        line = row("random", fixed)
        yield line.shown / best, line.found[0] / best, best / max(line.bound, 1)


def random_problem(chance: np.random.Generator) -> Problem:
    """Nine ops in random layers, on a CPU and two GPUs."""
    from tests.placement.problems import cluster_of, costs_of, problem_of, tasks

    count = 9
    edges: dict[tuple[str, str], int | None] = {
        (f"n{a}", f"n{b}"): int(chance.integers(1, 400))
        for b in range(1, count)
        for a in range(b)
        if chance.random() < 0.3
    }
    cluster = cluster_of("ggg", latency_ns=int(chance.integers(0, 100)))
    run = chance.integers(50, 500, (count, 1)) * chance.integers(8, 13, (count, 3)) // 10
    names = [f"n{at}" for at in range(count)]
    return problem_of(tasks(edges, names), cluster, costs_of(cluster, ints(run.reshape(-1)).reshape(count, 3).tolist()))


def table(title: str, rows: list[Row], known: dict[str, int]) -> None:
    for one in rows:
        fitting = [ns for ns, full in zip(one.found, one.full, strict=True) if not full]
        one.best = known[one.name] = min([*fitting, known.get(one.name, 2**61)])
    fits = f"{sum(not all(r.full) for r in rows)} with a plan that fits"
    print(f"\n{title}: {len(rows)} problems, {fits}, of {min(r.ops for r in rows)} to {max(r.ops for r in rows)} ops\n")
    rows = [one for one in rows if one.best < 2**61]
    print("| ÷ best known | mean | median | worst | fit |\n|---|---|---|---|---|")
    columns = [("shown", [r.shown for r in rows], 0)]
    columns += [(f"search, {s:g} s", [r.found[at] for r in rows], at) for at, s in enumerate(SECONDS)]
    for what, values, at in columns:
        ratio = [ns / r.best for ns, r in zip(values, rows, strict=True)]
        fit = "" if what == "shown" else f"{sum(not r.full[at] for r in rows)}"
        print(f"| {what} | {geometric_mean(ratio):.3f} | {median(ratio):.3f} | {max(ratio):.2f} | {fit} |")
    loose = [r.best / r.bound for r in rows]
    print(
        f"| best known ÷ bound | {geometric_mean(loose):.3f} | {median(loose):.3f} | {max(loose):.2f} | |", flush=True
    )


def main(folder: Path, kept: Path | None, only: str) -> None:
    known: dict[str, int] = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    for part, title, source in (("real", "Real graphs", real), ("memory", "Little memory", tight)):
        rows: list[Row] = []
        for one in source(folder) if only in ("", part) else ():
            print(one, file=sys.stderr, flush=True)
            rows.append(one)
        if rows:
            table(title, rows, known)
        if kept is not None:
            kept.write_text(json.dumps(known, indent=1))
    if only in ("", "random"):
        found = list(proven(30))
        print("\n| ÷ proven optimum | mean | worst |\n|---|---|---|")
        for what, column in zip(("shown", "search, 1 s", "optimum ÷ bound"), zip(*found, strict=True), strict=True):
            print(f"| {what} | {geometric_mean(column):.4f} | {max(column):.3f} |")


if __name__ == "__main__":
    rest = [argument for argument in sys.argv[2:] if not argument.startswith("--only=")]
    part = next((argument[7:] for argument in sys.argv[2:] if argument.startswith("--only=")), "")
    main(Path(sys.argv[1]), Path(rest[0]) if rest else None, part)
