"""Inputs that are filled more slowly than a step uses them up: a single step finds them full, and a note says so."""

from __future__ import annotations

import re

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.execution.trace import Trace
from simulator.graph.shapes import Infer
from simulator.partitioning import Partitions
from simulator.training.crew.combining import Client
from simulator.training.inputs.finding import inputs_of
from simulator.training.inputs.pipeline import SECOND_NS
from simulator.training.programs.program import Program, between_steps_ns
from simulator.units import Nanos, show_nanos
from simulator.wording import counted
from viz.inputs import Inputs

_TAKES = re.compile(r"\w*(Dequeue|Iterator\w*GetNext)\w*")


def starved(given: Inputs, partitions: Partitions, trace: Trace, infer: Infer | None) -> tuple[str, ...]:
    """A note for each queue and iterator from which steps in a row take faster than it is filled.

    Steps in a row begin a makespan and what a session needs between two steps apart. `infer` is asked for shapes in
    the functions of datasets. An input of unknown speed is passed over: a training names it.
    """
    graph, step, cluster = given.graph, given.step, given.cluster
    if not any(_TAKES.fullmatch(graph.ops[row]) for row in np.flatnonzero(step.runs).tolist()):
        return ()
    program = Program("the step", cluster.client_task, graph, step.fetches, step.feeds)
    found = inputs_of([Client(program, partitions)], cluster, [given.costs], infer=infer)
    every_ns = trace.makespan + between_steps_ns(_others(partitions, cluster))
    said = []
    for row, pipeline in enumerate(found.pipelines):
        taken = sum(draw.amount for draw in found.draws[0] if draw.input == row)
        made_ns: Nanos = round(taken * SECOND_NS / pipeline.producer.elements_per_s)
        if made_ns > every_ns:
            said.append(
                f"{pipeline.words}. What a step takes, {counted(taken, 'element')}, is made in {show_nanos(made_ns)}. "
                "This step finds it ready; steps in a row wait for it, as --training shows."
            )
    return tuple(said)


def _others(partitions: Partitions, cluster: Cluster) -> int:
    """On how many tasks besides the session's the step has pieces."""
    tasks = {cluster.devices[row].task for row in np.unique(partitions.device).tolist()}
    return len(tasks - {cluster.client_task})
