"""Give a worker's graph what synchronous training needs, as SyncReplicasOptimizer would have made it.

    worker   gradients ──▶ AccumulatorApplyGradient ... ══▶ dequeue a token ──▶ local step
                                  │ accumulator, on the variable's device
    chief              AccumulatorTakeGradient ──▶ the graph's own updates ──▶ global step + 1 ══▶ enqueue tokens

Both stand in one graph, which TensorFlow imports; a client runs one of them. Shared names are those of
tensorflow/python/training/sync_replicas_optimizer.py, so that all workers meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simulator.graph.graph import Graph
from simulator.graph.step import choose_step
from simulator.training.programs.accumulators import Accumulating, accumulating
from simulator.training.programs.program import Program, beside
from simulator.training.programs.replication.tasks import in_graph_text
from simulator.training.regimes import Regime, settled, workers_of


def with_accumulators(programs: Sequence[Program], regime: Regime) -> tuple[Program, ...]:
    """The programs of synchronous training: each worker pushes its gradients, the first one's task makes the updates.

    The program of the updates comes last. A graph without a global step gets one on the first task that keeps
    variables. A single worker that averages nothing but its own gradients stays as it is.

    Raises SimvizError for no workers, GraphError for a graph without gradients, or whose variables are not on a task
    that all share, and as `regimes.settled`.
    """
    workers = workers_of(programs)
    known = settled(regime, len(workers))
    if len(workers) == known.aggregate == 1:
        return tuple(programs)
    made: dict[int, Accumulating] = {}
    changed: list[Program] = []
    for row, program in enumerate(programs):
        if program.role != "worker":
            changed.append(program)
        elif program.like is None:
            made[row] = accumulating(program, known, alone=len(workers) == 1)
            changed.append(_first(program, made[row]))
        else:
            changed.append(_alike(program, changed[program.like], made[program.like]))
    chief = programs.index(workers[0])
    return (*changed, _updates(changed[chief], made[chief]))


def _first(program: Program, made: Accumulating) -> Program:
    """A worker with its new graph."""
    feeds = _needed(program.feeds, made.graph, made.train)
    step = choose_step(made.graph, feeds=feeds, fetches=made.train)
    return replace(program, graph=made.graph, fetches=step.fetches, feeds=step.feeds, counts=())


def _alike(program: Program, first: Program, made: Accumulating) -> Program:
    """A worker with the new graph of the one that it is like, on its own devices."""
    own = in_graph_text(program.task)
    added = made.graph.requested[len(program.graph) :]
    kept = (
        made.graph.requested[row] if row in made.moved else text for row, text in enumerate(program.graph.requested)
    )
    devices = (*kept, *(own if text == made.worker else text for text in added))
    graph = replace(made.graph, requested=devices)
    return replace(program, graph=graph, fetches=first.fetches, feeds=first.feeds, counts=())


def _updates(worker: Program, made: Accumulating) -> Program:
    feeds = _needed(worker.feeds, worker.graph, made.updates)
    step = choose_step(worker.graph, feeds=feeds, fetches=made.updates)
    return beside(worker, step, made.counts)


def _needed(feeds: Sequence[str], graph: Graph, fetches: Sequence[str]) -> list[str]:
    """Those of the feeds that the fetches read."""
    runs = choose_step(graph, fetches=fetches).runs
    return [name for name in feeds if runs[graph.row(name.partition(":")[0])]]
