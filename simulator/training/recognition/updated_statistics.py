"""Statistics that a step updates and a model reads, such as ranges of activations and codebooks of vector quantisation.

    examples ─▶ new statistic ─▶ model ─▶ gradient ─▶ update of trained variables

Such a variable is no trained one: its update is no gradient by its old value. It sets the variable, or mixes what
examples say with a share of the old value, where an optimizer adds to that. Each worker writes what its own examples
say, as with moving averages. Of two networks that are trained in turn the first is no statistic, as the gradients of
its weights depend on these weights.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from simulator.graph.dataflow import source_of, sources_of
from simulator.graph.dtypes import base
from simulator.graph.graph import Graph
from simulator.graph.traversal import closure
from simulator.training.recognition.variable_flow import ASSIGNS, SCATTERS, Reach, read_by
from simulator.training.recognition.ways_back import Walk

_ADDING = frozenset(("Add", "AddV2", "AddN", "Sub", "ClipByValue", "Identity"))
_COUNTED = frozenset((3, 4, 5, 6, 7, 9, 10, 17, 22, 23))  # whole numbers, bool and string: no gradient goes through


def updated_statistics(
    graph: Graph,
    writes: Mapping[int, Sequence[int]],
    walks: Mapping[int, Walk],
    used: Collection[int],
    reached: Reach,
) -> frozenset[int]:
    """The used variables that are statistics, and the unused ones from which these alone are made, such as counts.

    `writes` has the writes of each variable, and `walks` the walk behind each write. Without a result, such as a loss,
    nothing tells a statistic from a slot by which an optimizer multiplies.
    """
    found = {
        one
        for one in used
        if reached.has_result(one)
        and all(_sets(graph, one, row, walks[row]) for row in writes[one])
        and _of_examples_alone(graph, one, writes, walks, used)
    }
    for one in writes if found else ():
        served = {other for other in reached.of(one) if other in used}
        if one not in used and served and served <= found:
            found.add(one)
    return frozenset(found)


def _sets(graph: Graph, variable: int, row: int, walk: Walk) -> bool:
    """Tell whether a write sets a variable, or scales what it was, and does not only add to it."""
    if graph.ops[row] not in ASSIGNS:
        return graph.ops[row] not in SCATTERS and variable in walk.reads

    def summands(at: int) -> list[int]:
        return sources_of(graph, at) if graph.ops[at] in _ADDING and read_by(graph, at) < 0 else []

    def factors(at: int) -> list[int]:
        return sources_of(graph, at) if at in walk.nodes else []

    added = closure([source_of(graph, row, 1)], summands)
    scaled = closure([at for at in added if not summands(at) and read_by(graph, at) < 0], factors)
    read, mixed = (any(read_by(graph, at) == variable for at in rows) for rows in (added, scaled))
    return mixed or not read


def _of_examples_alone(
    graph: Graph,
    variable: int,
    writes: Mapping[int, Sequence[int]],
    walks: Mapping[int, Walk],
    used: Collection[int],
) -> bool:
    """Tell whether examples bring something to a variable's update that depends on its value by no way of a gradient.

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
    ends = {int(graph.edge_src[edge]) for row in rows for edge in walks[row].ends}
    return bool(ends) and ends.isdisjoint(reached)
