"""The parts of a training graph: nodes of each replica, nodes of the update, shared nodes.

shared:  variables and their reads, queues, iterators, tables, placeholders
tower:   nodes that the gradients need: forward and backward
update:  nodes of the step that depend on the gradients
aside:   other nodes of the step that depend on a tower or on the batch, such as summaries
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from simulator.columns import Ids, ids
from simulator.graph import ops, registry
from simulator.graph.dataflow import depending_on, readers
from simulator.graph.dtypes import REF, RESOURCE
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, MERGES, NEXT_ITERATIONS, SWITCHES
from simulator.graph.traversal import closure, fan_out, whole_loops
from simulator.partitioning.partitions import Partitions
from simulator.training.recognition.anatomy import Anatomy, trained
from simulator.training.recognition.batch import bringing
from simulator.training.recognition.late_gradients import check_one_update
from simulator.training.recognition.sharing import READS, is_shared, is_write
from simulator.training.recognition.variable_flow import on_examples
from simulator.training.recognition.variables import variable_of

_BY_HANDLE = frozenset(("ReadVariableOp", "_ReadVariablesOp", "ResourceGather", "ResourceGatherNd"))
_READING = READS | _BY_HANDLE | {"IsVariableInitialized", "VarIsInitializedOp", "VariableShape"}
_HANDING_ON = ENTERS | SWITCHES | {"RefIdentity"}  # a reference or handle


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows of nodes, ascending."""

    tower: tuple[int, ...]
    update: tuple[int, ...]
    aside: tuple[int, ...]
    written: frozenset[int]  # writes to variables for which a tower only waits, such as moving averages
    read_anew: frozenset[int]  # those of them whose variable a tower reads after them: each tower waits for these


def parts_of(graph: Graph, found: Anatomy) -> Parts:
    """The parts of a training graph.

    A write to a variable for which a tower only waits belongs to no tower. It is done once a step, by the first one, as
    with the moving averages of TensorFlow's multi-GPU models. Spectral normalisation reads the variable after it.
    """
    entering = [edge for one in found.gradients for edge in (*one.values, *one.indices)]
    update = {row for row in fan_out(graph, {int(graph.edge_dst[edge]) for edge in entering}) if found.step.runs[row]}
    tower: set[int] = set()
    written: set[int] = set()
    anew: set[int] = set()
    pending = [int(graph.edge_src[edge]) for edge in entering]
    while pending:
        row = pending.pop()
        if row in tower or row in update or is_shared(graph, row):
            continue
        tower.add(row)
        for edge in graph.in_edges(row):
            source = int(graph.edge_src[edge])
            if graph.edge_tensor[edge] < 0 and is_write(graph, source):
                written.add(source)
                if (variable := variable_of(graph, source)) is not None and variable_of(graph, row) == variable:
                    anew.add(source)
            else:
                pending.append(source)
    seen = fan_out(graph, tower | {int(graph.tensor_node[tensor]) for tensor in found.batched})
    aside = [
        row
        for row in seen
        if found.step.runs[row] and not (row in tower or row in update or row in written or is_shared(graph, row))
    ]
    return Parts(tuple(sorted(tower)), tuple(sorted(update)), tuple(aside), frozenset(written - tower), frozenset(anew))


# ---- a step separated at its gradients ------------------------------------------------------------------------------
#     replica                          update
#     batch ─▶ ... ─▶ gradients ─╳─▶ Apply ─▶ global step + 1
#       └─▶ moving averages ┄┄╳┄┄▶ Apply        a control edge that the update need not wait for any more
#
# The chief of SyncReplicasOptimizer runs the second part in a loop of its own; its first part is every worker's.


@dataclass(frozen=True, slots=True)
class Separated:
    """The two parts of a step."""

    ends: tuple[int, ...]  # nodes whose end is the end of an update
    counted: tuple[int, ...]  # those whose end is that of its count in the global step
    cut: tuple[int, ...]  # control edges from a replica into the update, ascending
    beside: tuple[int, ...]  # nodes that a replica runs besides its gradients, for which the update waited
    lent: tuple[int, ...]  # a replica's nodes whose values the update needs, too, such as whether gradients are finite
    after: tuple[int, ...]  # nodes of an update that depend on gradients, ascending
    fetches: tuple[str, ...]  # fetches of the step that a replica still serves


def separate(graph: Graph, found: Anatomy) -> Separated:
    """Separate the step of a training graph into a replica's part and the update.

    Raises GraphError for a gradient behind an update: a replica would have to hand it in after what the chief takes.
    """
    parts = parts_of(graph, found)
    update = frozenset(parts.update)
    said = "workers can't hand in all gradients before the chief takes their means; train it by async or ssp"
    check_one_update(graph, found, update, said)
    entering = {edge for one in found.gradients for edge in (*one.values, *one.indices)}
    live = on_examples(graph)  # an update makes itself what needs no example, such as its learning rate
    taken = _walked(graph, parts.update, frozenset(range(len(graph))), entering)
    own = [row for row in parts.tower if live[row]]
    own += [row for row in bringing(graph, found.step, found.batched) if row not in taken]
    replica = whole_loops(graph, np.flatnonzero(depending_on(graph, own)).tolist()) - update | parts.written
    kept, once = _other_writes(graph, found, parts, replica)
    writes = [row for row in parts.update if _writes(graph, row)] + [row for row in found.counts if row not in update]
    writes += once
    fetched = {name: graph.row(name.partition(":")[0]) for name in found.step.fetches}
    late = set(fan_out(graph, writes)).intersection(fetched.values())
    # the fetched nodes of the update end it, if no replica computes their inputs; else all nodes that write
    apart = late and _walked(graph, sorted(late), replica, entering).isdisjoint(replica)
    ends, counted = (
        _either_way(graph, rows, replica, entering) for rows in (sorted(late) if apart else writes, found.counts)
    )
    walked = sorted(_walked(graph, ends, replica, entering))
    controls = (edge for row in walked for edge in graph.in_edges(row) if graph.edge_tensor[edge] < 0)
    cut = [edge for edge in controls if int(graph.edge_src[edge]) in replica]
    # An update may write more, such as a slot that decays; a replica does not write that either.
    changed = set(fan_out(graph, [row for row in walked if _writes(graph, row)]))
    kept = _either_way(graph, sorted(set(kept).difference(walked)), replica, entering)
    return Separated(
        ends=tuple(ends),
        counted=tuple(counted),
        cut=tuple(cut),
        beside=tuple(sorted({int(graph.edge_src[edge]) for edge in cut}.union(kept).difference(parts.tower))),
        lent=tuple(row for row in walked if row in replica),
        after=tuple(row for row in walked if row in update),
        fetches=tuple(name for name, row in fetched.items() if row not in changed),
    )


def _other_writes(graph: Graph, found: Anatomy, parts: Parts, replica: frozenset[int]) -> tuple[list[int], list[int]]:
    """The writes of a step for which only a fetch waits, which goes with the update: a replica's, and the update's.

    A traced function returns after all of its writes. Those of a replica are moving averages and metrics, which depend
    on examples, and seeds, whose variable the gradients need. The others are counters of further optimizers.
    """
    others = {*parts.update, *parts.tower, *found.counts}
    rows = [row for row in np.flatnonzero(found.step.runs).tolist() if row not in others and _writes(graph, row)]
    needed = closure(parts.tower, graph.sources) if rows else set()
    states = {variable_of(graph, row) for row in needed}
    kept = [row for row in rows if row in replica or variable_of(graph, row) in states]
    return kept, sorted(set(rows).difference(kept))


def _either_way(graph: Graph, ends: Sequence[int], replica: frozenset[int], entering: set[int]) -> list[int]:
    """The ends, each in a branch replaced by the Merge behind it, so that the end comes whichever side is taken.

    Of several Merges it is the one that needs the fewest nodes, as others may hand on values of a replica.
    """
    sides = sides_of(graph)
    merges = {row: ends_of_branches(graph, row, sides) for row in ends}
    needed = {row: len(_walked(graph, [row], replica, entering)) for row in set().union(*merges.values())}
    return sorted({min(merges[row], key=lambda at: (needed[at], at), default=row) for row in ends})


def _writes(graph: Graph, row: int) -> bool:
    if graph.ops[row] in _READING | _HANDING_ON:
        return False
    taken = enumerate(ops.inputs(graph.ops[row], graph.attrs[row], graph.library) or ())
    held = (slot for slot, dtype in taken if dtype >= REF or dtype == RESOURCE)
    return any(variable_of(graph, row, slot) is not None for slot in held)


def _walked(graph: Graph, ends: Sequence[int], replica: frozenset[int], entering: set[int]) -> set[int]:
    """Nodes that the ends need: backwards, but not into gradients nor along control edges from a replica."""

    def needed(row: int) -> list[int]:
        edges = [edge for edge in graph.in_edges(row) if edge not in entering]
        sources = [(int(graph.edge_src[edge]), graph.edge_tensor[edge] < 0) for edge in edges]
        return [source for source, control in sources if not (control and source in replica)]

    return closure(ends, needed)


# ---- branches, and the Merges at which they end ----------------------------------------------------------------------
#
#     predicate ─▶ Switch ─┬─▶ Assign ─┄┄▶ Merge ─▶ ...        what waits for an Assign waits for ever where the other
#                          └─▶ Assign ─┄┄▶ ┘                   side is taken; what waits for the Merge does not


Sides: TypeAlias = frozenset[tuple[int, int]]  # the tensor of a predicate, and the output of its Switches
_LOOP = "LoopCond"  # its Switches end a loop, and hand on to all that comes after it


def sides_of(graph: Graph) -> list[Sides]:
    """[N] the sides of branches on which alone each node runs; a node that runs either way has none."""
    sides: list[Sides] = [frozenset()] * len(graph)
    switches = [row for row, op in enumerate(graph.ops) if op in SWITCHES]
    behind = set(fan_out(graph, switches))
    for row in graph.topological.tolist() if switches else ():
        if row not in behind:
            continue
        merging = graph.ops[row] in MERGES
        edges = [edge for edge in graph.in_edges(row) if not merging or graph.edge_tensor[edge] >= 0]
        came = [_along(graph, edge, sides) for edge in edges if graph.ops[graph.edge_src[edge]] not in NEXT_ITERATIONS]
        sides[row] = frozenset.intersection(*came) if merging and came else frozenset().union(*came)
    return sides


def _along(graph: Graph, edge: int, sides: Sequence[Sides]) -> Sides:
    """The sides on which alone something comes along an edge."""
    row, tensor = int(graph.edge_src[edge]), int(graph.edge_tensor[edge])
    if graph.ops[row] not in SWITCHES or tensor < 0:
        return sides[row]
    predicate = int(graph.in_ptr[row]) + 1
    if graph.ops[graph.edge_src[predicate]] == _LOOP:
        return sides[row]
    return sides[row] | {(int(graph.edge_tensor[predicate]), int(graph.tensor_port[tensor]))}


def ends_of_branches(graph: Graph, row: int, sides: Sequence[Sides]) -> list[int]:
    """The first Merges behind a node that run either way, ascending; [] for a node that does so itself."""
    found, seen, pending = set(), {row}, [row] if sides[row] else []
    while pending:
        for edge in graph.out_edges(pending.pop()):
            reader = int(graph.edge_dst[edge])
            if reader in seen:
                continue
            seen.add(reader)
            if sides[reader]:
                pending.append(reader)
            elif graph.ops[reader] in MERGES:
                found.add(reader)
    return sorted(found)


# ---- reads of trained variables, in the pieces of a step -------------------------------------------------------------


_HANDLE = "VarHandleOp"


def reads(partitions: Partitions) -> Ids:
    """The rows of the pieces' graph that read a variable to which the pieces apply a gradient, ascending.

    A variable with a handle is read by the ops for that. One with a reference is read by whoever takes its value and
    not the reference. That is mostly an Identity beside it, but also a Send, where the reader is on another device. So
    a value is as old as the op on the variable's device that took it, however long it is on its way.

    Runs of the same pieces, as those that look for a bottleneck, share the answer.
    """
    found = _known_reads.get(partitions)
    if found is None:
        graph = partitions.graph
        found = ids(sorted(set().union(*(_readers_of(graph, variable) for variable in trained(graph)))))
        _known_reads[partitions] = found
    return found


_known_reads: WeakKeyDictionary[Partitions, Ids] = WeakKeyDictionary()


def _readers_of(graph: Graph, variable: int) -> set[int]:
    by_handle = graph.ops[variable] == _HANDLE
    handing = _HANDING_ON | {"Identity"} if by_handle else _HANDING_ON
    inside = closure(
        [variable], lambda row: [at for at in readers(graph, row) if graph.ops[at] in handing and at != variable]
    )
    ends = {at for row in inside for at in readers(graph, row)} - inside
    return {row for row in ends if (graph.ops[row] in _BY_HANDLE if by_handle else _takes_values(graph, row))}


def _takes_values(graph: Graph, row: int) -> bool:
    """Tell whether a node's op is registered with no reference among its inputs; an unknown op, as a Send, has none."""
    facts = registry.facts(graph.ops[row])
    return facts is None or not any(argument.is_ref for argument in facts.inputs)
