"""Values along the edges of a graph, and through stacks; control edges carry none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np

from simulator.columns import Flags, flags
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, STACK_POPS, STACK_PUSHES, SWITCHES

_HANDS_ON_HANDLES = ENTERS | SWITCHES | {"Identity", "RefIdentity"}


def values_in(graph: Graph, row: int) -> list[int]:
    """The edges that carry values into a node, by slot."""
    return [edge for edge in graph.in_edges(row) if graph.edge_tensor[edge] >= 0]


def values_out(graph: Graph, row: int) -> list[int]:
    """The edges that carry a node's values to others, ascending."""
    return [edge for edge in graph.out_edges(row) if graph.edge_tensor[edge] >= 0]


def data_inputs(graph: Graph) -> list[list[int]]:
    """[N] the tensors that each node reads, by slot."""
    first, tensor = graph.in_ptr.tolist(), graph.edge_tensor.tolist()
    controls = set(graph.edge_dst[graph.edge_tensor < 0].tolist())
    made = [tensor[begin:end] for begin, end in pairwise(first)]
    for node in controls:
        made[node] = [one for one in made[node] if one >= 0]
    return made


def source_of(graph: Graph, row: int, slot: int = 0) -> int:
    """The node whose value comes in at that slot; -1: none does."""
    edge = int(graph.in_ptr[row]) + slot
    return int(graph.edge_src[edge]) if edge < graph.in_ptr[row + 1] and graph.edge_tensor[edge] >= 0 else -1


def sources_of(graph: Graph, row: int) -> list[int]:
    """The nodes whose values a node reads, by slot."""
    return [int(graph.edge_src[edge]) for edge in values_in(graph, row)]


def readers(graph: Graph, row: int) -> list[int]:
    """The nodes that read a node's values, once per edge."""
    return [int(graph.edge_dst[edge]) for edge in values_out(graph, row)]


def pushes_of(graph: Graph) -> Mapping[int, list[int]]:
    """For each op that pops a value from a stack: the ops that push values to the same stack.

    No edge leads from a push to a pop. Loops of version 1 hand values to their gradients so (control_flow_state.py).
    """
    by_stack: dict[int, list[int]] = {}
    pops = []
    for row, op in enumerate(graph.ops):
        if op in STACK_PUSHES:
            by_stack.setdefault(kept_in(graph, row), []).append(row)
        elif op in STACK_POPS:
            pops.append(row)
    return {row: by_stack.get(kept_in(graph, row), []) for row in pops}


def kept_in(graph: Graph, row: int) -> int:
    """The node that makes the stack or queue of what puts in or takes out; the handle enters loops and branches."""
    row = source_of(graph, row)
    while row >= 0 and graph.ops[row] in _HANDS_ON_HANDLES:
        row = source_of(graph, row)
    return row


def depending_on(graph: Graph, rows: Iterable[int]) -> Flags:
    """[N] the given nodes, and all whose values depend on theirs, through loops and stacks as well.

    A Switch hands on its first input: its predicate says where that value goes, not what it is.
    """
    first = graph.out_ptr.tolist()
    switches = [row for row, op in enumerate(graph.ops) if op in SWITCHES]
    carries = graph.edge_tensor >= 0
    carries[graph.in_ptr[switches] + 1] = False
    targets = np.where(carries, graph.edge_dst, -1)[graph.out_edge].tolist()
    popped: dict[int, list[int]] = {}
    for pop, pushes in pushes_of(graph).items():
        for push in pushes:
            popped.setdefault(push, []).append(pop)
    seen, pending = bytearray(len(graph)), list(rows)
    for row in pending:
        seen[row] = 1
    while pending:
        row = pending.pop()
        for reader in (*targets[first[row] : first[row + 1]], *popped.get(row, ())):
            if reader >= 0 and not seen[reader]:
                seen[reader] = 1
                pending.append(reader)
    return flags(np.frombuffer(seen, np.bool_))
