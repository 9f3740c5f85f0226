"""Make the programs of a distributed training out of a training graph of one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import parse
from simulator.errors import GraphError, SimvizError
from simulator.graph.graph import Graph
from simulator.training.programs.accumulating import with_accumulators
from simulator.training.programs.anatomy import Anatomy, anatomy
from simulator.training.programs.capturing import with_variables
from simulator.training.programs.division import devices_named
from simulator.training.programs.moving import check_devices, without_localhost
from simulator.training.programs.program import Program
from simulator.training.programs.replication.grouping import grouped
from simulator.training.programs.replication.setter import PsStrategy
from simulator.training.programs.replication.tasks import shared_by
from simulator.training.programs.replication.workers import Home, Placing, all_reduced, between, in_graph
from simulator.training.programs.sync_replicas import sync_replicas
from simulator.training.regimes import Regime
from simulator.units import Bytes, is_whole
from simulator.wording import counted, near, some

How: TypeAlias = Literal["in", "between", "both", "allreduce:ring", "allreduce:tree", "allreduce:hierarchical"]


def replicate(
    graph: Graph,
    cluster: Cluster,
    *,
    how: How = "between",
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

    - "between": a client and a graph for each worker task, variables on ps tasks; in a synchronous `regime` gradients
      go through accumulators there, and the first worker's task has a second client that makes the updates;
    - "in": one client and a tower on each GPU of the worker tasks (on their CPUs where none has one); the gradients
      are averaged and applied once; under a `regime` in which replicas do not wait for each other each tower applies
      its own, and is a program;
    - "both": as "between", with a tower on each GPU of a worker, which are averaged on its CPU;
    - "allreduce:ring", "allreduce:tree" or "allreduce:hierarchical": one client and no ps; each GPU (or CPU) has
      variables of its own and gets the mean of all gradients by that all-reduce; the rows of sparse ones are gathered.
      Dense ones are fused into buckets of up to `fuse` bytes; 0: each is reduced alone.

    Variables stand on the ps tasks by `ps_strategy` (seeded where it draws); in-graph, `variables` can choose the
    client's CPU or the first GPU instead, the CPU being the choice where there is no ps. `fetch` names what a step
    runs, as `choose_step` takes it. `batch` is how many examples a step of the given graph works on, where the graph
    does not say. A worker, tower or replica works on as many, so a client feeds its towers so many times as much, and
    splits it; what comes from a queue or an iterator each takes for itself.

    Device strings that name several GPUs stay as they are between graphs: each worker divides its step among its own.
    The other ways give devices anew, so they refuse such a graph.

    Initialisers, savers, queues, iterators, tables and summaries are there once, on the client's CPU or each
    worker's task; summaries see the first tower. Raises GraphError for a graph without gradients and for one that
    names jobs, or several devices of one type, already, ClusterError for a cluster without the tasks that this
    takes, SimvizError for an unknown `how` or strategy, and for a regime of which one client's steps can make
    nothing: an all-reduce in which replicas do not wait, gradients that are counted where all are averaged.
    """
    known = get_args(How)
    if how not in known:
        raise SimvizError(f"there is no replication {how!r}; give one of {', '.join(known)}.{near(how, known)}")
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
    graph = grouped(graph.imported(), ps, strategy=ps_strategy, seed=seed)
    found = anatomy(graph, fetches=fetch)
    if how != "between":
        _undivided(graph, found, how)
    examples = found.batch or batch or 0
    placing = Placing(variables, ps_strategy, seed)
    if how not in ("between", "both"):
        _of_one_client(regime, how)
    if how == "in":
        alone = regime is not None and regime.kind != "sync"
        return in_graph(graph, found, cluster, placing, batch=examples, asynchronous=alone)
    if how in ("between", "both"):
        made = between(graph, found, cluster, placing, batch=examples, towered=how == "both")
        if regime is None or regime.kind != "sync":
            return made
        return with_accumulators(made, regime)
    return all_reduced(graph, found, cluster, batch=examples, collective=how.partition(":")[2], fuse=fuse)


def _of_one_client(regime: Regime | None, how: str) -> None:
    """Refuse what a single client that averages the gradients of all replicas in each step makes nothing of."""
    if regime is None or (regime.kind != "sync" and how == "in"):
        return
    if regime.kind != "sync":
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


def _undivided(graph: Graph, found: Anatomy, how: str) -> None:
    """Refuse to give devices anew to what names several, as towers and layers do."""
    named = devices_named(graph, found.step.runs)
    if named:
        several = some([str(one).removeprefix("/device:") for one in named])
        raise GraphError(
            f"{graph.source} divides its step among {several} by its own device strings, so {how!r} would divide it "
            "again. Take it as it stands (--replicate none), or give each worker task such a graph (--replicate "
            "between, which needs ps tasks)."
        )


def _of_one_device(graph: Graph) -> None:
    for row, text in enumerate(graph.requested):
        if parse(text).job not in (None, "localhost"):
            name = graph.names[row]
            raise GraphError(
                f"{graph.source} is distributed already: {name!r} asks for {text!r}. Take it as it is, without "
                "replicating it.",
                node=name,
            )
