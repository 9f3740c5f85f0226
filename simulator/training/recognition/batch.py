"""The batch of a training step: the tensors with a row per example, and the number of examples.

A graph may already hold towers, each with a batch of its own. The gradients of towers are joined in a sum only, while
the tensors of one batch are joined within a tower. So gradients are followed back through sums and ops that hand them
on: tensors that are joined before a sum hold the same examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from simulator.graph.dataflow import pushes_of, values_in
from simulator.graph.graph import Graph, Shape
from simulator.graph.op_classes import LOSSES
from simulator.graph.step import Step
from simulator.graph.tensors import shape_of
from simulator.graph.traversal import PLACEHOLDERS, gathered
from simulator.shapes.ragged import row_splits
from simulator.shapes.sparse import rows_in_file, sparse_placeholders
from simulator.training.recognition.variables import variable_shape

SUMS = frozenset(("AddN", "Add", "AddV2", "AccumulateNV2", "ConcatV2", "Pack"))  # or lie side by side to be summed
_HANDING = frozenset(("Identity", "Cast", "OneHot", "Reshape", "StopGradient"))  # each row comes of one row
_HANDLES = frozenset(("VarHandleOp",))
_HELD = (
    "Random",
    "StatelessRandom",
    "Const",
    "Variable",
    "ReadVariableOp",
    "Split",
    "Unstage",
)  # where labels come from
_ALL_REDUCES = ("NcclAllReduce", "CollectiveReduce")  # each sums gradients with others of its kind, without an edge


def brings_examples(graph: Graph, row: int) -> bool:
    """Tell whether a node brings examples into the graph: they come once a step."""
    op = graph.ops[row]
    return op in PLACEHOLDERS or "GetNext" in op or "Dequeue" in op or op.startswith(("Reader", "Unstage"))


def bringing(graph: Graph, step: Step, batched: Sequence[int]) -> list[int]:
    """The nodes that bring a step its examples, also those that it only counts, or stages for the next step.

    `batched` are the fed tensors that hold examples.
    """
    fed = {int(graph.tensor_node[tensor]) for tensor in batched}
    taking = (row for row in np.flatnonzero(step.runs).tolist() if graph.ops[row] not in PLACEHOLDERS)
    return [*sorted(fed), *(row for row in taking if brings_examples(graph, row))]


def batch_of(
    graph: Graph, step: Step, gradients: Sequence[tuple[int, int]]
) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """The fed tensors that hold one row per example, the number of examples, and the nodes that hand these out.

    The number is 0 where the graph does not say it. Nodes that hand out examples, such as iterators, do so each time
    that they run. There are none where examples are fed, or made by the step.

    The batch is the first dimension that most fed tensors have, or most outputs of pipelines where none is fed. Without
    these it is that of the labels of losses that the graph makes or holds itself. Among equally frequent ones it is the
    dimension that most fed tensors have anywhere: sequences may be fed by time first, then by example. Where no dense
    tensor is fed, it is the rows of sparse ones, or their entries if the graph does not say how many rows. The batch
    counts once for each of the identical towers whose batches are joined only in sums or all-reduces. `gradients` are
    pairs of a variable and an edge.
    """
    fed = _fed(graph, step)
    if fed:
        sparse = sparse_placeholders(graph, graph.tensor_shape)
        entries, of_sparse = {row for one in sparse for row in one[:2]}, {row for one in sparse for row in one}
        dense = {row: found for row, found in fed.items() if row not in of_sparse}
        of_entries = {row: found for row, found in fed.items() if row in entries}
        splits = row_splits(graph, graph.tensor_shape)
        size = 0 if dense else rows_in_file(graph, sparse)
        size = size or _size(graph, dense or of_entries or fed, splits)
        batched = (
            *(row for row, found in dense.items() if row not in splits and (found == size or _is_open(graph, row))),
            *of_entries,
        )
        return batched, max(size, 0) * _towers(graph, {row: row for row in batched}, gradients), ()
    taken = _handed(graph, step)
    handed = taken or _labels(graph, step)
    size = Counter(handed.values()).most_common(1)[0][0] if handed else 0
    sources = {
        tensor: first
        for first, found in handed.items()
        if found == size
        for tensor in range(first, int(graph.tensor_ptr[graph.tensor_node[first] + 1]))
    }
    handing = tuple(int(graph.tensor_node[first]) for first, found in taken.items() if found == size)
    return (), size * _towers(graph, sources, gradients), handing


def _fed(graph: Graph, step: Step) -> dict[int, int]:
    """First dimensions of the fed tensors that have one; -1: open."""
    sizes = {tensor: _first_dimension(graph, tensor) for tensor in map(graph.tensor_row, step.feeds)}
    return {tensor: size for tensor, size in sizes.items() if size is not None}


def _size(graph: Graph, fed: Mapping[int, int], splits: Collection[int]) -> int:
    """The first dimension of a batch, given that of each fed tensor; row splits say one less.

    Of a tie the one wins that row splits say, else an open one.
    """
    rows = {tensor: size - (tensor in splits and size > 0) for tensor, size in fed.items()}
    count = Counter(rows.values())
    most = [size for size in count if count[size] == max(count.values())]
    ragged = [rows[tensor] for tensor in splits if rows.get(tensor) in most]
    if ragged or -1 in most:
        return ragged[0] if ragged else most[0]
    return max(most, key=lambda size: sum(size in (graph.tensor_shape[tensor] or ()) for tensor in fed))


def _handed(graph: Graph, step: Step) -> dict[int, int]:
    """First dimensions of the first outputs of dequeues and iterators, where they are known."""
    hands_out = [
        row for row in np.flatnonzero(step.runs).tolist() if "GetNext" in (op := graph.ops[row]) or "Dequeue" in op
    ]
    firsts = [outputs[0] for row in hands_out if (outputs := graph.outputs(row))]
    found = {tensor: _first_dimension(graph, tensor) for tensor in firsts}
    return {tensor: size for tensor, size in found.items() if size is not None and size > 0}


def _labels(graph: Graph, step: Step) -> dict[int, int]:
    """First dimensions of the tensors that hold the labels of losses, where a row of the loss is a row of theirs.

    Benchmarks make images and labels once, of a size that the file fixes, or take them out of a staging area. Labels
    that are laid out anew on the way, as those of sequences are, do not show how many examples there are.
    """
    found = {}
    for row in np.flatnonzero(step.runs).tolist():
        if graph.ops[row] in LOSSES and len(values := values_in(graph, row)) > 1:
            tensor = int(graph.edge_tensor[values[1]])
            size = _first_dimension(graph, tensor) or 0
            while graph.ops[node := int(graph.tensor_node[tensor])] in _HANDING:
                before = int(graph.edge_tensor[values_in(graph, node)[0]])
                if graph.ops[graph.tensor_node[before]] in _HANDLES or _first_dimension(graph, before) != size:
                    break
                tensor = before
            if size > 0 and graph.ops[node].startswith(_HELD):
                found[tensor] = size
    return found


def _towers(graph: Graph, sources: Mapping[int, int], gradients: Sequence[tuple[int, int]]) -> int:
    """The number of towers, each with a batch, that share a variable; `sources`: tensor -> first of its batch."""
    firsts = sorted(set(sources.values()))
    kinds = [
        f"{graph.ops[graph.tensor_node[row]]} {graph.tensor_dtype[row]} {graph.tensor_shape[row]}" for row in firsts
    ]
    if len(set(kinds)) == len(kinds):
        return 1  # towers are identical
    place = {row: at for at, row in enumerate(firsts)}
    of_each = _together(graph, {tensor: 1 << place[first] for tensor, first in sources.items()}, gradients)
    identical = [
        [sorted(kind for at, kind in enumerate(kinds) if mask >> at & 1) for mask in towers]
        for towers in of_each.values()
    ]
    most = max((len(found) for found in identical if found == found[:1] * len(found)), default=1)
    reduced = any(op.startswith(_ALL_REDUCES) for op in graph.ops)
    return most if most > 1 or not reduced else _apart(graph, of_each)


def _apart(graph: Graph, of_each: Mapping[int, Sequence[int]]) -> int:
    """The number of towers whose variables are their own, as all-reduce leaves them: alike in all shapes, or 1."""
    shapes: dict[int, list[str]] = {}
    for variable, masks in of_each.items():
        for mask in masks:
            shapes.setdefault(mask, []).append(str(variable_shape(graph, variable)))
    kinds = [sorted(found) for found in shapes.values()]
    return len(kinds) if kinds and all(found == kinds[0] for found in kinds) else 1


def _together(graph: Graph, own: Mapping[int, int], gradients: Sequence[tuple[int, int]]) -> dict[int, list[int]]:
    """For each variable the groups of sources that are joined before a sum, in any gradient; masks of bits."""
    reached = _reached(graph, own)
    groups: list[int] = []
    taken: dict[int, int] = {}
    for variable, gradient in gradients:
        for mask in _summed(graph, gradient, own, reached):
            taken[variable] = taken.get(variable, 0) | mask
            for other in [other for other in groups if other & mask]:
                groups.remove(other)
                mask |= other
            groups.append(mask)
    return {variable: [mask for mask in groups if mask & whole] for variable, whole in taken.items()}


def _reached(graph: Graph, own: Mapping[int, int]) -> list[int]:
    """[N] the sources on whose values each node depends, a bit each."""
    source, tensor = graph.edge_src.tolist(), graph.edge_tensor.tolist()
    pushes, bits = pushes_of(graph), [0] * len(graph)
    before = [[*pushes.get(row, ())] for row in range(len(graph))]
    for edge, reader in enumerate(graph.edge_dst.tolist()):
        if tensor[edge] in own:
            bits[reader] |= own[tensor[edge]]
        elif tensor[edge] >= 0:
            before[reader].append(source[edge])
    loops = bool(pushes) or bool(graph.edge_back.any())
    return gathered(graph.topological.tolist(), before, bits, loops=loops)


def _summed(graph: Graph, gradient: int, own: Mapping[int, int], reached: Sequence[int]) -> list[int]:
    """The sources of each summand of a gradient. Single numbers only scale it: they hold no examples."""
    parts, pending, seen = [], [gradient], set[int]()
    while pending:
        edge = pending.pop()
        row, tensor = int(graph.edge_src[edge]), int(graph.edge_tensor[edge])
        if tensor in own or row in seen:
            parts.append(own.get(tensor, 0))
            continue
        seen.add(row)
        values = [(at, int(graph.edge_tensor[at])) for at in values_in(graph, row)]
        inputs = [(at, value) for at, value in values if own.get(value) or reached[graph.edge_src[at]]]
        wide = [at for at, value in inputs if not _is_single(graph.tensor_shape[value])] or [at for at, _ in inputs]
        if len(wide) == 1 or graph.ops[row] in SUMS:
            pending += wide
        else:
            parts.append(reached[row])
    return [mask for mask in parts if mask]


def _is_single(shape: Shape | None) -> bool:
    """Tell whether a tensor is one number, as a norm is, of however many dimensions."""
    return shape is not None and all(size == 1 for size in shape)


def _is_open(graph: Graph, tensor: int) -> bool:
    """Tell whether a placeholder declares its first dimension open, whatever size it was given since."""
    shape = variable_shape(graph, int(graph.tensor_node[tensor]))
    return shape is not None and shape[:1] == (-1,)


def _first_dimension(graph: Graph, tensor: int) -> int | None:
    """The first dimension of a tensor; -1: open; None: it has none, or its rank is unknown."""
    shape = graph.tensor_shape[tensor]
    node = int(graph.tensor_node[tensor])
    attrs, shape = graph.attrs[node], variable_shape(graph, node) if shape is None else shape
    if shape is None and "output_shapes" in attrs:
        listed = attrs["output_shapes"].list.shape
        port = int(graph.tensor_port[tensor])
        shape = shape_of(listed[port]) if port < len(listed) else None
    return shape[0] if shape else None
