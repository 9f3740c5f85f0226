"""The programs that train a graph on a cluster, by the options or by what graph and cluster suggest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from simulator.cluster.cluster import Cluster
from simulator.cluster.description import load_cluster
from simulator.cluster.device_strings import with_devices
from simulator.cluster.devicespec import parse
from simulator.cluster.master import connected
from simulator.cluster.notation import is_notation
from simulator.cluster.parts import part, shared_anew
from simulator.errors import SimvizError
from simulator.graph.graph import Graph
from simulator.graph.step import choose_step
from simulator.training.programs.distributed import distributed, names_jobs
from simulator.training.programs.filters import filtered
from simulator.training.programs.program import Program
from simulator.training.programs.replicated import replicate
from simulator.training.programs.setter import PsStrategy
from simulator.training.programs.tasks import check_devices, computing, ps_tasks, worker_tasks
from simulator.training.recognition.anatomy import anatomy
from simulator.training.recognition.captured import with_variables
from simulator.training.recognition.division import OwnDivision, own_division
from simulator.training.recognition.sync_replicas import sync_replicas
from simulator.training.regimes import Regime, describe
from simulator.wording import counted
from viz.command.request import Request
from viz.command.training_request import TrainingRequest

_NAMED = "the graph already assigns jobs; used unchanged"
_REPLICATIONS = {
    "none": "one client runs the graph unchanged",
    "in": "in-graph replication: a copy of the model per {kind} in one graph",
    "between": "between-graph replication: a client and a graph per worker, variables on the ps tasks",
    "both": "between-graph replication with a copy of the model per {kind} of each worker",
    "allreduce:ring": "all-reduce in a ring in place of parameter servers",
    "allreduce:tree": "all-reduce in a tree in place of parameter servers",
    "allreduce:hierarchical": "all-reduce within and then between tasks in place of parameter servers",
}
_WORKER_PART = re.compile(r"(?<![A-Za-z0-9_])worker=[0-9]+")


def make_programs(
    request: Request,
    wanted: TrainingRequest,
    graph: Graph,
    cluster: Cluster,
    *,
    strategy: PsStrategy | None = None,
) -> tuple[tuple[Program, ...], str]:
    """The programs, and a phrase on how they were made. Raise as `replicate` and `distributed` do.

    A graph that divides its own work is not copied by default. A `strategy` replaces the one of the options, and needs
    no variables that it could place. Raise SimvizError for --workers if the graph always has one client, and for
    --ps-strategy where no variable goes to a ps task by it.
    """
    check_devices(graph)
    named = names_jobs(graph)
    held = None if named or wanted.replicate == "none" else _divided(graph, request)
    how = wanted.replicate or _suggested(cluster, named=named, divided=bool(held))
    said = "" if wanted.replicate else " (by default)"
    said += f": it {held}" if held else ""
    if wanted.ps_strategy is not None and (why := _fixed(how, cluster, named=named)):
        raise SimvizError(f"--ps-strategy says which ps task keeps a variable, but {why}; leave it out")
    if how == "none" or (how == "between" and named):
        if wanted.workers and not named:
            raise SimvizError(
                "--workers compares numbers of clients, but one client runs this graph unchanged"
                f"{said}. Leave --workers out, or replicate the graph (--replicate between)"
            )
        made = distributed(graph, cluster, regime=wanted.regime, fetches=request.fetches_in(graph), batch=request.batch)
        return _ready(made, request, wanted, cluster), _NAMED if named else _REPLICATIONS["none"] + said
    made = replicate(
        graph,
        cluster,
        how=how,  # type: ignore[arg-type]  # one of the option's choices
        ps_strategy=strategy or wanted.ps_strategy or "round_robin",
        regime=wanted.regime,
        seed=request.simulation.seed,
        fetch=request.fetches_in(graph),
        batch=request.batch,
        fuse=wanted.fuse,
    )
    on_gpus = any("GPU" in name for name in computing(cluster, worker_tasks(cluster)))
    if held:
        said = said.replace(": it", "; each copy is the whole graph, which", 1)
    return _ready(made, request, wanted, cluster), _REPLICATIONS[how].format(kind="GPU" if on_gpus else "CPU") + said


def _fixed(how: str, cluster: Cluster, *, named: bool) -> str:
    """Why no strategy says where a variable is; "": one does."""
    if named and how in ("none", "between"):
        return "the graph names the devices of its variables"
    if how == "none":
        return "one client runs this graph unchanged"
    if how.startswith("allreduce"):
        return "each device keeps all variables in an all-reduce"
    return "" if ps_tasks(cluster) else f"{cluster.name} has no ps task"


def _divided(graph: Graph, request: Request) -> OwnDivision | None:
    """The division of work in a graph without jobs; None for one with its own synchronisation."""
    source = with_variables(graph)
    if sync_replicas(source) is not None:
        return None
    return own_division(source, anatomy(source, fetches=request.fetches_in(source)))


def _ready(made: Sequence[Program], request: Request, wanted: TrainingRequest, cluster: Cluster) -> tuple[Program, ...]:
    """Add the device filters and the gap between steps, which hold for all sessions; --grappler rewrites the graphs."""
    if request.grappler:
        made = _optimized(made, cluster)
    seen = filtered(made, wanted.filters, cluster)
    return tuple(replace(program, gap_ns=wanted.gap_ns) for program in seen)


def _optimized(programs: Sequence[Program], cluster: Cluster) -> tuple[Program, ...]:
    """The programs with the graphs that their sessions make of them for their steps. Raise as `optimized` does.

    A session optimizes the graph anew for each set of fetches, so two steps of one session get a graph each.
    """
    from simulator.oracle.optimizing import SessionStep, optimized_each, with_shapes_of  # late: most runs need none

    apart = [program for program in programs if program.like is None]
    steps = [
        SessionStep(
            one.graph, connected(cluster, one.task), choose_step(one.graph, feeds=one.feeds, fetches=one.fetches)
        )
        for one in apart
    ]
    found = {id(one): with_shapes_of(one.graph, graph) for one, graph in zip(apart, optimized_each(steps), strict=True)}
    made: list[Program] = []
    for program in programs:
        lead = program if program.like is None else programs[program.like]
        own = dict(zip(lead.graph.requested, program.graph.requested, strict=True))
        graph = with_devices(found[id(lead)], partial(_renamed, own))
        made.append(replace(program, graph=graph, unoptimized=program.graph))
    return tuple(made)


def _renamed(names: Mapping[str, str], text: str) -> str:
    return names.get(text, text)


def in_words(regime: Regime | None, programs: Sequence[Program], made: str) -> str:
    """Sentences on the steps and updates of a regime; `made` says how the programs were made."""
    workers = sum(program.role == "worker" for program in programs)
    if regime is not None and (workers > 1 or (regime.aggregate or 1) > 1):
        return describe(regime, workers)
    if made.startswith("in-graph"):
        return (
            "In-graph: one client runs all copies of the model, each on a part of the batch or on a batch of its own. "
            "Their gradients are averaged and applied once. Each step is one update, and waits for the slowest copy."
        )
    if made.startswith("all-reduce"):
        return (
            "All-reduce: each copy of the model runs on a part of the batch or on a batch of its own. The copies sum "
            "their gradients, and each updates its own variables. Each step is one update, and waits for the slowest "
            "copy."
        )
    return "One client runs one step after the other. Each step is an update."


def _suggested(cluster: Cluster, *, named: bool, divided: bool) -> str:
    """The default replication.

    A graph that divides its own work has one client, as its script makes it. With ps tasks each worker runs that
    script, as under `replica_device_setter`.
    """
    if not named and ps_tasks(cluster):
        return "between"
    return "none" if named or divided else "in"


def with_workers(source: str | None, cluster: Cluster, count: int) -> Cluster:
    """The cluster with this many workers: described anew if its notation counts them, else its first ones.

    Raise SimvizError if it has fewer.
    """
    if source is not None and is_notation(source) and len(_WORKER_PART.findall(source)) == 1:
        chiefs = len([task for task in worker_tasks(cluster) if parse(task).job != "worker"])
        if count > chiefs:
            written = load_cluster(_WORKER_PART.sub(f"worker={count - chiefs}", source))
            return replace(written, between_tasks=cluster.between_tasks)  # which may have been chosen apart
    tasks = worker_tasks(cluster)
    if count > len(tasks):
        raise SimvizError(
            f"--workers {count}: {cluster.name} has {counted(len(tasks), 'worker')}; describe a cluster with more, or "
            "write it as ps=2,worker=4x2gpu, where they can be counted."
        )
    return without_tasks(cluster, tasks[count:])


def without_tasks(cluster: Cluster, tasks: tuple[str, ...]) -> Cluster:
    """The cluster without those tasks, whose parts of a host the others get; it keeps all links."""
    kept = [row for row, device in enumerate(cluster.devices) if device.task not in tasks]
    name = f"{cluster.name} less {counted(len(tasks), 'task')}" if tasks else cluster.name
    return shared_anew(part(cluster, kept, name))
