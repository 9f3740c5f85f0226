"""The way from a request to a scene: load, place, cut, simulate, train, check.

A run may have another one beside it, which `--against` names, and `--compare` asks for several. Runs read the graph,
the costs and the cluster once where they share them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from simulator.aside import aside
from simulator.assignment import Assignment
from simulator.cluster.device_strings import without_devices
from simulator.comparison.placement_log import Logged
from simulator.errors import GraphError, InfeasibleError, SimvizError, UnsupportedError
from simulator.execution.memory import out_of_memory
from simulator.execution.trace import Trace
from simulator.limits import raised
from simulator.partitioning.partitions import Partitions
from simulator.progress import Say, silent
from simulator.shapes.unknown import unfed
from simulator.wording import counted
from viz.command.ingredients import Ingredients, read_inputs, refined_inputs
from viz.command.one_step import WithoutPriorities, bounded, in_tensorflow_order, of_own, placed, simulated
from viz.command.request import AUTO, Request, shown
from viz.command.streams import other_run, read_once
from viz.command.training_beside import set_up_training, trained_quicker
from viz.difference.difference import compare
from viz.difference.outline import Outline
from viz.difference.scene_outline import outline
from viz.difference.scores import ScoreRow, ScoreTable, score
from viz.difference.trainings import names
from viz.formats.needs import Facts, check_needs
from viz.hints import HELD, Pinned, affordable, input_notes, pinned
from viz.pipelined import Pipelined
from viz.scene import Scene, Trained

if TYPE_CHECKING:
    from viz.command.training_run import Setup


def run(request: Request, say: Say = silent) -> Scene:
    """Run a request and return all its values, with the run that it is compared with, if it names one.

    `say` gets a phrase for each part of the way when it begins. A plan that runs out of memory is returned, too. Raise
    InfeasibleError if no device may hold a group. Raise OracleError if --check could not ask TensorFlow. Raise another
    SimvizError if the input or the call is wrong, or where `--against` names nothing that can be run or read.
    """
    with raised(request.limits):
        return _compared(read_once(request), say)


def _compared(request: Request, say: Say) -> Scene:
    """The run and the one beside it."""
    alone, wanted = replace(request, against=None), request.against
    other = None if wanted is None else other_run(alone, wanted)  # a mistake is reported before anything takes long
    log = _log(request)
    if alone.microbatches == AUTO:
        from viz.command.pipelining import choose  # late: most runs have no pipeline

        chosen, scene = choose(
            replace(alone, check=False), lambda one: _run(one, say, _inputs(replace(one, against=wanted), say))
        )
        alone, given = replace(chosen, check=alone.check), read_inputs(chosen, say)
        scene = _checked(alone, scene, log, say)
        if isinstance(other, Request) and other.microbatches == AUTO:
            other = replace(other, microbatches=alone.microbatches, pipeline=alone.pipeline, stages=alone.stages)
    else:
        given = _inputs(request, say)
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


def _inputs(request: Request, say: Say) -> Ingredients:
    """The ingredients, of which each file that is to be written has what it shows."""
    given = read_inputs(request, say)
    facts = Facts(
        request.title,
        given.graph,
        is_instance=given.instance is not None,
        trains=request.trains,
        is_observed=given.observed is not None or given.unobserved is not None,
        is_compared=request.against is not None,
    )
    for suffix in request.writes:
        check_needs(suffix, facts)
    return given


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
    scores = [row.score for row in entries if row.score is not None]
    least = max((one.lower_bound_ns for one in scores), default=0)  # it holds for all whose memory suffices
    of_full = max((one.lower_bound_ns for one in scores if one.full), default=0)
    rows = [
        row
        if row.score is None
        else replace(row, score=replace(row.score, lower_bound_ns=of_full if row.score.full else least))
        for row in entries
    ]
    return ScoreTable(request.title, given.cluster.name, tuple(rows))


def _run(request: Request, say: Say, given: Ingredients, log: Logged | None = None) -> Scene:
    """Run a request from its ingredients, alone, and compare it with a log."""
    request = request.having(given.observed)
    given, rounds = refined_inputs(request, given, say) if request.refine else (given, None)
    assignment = searched = placed(request, given, say) if rounds is None else rounds.best.assignment
    compiled = searched.search is not None
    # bound to these values, as a training may have other ones later
    least = aside(partial(of_own, request, given, lambda own: bounded(own, given, searched, compiled=compiled)))
    made = of_own(request, given, lambda own: simulated(own, given, assignment, say))
    setup = set_up_training(request, given, assignment, made, say)
    if setup is not None and (quicker := trained_quicker(request, given, assignment, setup, say)) is not None:
        request, assignment, made, setup = quicker
    partitions, trace = made.partitions, made.trace
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
        bound=least().with_proof(assignment.proven),
        tensorflow_order_ns=of_own(request, given, lambda own: in_tensorflow_order(own, given, partitions, trace, say)),
        received=made.received,
        enforced=made.enforced,
        refined=rounds,
        pinned=None if held is None else _without_strings(request, given, held, assignment, trace, say),
        pipelined=None if given.pipeline is None else Pipelined(given.pipeline),
        training=None if setup is None else _trained(setup, given),
        observed=given.observed,
        unobserved=given.unobserved,
        instance=given.instance,
        notes=_notes(request, given, partitions, trace),
    )
    return _checked(request, scene.memory_bounded(), log, say)


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
        freed = simulated(request, free, assignment, say)
    except SimvizError:  # the requested step itself is there
        return None
    if out_of_memory(freed.trace, freed.partitions, given.cluster) is not None:
        return None
    return replace(held, without_ns=freed.trace.makespan)


def _trained(setup: Setup, given: Ingredients) -> Trained:
    from viz.command.training_run import trained  # late: most runs train nothing

    assert given.training is not None
    return trained(setup, given.training)


def _notes(request: Request, given: Ingredients, partitions: Partitions, trace: Trace) -> tuple[str, ...]:
    """Notes on options without effect, on whose step is shown, and on inputs that later steps would wait for."""
    cluster, said = given.cluster, list(filter(None, [unfed(given.graph, given.step)]))
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
