"""Make a Graph from rows: resolve the inputs, check what TensorFlow checks on import, find tensors and order.

The rules are those of `tensorflow/core/common_runtime/graph_constructor.cc`: what it refuses is refused here, in a
sentence that names the node; what it accepts is accepted.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from simulator.columns import Ids, flags, ids
from simulator.errors import GraphError
from simulator.graph.graph import Attrs, Graph, Signature, near
from simulator.graph.tensors import tensor_columns

MERGES = frozenset(("Merge", "RefMerge"))
NEXT_ITERATIONS = frozenset(("NextIteration", "RefNextIteration"))

# A part begins with a letter, digit or dot; parts are joined by ">". TensorFlow's own passes also write a leading "_".
_NAME = re.compile(r"_?[A-Za-z0-9.][A-Za-z0-9_./\-]*(?:>[A-Za-z0-9.][A-Za-z0-9_./\-]*)*|_[A-Za-z0-9_./\-]*")
_PORT = re.compile(r"(.*):([0-9]{1,9})", re.DOTALL)
_CONTROL = -1  # the port of a control input


def build(
    names: Sequence[str],
    ops: Sequence[str],
    requested: Sequence[str],
    inputs: Sequence[Sequence[str]],
    attrs: Sequence[Attrs],
    *,
    library: Mapping[str, Any] = {},
    gradients: Mapping[str, str] = {},
    producer: int = 0,
    min_consumer: int = 0,
    signatures: Mapping[str, Signature] = {},
    train_ops: Sequence[str] = (),
    source: str = "a graph in memory",
    notes: Sequence[str] = (),
) -> Graph:
    """Make a graph from one row per node, inputs written as in a NodeDef: "a", "a:1", "^a".

    Raises GraphError for a name that TensorFlow does not allow, a name that stands twice, an input that is malformed
    or comes after a control input, an input node that is missing, a port that its node does not have, and a cycle
    outside a loop.
    """
    index = _index(names, ops, source)
    edge_src, port, in_ptr = _resolve(names, inputs, index, source)
    count = len(names)
    edge_dst = np.repeat(np.arange(count), np.diff(in_ptr))
    tensors = tensor_columns(names, ops, attrs, library, edge_src, port, edge_dst, source)
    order, back = smallest_order_and_back(names, ops, edge_src, edge_dst, port, in_ptr, source)
    tensor_ptr = tensors.ptr
    edge_tensor = np.where(port == _CONTROL, -1, tensor_ptr[edge_src] + port)
    return Graph(
        names=tuple(names),
        ops=tuple(ops),
        requested=tuple(requested),
        attrs=tuple(attrs),
        tensor_ptr=tensor_ptr,
        tensor_node=tensors.node,
        tensor_port=tensors.port,
        tensor_dtype=tensors.dtype,
        tensor_shape=tensors.shape,
        tensor_bytes=tensors.nbytes,
        in_ptr=ids(in_ptr),
        edge_src=ids(edge_src),
        edge_dst=ids(edge_dst),
        edge_tensor=ids(edge_tensor),
        edge_back=flags(back),
        order=order,
        library=library,
        gradients=gradients,
        producer=producer,
        min_consumer=min_consumer,
        signatures=signatures,
        train_ops=tuple(train_ops),
        source=source,
        notes=(*notes, *tensors.notes),
    )


def _index(names: Sequence[str], ops: Sequence[str], source: str) -> dict[str, int]:
    index = {name: row for row, name in enumerate(names)}
    if len(index) != len(names):
        twice = next(name for row, name in enumerate(names) if index[name] != row)
        raise GraphError(
            f"{source}: the name {twice!r} stands at more than one node ({len(names) - len(index)} names too many); "
            "names must be unique. Was the file written twice, or are two graphs joined?",
            node=twice,
        )
    for name in names:
        if not _NAME.fullmatch(name):
            raise GraphError(
                f"{source}: {name!r} is not a node name that TensorFlow accepts (letters, digits and _ . / - >, with a "
                "letter, digit, dot or underscore at the start). Rename the node, or write the file anew.",
                node=name,
            )
    if "" in ops:
        name = names[list(ops).index("")]
        raise GraphError(f"{source}: node {name!r} has no op. Write the file anew with TensorFlow.", node=name)
    return index


def _resolve(
    names: Sequence[str], inputs: Sequence[Sequence[str]], index: Mapping[str, int], source: str
) -> tuple[Any, Any, Any]:
    """Source row and port of every input, and where each node's inputs begin."""
    in_ptr = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(row) for row in inputs], out=in_ptr[1:])
    flat = list(chain.from_iterable(inputs))
    rows = list(map(index.get, flat))
    ports = [0] * len(flat)
    known: dict[str, tuple[int, int]] = {}  # the same input is written by many consumers: read it once
    missing: dict[int, str] = {}
    for edge, row in enumerate(rows):
        if row is not None:
            continue
        text = flat[edge]
        found = known.get(text)
        if found is None:
            name, at = _read_input(text)
            source_row = index.get(name, -1)
            if source_row < 0:
                missing[edge] = name
            found = known[text] = (source_row, at)
        elif found[0] < 0:
            missing[edge] = _read_input(text)[0]
        rows[edge], ports[edge] = found
    if missing:
        _refuse_missing(names, in_ptr, missing, source)
    port = np.array(ports, np.int64)
    edge_src = np.array(rows, np.int64)
    _check_controls_last(names, in_ptr, port, source)
    return edge_src, port, in_ptr


def _read_input(text: str) -> tuple[str, int]:
    """Name and port of an input; what does not end in a port is a name, as TensorFlow's ParseTensorName has it."""
    if text.startswith("^"):
        return text[1:], _CONTROL
    found = _PORT.fullmatch(text)
    return (found[1], int(found[2])) if found else (text, 0)


def _refuse_missing(names: Sequence[str], in_ptr: Any, missing: Mapping[int, str], source: str) -> None:
    edge = min(missing)
    reader = names[int(np.searchsorted(in_ptr, edge, side="right")) - 1]
    first = missing[edge]
    distinct = len(set(missing.values()))
    if not first or not _NAME.fullmatch(first):
        raise GraphError(
            f"{source}: node {reader!r} has the malformed input {first!r}; an input is written 'node', 'node:1' or "
            "'^node'.",
            node=reader,
        )
    more = f"; {len(missing)} inputs are missing, from {distinct} nodes" if len(missing) > 1 else ""
    meant = near(first, tuple(names)) if distinct == 1 else ""
    raise GraphError(
        f"{source}: node {reader!r} takes its input from {first!r}, which is not in the graph{more}."
        f"{meant} The file was cut from a larger graph: write the whole one.",
        node=reader,
    )


def _check_controls_last(names: Sequence[str], in_ptr: Any, port: Any, source: str) -> None:
    late = (port[:-1] == _CONTROL) & (port[1:] != _CONTROL)  # a data input right after a control input
    late[in_ptr[1:-1][(in_ptr[1:-1] > 0) & (in_ptr[1:-1] < len(port))] - 1] = False  # of the next node: no matter
    if late.any():
        edge = int(np.argmax(late)) + 1
        name = names[int(np.searchsorted(in_ptr, edge, side="right")) - 1]
        raise GraphError(
            f"{source}: node {name!r} has a data input after a control input; TensorFlow wants control inputs last.",
            node=name,
        )


def smallest_order_and_back(
    names: Sequence[str], ops: Sequence[str], edge_src: Any, edge_dst: Any, port: Any, in_ptr: Any, source: str
) -> tuple[Ids, Any]:
    """TensorFlow's node order and the back edges.

    The smallest topological order by row, where a Merge that a NextIteration feeds waits for its control inputs and
    one data input only. An edge is a back edge if it goes from a NextIteration into a Merge, or if such a Merge comes
    before its source.
    """
    count = len(names)
    is_next = np.fromiter((op in NEXT_ITERATIONS for op in ops), bool, count)
    is_merge = np.fromiter((op in MERGES for op in ops), bool, count)
    back = is_next[edge_src] & is_merge[edge_dst] & (port != _CONTROL)
    if (edge_src < edge_dst)[~back].all():
        return ids(np.arange(count)), back
    loops = np.zeros(count, bool)
    loops[edge_dst[back]] = True
    needed = np.diff(in_ptr)
    controls = np.bincount(edge_dst[port == _CONTROL], minlength=count)
    pending = np.where(loops, controls + 1, needed).tolist()
    order = _smallest_order(pending, edge_src, edge_dst, port == _CONTROL, loops.tolist())
    if len(order) < count:
        _refuse_cycle(names, order, edge_src, edge_dst, back, source)
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    return ids(order), back | (place[edge_src] > place[edge_dst])


def _smallest_order(pending: list[int], edge_src: Any, edge_dst: Any, control: Any, loops: list[bool]) -> list[int]:
    by_source = np.argsort(edge_src, kind="stable")
    starts = np.searchsorted(edge_src[by_source], np.arange(len(pending) + 1)).tolist()
    targets = edge_dst[by_source].tolist()
    is_control = control[by_source].tolist()
    entered = [False] * len(pending)  # loop Merges whose one data input has come
    ready = [row for row, waits in enumerate(pending) if not waits]
    order = []
    while ready:
        row = heapq.heappop(ready)
        order.append(row)
        for edge in range(starts[row], starts[row + 1]):
            target = targets[edge]
            if loops[target] and not is_control[edge]:
                if entered[target]:
                    continue
                entered[target] = True
            pending[target] -= 1
            if not pending[target]:
                heapq.heappush(ready, target)
    return order


def _refuse_cycle(names: Sequence[str], order: list[int], edge_src: Any, edge_dst: Any, back: Any, source: str) -> None:
    """Walk backwards from a node that never became ready until one comes twice: that is a cycle."""
    stuck = np.ones(len(names), bool)
    stuck[order] = False
    inside = np.flatnonzero(stuck[edge_src] & stuck[edge_dst] & ~back)
    before = dict(zip(edge_dst[inside][::-1].tolist(), edge_src[inside][::-1].tolist(), strict=True))
    walked: dict[int, int] = {}
    row = int(np.argmax(stuck))
    while row in before and row not in walked:
        walked[row] = len(walked)
        row = before[row]
    cycle = [names[at] for at in walked if walked[at] >= walked.get(row, 0)][::-1]
    shown = " -> ".join(map(repr, [*cycle[:6], *(["..."] if len(cycle) > 6 else [cycle[0]])]))
    raise GraphError(
        f"{source}: {len(cycle)} nodes wait for each other outside a loop: {shown}. A cycle may only be closed by a "
        "NextIteration that feeds a Merge.",
        node=cycle[0],
    )
