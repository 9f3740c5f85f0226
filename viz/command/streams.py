"""Inputs of several runs: streams and files of times, each read once, and the other run that --against names."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from placement.algorithms import TABLE
from placement.plugins import find
from simulator.cluster.cluster import Cluster
from simulator.cluster.description import description_of, load_cluster
from simulator.costs.measured import MeasuredTimes
from simulator.costs.measurements.reading import measurement_of, read_measurement
from simulator.costs.profile import read_profile
from simulator.errors import SimvizError
from simulator.files import is_stream
from simulator.graph.importer import read_graph
from simulator.graph.sources import read_source
from simulator.observed import SUFFIX
from simulator.observed.form import is_observed, observed_of
from simulator.observed.observed_step import ObservedStep
from simulator.training.regimes import KINDS, read_regime
from simulator.wording import near, some
from viz.command.pins import UNPINNED
from viz.command.request import PLAIN, Request, shown
from viz.difference.outline import Outline, begins_result, is_result, read_result, result_of


def read_once(request: Request) -> Request:
    """The request with the content of files of times and of a pipe: a run with a change needs it again.

    A graph or a cluster in a file keeps its name, by which it is told. Raise SimvizError for what can't be read.
    """
    graph, cluster = request.graph, request.cluster
    return replace(
        request,
        graph=read_graph(graph) if is_stream(graph) else graph,
        cluster=load_cluster(cluster) if cluster is not None and is_stream(cluster) else cluster,
        costs=tuple([read_measurement(one) for one in request.costs]),
        profile=None if request.profile is None else read_profile(request.profile),
    )


def other_run(request: Request, wanted: str) -> Request | Outline:
    """The request of the other run, or its outline if it was run before.

    Raise SimvizError if `wanted` names nothing, or an earlier result beside a training, of which it has no steps.
    """
    training = request.training
    if wanted == UNPINNED and request.pins:
        return replace(request, pins={})
    if wanted == UNPINNED:
        raise SimvizError(f"--against {UNPINNED} is the run without --pin; add --pin, such as layers/dense=GPU:1")
    if wanted == PLAIN and request.microbatches is not None:
        return replace(request, microbatches=None, pipeline=None, stages=None)
    if wanted == PLAIN:
        raise SimvizError(
            f"--against {PLAIN} is the step without --microbatches; add --microbatches, such as 8 or auto"
        )
    if wanted in TABLE:
        return replace(request, algorithm=wanted)
    if wanted.partition(":")[0] in KINDS:
        if training is None or not request.trains:
            raise SimvizError(f"--against {wanted}: a regime is compared with another; add --training, such as async")
        return replace(request, training=replace(training, regime=read_regime(wanted)))
    if os.path.isfile(wanted):  # a name that is too long is none
        return _from_file(request, wanted)
    if is_stream(wanted):
        return _with_other(request, wanted, _read_stream(wanted))
    try:
        load_cluster(wanted)
    except SimvizError as error:
        try:
            find(wanted, tuple(TABLE))
        except SimvizError:
            said = f"--against {wanted}: no algorithm ({some(tuple(TABLE))}), and {error}"
            raise SimvizError(f"{said}{near(wanted, tuple(TABLE))}") from None
        return replace(request, algorithm=wanted)
    return replace(request, cluster=wanted)


def _from_file(request: Request, path: str) -> Request | Outline:
    """A file is an observed step by its name, an earlier result, else a cluster, else measured times."""
    if path.endswith(SUFFIX):
        return replace(request, observed=path)
    if is_result(path):
        return _with_other(request, path, read_result(path))
    try:
        load_cluster(path)
    except SimvizError as no_cluster:
        try:
            return _with_other(request, path, read_measurement(path))
        except SimvizError as no_costs:
            raise _neither(path, no_cluster, no_costs) from None
    return replace(request, cluster=path)


def _with_other(
    request: Request, name: str, other: Outline | ObservedStep | Cluster | MeasuredTimes
) -> Request | Outline:
    """The other run, of what was read for it."""
    match other:
        case Outline() if request.trains:
            raise SimvizError(
                f"--against {name}: an earlier result keeps no steps of a training; name what was different there: "
                "a regime, an algorithm, a cluster or measured times."
            )
        case Outline():
            return replace(other, label=shown(Path(name).name))
        case ObservedStep():
            return replace(request, observed=other)
        case Cluster():
            return replace(request, cluster=other)
        case _:
            return replace(request, costs=(other,))


def _read_stream(name: str) -> Outline | ObservedStep | Cluster | MeasuredTimes:
    """Read from a pipe or standard input an earlier result, an observed step, a cluster, or else measured times.

    The content alone says which it is. Raise SimvizError for none of these, and for a damaged one.
    """
    raw, label = read_source(name)
    if begins_result(raw):
        return result_of(raw, label)
    if is_observed(raw):
        return observed_of(raw, label)
    try:
        return description_of(raw, label)
    except SimvizError as no_cluster:
        try:
            return measurement_of(raw, label)
        except SimvizError as no_costs:
            raise _neither(name, no_cluster, no_costs) from None


def _neither(name: str, no_cluster: SimvizError, no_costs: SimvizError) -> SimvizError:
    """The error where a content is neither a cluster nor measured times."""
    return SimvizError(
        f"--against {name}: this is no cluster ({no_cluster}), and holds no measured times ({no_costs})."
    )
