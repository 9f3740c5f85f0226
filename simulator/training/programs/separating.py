"""Part a training step in two at its gradients: what each replica computes, and what is done once per update.

    replica                          update
    batch ─▶ ... ─▶ gradients ─╳─▶ Apply ─▶ global step + 1
      └─▶ moving averages ┄┄╳┄┄▶ Apply        a control edge that the update need not wait for any more

The chief of SyncReplicasOptimizer runs the second part in a loop of its own; its first part is every worker's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.graph.graph import Graph
from simulator.graph.step.fanin import fan_in, fan_out
from simulator.training.programs.anatomy import Anatomy
from simulator.training.programs.replication.parts import parts_of
from simulator.training.programs.variables import variable_of

_READS = frozenset(("Identity", "ReadVariableOp", "IsVariableInitialized", "VarIsInitializedOp"))


@dataclass(frozen=True, slots=True)
class Separated:
    """The two parts of a step."""

    ends: tuple[int, ...]  # nodes whose end is the end of an update
    cut: tuple[int, ...]  # control edges from a replica into the update, ascending
    beside: tuple[int, ...]  # nodes that a replica runs besides its gradients: what the update waited for
    after: tuple[int, ...]  # nodes of an update that follow from gradients, ascending
    fetches: tuple[str, ...]  # of the step's fetches, what a replica still gets


def separate(graph: Graph, found: Anatomy) -> Separated:
    """Part the step of a training graph."""
    parts = parts_of(graph, found)
    update = frozenset(parts.update)
    replica = frozenset(fan_out(graph, parts.tower)) - update | parts.written
    entering = {edge for one in found.gradients for edge in (*one.all_values, *one.all_indices)}
    writes = [row for row in parts.update if _writes(graph, row)] + [row for row in found.counts if row not in update]
    fetched = {name: fan_in(graph, [graph.row(name.partition(":")[0])]) for name in found.step.fetches}
    late = {graph.row(name.partition(":")[0]) for name, before in fetched.items() if before[writes].any()}
    ends = _ends(graph, sorted(late), writes, replica, entering)
    walked = sorted(_walked(graph, ends, replica, entering))
    cut = [edge for row in walked for edge in _controls(graph, row) if int(graph.edge_src[edge]) in replica]
    # What an update writes besides, such as a slot that decays, is also not for a replica to write.
    writes = [row for row in walked if _writes(graph, row)]
    return Separated(
        ends=tuple(ends),
        cut=tuple(cut),
        beside=tuple(sorted({int(graph.edge_src[edge]) for edge in cut} - set(parts.tower))),
        after=tuple(row for row in walked if row in update),
        fetches=tuple(name for name, before in fetched.items() if not before[writes].any()),
    )


def _writes(graph: Graph, row: int) -> bool:
    return graph.ops[row] not in _READS and variable_of(graph, row) is not None


def _ends(
    graph: Graph, fetched: Sequence[int], writes: Sequence[int], replica: frozenset[int], entering: set[int]
) -> list[int]:
    """What is fetched of the update, if none of it hands on what a replica computed; else all that writes."""
    walked = _walked(graph, fetched, replica, entering)
    return list(writes) if not walked.isdisjoint(replica) or not fetched else list(fetched)


def _controls(graph: Graph, row: int) -> list[int]:
    return [edge for edge in range(graph.in_ptr[row], graph.in_ptr[row + 1]) if graph.edge_tensor[edge] < 0]


def _walked(graph: Graph, ends: Sequence[int], replica: frozenset[int], entering: set[int]) -> set[int]:
    """What the update runs for its ends: backwards, but not into gradients nor along control edges from a replica."""
    seen, pending = set(ends), list(ends)
    while pending:
        row = pending.pop()
        for edge in range(graph.in_ptr[row], graph.in_ptr[row + 1]):
            source = int(graph.edge_src[edge])
            if edge in entering or source in seen or (graph.edge_tensor[edge] < 0 and source in replica):
                continue
            seen.add(source)
            pending.append(source)
    return seen
