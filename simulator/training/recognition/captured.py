"""Captured variables: graphs of a `tf.function`, whose variables come in as handles, get an op for each variable.

    Placeholder (resource) ─▶ ReadVariableOp        becomes        VarHandleOp ─▶ ReadVariableOp

A function is handed the handles when it is called. The placeholder does not say what its handle holds; the ops that
read and assign it do (tensorflow/python/framework/func_graph.py, `capture`). Keras's slots, and the ops of an update,
are colocated with their variable, as `tf.distribute`'s `extended.update` and the optimizers of TensorFlow 1 do it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from simulator.errors import GraphError
from simulator.graph.attributes import COLOCATION, colocation, shaped
from simulator.graph.dtypes import RESOURCE
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.messages import AttrValue, Proto, TensorShapeProto
from simulator.graph.op_classes import ENTERS, SWITCHES
from simulator.graph.tensors import shape_message
from simulator.graph.traversal import PLACEHOLDERS, closure
from simulator.training.recognition.dataflow import readers
from simulator.training.recognition.plain_updates import plain_updates
from simulator.wording import counted, some

# Ops on the handle of a variable (tensorflow/core/ops/resource_variable_ops.cc, training_ops.cc).
_WHOLE = re.compile(r"ReadVariableOp|Assign(Add|Sub)?VariableOp")  # these take or give all of its value
_OF_VARIABLE = re.compile(
    r"ReadVariableOp|Assign(Add|Sub)?VariableOp|VarIsInitializedOp|VariableShape|Resource(Gather|Scatter|Strided"
    r"SliceAssign|(Sparse)?Apply)\w*"
)
_HANDING_ON = ENTERS | SWITCHES | {"Identity"}


def captured(graph: Graph) -> dict[int, list[int]]:
    """The placeholders that are handles of variables, and the ops that use each; rows of nodes."""
    found = {}
    for row, op in enumerate(graph.ops):
        first = int(graph.tensor_ptr[row])
        if op in PLACEHOLDERS and first < graph.tensor_ptr[row + 1] and graph.tensor_dtype[first] == RESOURCE:
            users = _users(graph, row)
            if users:
                found[row] = users
    return found


def with_variables(graph: Graph, shapes: Mapping[str, Shape] = {}) -> Graph:
    """The graph with a VarHandleOp in place of each placeholder that is a variable's handle; a note says how many.

    `shapes` gives the shapes of some variables; the others' are those of the ops that read or assign them. A graph
    without such placeholders, none of whose calls was expanded, is returned as it is. Raises GraphError for a variable
    of unknown shape.
    """
    found = captured(graph)
    if not found:
        return _beside(graph) if graph.ends else graph
    ops, attrs = list(graph.ops), list(graph.attrs)
    unknown = []
    for row, users in found.items():
        name = graph.names[row]
        shape = shapes.get(name, shapes.get(f"{name}:0", _shape(graph, users)))
        if shape is None or -1 in shape:
            unknown.append(name)
            continue
        ops[row], attrs[row] = "VarHandleOp", _handle(graph, row, users, shape)
    if unknown:
        raise GraphError(
            f"{graph.source} is the graph of a function that captures its variables, and does not say how large "
            f"{len(unknown)} of these {len(found)} are: {some(unknown)}. Write it with the shapes, as "
            "concrete_function.graph.as_graph_def(add_shapes=True) has them, or give what is missing as the shape of a "
            "feed (--feed NAME=6,8).",
            node=unknown[0],
        )
    made = replace(graph, ops=tuple(ops), attrs=tuple(attrs))
    note = f"{counted(len(found), 'variable')} that a function captured, handed in as resources, are taken as its own"
    return _beside(made).with_notes(note)


def _users(graph: Graph, row: int) -> list[int]:
    """The ops on a handle, if they are those of a variable; in ascending order."""
    inside = closure([row], lambda at: [one for one in readers(graph, at) if graph.ops[one] in _HANDING_ON])
    reached = {one for at in inside for one in readers(graph, at)}
    return sorted(at for at in reached if _OF_VARIABLE.fullmatch(graph.ops[at]))


def _shape(graph: Graph, users: list[int]) -> Shape | None:
    """The shape of a variable by the ops that read it whole or assign to it; None: none says it."""
    for row in users:
        if not _WHOLE.fullmatch(graph.ops[row]):
            continue
        edge = int(graph.in_ptr[row]) + 1
        reads = graph.ops[row] == "ReadVariableOp"
        shape: Shape | None = graph.tensor_shape[int(graph.tensor_ptr[row] if reads else graph.edge_tensor[edge])]
        if shape is not None and -1 not in shape:
            return shape
    return None


def _handle(graph: Graph, row: int, users: list[int], shape: Shape) -> Attrs:
    types = (
        attrs[key] for attrs in (graph.attrs[at] for at in users) for key in ("dtype", "T", "Tparams") if key in attrs
    )
    kept = {key: value for key, value in graph.attrs[row].items() if key.startswith("_")}
    return {
        **kept,
        **shaped([TensorShapeProto()]),
        "dtype": next(types, AttrValue(type=1)),
        "shape": AttrValue(shape=shape_message(shape)),
        "shared_name": AttrValue(s=graph.names[row].encode()),
        "container": AttrValue(s=b""),
    }


def _beside(graph: Graph) -> Graph:
    """The graph with slots, and the ops of an update of plain ops, colocated with the variable that they train."""
    homes: dict[int, int] = {}
    twice: set[int] = set()
    for update in plain_updates(graph, range(len(graph))):
        for row in (*update.slots, *update.nodes):
            if homes.setdefault(row, update.variable) != update.variable:
                twice.add(row)
    attrs: list[Mapping[str, Proto]] = list(graph.attrs)
    for row, home in homes.items():
        if row not in twice and COLOCATION not in attrs[row] and not graph.requested[row]:
            attrs[row] = {**attrs[row], COLOCATION: colocation([graph.names[home]])}
    return replace(graph, attrs=tuple(attrs))
