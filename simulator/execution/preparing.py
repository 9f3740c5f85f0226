"""A step on a cluster, ready to be placed, bounded and run under many assignments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from simulator.columns import Ints, ints
from simulator.errors import SimvizError
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables, of_step
from simulator.partitioning import moves_of_step
from simulator.wording import counted, repr_of

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.costs.table import CostTable
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step


@dataclass(frozen=True, eq=False)
class Given:
    """What a step was prepared of."""

    graph: Graph
    step: Step
    cluster: Cluster
    costs: CostTable


@dataclass(frozen=True, eq=False)
class Prepared:
    """A step on a cluster, ready for many assignments. Axes: N nodes of the graph, n ops of the tables."""

    tables: Tables
    names: tuple[str, ...]  # [N]
    moves: tuple[tuple[int, int], ...]  # control-flow node, the one whose device it takes in the cut; N + c: a client's
    given: Given | None = None  # None: tables alone, which can't be cut
    options: SimulationOptions = SimulationOptions()

    def __repr__(self) -> str:
        return repr_of(self, counted(len(self.tables), "op"), counted(len(self.names), "node"))

    def under(self, options: SimulationOptions) -> Prepared:
        """The same step, to be run by other options. Raises SimvizError where these change its loops or branches."""
        if not options.unrolls_like(self.options):
            raise SimvizError("These options have other trips, branches or another seed; prepare the step with them.")
        return replace(self, options=options)

    @cached_property
    def lacks_kernels(self) -> bool:
        """Whether some op cannot run everywhere."""
        return bool((self.tables.kind_ns[self.tables.bound < 0] < 0).any())

    @cached_property
    def rest_ns(self) -> Ints:
        """[n] the least time from an op's start to the end of the step: the longest chain behind it, at its fastest.

        A Merge may have started before an input of its ends, so no chain leads through its data inputs.
        """
        tables = self.tables
        never = np.iinfo(np.int64).max
        fastest = np.where(tables.kind_ns < 0, never, tables.kind_ns).min(axis=1, initial=never)
        rest = np.where(fastest == never, 0, fastest).tolist()
        ends = np.flatnonzero(~(tables.merge[tables.consumer] & (tables.tensor_row[tables.edge_tensor] >= 0)))
        source = tables.tensor_op[tables.edge_tensor[ends]]
        readers = np.bincount(source, minlength=len(rest)).tolist()
        sources: list[list[int]] = [[] for _ in rest]
        for op, reader in zip(source.tolist(), tables.consumer[ends].tolist(), strict=True):
            sources[reader].append(op)
        behind = [0] * len(rest)
        done = [op for op, left in enumerate(readers) if not left]
        for reader in done:  # grows meanwhile: readers come before what they read
            rest[reader] += behind[reader]
            for op in sources[reader]:
                behind[op] = max(behind[op], rest[reader])
                readers[op] -= 1
                if not readers[op]:
                    done.append(op)
        return ints(rest)


def prepare(
    graph: Graph,
    step: Step,
    cluster: Cluster,
    costs: CostTable,
    options: SimulationOptions = SimulationOptions(),
) -> Prepared:
    """Reduce a step to what every assignment of it shares; by the options it will be run, as by `simulate`."""
    tables = of_step(graph, step, cluster, costs, options)
    clients = int((tables.bound >= 0).sum())
    there = {*np.flatnonzero(step.runs).tolist(), *range(len(graph), len(graph) + clients)}
    moves = (move for move in moves_of_step(graph, step) if there.issuperset(move))
    given = Given(graph, step, cluster, costs)
    return Prepared(tables, graph.names, tuple(moves), given, options)
