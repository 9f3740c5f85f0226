"""Which nodes of a training graph belong to each replica, which to the update, and which are shared.

shared:  variables and their reads, queues, iterators, tables, placeholders
tower:   what the gradients need: forward and backward
update:  what the gradients lead to within the step
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from simulator.graph import ops
from simulator.graph.dtypes import REF, RESOURCE
from simulator.graph.graph import Graph
from simulator.graph.step.fanin import PLACEHOLDERS, fan_out
from simulator.training.programs.anatomy import Anatomy
from simulator.training.programs.variables import VARIABLES

_READS = frozenset(("Identity", "ReadVariableOp"))
_WRITES = re.compile(r"(Resource)?Scatter(Add|Sub|Update)|Assign(Add|Sub)?(VariableOp)?")


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows of nodes, ascending."""

    tower: tuple[int, ...]
    update: tuple[int, ...]
    aside: tuple[int, ...]
    written: frozenset[int]  # writes to variables for which only the first tower waits, such as moving averages


def parts_of(graph: Graph, found: Anatomy) -> Parts:
    """The parts of a training graph.

    What is written to a variable on the way, and hands nothing on but that it is done, belongs to no tower: it is done
    once a step, by the first one, as with the moving averages of TensorFlow's multi-GPU models.
    """
    entering = [edge for one in found.gradients for edge in (*one.all_values, *one.all_indices)]
    update = {row for row in fan_out(graph, {int(graph.edge_dst[edge]) for edge in entering}) if found.step.runs[row]}
    tower: set[int] = set()
    written: set[int] = set()
    pending = [int(graph.edge_src[edge]) for edge in entering]
    while pending:
        row = pending.pop()
        if row in tower or row in update or is_shared(graph, row):
            continue
        tower.add(row)
        for edge in range(graph.in_ptr[row], graph.in_ptr[row + 1]):
            source = int(graph.edge_src[edge])
            if graph.edge_tensor[edge] < 0 and is_write(graph, source):
                written.add(source)
            else:
                pending.append(source)
    seen = fan_out(graph, tower | {int(graph.tensor_node[tensor]) for tensor in found.batched})
    aside = [
        row
        for row in seen
        if found.step.runs[row] and not (row in tower or row in update or row in written or is_shared(graph, row))
    ]
    return Parts(tuple(sorted(tower)), tuple(sorted(update)), tuple(aside), frozenset(written - tower))


def is_shared(graph: Graph, row: int) -> bool:
    """Whether all replicas of one session use the same node: it holds state, reads a variable, or is fed."""
    first, last = int(graph.in_ptr[row]), int(graph.in_ptr[row + 1])
    if graph.ops[row] in PLACEHOLDERS or graph.ops[row] in VARIABLES:
        return True
    if is_read(graph, row):
        return True
    return (first == last or graph.edge_tensor[first] < 0) and _hands_out_state(graph, row)


def is_read(graph: Graph, row: int) -> bool:
    """Whether a node reads a variable, and waits for nothing."""
    first, last = int(graph.in_ptr[row]), int(graph.in_ptr[row + 1])
    return graph.ops[row] in _READS and last == first + 1 and graph.ops[int(graph.edge_src[first])] in VARIABLES


def is_write(graph: Graph, row: int) -> bool:
    """Whether a node writes to a variable by no optimizer's rule."""
    return _WRITES.fullmatch(graph.ops[row]) is not None


def held_by(graph: Graph, row: int) -> int | None:
    """The shared node whose state a node works on, and beside which it must stand; None: it works on values."""
    taken = ops.inputs(graph.ops[row], graph.attrs[row], graph.library) or ()
    for edge, dtype in zip(range(graph.in_ptr[row], graph.in_ptr[row + 1]), taken, strict=False):
        source = int(graph.edge_src[edge])
        if (dtype >= REF or dtype == RESOURCE) and is_shared(graph, source):
            return source
    return None


def _hands_out_state(graph: Graph, row: int) -> bool:
    types = graph.tensor_dtype[graph.tensor_ptr[row] : graph.tensor_ptr[row + 1]]
    return bool(np.any((types >= REF) | (types == RESOURCE)))
