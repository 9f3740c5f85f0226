"""Building a graph from rows: inputs are resolved and checked as in TensorFlow's import, tensors and order found.

The rules are those of `tensorflow/core/common_runtime/graph_constructor.cc`. The same graphs are accepted, and an error
names the node at fault.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from simulator.columns import Flags, Ids, Ints, flags, ids, positions, smallest_topological
from simulator.errors import GraphError
from simulator.graph.graph import Attrs, Graph, GraphColumns, Names
from simulator.graph.messages import Proto
from simulator.graph.op_classes import MERGES, NEXT_ITERATIONS
from simulator.graph.tensors import EdgeColumns, TensorColumns, tensor_columns
from simulator.wording import counted, near

# A part begins with a letter, digit or dot; parts are joined by ">". TensorFlow's own passes also write a leading "_".
_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._/\-]*(?:>[A-Za-z0-9.][A-Za-z0-9._/\-]*)*")
_PORT = re.compile(r"(.*):([0-9]{1,9})", re.DOTALL)
_CONTROL = -1  # the port of a control input


def build(
    names: Sequence[str],
    ops: Sequence[str],
    requested: Sequence[str],
    inputs: Sequence[Sequence[str]],
    attrs: Sequence[Attrs],
    *,
    library: Mapping[str, Proto] = {},
    source: str = "a graph in memory",
    notes: Sequence[str] = (),
) -> Graph:
    """Make a graph from one row per node, inputs written as in a NodeDef: "a", "a:1", "^a".

    `library` has the functions that the nodes may call. What else a file says of its graph as a whole, such as
    versions and signatures, is added to the result by `replace`.

    Raises GraphError for a name that TensorFlow does not allow, for a duplicate name, and for a cycle outside a loop.
    An input is refused that is malformed, comes after a control input, or asks for a node or port that is not there.
    """
    names = Names(names)
    _check_names(names, ops, source)
    edges = _resolve(names, inputs, source)
    tensors = tensor_columns(names, ops, attrs, library, edges, source)
    return Graph(
        names=names,
        ops=tuple(ops),
        requested=tuple(requested),
        attrs=tuple(attrs),
        **vars(columns(names, ops, tensors, edges, source)),
        library=library,
        source=source,
        notes=(*notes, *tensors.notes),
    )


def columns(
    names: Sequence[str],
    ops: Sequence[str],
    tensors: TensorColumns,
    edges: EdgeColumns,
    source: str,
    closing: Flags | None = None,
) -> GraphColumns:
    """Lay tensors and edges out as columns, and find the order of the nodes.

    `closing` [E] are the back edges of loops where they are known, as in `smallest_order_and_back`; None: they are
    found. Raises GraphError for a cycle outside a loop.
    """
    order, back = smallest_order_and_back(names, ops, edges, source, closing)
    return GraphColumns(
        tensor_ptr=tensors.ptr,
        tensor_node=tensors.node,
        tensor_port=tensors.port,
        tensor_dtype=tensors.dtype,
        tensor_shape=tensors.shape,
        tensor_bytes=tensors.nbytes,
        in_ptr=ids(edges.in_ptr),
        edge_src=ids(edges.src),
        edge_dst=ids(edges.dst),
        edge_tensor=ids(np.where(edges.port == _CONTROL, -1, tensors.ptr[edges.src] + edges.port)),
        edge_back=flags(back if closing is None else closing),
        order=order,
    )


def _check_names(names: Names, ops: Sequence[str], source: str) -> None:
    index = names.rows
    if len(index) != len(names):
        twice = next(name for row, name in enumerate(names) if index[name] != row)
        raise GraphError(
            f"{source}: the name {twice!r} is that of more than one node ({len(names) - len(index)} names too many); "
            "names must be unique. Was the file written twice, or are two graphs joined?",
            node=twice,
        )
    if not all(map(_NAME.fullmatch, names)):
        name = next(name for name in names if not _NAME.fullmatch(name))
        raise GraphError(
            f"{source}: {name!r} is not a node name that TensorFlow accepts (letters, digits and _ . / - >, with a "
            "letter, digit, dot or underscore at the start). Rename the node, or write the file anew.",
            node=name,
        )
    if "" in ops:
        name = names[list(ops).index("")]
        raise GraphError(f"{source}: node {name!r} has no op. Write the file anew with TensorFlow.", node=name)


def _resolve(names: Names, inputs: Sequence[Sequence[str]], source: str) -> EdgeColumns:
    index = names.rows
    in_ptr = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(row) for row in inputs], out=in_ptr[1:])
    flat = list(chain.from_iterable(inputs))
    rows = list(map(index.get, flat))
    ports = [0] * len(flat)
    known: dict[str, tuple[int, int]] = {}  # many consumers have the same input: it is parsed once
    missing: dict[int, str] = {}
    for edge in [edge for edge, row in enumerate(rows) if row is None]:
        text = flat[edge]
        found = known.get(text)
        if found is None:
            name, at = _read_input(text)
            found = known[text] = (index.get(name, -1), at)
        if found[0] < 0:
            missing[edge] = _read_input(text)[0]
        rows[edge], ports[edge] = found
    if missing:
        _refuse_missing(names, in_ptr, missing, source)
    dst = np.repeat(np.arange(len(names)), np.diff(in_ptr))
    edges = EdgeColumns(src=np.array(rows, np.int64), port=np.array(ports, np.int64), dst=dst, in_ptr=in_ptr)
    _check_controls_last(names, edges, source)
    return _each_control_once(edges)


def _each_control_once(edges: EdgeColumns) -> EdgeColumns:
    nodes = len(edges.in_ptr) - 1
    stays = without_duplicates(edges.src, edges.dst, edges.port == _CONTROL, nodes)
    if len(stays) == len(edges.port):
        return edges
    dst = edges.dst[stays]
    in_ptr = np.searchsorted(dst, np.arange(nodes + 1))
    return EdgeColumns(src=edges.src[stays], port=edges.port[stays], dst=dst, in_ptr=in_ptr)


def without_duplicates(src: Ids | Ints, dst: Ids | Ints, control: Flags, nodes: int) -> Ints:
    """Rows of the edges that stay: of a control edge that stands twice, the first (`Graph::AddControlEdge`)."""
    controls = np.flatnonzero(control)
    _, first = np.unique(dst[controls].astype(np.int64) * nodes + src[controls], return_index=True)
    stays = ~control
    stays[controls[first]] = True
    return np.flatnonzero(stays)


def _read_input(text: str) -> tuple[str, int]:
    """Name and port of an input; a text without a port is a name, as in TensorFlow's ParseTensorName."""
    if text.startswith("^"):
        return text[1:], _CONTROL
    found = _PORT.fullmatch(text)
    return (found[1], int(found[2])) if found else (text, 0)


def _refuse_missing(names: Sequence[str], in_ptr: Ints, missing: Mapping[int, str], source: str) -> None:
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


def _check_controls_last(names: Sequence[str], edges: EdgeColumns, source: str) -> None:
    control = edges.port == _CONTROL
    late = control[:-1] & ~control[1:] & (edges.dst[:-1] == edges.dst[1:])
    if late.any():
        name = names[int(edges.dst[int(np.argmax(late))])]
        raise GraphError(
            f"{source}: node {name!r} has a data input after a control input; TensorFlow wants control inputs last. "
            "Move its '^' inputs to the end.",
            node=name,
        )


def smallest_order_and_back(
    names: Sequence[str], ops: Sequence[str], edges: EdgeColumns, source: str, closing: Flags | None = None
) -> tuple[Ids, Flags]:
    """TensorFlow's node order and the back edges.

    The smallest topological order by row, where a Merge that a NextIteration feeds waits for its control inputs and for
    one data input from elsewhere. An edge is a back edge if it goes from a NextIteration into a Merge, or if such a
    Merge comes before its source. `closing` [E] are further edges that may close a loop where no other edge does. Such
    a back edge is interrupted by a Send/Recv pair within a device, between a GPU's own memory and host memory.
    """
    count, src, dst, in_ptr = len(names), edges.src, edges.dst, edges.in_ptr
    control = edges.port == _CONTROL
    is_next = np.fromiter(map(NEXT_ITERATIONS.__contains__, ops), bool, count)
    is_merge = np.fromiter(map(MERGES.__contains__, ops), bool, count)
    back = is_next[src] & is_merge[dst] & ~control
    order, known = _ordered(count, src, dst, control, in_ptr, back)
    if len(order) < count and closing is not None:
        back = back | closing
        order, known = _ordered(count, src, dst, control, in_ptr, back)
    if len(order) < count:
        _refuse_cycle(names, order, src, dst, back, source)
    if known:
        return ids(order), flags(back)
    place = positions(order, count)
    return ids(order), flags(back | (place[src] > place[dst]))


def _ordered(
    count: int, src: Ints, dst: Ints, control: Flags, in_ptr: Ints, back: Flags
) -> tuple[list[int] | Ints, bool]:
    """The order, shorter than `count` where there is a cycle, and whether it is that of the rows."""
    loops = np.zeros(count, bool)
    loops[dst[back]] = True
    entered = np.zeros(count, bool)
    entered[dst[~back & ~control]] = True
    if (src < dst)[~back].all() and not (loops & ~entered).any():
        return np.arange(count), True
    kept, controls = ~back, np.bincount(dst[control], minlength=count)
    waits = np.where(loops, controls + 1, np.diff(in_ptr))
    merging = loops[dst] & ~control
    return smallest_topological(waits, src[kept], dst[kept], merging[kept] if loops.any() else None), False


def _refuse_cycle(
    names: Sequence[str], order: list[int] | Ints, src: Ints, dst: Ints, back: Flags, source: str
) -> None:
    """Raise GraphError with a cycle, found backwards from a node that never became ready."""
    stuck = np.ones(len(names), bool)
    stuck[order] = False
    inside = np.flatnonzero(stuck[src] & stuck[dst] & ~back)[::-1]
    before = dict(zip(dst[inside].tolist(), src[inside].tolist(), strict=True))
    walked: dict[int, int] = {}
    row = int(np.argmax(stuck))
    while row in before and row not in walked:
        walked[row] = len(walked)
        row = before[row]
    if row not in before:
        raise GraphError(
            f"{source}: the loop at {names[row]!r} has no entry: only its own NextIteration feeds this Merge. "
            "A loop begins with an Enter.",
            node=names[row],
        )
    cycle = [names[at] for at in walked if walked[at] >= walked[row]][::-1]
    shown = " -> ".join(map(repr, [*cycle[:6], *(["..."] if len(cycle) > 6 else [cycle[0]])]))
    raise GraphError(
        f"{source}: a cycle of {counted(len(cycle), 'node')} lies outside a loop: {shown}. A cycle may "
        "only be closed by a NextIteration that feeds a Merge.",
        node=cycle[0],
    )
