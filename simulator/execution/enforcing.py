"""Enforce an order: control edges by which TensorFlow's executor takes the ops of a device as a placement orders them.

A placement may order the ops of a device, and no session knows of it. A session's executor takes ready ops in an order
of its own (`executor`). A control edge between two ops that follow each other in a lane leaves the executor no choice,
and costs nothing. The order of transfers on a link stays TensorFlow's own, so the step may still be longer than
planned.

Ops count that take time and run once in every step. Others do not: control edges hand on that a value is dead, and
cannot cross the frame of a loop. Ops of which Grappler may make one kernel have no edges, as these would keep them
apart. A step by the edges is simulated in TensorFlow's order. Where it is no shorter than without them, none is added,
unless it lacks memory without them.

Sessions run other parts of the same graph, too: they initialise, save, evaluate, predict. An edge must not drag the
step into these. So no edge leads to an op that initialisers, savers and queue runners need. Nor does one lead to what
makes a variable. A program may give it a value that the file does not hold, as where Grappler left the step alone.
An op that comes before all changes of variables and queues waits for none that comes behind one. Nor does it wait for
one that needs an input which it does not need itself: a prediction has no labels. An op that anything outside the step
needs waits for such ops alone. An evaluation may run more of the step than it needs then, but needs no other feeds, and
changes nothing.

No cycle can arise: each edge leads from an op to one that began after it had ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from simulator.columns import Flags, Ids, flags, ids
from simulator.costs.estimates.fusion import joinable
from simulator.execution.memory import attained
from simulator.graph.dtypes import REF, RESOURCE
from simulator.graph.editor import edited
from simulator.graph.purposes import changing, inputs_of, preparing
from simulator.graph.traversal import fan_in, fan_out
from simulator.partitioning.partitions import unconditional

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.execution.trace import Trace
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step
    from simulator.partitioning.partitions import Partitions
    from simulator.units import Nanos

Cutting: TypeAlias = Callable[["Graph"], "Partitions"]
Simulating: TypeAlias = Callable[["Partitions"], "Trace"]


@dataclass(frozen=True, eq=False)
class Enforced:
    """The pieces of a step with an order enforced, and how it ran without that. Axis: E edges."""

    cut: Partitions  # of the graph as it was
    partitions: Partitions  # of the graph with the edges, which has the same rows
    first: Ids  # [E] row of the graph that was cut
    then: Ids  # [E] row of that graph; it waits for `first`
    planned_ns: Nanos  # the makespan in the order of the placement, which transfers obey, too
    without_ns: Nanos  # in TensorFlow's order without the edges
    trace: Trace  # in TensorFlow's order with them

    @property
    def edges(self) -> list[tuple[int, int]]:
        """The edges, each as the rows (first, then) of the graph that was cut."""
        return list(zip(self.first.tolist(), self.then.tolist(), strict=True))


def enforce(
    graph: Graph,
    step: Step,
    partitions: Partitions,
    planned: Trace,
    *,
    cluster: Cluster,
    cut: Cutting,
    simulate: Simulating,
) -> Enforced:
    """Enforce the order of a trace by control edges, if that makes the step shorter, or makes it fit in memory.

    A step that fits in the memory of the cluster goes before one that does not, as in a search.
    `partitions` are those of `graph`, and `planned` is a trace of them. `cut` is to cut a graph in the same way, and
    `simulate` to run pieces in TensorFlow's order. Deterministic: ops that start at once go by the order of
    `Trace.ops`.
    """
    without = simulate(partitions)
    pairs = np.array([*_pairs(graph, step, partitions, planned)], np.int64).reshape(-1, 2)
    first, then = partitions.origin[pairs.T]
    if len(pairs):
        pieces = cut(_with_edges(graph, first, then))
        trace = simulate(pieces)
        if attained(trace, cluster) < attained(without, cluster):
            return Enforced(partitions, pieces, ids(first), ids(then), planned.makespan, without.makespan, trace)
    return Enforced(partitions, partitions, ids([]), ids([]), planned.makespan, without.makespan, without)


def _with_edges(graph: Graph, first: Ids, then: Ids) -> Graph:
    """The graph in which each of the second nodes waits for the first one, as the importer makes it of a file."""
    editor = edited(graph, as_made=False)
    for pair in zip(first.tolist(), then.tolist(), strict=True):
        editor.add_control_edge(*pair)
    return editor.built()


def _pairs(graph: Graph, step: Step, partitions: Partitions, planned: Trace) -> Iterator[tuple[int, int]]:
    """The edges (first, then), as rows of the pieces' graph, by the start of the second op."""
    ops, cut = planned.ops, partitions.graph
    once = np.bincount(ops.node, minlength=len(cut)) == 1
    counts = once & unconditional(partitions) & ~partitions.inserted & ~joinable(graph)[partitions.origin]
    there = set(zip(cut.edge_src.tolist(), cut.edge_dst.tolist(), strict=True))
    rules = _Rules.of(graph, step, partitions)
    lanes: dict[tuple[int, int], _Lane] = {}
    for row in np.flatnonzero(counts[ops.node] & (ops.end_ns > ops.start_ns)).tolist():
        op = int(ops.node[row])
        lane = lanes.setdefault((int(ops.device[row]), int(ops.lane[row])), _Lane(rules))
        yield from ((first, op) for first in lane.before(op) if (first, op) not in there)


@dataclass(frozen=True, eq=False)
class _Rules:
    """The care for other steps of the graph. Axis: N' nodes of the pieces."""

    free: Flags  # [N'] an edge may lead to it
    kind: list[_Kind]  # [N']

    @staticmethod
    def of(graph: Graph, step: Step, partitions: Partitions) -> _Rules:
        outside = ~step.runs
        prepared = fan_in(graph, [*np.flatnonzero(preparing(graph) & outside).tolist(), *_makers(graph)])
        elsewhere = fan_in(graph, np.flatnonzero(outside).tolist())
        behind = np.zeros(len(graph), bool)
        behind[fan_out(graph, changing(graph))] = True
        kinds = [*map(_Kind, inputs_of(graph, step.feeds), elsewhere.tolist(), behind.tolist())]
        origin = partitions.origin.tolist()
        return _Rules(flags(~prepared[partitions.origin]), [kinds[row] for row in origin])


def _makers(graph: Graph) -> list[int]:
    """The nodes that make a variable, a queue, a table or the like: out of nothing, to be handed on."""
    handles = (graph.tensor_dtype == RESOURCE) | (graph.tensor_dtype > REF)
    made = np.zeros(len(graph), bool)
    made[graph.tensor_node[handles]] = True
    made[graph.edge_dst[graph.edge_tensor >= 0]] = False
    return list(map(int, np.flatnonzero(made)))


class _Kind(NamedTuple):
    """The needs of an op, and of others for it."""

    inputs: int  # bits of the tensors from outside that it is computed from
    elsewhere: bool  # something outside the step needs it
    behind: bool  # it changes a variable or a queue, or comes behind what does

    def may_wait_for(self, other: _Kind) -> bool:
        """Tell whether a step that needs this op may run the other one, too: it has its inputs and changes as much."""
        if self.behind and not self.elsewhere:
            return True
        return not other.behind and not other.inputs & ~self.inputs and (other.elsewhere or not self.elsewhere)


class _Lane:
    """One lane of a device, op by op. A clock says, of each kind, up to which place of the lane its ops are done."""

    def __init__(self, rules: _Rules) -> None:
        self.rules = rules
        self.last: dict[_Kind, tuple[int, int, dict[_Kind, int]]] = {}  # its place, the op, and its clock
        self.loose: list[int] = []  # ops that are in no chain of their kind, and that none waits for yet
        self.place = 0

    def before(self, op: int) -> list[int]:
        """The ops for which the next op is to wait, of which none waits for another by edges from here."""
        kinds, kind, free = self.rules.kind, self.rules.kind[op], self.rules.free[op]
        self.place += 1
        found, clock = list[int](), dict[_Kind, int]()
        if free:
            found = [one for one in self.loose if kind.may_wait_for(kinds[one])]
            self.loose = [one for one in self.loose if one not in found]
            lasts = sorted((last for other, last in self.last.items() if kind.may_wait_for(other)), key=itemgetter(0))
            for place, one, known in reversed(lasts):
                if clock.get(kinds[one], 0) < place:
                    found.append(one)
                    clock.update((other, max(until, clock.get(other, 0))) for other, until in known.items())
        if free and kind.may_wait_for(kind):
            self.last[kind] = self.place, op, {**clock, kind: self.place}
        else:
            self.loose.append(op)
        return found
