"""Ingredients of a run: the graph, its step, the cluster, and the costs of its ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulator.cluster.cluster import Cluster, with_protocol
from simulator.cluster.description import load_cluster
from simulator.cluster.device_strings import default_cluster
from simulator.cluster.master import connected
from simulator.costs.calibration import calibrate, read_measurement
from simulator.costs.estimate import estimate
from simulator.costs.measured import MeasuredTimes
from simulator.costs.table import CostTable
from simulator.execution.preparing import Prepared, prepare
from simulator.graph.graph import Graph
from simulator.graph.step import Step, choose_step
from simulator.loading import flat, load
from simulator.shapes.filling import with_shapes
from simulator.training.disturbances.disturbed import disturb
from simulator.training.programs.filters import check_filters
from simulator.training.programs.program import Program, estimate_each
from simulator.training.recognition.captured import captured, with_variables
from viz.command.request import Request
from viz.command.training_request import TrainingRequest


@dataclass(frozen=True, eq=False)
class Ingredients:
    """The values that a placement needs."""

    graph: Graph
    step: Step
    cluster: Cluster
    costs: CostTable
    prepared: Prepared  # the whole step, for placement and bounds
    training: Programs | None = None  # the first one's graph is `graph`


@dataclass(frozen=True, eq=False)
class Programs:
    """The programs of the clients of a training."""

    source: Graph  # the user's graph, from which they were made
    programs: tuple[Program, ...]
    costs: tuple[CostTable, ...]  # of each
    made: str  # how, in words


def read_inputs(request: Request, say: Callable[[str], None]) -> Ingredients:
    """Load what the request names. Raise SimvizError if a file, a name or a figure of it is wrong."""
    say("loading the graph")
    graph = _graph(request)
    cluster = _cluster(request, graph)
    if request.training is not None:
        return _of_training(request, request.training, graph, cluster, say)
    say("choosing the step")
    step = choose_step(graph, feeds=tuple(request.feeds), fetches=request.fetches, signature=request.signature)
    say("pricing the ops")
    return _inputs(request, graph, step, cluster, price(request, graph, cluster))


def _inputs(
    request: Request,
    graph: Graph,
    step: Step,
    cluster: Cluster,
    costs: CostTable,
    training: Programs | None = None,
) -> Ingredients:
    prepared = prepare(graph, step, cluster, costs, request.simulation)
    return Ingredients(graph, step, cluster, costs, prepared, training)


def _of_training(
    request: Request, wanted: TrainingRequest, graph: Graph, cluster: Cluster, say: Callable[[str], None]
) -> Ingredients:
    """The ingredients of the first program, whose session is at its own task."""
    from viz.command.training_programs import make_programs

    disturb(wanted.disturbances, cluster)  # an impossible disturbance is refused before anything takes long
    say("making a program for each client")
    programs, made = make_programs(request, wanted, graph, cluster)
    check_filters(wanted.filters, programs, cluster)
    say("pricing the ops")
    costs = price_each(request, programs, cluster)
    first = programs[0]
    step = choose_step(first.graph, feeds=first.feeds, fetches=first.fetches)
    training = Programs(graph, programs, costs, made)
    return _inputs(request, first.graph, step, connected(cluster, first.task), costs[0], training)


def _graph(request: Request) -> Graph:
    feeds, batch = request.feeds, request.batch
    keep_calls, ignore_devices = request.keep_calls, request.ignore_devices
    if request.training is None:
        return load(request.graph, batch=batch, feeds=feeds, keep_calls=keep_calls, ignore_devices=ignore_devices)
    # a function's captured value is fed to a single step; the steps of a training share it
    graph = flat(request.graph, keep_calls=keep_calls, ignore_devices=ignore_devices)
    held = {graph.names[row] for row in captured(graph)}
    feeds = {name: shape for name, shape in feeds.items() if name.removesuffix(":0") not in held}
    return with_shapes(with_variables(graph, request.feeds), batch=batch, feeds=feeds)


def _cluster(request: Request, graph: Graph) -> Cluster:
    cluster = (
        default_cluster(graph, ignored=request.ignore_devices)
        if request.cluster is None
        else load_cluster(request.cluster)
    )
    if request.protocol is not None:
        cluster = with_protocol(cluster, request.protocol)
    return cluster if request.master is None else connected(cluster, request.master)


def price(request: Request, graph: Graph, cluster: Cluster) -> CostTable:
    """The costs of the graph's ops, estimated or measured."""
    return _priced(graph, cluster, [read_measurement(path) for path in request.costs])


def _priced(
    graph: Graph, cluster: Cluster, measured: Sequence[MeasuredTimes], described: Cluster | None = None
) -> CostTable:
    costs = estimate(graph, cluster)
    return calibrate(costs, measured, graph, cluster, described=described) if measured else costs


def price_each(
    request: Request, programs: tuple[Program, ...], cluster: Cluster, described: Cluster | None = None
) -> tuple[CostTable, ...]:
    """The table of each program. `described` is what the user gave, where `cluster` has more or fewer of its tasks."""
    measured = [read_measurement(path) for path in request.costs]
    return estimate_each(programs, cluster, lambda graph, cluster: _priced(graph, cluster, measured, described))
