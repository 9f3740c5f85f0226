"""Memory that stays as long as the step lasts: variables, constants and tables."""

from __future__ import annotations

from collections import Counter

from simulator.columns import Ints, ints
from simulator.graph.dtypes import STRING
from simulator.graph.graph import Attrs, Graph
from simulator.graph.messages import Proto
from simulator.graph.op_classes import CONSTANTS, VARIABLES
from simulator.graph.tensors import MAX_RANK, MAX_TENSOR_BYTES, shape_of, size_of
from simulator.wording import by_count

_TABLES = ("HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2", "MutableHashTableOfTensors")
_UNSIZED = frozenset((*_TABLES, "MutableHashTableOfTensorsV2", "MutableDenseHashTable", "MutableDenseHashTableV2"))


def resident_bytes(graph: Graph) -> tuple[Ints, tuple[str, ...]]:
    """[N] resident bytes per node, 0 for most, and notes on nodes of unknown size.

    An optimizer's slots are variables themselves. A VarHandleOp hands out a handle; its size is in its attributes. The
    graph does not hold the size of a lookup table, which counts 0 and gets a note.
    """
    held = [0] * len(graph)
    unknown: Counter[str] = Counter()
    for node, op in enumerate(graph.ops):
        if op in VARIABLES:
            size = _declared_bytes(graph.attrs[node])
            if size < 0 and op != "VarHandleOp":
                size = _output_bytes(graph, node)
        elif op in CONSTANTS:
            size = _constant_bytes(graph, node)
        elif op in _UNSIZED:
            size = -1
        else:
            continue
        held[node] = size if 0 <= size <= MAX_TENSOR_BYTES else 0
        if not 0 <= size <= MAX_TENSOR_BYTES:
            unknown[op] += 1
    note = f"memory held by {unknown.total()} nodes is unknown and counts 0: {by_count(unknown)}"
    return ints(held), (note,) if unknown else ()


def _declared_bytes(attrs: Attrs) -> int:
    """Bytes by the attributes `dtype` and `shape`; -1 if they are missing or leave the size open."""
    return _bytes_of(attrs["dtype"].type, attrs["shape"].shape) if "dtype" in attrs and "shape" in attrs else -1


def _output_bytes(graph: Graph, node: int) -> int:
    outputs = graph.outputs(node)
    return int(graph.tensor_bytes[outputs[0]]) if outputs else -1


def _constant_bytes(graph: Graph, node: int) -> int:
    """Bytes of a constant; strings by their length in the file."""
    size = _output_bytes(graph, node)
    value = graph.attrs[node].get("value")
    if size >= 0 or value is None:
        return size
    held = value.tensor
    letters = sum(map(len, held.string_val)) or len(held.tensor_content)
    return letters if held.dtype == STRING else _bytes_of(held.dtype, held.tensor_shape)


def _bytes_of(dtype: int, shape: Proto) -> int:
    return -1 if len(shape.dim) > MAX_RANK else size_of(dtype, shape_of(shape))
