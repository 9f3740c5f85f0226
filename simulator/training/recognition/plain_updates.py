"""Updates made of plain ops, as Keras's optimizers and people write them: their variables, slots and gradients.

    gradient ─┬─▶ m += (g - m) * a ─▶ m ─┐
              └─▶ v += (g² - v) * b ─▶ v ─┴─▶ w -= rate * m / √v          w is trained, m and v are its slots

Such an optimizer works element by element, on the variable, its slots and the gradient. The backward pass before it
ends in a sum over the batch. A variable is trained if an op outside its update, which depends on examples, reads it.
No such op reads a slot, nor a moving average while it is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import chain

import numpy as np

from simulator.columns import Flags
from simulator.graph.dataflow import depending_on, readers, source_of, sources_of, values_in
from simulator.graph.dtypes import base
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, MERGES, SWITCHES, VARIABLES
from simulator.graph.purposes import SAVES
from simulator.graph.traversal import closure
from simulator.partitioning.partitions import SENDS
from simulator.training.recognition.variables import is_whole, variable_of, variable_shape

ADDS = frozenset(("AssignAdd", "AssignAddVariableOp"))
ASSIGNS = frozenset(("Assign", "AssignVariableOp"))
_WRITES = frozenset(("AssignSub", "AssignSubVariableOp")) | ADDS | ASSIGNS
_BY_ELEMENT = frozenset(
    """
    Abs Add AddV2 Cast CheckNumerics ClipByValue Div DivNoNan Exp Identity Log Maximum Minimum Mul MulNoNan Neg Pow
    RealDiv Reciprocal Rsqrt Select SelectV2 Sigmoid Sign Sqrt Square SquaredDifference StopGradient Sub Tanh ZerosLike
    Greater GreaterEqual Less LessEqual LogicalAnd LogicalNot LogicalOr OnesLike Xdivy
    """.split()  # noqa: SIM905  # a list of quoted names would be twice as long
)
SUMS_OF_ROWS = frozenset(("UnsortedSegmentSum", "UnsortedSegmentSumV2"))  # these make sparse gradients dense
_REDUCTIONS = frozenset(("Mean", "Sum", "Max", "ExpandDims", "Reshape", "BroadcastTo"))  # such as Adafactor's
_REAL = frozenset((1, 2, 14, 19))  # float, double, bfloat16, half
_FARTHEST = 2  # by element; through sums of rows, too; through reductions, too
# A variable's value passes through these ops; an assignment hands out the variable.
_READS = ENTERS | SWITCHES | _WRITES | {"Identity", "RefIdentity", "ReadVariableOp"}


@dataclass(frozen=True, slots=True)
class PlainUpdate:
    """The update of one trained variable; rows of nodes."""

    variable: int
    values: tuple[int, ...]  # edges by which examples come to it: all read one tensor, the gradient
    indices: tuple[int, ...]  # those that read the numbers of its rows; none: it is dense
    slots: tuple[int, ...]  # variables that only this update reads and writes, ascending
    nodes: tuple[int, ...]  # between gradient and variable, with all that writes to it or to slots, ascending


@dataclass(slots=True)
class _Walk:
    """The nodes and variables behind some edges, as far as ops work element by element."""

    nodes: set[int] = field(default_factory=set)
    reads: set[int] = field(default_factory=set)  # variables
    ends: set[int] = field(default_factory=set)  # edges that bring values of examples
    stopped: set[int] = field(default_factory=set)  # edges that carry the tensor at which the walk was to stop
    indices: set[int] = field(default_factory=set)  # edges that number the rows of sums by row


@dataclass(frozen=True, slots=True)
class _Reached:
    """The written variables whose new values depend on the value of each, as bits: there are many of many."""

    order: tuple[int, ...]  # of the bits; the first, -1, is a result
    bits: Mapping[int, int]

    def has_result(self, variable: int) -> bool:
        return bool(self.bits[variable] & 1)

    def of(self, variable: int) -> list[int]:
        """The variables that a variable reaches."""
        return [self.order[place] for place in _places(self.bits[variable]) if place]

    def sources(self, variable: int) -> set[int]:
        """The other variables that reach a variable."""
        bit = 1 << self.order.index(variable)
        return {one for one, reached in self.bits.items() if reached & bit} - {variable}

    def served(self, variables: Collection[int], trained: Collection[int]) -> dict[int, list[int]]:
        """The trained variables that each reaches by itself or by way of others, such as slots.

        Where there are several, some of them are enough.
        """
        kept = set(trained)
        ends = sum(1 << place for place, one in enumerate(self.order) if one in kept)
        found = {}
        for place, variable in enumerate(self.order):
            if variable in variables:
                goal, seen = ends & ~(1 << place), self.bits[variable]
                pending = seen & ~ends & ~1
                while pending and (seen & goal).bit_count() < 2:
                    last = pending.bit_length() - 1
                    new = self.bits[self.order[last]] & ~seen
                    seen, pending = seen | new, (pending | new & ~ends & ~1) & ~(1 << last)
                found[variable] = [self.order[at] for at in _places(seen & goal)]
        return found


def _places(bits: int) -> list[int]:
    """The places of the ones, ascending."""
    return [place for place, digit in enumerate(reversed(f"{bits:b}")) if digit == "1"]


def plain_updates(graph: Graph, runs: Sequence[int], *, alone: bool = True) -> tuple[PlainUpdate, ...]:
    """The updates of plain ops among the nodes that run, in order of their variables.

    Where no variable is used outside its update, each counts that takes examples, if these updates are `alone`: if the
    graph has no others.
    """
    live = on_examples(graph)
    walks = _changes(graph, runs, live)
    writes: dict[int, list[int]] = {}
    for row in walks:
        writes.setdefault(_written(graph, row), []).append(row)
    inside = set().union(*(walk.nodes for walk in walks.values())).union(walks)
    reached = _reached(graph, writes, live)
    used = [variable for variable in writes if _is_used(graph, variable, inside, live)]
    with_result = [variable for variable in used if reached.has_result(variable)]
    # a slot of products, such as Muon's, changes what others reach results by, and no result
    served = reached.served(set(used).difference(with_result), with_result)
    used = [one for one in used if not served.get(one)]
    trained = used or (list(writes) if alone else [])
    resets = [row for row in runs if graph.ops[row] in ASSIGNS and row not in walks and not live[row]]
    by: dict[int, list[int]] = {}  # variable -> those that serve one trained variable alone, and reach it
    for slot, served_ones in reached.served(writes, trained).items():
        for other in reached.of(slot) if len(served_ones) == 1 else ():
            by.setdefault(other, []).append(slot)
    reads = {row: walks[row].reads.union(by.get(variable, ())) for variable, rows in writes.items() for row in rows}
    behind = {variable: _behind(variable, writes, reads, used) for variable in trained}
    for average in [one for one in writes if one not in used and not live[writes[one]].any()]:
        sources = reached.sources(average)
        if len(sources) == 1 and sources <= behind.keys():
            behind[sources.pop()].add(average)
    times = Counter(one for group in behind.values() for one in group)
    slots = {variable: {one for one in group if times[one] == 1} for variable, group in behind.items()}
    of_model = depending_on(graph, trained) & ~depending_on(graph, set().union(*slots.values()))
    still = depending_on(graph, writes) & ~live
    rows = {
        variable: [row for one in (variable, *sorted(group)) for row in writes[one]]
        for variable, group in behind.items()
    }
    made = {  # a gradient is of the model: it depends on what is trained, and on no slot
        variable: _updates(graph, variable, tuple(sorted(slots[variable])), rows[variable], live, of_model)
        for variable in sorted(trained)
    }
    made.update(
        _together(graph, {one: updates for one, updates in made.items() if len(updates) > 1}, rows, live, of_model)
    )
    found = []
    for variable, updates in made.items():
        anew = [row for row in resets if _written(graph, row) in slots[variable]]
        beside = _behind_rows(graph, anew, ~live).union(anew)
        for one in updates:
            nodes = beside.union(one.nodes, _behind_rows(graph, one.nodes, still))
            found.append(replace(one, nodes=tuple(sorted(nodes))))
    return tuple(found)


def mixing(graph: Graph) -> list[int]:
    """The nodes that hand on at once what was made from several variables, and lead to updates, such as gradients.

    What loops hand on leads to none by ops that work element by element.
    """
    given = [row for row, op in enumerate(graph.ops) if op == "IdentityN" and _leads_to_updates(graph, row)]
    live, found = on_examples(graph), []
    for row in given:
        reads = [frozenset(_walk(graph, [edge], live).reads) for edge in values_in(graph, row)]
        if len(set(reads)) > 1:
            found.append(row)
    return found


def _leads_to_updates(graph: Graph, row: int) -> bool:
    handing = _BY_ELEMENT | SWITCHES
    reached = closure(readers(graph, row), lambda at: readers(graph, at) if graph.ops[at] in handing else ())
    return any(graph.ops[at] in _WRITES for at in reached)


def adds_a_constant(graph: Graph, row: int) -> bool:
    """Tell whether an op assigns to a variable its own value and something more that depends on no example."""
    if graph.ops[row] not in ASSIGNS or source_of(graph, row, 1) < 0:
        return False
    walk = _walk(graph, [_value(graph, row)], on_examples(graph))
    return not walk.ends and walk.reads == {_written(graph, row)} and bool(walk.nodes)


def on_examples(graph: Graph) -> Flags:
    """[N] whether a node's value depends on examples: on more than constants and variables."""
    return depending_on(graph, origins_of_examples(graph))


def origins_of_examples(graph: Graph) -> list[int]:
    """The nodes that read no value and are neither constant nor variable, such as placeholders and dequeues."""
    reads = np.bincount(graph.edge_dst[graph.edge_tensor >= 0], minlength=len(graph)).tolist()
    return [row for row, op in enumerate(graph.ops) if not reads[row] and op not in VARIABLES and op != "Const"]


def _written(graph: Graph, row: int) -> int:
    variable = variable_of(graph, row)
    return -1 if variable is None else variable


def _read(graph: Graph, row: int) -> int:
    """The variable whose value a node hands out; -1: there is none."""
    while row >= 0 and graph.ops[row] in _READS:
        row = source_of(graph, row)
    return row if row >= 0 and graph.ops[row] in VARIABLES else -1


def _changes(graph: Graph, runs: Sequence[int], live: Flags) -> dict[int, _Walk]:
    """The ops that add to a variable of numbers, or make its value from such values, with the walk behind each."""
    given = [row for row in runs if graph.ops[row] in _WRITES and source_of(graph, row, 1) >= 0]
    writes = {row: _written(graph, row) for row in given}
    writes = {row: variable for row, variable in writes.items() if variable >= 0 and not is_whole(graph, variable)}
    changing = set(writes.values())
    own = {row: _walk(graph, [_value(graph, row)], live, further=_FARTHEST).reads for row in writes}
    return {
        row: _walk(graph, [_value(graph, row)], live)
        for row in writes
        if graph.ops[row] not in ASSIGNS or not changing.isdisjoint(own[row])
    }


def _value(graph: Graph, row: int) -> int:
    """The edge of the written value."""
    return int(graph.in_ptr[row]) + 1


def _walk(graph: Graph, edges: Sequence[int], live: Flags, stop: int = -1, *, further: int = 0) -> _Walk:
    """Walk back from the edges by ops that work element by element, or `further`; not beyond the tensor `stop`."""
    walk, pending = _Walk(), list(edges)
    while pending:
        edge = pending.pop()
        row, tensor = int(graph.edge_src[edge]), int(graph.edge_tensor[edge])
        if tensor < 0:
            continue
        variable = _read(graph, row)
        if tensor == stop:
            walk.stopped.add(edge)
        elif variable >= 0:
            walk.reads.add(variable)
        elif graph.ops[row] in SWITCHES:
            walk.nodes.add(row)
            pending.append(int(graph.in_ptr[row]))
        elif further and graph.ops[row] in SUMS_OF_ROWS:
            walk.nodes.add(row)
            walk.indices.add(int(graph.in_ptr[row]) + 1)
            pending.append(int(graph.in_ptr[row]))
        elif graph.ops[row] == "IdentityN":
            pending.append(int(graph.in_ptr[row]) + int(graph.tensor_port[tensor]))
        elif graph.ops[row] not in _BY_ELEMENT and not (further == _FARTHEST and graph.ops[row] in _REDUCTIONS):
            if live[row]:
                walk.ends.add(edge)
        elif row not in walk.nodes:
            walk.nodes.add(row)
            pending += graph.in_edges(row)
    return walk


def _is_used(graph: Graph, variable: int, inside: Collection[int], live: Flags) -> bool:
    """Tell whether an op outside the updates uses the variable's value with examples, or sends it to another device.

    A checkpoint, whose path is fed, uses no examples.
    """
    pending, seen = [variable], {variable}
    while pending:
        row = pending.pop()
        for edge in graph.out_edges(row):
            reader = int(graph.edge_dst[edge])
            if graph.edge_tensor[edge] < 0 or reader in inside or reader in seen or graph.ops[reader] in _WRITES:
                continue
            if SAVES.fullmatch(graph.ops[reader]):
                continue
            if live[reader] or graph.ops[reader] in SENDS:
                return True
            seen.add(reader)
            pending.append(reader)
    return False


def _reached(graph: Graph, writes: Mapping[int, list[int]], live: Flags) -> _Reached:
    """The written variables that each one reaches; a result is any other value, such as a loss."""
    bit = {variable: 1 << place for place, variable in enumerate((-1, *writes))}
    given = {_value(graph, row): bit[variable] for variable, rows in writes.items() for row in rows}
    reader, carries = graph.edge_dst.tolist(), (graph.edge_tensor >= 0).tolist()
    for row, op in enumerate(graph.ops):
        if op in SWITCHES:
            carries[int(graph.in_ptr[row]) + 1] = False  # a predicate says where a value goes, not what it is
    out = [[edge for edge in graph.out_edges(row) if carries[edge]] for row in range(len(graph))]
    is_end = [bool(live[row]) and not out[row] and _is_result(graph, row) for row in range(len(graph))]
    found = [bit[-1] if end else 0 for end in is_end]
    again = True
    while again:  # a loop's values go round
        again = False
        for row in reversed(graph.topological.tolist()):
            mask = found[row]
            for edge in out[row]:
                mask |= found[reader[edge]] | given.get(edge, 0)
            again |= mask != found[row] and graph.ops[row] in MERGES
            found[row] = mask
    return _Reached(tuple(bit), {variable: found[variable] for variable in writes})


def _is_result(graph: Graph, row: int) -> bool:
    """Tell whether a node without readers hands out real numbers, as a loss, and is no Identity that was left over."""
    first, last = int(graph.tensor_ptr[row]), int(graph.in_ptr[row + 1])
    # a function's results wait for its updates
    left = graph.ops[row] == "Identity" and graph.edge_tensor[last - 1] >= 0
    return first < graph.tensor_ptr[row + 1] and base(int(graph.tensor_dtype[first])) in _REAL and not left


def _behind(
    variable: int, writes: Mapping[int, list[int]], reads: Mapping[int, set[int]], used: Collection[int]
) -> set[int]:
    """The variables that a variable's update reads, and theirs in turn, if written and not trained themselves."""
    return closure(
        [variable],
        lambda at: [one for row in writes[at] for one in reads[row] if one in writes and one not in used],
    ) - {variable}


def _updates(
    graph: Graph, variable: int, slots: tuple[int, ...], rows: Sequence[int], live: Flags, of_model: Flags
) -> list[PlainUpdate]:
    """The update made of these writes: it begins at the last tensor through which alone examples come to them.

    This tensor may lie before rows are summed, before reductions of whole rows and columns, or, if it has the
    variable's shape, before any ops. Where there is none, each write is an update by itself, and the written value is
    the gradient.
    """
    edges = {row: _value(graph, row) for row in rows}
    fed = [row for row in rows if _walk(graph, [edges[row]], live).ends]
    cut: _Walk | None = None
    for further in range(_FARTHEST + 1) if fed else ():
        cuts = _cuts(graph, edges[fed[0]], list(edges.values()), live, further=further)
        cut = min(cuts, key=lambda walk: (_is_sum(graph, walk), len(walk.nodes), min(walk.stopped)), default=cut)
        if cut is not None and not _is_sum(graph, cut):
            break
    if cut is not None:
        nodes = tuple(sorted(cut.nodes.union(rows)))
        return [PlainUpdate(variable, tuple(sorted(cut.stopped)), tuple(sorted(cut.indices)), slots, nodes)]
    through = _through_any(graph, variable, list(edges.values()), live, of_model) if slots else None
    if through is not None:
        nodes = tuple(sorted(through.nodes.union(rows)))
        return [PlainUpdate(variable, tuple(sorted(through.stopped)), (), slots, nodes)]
    if len(fed) == 1:
        return [PlainUpdate(variable, (edges[fed[0]],), (), slots, tuple(sorted(rows)))]
    return [one for row in fed for one in _updates(graph, variable, slots, [row], live, of_model)]


def _is_sum(graph: Graph, walk: _Walk) -> bool:
    """Tell whether a walk ends at a gradient that is made dense, such as for a momentum: its rows come before that."""
    return graph.ops[graph.edge_src[min(walk.stopped)]] in SUMS_OF_ROWS


def _cuts(graph: Graph, first: int, edges: Sequence[int], live: Flags, *, further: int) -> list[_Walk]:
    """The walks back from all the edges that end at one tensor behind the first of them, and at nothing else.

    Such a tensor depends on examples but on no written variable, so it is no new value of a variable.
    """
    written = {_written(graph, int(graph.edge_dst[edge])) for edge in edges}
    inside = _walk(graph, [first], live, further=further).nodes
    into = [first, *(edge for row in inside for edge in graph.in_edges(row))]
    carried = {int(graph.edge_tensor[edge]): edge for edge in into if graph.edge_tensor[edge] >= 0}
    walks = [
        _walk(graph, edges, live, tensor, further=further)
        for tensor, edge in sorted(carried.items())
        if live[graph.tensor_node[tensor]] and written.isdisjoint(_walk(graph, [edge], live).reads)
    ]
    numbered = [walk for walk in walks if len({int(graph.edge_tensor[edge]) for edge in walk.indices}) <= 1]
    return [walk for walk in numbered if not walk.ends]


def _behind_rows(graph: Graph, rows: Iterable[int], among: Flags) -> set[int]:
    """The nodes behind some, up to variables, as far as they are `among` others."""

    def makers(row: int) -> list[int]:
        return [at for at in sources_of(graph, row) if among[at] and _read(graph, at) < 0]

    return closure([at for row in rows for at in makers(row)], makers)


def _through_any(graph: Graph, variable: int, edges: Sequence[int], live: Flags, of_model: Flags) -> _Walk | None:
    """The walk back from all the edges, through any ops, to the last tensor of the variable's shape that is `of_model`.

    Ops are left in reverse order. All that examples bring to the edges comes through a tensor if, when its op is next,
    no other tensor is open: what lies on these ways comes either before the tensor or after it. Behind a loop there is
    none.
    """
    shape = variable_shape(graph, variable)
    place = np.empty(len(graph), np.int64)
    place[graph.topological] = np.arange(len(graph))
    walk, heap, open_ = _Walk(), list[tuple[int, int]](), dict[int, set[int]]()  # of a tensor, the edges that carry it

    def enter(edge: int) -> None:
        tensor, row = int(graph.edge_tensor[edge]), int(graph.edge_src[edge])
        if tensor >= 0 and live[row]:
            if tensor not in open_:
                heappush(heap, (-int(place[row]), tensor))
            open_.setdefault(tensor, set()).add(edge)

    for edge in edges:
        enter(edge)
    while heap:
        _, tensor = heappop(heap)
        row, carried = int(graph.tensor_node[tensor]), open_.pop(tensor)
        if not open_ and of_model[row] and graph.tensor_shape[tensor] in (shape, None):
            walk.stopped = carried
            return walk
        walk.nodes.add(row)
        first, last = int(graph.in_ptr[row]), int(graph.in_ptr[row + 1])
        for edge in range(first, first + 1 if graph.ops[row] in SWITCHES else last):
            if graph.edge_back[edge]:
                return None  # a loop would be gone round for ever
            enter(edge)
    return None


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
    into = {variable: [_value(graph, row) for row in rows[variable] if live[row]] for variable in apart}

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
        near = _walk(graph, into[variable], live, tensor).nodes
        nodes = near.union(rows[variable], alone.get(variable, ()))
        values = tuple(sorted(ends.get(tensor, ())))
        found[variable] = [PlainUpdate(variable, values, (), apart[variable][0].slots, tuple(sorted(nodes)))]
    return found


def _origin(graph: Graph, edge: int) -> int:
    """The tensor that an edge carries, before what hands it on, such as the Switch of a branch."""
    while graph.ops[graph.edge_src[edge]] in SWITCHES | {"Identity"}:
        edge = int(graph.in_ptr[graph.edge_src[edge]])
    return int(graph.edge_tensor[edge])
