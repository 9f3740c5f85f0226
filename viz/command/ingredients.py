"""Ingredients of a run: the graph, its step, the cluster, and the costs of its ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING

from simulator.cluster.cluster import Cluster, with_protocol
from simulator.cluster.description import load_cluster
from simulator.cluster.device_strings import default_cluster
from simulator.cluster.master import connected
from simulator.costs.estimate import estimate
from simulator.costs.matching import with_measured
from simulator.costs.measured import MeasuredTimes, for_other_batch, of_microbatches
from simulator.costs.measurements.reading import read_measurement
from simulator.costs.modelled import modelled
from simulator.costs.profile import Profile, read_profile, with_messages
from simulator.costs.table import CostTable
from simulator.errors import OracleError, SimvizError
from simulator.execution.loops import SharedChoices
from simulator.execution.preparing import Prepared, prepare
from simulator.graph.captured import fed_shapes, own_variables
from simulator.graph.graph import Graph, Shape
from simulator.graph.step import Step, choose_step
from simulator.instances.instance import Instance
from simulator.instances.reading import read_instance
from simulator.loading import flat
from simulator.observed.fitting import fitted, with_observed_costs
from simulator.observed.form import read_observed
from simulator.observed.observed_step import ObservedStep
from simulator.placer.reach import within_reach
from simulator.progress import Say, silent
from simulator.shapes.feeds import fed_tensor
from simulator.shapes.filling import with_shapes
from simulator.training.disturbances.disturbed import disturb
from simulator.training.pipelines.building import Pipeline
from simulator.training.programs.edits import with_placeholders
from simulator.training.programs.filters import check_filters
from simulator.training.programs.program import Program, estimate_each
from simulator.training.recognition.captured import with_variables
from simulator.wording import some
from viz.command.pins import holds, pinned_devices, with_pins
from viz.command.request import ObserveRequest, Request
from viz.command.training_request import TrainingRequest

if TYPE_CHECKING:
    from placement.refining import Refinement

# fields of a request that mean nothing where a file gives times and sizes, or is no TensorFlow graph
_NOT_OF_INSTANCES = (
    *(
        "signature",
        "feeds",
        "batch",
        "grappler",
        "keep_calls",
        "costs",
        "cost_model",
        "profile",
        "ignore_devices",
        "pins",
        "master",
    ),
    *("training", "microbatches", "check", "log", "observe", "observed", "refine", "what_if", "enforces"),
)
_NAMED_OTHERWISE = {
    "cost_model": "costs",
    "feeds": "feed",
    "pins": "pin",
    "log": "check",
    "observed": "observation",
    "enforces": "order enforced",
}


@dataclass(frozen=True, eq=False)
class Ingredients:
    """The values that a placement needs."""

    graph: Graph
    step: Step
    cluster: Cluster
    costs: CostTable
    prepared: Prepared  # the whole step, for placement and bounds
    source: Graph  # as the file has it, before a batch and feeds give it shapes
    training: Programs | None = None  # the first one's graph is `graph`
    observed: ObservedStep | None = None  # of the user's graph
    unobserved: str | None = None  # why a step that was to be observed was not
    pipeline: Pipeline | None = None  # whose graph is `graph`
    instance: Instance | None = None  # of which the graph, the costs and mostly the cluster are


@dataclass(frozen=True, eq=False)
class Programs:
    """The programs of the clients of a training."""

    source: Graph  # the user's graph, from which they were made
    programs: tuple[Program, ...]
    costs: tuple[CostTable, ...]  # of each
    made: str  # how, in words


def read_inputs(request: Request, say: Say) -> Ingredients:
    """Load what the request names. Raise SimvizError if a file, a name or a figure of it is wrong."""
    say("loading the graph")
    instance = read_instance(request.graph)
    if instance is not None:
        return _of_instance(request, instance, say)
    source = flat(
        request.graph,
        keep_calls=request.keep_calls,
        ignore_devices=request.ignore_devices,
        change=lambda graph: _pinned(request, graph),
    )
    graph, observed, unobserved = _graph(request, source, say)
    given = _read(request.having(observed), source, graph, _cluster(request, source), say)
    return replace(given, observed=observed, unobserved=unobserved)


def _pinned(request: Request, graph: Graph) -> Graph:
    """The graph with the pins; those of no node may be of one that Grappler makes."""
    pins = {scope: text for scope, text in request.pins.items() if not request.grappler or holds(graph, scope)}
    return with_pins(graph, pins, _cluster(request, graph)) if pins else graph


def _of_instance(request: Request, instance: Instance, say: Say) -> Ingredients:
    """The ingredients that an instance states, on its own machines or, where sizes are sizes, on others."""
    _check_options(request, instance)
    graph, cluster = instance.graph, instance.cluster
    if request.cluster is not None:
        cluster = within_reach(graph, _cluster(request, graph), soft=request.soft)
    say("choosing the step")
    step, costs = choose_step(graph, fetches=request.fetches), instance.costs(cluster)
    prepared = prepare(graph, step, cluster, costs, request.simulation)
    return Ingredients(graph, step, cluster, costs, prepared, graph, instance=instance)


def _check_options(request: Request, instance: Instance) -> None:
    """Raise SimvizError for an option that contradicts an instance, or that asks for what only a graph answers."""
    usual = Request(request.graph)
    for name in _NOT_OF_INSTANCES if not instance.only_there else (*_NOT_OF_INSTANCES, "cluster"):
        if getattr(request, name) != getattr(usual, name):
            option = _NAMED_OTHERWISE.get(name, name.replace("_", "-"))
            raise SimvizError(
                f"--{option}: {request.name} is a {instance.form}, which has its own times and sizes; leave it out."
            )


def changed_inputs(
    request: Request, given: Ingredients, *, cluster: Cluster | None = None, batch: int | None = None
) -> Ingredients:
    """The ingredients of the same graph for another request, on `cluster` if not on the one that the request names.

    Nothing is read again. Grappler is asked again for another batch, and for other devices, of which it joins and lays
    out otherwise. With `batch` shapes are found again, and measured times change as estimates do. Raise SimvizError as
    `read_inputs` does.
    """
    request = replace(request.having(given.observed), batch=batch or request.batch)
    graph = given.graph if given.training is None else given.training.source
    if batch is not None or (request.grappler and cluster is None):
        graph, _, _ = _graph(request, given.source, silent)
    if cluster is None:
        cluster = _cluster(request, given.source)
        pinned_devices(request.pins, cluster)  # the graph has their names, but the change may take one away
    measured = None if batch is None else given.graph
    return replace(_read(request, given.source, graph, cluster, silent, measured), observed=given.observed)


def repriced(request: Request, given: Ingredients, cluster: Cluster) -> Ingredients:
    """The ingredients with the same devices at other speeds; `prepared`, which placements read, stays that of `given`.

    Raise SimvizError as `read_inputs` does.
    """
    request, training = request.having(given.observed), given.training
    if training is None:
        return replace(given, cluster=cluster, costs=price(request, given.graph, cluster, step=given.step))
    costs = price_each(request, training.programs, cluster)
    return replace(given, cluster=cluster, costs=costs[0], training=replace(training, costs=costs))


def refined_inputs(request: Request, given: Ingredients, say: Say) -> tuple[Ingredients, Refinement]:
    """The ingredients with costs measured on real processes, and the rounds there. Raise as `placement.refine` does."""
    from placement.refining import refine  # late: most runs run nothing

    graph, step, cluster = given.graph, given.step, given.cluster
    found = refine(
        graph, cluster, step=step, costs=given.costs, options=request.simulation, say=say, **request.placing(say)
    )
    prepared = prepare(graph, step, cluster, found.costs, request.simulation)
    return replace(given, costs=found.costs, prepared=prepared), found


def _read(
    request: Request, source: Graph, graph: Graph, cluster: Cluster, say: Say, measured: Graph | None = None
) -> Ingredients:
    if request.training is not None:
        return _of_training(request, request.training, source, graph, cluster, say)
    cluster, feeds = within_reach(graph, cluster, soft=request.soft), tuple(fed_shapes(source, request.feeds))
    if request.microbatches is not None:
        from viz.command.pipelining import pipelined  # late: most runs have no pipeline

        say("splitting the step into microbatches")
        made, costs = pipelined(request, graph, cluster, price)
        step = choose_step(made.graph, feeds=feeds, fetches=made.fetches)
        return replace(_inputs(request, source, made.graph, step, cluster, costs), pipeline=made)
    say("choosing the step")
    step = _chosen(request, source, graph, feeds)
    say("pricing the ops")
    return _inputs(request, source, graph, step, cluster, price(request, graph, cluster, measured, step))


def _inputs(
    request: Request,
    source: Graph,
    graph: Graph,
    step: Step,
    cluster: Cluster,
    costs: CostTable,
    training: Programs | None = None,
) -> Ingredients:
    prepared = prepare(graph, step, cluster, costs, request.simulation)
    return Ingredients(graph, step, cluster, costs, prepared, source, training)


def _of_training(
    request: Request,
    wanted: TrainingRequest,
    source: Graph,
    graph: Graph,
    cluster: Cluster,
    say: Say,
) -> Ingredients:
    """The ingredients of the first program, whose session is at its own task."""
    from viz.command.training_programs import make_programs

    graph = with_placeholders(graph, tuple(fed_shapes(source, request.feeds)))
    disturb(wanted.disturbances, cluster)  # an impossible disturbance is refused before anything takes long
    say("making a program for each client")
    programs, made = make_programs(request, wanted, graph, cluster)
    check_filters(wanted.filters, programs, cluster)
    say("pricing the ops")
    costs = price_each(request, programs, cluster)
    first = programs[0]
    step = choose_step(first.graph, feeds=first.feeds, fetches=first.fetches)
    training = Programs(graph, programs, costs, made)
    given = request.simulation.for_sessions(len(programs)) if wanted.trains else request.simulation
    ours = partial(_inputs, source=source, graph=first.graph, step=step, cluster=connected(cluster, first.task))
    return SharedChoices(given).apply(
        lambda *, options: ours(replace(request, simulation=options), costs=costs[0], training=training)
    )


def _graph(request: Request, graph: Graph, say: Say) -> tuple[Graph, ObservedStep | None, str | None]:
    """The graph with its shapes, and the observed step if one is asked for, or why it could not be observed."""
    feeds, own = fed_shapes(graph, request.feeds), own_variables if request.training is None else with_variables
    graph = own(graph, request.feeds)
    shaping = partial(with_shapes, graph, batch=request.batch, feeds=feeds, apart=_apart(request, graph, tuple(feeds)))
    fitting = partial(fitted, graph, batch=request.batch, feeds=feeds, apart=shaping.keywords["apart"])
    if request.grappler and request.training is None:  # in a training each session rewrites the graph of its program
        return _optimized(request, shaping(), feeds, say), None, None
    if request.observe is None:
        observed = read_observed(request.observed) if isinstance(request.observed, str | PathLike) else request.observed
        if observed is None:
            return shaping(), None, None
        return fitting(observed), observed, None
    shaped = shaping()
    say("running the step once")
    try:
        observed = _observe(request, request.observe, shaped, tuple(feeds))
    except OracleError as error:
        return shaped, None, str(error)
    return fitting(observed), observed, None


def _apart(request: Request, graph: Graph, feeds: tuple[str, ...]) -> frozenset[int]:
    """The tensors that the file's signatures take and the step does not: another batch of the step is not theirs."""
    if request.batch is None or not graph.signatures:
        return frozenset()
    step = choose_step(graph, feeds=feeds, fetches=request.fetches, signature=request.signature)
    taken = {fed_tensor(graph, name) for one in graph.signatures.values() for name in one.inputs.values()}
    return frozenset(taken - {fed_tensor(graph, name) for name in step.feeds})


def _optimized(request: Request, graph: Graph, feeds: Mapping[str, Shape], say: Say) -> Graph:
    """The graph that a session makes of it for the step, with its shapes. Raise OracleError if there is none."""
    from simulator.oracle.optimizing import optimized, with_shapes_of  # late: most runs need no TensorFlow

    step = choose_step(graph, feeds=tuple(feeds), fetches=request.fetches, signature=request.signature)
    say("optimizing the graph")
    cluster = _cluster(request, graph)
    made = optimized(graph, cluster, step)
    gone = [scope for scope in request.pins if holds(graph, scope) and not holds(made, scope)]
    made = with_pins(made, {scope: text for scope, text in request.pins.items() if not holds(graph, scope)}, cluster)
    notes = (f"Grappler left no node of {some(gone)}, so nothing there is pinned",) if gone else ()
    made = replace(made, notes=(*made.notes, *notes))
    return with_shapes_of(graph, made)


def _left(graph: Graph, names: Iterable[str]) -> tuple[str, ...]:
    """The names of those tensors whose nodes Grappler left in the graph."""
    return tuple(name for name in names if name.partition(":")[0] in graph.index)


def _chosen(request: Request, source: Graph, graph: Graph, feeds: Sequence[str]) -> Step:
    """The step of the graph; of an optimized one that which `source` has before, as its signatures are gone."""
    before = own_variables(source, request.feeds) if request.grappler else graph
    asked = choose_step(before, feeds=feeds, fetches=request.fetches, signature=request.signature)
    if not request.grappler:
        return asked
    step = choose_step(graph, feeds=_left(graph, asked.feeds), fetches=asked.fetches)
    return replace(step, rule=asked.rule)


def _observe(request: Request, bounds: ObserveRequest, graph: Graph, feeds: tuple[str, ...]) -> ObservedStep:
    """Run the step that is asked for. Raise OracleError if it does not run."""
    from simulator.oracle.observing import TIME_S, observe_step  # late: most runs observe nothing

    step = choose_step(graph, feeds=feeds, fetches=request.fetches, signature=request.signature)
    time_s = TIME_S if bounds.time_s is None else bounds.time_s
    return observe_step(graph, step=step, time_s=time_s, memory_bytes=bounds.memory_bytes)


def _profile(request: Request) -> Profile | None:
    return None if request.profile is None else read_profile(request.profile)


def _cluster(request: Request, graph: Graph) -> Cluster:
    named, profile = request.cluster, _profile(request)
    cluster = default_cluster(graph, ignored=request.ignore_devices) if named is None else load_cluster(named)
    if request.protocol is not None:
        cluster = with_protocol(cluster, request.protocol)
    elif profile is not None:
        cluster = with_messages(cluster, profile)
    return cluster if request.master is None else connected(cluster, request.master)


def price(
    request: Request, graph: Graph, cluster: Cluster, measured: Graph | None = None, step: Step | None = None
) -> CostTable:
    """The costs of the graph's ops, estimated or measured; the times of files are of `measured`, if not of `graph`.

    By a profile the nodes of the step say what the caches hold; None: those of the one that is run by default. A file
    of the microbatches themselves goes before those of the whole batch, and its times stay as they are.
    """
    files = [read_measurement(path) for path in request.costs]
    parts = [one for one in files if _is_of_parts(request, one, graph if measured is None else measured)]
    if measured is None or not files:
        return _priced(request, graph, cluster, files, step=step)
    costs = _priced(request, graph, cluster, [one for one in files if one not in parts], step=step)
    costs = for_other_batch(costs, graph, measured, cluster, _profile(request))
    described = None if graph.copies else cluster  # the graph of one microbatch lacks the names of the others
    return with_measured(costs, parts, graph, cluster, described=described) if parts else costs


def _is_of_parts(request: Request, file: MeasuredTimes, whole: Graph) -> bool:
    """Tell whether a file has times of microbatches. Raise SimvizError for those of another number of them."""
    count = of_microbatches(file, whole)
    if count not in (0, request.microbatches):
        asked = "the whole batch" if request.microbatches is None else request.microbatches
        raise SimvizError(
            f"{file.source} has times of {count} microbatches, and not of {asked}; "
            f"give --microbatches {count}, or times of the whole batch."
        )
    return count > 0


def _priced(
    request: Request,
    graph: Graph,
    cluster: Cluster,
    measured: Sequence[MeasuredTimes],
    described: Cluster | None = None,
    step: Step | None = None,
) -> CostTable:
    """The estimate; over it the times of an observed step, and over these those of files, which the user chose."""
    model = request.cost_model
    profile = _profile(request)
    costs = estimate(graph, cluster, profile, step=step) if model is None else modelled(model, graph, cluster)
    if model is not None and profile is not None:
        costs = replace(costs, notes=(*costs.notes, f"{profile.source} prices no op, as the cost model does"))
    if request.simulation.observed is not None:
        costs = with_observed_costs(costs, request.simulation.observed, graph, cluster)
    return with_measured(costs, measured, graph, cluster, described=described) if measured else costs


def price_each(
    request: Request, programs: tuple[Program, ...], cluster: Cluster, described: Cluster | None = None
) -> tuple[CostTable, ...]:
    """The table of each program. `described` is what the user gave, where `cluster` has more or fewer of its tasks."""
    measured = [read_measurement(path) for path in request.costs]
    return estimate_each(
        programs, cluster, lambda graph, cluster: _priced(request, graph, cluster, measured, described)
    )
