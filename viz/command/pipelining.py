"""Pipelines of a run: the graph in microbatches, its costs, and the number of microbatches that is best.

A measured time is that of an op on the whole batch. Its copies work on a part, so they take that time in the proportion
of the estimates for both. A file that names copies was measured on microbatches, and its times stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simulator.cluster.cluster import Cluster
from simulator.costs.table import CostTable
from simulator.errors import SimvizError
from simulator.graph.graph import Graph
from simulator.training.pipelines.building import Pipeline
from simulator.training.pipelines.orders import Order
from simulator.training.pipelines.pipelined import pipeline
from viz.command.request import Request
from viz.pipelined import Pipelined, TriedPipeline

if TYPE_CHECKING:
    from viz.scene import Scene

COUNTS = (2, 4, 8)  # that are tried, besides 1
DEFAULT: Order = "1f1b"  # as fast as the other, and holds fewer microbatches


def pipelined(
    request: Request, graph: Graph, cluster: Cluster, price: Callable[[Request, Graph, Cluster, Graph], CostTable]
) -> tuple[Pipeline, CostTable]:
    """The pipeline that a request asks for, of a graph with its shapes, and the costs of its ops."""

    def priced(other: Graph, cluster: Cluster) -> CostTable:
        return price(request, other, cluster, graph)

    assert isinstance(request.microbatches, int)  # `choose` has decided
    made = pipeline(
        graph,
        cluster,
        microbatches=request.microbatches,
        order=request.pipeline or DEFAULT,
        stages=request.stages,
        batch=request.batch,
        fetch=request.fetches_in(graph),
        price=priced,
    )
    return made, priced(made.graph, cluster)


def choose(request: Request, run: Callable[[Request], Scene]) -> tuple[Request, Scene]:
    """The request with the number of microbatches that is best, and its scene, which `run` makes.

    All devices are stages at first. Of the best number so far half of the stages are tried, and half of these, while it
    gets better. Over slow links fewer are faster. A step that fits in memory is better than each that does not, and
    then the faster one. Of equals it is the one that was tried first, and the plain step is.
    """
    runs = [_attempt(replace(request, microbatches=None, pipeline=None, stages=None), run)]
    runs += [_attempt(replace(request, microbatches=count), run) for count in COUNTS]
    best = min(runs[1:], key=_rank)
    while request.stages is None and (stages := best.tried.stages // 2):
        runs.append(_attempt(replace(best.request, stages=stages), run))
        if _rank(runs[-1]) >= _rank(best):
            break
        best = runs[-1]
    best = min(runs, key=_rank)
    assert best.scene is not None  # the plain step has one, or `run` has raised
    made = None if best.scene.pipelined is None else best.scene.pipelined.made
    found = Pipelined(made, best.tried, tuple(one.tried for one in runs))
    notes = (found.sentence(), *best.scene.notes[made is not None :])
    return best.request, replace(best.scene, pipelined=found, notes=notes)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A request that was run."""

    request: Request
    tried: TriedPipeline
    scene: Scene | None = None  # None: it was refused


def _attempt(request: Request, run: Callable[[Request], Scene]) -> _Attempt:
    """Run a request; an error of the plain step is that of the whole run."""
    count = request.microbatches
    order = "" if count is None else request.pipeline or DEFAULT
    number = count if isinstance(count, int) else 1
    try:
        scene = run(request)
    except SimvizError as error:
        if count is None:
            raise
        return _Attempt(request, TriedPipeline(number, order, 0, refused=str(error)))
    stages = 0 if scene.pipelined is None or scene.pipelined.made is None else len(scene.pipelined.made.stages)
    fits = scene.out_of_memory is None
    return _Attempt(request, TriedPipeline(number, order, stages, int(scene.trace.makespan), fits), scene)


def _rank(one: _Attempt) -> tuple[bool, bool, int]:
    """The smaller, the better."""
    return one.scene is None, not one.tried.fits, one.tried.makespan_ns or 0
