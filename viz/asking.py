"""What --check asks the real TensorFlow: whether it places, cuts or refuses a graph as we say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from placement.placing import place
from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.errors import GraphError, InfeasibleError, OracleError
from simulator.execution.laws import check_trace
from simulator.oracle import check, check_refusal, conversation, extended
from simulator.oracle.child import Asking
from simulator.oracle.measurement import STAND_INS
from simulator.partitioning import partition
from viz.checked import shortened
from viz.inputs import Inputs
from viz.request import Request
from viz.scene import Scene


def checked(request: Request, scene: Scene) -> Scene:
    """The scene with TensorFlow's answer. Raises OracleError when TensorFlow could not be asked."""
    return replace(scene, check=_answer(request, scene))


def _answer(request: Request, scene: Scene) -> Mapping[str, Any]:
    """Any: the JSON object of --check.

    The cut that is compared is that of the assignment that is shown. Where the session that is shown can't be had,
    TensorFlow is asked twice: where a session that can be had places the graph, and then, with the devices that are
    shown written into every node, how it cuts it (docs/decisions/0029-a-check-is-of-what-is-shown.md).
    """
    graph, step, cluster, assignment = scene.graph, scene.step, scene.cluster, scene.assignment
    partitions = scene.partitions if scene.received is None else scene.received.cut  # TensorFlow delays no Recv here
    longer = extended(cluster)
    with conversation() as asking:
        if request.predicts and longer is cluster:

            def informed(seen: Mapping[str, str]) -> Assignment:
                return _placed(request, scene, cluster, seen)

            found = check(
                graph, cluster, assignment, partitions, step,
                mode="predict", soft=request.soft, informed=informed, asking=asking,
            )  # fmt: skip
        else:
            found = check(graph, cluster, assignment, partitions, step, mode="pin", asking=asking)
        session = {"shown": cluster.client_task, "asked": longer.client_task, "same": longer is cluster}
        if request.predicts and longer is not cluster:
            found, moved = _for_the_other_session(request, scene, longer, found, asking)
            session["elsewhere"] = moved
    compared = "master" if found["oracle"] == STAND_INS else "local"
    cut = {"shown": partitions.flavour, "compared": compared, "same": partitions.flavour == compared}
    laws = [*found["laws"], *check_trace(scene.trace, scene.partitions, scene.cluster)]
    return {"session": session, "cut": cut, **found, "laws": laws}


def _placed(request: Request, scene: Scene, cluster: Cluster, seen: Mapping[str, str]) -> Assignment:
    how = {"algorithm": request.algorithm, "soft": request.soft}
    return place(scene.graph, cluster, scene.costs, step=scene.step, seen=seen, **how)  # type: ignore[arg-type]


def _for_the_other_session(
    request: Request, scene: Scene, longer: Cluster, pinned: Mapping[str, Any], asking: Asking
) -> tuple[dict[str, Any], int]:
    """What was found of the cut that is shown, with the placement by the session that can be had; and how many nodes
    that one places elsewhere than is shown.
    """
    graph, step = scene.graph, scene.step
    there = _placed(request, scene, longer, {})
    found = check(
        graph, longer, there, partition(graph, there, longer, step=step), step,
        mode="predict", soft=request.soft, asking=asking,
        informed=lambda seen: _placed(request, scene, longer, seen),
    )  # fmt: skip
    moved = sum(scene.assignment.name_of(row) != there.name_of(row) for row in range(len(graph)))
    placed = found["placement"]["of"] - found["placement"]["agree"]
    differences = [*found["differences"][:placed], *pinned["differences"]]
    of_cut = {key: pinned[key] for key in ("partition", "unseen_cuts", "foreseen")}
    refused = found["refused"] or pinned["refused"]
    laws = [*found["laws"], *pinned["laws"]]
    told = {**found, **of_cut, "pinned": pinned["placement"], "differences": differences}
    return {**told, "refused": refused, "laws": laws}, moved


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
