"""Replication: the programs of a distributed training, made out of a training graph of one device.

Between graphs, as in scripts that build their graph under `replica_device_setter`, everything but variables asks for
the worker's task and no more. So within the task the placer chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import LOCALHOST, parse
from simulator.cluster.master import short_task
from simulator.errors import ClusterError, GraphError, SimvizError
from simulator.graph.graph import Graph
from simulator.training.programs.accumulators import with_accumulators
from simulator.training.programs.allreduce import mirrored
from simulator.training.programs.program import Program
from simulator.training.programs.setter import PsStrategy, Setter, grouped
from simulator.training.programs.tasks import (
    check_devices,
    computing,
    first_cpu,
    first_identical,
    in_graph_text,
    moved,
    shared_by,
    without_localhost,
    worker_tasks,
)
from simulator.training.programs.towers import apart, towers
from simulator.training.recognition.anatomy import Anatomy, anatomy
from simulator.training.recognition.captured import with_variables
from simulator.training.recognition.division import devices_named
from simulator.training.recognition.late_gradients import check_no_loop
from simulator.training.recognition.sync_replicas import sync_replicas
from simulator.training.regimes import Regime
from simulator.units import Bytes, is_whole
from simulator.wording import choices, counted, some

Replication: TypeAlias = Literal["in", "between", "both", "allreduce:ring", "allreduce:tree", "allreduce:hierarchical"]
Home: TypeAlias = Literal["ps", "cpu", "gpu"]
_AS_IT_STANDS = (
    "Take it as it stands (--replicate none), or give each worker task such a graph (--replicate between, which needs "
    "ps tasks)"
)


def replicate(
    graph: Graph,
    cluster: Cluster,
    *,
    how: Replication = "between",
    ps_strategy: PsStrategy = "round_robin",
    regime: Regime | None = None,
    variables: Home | None = None,
    seed: int = 0,
    fetch: Sequence[str] | None = None,
    batch: int | None = None,
    fuse: Bytes = 0,
) -> tuple[Program, ...]:
    """The programs that train this graph on that cluster, workers in order of their tasks.

    `how` is one of

    - "between": a client and a graph for each worker task, variables on ps tasks. In a synchronous `regime` gradients
      go through accumulators there, and the first worker's task has a second client that makes the updates.
    - "in": one client and a tower on each GPU of the worker tasks (on their CPUs where none has one). The gradients
      are averaged and applied once. Under a `regime` in which replicas do not wait for each other each tower applies
      its own, and is a program.
    - "both": as "between", with a tower on each GPU of a worker. Their gradients are averaged on its CPU.
    - "allreduce:ring", "allreduce:tree" or "allreduce:hierarchical": one client and no ps. Each GPU (or CPU) has
      variables of its own and gets the mean of all gradients by that all-reduce. The rows of sparse ones are gathered.
      Dense ones are fused into buckets of up to `fuse` bytes; 0: each is reduced alone.

    `ps_strategy` spreads variables over the ps tasks; `seed` is that of the strategy "random". In-graph, `variables`
    can choose the client's CPU or the first GPU instead; without a ps it is the CPU. `fetch` gives the fetches of a
    step, as `choose_step` takes them. `batch` is the number of examples of a step of the given graph, where the graph
    does not say. A worker, tower or replica works on as many, so a client feeds its towers so many times as much, and
    splits it. Each takes from queues and iterators for itself.

    Between graphs, device strings that name several GPUs stay: each worker divides its step among its own. All other
    replications give devices anew, so they refuse such a graph.

    Initialisers, savers, queues, iterators, tables and summaries exist once, on the client's CPU or each worker's task;
    summaries see the first tower.

    Raises GraphError for a graph without gradients and for one that already names jobs, or several devices of one type.
    So it does for an update in a loop, or behind another one, where gradients are averaged.
    Raises ClusterError for a cluster without the needed tasks. Raises SimvizError for an unknown `how` or strategy, and
    for a regime that one client's steps can't follow. Such are an all-reduce in which replicas do not wait, and
    gradients that are counted where all are averaged.
    """
    known = get_args(Replication)
    if how not in known:
        raise SimvizError(f"there is no replication {how!r}; give one of {choices(how, known)}")
    if variables not in (None, *get_args(Home)):
        raise SimvizError(
            f"variables stand on {', '.join(get_args(Home))} or where it is best (None), not {variables!r}."
        )
    if batch is not None and not (is_whole(batch) and batch > 0):
        raise SimvizError(f"a batch of {batch!r} examples is not possible; give a whole number from 1.")
    if not (is_whole(fuse) and fuse >= 0) or (fuse and not how.startswith("allreduce")):
        raise SimvizError(
            f"fuse={fuse!r}: give the bytes of a bucket of gradients, or 0; only an all-reduce has some, not {how!r}."
        )
    check_devices(graph)
    _of_one_device(graph)
    graph = with_variables(without_localhost(graph))
    _of_one_worker(graph)
    ps = [] if how.startswith("allreduce") or variables in ("cpu", "gpu") else shared_by(cluster)
    graph = grouped(graph.imported(), Setter(ps, ps_strategy, seed))
    found = anatomy(graph, fetches=fetch)
    if how != "between":
        _undivided(graph, found, repr(how), _AS_IT_STANDS)
    examples = found.batch or batch or 0
    if how in ("between", "both"):
        setter = Setter(_shared(cluster), ps_strategy, seed)
        made = _between(graph, found, cluster, setter, batch=examples, towered=how == "both")
        return with_accumulators(made, regime)
    _of_one_client(regime, how)
    if how == "in":
        setter = Setter(_homes(cluster, variables), ps_strategy, seed)
        alone = regime is not None and not regime.averages
        return _in_graph(graph, found, cluster, setter, batch=examples, asynchronous=alone)
    return _all_reduced(graph, found, cluster, batch=examples, collective=how.partition(":")[2], fuse=fuse)


def check_one_device(graph: Graph, fetch: Sequence[str] | None = None) -> None:
    """Raise GraphError for a graph that is distributed, synchronises workers, or divides its step among devices."""
    check_devices(graph)
    _of_one_device(graph)
    _of_one_worker(graph)
    _undivided(
        graph,
        anatomy(graph, fetches=fetch),
        "stages of microbatches",
        "Leave --microbatches out, or drop the strings (--ignore-devices)",
    )


def _of_one_client(regime: Regime | None, how: str) -> None:
    """Refuse a regime that a single client, which averages the gradients of all replicas in each step, can't follow."""
    if regime is None or (not regime.averages and how == "in"):
        return
    if not regime.averages:
        raise SimvizError(f"an all-reduce waits for all replicas, so it can't be {regime}; leave the regime out.")
    if regime.total not in (None, 1) or regime.aggregate not in (None, 1) or regime.tokens is not None:
        where = "in-graph" if how == "in" else "in an all-reduce"
        raise SimvizError(
            f"{regime} counts the gradients of several clients, but {where} one client averages those of all replicas "
            "in each step. Write sync without numbers, or replicate between graphs (between, both)."
        )


def _of_one_worker(graph: Graph) -> None:
    held = sync_replicas(graph)
    if held is not None:
        name = graph.names[held.wait]
        raise GraphError(
            f"{graph.source} synchronises its workers itself: it holds accumulators that wait for "
            f"{counted(held.aggregate, 'gradient')}, and {name!r} takes a token, as SyncReplicasOptimizer writes it, "
            "but nothing says on which tasks they are. Make it under replica_device_setter, and take it as it is "
            "(--replicate none); or leave that optimizer out, replicate, and train by "
            f"sync:aggregate={held.aggregate},total={held.per_update}.",
            node=name,
        )


def _undivided(graph: Graph, found: Anatomy, how: str, advice: str) -> None:
    """Refuse to give devices anew to a graph that names several, as towers and layers do."""
    named = devices_named(graph, found.step.runs)
    if named:
        several = some([str(one).removeprefix("/device:") for one in named])
        raise GraphError(
            f"{graph.source} divides its step among {several} by its own device strings, so {how} would divide it "
            f"again. {advice}."
        )


def _of_one_device(graph: Graph) -> None:
    for row, text in enumerate(graph.requested):
        if parse(text).job not in (None, LOCALHOST):
            name = graph.names[row]
            raise GraphError(
                f"{graph.source} is distributed already: {name!r} asks for {text!r}. Take it as it is, without "
                "replicating it.",
                node=name,
            )


# ---- the programs of each kind of replication -----------------------------------------------------------------------


def _between(
    graph: Graph, found: Anatomy, cluster: Cluster, setter: Setter, *, batch: int, towered: bool
) -> tuple[Program, ...]:
    """One program per worker task, identical but for the task; `towered`: with a tower on each GPU of the worker.

    A step of each works on `batch` examples in each of its towers.
    """
    tasks = worker_tasks(cluster)
    made: list[Program] = []
    for task, like in zip(tasks, first_identical(cluster, tasks, [0] * len(tasks)), strict=True):
        if like is not None:
            own = moved(made[like].graph, parse(tasks[like]), parse(task))
            made.append(replace(made[like], name=short_task(task), task=task, graph=own, like=like))
        elif towered:
            where, home = computing(cluster, (task,)), first_cpu(cluster, task)
            own = towers(graph, found, where, setter, home=home, average=home)
            made.append(_program(own, found, task, examples=batch * len(where)))
        else:
            own = replace(graph, requested=setter.devices(graph, in_graph_text(task)))
            made.append(_program(own, found, task, examples=batch))
    return tuple(made)


def _in_graph(
    graph: Graph, found: Anatomy, cluster: Cluster, setter: Setter, *, batch: int, asynchronous: bool
) -> tuple[Program, ...]:
    """One client with a tower on every device that trains; one program, or `asynchronous` one per tower."""
    task = cluster.client_task
    home, where = first_cpu(cluster, task), computing(cluster, worker_tasks(cluster))
    if not asynchronous:
        own = towers(graph, found, where, setter, home=home)
        return (replace(_program(own, found, task, examples=batch * len(where)), replicas=len(where)),)
    own, prefixes = apart(graph, found, where, setter, home=home)
    one = _program(own, found, task, examples=batch)
    return tuple(
        replace(
            one,
            name=f"{short_task(task)} tower:{number}",
            fetches=_of_copy(own, one.fetches, prefix),
            counts=_of_copy(own, one.counts, prefix),
            handing=_of_copy(own, one.handing, prefix),
        )
        for number, prefix in enumerate(prefixes)
    )


def _all_reduced(
    graph: Graph, found: Anatomy, cluster: Cluster, *, batch: int, collective: str, fuse: Bytes
) -> tuple[Program, ...]:
    """One client with a replica on every device that trains, each with its own variables."""
    check_no_loop(graph, found, "replicas, each with a loop of its own, can't reduce it; train it by async or ssp")
    task = cluster.client_task
    where = computing(cluster, worker_tasks(cluster))
    own, fetches = mirrored(graph, found, where, home=first_cpu(cluster, task), collective=collective, fuse=fuse)
    made = _program(own, found, task, examples=batch * len(where))
    return (replace(made, fetches=fetches, replicas=len(where)),)


def _program(graph: Graph, found: Anatomy, task: str, *, examples: int) -> Program:
    # the rows of the given graph come first
    counts, handing = (tuple(graph.names[at] for at in rows) for rows in (found.ends, found.handing))
    return Program(
        short_task(task),
        task,
        graph,
        found.step.fetches,
        found.step.feeds,
        examples=examples,
        handing=handing,
        counts=counts,
    )


def _shared(cluster: Cluster) -> list[str]:
    """The ps tasks, where workers with graphs of their own share variables."""
    ps = shared_by(cluster)
    if not ps:
        raise ClusterError(
            f"{cluster.name!r} has no ps task, so workers with graphs of their own have nowhere to share variables; "
            "add one (ps=1), or replicate in-graph or by all-reduce."
        )
    return ps


def _homes(cluster: Cluster, variables: Home | None) -> list[str]:
    """The places of the variables of an in-graph replication."""
    cpu, ps = first_cpu(cluster, cluster.client_task), shared_by(cluster)
    gpu, *_ = computing(cluster, worker_tasks(cluster))
    if variables == "ps" and not ps:
        raise ClusterError(f"{cluster.name!r} has no ps task to keep the variables; add one (ps=1), or take the CPU.")
    if variables == "gpu":
        return [gpu]
    return ps if ps and variables != "cpu" else [cpu]


def _of_copy(graph: Graph, names: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    """Nodes or tensors of a copy; shared ones are the same for all copies."""
    return tuple(prefix + name if prefix + name.partition(":")[0] in graph.index else name for name in names)
