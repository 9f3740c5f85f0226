"""The programs of a training whose graphs are taken as they stand, as TensorFlow's scripts make them.

    a worker's graph   /job:ps/... and one task of another job   between-graph: a program per task of that job
    a client's graph   several tasks besides those that share    in-graph: one program
    no job named       devices of whichever task it runs on      one program, at the cluster's client

Programs share variables, accumulators and queues by standing on the same tasks. A graph that synchronises its workers
itself (`sync_replicas`) gives the chief a second program, which makes the updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import LOCALHOST, DeviceSpec, matches, parse
from simulator.cluster.master import short_task
from simulator.errors import ClusterError, GraphError, InfeasibleError
from simulator.graph.graph import Graph
from simulator.graph.op_classes import COLLECTIVES
from simulator.graph.step import Step, choose_step
from simulator.training.programs.accumulators import with_accumulators
from simulator.training.programs.filters import check_seen
from simulator.training.programs.program import Program, updates_of
from simulator.training.programs.tasks import (
    CHIEFS,
    WORKERS,
    check_devices,
    first_identical,
    moved,
    moved_text,
    of_task,
    tasks_of,
    worker_tasks,
)
from simulator.training.recognition.anatomy import anatomy
from simulator.training.recognition.captured import with_variables
from simulator.training.recognition.sync_ops import APPLY, ENQUEUE, TAKE, operations
from simulator.training.recognition.sync_replicas import SyncReplicas, joined_workers, regime_of, sync_replicas
from simulator.training.regimes import Regime
from simulator.wording import near, some


def distributed(
    graph: Graph | Sequence[tuple[str, Graph]],
    cluster: Cluster,
    *,
    regime: Regime | None = None,
    fetches: Sequence[str] | None = None,
    batch: int | None = None,
    filters: Sequence[str] = (),
) -> tuple[Program, ...]:
    """The programs of a training by a graph as it stands, workers in order of tasks, a chief first, updates last.

    A single graph is that of one worker: every task of its job gets a copy with its own name in place of that task's.
    If it names several tasks that compute, or none, one client runs it all. A sequence gives graphs by task
    ("worker:0") or by job ("worker": all its other tasks). A graph without gradients, such as a reader's, is run in a
    loop and is no worker. `fetches` are those of a worker's step, `batch` its examples where the graph does not say.
    `filters` are the device_filters of the session of the graph's own task; each worker's name takes that task's place.

    Raises GraphError for a graph without gradients, and ClusterError for a graph of a task that does not exist. Raises
    InfeasibleError for a task that a graph names and the cluster or the filters leave out. Also raises what `regime_of`
    raises.
    """
    if isinstance(graph, Graph):
        check_devices(graph)
        script = read_script(with_variables(graph), fetches, batch)
        given = [(task, script) for task in _tasks(script, cluster)]
    else:
        given = _given(graph, cluster, fetches, batch)
    made = _programs(given, cluster, filters)
    chief = next((row for row, (_, script) in enumerate(given) if script.held is not None), None)
    if chief is None:
        made = with_accumulators(made, regime)
    else:  # its queue runner runs a loop of updates in a thread of its own
        worker, script = made[chief], given[chief][1]
        assert script.held is not None
        made += (updates_of(worker, choose_step(worker.graph, fetches=script.held.updates), script.counts),)
    regime_of(regime, made)
    return made


# ---- tasks that run it ----------------------------------------------------------------------------------------------


def _tasks(script: Script, cluster: Cluster) -> list[str]:
    """The tasks that get a program: all of the job in which the graph computes; the client's where it names several."""
    if not names_jobs(script.graph):
        return [cluster.client_task]
    computing = named_tasks(script)
    if len(computing) > 1:
        return [cluster.client_task]
    if not computing:  # nodes that are not shared are wherever their session is
        apart = [task for task in worker_tasks(cluster) if parse(task).job not in script.shared]
        return apart or [cluster.client_task]
    job = computing[0].job
    wanted = WORKERS if job in WORKERS else (*CHIEFS, job)
    found = tasks_of(cluster, wanted)
    if not any(job in WORKERS or parse(task).job == job for task in found):  # a chief alone runs what workers run
        raise _lacking(script.graph, cluster, computing[0], f"{'worker' if job in CHIEFS else job}=2")
    return found


def _given(
    graphs: Sequence[tuple[str, Graph]], cluster: Cluster, fetches: Sequence[str] | None, batch: int | None
) -> list[tuple[str, Script]]:
    """Tasks and their scripts, workers first; a graph given for a job is for those of its tasks without one."""
    tasks = {short_task(task): task for task in cluster.tasks}
    known = [*tasks, *dict.fromkeys(str(parse(task).job) for task in cluster.tasks)]
    places = [tasks.get(where, where) for where, _ in graphs]
    for where, place in zip([where for where, _ in graphs], places, strict=True):
        if where not in known and where not in cluster.tasks:
            raise ClusterError(
                f"A graph is given for {where!r}, but the cluster {cluster.name!r} has no such task or job; its tasks "
                f"are {some(list(tasks))}.{near(where, known)}"
            )
        if places.count(place) > 1:
            raise ClusterError(f"{places.count(place)} graphs are given for {where!r}; give one.")
    wanted: dict[str, Script] = {}
    for exact in (True, False):
        for where, graph in graphs:
            found = [task for name, task in tasks.items() if where in ((name, task) if exact else (parse(task).job,))]
            if not found:
                continue
            check_devices(graph)
            script = read_script(with_variables(graph), fetches, batch, must_train=False)
            for task in found:
                wanted.setdefault(task, script)
    return sorted(wanted.items(), key=lambda entry: _rank(entry[0], entry[1]))


def _rank(task: str, script: Script) -> tuple[bool, int, DeviceSpec]:
    """Workers first, and a chief before them."""
    spec = parse(task)
    return not script.trains, CHIEFS.index(spec.job) if spec.job in CHIEFS else len(CHIEFS), spec


def _programs(given: Sequence[tuple[str, Script]], cluster: Cluster, filters: Sequence[str]) -> tuple[Program, ...]:
    made: list[Program] = []
    like = first_identical(cluster, [task for task, _ in given], [id(script) for _, script in given])
    for (task, script), place in zip(given, like, strict=True):
        own, target = written_for(script, of_task(parse(task))), of_task(parse(task))
        program = Program(
            name=short_task(task),
            task=task,
            graph=moved(script.graph, own, target),
            fetches=script.step.fetches,
            feeds=script.step.feeds,
            role="worker" if script.trains else "reader",
            like=place,
            examples=script.examples,
            handing=script.handing,
            counts=script.counts if script.held is None else (),
            joined=script.joined,
            filters=tuple(moved_text(text, own, target) for text in filters),
        )
        if program.like is None:
            _check_there(program, cluster)
        made.append(program)
    return tuple(made)


def _check_there(program: Program, cluster: Cluster) -> None:
    """Refuse a task that the graph names and the cluster, or the session's filters, leave out."""
    graph = program.graph
    devices = [parse(device.name) for device in cluster.devices]
    most: dict[str, int] = {}
    for text in set(graph.requested):
        spec = parse(text)
        if spec.job is not None:
            most[spec.job] = max(most.get(spec.job, 0), (spec.task or 0) + 1)
    for row, text in enumerate(graph.requested):
        place = parse(text).without_device()
        if place.job is not None and not any(matches(place, device) for device in devices):
            raise _lacking(graph, cluster, place, f"{place.job}={most[place.job]}", graph.names[row])
    check_seen(program, cluster)


def _lacking(
    graph: Graph, cluster: Cluster, place: DeviceSpec, advice: str, node: str | None = None
) -> InfeasibleError:
    jobs = {parse(task).job for task in cluster.tasks}
    what = f"task {str(place)!r}" if place.job in jobs else f"job {place.job!r}"
    asks = f"which {node!r} of {graph.source} asks for" if node else f"in which {graph.source} computes"
    known = some([short_task(task) for task in cluster.tasks])
    return InfeasibleError(
        f"The cluster {cluster.name!r} lacks the {what}, {asks}; its tasks are {known}. Give it {advice} or more.",
        node=node,
        members=(node,) if node else (),
    )


# ---- scripts: the step and the shared jobs of a graph, whatever the cluster -----------------------------------------


@dataclass(frozen=True, eq=False)
class Script:
    """The graph that a worker's script makes; that of a reader has no gradients."""

    graph: Graph
    step: Step  # of a worker
    held: SyncReplicas | None = None  # its accumulators and tokens, if it synchronises workers itself
    shared: frozenset[str] = frozenset()  # jobs that keep the trained variables
    counts: tuple[str, ...] = ()  # nodes that count updates
    examples: int = 0  # of a step; 0: unknown
    handing: tuple[str, ...] = ()  # nodes that hand out so many each time they run
    trains: bool = True
    joined: int = 1  # workers that collectives join


def read_script(
    graph: Graph, fetches: Sequence[str] | None = None, batch: int | None = None, *, must_train: bool = True
) -> Script:
    """Read the script of a graph; `fetches` are a worker's, `batch` its examples where the graph does not say.

    Raises GraphError for a graph without gradients unless it may be one, and as `anatomy` and `sync_replicas`.
    """
    held = sync_replicas(graph)
    train = held.train if held is not None and fetches is None else fetches
    try:
        found = anatomy(graph, fetches=train if held is None else (*(train or ()), *held.updates))
    except GraphError:
        if must_train:
            raise
        return _without_gradients(graph)
    joined = joined_workers(graph, found.step) if held is None and names_jobs(graph) else 1
    trained = [gradient.variable for gradient in found.gradients]
    if held is not None:  # its variables may be anywhere: clients share accumulators and tokens, not queues of inputs
        shared = [one for one in operations(graph) if one.kind in (APPLY, TAKE) or one.row in (held.wait, held.refill)]
        trained = [one.owner for one in shared if one.owner >= 0]
    jobs = {parse(graph.requested[row]).job for row in trained}
    if joined > 1:  # each worker keeps variables of its own beside its members of the group
        members = [row for row in np.flatnonzero(found.step.runs).tolist() if graph.ops[row] in COLLECTIVES]
        jobs -= {parse(graph.requested[row]).job for row in members}
    return Script(
        graph=graph,
        step=found.step if held is None else choose_step(graph, fetches=train),
        held=held,
        shared=frozenset(job for job in jobs if job is not None),
        counts=tuple(graph.names[row] for row in (found.counts if held is not None else found.ends)),
        examples=found.batch or batch or 0,
        handing=tuple(graph.names[row] for row in found.handing),
        joined=joined,
    )


def _without_gradients(graph: Graph) -> Script:
    """The script of a graph without gradients: it runs its enqueues, else its own fetches.

    Its queue runners say which enqueues run; where the file lists none, all do.
    """
    running = dict.fromkeys(name.partition(":")[0] for name in graph.queue_runners)
    adding = [name for name in running if name in graph.index]
    adding = adding or [graph.names[one.row] for one in operations(graph) if one.kind == ENQUEUE]
    return Script(graph, choose_step(graph, fetches=adding or None), trains=False)


def names_jobs(graph: Graph) -> bool:
    """Tell whether some node asks for a task of a cluster; `localhost` is the only task of a session without one."""
    return any(parse(text).job not in (None, LOCALHOST) for text in set(graph.requested))


def named_tasks(script: Script) -> list[DeviceSpec]:
    """The tasks that compute, in order: those that the step names and that share nothing."""
    texts = {script.graph.requested[row] for row in np.flatnonzero(script.step.runs).tolist()}
    specs = [parse(text) for text in texts]
    full = {of_task(spec) for spec in specs if spec.job is not None and spec.task is not None}
    return sorted(spec for spec in full if spec.job not in script.shared)


def written_for(script: Script, target: DeviceSpec) -> DeviceSpec:
    """The task for which the script made this graph, to be replaced by `target`; `target` where nothing is replaced.

    It is the only task that the graph names and that shares nothing, or the only such task of the target's job.
    """
    named = named_tasks(script)
    if target in named:
        return target
    beside = [spec for spec in named if spec.job == target.job] or (named if script.trains else [])
    return beside[0] if len(beside) == 1 else target
