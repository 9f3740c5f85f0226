"""Time the event loop on random graphs: events per second, and the ratio to SimPy on the same graph in the same run.

python benchmarks/engine.py [OPS ...]     by default 10000 and 100000, on 8 devices with a random cut
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # the reference is among the tests

from simulator.execution.engine import makespan, run
from simulator.execution.tables import of_step
from simulator.graph.graph import Graph
from tests.execution import simpy_reference
from tests.execution.cases import apart, attrs_of, costs, whole
from tests.strategies import Rows

DEVICES = 8
NEAR = 200  # an op reads from ops at most this many rows before it
REPEATS = 5


def random_graph(ops: int, seed: int = 0) -> Graph:
    """Ops with one to three inputs of 4 kB from shortly before them."""
    chance = random.Random(seed)
    draft = Rows()
    made = {arity: attrs_of("AddN", arity, 1000) for arity in (1, 2, 3)}
    for at in range(ops):
        if at < DEVICES:
            draft.add(f"n{at}", "Const", **attrs_of("Const", 1, 1000))
            continue
        inputs = sorted({chance.randrange(max(0, at - NEAR), at) for _ in range(chance.randint(1, 3))})
        draft.add(f"n{at}", "AddN", [f"n{source}" for source in inputs], **made[len(inputs)])
    return draft.built()


def seconds(call: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median CPU time of several calls: one thread computes, so that a busy machine disturbs it least."""
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def measure(ops: int) -> str:
    """One row of the table."""
    graph, on, chance = random_graph(ops), apart(DEVICES), np.random.default_rng(0)
    priced = costs(graph, on, chance.integers(1_000, 100_000, ops))
    device = chance.integers(0, DEVICES, ops).tolist()
    step = whole(graph)
    made = seconds(lambda: of_step(graph, step, on, priced))
    tables = of_step(graph, step, on, priced)
    outcome = run(tables, device)
    recorded, searched = seconds(lambda: run(tables, device)), seconds(lambda: makespan(tables, device))
    began = time.process_time()
    reference = simpy_reference.simulate(graph, on, priced, device)
    theirs = time.process_time() - began
    equal = reference == {
        name: (start, end)
        for name, start, end in zip(tables.names, outcome.start_ns.tolist(), outcome.end_ns.tolist(), strict=True)
    }
    return (
        f"| {ops} | {outcome.events} | {made * 1e3:.0f} ms | {outcome.events / searched / 1e3:.0f}k/s "
        f"| {outcome.events / recorded / 1e3:.0f}k/s | {theirs / searched:.0f} | {'yes' if equal else 'NO'} |"
    )


if __name__ == "__main__":
    print("| ops | events | tables | makespan | with record | SimPy's time / ours | equal |")
    print("|---|---|---|---|---|---|---|")
    for size in [int(text) for text in sys.argv[1:]] or [10_000, 100_000]:
        print(measure(size), flush=True)
