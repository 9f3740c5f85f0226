"""Pipelines of a run: the graph in microbatches, its costs, and the number of microbatches that is best.

A measured time is that of an op on the whole batch. Its copies work on a part, so they take that time in the proportion
of the estimates for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.costs.estimate import estimate
from simulator.costs.table import MEASURED, CostTable
from simulator.errors import SimvizError
from simulator.execution.memory import out_of_memory
from simulator.graph.graph import Graph
from simulator.training.pipelines.building import Pipeline
from simulator.training.pipelines.orders import Order
from simulator.training.pipelines.pipelined import pipeline
from viz.command.request import AUTO, Request
from viz.pipelined import Pipelined, Tried

if TYPE_CHECKING:
    from viz.scene import Scene

COUNTS = (2, 4, 8)  # that are tried, besides 1
DEFAULT: Order = "1f1b"  # as fast as the other, and holds fewer microbatches


def pipelined(
    request: Request, graph: Graph, cluster: Cluster, price: Callable[[Request, Graph, Cluster], CostTable]
) -> tuple[Pipeline, CostTable]:
    """The pipeline that a request asks for, of a graph with its shapes, and the costs of its ops."""

    def scaled(other: Graph, cluster: Cluster) -> CostTable:
        found = price(request, other, cluster)
        return _scaled(found, other, graph, cluster) if request.costs else found

    assert isinstance(request.microbatches, int)  # `choose` has decided
    made = pipeline(
        graph,
        cluster,
        microbatches=request.microbatches,
        order=request.pipeline or DEFAULT,
        batch=request.batch,
        fetch=request.fetches,
        price=scaled,
    )
    return made, scaled(made.graph, cluster)


def _scaled(costs: CostTable, graph: Graph, whole: Graph, cluster: Cluster) -> CostTable:
    """The costs with the measured times of the whole batch scaled to what each node works on."""
    one, other = estimate(graph, cluster).run_ns, estimate(whole, cluster).run_ns
    run_ns = costs.run_ns.copy()
    for row in np.flatnonzero(costs.source == MEASURED).tolist():
        name = graph.names[row]
        at = whole.index.get(graph.copies.get(name, name))
        if at is None:
            continue
        part = np.where((other[at] > 0) & (one[row] >= 0), one[row] / np.maximum(other[at], 1), 1.0)
        measured = run_ns[row] != one[row]  # another kind of device may have kept its estimate
        run_ns[row] = np.where(measured & (run_ns[row] >= 0), np.rint(run_ns[row] * part), run_ns[row])
    run_ns.setflags(write=False)
    return replace(costs, run_ns=run_ns)


def choose(request: Request, run: Callable[[Request], Scene]) -> tuple[Request, Scene]:
    """The request with the number of microbatches that is best, and its scene, which `run` makes.

    A step that fits in memory is better than each that does not, and then the faster one. Of equals it is the one with
    fewer microbatches, so the plain step is never replaced by a slower one.
    """
    if request.microbatches != AUTO:
        return request, run(request)
    order = request.pipeline or DEFAULT
    best_request = replace(request, microbatches=None, pipeline=None)
    best = run(best_request)
    tried = [_tried(1, "", best)]
    rank = (not tried[0].fits, best.trace.makespan)
    for count in COUNTS:
        asked = replace(request, microbatches=count)
        try:
            scene = run(asked)
        except SimvizError as error:
            tried.append(Tried(count, order, refused=str(error)))
            continue
        tried.append(_tried(count, order, scene))
        if (this := (not tried[-1].fits, scene.trace.makespan)) < rank:
            best_request, best, rank = asked, scene, this
    made = None if best.pipelined is None else best.pipelined.made
    found = Pipelined(made, tuple(tried))
    return best_request, replace(best, pipelined=found, notes=(found.sentence(), *best.notes[made is not None :]))


def _tried(count: int, order: str, scene: Scene) -> Tried:
    fits = out_of_memory(scene.trace, scene.partitions, scene.cluster) is None
    return Tried(count, order, int(scene.trace.makespan), fits)
