"""The devices of control-flow ops, which TensorFlow moves.

The partitioner moves Switch, Exit, Enter and NextIteration next to the values that they pass on, whatever was
requested (`tensorflow/core/graph/graph_partition.cc`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from simulator.graph.attributes import is_true
from simulator.graph.editor import CONTROL
from simulator.graph.op_classes import CONTROL_FLOW, EXITS, MOVED, NEXT_ITERATIONS, SWITCHES
from simulator.graph.ops import is_stateful, known
from simulator.graph.step import exchange
from simulator.partitioning.cut_graph import CutEdges, step_edges
from simulator.partitioning.passes.client import attach

if TYPE_CHECKING:
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step
    from simulator.partitioning.cut_graph import CutNodes

_TO_INPUT = SWITCHES | EXITS
_TO_READER = NEXT_ITERATIONS | {"Enter"}  # an Enter of a reference stays


Moves: TypeAlias = list[tuple[int, int]]  # (node, the node whose device it takes), to be applied in order


def moves(graph: Graph, given: CutEdges, count: int) -> Moves:
    """The moves of OptimizeControlFlowColocation: a depth-first walk from the source, last successor first.

    Switch moves to its data input, Exit to its input, Enter and NextIteration to their first data reader. The walk does
    not depend on devices, and like TensorFlow's it does not look at kernels. `count` is the number of nodes, those that
    the cut added included.
    """
    if not _has_moved(graph):
        return []
    readers, reads, successors = _neighbours(given, count)
    has_input = np.zeros(count, bool)
    has_input[given.dst] = True
    first = np.concatenate([graph.order, np.arange(len(graph), count)])
    stack = first[~has_input[first]].tolist()
    seen = [False] * count
    found = []
    while stack:
        node = stack.pop()
        if seen[node]:
            continue
        seen[node] = True
        op = graph.ops[node] if node < len(graph) else "Const"
        beside = reads.get(node) if op in _TO_INPUT else readers.get(node) if op in _TO_READER else None
        if beside is not None:
            found.append((node, beside))
        stack += [other for other in successors[node] if not seen[other]]
    return found


def settled(device: Sequence[int], found: Moves, seen: Mapping[int, int] = MappingProxyType({})) -> list[int]:
    """The devices after the moves: a node that was moved counts as such for those that come later.

    The walk begins at TensorFlow's source, whose edges have no known order when there are more than eight. Whether a
    node is moved before or after the one beside it is then by chance. `seen`, node -> device, says where TensorFlow
    moved nodes. It is taken over where some order leads there, and nowhere else.
    """
    where = list(device)
    beside = dict(found)
    for node, other in found:
        chosen = seen.get(node)
        where[node] = chosen if chosen is not None and chosen in _reached(node, device, beside) else where[other]
    return where


def optimized(
    nodes: CutNodes,
    whole: CutEdges,
    found: Moves,
    placed: Sequence[int],
    seen: Mapping[int, int] = MappingProxyType({}),
) -> list[int]:
    """The devices after the moves where a session's Grappler has put constants into loops before.

    It takes a constant that enters a loop into it, to the device where the Enter was `placed`
    (`MoveConstantsPastEnter`, constant_folding.cc). Nothing reads the Enter then, so it stays there. `whole` are the
    edges before constants were copied.
    """
    graph, inputs = nodes.graph, dict[int, list[int]]()
    enters = [node for node, op in enumerate(graph.ops) if op == "Enter" and is_true(graph.attrs[node], "is_constant")]
    if not enters:
        return nodes.device
    for src, port, dst in zip(whole.src.tolist(), whole.port.tolist(), whole.dst.tolist(), strict=True):
        if port != CONTROL:
            inputs.setdefault(dst, []).append(src)
    answers: dict[int, bool] = {}
    entering = {node for node in enters if _is_constant(graph, inputs, answers, node)}
    return settled(placed, [move for move in found if move[0] not in entering], seen)


def _is_constant(graph: Graph, inputs: Mapping[int, Sequence[int]], answers: dict[int, bool], last: int) -> bool:
    """Whether Grappler makes a constant of a node, or of what enters a loop there: all of it comes from constants."""
    pending = [last]
    while pending:
        node = pending[-1]
        sources = inputs.get(node, ())
        if node >= len(graph) or (graph.ops[node] != "Const" and not (sources and _is_foldable(graph, node))):
            answers[node] = False
        elif open_ones := [one for one in sources if one not in answers]:
            answers[node] = False  # until its sources are known, as a cycle is no constant
            pending += open_ones
            continue
        else:
            answers[node] = all(answers[one] for one in sources)
        pending.pop()
    return answers[last]


def _is_foldable(graph: Graph, node: int) -> bool:
    op = graph.ops[node]
    if op in CONTROL_FLOW:
        return op == "Enter" and is_true(graph.attrs[node], "is_constant")
    return not op.startswith("Placeholder") and known(op) and not is_stateful(op)


def _reached(node: int, device: Sequence[int], beside: Mapping[int, int]) -> set[int]:
    """The devices at which a node may arrive: those of the nodes beside which it, or whatever is there, is moved."""
    found: set[int] = set()
    passed = {node}
    while node in beside:
        node = beside[node]
        found.add(device[node])
        if node in passed:
            break
        passed.add(node)
    return found


def moves_of_step(graph: Graph, step: Step) -> Moves:
    """The moves among the nodes of a step, known before the cut.

    The client's nodes are numbered after the graph's, in order of `Exchange.tensors`.
    """
    if not _has_moved(graph):
        return []
    client = exchange(graph, step)
    given, _ = attach(graph, client, step_edges(graph, client))
    return moves(graph, given, len(graph) + len(client.tensors))


def _has_moved(graph: Graph) -> bool:
    return any(op in MOVED for op in graph.ops)


def _neighbours(given: CutEdges, count: int) -> tuple[dict[int, int], dict[int, int], list[list[int]]]:
    """First data reader of each node, first data input of each node, successors of each node by edge id."""
    readers: dict[int, int] = {}
    reads: dict[int, int] = {}
    successors: list[list[int]] = [[] for _ in range(count)]
    order = np.argsort(given.id, kind="stable")
    rows = zip(*(column[order].tolist() for column in (given.src, given.port, given.dst, given.slot)), strict=True)
    for src, port, dst, slot in rows:
        successors[src].append(dst)
        if port != CONTROL:
            readers.setdefault(src, dst)
            if slot == 0:
                reads[dst] = src
    return readers, reads, successors
