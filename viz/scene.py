"""The scene: all the values of one run, side by side, for whoever draws or prints them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.costs.table import CostTable
from simulator.execution.receiving import Received
from simulator.execution.trace import Trace
from simulator.graph.graph import Graph
from simulator.graph.step import Step
from simulator.partitioning import Partitions
from simulator.units import Nanos
from viz.pinning import Pinned
from viz.training.trained import Trained


@dataclass(frozen=True, eq=False)
class Scene:
    """One graph on one cluster: what was asked, decided, cut and simulated."""

    title: str  # the user's word for the graph: its file name
    graph: Graph
    step: Step
    cluster: Cluster
    costs: CostTable
    assignment: Assignment
    partitions: Partitions
    trace: Trace
    lower_bound_ns: Nanos
    received: Received | None = None  # what delaying Recvs has changed; None: none was to be delayed
    pinned: Pinned | None = None  # what device strings hold on CPUs; None: no noticeable part of the step
    training: Trained | None = None  # many steps of this program and others; None: one step is all
    check: Mapping[str, Any] | None = None  # Any: the JSON object of --check, as docs/json.md describes it
    notes: tuple[str, ...] = ()
