"""Between-graph replication: each worker has a client and a graph of its own, the variables stand on ps tasks.

As in scripts of distributed TensorFlow that build their graph under `replica_device_setter`: everything but variables
asks for the worker's task and no more, so that within the task the placer chooses.
"""

from __future__ import annotations

from dataclasses import replace

from simulator.cluster.cluster import Cluster
from simulator.errors import ClusterError
from simulator.graph.graph import Graph
from simulator.training.anatomy import Anatomy
from simulator.training.program import Program
from simulator.training.replication import setter
from simulator.training.replication.setter import PsStrategy
from simulator.training.replication.tasks import alike, called, ps_tasks, short, worker_tasks


def workers(
    graph: Graph, found: Anatomy, cluster: Cluster, *, strategy: PsStrategy, seed: int, batch: int
) -> tuple[Program, ...]:
    """One program per worker task, the same but for the task; a step of each works on `batch` examples.

    Raises ClusterError for a cluster without ps, and as `setter.devices`.
    """
    ps = ps_tasks(cluster)
    if not ps:
        raise ClusterError(
            f"{cluster.name!r} has no ps task, so workers with graphs of their own have nowhere to share variables; "
            "add one (ps=1), or replicate in-graph or by all-reduce."
        )
    tasks = worker_tasks(cluster)
    first = short(tasks[0])
    given = setter.devices(graph, ps=[short(task) for task in ps], worker=first, strategy=strategy, seed=seed)
    made: list[Program] = []
    for row, task in enumerate(tasks):
        where = given if row == 0 else moved(given, first, short(task))
        made.append(
            Program(
                name=called(task),
                task=task,
                graph=replace(graph, requested=where),
                fetches=found.step.fetches,
                feeds=found.step.feeds,
                like=alike(cluster, task, tasks[:row]),
                examples=batch,
                counts=tuple(graph.names[at] for at in found.counts),
            )
        )
    return tuple(made)


def moved(devices: tuple[str, ...], task: str, other: str) -> tuple[str, ...]:
    """The device strings with those of one task on another."""
    distinct = {text: other + text[len(task) :] for text in set(devices) if _within(text, task)}
    return tuple([distinct.get(text, text) for text in devices])


def _within(text: str, task: str) -> bool:
    return text == task or text.startswith(f"{task}/")
