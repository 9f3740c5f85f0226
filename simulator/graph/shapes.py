"""Shapes and sizes of all tensors: from the file, from feeds, and from TensorFlow where these are not enough.

A file may have shapes (`_output_shapes`), with an unknown first dimension for the batch. At the edge of the graph
(placeholders, dequeues, iterators) the batch replaces it; the other shapes follow by inference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.columns import Flags, Ids, Ints, flags
from simulator.errors import GraphError, OracleError
from simulator.graph.dtypes import REF, STRING
from simulator.graph.graph import Graph, Shape
from simulator.graph.step import Step, exchange
from simulator.graph.tensors import shape_of, tensor_sizes
from simulator.units import is_whole
from simulator.wording import counted, some

Infer: TypeAlias = Callable[[Graph, Mapping[str, Shape]], Sequence[Shape | None]]

_PLACEHOLDERS = frozenset(("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg"))
# Tensors from a pipeline have a batch dimension, too, whose size no other node gives.
_ITERATORS = frozenset(("IteratorGetNext", "IteratorGetNextSync"))
_PIPELINES = _ITERATORS | {"QueueDequeue", "QueueDequeueV2", "QueueDequeueUpTo", "QueueDequeueUpToV2"}
_DECLARING = _PLACEHOLDERS | {"Variable", "VariableV2", "TemporaryVariable"}
_LEGACY_PRODUCER = 21  # until then a placeholder's scalar shape says "unknown" (tensorflow/core/ops/array_ops.cc)
# The sizes of these outputs depend on values: inference gives neither them nor the sizes that follow from them.
_UNIQUES = frozenset(("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "ListDiff"))
_DECODERS = frozenset(("DecodeRaw", "DecodeJpeg", "DecodePng", "DecodeImage", "DecodeGif", "DecodeBmp"))
_RESTORES = frozenset(("Restore", "RestoreV2", "RestoreSlice"))
_BY_VALUE = _UNIQUES | _DECODERS | _RESTORES | {"Where", "BroadcastGradientArgs", "DynamicPartition"}
_ASSIGNS = frozenset(("Assign", "AssignVariableOp"))


def with_shapes(graph: Graph, *, batch: int = 1, feeds: Mapping[str, Shape] = {}, infer: Infer | None = None) -> Graph:
    """The same graph with the shapes of its tensors for that batch and these feeds.

    `feeds` gives the shape of a tensor, "node:port" or "node". The unknown first dimension of every other placeholder,
    dequeue and iterator is `batch`. `infer` takes the graph and the shapes at its edge and returns a shape per tensor.
    It is asked only when a given shape contradicts the file's, or when sizes stay unknown. Without it, or when it
    refuses, a tensor whose only unknown dimension is the first one follows `batch`. Shapes that depend on a
    contradicted one are unknown then. Notes list the assumptions. Raises GraphError for an unknown node or port, for
    another rank than the file's, for a negative dimension or a batch below 1, and for feeds with which TensorFlow
    refuses the graph while it takes it without them.
    """
    if not is_whole(batch) or batch < 1:
        raise GraphError(f"a batch of {batch!r} is not possible; give a whole number from 1")
    if not isinstance(feeds, Mapping):
        raise GraphError(f"feeds maps the names of tensors to their shapes; it is {feeds!r}")
    shapes = _declared(graph)
    given = {_tensor(graph, name): shape for name, shape in feeds.items()}
    for row, shape in given.items():
        _check(graph, row, shapes[row], shape)
    batched = _batched(graph, shapes, batch, given)
    contradicted = [row for row, shape in given.items() if _contradicts(shape, shapes[row])]
    edge = {**batched, **given}
    for row, shape in edge.items():
        shapes[row] = shape
    _restore(graph, shapes)
    notes = []
    if batched:
        names = [graph.tensor_name(row) for row in batched]
        notes.append(f"batch {batch} is the unknown first dimension of {some(names)}")
    if contradicted or _inferable(graph, shapes):
        notes += _complete(graph, shapes, edge, given, contradicted, batch, infer)
    sizes, _ = tensor_sizes(graph.tensor_dtype.tolist(), shapes)
    notes += _wanted(graph, shapes, sizes)
    return replace(graph, tensor_shape=tuple(shapes), tensor_bytes=sizes, notes=(*graph.notes, *notes))


def _declared(graph: Graph) -> list[Shape | None]:
    """[T] the file's shapes, else those that placeholders, variables and constants declare."""
    shapes = list(graph.tensor_shape)
    first = graph.tensor_ptr.tolist()
    for node, (op, attrs) in enumerate(zip(graph.ops, graph.attrs, strict=True)):
        row = first[node]
        if first[node + 1] == row or shapes[row] is not None:
            continue
        if op in _DECLARING and "shape" in attrs:
            shape = shape_of(attrs["shape"].shape)
            legacy = op == "Placeholder" and graph.producer <= _LEGACY_PRODUCER and shape == ()
            shapes[row] = None if legacy else shape
        elif op == "Const" and "value" in attrs:
            shapes[row] = shape_of(attrs["value"].tensor.tensor_shape)
    return shapes


def _restore(graph: Graph, shapes: list[Shape | None]) -> None:
    """Set, in place, the shape of a value that is assigned to a variable: it is the variable's."""
    first, taken = graph.in_ptr.tolist(), graph.edge_tensor
    for node, op in enumerate(graph.ops):
        if op not in _ASSIGNS or first[node + 1] - first[node] < 2:
            continue
        variable, row = (int(row) for row in taken[first[node] : first[node] + 2])
        shape = shapes[variable] if op == "Assign" else _handle_shape(graph, int(graph.tensor_node[variable]))
        while shape is not None and -1 not in shape and row >= 0 and _is_open(shapes[row]):
            shapes[row] = shape
            source = int(graph.tensor_node[row])
            row = int(taken[first[source]]) if graph.ops[source] == "Identity" else -1


def _is_open(shape: Shape | None) -> bool:
    return shape is None or -1 in shape


def _handle_shape(graph: Graph, node: int) -> Shape | None:
    attrs = graph.attrs[node]
    return shape_of(attrs["shape"].shape) if graph.ops[node] == "VarHandleOp" and "shape" in attrs else None


def _inferable(graph: Graph, shapes: Sequence[Shape | None]) -> bool:
    """Whether a tensor of unknown size has inputs of known size, so that inference can help."""
    sizes, _ = tensor_sizes(graph.tensor_dtype.tolist(), shapes)
    unknown = unsized(graph, sizes)
    if not unknown.any():
        return False
    open_nodes = np.zeros(len(graph), bool)
    open_nodes[graph.tensor_node[unknown]] = True
    data = graph.edge_tensor >= 0
    explained = np.zeros(len(graph), bool)
    explained[graph.edge_dst[data][unknown[graph.edge_tensor[data]] & ~graph.edge_back[data]]] = True
    by_value = np.fromiter((op in _BY_VALUE for op in graph.ops), bool, len(graph))
    fed = np.fromiter((op in _PLACEHOLDERS for op in graph.ops), bool, len(graph))
    return bool((open_nodes & ~explained & ~by_value & ~fed).any())


def _tensor(graph: Graph, name: str) -> int:
    """Row of the tensor "node:port"; "node" means its first output."""
    node, colon, port = name.rpartition(":")
    if not colon or not port.isdecimal():
        node, port = name, "0"
    row = graph.row(node)
    first, last = graph.tensor_ptr[row], graph.tensor_ptr[row + 1]
    if len(port) > 6 or int(port) >= last - first:
        raise GraphError(f"{graph.source}: {node!r} ({graph.ops[row]}) has no output {port} to feed", node=node)
    return int(first) + int(port)


def _check(graph: Graph, row: int, known: Shape | None, shape: Shape) -> None:
    name = graph.tensor_name(row)
    if not isinstance(shape, Sequence) or not all(is_whole(side) for side in shape):
        raise GraphError(f"{name!r} is fed the shape {shape!r}; give its dimensions as whole numbers", node=name)
    if any(side < 0 for side in shape):
        shown = ",".join(map(str, shape))
        raise GraphError(f"the shape {shown} fed to {name!r} has a negative dimension", node=name)
    if known is not None and len(known) != len(shape):
        raise GraphError(
            f"{name!r} has {len(known)} dimensions in {graph.source} ({_written(known)}) but is fed {len(shape)} "
            f"({_written(shape)}); give {len(known)}",
            node=name,
        )


def _batched(graph: Graph, shapes: Sequence[Shape | None], batch: int, given: Mapping[int, Shape]) -> dict[int, Shape]:
    """The tensors at the graph's edge whose first dimension is unknown and becomes the batch."""
    first = graph.tensor_ptr.tolist()
    filled: dict[int, Shape] = {}
    for node, op in enumerate(graph.ops):
        if op in _PLACEHOLDERS or op in _PIPELINES:
            for row in range(first[node], first[node + 1]):
                shape = shapes[row]
                if shape and shape[0] < 0 and row not in given:
                    filled[row] = (batch, *shape[1:])
    return filled


def _contradicts(shape: Shape, known: Shape | None) -> bool:
    return known is not None and any(a != b >= 0 for a, b in zip(shape, known, strict=True))


def _complete(
    graph: Graph,
    shapes: list[Shape | None],
    edge: Mapping[int, Shape],
    given: Mapping[int, Shape],
    contradicted: Sequence[int],
    batch: int,
    infer: Infer | None,
) -> list[str]:
    """Set unknown and contradicted shapes, in place; return notes."""
    for row in _depending(graph, contradicted):
        if row not in edge:
            shapes[row] = None
    if infer is not None:
        try:
            found = infer(graph, _named(graph, edge))
        except OracleError as refusal:
            if given and refusal.refusal:
                _blame_feeds(graph, edge, given, infer, refusal.refusal)
            return [f"TensorFlow could not infer the shapes: {refusal}", *_follow(shapes, edge, batch)]
        for row, shape in enumerate(found):
            if row not in edge:
                shapes[row] = _merged(shapes[row], shape)
        return []
    return _follow(shapes, edge, batch)


def _named(graph: Graph, edge: Mapping[int, Shape]) -> dict[str, Shape]:
    return {graph.tensor_name(row): shape for row, shape in edge.items()}


def _blame_feeds(
    graph: Graph, edge: Mapping[int, Shape], given: Mapping[int, Shape], infer: Infer, sentence: str
) -> None:
    """Raise GraphError if TensorFlow takes the graph without the user's shapes: then these are at fault."""
    try:
        infer(graph, _named(graph, {row: shape for row, shape in edge.items() if row not in given}))
    except OracleError:
        return  # it refuses the graph itself: a note has that
    fed = ", ".join(f"{name}={','.join(map(str, shape))}" for name, shape in _named(graph, given).items())
    raise GraphError(f"{graph.source} does not fit the feeds ({fed}); TensorFlow says: {sentence}")


def _wanted(graph: Graph, shapes: Sequence[Shape | None], sizes: Ints) -> list[str]:
    """A note on the placeholders whose size only a feed can give."""
    rows = np.flatnonzero(unsized(graph, sizes)).tolist()
    names = [
        f"{graph.tensor_name(row)} ({_written(shapes[row])})"
        for row in rows
        if graph.ops[graph.tensor_node[row]] in _PLACEHOLDERS
    ]
    return (
        [f"the size of {some(names)} is unknown, and so is what depends on it: give the shape as a feed"]
        if names
        else []
    )


def _written(shape: Shape | None) -> str:
    if shape is None:
        return "unknown rank"
    return ",".join("?" if side < 0 else str(side) for side in shape) or "a scalar"


def _merged(ours: Shape | None, inferred: Shape | None) -> Shape | None:
    """The known dimensions of both shapes; TensorFlow's where they disagree."""
    if inferred is None or ours is None or len(ours) != len(inferred):
        return ours if inferred is None else inferred
    return tuple(theirs if theirs >= 0 else mine for mine, theirs in zip(ours, inferred, strict=True))


def _follow(shapes: list[Shape | None], edge: Mapping[int, Shape], batch: int) -> list[str]:
    """Without inference: a tensor whose only unknown dimension is the first one follows the batch."""
    count = 0
    for row, shape in enumerate(shapes):
        if shape and shape[0] < 0 and min(shape[1:], default=0) >= 0 and row not in edge:
            shapes[row] = (batch, *shape[1:])
            count += 1
    return (
        [f"the first dimension of {counted(count, 'tensor')}, which alone is unknown, follows batch {batch}"]
        if count
        else []
    )


def _depending(graph: Graph, fed: Sequence[int]) -> list[int]:
    """Sorted tensors that depend on a fed one, without the fed ones."""
    if not fed:
        return []
    reached = np.zeros(len(graph.tensor_node), bool)
    reached[list(fed)] = True
    while True:  # one round per level of the graph; a level costs a pass over the edges
        edges = (graph.edge_tensor >= 0) & reached[graph.edge_tensor]
        nodes = np.zeros(len(graph), bool)
        nodes[graph.edge_dst[edges]] = True
        wider = reached | nodes[graph.tensor_node]
        if (wider == reached).all():
            break
        reached = wider
    reached[list(fed)] = False
    return [int(row) for row in np.flatnonzero(reached)]


# --- unknown sizes ---------------------------------------------------------------------------------------------------


# Workspace that cuDNN passes from forward to backward, whose size TensorFlow does not know.
_OPAQUE = frozenset((("FusedBatchNormV3", 5), ("CudnnRNN", 3), ("CudnnRNNV2", 3), ("CudnnRNNV3", 3)))


def unsized(graph: Graph, sizes: Ints) -> Flags:
    """[T] true for a tensor with a reader whose size is unknown though its type has one.

    Strings, whose size is never known, and workspace do not count.
    """
    return _unsized(graph, sizes, graph.edge_tensor)


def unknown_shapes(graph: Graph, step: Step | None = None) -> Mapping[str, int]:
    """Number of tensors of unknown size per op, most first, ties by name; they count 0 bytes.

    As `unsized`; in a step only tensors that its nodes or its client read, fed ones included.
    """
    read = graph.edge_tensor
    if step is not None:
        client = exchange(graph, step)
        read = np.concatenate([read[client.edges], client.fetched])
    rows = np.flatnonzero(_unsized(graph, graph.tensor_bytes, read))
    counts = Counter(graph.ops[graph.tensor_node[row]] for row in rows.tolist())
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _unsized(graph: Graph, sizes: Ints, taken: Ids) -> Flags:
    """[T] as `unsized`, for the readers `taken`, in which -1 is a control edge."""
    read = np.zeros(len(sizes), bool)
    read[taken[taken >= 0]] = True
    rows: npt.NDArray[np.bool_] = read & (sizes < 0) & (graph.tensor_dtype % REF != STRING)
    for row in np.flatnonzero(rows).tolist():
        rows[row] = (graph.ops[graph.tensor_node[row]], int(graph.tensor_port[row])) not in _OPAQUE
    return flags(rows)
