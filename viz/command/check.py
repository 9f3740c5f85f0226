"""The question of --check: does TensorFlow, or a placement log that it wrote, agree with the scene?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement.placing import place
from simulator import oracle  # its parts load when they are used: a log is compared without them
from simulator.assignment import Assignment
from simulator.cluster.cluster import Cluster
from simulator.comparison.comparison import compare_items
from simulator.comparison.placement_log import Logged, read_log
from simulator.errors import GraphError, InfeasibleError, OracleError, SimvizError
from simulator.execution.laws import check_trace
from simulator.oracle.dry_runs import STAND_INS
from simulator.partitioning.cut import partition
from simulator.wording import counted, some
from viz.agreement import with_short_lists
from viz.command.ingredients import Ingredients
from viz.command.request import Request
from viz.scene import Scene

if TYPE_CHECKING:
    from simulator.graph.graph import Graph
    from simulator.oracle.child import Asking


def check_with_tensorflow(request: Request, scene: Scene) -> Scene:
    """Return the scene with TensorFlow's answer. Raise OracleError when TensorFlow could not be asked.

    The compared cut is that of the shown assignment. Where the shown session can't be had, TensorFlow is asked twice.
    One question is the placement by a session that can be had. The other is the cut with the shown device written into
    every node (docs/decisions/0029-a-check-is-of-what-is-shown.md).
    """
    graph, step, cluster, assignment = scene.graph, scene.step, scene.cluster, scene.assignment
    longer = oracle.extended(cluster)
    with oracle.conversation() as asking:
        if request.predicts and longer is cluster:

            def informed(seen: Mapping[str, str]) -> Assignment:
                return _placed(request, scene, cluster, seen)

            found = oracle.check(
                graph, cluster, assignment, scene.cut, step,
                mode="predict", soft=request.soft, informed=informed, asking=asking,
            )  # fmt: skip
        else:
            found = oracle.check(graph, cluster, assignment, scene.cut, step, mode="pin", asking=asking)
        session = {"shown": cluster.client_task, "asked": longer.client_task, "same": longer is cluster}
        if request.predicts and longer is not cluster:
            found, moved = _for_the_other_session(request, scene, longer, found, asking)
            session["elsewhere"] = moved
    compared = "master" if found["oracle"] == STAND_INS else "local"
    flavour = scene.cut.flavour
    cut = {"shown": flavour, "compared": compared, "same": flavour == compared}
    laws = [*found["laws"], *check_trace(scene.trace, scene.partitions, scene.cluster)]
    return replace(scene, check={"session": session, "cut": cut, **found, **_shapes(graph, found), "laws": laws})


def _shapes(graph: Graph, found: Mapping[str, Any]) -> dict[str, Any]:
    """The agreement of shapes, and the differences with those in shapes; Any: the JSON of --check."""
    compared, refused = (None, found["refused"]) if found["refused"] else oracle.compare_shapes(graph)
    if refused is not None or compared is None:
        return {"shapes": None}
    differences = [*found["differences"], *map(asdict, compared.differences)]
    return {"shapes": {"agree": compared.agree, "of": compared.of}, "differences": differences}


def _placed(request: Request, scene: Scene, cluster: Cluster, seen: Mapping[str, str]) -> Assignment:
    return place(scene.graph, cluster, scene.costs, step=scene.step, seen=seen, **request.placing())


def _for_the_other_session(
    request: Request, scene: Scene, longer: Cluster, pinned: Mapping[str, Any], asking: Asking
) -> tuple[dict[str, Any], int]:
    """Join the check of the shown cut with that of the placement by the session that can be had.

    Return it, and the number of nodes that this session places elsewhere than is shown. Any: the JSON of --check.
    """
    graph, step = scene.graph, scene.step
    there = _placed(request, scene, longer, {})
    found = oracle.check(
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
    joined = {**found, **of_cut, "pinned": pinned["placement"], "differences": differences}
    return {**joined, "refused": refused, "laws": laws}, moved


def refusal(request: Request, given: Ingredients, error: InfeasibleError | GraphError) -> str:
    """TensorFlow's sentence about a graph that cannot be placed by our rules."""
    graph, step, cluster = given.graph, given.step, given.cluster
    longer = oracle.extended(cluster)
    algorithm = request.algorithm if request.predicts else "tensorflow"  # the others obey the same rules
    before = ""
    if longer is not cluster or algorithm != request.algorithm:
        try:
            place(graph, longer, given.costs, step=step, **replace(request, algorithm=algorithm).placing())
        except (InfeasibleError, GraphError) as other:  # compared below with TensorFlow's
            if other.node not in (None, error.node):
                before = f"The session that TensorFlow can be asked about is refused at {other.node!r} by our rules. "
            error = other
        else:
            needs = f"; its master needs the task {longer.client_task} besides" if longer is not cluster else ""
            return f"TensorFlow was not asked: by its own rules the graph can be placed{needs}."
    try:
        return before + with_short_lists(oracle.check_refusal(graph, longer, error, step, soft=request.soft).said)
    except OracleError as missing:  # the graph is refused with or without TensorFlow's answer
        return f"TensorFlow could not be asked: {missing}"


def read(path: str | os.PathLike[str]) -> Logged:
    """Read a placement log. Raise SimvizError if it cannot be read or names no nodes."""
    name = os.fspath(path)
    try:
        return read_log(Path(name).read_text(encoding="utf-8", errors="replace"), name)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise SimvizError(f"--check {name}: the log cannot be read: {reason}.") from None


def check_with_log(request: Request, scene: Scene, log: Logged) -> Scene:
    """Return the scene compared with a log. Raise SimvizError if the log is that of another graph."""
    graph, assignment = scene.graph, scene.assignment
    ambiguous = set(log.ambiguous)
    known = {name: device for name, device in log.placement.items() if name in graph.index}
    if not known and ambiguous & graph.index.keys():
        raise SimvizError(
            f"{log.source} gives several devices to each of its {len(ambiguous)} nodes. It holds several runs; give "
            "the log of one."
        )
    if not known:
        raise SimvizError(
            f"{log.source} names none of the {len(graph)} nodes of {scene.title}, but {some(list(log.placement), 3)}. "
            "It is the log of another graph. A log has calls as single nodes (--keep-calls), and bodies of functions "
            "by their own names."
        )
    # a rewrite may change an op and keep its name, so some other ops are no proof
    others = [name for name in known if graph.ops[graph.index[name]] not in log.ops[name]]
    if 2 * len(others) > len(known):
        raise SimvizError(
            f"{log.source} is the log of another graph than {scene.title}: it has other ops in {len(others)} of "
            f"{counted(len(known), 'node')} of these names, such as {others[0]!r}."
        )
    found = compare_items(assignment, known, graph=graph)
    differences = [asdict(one) for one in found.differences if one.theirs]
    answer = {
        "mode": "log",
        "oracle": "placement log",
        "tensorflow": None,
        "log": log.source,
        "predicts": request.predicts,
        "placement": {"agree": found.agree, "of": len(known), "raw": None},
        "log_order": None,
        "partition": None,
        "differences": differences,
        "only_ours": [name for name in graph.names if name not in known and name not in ambiguous],
        "only_logged": [name for name in log.placement if name not in graph.index],
        "ambiguous": list(log.ambiguous),
        "eager": log.eager,
        "no_devices": sorted(set(known.values()) - set(assignment.devices)),
        "laws": [],
        "refused": None,
    }
    return replace(scene, check=answer)
