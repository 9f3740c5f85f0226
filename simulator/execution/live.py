"""The nodes of a step that make something: those on sides of branches that are never taken do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.columns import flags
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.partitioning.partitions import Partitions


def live_step(graph: Graph, step: Step, partitions: Partitions, trace: Trace) -> Step:
    """The step without the nodes that are dead each time that they run in its trace."""
    made, met, live = partitions.graph, *np.zeros((2, len(partitions.graph)), np.bool_)
    met[trace.instances.node] = True
    live[trace.instances.node[trace.instances.shown]] = True
    names = (made.names[row] for row in np.flatnonzero(met & ~live & ~partitions.inserted).tolist())
    dead = [graph.index[name] for name in names if name in graph.index]
    if not dead:
        return step
    runs = np.array(step.runs)
    runs[dead] = False
    return replace(step, runs=flags(runs))
