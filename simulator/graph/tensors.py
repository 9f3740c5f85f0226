"""The tensor columns of a graph: how many outputs each node has, of which type, shape and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.columns import Ids, Ints, ids, ints
from simulator.errors import GraphError
from simulator.graph.dtypes import RESOURCE, SIZE, VARIANT, base
from simulator.graph.graph import Attrs, Shape
from simulator.graph.ops import outputs

MAX_BYTES = 2**55  # 32 PiB: sizes beyond it are nonsense, and a hundred of them still add up within 64 bits
MAX_OUTPUTS = 1 << 16  # of one node
SHAPES = "_output_shapes"


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensor columns, and what the reader should know about them."""

    ptr: Ids  # [N+1]
    node: Ids  # [T]
    port: Ids  # [T]
    dtype: Ids  # [T]
    shape: tuple[Shape | None, ...]  # [T]
    nbytes: Ints  # [T]
    notes: tuple[str, ...]


def tensor_columns(
    names: Sequence[str],
    ops: Sequence[str],
    attrs: Sequence[Attrs],
    library: Mapping[str, Any],
    edge_src: Any,
    port: Any,
    edge_dst: Any,
    source: str,
) -> Tensors:
    """One row per output: types by the op's registration, shapes by `_output_shapes`.

    A node of an op that is not registered has as many outputs as its shapes list or its readers use.
    """
    used = np.zeros(len(names), np.int64)
    np.maximum.at(used, edge_src, port + 1)
    used_ports = used.tolist()
    dtypes: list[int] = []
    shapes: list[Shape | None] = []
    counts = []
    absurd = 0
    for row, (op, attr) in enumerate(zip(ops, attrs, strict=True)):
        types = outputs(op, attr, library)
        listed = attr.get(SHAPES)
        given = _shapes(listed) if listed is not None else ()
        if types is None:
            types = (0,) * max(used_ports[row], len(given))
        if len(types) < used_ports[row] or len(types) > MAX_OUTPUTS:
            _refuse_port(names, row, len(types), edge_src, port, edge_dst, source)
        dtypes += types
        counts.append(len(types))
        shapes += given if len(given) == len(types) else (*given[: len(types)], *(None,) * (len(types) - len(given)))
    sizes, absurd = tensor_sizes(dtypes, shapes)
    ptr = np.zeros(len(names) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    node = np.repeat(np.arange(len(names)), counts)
    note = f"{absurd} tensors claim more than {MAX_BYTES} bytes; their size counts as unknown"
    return Tensors(
        ids(ptr),
        ids(node),
        ids(np.arange(len(node)) - ptr[node]),
        ids(dtypes),
        tuple(shapes),
        sizes,
        (note,) if absurd else (),
    )


def _shapes(listed: Any) -> tuple[Shape | None, ...]:
    return tuple([shape_of(shape) for shape in listed.list.shape])


def shape_of(shape: Any) -> Shape | None:
    """The dimensions of a TensorShapeProto, -1 where one is unknown; None where the rank is."""
    if shape.unknown_rank:
        return None
    return tuple([max(dim.size, -1) for dim in shape.dim])


def tensor_sizes(dtypes: Sequence[int], shapes: Sequence[Shape | None]) -> tuple[Ints, int]:
    """Bytes per tensor, -1 where unknown, and how many sizes were refused as absurd."""
    sizes = []
    absurd = 0
    memo: dict[tuple[int, Shape | None], int] = {}
    for key in zip(dtypes, shapes, strict=True):
        size = memo.get(key)
        if size is None:
            size = memo[key] = _size(*key)
        if size > MAX_BYTES:
            size = -1
            absurd += 1
        sizes.append(size)
    return ints(sizes), absurd


def _size(dtype: int, shape: Shape | None) -> int:
    kind = base(dtype)
    if kind in (RESOURCE, VARIANT):
        return 0  # whatever its shape: a handle
    size = SIZE.get(kind, -1)
    if size < 0 or shape is None or -1 in shape:
        return -1
    for dimension in shape:
        size *= dimension
        if size > MAX_BYTES and 0 not in shape:
            break
    return size


def _refuse_port(
    names: Sequence[str], row: int, count: int, edge_src: Any, port: Any, edge_dst: Any, source: str
) -> None:
    if count > MAX_OUTPUTS:
        raise GraphError(f"{source}: node {names[row]!r} claims {count} outputs; that is absurd.", node=names[row])
    edge = int(np.argmax((edge_src == row) & (port >= count)))
    reader = names[int(edge_dst[edge])]
    raise GraphError(
        f"{source}: node {reader!r} reads '{names[row]}:{int(port[edge])}', but {names[row]!r} has only {count} "
        f"output{'s' * (count != 1)}.",
        node=reader,
    )
