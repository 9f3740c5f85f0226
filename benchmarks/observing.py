"""Shapes, loops and branches known beforehand, beside those of a step that really ran; and its time beside ours.

    python benchmarks/observing.py FILE ... [--batch N] [--feed NAME=SHAPE] [--time S] [--memory GIB]

For each graph: whether its step was observed, or why not; how many of its tensors have by our rules the shape that they
had, another one, or none; how many nodes and loops run as often without and with the observation; and the simulated
step on this machine's CPU with observed costs, beside the real one. Tensors that something reads are counted apart:
some outputs are read by nobody, and another device makes them in another shape. So does workspace of cuDNN, whose
size TensorFlow does not know (`shapes.unknown`); it counts among all tensors alone.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from placement.placing import place
from simulator import ObservedStep, SimulationOptions, choose_step, estimate, load, load_cluster, simulate
from simulator.errors import SimvizError
from simulator.execution.tables import of_step
from simulator.graph.dtypes import RESOURCE, VARIANT, base
from simulator.graph.graph import Graph, Shape
from simulator.graph.step import Step
from simulator.observed.fitting import with_observed_costs
from simulator.oracle.observing import observe_step
from simulator.partitioning.cut import partition
from simulator.shapes.unknown import OPAQUE
from viz.command.request import gathered, parse_feed

HERE = "cpu=1"
# Made for the client, without a line of their own in a trace, or held by a queue that is not there.
SILENT = frozenset({"NoOp", "_Arg", "_Retval", "Const"})


@dataclass
class Score:
    """Tensors by whether their shape was known and right, and those of which it was not, by op."""

    right: int = 0
    unknown: int = 0
    wrong: int = 0
    ops: Counter[str] = field(default_factory=Counter)

    def add(self, known: Shape | None, seen: set[Shape], op: str) -> None:
        """Count a tensor. One that had several shapes is known where the open dimensions are those that changed."""
        if known is not None and any(_fits(known, shape) for shape in seen) and (len(seen) > 1 or known in seen):
            self.right += 1
        elif known is None or min(known, default=0) < 0:
            self.unknown += 1
            self.ops[f"{op} ?"] += 1
        else:
            self.wrong += 1
            self.ops[op] += 1

    def __str__(self) -> str:
        total = self.right + self.unknown + self.wrong
        share = 100 * self.right / total if total else 100.0
        return f"{self.right:,} of {total:,} ({share:.2f} %), {self.unknown} unknown, {self.wrong} wrong"


def _fits(known: Shape, seen: Shape) -> bool:
    return len(known) == len(seen) and all(a in (-1, b) for a, b in zip(known, seen, strict=True))


def shapes(graph: Graph, step: Step, observed: ObservedStep) -> tuple[Score, Score]:
    """All tensors of the step, and those that something reads."""
    read = np.zeros(len(graph.tensor_node), bool)
    read[graph.edge_tensor[graph.edge_tensor >= 0]] = True
    whole, of_readers = Score(), Score()
    for name, node in observed.nodes.items():
        first = int(graph.tensor_ptr[graph.row(name)])
        for port, seen in node.outputs.items():
            if base(int(graph.tensor_dtype[first + port])) in (RESOURCE, VARIANT):
                continue
            counts = read[first + port] and (node.op, port) not in OPAQUE
            for score in (whole, of_readers) if counts else (whole,):
                score.add(graph.tensor_shape[first + port], {one.shape for one in seen}, node.op)
    return whole, of_readers


def runs(graph: Graph, step: Step, options: SimulationOptions) -> Counter[str]:
    """How often each node runs in a simulation."""
    cluster = load_cluster(HERE)
    tables = of_step(graph, step, cluster, estimate(graph, cluster), options)
    return Counter(tables.names[row] for row in np.flatnonzero(~tables.silent).tolist())


def flow(graph: Graph, step: Step, observed: ObservedStep) -> str:
    """How many nodes and loops run as often as they did, without the observation and with it."""
    seen = {name: node for name, node in observed.nodes.items() if node.op not in SILENT}
    gone = [name for row, name in enumerate(graph.names) if step.runs[row] and name not in observed.nodes]
    said = []
    for known in (None, observed):
        ours = runs(graph, step, SimulationOptions(observed=known))
        alike = sum(ours[name] == node.runs for name, node in seen.items())
        loops = [ours[name] == node.runs for name, node in seen.items() if node.op == "LoopCond"]
        more = sum(name in ours and graph.ops[graph.row(name)] not in SILENT for name in gone)
        said.append(
            f"{alike:,} of {len(seen):,} nodes and {sum(loops)} of {len(loops)} loops run as often, {more} more run"
        )
    return f"blind {said[0]}; knowing {said[1]}"


def timed(path: Path, given: argparse.Namespace, observed: ObservedStep) -> str:
    """The simulated step with observed costs, beside the real one."""
    graph = load(
        path, batch=given.batch, feeds=gathered(given.feed, parse_feed), observed=observed, ignore_devices=True
    )
    cluster, step = load_cluster(HERE), choose_step(graph)
    costs = with_observed_costs(estimate(graph, cluster), observed, graph, cluster)
    assignment = place(graph, cluster, costs, step=step, algorithm="single")
    pieces = partition(graph, assignment, cluster, step=step)
    ours = simulate(pieces, cluster, costs, SimulationOptions(observed=observed)).makespan
    theirs = observed.step_ns or observed.traced_ns
    kind = "untraced" if observed.step_ns else "traced"
    return f"simulated {ours / 1e6:.1f} ms, ran {theirs / 1e6:.1f} ms ({kind})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--feed", action="append", default=[])
    parser.add_argument("--time", type=float, default=300.0, help="seconds for a step (default: 300)")
    parser.add_argument("--memory", type=float, help="GiB (default: three quarters of what is free)")
    given = parser.parse_args()
    memory = None if given.memory is None else int(given.memory * 2**30)
    total = Score(), Score()
    for path in given.files:
        try:
            graph = load(path, batch=given.batch, feeds=gathered(given.feed, parse_feed), ignore_devices=True)
            step = choose_step(graph)
            observed = observe_step(graph, step=step, time_s=given.time, memory_bytes=memory)
        except SimvizError as error:
            print(f"{path.name}: not observed: {error}", flush=True)
            continue
        scores = shapes(graph, step, observed)
        print(f"{path.name}: {len(observed.nodes):,} nodes; all tensors {scores[0]}; read {scores[1]};", end=" ")
        try:
            print(f"{flow(graph, step, observed)}; {timed(path, given, observed)}", flush=True)
        except SimvizError as error:  # an op outside of the step has no kernel for a CPU
            print(f"not simulated: {error}", flush=True)
        if scores[1].ops:
            print(f"    read, unknown (?) or wrong: {dict(scores[1].ops)}", flush=True)
        for one, score in zip(total, scores, strict=True):
            one.right, one.unknown = one.right + score.right, one.unknown + score.unknown
            one.wrong += score.wrong
    print(f"together: all tensors {total[0]}; read {total[1]}")


if __name__ == "__main__":
    main()
