"""Gradients that a script adds up in variables of its own, over several batches, before an optimizer applies them.

    batch ─▶ gradient ─╳─▶ AssignAdd sum        every n-th step:  sum / n ─▶ Apply ─▶ variable

What a replica computes ends where it is added, for the sum is there once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.graph.step.fanin import PLACEHOLDERS, fan_in
from simulator.training.programs.variables import VARIABLES, is_whole, variable_of

_ADDS = frozenset(("AssignAdd", "AssignAddVariableOp"))
_STILL = VARIABLES | {"Const"}  # what brings no examples


def before_adding_up(graph: Graph, runs: Sequence[int], values: int) -> list[int]:
    """The edges on which a gradient comes to the sums that an update reads, given the update's own edge; [] none.

    Raises GraphError where what fills the sum is another step than this one: its gradients would be missing.
    """
    rows = _behind(graph, values)
    adding = [int(graph.in_ptr[row]) + 1 for row in sorted(rows) if graph.ops[row] in _ADDS]
    adding = [edge for edge in adding if _has_examples(graph, edge)]
    if adding:
        return adding
    if any(graph.ops[row] not in _STILL for row in _sources(graph, rows)):
        return []
    sums = {row for row in rows if graph.ops[row] in VARIABLES and not is_whole(graph, row)}
    filling = [
        row
        for row, op in enumerate(graph.ops)
        if op in _ADDS and variable_of(graph, row) in sums and _has_examples(graph, int(graph.in_ptr[row]) + 1)
    ]
    running = sorted(set(filling).intersection(runs))
    if filling and not running:
        name, update = graph.names[filling[0]], graph.names[int(graph.edge_dst[values])]
        raise GraphError(
            f"{graph.source}: {update!r} applies a gradient that {name!r} adds up, and the step does not run that, so "
            f"nothing of it works on examples. Fetch both, such as {name!r} and {update!r}, or {name!r} alone.",
            node=update,
        )
    return [int(graph.in_ptr[row]) + 1 for row in running]


def _has_examples(graph: Graph, edge: int) -> bool:
    """Whether what an edge carries comes from what is fed, read or drawn."""
    needed = np.flatnonzero(fan_in(graph, [int(graph.edge_src[edge])])).tolist()
    return any(
        graph.ops[row] in PLACEHOLDERS or (graph.in_ptr[row] == graph.in_ptr[row + 1] and graph.ops[row] not in _STILL)
        for row in needed
    )


def _behind(graph: Graph, edge: int) -> set[int]:
    """The nodes whose values make up what an edge carries; not what is added to a sum on the way."""
    pending, seen = [int(graph.edge_src[edge])], set[int]()
    while pending:
        row = pending.pop()
        if row in seen:
            continue
        seen.add(row)
        if graph.ops[row] not in _ADDS:
            into = range(graph.in_ptr[row], graph.in_ptr[row + 1])
            pending += [int(graph.edge_src[at]) for at in into if graph.edge_tensor[at] >= 0]
    return seen


def _sources(graph: Graph, rows: set[int]) -> list[int]:
    """Those that read no value."""
    edges = {row: range(graph.in_ptr[row], graph.in_ptr[row + 1]) for row in rows}
    return [row for row, into in edges.items() if not any(graph.edge_tensor[edge] >= 0 for edge in into)]
