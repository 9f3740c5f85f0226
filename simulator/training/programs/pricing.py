"""How long the ops of each program take: estimated once where programs are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulator.cluster.cluster import Cluster
from simulator.costs.roofline import estimate
from simulator.costs.table import CostTable
from simulator.graph.graph import Graph
from simulator.training.programs.program import Program


def estimate_each(
    programs: Sequence[Program], cluster: Cluster, price: Callable[[Graph, Cluster], CostTable] = estimate
) -> tuple[CostTable, ...]:
    """The table of each program's graph; those that are alike or have one graph share one. `price` makes it."""
    known: dict[int, CostTable] = {}
    made: list[CostTable] = []
    for program in programs:
        if program.like is not None:
            made.append(made[program.like])
            continue
        if id(program.graph) not in known:
            known[id(program.graph)] = price(program.graph, cluster)
        made.append(known[id(program.graph)])
    return tuple(made)
