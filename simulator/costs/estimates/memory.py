"""Memory of a step before it is placed: what stays as long as it lasts, and its footprint.

    footprint = variables, constants and feeds, as far as they are read + the most that outputs hold together

The footprint is the most that a step touches and holds if its ops run one by one, in the order of the file. What it
writes over was touched a footprint ago: in a large step it left the cache that cores share since. The footprint knows
nothing of devices, or of buffers that kernels write over. So it is known before a placement, and equal for all copies
of a tower.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from simulator.columns import Flags, Ids, Ints, ints
from simulator.graph.dataflow import data_inputs
from simulator.graph.dtypes import STRING
from simulator.graph.graph import Attrs, Graph
from simulator.graph.messages import Proto
from simulator.graph.op_classes import CONSTANTS, STACK_PUSHES, VARIABLES
from simulator.graph.tensors import MAX_RANK, MAX_TENSOR_BYTES, shape_of, size_of
from simulator.units import Bytes
from simulator.wording import by_count

_TABLES = ("HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2", "MutableHashTableOfTensors")
_UNSIZED = frozenset((*_TABLES, "MutableHashTableOfTensorsV2", "MutableDenseHashTable", "MutableDenseHashTableV2"))
NO_KERNEL = -1  # of `footprint_bytes`: the node hands its inputs on, or computes nothing
_KEEPING = STACK_PUSHES | {"TensorListPushBack"}  # in a loop they keep a value of each iteration
_FED = frozenset({"Placeholder", "PlaceholderV2"})  # the client's call keeps the value
_BY_ROWS = re.compile(r"(Resource)?(Gather(V2|Nd)?|Scatter\w+|SparseApply\w+)")  # touch the rows that they name


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


class _Use(NamedTuple):
    """A kernel's use of memory. A tensor that an op hands on lies in the buffer of the tensor that was made."""

    turn: int
    node: int
    taken: list[int]  # buffers, one for each input
    made: range  # tensors, each in a buffer of its own


def _uses(graph: Graph, runs: Flags, moved: Ints, handing: Ids) -> Iterator[_Use]:
    """The kernels of the nodes that run, one by one in the order of the file.

    `moved` [N] are the bytes that a node's kernel moves, or `NO_KERNEL`. Such nodes hand an input on, by `handing` [N]
    or the first.
    """
    inputs, outputs, slots = data_inputs(graph), graph.tensor_ptr.tolist(), np.maximum(handing, 0).tolist()
    buffer = list(range(len(graph.tensor_node)))  # of each tensor: the tensor that was made there
    bytes_of = moved.tolist()
    for turn, node in enumerate(_order(graph, runs)):
        taken, given = [buffer[tensor] for tensor in inputs[node]], range(outputs[node], outputs[node + 1])
        if bytes_of[node] != NO_KERNEL:
            yield _Use(turn, node, taken, given)
        elif taken:
            for port, tensor in enumerate(given):
                buffer[tensor] = _handed(taken, port, len(given), slots[node])
            yield _Use(turn, node, taken, range(0))


def _order(graph: Graph, runs: Flags) -> list[int]:
    return [node for node in graph.topological.tolist() if runs[node]]


def footprint_bytes(graph: Graph, runs: Flags, moved: Ints, handing: Ids, inside: Flags) -> Bytes | None:
    """The footprint of the nodes that run; None where loops keep values, as trips decide how many.

    `moved` [N] are the bytes that a node's kernel moves, or `NO_KERNEL`. Such nodes hand an input on, by `handing` [N]
    or the first. `inside` [N] are the nodes in loops. Tensors of unknown size count no bytes. A kernel touches half of
    what it moves of a variable that it takes by rows: an update reads and writes them.
    """
    order = _order(graph, runs)
    if any(inside[node] and graph.ops[node] in _KEEPING for node in order):
        return None
    outputs, sizes = graph.tensor_ptr.tolist(), np.maximum(graph.tensor_bytes, 0).tolist()
    last: dict[int, int] = {}  # buffer -> the last turn in which an op reads it
    touched: dict[int, Bytes] = {}  # buffer -> the most that a kernel touches of it
    made: list[tuple[int, int]] = []  # turns and tensors
    for use in _uses(graph, runs, moved, handing):
        last.update(dict.fromkeys(use.taken, use.turn))
        if moved[use.node] != NO_KERNEL:
            made += [(use.turn, tensor) for tensor in use.made]
            most = int(moved[use.node]) // 2 if _BY_ROWS.fullmatch(graph.ops[use.node]) else _ALL
            for one in use.taken:
                touched[one] = max(most, touched.get(one, 0))
    change: list[Bytes] = [0] * (len(order) + 1)  # of what outputs hold, by turn
    for turn, tensor in made:
        change[turn] += sizes[tensor]
        change[max(turn, last.get(tensor, 0)) + 1] -= sizes[tensor]  # what a loop hands back is read before
    resident = resident_bytes(graph)[0].tolist()
    stays = [(resident[node] or sizes[outputs[node]], outputs[node]) for node in order if _stays(graph, node, resident)]
    held: Bytes = sum(min(size, touched.get(tensor, 0)) for size, tensor in stays)
    return held + max(accumulate(change))


_ALL = 2**62


def far_weights(graph: Graph, runs: Flags, moved: Ints, handing: Ids, inside: Flags) -> Ints:
    """[N] bytes of variables and constants that a kernel reads, and that nothing touched since the step before.

    A step takes weights from afar twice, on the way forward and for gradients. Of more readers each counts its part.
    Updates, which take a variable itself, lookups, and kernels in loops, which find it near, count none. Arguments are
    those of `footprint_bytes`.
    """
    resident, outputs = resident_bytes(graph)[0].tolist(), graph.tensor_ptr.tolist()
    weights = {outputs[node]: size for node, size in enumerate(resident) if size and outputs[node] < outputs[node + 1]}
    inputs = data_inputs(graph)
    read: list[tuple[int, int]] = []  # nodes and buffers
    for use in _uses(graph, runs, moved, handing):
        op = graph.ops[use.node]
        if moved[use.node] != NO_KERNEL and not inside[use.node] and not _BY_ROWS.fullmatch(op):
            itself = {one for one in inputs[use.node] if graph.ops[graph.tensor_node[one]] in VARIABLES}
            read += [(use.node, one) for one in dict.fromkeys(use.taken) if one in weights and one not in itself]
    readers = Counter(one for _, one in read)
    far = [0] * len(graph)
    for node, one in read:
        far[node] += min(int(moved[node]), weights[one] * min(_FROM_AFAR, readers[one]) // readers[one])
    return ints(far)


_FROM_AFAR = 2  # times that a step takes weights


def _stays(graph: Graph, node: int, resident: Sequence[int]) -> bool:
    """Whether the node's first output is there before and after the step."""
    return (resident[node] > 0 or graph.ops[node] in _FED) and graph.tensor_ptr[node] < graph.tensor_ptr[node + 1]


def _handed(taken: Sequence[int], port: int, outputs: int, slot: int) -> int:
    """The input that an output is, of an op that hands its inputs on."""
    return taken[port] if outputs == len(taken) else taken[min(slot, len(taken) - 1)]
