"""One client per worker task, or one client in all: programs out of a graph and the tasks of a cluster.

Between-graph, as in scripts that build their graph under `replica_device_setter`: everything but variables asks for the
worker's task and no more, so that within the task the placer chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import parse
from simulator.errors import ClusterError
from simulator.graph.graph import Graph
from simulator.training.programs.anatomy import Anatomy
from simulator.training.programs.moving import moved
from simulator.training.programs.program import Program
from simulator.training.programs.replication import setter
from simulator.training.programs.replication.allreduce import mirrored
from simulator.training.programs.replication.setter import PsStrategy
from simulator.training.programs.replication.tasks import (
    alike,
    called,
    computing,
    first_cpu,
    in_graph_text,
    shared_by,
    worker_tasks,
)
from simulator.training.programs.replication.towers import apart, towers
from simulator.units import Bytes

Home: TypeAlias = Literal["ps", "cpu", "gpu"]


@dataclass(frozen=True, slots=True)
class Placing:
    """How variables are given places: where they stand, how they are dealt out, and by which seed."""

    home: Home | None = None
    strategy: PsStrategy = "round_robin"
    seed: int = 0


def between(
    graph: Graph, found: Anatomy, cluster: Cluster, placing: Placing, *, batch: int, towered: bool
) -> tuple[Program, ...]:
    """One program per worker task, the same but for the task; `towered`: with a tower on each GPU of the worker.

    A step of each works on `batch` examples in each of its towers. Raises ClusterError for a cluster without ps, and as
    `setter.devices`.
    """
    ps = shared_by(cluster)
    if not ps:
        raise ClusterError(
            f"{cluster.name!r} has no ps task, so workers with graphs of their own have nowhere to share variables; "
            "add one (ps=1), or replicate in-graph or by all-reduce."
        )
    tasks = worker_tasks(cluster)
    made: list[Program] = []
    for row, task in enumerate(tasks):
        like = alike(cluster, task, tasks[:row])
        if like is not None:
            own = moved(made[like].graph, parse(tasks[like]), parse(task))
            made.append(replace(made[like], name=called(task), task=task, graph=own, like=like))
        elif towered:
            where, home = computing(cluster, (task,)), first_cpu(cluster, task)
            own = towers(
                graph, found, where, ps=ps, home=home, average=home, strategy=placing.strategy, seed=placing.seed
            )
            made.append(_program(own, found, task, examples=batch * len(where)))
        else:
            worker = in_graph_text(task)
            devices = setter.devices(graph, ps=ps, worker=worker, strategy=placing.strategy, seed=placing.seed)
            made.append(_program(replace(graph, requested=devices), found, task, examples=batch))
    return tuple(made)


def in_graph(
    graph: Graph, found: Anatomy, cluster: Cluster, placing: Placing, *, batch: int, asynchronous: bool
) -> tuple[Program, ...]:
    """One client with a tower on every device that trains; one program, or `asynchronous` one per tower.

    Raises ClusterError for a cluster without a worker, or without ps where the variables are to stand there.
    """
    task = cluster.client_task
    home = first_cpu(cluster, task)
    where = computing(cluster, worker_tasks(cluster))
    ps = _homes(cluster, placing, home, where[0])
    if not asynchronous:
        own = towers(graph, found, where, ps=ps, home=home, strategy=placing.strategy, seed=placing.seed)
        return (_program(own, found, task, examples=batch * len(where)),)
    own, prefixes = apart(graph, found, where, ps=ps, home=home, strategy=placing.strategy, seed=placing.seed)
    one = _program(own, found, task, examples=batch)
    return tuple(
        replace(
            one,
            name=f"{called(task)} tower:{number}",
            fetches=_of_copy(own, one.fetches, prefix),
            counts=_of_copy(own, one.counts, prefix),
        )
        for number, prefix in enumerate(prefixes)
    )


def all_reduced(
    graph: Graph, found: Anatomy, cluster: Cluster, *, batch: int, collective: str, fuse: Bytes = 0
) -> tuple[Program, ...]:
    """One client with a replica on every device that trains, each with its own variables.

    Raises ClusterError for a cluster without a worker, and as `mirrored`.
    """
    task = cluster.client_task
    where = computing(cluster, worker_tasks(cluster))
    own, fetches = mirrored(graph, found, where, home=first_cpu(cluster, task), collective=collective, fuse=fuse)
    return (replace(_program(own, found, task, examples=batch * len(where)), fetches=fetches),)


def _program(graph: Graph, found: Anatomy, task: str, *, examples: int) -> Program:
    counts = tuple(graph.names[at] for at in found.ends)  # the rows of the given graph come first
    return Program(called(task), task, graph, found.step.fetches, found.step.feeds, examples=examples, counts=counts)


def _homes(cluster: Cluster, placing: Placing, cpu: str, gpu: str) -> list[str]:
    ps = shared_by(cluster)
    if placing.home == "ps" and not ps:
        raise ClusterError(f"{cluster.name!r} has no ps task to keep the variables; add one (ps=1), or take the CPU.")
    if placing.home == "gpu":
        return [gpu]
    return ps if ps and placing.home != "cpu" else [cpu]


def _of_copy(graph: Graph, names: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    """Nodes or tensors of a copy; what was not copied is the same for all."""
    return tuple(prefix + name if prefix + name.partition(":")[0] in graph.index else name for name in names)
