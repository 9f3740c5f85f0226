"""The stages from a request to a scene: load, place, cut, simulate, train, check.

A run may have another one beside it, which `--against` names, and `--compare` asks for several. Runs read the graph,
the costs and the cluster once where they share them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from placement.algorithms import TABLE
from placement.plugins import find
from simulator.assignment import Assignment
from simulator.cluster.description import load_cluster
from simulator.cluster.device_strings import without_devices
from simulator.comparison.placement_log import Logged
from simulator.costs.measurements.reading import read_measurement
from simulator.errors import GraphError, InfeasibleError, SimvizError, UnsupportedError
from simulator.execution.memory import out_of_memory
from simulator.execution.trace import Trace
from simulator.limits import raised
from simulator.observed import SUFFIX
from simulator.partitioning.partitions import Partitions
from simulator.progress import Say, silent
from simulator.training.regimes import KINDS, read_regime
from simulator.wording import counted, near, some
from viz.command.ingredients import Ingredients, read_inputs, refined_inputs
from viz.command.one_step import WithoutPriorities, bounded, placed, simulated
from viz.command.pins import UNPINNED
from viz.command.request import AUTO, PLAIN, Request, shown
from viz.command.streams import read_once
from viz.difference.difference import compare
from viz.difference.outline import Outline, is_result, read_result
from viz.difference.scene_outline import outline
from viz.difference.scores import ScoreRow, ScoreTable, score
from viz.difference.trainings import names
from viz.hints import HELD, Pinned, affordable, input_notes, pinned
from viz.pipelined import Pipelined
from viz.scene import Scene, Trained


def run(request: Request, say: Say = silent) -> Scene:
    """Run a request and return all its values, with the run that it is compared with, if it names one.

    `say` gets the name of each stage when it begins. A plan that runs out of memory is returned, too. Raise
    InfeasibleError if no device may hold a group. Raise OracleError if --check could not ask TensorFlow. Raise another
    SimvizError if the input or the call is wrong, or where `--against` names nothing that can be run or read.
    """
    with raised(request.limits):
        return _compared(read_once(request), say)


def _compared(request: Request, say: Say) -> Scene:
    """The run and the one beside it."""
    alone, wanted = replace(request, against=None), request.against
    other = None if wanted is None else _other(alone, wanted)  # a mistake is reported before anything takes long
    log = _log(request)
    if alone.microbatches == AUTO:
        from viz.command.pipelining import choose  # late: most runs have no pipeline

        chosen, scene = choose(replace(alone, check=False), lambda one: _run(one, say, read_inputs(one, say)))
        alone, given = replace(chosen, check=alone.check), read_inputs(chosen, say)
        scene = _checked(alone, scene, log, say)
        if isinstance(other, Request) and other.microbatches == AUTO:
            other = replace(other, microbatches=alone.microbatches, pipeline=alone.pipeline, stages=alone.stages)
    else:
        given = read_inputs(alone, say)
        scene = _run(alone, say, given, log)
    if request.what_if is not None:
        from viz.command.what_if import what_if  # late: most runs ask for none

        scene = replace(scene, what_if=what_if(replace(request, check=False), given, scene, say))
    if not isinstance(other, Request):
        return replace(scene, against=other)
    theirs, ours = (
        (one.cluster, one.costs, one.training, one.observed, one.pins, one.microbatches) for one in (other, alone)
    )
    other = replace(other, check=False, observe=None)
    if other.observed == alone.observed:
        other = other.having(given.observed)
    if other.training is not None:  # how the run scales is said of this one alone
        other = replace(other, training=replace(other.training, workers=()))
    try:
        found = _run(other, say, given if theirs == ours else read_inputs(other, say))
    except SimvizError as error:
        error.args = (f"--against {wanted}: {error}",)
        raise
    found = replace(found, label=shown(str(wanted)))
    if scene.training is not None and found.training is not None:
        scene = replace(scene, label=names(found, scene)[1])
    return replace(scene, against=found)


def candidates(request: Request, algorithms: tuple[str, ...], say: Say = silent) -> ScoreTable:
    """A row for each of these algorithms, in this order.

    Raise what `run` raises, but for an algorithm that can't place the graph, whose row says why.
    """
    with raised(request.limits):
        return _table(read_once(request), algorithms, say)


def _table(request: Request, algorithms: tuple[str, ...], say: Say) -> ScoreTable:
    log = _log(request)
    given = read_inputs(request, say)
    entries: list[ScoreRow] = []
    first: Outline | None = None
    for name in algorithms:
        try:
            scene = _run(replace(request, algorithm=name), say, given, log)
        except (InfeasibleError, GraphError, UnsupportedError, WithoutPriorities) as error:
            entries.append(ScoreRow(name, None, str(error)))
            continue
        this = replace(outline(scene), label=name)
        lines: tuple[str, ...] = ()
        if first is None:
            first = this
        else:
            against = str(compare(first, this)).splitlines()
            lines = (f"{name}: {against[0][0].lower()}{against[0][1:]}", *against[1:])
        entries.append(ScoreRow(name, score(scene), explained=lines))
    least = max((row.score.lower_bound_ns for row in entries if row.score is not None), default=0)  # it holds for all
    rows = [
        row if row.score is None else replace(row, score=replace(row.score, lower_bound_ns=least)) for row in entries
    ]
    return ScoreTable(request.title, given.cluster.name, tuple(rows))


def _run(request: Request, say: Say, given: Ingredients, log: Logged | None = None) -> Scene:
    """Run a request from its ingredients, alone, and compare it with a log."""
    request = request.having(given.observed)
    given, rounds = refined_inputs(request, given, say) if request.refine else (given, None)
    assignment = placed(request, given, say) if rounds is None else rounds.best.assignment
    partitions, trace, received = simulated(request, given, assignment, say)
    graph, step, cluster = given.graph, given.step, given.cluster
    strings = given.training is None and given.instance is None
    held = None if not strings else pinned(graph, step, cluster, assignment, partitions, trace)
    scene = Scene(
        title=request.title,
        graph=graph,
        step=step,
        cluster=cluster,
        costs=given.costs,
        assignment=assignment,
        partitions=partitions,
        trace=trace,
        bound=bounded(request, given, assignment, compiled=assignment.search is not None).with_proof(assignment.proven),
        received=received,
        refined=rounds,
        pinned=None if held is None else _without_strings(request, given, held, assignment, trace, say),
        pipelined=None if given.pipeline is None else Pipelined(given.pipeline),
        training=_trained(request, given, (assignment, partitions), say),
        observed=given.observed,
        unobserved=given.unobserved,
        instance=given.instance,
        notes=_notes(request, given, partitions, trace),
    )
    return _checked(request, scene, log, say)


def _checked(request: Request, scene: Scene, log: Logged | None, say: Say) -> Scene:
    """The scene compared with a log, or with TensorFlow, or as it is."""
    if log is not None:
        from viz.command.check import check_with_log

        return check_with_log(request, scene, log)
    if not request.check:
        return scene
    from viz.command.check import check_with_tensorflow

    say("asking TensorFlow")
    return check_with_tensorflow(request, scene)


def _log(request: Request) -> Logged | None:
    if request.log is None:
        return None
    from viz.command.check import read  # late: most runs have no log

    return read(request.log)


def _without_strings(
    request: Request, given: Ingredients, held: Pinned, first: Assignment, trace: Trace, say: Say
) -> Pinned | None:
    """Add the makespan of the step without the strings; None if it cannot be placed or run."""
    if not affordable(first, trace):
        return held
    free, request = replace(given, graph=without_devices(given.graph, HELD)), replace(request, budget=None)
    try:
        assignment = placed(replace(request, check=False), free, say)
        partitions, freed, _ = simulated(request, free, assignment, say)
    except SimvizError:  # the requested step itself is there
        return None
    if out_of_memory(freed, partitions, given.cluster) is not None:
        return None
    return replace(held, without_ns=freed.makespan)


def _trained(request: Request, given: Ingredients, first: tuple[Assignment, Partitions], say: Say) -> Trained | None:
    if given.training is None or not request.trains:
        return None
    from viz.command.training_run import trained  # late: most runs train nothing

    return trained(request, given.training, given.cluster, first, say)


def _notes(request: Request, given: Ingredients, partitions: Partitions, trace: Trace) -> tuple[str, ...]:
    """Notes on options without effect, on whose step is shown, and on inputs that later steps would wait for."""
    cluster, said = given.cluster, list[str]()
    if given.pipeline is not None:
        said += [Pipelined(given.pipeline).sentence(), *given.pipeline.notes]
    if given.unobserved is not None:
        said.append(
            f"No step was observed: {given.unobserved}. Shapes follow by rules instead, times are estimates, and loops "
            "and branches run as without --observe."
        )
    if request.flavour == "local" and len(cluster.tasks) > 1:
        said.append(
            f"The cut is that of one session over {counted(len(cluster.tasks), 'task')}, which no TensorFlow makes: "
            "each device fetches for itself. By default a tensor comes to a task once and is shared there."
        )
    elif request.protocol is not None and len(cluster.tasks) == 1:
        said.append(f"{cluster.name} is one task, so nothing is sent by {request.protocol} or another protocol.")
    if given.training is None:
        said += input_notes(given.graph, given.step, cluster, given.costs, partitions, trace)
    elif not request.trains:  # the graph was only replicated
        made, programs = given.training.made, given.training.programs
        said.append(f"{made}; the step of {programs[0].name} is shown, of {counted(len(programs), 'client')}.")
    return tuple(said)


# --- the run beside it -----------------------------------------------------------------------------------------------


def _other(request: Request, wanted: str) -> Request | Outline:
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
        if request.trains:
            raise SimvizError(
                f"--against {path}: an earlier result keeps no steps of a training; name what was different there: "
                "a regime, an algorithm, a cluster or measured times."
            )
        return replace(read_result(path), label=shown(Path(path).name))
    try:
        load_cluster(path)
    except SimvizError as no_cluster:
        try:
            return replace(request, costs=(read_measurement(path),))
        except SimvizError as no_costs:
            raise SimvizError(
                f"--against {path}: this file is no cluster ({no_cluster}), and holds no measured times ({no_costs})."
            ) from None
    return replace(request, cluster=path)
