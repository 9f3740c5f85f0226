"""Statistics that a step updates and a model reads, such as ranges of activations and codebooks of vector quantisation.

    examples ─▶ new statistic ─▶ model ─▶ gradient ─▶ update of trained variables

Such a variable is no trained one: its update is no gradient by its old value. It sets the variable, or mixes what
examples say with a share of the old value, where an optimizer adds to that. Each worker writes what its own examples
say, as with moving averages. Of two networks that are trained in turn the first is no statistic, as the gradients of
its weights depend on these weights.

Where the model reads the old value, and what examples bring goes nowhere else, it can be averaged as gradients are.
Then replicas write what the whole batch says, and the variable counts as trained.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from simulator.columns import Flags
from simulator.graph.dataflow import depending_on, source_of, sources_of
from simulator.graph.dtypes import base, number_of
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, SWITCHES, VARIABLES
from simulator.graph.traversal import closure, fan_out
from simulator.training.recognition.variable_flow import ASSIGNS, SCATTERS, WRITES, Reach, read_by, value_edge
from simulator.training.recognition.ways_back import WayBack

_ADDING = frozenset(("Add", "AddV2", "AddN", "Sub", "ClipByValue", "Identity"))
_WHOLE = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_COUNTED = frozenset(map(number_of, (*_WHOLE, "BOOL", "STRING")))  # no gradient goes through them


def updated_statistics(
    graph: Graph,
    writes: Mapping[int, Sequence[int]],
    walks: Mapping[int, WayBack],
    used: Collection[int],
    reached: Reach,
    live: Flags,
) -> frozenset[int]:
    """The used variables that are statistics, and the unused ones from which these alone are made, such as counts.

    `writes` has the writes of each variable, and `walks` the walk behind each write. Without a result, such as a loss,
    nothing tells a statistic from a slot by which an optimizer multiplies.
    """
    given = {one: [int(graph.edge_src[value_edge(graph, row)]) for row in rows] for one, rows in writes.items()}
    found = set()
    for one in used:
        if reached.has_result(one) and all(_sets(graph, one, row, walks[row]) for row in writes[one]):
            group = _with_slots(one, writes, walks, used)
            ends = {int(graph.edge_src[edge]) for at in group for row in writes[at] for edge in walks[row].ends}
            others = [at for other, rows in given.items() if other not in group for at in rows if live[at]]
            needed = depending_on(graph, [*ends, *_read_anew(graph, one, writes[one])])
            if needed[others].any() and _of_examples_alone(graph, one, group, ends, writes, walks):
                found.add(one)
    for one in writes if found else ():
        served = {other for other in reached.of(one) if other in used}
        if one not in used and served and served <= found:
            found.add(one)
    return frozenset(found)


def _read_anew(graph: Graph, variable: int, rows: Sequence[int]) -> list[int]:
    """The ops behind the writes to a variable that take its new value."""
    found = []
    for row in fan_out(graph, rows):
        source = source_of(graph, row)
        while source >= 0 and graph.ops[source] in ENTERS | SWITCHES:
            source = source_of(graph, source)
        direct = source >= 0 and graph.ops[row] not in WRITES and graph.ops[source] in VARIABLES | WRITES
        if direct and read_by(graph, source) == variable:
            found.append(row)
    return found


def _with_slots(
    variable: int, writes: Mapping[int, Sequence[int]], walks: Mapping[int, WayBack], used: Collection[int]
) -> set[int]:
    """A variable and those that no model uses by way of which examples come to it, such as an optimizer's slots."""

    def read(one: int) -> set[int]:
        reads = set[int]().union(*(walks[row].reads for row in writes[one]))
        return {other for other in reads if other in writes and other not in used}

    return closure([variable], read)


def _sets(graph: Graph, variable: int, row: int, walk: WayBack) -> bool:
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
    group: Collection[int],
    ends: Collection[int],
    writes: Mapping[int, Sequence[int]],
    walks: Mapping[int, WayBack],
) -> bool:
    """Tell whether what examples bring to an update, at these `ends`, depends on the value by no way of a gradient."""
    rows = [row for one in group for row in writes[one]]
    own = set(rows).union(*(walks[row].nodes for row in rows))

    def onward(row: int) -> list[int]:
        edges = [edge for edge in graph.out_edges(row) if graph.edge_tensor[edge] >= 0]
        passing = [edge for edge in edges if base(int(graph.tensor_dtype[graph.edge_tensor[edge]])) not in _COUNTED]
        return [reader for reader in map(int, graph.edge_dst[passing]) if reader not in own]

    return bool(ends) and closure([variable], onward).isdisjoint(ends)
