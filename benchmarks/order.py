"""Compare the order "tensorflow" with the order in which a real session with one inter-op thread starts ops.

python benchmarks/order.py [--graphs 40] [--nodes 200]     needs TensorFlow
"""

from __future__ import annotations

import argparse
import sys
from itertools import combinations
from pathlib import Path

import numpy as np

from simulator.execution.options import SimulationOptions

sys.path.insert(0, str(Path(__file__).parents[1]))  # what draws the graphs is among the tests

from simulator.execution.engine import run
from simulator.execution.tables import of_step
from tests.execution.cases import apart, costs
from tests.oracle.test_order import EXPENSIVE_NS, drawn, started, step_of, timed_ops


def agreement(ours: list[str], theirs: list[str]) -> float:
    """The share of pairs of ops that come in the same order."""
    place = {name: at for at, name in enumerate(ours)}
    pairs = [place[a] < place[b] for a, b in combinations(theirs, 2)]
    return sum(pairs) / len(pairs)


def main() -> None:
    """Print how many graphs are run in the very same order, and how many pairs of ops."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=40)
    parser.add_argument("--nodes", type=int, default=200)
    chosen = parser.parse_args()
    alike, ops = {"tensorflow": 0, "fifo": 0}, 0
    pairs: dict[str, list[float]] = {"tensorflow": [], "fifo": []}
    for seed in range(1000, 1000 + chosen.graphs):
        graph, on = drawn(seed, chosen.nodes), apart(1)
        step = step_of(graph)
        tables = of_step(graph, step, on, costs(graph, on, EXPENSIVE_NS))
        theirs = started(graph, step)
        for order, found in pairs.items():
            ours = timed_ops(
                graph, tables, run(tables, np.zeros(len(tables), int), options=SimulationOptions(order=order))
            )
            found.append(agreement(ours, theirs))
            alike[order] += ours == theirs
        ops += len(theirs)
    for order, found in pairs.items():
        print(f"{order}: {alike[order]} of {chosen.graphs} graphs ({ops} timed ops) in the very same order, ", end="")
        print(f"{np.mean(found):.1%} of the pairs of ops")


if __name__ == "__main__":
    main()
