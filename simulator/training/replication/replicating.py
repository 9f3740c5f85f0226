"""Make the programs of a distributed training out of a training graph of one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import parse
from simulator.errors import GraphError, SimvizError
from simulator.graph.graph import Graph
from simulator.training.anatomy import anatomy
from simulator.training.program import Program
from simulator.training.replication.setter import PsStrategy
from simulator.training.replication.workers import workers
from simulator.wording import near

How: TypeAlias = Literal["between"]


def replicate(
    graph: Graph,
    cluster: Cluster,
    *,
    how: How = "between",
    ps_strategy: PsStrategy = "round_robin",
    seed: int = 0,
    fetch: Sequence[str] | None = None,
    batch: int | None = None,
) -> tuple[Program, ...]:
    """The programs that train this graph on that cluster, workers in order of their tasks.

    `how` is "between": a client and a graph for each worker task, variables on ps tasks by `ps_strategy` (seeded
    where it draws). `fetch` names what a step runs, as `choose_step` takes it. `batch` is how many examples a step of
    the given graph works on, where the graph does not say or leaves it open.

    Raises GraphError for a graph without gradients and for one that names jobs already, ClusterError for a cluster
    without the tasks that this takes, SimvizError for an unknown `how` or strategy.
    """
    known = get_args(How)
    if how not in known:
        raise SimvizError(f"there is no replication {how!r}; give one of {', '.join(known)}.{near(how, known)}")
    _of_one_device(graph)
    found = anatomy(graph, fetches=fetch)
    examples = found.batch or batch or 0
    return workers(graph, found, cluster, strategy=ps_strategy, seed=seed, batch=examples)


def _of_one_device(graph: Graph) -> None:
    for row, text in enumerate(graph.requested):
        if parse(text).job not in (None, "localhost"):
            name = graph.names[row]
            raise GraphError(
                f"{graph.source} is distributed already: {name!r} asks for {text!r}. Take it as it is, without "
                "replicating it.",
                node=name,
            )
