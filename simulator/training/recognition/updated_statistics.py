"""Statistics that a step updates and then reads, such as ranges of activations and codebooks of vector quantisation.

    examples ─▶ new statistic ─▶ model ─▶ gradient ─▶ update of trained variables

Such a variable is no trained one: the model works with its new value, and its update is no gradient by its old one.
Each worker writes what its own examples say, as with moving averages. Of two networks that are trained in turn the
first is no statistic, as the gradients of its weights depend on these weights.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from simulator.columns import Flags
from simulator.graph.dataflow import depending_on, source_of
from simulator.graph.dtypes import base
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, SWITCHES, VARIABLES
from simulator.graph.traversal import closure, fan_out
from simulator.training.recognition.variable_flow import WRITES, Reach, read_by, value_edge
from simulator.training.recognition.ways_back import Walk

_COUNTED = frozenset((3, 4, 5, 6, 7, 9, 10, 17, 22, 23))  # whole numbers, bool and string: no gradient goes through


def updated_statistics(
    graph: Graph,
    writes: Mapping[int, Sequence[int]],
    walks: Mapping[int, Walk],
    used: Collection[int],
    reached: Reach,
    live: Flags,
) -> frozenset[int]:
    """The used variables that are statistics, and the unused ones from which these alone are made, such as counts.

    `writes` has the writes of each variable, and `walks` the walk behind each write. Without a result, such as a loss,
    nothing tells a statistic from a slot by which an optimizer multiplies. There is none where a network trains first.
    """
    behind = np.zeros(len(graph), np.bool_)
    behind[fan_out(graph, [row for rows in writes.values() for row in rows])] = True
    anew: dict[int, list[int]] = {}  # variable -> reads behind some write
    for row in np.flatnonzero(behind).tolist():
        if (variable := _read_here(graph, row)) in used:
            anew.setdefault(variable, []).append(row)
    given = {one: [int(graph.edge_src[value_edge(graph, row)]) for row in rows] for one, rows in writes.items()}
    found = set()
    for one, reads in anew.items():
        after = set(fan_out(graph, writes[one]))
        later = depending_on(graph, [row for row in reads if row in after])
        needed = any(live[row] and later[row] for other, rows in given.items() if other != one for row in rows)
        if needed and reached.has_result(one):
            if _by_itself(graph, one, writes, walks, used):
                return frozenset()  # of a network's other weights, some gradients depend on no weight, as by a hinge
            found.add(one)
    for one in writes if found else ():
        served = {other for other in reached.of(one) if other in used}
        if one not in used and served and served <= found:
            found.add(one)
    return frozenset(found)


def _read_here(graph: Graph, row: int) -> int:
    """The variable whose value an op takes when it runs; -1: it takes none."""
    source = source_of(graph, row)
    while source >= 0 and graph.ops[source] in ENTERS | SWITCHES:
        source = source_of(graph, source)
    direct = source >= 0 and graph.ops[row] not in WRITES and graph.ops[source] in VARIABLES | WRITES
    return read_by(graph, source) if direct else -1


def _by_itself(
    graph: Graph,
    variable: int,
    writes: Mapping[int, Sequence[int]],
    walks: Mapping[int, Walk],
    used: Collection[int],
) -> bool:
    """Tell whether what examples bring to a variable's update depends on its value, in a way that has a gradient.

    Examples may come to it by way of variables that no model uses, such as an optimizer's slots.
    """

    def read(one: int) -> set[int]:
        reads = set[int]().union(*(walks[row].reads for row in writes[one]))
        return {other for other in reads if other in writes and other not in used}

    rows = [row for one in closure([variable], read) for row in writes[one]]
    own = set(rows).union(*(walks[row].nodes for row in rows))

    def onward(row: int) -> list[int]:
        edges = [edge for edge in graph.out_edges(row) if graph.edge_tensor[edge] >= 0]
        passing = [edge for edge in edges if base(int(graph.tensor_dtype[graph.edge_tensor[edge]])) not in _COUNTED]
        return [reader for reader in map(int, graph.edge_dst[passing]) if reader not in own]

    reached = closure([variable], onward)
    return any(int(graph.edge_src[edge]) in reached for row in rows for edge in walks[row].ends)
