"""Facts of a step that options decide: its batch, the trips of its loops and the ways of its branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import numpy as np

from simulator.graph.op_classes import MERGES, SWITCHES
from simulator.training.recognition.batch import batch_of
from viz import figures
from viz.scene import Scene


class StepFacts(TypedDict):
    """Keys of `step` in docs/json.md."""

    batch: int | None  # None: the graph does not say
    trips: Mapping[str, int]  # condition of a loop -> how often its body ran, each time that the loop was entered
    branches: Mapping[str, str]  # predicate -> "true", "false", or "both" in different iterations


def step_facts(scene: Scene) -> StepFacts:
    """The facts of a scene's step, as it was simulated."""
    return {
        "batch": batch_of(scene.graph, scene.step, ())[1] or None,
        "trips": _trips(scene),
        "branches": _branches(scene),
    }


def _trips(scene: Scene) -> Mapping[str, int]:
    """By node: a condition is looked at once more than the body runs, so its last iteration is their number."""
    graph, trace = scene.graph, scene.trace
    nodes = figures.slice_nodes(scene)
    found: dict[str, int] = {}
    conditions = np.array([op == "LoopCond" for op in graph.ops], bool)
    for row in np.flatnonzero(conditions[nodes]).tolist():
        name, tag = graph.names[nodes[row]], trace.iterations[trace.ops.iteration[row]]
        found[name] = max(found.get(name, 0), tag[-1] if tag else 0)
    return found


def _branches(scene: Scene) -> Mapping[str, str]:
    """By predicate, as far as something of a branch ran that is no Merge; those of loops are left out."""
    graph = scene.graph
    ran = np.zeros(len(graph), bool)
    ran[figures.slice_nodes(scene)] = True
    switches = np.array([op in SWITCHES for op in graph.ops], bool)
    merges = np.array([op in MERGES for op in graph.ops], bool)
    taken: dict[str, set[bool]] = {}
    for edge in np.flatnonzero(switches[graph.edge_src] & ~merges[graph.edge_dst] & (graph.edge_tensor >= 0)).tolist():
        switch, tensor = int(graph.edge_src[edge]), int(graph.edge_tensor[edge])
        predicate = graph.node(graph.names[switch]).inputs[1]
        if not ran[graph.edge_dst[edge]] or graph.ops[graph.row(predicate.partition(":")[0])] == "LoopCond":
            continue
        taken.setdefault(predicate, set()).add(bool(graph.tensor_port[tensor]))
    return {name: "both" if len(ways) > 1 else str(ways == {True}).lower() for name, ways in taken.items()}
