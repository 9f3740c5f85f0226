"""The tensor columns of a graph: number, types, shapes and sizes of each node's outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator import limits
from simulator.columns import Ids, Ints, ids, ints
from simulator.errors import GraphError
from simulator.graph.dtypes import RESOURCE, SIZE, VARIANT, base
from simulator.graph.graph import Attrs, Shape
from simulator.graph.messages import Proto, TensorShapeProto
from simulator.graph.ops import Types, check_inputs, outputs
from simulator.units import show_bytes
from simulator.wording import counted

MAX_TENSOR_BYTES = 2**55  # 32 PiB: sizes beyond it are nonsense, and a hundred of them still add up within 64 bits
MAX_RANK = 254  # TensorShape::MaxDimensions, tensorflow/core/framework/tensor_shape.h
SHAPES = "_output_shapes"
HANDLE_SHAPES = "_handle_shapes"  # attribute of a handle, as TensorFlow writes it for arguments: what it refers to


@dataclass(frozen=True, slots=True)
class EdgeColumns:
    """The source, port and destination of each input."""

    src: Ints  # [E] node
    port: Ints  # [E] output of that node; -1 for a control input
    dst: Ints  # [E] node
    in_ptr: Ints  # [N+1] first input of each node


@dataclass(frozen=True, slots=True)
class TensorColumns:
    """The tensor columns, and notes on them."""

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
    library: Mapping[str, Proto],
    edges: EdgeColumns,
    source: str,
    known: Mapping[int, Sequence[Shape | None]] = {},
) -> TensorColumns:
    """One row per output: types by the op's registration, shapes by `_output_shapes`, or as `known` has them by row.

    A node of an op that is not registered has as many outputs as its shapes list, or as its readers use. Raises
    GraphError for a port that its node lacks, and for an absurd number of outputs.
    """
    used = np.zeros(len(names), np.int64)
    np.maximum.at(used, edges.src, edges.port + 1)
    most, all_most = limits.CLAIMED.most, limits.TENSORS.most
    if len(used) and used.max() > most:
        _refuse_port(names, int(np.argmax(used)), most, edges, source)
    dtypes: list[int] = []
    shapes: list[Shape | None] = []
    counts: list[int] = []
    taken = np.bincount(edges.dst[edges.port >= 0], minlength=len(names)).tolist()  # data inputs
    asked: dict[tuple[str, int, int], tuple[Types | None, list[Shape | None], Attrs]] = {}
    for row, (op, attr, needed) in enumerate(zip(ops, attrs, used.tolist(), strict=True)):
        key = op, id(attr), taken[row]
        entry = asked.get(key)
        if entry is None:  # nodes share their attributes, which are held, so that their identities stay
            try:
                check_inputs(op, attr, taken[row])
                types, declared = outputs(op, attr, library), _shapes(attr[SHAPES]) if SHAPES in attr else []
            except GraphError as error:
                raise GraphError(f"{source}: node {names[row]!r}: {error}", node=names[row]) from None
            entry = asked[key] = types, declared if types is None else _fitted(declared, len(types)), attr
        types, declared, _ = entry
        given = known.get(row, declared)
        if types is None:
            types = (0,) * max(needed, min(len(given), most))
        elif len(types) < needed:
            _refuse_port(names, row, len(types), edges, source)
        dtypes += types
        if len(dtypes) > all_most:
            raise GraphError(
                f"{source} claims more than {limits.TENSORS.most:,} tensors; no real graph has so many. If this one "
                f"has, {limits.TENSORS.remedy}."
            )
        counts.append(len(types))
        shapes += given if len(given) == len(types) else _fitted(given, len(types))
    return _assembled(counts, dtypes, shapes)


def _assembled(counts: list[int], dtypes: list[int], shapes: list[Shape | None]) -> TensorColumns:
    sizes, absurd = tensor_sizes(dtypes, shapes)
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    node = np.repeat(np.arange(len(counts)), counts)
    most = show_bytes(MAX_TENSOR_BYTES)
    note = f"{counted(absurd, 'tensor')} with a claim to more than {most}, counted as of unknown size"
    return TensorColumns(
        ids(ptr),
        ids(node),
        ids(np.arange(len(node)) - ptr[node]),
        ids(dtypes),
        tuple(shapes),
        sizes,
        (note,) if absurd else (),
    )


def _fitted(shapes: Sequence[Shape | None], count: int) -> list[Shape | None]:
    """One shape per output: a missing one is unknown, a surplus one is dropped."""
    return [*shapes[:count], *[None] * (count - len(shapes))]


def _shapes(listed: Proto) -> list[Shape | None]:
    return [shape_of(shape) for shape in listed.list.shape]


def shape_of(shape: Proto) -> Shape | None:
    """The dimensions of a TensorShapeProto, -1 where one is unknown; None where the rank is."""
    if shape.unknown_rank:
        return None
    return tuple([max(dim.size, -1) for dim in shape.dim])


def sides_text(shape: Sequence[float]) -> str:
    """ "32,?,3": the dimensions, with a question mark for an unknown one."""
    return ",".join("?" if side < 0 else str(side) for side in shape)


def shape_message(shape: Shape | None) -> Proto:
    """A TensorShapeProto of these dimensions, as `shape_of` reads it."""
    return TensorShapeProto(unknown_rank=True) if shape is None else TensorShapeProto(dim=[{"size": n} for n in shape])


def tensor_sizes(dtypes: Sequence[int], shapes: Sequence[Shape | None]) -> tuple[Ints, int]:
    """Bytes per tensor, -1 where unknown, and the number of absurd sizes, which count as unknown."""
    sizes = []
    absurd = 0
    memo: dict[tuple[int, Shape | None], int] = {}
    for key in zip(dtypes, shapes, strict=True):
        size = memo.get(key)
        if size is None:
            size = memo[key] = size_of(*key)
        if size > MAX_TENSOR_BYTES:
            size = -1
            absurd += 1
        sizes.append(size)
    return ints(sizes), absurd


def completed(shape: Shape | None, other: Shape | None) -> Shape | None:
    """A shape with the dimensions of another one where it does not know its own."""
    if shape is None or other is None or len(shape) != len(other):
        return other if shape is None else shape
    return tuple([theirs if ours < 0 else ours for ours, theirs in zip(shape, other, strict=True)])


def size_of(dtype: int, shape: Shape | None) -> int:
    """Bytes of a tensor, -1 where unknown; of an absurd size some number above MAX_TENSOR_BYTES."""
    kind = base(dtype)
    if kind in (RESOURCE, VARIANT):
        return 0  # whatever its shape: a handle
    size = SIZE.get(kind, -1)
    if size < 0 or shape is None or -1 in shape:
        return -1
    for dimension in shape:
        size *= dimension
        if size > MAX_TENSOR_BYTES and 0 not in shape:
            break
    return size


def _refuse_port(names: Sequence[str], row: int, count: int, edges: EdgeColumns, source: str) -> None:
    edge = int(np.argmax((edges.src == row) & (edges.port >= count)))
    reader = names[int(edges.dst[edge])]
    few = count < limits.CLAIMED.most
    has = f"has only {counted(count, 'output')}" if few else f"can't have more than {count} ({limits.CLAIMED.remedy})"
    raise GraphError(
        f"{source}: node {reader!r} reads '{names[row]}:{int(edges.port[edge])}', but {names[row]!r} {has}. "
        "Mend the input, or write the file anew.",
        node=reader,
    )
