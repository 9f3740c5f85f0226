"""Updates made of plain ops, as Keras's optimizers and people write them: their variables, slots and gradients.

    gradient ─┬─▶ m += (g - m) * a ─▶ m ─┐
              └─▶ v += (g² - v) * b ─▶ v ─┴─▶ w -= rate * m / √v          w is trained, m and v are its slots

Such an optimizer works element by element, on the variable, its slots and the gradient. The backward pass before it
ends in a sum over the batch. A variable is trained if an op outside its update, which depends on examples, reads it.
No such op reads a slot, nor a moving average while it is kept.

Rows of a table come with their numbers, and what adds to some rows is an update of plain ops if there are slots:

    rows ──┬─▶ square ─▶ rows of v += square ─▶ v ─┐
           └──────────────────────────────────────┴─▶ rows of w -= rate * row / √v
    numbers ─▶ both
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from simulator.columns import Flags
from simulator.graph.dataflow import depending_on, source_of, sources_of, values_in
from simulator.graph.graph import Graph
from simulator.graph.op_classes import SWITCHES
from simulator.graph.traversal import closure
from simulator.training.recognition.updated_statistics import updated_statistics
from simulator.training.recognition.variable_flow import (
    ASSIGNS,
    FARTHEST,
    SCATTERS,
    SUMS_OF_ROWS,
    WRITES,
    Reach,
    is_used,
    on_examples,
    reach_of,
    read_by,
    value_edge,
    written_by,
)
from simulator.training.recognition.variables import is_whole
from simulator.training.recognition.ways_back import WayBack, through_any, through_rows, walk_back


@dataclass(frozen=True, slots=True)
class PlainUpdate:
    """The update of one trained variable; rows of nodes."""

    variable: int
    values: tuple[int, ...]  # edges by which examples come to it: all read one tensor, the gradient
    indices: tuple[int, ...]  # those that read the numbers of its rows; none: it is dense
    slots: tuple[int, ...]  # variables that only this update reads and writes, ascending
    nodes: tuple[int, ...]  # between gradient and variable, with all that writes to it or to slots, ascending


def plain_updates(graph: Graph, runs: Sequence[int], *, alone: bool = True) -> tuple[PlainUpdate, ...]:
    """The updates of plain ops among the nodes that run, in order of their variables.

    Where no variable is used outside its update, each counts that takes examples, if these updates are `alone`: if the
    graph has no others.
    """
    live = on_examples(graph)
    walks = _changes(graph, runs, live)
    writes: dict[int, list[int]] = {}
    for row in walks:
        writes.setdefault(written_by(graph, row), []).append(row)
    reached = reach_of(graph, writes, live)
    used = _used(graph, writes, walks, reached, live)
    statistics = updated_statistics(graph, writes, walks, used, reached, live)
    if statistics:
        writes = {variable: rows for variable, rows in writes.items() if variable not in statistics}
        walks = {row: walk for row, walk in walks.items() if written_by(graph, row) in writes}
        reached, used = reach_of(graph, writes, live), used - statistics
    trained = sorted(used or (writes if alone else ()))
    behind = _behind(writes, walks, reached, trained, used, live)
    times = Counter(one for group in behind.values() for one in group)
    slots = {variable: {one for one in group if times[one] == 1} for variable, group in behind.items()}
    rows = {one: [row for other in (one, *sorted(group)) for row in writes[other]] for one, group in behind.items()}
    # a gradient is of the model: it depends on what is trained, and on no slot
    of_model = depending_on(graph, trained) & ~depending_on(graph, set().union(*slots.values()))
    made = {one: _updates(graph, one, tuple(sorted(slots[one])), rows[one], live, of_model) for one in trained}
    several = {one: updates for one, updates in made.items() if len(updates) > 1}
    made.update(_together(graph, several, rows, live, of_model))
    resets: dict[int, list[int]] = {}  # by their variable
    for row in runs:
        if graph.ops[row] in ASSIGNS and row not in walks and not live[row]:
            resets.setdefault(written_by(graph, row), []).append(row)
    still = depending_on(graph, writes) & ~live
    found = []
    for variable, updates in made.items():
        anew = [row for slot in slots[variable] for row in resets.get(slot, ())]
        beside = _behind_rows(graph, anew, ~live).union(anew)
        for one in updates:
            nodes = beside.union(one.nodes, _behind_rows(graph, one.nodes, still))
            found.append(replace(one, nodes=tuple(sorted(nodes))))
    return tuple(found)


def _changes(graph: Graph, runs: Sequence[int], live: Flags) -> dict[int, WayBack]:
    """The ops that add to a variable of numbers, or make its value from such values, with the walk behind each."""
    given = [row for row in runs if graph.ops[row] in WRITES and source_of(graph, row, 1) >= 0]
    writes = {row: written_by(graph, row) for row in given}
    writes = {row: variable for row, variable in writes.items() if variable >= 0 and not is_whole(graph, variable)}
    changing = set(writes.values())

    def changes(row: int) -> bool:
        own = walk_back(graph, [value_edge(graph, row)], live, further=FARTHEST) if graph.ops[row] in ASSIGNS else None
        return own is None or not changing.isdisjoint(own.reads)

    return {row: walk_back(graph, [value_edge(graph, row)], live) for row in writes if changes(row)}


def _used(
    graph: Graph, writes: Mapping[int, list[int]], walks: Mapping[int, WayBack], reached: Reach, live: Flags
) -> frozenset[int]:
    """The written variables that the model uses, and no slot of products, such as Muon's.

    Such a slot changes what others reach results by, and no result itself.
    """
    inside = set().union(*(walk.nodes for walk in walks.values())).union(walks)
    used = frozenset(variable for variable in writes if is_used(graph, variable, inside, live))
    with_result = frozenset(filter(reached.has_result, used))
    served = reached.served(used - with_result, with_result)
    return frozenset(one for one in used if not served.get(one))


def _behind(
    writes: Mapping[int, list[int]],
    walks: Mapping[int, WayBack],
    reached: Reach,
    trained: Collection[int],
    used: Collection[int],
    live: Flags,
) -> dict[int, set[int]]:
    """The other variables of the update of each trained one: those that it reads, those that these read, and averages.

    What reaches a variable by products, and serves one trained variable alone, counts as read. An average is written
    without examples, and from this variable alone.
    """
    reads = {variable: set[int]().union(*(walks[row].reads for row in rows)) for variable, rows in writes.items()}
    for slot, served in reached.served(writes, trained).items():
        for other in reached.of(slot) if len(served) == 1 else ():
            reads[other].add(slot)

    def read(variable: int) -> list[int]:
        return [one for one in reads[variable] if one in writes and one not in used]

    behind = {variable: closure([variable], read) - {variable} for variable in trained}
    averages = [one for one in writes if one not in used and not live[writes[one]].any()]
    for average, sources in reached.sources(averages).items():
        if len(sources) == 1 and sources[0] in behind:
            behind[sources[0]].add(average)
    return behind


def _updates(
    graph: Graph, variable: int, slots: tuple[int, ...], rows: Sequence[int], live: Flags, of_model: Flags
) -> list[PlainUpdate]:
    """The update made of these writes: it begins at the last tensor through which alone examples come to them.

    This tensor may lie before rows are summed, or before reductions of whole rows and columns. If it has the variable's
    shape, it may lie before any ops. Rows and their numbers are two such tensors. Where there is none, each write is an
    update by itself, and the written value is the gradient. What only adds to some rows says by itself what it adds.
    """
    edges = {row: value_edge(graph, row) for row in rows}
    numbers = [value_edge(graph, row) - 1 for row in rows if graph.ops[row] in SCATTERS]
    fed = [row for row in rows if walk_back(graph, [edges[row]], live).ends]
    cut: WayBack | None = None
    for further in range(FARTHEST + 1) if fed and not numbers else ():
        cuts = _cuts(graph, edges[fed[0]], list(edges.values()), live, further=further)
        cut = min(cuts, key=lambda walk: (_is_sum(graph, walk), len(walk.nodes), min(walk.stopped)), default=cut)
        if cut is not None and not _is_sum(graph, cut):
            break
    if cut is None and slots:
        every = [*edges.values(), *numbers]
        cut = through_any(graph, variable, every, live, of_model)
        cut = cut or through_rows(graph, variable, every, live, of_model)
    if cut is not None:
        nodes = tuple(sorted(cut.nodes.union(rows)))
        return [PlainUpdate(variable, tuple(sorted(cut.stopped)), tuple(sorted(cut.indices)), slots, nodes)]
    if numbers:
        return []
    if len(fed) == 1:
        return [PlainUpdate(variable, (edges[fed[0]],), (), slots, tuple(sorted(rows)))]
    return [one for row in fed for one in _updates(graph, variable, slots, [row], live, of_model)]


def _is_sum(graph: Graph, walk: WayBack) -> bool:
    """Tell whether a walk ends at a gradient that is made dense, such as for a momentum: its rows come before that."""
    return graph.ops[graph.edge_src[min(walk.stopped)]] in SUMS_OF_ROWS


def _cuts(graph: Graph, first: int, edges: Sequence[int], live: Flags, *, further: int) -> list[WayBack]:
    """The walks back from all the edges that end at one tensor behind the first of them, and at nothing else.

    Such a tensor depends on examples but on no written variable, so it is no new value of a variable.
    """
    written = {written_by(graph, int(graph.edge_dst[edge])) for edge in edges}
    inside = walk_back(graph, [first], live, further=further).nodes
    into = [first, *(edge for row in inside for edge in graph.in_edges(row))]
    carried = {int(graph.edge_tensor[edge]): edge for edge in into if graph.edge_tensor[edge] >= 0}
    walks = [
        walk_back(graph, edges, live, tensor, further=further)
        for tensor, edge in sorted(carried.items())
        if live[graph.tensor_node[tensor]] and written.isdisjoint(walk_back(graph, [edge], live).reads)
    ]
    numbered = [walk for walk in walks if len({int(graph.edge_tensor[edge]) for edge in walk.indices}) <= 1]
    return [walk for walk in numbered if not walk.ends]


def _behind_rows(graph: Graph, rows: Iterable[int], among: Flags) -> set[int]:
    """The nodes behind some, up to variables, as far as they are `among` others."""

    def makers(row: int) -> list[int]:
        return [at for at in sources_of(graph, row) if among[at] and read_by(graph, at) < 0]

    return closure([at for row in rows for at in makers(row)], makers)


def _together(
    graph: Graph,
    apart: Mapping[int, Sequence[PlainUpdate]],
    rows: Mapping[int, Sequence[int]],
    live: Flags,
    of_model: Flags,
) -> dict[int, list[PlainUpdate]]:
    """The updates of variables that no tensor parts alone, if a tensor of each does so for all; {} otherwise.

    Such are sums of gradients that are clipped by the norm of all. The tensor of a variable is one at which a part of
    its update begins, and which is `of_model`.
    """
    cut: dict[int, int] = {}  # tensor -> variable
    for variable, updates in apart.items():
        begins = [one.values[0] for one in updates if of_model[graph.edge_src[one.values[0]]]]
        if not begins:
            return {}
        cut[_origin(graph, begins[0])] = variable
    into = {variable: [value_edge(graph, row) for row in rows[variable] if live[row]] for variable in apart}

    def makers(edges: Iterable[int]) -> list[int]:
        return [
            int(graph.edge_src[at]) for at in edges if graph.edge_tensor[at] >= 0 and graph.edge_tensor[at] not in cut
        ]

    inside = closure(
        [row for edges in into.values() for row in makers(edges) if live[row]],
        lambda row: [at for at in makers(graph.in_edges(row)) if live[at]],
    )
    if len(cut) < len(apart) or any(not sources_of(graph, row) for row in inside):
        return {}
    of: dict[int, set[int]] = {}  # node -> the variables on whose tensors it depends
    for row in sorted(inside, key=np.argsort(graph.topological).tolist().__getitem__):
        tensors = [int(graph.edge_tensor[edge]) for edge in values_in(graph, row)]
        before = [{cut[at]} if at in cut else of.get(int(graph.tensor_node[at]), set()) for at in tensors]
        of[row] = set().union(*before)
    found, alone, ends = {}, dict[int, list[int]](), dict[int, set[int]]()
    for row in inside:
        if len(of[row]) == 1:
            (variable,) = of[row]
            alone.setdefault(variable, []).append(row)
    for edge in (*chain(*into.values()), *chain(*map(graph.in_edges, inside))):
        ends.setdefault(int(graph.edge_tensor[edge]), set()).add(edge)
    for tensor, variable in cut.items():
        near = walk_back(graph, into[variable], live, tensor).nodes
        nodes = near.union(rows[variable], alone.get(variable, ()))
        values = tuple(sorted(ends.get(tensor, ())))
        found[variable] = [PlainUpdate(variable, values, (), apart[variable][0].slots, tuple(sorted(nodes)))]
    return found


def _origin(graph: Graph, edge: int) -> int:
    """The tensor that an edge carries, before what hands it on, such as the Switch of a branch."""
    while graph.ops[graph.edge_src[edge]] in SWITCHES | {"Identity"}:
        edge = int(graph.in_ptr[graph.edge_src[edge]])
    return int(graph.edge_tensor[edge])
