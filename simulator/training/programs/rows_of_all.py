"""The rows of all replicas in an update: constants that count the rows of one in the file, count those of all.

A sparse gradient is the rows of all replicas, one below the other. The plain ops by which an optimizer uses them may
hold their number. Keras divides rows in a branch that has a one for each (keras/src/backend/tensorflow/sparse.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simulator.errors import SimvizError
from simulator.graph.const_values import elements
from simulator.graph.graph import Graph
from simulator.shapes.filling import with_shapes
from simulator.training.programs.edits import reshaped, shape_on
from simulator.training.recognition.anatomy import Anatomy


def with_rows_of_all(graph: Graph, found: Anatomy, update: Sequence[int], count: int) -> Graph:
    """The graph in whose update constants count the rows of all replicas, where they count those of one in the file."""
    counts = {(shape_on(graph, one.values[0]) or (0,))[0] for one in found.gradients if one.indices} - {0, -1}

    def says(row: int) -> bool:
        own = graph.tensor_shape[graph.tensor_ptr[row]] or ()
        return not counts.isdisjoint(own) or not counts.isdisjoint(elements(graph.attrs[row]) or ())

    constants = [row for row in update if graph.ops[row] == "Const" and says(row)] if counts and count > 1 else []
    if not constants or not found.batch:
        return graph
    try:
        larger = with_shapes(graph, batch=found.batch * count)
    except SimvizError:
        return graph  # another batch does not fit it, so nothing says what follows the number of rows
    attrs, shapes = list(graph.attrs), list(graph.tensor_shape)
    for row in constants:
        attrs[row], tensor = larger.attrs[row], int(graph.tensor_ptr[row])
        shapes[tensor] = larger.tensor_shape[tensor]
    return reshaped(replace(graph, attrs=tuple(attrs), tensor_shape=tuple(shapes)), constants)
