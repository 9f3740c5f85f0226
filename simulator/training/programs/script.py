"""What one client's graph says of a training that names its jobs, whatever the cluster: what runs, what is shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.cluster.devicespec import DeviceSpec, parse
from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.graph.step import Step, choose_step
from simulator.training.crew.operations import operations
from simulator.training.crew.synchronising import APPLY, ENQUEUE, TAKE
from simulator.training.programs.anatomy import anatomy
from simulator.training.programs.sync_replicas import SyncReplicas, sync_replicas


@dataclass(frozen=True, eq=False)
class Script:
    """The graph that a worker's script makes; that of a reader has no gradients."""

    graph: Graph
    step: Step  # what a worker runs
    held: SyncReplicas | None = None  # how it synchronises workers, if it does so itself
    shared: frozenset[str] = frozenset()  # jobs that keep what is trained
    counts: tuple[str, ...] = ()  # nodes that count updates
    examples: int = 0  # of a step; 0: unknown
    trains: bool = True


def read_script(
    graph: Graph, fetches: Sequence[str] | None = None, batch: int | None = None, *, must_train: bool = True
) -> Script:
    """Find out what the graph holds; `fetches` is what a worker runs, `batch` its examples where the graph is silent.

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
    trained = [gradient.variable for gradient in found.gradients]
    if held is not None:  # its variables may be anywhere: clients share what they meet at, not what each reads from
        meets = [one for one in operations(graph) if one.kind in (APPLY, TAKE) or one.row in (held.wait, held.refill)]
        trained = [one.owner for one in meets if one.owner >= 0]
    jobs = {parse(graph.requested[row]).job for row in trained}
    return Script(
        graph=graph,
        step=found.step if held is None else choose_step(graph, fetches=train),
        held=held,
        shared=frozenset(job for job in jobs if job is not None),
        counts=tuple(graph.names[row] for row in (found.counts if held is not None else found.ends)),
        examples=found.batch or batch or 0,
    )


def _without_gradients(graph: Graph) -> Script:
    """A graph that only enqueues, else what it would run by itself.

    What it enqueues its queue runners say; where the file does not say who these are, they run all that enqueues.
    """
    running = dict.fromkeys(name.partition(":")[0] for name in graph.queue_runners)
    adding = [name for name in running if name in graph.index]
    adding = adding or [graph.names[one.row] for one in operations(graph) if one.kind == ENQUEUE]
    return Script(graph, choose_step(graph, fetches=adding or None), trains=False)


def names_jobs(graph: Graph) -> bool:
    """Whether some node asks for a task of a cluster; `localhost` is the only task of a session without one."""
    return any(parse(text).job not in (None, "localhost") for text in set(graph.requested))


def named_tasks(script: Script) -> list[DeviceSpec]:
    """The tasks that the step names and that share nothing: those that compute, in order."""
    texts = {script.graph.requested[row] for row in np.flatnonzero(script.step.runs).tolist()}
    specs = [parse(text) for text in texts]
    full = {of_task(spec) for spec in specs if spec.job is not None and spec.task is not None}
    return sorted(spec for spec in full if spec.job not in script.shared)


def of_task(spec: DeviceSpec) -> DeviceSpec:
    """Job, replica and task alone; replica 0 where it is left out."""
    return DeviceSpec(spec.job, spec.replica or 0, spec.task)


def written_for(script: Script, target: DeviceSpec) -> DeviceSpec:
    """The task for which the script made this graph, to be replaced by `target`; `target` where nothing is to move.

    It is the only task that the graph names and that shares nothing, or the only one of the target's job.
    """
    named = named_tasks(script)
    if target in named:
        return target
    beside = [spec for spec in named if spec.job == target.job] or (named if script.trains else [])
    return beside[0] if len(beside) == 1 else target
