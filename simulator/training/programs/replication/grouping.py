"""Groups over several tasks, as `tf.group` makes them: a NoOp on each device first, then one that waits for these.

    update_w (ps 0) ─┐                     update_w ─▶ update/NoOp   (ps 0) ─┐
    update_b (ps 1) ─┼─▶ update     ─▶     update_b ─▶ update/NoOp_1 (ps 1) ─┴─▶ update
    update_v (ps 1) ─┘                     update_v ─┘

So that one signal comes from each task, and not one per variable (tensorflow/python/ops/control_flow_ops.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.cluster.devicespec import parse
from simulator.graph.graph import Graph
from simulator.training.programs.replication import setter
from simulator.training.programs.replication.copying import draft_of
from simulator.training.programs.replication.setter import PsStrategy
from simulator.training.programs.variables import beside

_ELSEWHERE = "/job:worker"


def grouped(graph: Graph, ps: Sequence[str], *, strategy: PsStrategy, seed: int) -> Graph:
    """The graph with its groups in two levels where what they wait for will stand on several of the tasks `ps`.

    What is added for one of these asks for it; the rest is as the graph has it. Raises as `setter.devices`.
    """
    if len(ps) == 0:
        return graph
    devices = setter.devices(graph, ps=ps, worker=_ELSEWHERE, strategy=strategy, seed=seed)
    jobs = {parse(task).job for task in ps}
    draft = draft_of(graph, graph.requested)
    scoped = setter.scopes(graph)
    for row in range(len(graph)):
        if not setter.is_group(graph, row) or beside(graph, row):
            continue
        own = setter.members(graph, row, scoped)
        waits: dict[str, list[int]] = {}
        for source in own:
            waits.setdefault(devices[source], []).append(source)
        if len(waits) < 2:
            continue
        around = [text for text in draft.inputs[row] if graph.index[text[1:]] not in own]
        draft.inputs[row], draft.devices[row] = list(around), ""
        for device in sorted(waits):
            inputs = [*(f"^{graph.names[source]}" for source in waits[device]), *around]
            home = device if parse(device).job in jobs else ""
            draft.inputs[row].append("^" + draft.add(f"{graph.names[row]}/NoOp", "NoOp", inputs, home, {}))
    return graph if len(draft.names) == len(graph) else draft.built()
