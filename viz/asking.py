"""What --check asks the real TensorFlow: whether it places, cuts or refuses a graph as we say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from placement.placing import place
from simulator.assignment import Assignment
from simulator.errors import GraphError, InfeasibleError, OracleError
from simulator.execution.laws import check_trace
from simulator.oracle import check, check_refusal, extended
from simulator.partitioning import partition
from viz.checked import shortened
from viz.inputs import Inputs
from viz.request import Request
from viz.scene import Scene


def checked(request: Request, scene: Scene) -> Scene:
    """The scene with TensorFlow's answer. Raises OracleError when TensorFlow could not be asked."""
    return replace(scene, check=_answer(request, scene))


def _answer(request: Request, scene: Scene) -> Mapping[str, Any]:
    """Any: the JSON object of --check."""
    graph, step, cluster, assignment = scene.graph, scene.step, scene.cluster, scene.assignment
    partitions = scene.partitions if scene.received is None else scene.received.cut  # TensorFlow delays no Recv here
    moved = 0
    longer = extended(cluster)

    def predicted(seen: Mapping[str, str]) -> Assignment:
        return place(graph, longer, scene.costs, step=step, algorithm=request.algorithm, soft=request.soft, seen=seen)

    if request.predicts and longer is not cluster:  # what is asked about is what is predicted
        cluster, assignment = longer, predicted({})
        partitions = partition(graph, assignment, cluster, step=step)
        moved = sum(scene.assignment.name_of(row) != assignment.name_of(row) for row in range(len(graph)))
    found: Mapping[str, Any] = check(
        graph,
        cluster,
        assignment,
        partitions,
        step,
        mode="predict" if request.predicts else "pin",
        soft=request.soft,
        informed=predicted if request.predicts else None,
    )
    laws = [*found["laws"], *check_trace(scene.trace, scene.partitions, scene.cluster)]
    return {**found, "laws": laws, "moved_by_added_task": moved}


def refused_alike(request: Request, given: Inputs, error: InfeasibleError | GraphError) -> str:
    """What TensorFlow says of a graph that cannot be placed as we say, in a sentence."""
    graph, step, cluster = given.graph, given.step, given.cluster
    longer = extended(cluster)
    algorithm = request.algorithm if request.predicts else "tensorflow"  # the others obey the same rules
    if longer is not cluster or algorithm != request.algorithm:
        try:
            place(graph, longer, given.costs, step=step, algorithm=algorithm, soft=request.soft)
        except (InfeasibleError, GraphError) as other:  # compared below with TensorFlow's
            error = other
        else:
            needs = f"; its master needs the task {longer.client_task} besides" if longer is not cluster else ""
            return f"TensorFlow was not asked: by its own rules the graph can be placed{needs}."
    try:
        return shortened(check_refusal(graph, longer, error, step, soft=request.soft).said)
    except OracleError as missing:  # the graph is refused with or without TensorFlow's word
        return f"TensorFlow could not be asked: {missing}"
