"""Memory that a node holds for as long as the graph is loaded: variables and constants."""

from __future__ import annotations

from collections import Counter
from math import prod

from simulator.columns import Ints, ints
from simulator.graph.dtypes import SIZE, STRING, base
from simulator.graph.graph import Attrs, Graph
from simulator.graph.tensors import MAX_BYTES
from simulator.wording import by_count

MAX_RANK = 254  # TensorShape::MaxDimensions, tensorflow/core/framework/tensor_shape.h
_VARIABLES = frozenset(("Variable", "VariableV2", "VarHandleOp"))
_CONSTANTS = frozenset(("Const", "HostConst", "_EagerConst"))
_TABLES = ("HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2", "MutableHashTableOfTensors")
_UNSIZED = frozenset((*_TABLES, "MutableHashTableOfTensorsV2", "MutableDenseHashTable", "MutableDenseHashTableV2"))


def resident_bytes(graph: Graph) -> tuple[Ints, tuple[str, ...]]:
    """[N] resident bytes per node, 0 for most, and notes on what could not be sized.

    An optimizer's slots are variables themselves. A VarHandleOp hands out a handle; its size is in its attributes. How
    many entries a lookup table has is not in the graph: it counts nothing, and a note says so.
    """
    held = [0] * len(graph)
    unknown: Counter[str] = Counter()
    for node, op in enumerate(graph.ops):
        if op in _VARIABLES:
            size = _declared_bytes(graph.attrs[node])
            if size < 0 and op != "VarHandleOp":
                size = _output_bytes(graph, node)
        elif op in _CONSTANTS:
            size = _constant_bytes(graph, node)
        elif op in _UNSIZED:
            size = -1
        else:
            continue
        held[node] = size if 0 <= size <= MAX_BYTES else 0
        if not 0 <= size <= MAX_BYTES:
            unknown[op] += 1
    note = f"memory held by {unknown.total()} nodes is unknown and counts 0: {by_count(unknown)}"
    return ints(held), (note,) if unknown else ()


def _declared_bytes(attrs: Attrs) -> int:
    """Bytes of the attributes `dtype` and `shape`; -1 if they do not say."""
    if "dtype" not in attrs or "shape" not in attrs:
        return -1
    shape, size = attrs["shape"].shape, SIZE.get(base(attrs["dtype"].type), -1)
    sides = [side.size for side in shape.dim]
    if shape.unknown_rank or size < 0 or len(sides) > MAX_RANK or any(side < 0 for side in sides):
        return -1
    return int(prod(sides) * size)


def _output_bytes(graph: Graph, node: int) -> int:
    first, last = graph.tensor_ptr[node], graph.tensor_ptr[node + 1]
    return int(graph.tensor_bytes[first]) if last > first else -1


def _constant_bytes(graph: Graph, node: int) -> int:
    """Bytes of a constant; strings by their length in the file."""
    size = _output_bytes(graph, node)
    value = graph.attrs[node].get("value")
    if size >= 0 or value is None:
        return size
    proto = value.tensor
    if proto.dtype == STRING:
        return sum(map(len, proto.string_val)) or len(proto.tensor_content)
    sides = [side.size for side in proto.tensor_shape.dim]
    each = SIZE.get(proto.dtype, -1)
    return -1 if each < 0 or len(sides) > MAX_RANK or any(side < 0 for side in sides) else prod(sides) * each
