"""What a run begins with: the graph as TensorFlow would place it, its step, the cluster, and how long the ops take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simulator.cluster.client import connected
from simulator.cluster.cluster import Cluster
from simulator.cluster.protocols import with_protocol
from simulator.cluster.reading import default_cluster, load_cluster
from simulator.costs.calibration import calibrate, read_measurement
from simulator.costs.roofline import estimate
from simulator.costs.table import CostTable
from simulator.execution.tables import Tables, of_step
from simulator.graph.graph import Graph, Shape
from simulator.graph.inlining import inline, lower
from simulator.graph.loading import load
from simulator.graph.shapes import with_shapes
from simulator.graph.step import Step, choose_step
from viz.request import Request


@dataclass(frozen=True, eq=False)
class Inputs:
    """All that is known before anything is placed."""

    graph: Graph
    step: Step
    cluster: Cluster
    costs: CostTable
    tables: Tables  # of the whole step, for placement and bounds


def read_inputs(request: Request, say: Callable[[str], None]) -> Inputs:
    """Load what the request names. Raises SimvizError when a file, a name or a figure of it is wrong."""
    say("loading the graph")
    graph = _graph(request, say)
    say("choosing the step")
    step = choose_step(graph, feeds=tuple(request.feeds), fetches=request.fetches, signature=request.signature)
    cluster = _cluster(request, graph)
    say("pricing the ops")
    costs = _costs(request, graph, cluster)
    tables = of_step(graph, step, cluster, costs, trips=request.trips, branches=request.branches, seed=request.seed)
    return Inputs(graph, step, cluster, costs, tables)


def _graph(request: Request, say: Callable[[str], None]) -> Graph:
    graph = load(request.graph)
    graph = lower(graph if request.keep_calls else inline(graph))

    def ask(graph: Graph, feeds: Mapping[str, Shape]) -> list[Shape | None]:
        from simulator.oracle.shapes import infer

        say("asking TensorFlow for shapes")
        return infer(graph, feeds)

    return with_shapes(graph, batch=request.batch, feeds=request.feeds, infer=ask)


def _cluster(request: Request, graph: Graph) -> Cluster:
    cluster = default_cluster(graph) if request.cluster is None else load_cluster(request.cluster)
    if request.protocol is not None:
        cluster = with_protocol(cluster, request.protocol)
    return cluster if request.master is None else connected(cluster, request.master)


def _costs(request: Request, graph: Graph, cluster: Cluster) -> CostTable:
    costs = estimate(graph, cluster)
    return costs if request.costs is None else calibrate(costs, read_measurement(request.costs), graph, cluster)
