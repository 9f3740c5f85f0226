"""Placements that a search finds, against the best known, a proven optimum and the bound: a table for RESULTS.md.

    python benchmarks/searching.py ROWS.json FOLDER --only=real --clusters=4gpu,8gpu
    python benchmarks/searching.py ROWS.json --only=random
    python benchmarks/searching.py ROWS.json MORE.json --table

The parts are those of `PARTS`. Rows that ROWS.json holds are not measured again, so a run can be ended and taken up.
Budgets are numbers of placements, so that load changes no row: as many as `judged_in` counts for 1 s and 10 s. The
best known is the best of all columns, and of a search of `--long` seconds' worth with another seed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import geometric_mean, mean, median
from time import process_time
from typing import NamedTuple, TypeAlias

from searching_instances import layer_each, layered, lstm, optimal, posed, two_level, unplaced

from placement.algorithms import load as algorithm
from placement.effort import Effort, judged_in
from placement.plan import Plan, lacking, verdict
from placement.problem import Problem
from simulator import load as load_graph
from simulator import load_cluster
from simulator.bounds import bound
from simulator.cluster.cluster import Cluster
from simulator.cluster.device_strings import without_devices
from simulator.errors import SimvizError
from simulator.execution.options import SimulationOptions
from simulator.graph.graph import Graph

CLUSTERS = ("2gpu", "4gpu", "8gpu", "dgx-a100", "ps=2,worker=2x2gpu", "worker=2x4gpu")
SECONDS = (1.0, 10.0)
SHARES = (0.75, 0.5, 0.35)
_DECIDED = 10  # groups: where fewer can be placed, there is nothing to search
_UNKNOWN = 2**61


@dataclass
class Row:
    """One problem, and how long its step takes."""

    name: str
    part: str
    ops: int
    hosts: int
    listed: int  # the best of all other algorithms that the search asked
    shown: int  # `whitepaper`, or the single device that may replace it
    found: list[int]  # per budget
    full: list[bool]  # of what was found: it does not fit
    took_s: list[float]  # processor time of the searches
    bound: int
    best: int  # best known, or the proven optimum


class Case(NamedTuple):
    """A problem to be, and its optimum if that is known."""

    name: str
    make: Callable[[SimulationOptions], Problem]
    optimum: int | None = None


def shown(problem: Problem) -> int:
    """The time of `whitepaper`, or of the single device that may replace it."""
    reached = []
    for name in ("whitepaper", "single"):
        try:
            reached.append(verdict(problem, algorithm(name)(problem)))
        except SimvizError:
            continue
    return min(reached, default=(True, _UNKNOWN))[1]


def searched(problem: Problem, seconds: float) -> Plan:
    judged = judged_in(seconds, len(problem.group))
    return algorithm("search")(replace(problem, effort=Effort(judged=judged)))


def measured(part: str, case: Case, long_s: float) -> Row:
    """Search with each budget, and once more with another seed where the optimum is not known."""
    problem = case.make(SimulationOptions())
    given = problem.prepared.given
    assert given is not None
    found, full, took_s, listed = [], [], [], _UNKNOWN
    for seconds in SECONDS:
        began = process_time()
        plan = searched(problem, seconds)
        took_s.append(process_time() - began)
        over, ns = verdict(problem, plan)
        found.append(ns)
        full.append(over)
        if plan.search is not None:
            listed = min([listed, *(taken for _, taken in plan.search.listed if taken is not None)])
    best = min([ns for ns, over in zip(found, full, strict=True) if not over], default=_UNKNOWN)
    if case.optimum is None and long_s:
        over, ns = verdict(problem, searched(case.make(SimulationOptions(seed=1)), long_s))
        best = min(best, _UNKNOWN if over else ns)
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
    hosts = len({one.host or one.task for one in problem.cluster.devices})
    best = best if case.optimum is None else case.optimum
    return Row(case.name, part, len(problem.group), hosts, listed, shown(problem), found, full, took_s, below.ns, best)


# --- the parts --------------------------------------------------------------------------------------------------------


def graphs(folder: Path) -> Iterator[tuple[str, Graph]]:
    """Each graph that can be loaded; without its device strings, too, if it has any."""
    seen = set()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            graph = load_graph(path)
        except (SimvizError, UnicodeDecodeError):
            continue
        if path.stem not in seen:
            seen.add(path.stem)
            yield path.stem, graph
            if any(graph.requested):
                yield f"{path.stem}, no strings", without_devices(graph)


def real(folder: Path, clusters: list[str]) -> Iterator[Case]:
    """Graphs on clusters, where at least some groups can be placed."""
    for name, graph in graphs(folder):
        for described in clusters:
            try:
                problem = posed(graph, load_cluster(described))
            except SimvizError as error:
                print(f"{name} on {described}: {str(error)[:80]}", file=sys.stderr)
                continue
            open_ = sum(bool(ops) and len(may) > 1 for ops, may in zip(problem.ops, problem.allowed, strict=True))
            if open_ >= _DECIDED:
                yield Case(f"{name} on {described}", partial(posed, graph, load_cluster(described)))


def memory(folder: Path, _: list[str]) -> Iterator[Case]:
    """Graphs without device strings on four GPUs whose memory is a share of what a step on one of them needs."""
    on = load_cluster("4gpu")
    for name, graph in graphs(folder):
        if any(graph.requested):
            continue
        try:
            whole = posed(graph, on)
            need = max(lacking(replace(whole, capacity=[0] * len(on)), algorithm("single")(whole)))
        except SimvizError as error:
            print(f"{name}: {str(error)[:80]}", file=sys.stderr)
            continue
        for share in SHARES:
            yield Case(f"{name} with {share:.0%}", partial(posed, graph, _less(on, int(need * share))))


def _less(on: Cluster, memory_bytes: int) -> Cluster:
    return replace(on, devices=tuple(replace(one, memory_bytes=memory_bytes) for one in on.devices))


def random(_: Path, __: list[str]) -> Iterator[Case]:
    """Random graphs of 30 to 60 ops, of which the optimum is proven."""
    for seed, optimum in optimal("layered").items():
        yield Case(f"random {seed}", partial(layered, seed), optimum)


def links(_: Path, __: list[str]) -> Iterator[Case]:
    """The same on two hosts of two GPUs, whose adapters all transfers between them share."""
    for seed, optimum in optimal("two_level").items():
        yield Case(f"two-level {seed}", partial(two_level, seed), optimum)


def deep(_: Path, __: list[str]) -> Iterator[Case]:
    """Deep LSTMs, a layer for each of four GPUs; the optimum is taken to be a layer on each."""
    for steps in (10, 30, 100):
        for backward in (False, True):
            for shuffled in (False, True):
                make = partial(lstm, steps, backward=backward, shuffled=shuffled)
                problem = make(SimulationOptions())
                optimum = verdict(problem, layer_each(problem))[1]
                name = f"LSTM of {steps} steps{', training' if backward else ''}{', shuffled' if shuffled else ''}"
                yield Case(name, make, optimum)


def free(_: Path, __: list[str]) -> Iterator[Case]:
    """Random graphs of 100 to 5,000 ops on four GPUs."""
    for seed, ops in enumerate((100, 300, 1000, 3000)):
        yield Case(f"random of {ops} ops", partial(unplaced, seed, ops))


Part: TypeAlias = Callable[[Path, list[str]], Iterator[Case]]
PARTS: dict[str, Part] = {"real": real, "memory": memory, "random": random, "links": links, "lstm": deep, "large": free}


# --- the table --------------------------------------------------------------------------------------------------------


def table(rows: list[Row]) -> None:
    """Print one line for each part and size, with the mean, the median and the worst of each column."""
    print("| part | problems | ops | column | mean | median | worst | fit | mean time |")
    print("|---|---|---|---|---|---|---|---|---|")
    for part in PARTS:
        of_part = [row for row in rows if row.part == part]
        if not of_part:
            continue
        about = f"| {part} | {len(of_part)} | {min(r.ops for r in of_part)}-{max(r.ops for r in of_part)} "
        known = [row for row in of_part if row.best < _UNKNOWN]
        columns = [("whitepaper or single", [r.shown for r in known], "", "")]
        for at, seconds in enumerate(SECONDS[: min(len(row.found) for row in of_part)]):
            fit, took = sum(not r.full[at] for r in of_part), mean(r.took_s[at] for r in of_part)
            columns.append((f"search, {seconds:g} s", [r.found[at] for r in known], str(fit), f"{took:.1f} s"))
        for what, values, fitting, taking in columns:
            ratio = [ns / max(r.best, 1) for ns, r in zip(values, known, strict=True)]
            print(about + _cells(what, ratio) + f" {fitting} | {taking} |")
        for what, some in (
            ("best known ÷ bound, one host", [r for r in known if r.hosts == 1]),
            ("best known ÷ bound, several hosts", [r for r in known if r.hosts > 1]),
        ):
            if some:
                print(about + _cells(what, [r.best / max(r.bound, 1) for r in some]) + " | |")
        worse = sum(ns > row.listed for row in known for ns in row.found)
        print(about + f"| worse than a listed plan | {worse} | | | | |")


def _cells(what: str, ratio: list[float]) -> str:
    return f"| {what} | {geometric_mean(ratio):.3f} | {median(ratio):.3f} | {max(ratio):.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--only", choices=PARTS, default="real")
    parser.add_argument("--clusters", default=";".join(CLUSTERS), help="by semicolons")
    parser.add_argument("--long", type=float, default=10.0)
    parser.add_argument("--most", type=int, default=10**9, help="ops of the largest problem")
    parser.add_argument("--known", type=Path, help="rows of another run: what it knows to be better counts, too")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if asked.table:
        known: dict[str, dict[str, int]] = {} if asked.known is None else json.loads(asked.known.read_text())
        made = [Row(**row) for path in asked.files for row in json.loads(path.read_text()).values()]
        table([replace(row, best=min(row.best, known.get(row.name, {}).get("best", row.best))) for row in made])
        return
    kept, folder = asked.files[0], asked.files[-1]
    rows: dict[str, dict[str, object]] = json.loads(kept.read_text()) if kept.exists() else {}
    for case in PARTS[asked.only](folder, asked.clusters.split(";")):
        if case.name in rows or (asked.most < 10**9 and len(case.make(SimulationOptions()).group) > asked.most):
            continue
        row = measured(asked.only, case, asked.long)
        print(row, file=sys.stderr, flush=True)
        rows[case.name] = asdict(row)
        kept.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
