"""The box that shows a variable or a constant: that of the first node that reads it.

    weights ──▶ weights/read ──▶ Conv2D          Conv2D
                                      │     →    weights [3, 3, 64, 64]
    Reshape/shape ──▶ Reshape ◀───────┘            └──▶ Reshape

Half of the nodes of a training only hold a value or hand it on. As boxes of their own they would hide the computation.
A value that crosses to another device stays a box: its transfer is an edge to be seen.
"""

from __future__ import annotations

import numpy as np

from simulator.columns import Ids, ids
from viz import figures
from viz.scene import Scene

VARIABLES = frozenset(("Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable"))
CONSTANTS = frozenset(("Const", "HostConst", "_EagerConst"))
READS = frozenset(("ReadVariableOp", "Identity"))


def hosts(scene: Scene) -> Ids:
    """[N] node in whose box a node is shown, -1 for a node with a box of its own.

    Of several readers the first in topological order is the host. Variables, constants and their reads have a host if
    they run, and if no edge of theirs crosses devices. The host of a read is also that of its variable.
    """
    graph = scene.graph
    part = figures.taking_part(scene)
    joins = part[graph.edge_src] & part[graph.edge_dst] & (graph.edge_tensor >= 0) & ~graph.edge_back
    inputs: list[list[int]] = [[] for _ in range(len(graph))]
    readers: list[list[int]] = [[] for _ in range(len(graph))]
    for src, dst in zip(graph.edge_src[joins].tolist(), graph.edge_dst[joins].tolist(), strict=True):
        inputs[dst].append(src)
        readers[src].append(dst)
    crosses = np.zeros(len(graph), bool)
    crosses[graph.edge_src[figures.pair_of_edges(scene) >= 0]] = True
    candidate = part & ~crosses
    candidate[figures.fed_nodes(scene)] = False
    order = graph.topological.tolist()
    holds = [False] * len(graph)
    for node in order:
        if candidate[node] and readers[node]:
            before, op = inputs[node], graph.ops[node]
            holds[node] = (op in VARIABLES or op in CONSTANTS) if not before else op in READS and holds[before[0]]
    place = {node: at for at, node in enumerate(order)}
    host = [-1] * len(graph)
    for node in reversed(order):
        if holds[node]:
            first = min(readers[node], key=place.__getitem__)
            host[node] = first if host[first] < 0 else host[first]
    return ids(host)
