"""Captured variables: the graph of a `tf.function`, whose variables come in as handles, gets an op for each variable.

    Placeholder (resource) ─▶ ReadVariableOp        becomes        VarHandleOp ─▶ ReadVariableOp

A function is handed the handles when it is called, so no client sends them, and the variables lie on devices. The
placeholder does not say what its handle holds; the ops that read and assign it do
(tensorflow/python/framework/func_graph.py, `capture`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from simulator.graph.attributes import shaped
from simulator.graph.dataflow import readers
from simulator.graph.dtypes import RESOURCE
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.messages import AttrValue, TensorShapeProto
from simulator.graph.op_classes import ENTERS, SWITCHES
from simulator.graph.tensors import HANDLE_SHAPES, SHAPES, shape_message, shape_of
from simulator.graph.traversal import PLACEHOLDERS, closure
from simulator.wording import counted

# Ops on the handle of a variable (tensorflow/core/ops/resource_variable_ops.cc, training_ops.cc).
_WHOLE = re.compile(r"ReadVariableOp|Assign(Add|Sub)?VariableOp")  # these take or give all of its value
_OF_VARIABLE = re.compile(
    r"ReadVariableOp|Assign(Add|Sub)?VariableOp|VarIsInitializedOp|VariableShape|Resource(Gather|Scatter|Strided"
    r"SliceAssign|(Sparse)?Apply)\w*"
)
_BY_ROWS = re.compile(
    r"Resource(Gather(Nd)?|Scatter\w*|SparseApply\w*)|VarIsInitializedOp|VariableShape"
)  # or of no value
_UPDATES = re.compile(r"Resource(Sparse)?Apply\w*")  # these update a variable and its slots, which are all as large
_MARK = "_captured"  # attribute of a variable that a function captured
_HANDING_ON = ENTERS | SWITCHES | {"Identity"}


def captured(graph: Graph) -> dict[int, list[int]]:
    """The captured variables of unknown size, and the ops that use each; rows of nodes.

    They are placeholders that are handles of variables, and tables of the graph's own.
    """
    found = {}
    for row in [row for row, op in enumerate(graph.ops) if op in PLACEHOLDERS]:
        outputs = graph.outputs(row)
        if outputs and graph.tensor_dtype[outputs[0]] == RESOURCE:
            users = _users(graph, row)
            if users:
                found[row] = users
    tables = [
        row for row, attrs in enumerate(graph.attrs) if _MARK in attrs and -1 in (shape_of(attrs["shape"].shape) or ())
    ]
    return {**found, **{row: _users(graph, row) for row in tables}}


def is_table(graph: Graph, row: int) -> bool:
    """Tell whether that captured variable of unknown size lacks nothing but the number of its rows.

    The step takes rows of it alone, so no time hangs on how many there are.
    """
    return graph.ops[row] not in PLACEHOLDERS


def read_whole(graph: Graph, users: Iterable[int]) -> bool:
    """Tell whether one of these ops reads all of a variable, so that a file with the shapes of tensors says its size.

    A table of which rows are gathered alone is of unknown size in each file.
    """
    return any(graph.ops[row] == "ReadVariableOp" for row in users)


def said_by(graph: Graph, users: Iterable[int]) -> Shape | None:
    """The sides of a variable that its users say: what reads it says its rank, what gathers rows all but the first."""
    for node in users:
        made = [graph.tensor_shape[row] for row in graph.outputs(node)][:1]
        shape = made[0] if made else None
        if shape is not None and graph.ops[node] == "ReadVariableOp":
            return shape
        if shape is not None and graph.ops[node] == "ResourceGather":
            picked = graph.tensor_shape[graph.edge_tensor[graph.in_ptr[node] + 1]]
            if picked is not None:
                return (-1, *shape[len(picked) :])
    return None


def own_variables(graph: Graph, shapes: Mapping[str, Shape] = {}) -> Graph:
    """The graph with a VarHandleOp in place of each placeholder that is a variable's handle; a note says how many.

    `shapes` gives the shapes of some variables. The others' are those of the ops that read or assign them, or of a
    variable that is updated together with them. A table of which only rows are taken has an unknown number of them.
    Another one whose shape nothing says stays a placeholder, with the sides that are known beside it.
    """
    ops, attrs, held = list(graph.ops), list(graph.attrs), captured(graph)
    found = _shapes(graph, held, shapes)
    for row in held.keys() - found.keys():
        sides = said_by(graph, held[row])
        if sides is not None and -1 not in sides[1:] and all(_BY_ROWS.fullmatch(ops[user]) for user in held[row]):
            found[row] = sides
        elif sides is not None and HANDLE_SHAPES not in attrs[row]:
            attrs[row] = {**attrs[row], HANDLE_SHAPES: shaped([shape_message(sides)])[SHAPES]}
    made = sum(not is_table(graph, row) for row in found)
    for row, shape in found.items():
        ops[row], attrs[row] = "VarHandleOp", _handle(graph, row, held[row], shape)
    if not made:
        return replace(graph, attrs=tuple(attrs)) if held else graph
    how = "handed in as a resource, is" if made == 1 else "handed in as resources, are"
    note = f"{counted(made, 'variable')} that a function captured, {how} taken as its own"
    return replace(graph, ops=tuple(ops), attrs=tuple(attrs)).with_notes(note)


def captures(graph: Graph) -> bool:
    """Tell whether the graph is that of a function that captures variables, also where they are its own already."""
    return any(_MARK in attrs for attrs in graph.attrs) or bool(captured(graph))


def fed_shapes(graph: Graph, feeds: Mapping[str, Shape]) -> Mapping[str, Shape]:
    """The feeds of a graph, as the file has it, without those that say how large captured variables are."""
    held = {graph.names[row] for row in captured(graph)}
    return {name: shape for name, shape in feeds.items() if name.removesuffix(":0") not in held}


def _users(graph: Graph, row: int) -> list[int]:
    """The ops on a handle, if they are those of a variable; in ascending order."""
    inside = closure([row], lambda at: [one for one in readers(graph, at) if graph.ops[one] in _HANDING_ON])
    reached = {one for at in inside for one in readers(graph, at)}
    return sorted(at for at in reached if _OF_VARIABLE.fullmatch(graph.ops[at]))


def _shapes(graph: Graph, held: Mapping[int, list[int]], told: Mapping[str, Shape]) -> dict[int, Shape]:
    """The shapes of variables, as far as they are told, or the ops on them say them; in ascending order."""
    found: dict[int, Shape] = {}
    together = dict[int, list[int]]()  # update -> the variables that it changes
    for row, users in held.items():
        name = graph.names[row]
        shape = told.get(name, told.get(f"{name}:0", _whole(graph, row, users)))
        if shape is not None and -1 not in shape:
            found[row] = shape
        for user in users:
            if _UPDATES.fullmatch(graph.ops[user]):
                together.setdefault(user, []).append(row)
    for rows in together.values():
        known = [found[row] for row in rows if row in found]
        found.update((row, known[0]) for row in rows if known and row not in found)
    return {row: found[row] for row in held if row in found}


def _whole(graph: Graph, handle: int, users: list[int]) -> Shape | None:
    """The shape of a variable, as it is written beside its handle, or by ops that read or assign all; None: none says.

    Only a graph in memory has it beside the handle.
    """
    beside = graph.attrs[handle].get(HANDLE_SHAPES)
    if beside is not None and beside.list.shape:
        return shape_of(beside.list.shape[0])
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
    kept = {key: value for key, value in graph.attrs[row].items() if key.startswith("_") and key != HANDLE_SHAPES}
    return {
        **kept,
        **shaped([TensorShapeProto()]),
        "dtype": next(types, AttrValue(type=1)),
        "shape": AttrValue(shape=shape_message(shape)),
        "shared_name": AttrValue(s=graph.names[row].encode()),
        "container": AttrValue(s=b""),
        _MARK: AttrValue(b=True),
    }
