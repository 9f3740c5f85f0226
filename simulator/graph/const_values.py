"""Values of small constants: sizes, counts and steps that decide the course of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simulator.graph.dataflow import values_in
from simulator.graph.dtypes import number_of
from simulator.graph.graph import Attrs, Graph
from simulator.graph.messages import Proto

MAX_ELEMENTS = 16  # of a constant that is read, unless more are asked for
CARRIERS = frozenset(("Identity", "Enter", "RefEnter"))  # between a constant and its reader
MOST_CARRIERS = 8

_NUMBERS: Mapping[int, tuple[str, str]] = {  # DataType -> field of a TensorProto, how it is packed
    number_of(name): (field, packed)
    for name, field, packed in (
        ("FLOAT", "float_val", "<f4"),
        ("DOUBLE", "double_val", "<f8"),
        ("INT32", "int_val", "<i4"),
        ("UINT8", "int_val", "<u1"),
        ("INT16", "int_val", "<i2"),
        ("INT8", "int_val", "<i1"),
        ("INT64", "int64_val", "<i8"),
        ("BOOL", "bool_val", "?"),
        ("UINT32", "uint32_val", "<u4"),
    )
}


def elements(attrs: Attrs, most: int = MAX_ELEMENTS) -> list[float] | None:
    """The elements of a Const with these attributes, in row-major order; None for no numbers or more than `most`."""
    attr = attrs.get("value")
    if attr is None or not attr.HasField("tensor") or attr.tensor.dtype not in _NUMBERS:
        return None
    tensor: Proto = attr.tensor
    count = 1
    for dim in tensor.tensor_shape.dim:
        count *= max(int(dim.size), 0)
    if tensor.tensor_shape.unknown_rank or count > most:
        return None
    name, packed = _NUMBERS[tensor.dtype]
    if tensor.tensor_content:
        if len(tensor.tensor_content) != count * np.dtype(packed).itemsize:
            return None
        found = np.frombuffer(tensor.tensor_content, packed).tolist()
    else:
        found = list(getattr(tensor, name))[:count] or [0] * min(count, 1)  # all zeros are not written
        found += found[-1:] * (count - len(found))  # the last one stands for all that follow
    return [float(value) if isinstance(value, float) else int(value) for value in found]


def constant(graph: Graph, row: int) -> list[float] | None:
    """The elements of a node if it is a Const that `elements` can read."""
    return elements(graph.attrs[row]) if graph.ops[row] == "Const" else None


def packed(tensor: Proto, numbers: Sequence[float]) -> None:
    """Write these elements into a TensorProto of a type of numbers, in row-major order."""
    name, form = _NUMBERS[tensor.dtype]
    tensor.ClearField(name)
    tensor.tensor_content = np.array(numbers, form).tobytes()


def composed(graph: Graph, tensor: int) -> Sequence[float] | None:
    """The elements of a tensor, if it is a constant that perhaps was handed on, or a row of such constants.

    A Tensordot joins the axes that stay with those that are summed into the order of its transpose. Its gradient
    inverts that order.
    """
    node = _maker(graph, tensor)
    if graph.ops[node] != "InvertPermutation":
        return _row(graph, node)
    taken = [int(graph.edge_tensor[edge]) for edge in values_in(graph, node)]
    order = _row(graph, _maker(graph, taken[0])) if taken else None
    if order is None or sorted(order) != list(range(len(order))):
        return None
    return sorted(range(len(order)), key=order.__getitem__)


def _maker(graph: Graph, tensor: int) -> int:
    """The node that made the tensor, past those that hand it on."""
    node = int(graph.tensor_node[tensor])
    for _ in range(MOST_CARRIERS):
        if graph.ops[node] not in CARRIERS:
            break
        node = int(graph.edge_src[graph.in_ptr[node]])
    return node


def _row(graph: Graph, node: int) -> Sequence[float] | None:
    """The elements of a constant, or of constants that are joined."""
    if graph.ops[node] != "ConcatV2":
        return constant(graph, node)
    parts = [constant(graph, int(graph.edge_src[edge])) for edge in values_in(graph, node)][:-1]  # the last is the axis
    known = [part for part in parts if part is not None]
    return [number for part in known for number in part] if parts and len(known) == len(parts) else None
