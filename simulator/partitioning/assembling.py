"""Lay the cut graph out as columns: the nodes that run in graph order, then those that were added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids, Ints, flags, ids, ints
from simulator.graph.building import smallest_order_and_back
from simulator.graph.graph import Attrs, Graph, Shape
from simulator.graph.messages import AttrValue
from simulator.partitioning.draft import CONTROL, Added, Column, Wires, type_attr

_FED = frozenset({"Placeholder", "PlaceholderV2"})


def new_rows(graph: Graph, kept: npt.NDArray[np.bool_], added: Added) -> Column:
    """[N + added] row of each node in the cut graph, -1: not part of it."""
    found = np.full(len(graph) + len(added), -1)
    rows = np.flatnonzero(kept)
    found[rows] = np.arange(len(rows))
    found[len(graph) :] = np.arange(len(added)) + len(rows)
    return found


def assemble(
    graph: Graph,
    added: Added,
    given: Wires,
    kept: npt.NDArray[np.bool_],
    fed: npt.NDArray[np.bool_],
    requested: Sequence[str],
) -> Graph:
    """The cut graph: rows `kept` of the graph, the added nodes, and these wires; `requested` holds its devices."""
    rows = np.flatnonzero(kept)
    row_of = new_rows(graph, kept, added)
    names = (*(graph.names[row] for row in rows.tolist()), *_free_names(graph, added))
    ops, attrs = _definitions(graph, added, rows.tolist(), fed)
    tensors = _tensors(graph, added, kept)
    src, dst = row_of[given.src], row_of[given.dst]
    order = np.lexsort((given.id, given.slot, dst))
    src, dst, port, back = src[order], dst[order], given.port[order], given.back[order]
    new = np.ones(len(src), bool)  # the same control edge twice is one
    new[1:] = (port[1:] != CONTROL) | (port[:-1] != CONTROL) | (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
    src, dst, port, back = src[new], dst[new], port[new], back[new]
    in_ptr = np.searchsorted(dst, np.arange(len(names) + 1))
    tensor_ptr = tensors["tensor_ptr"]
    return replace(
        graph,
        names=names,
        ops=ops,
        attrs=attrs,
        requested=tuple(requested),
        **tensors,
        in_ptr=ids(in_ptr),
        edge_src=ids(src),
        edge_dst=ids(dst),
        edge_tensor=ids(np.where(port == CONTROL, -1, tensor_ptr[src] + port)),
        edge_back=flags(back),
        order=smallest_order_and_back(names, ops, src, dst, port, in_ptr, "the cut graph")[0],
        signatures={},
        train_ops=(),
        lowered=None,
        source=f"the pieces of {graph.source}",
    )


def _free_names(graph: Graph, added: Added) -> list[str]:
    """The added names; one that the graph has already gets a further number (TensorFlow does not look)."""
    taken = graph.index
    free = []
    for name in added.names:
        again = 0
        tried = name
        while tried in taken:
            again += 1
            tried = f"{name}_{again}"
        free.append(tried)
    return free


def _definitions(
    graph: Graph, added: Added, rows: list[int], fed: npt.NDArray[np.bool_]
) -> tuple[tuple[str, ...], tuple[Attrs, ...]]:
    """Ops and attributes; a fed node with one output becomes the Placeholder that it stands for."""
    ops = [graph.ops[row] for row in rows]
    attrs = [graph.attrs[row] for row in rows]
    place = {row: at for at, row in enumerate(rows)}
    for row in np.flatnonzero(fed).tolist():
        first = int(graph.tensor_ptr[row])
        if row in place and graph.ops[row] not in _FED and graph.tensor_ptr[row + 1] == first + 1:
            ops[place[row]] = "Placeholder"
            attrs[place[row]] = _placeholder(int(graph.tensor_dtype[first]), graph.tensor_shape[first])
    return (*ops, *added.ops), (*attrs, *added.attrs)


def _placeholder(dtype: int, shape: Shape | None) -> Attrs:
    dims = {"unknown_rank": True} if shape is None else {"dim": [{"size": size} for size in shape]}
    return {"dtype": type_attr(dtype), "shape": AttrValue(shape=dims)}


class _Tensors(TypedDict):
    """The tensor columns of a Graph."""

    tensor_ptr: Ids
    tensor_node: Ids
    tensor_port: Ids
    tensor_dtype: Ids
    tensor_shape: tuple[Shape | None, ...]
    tensor_bytes: Ints


def _tensors(graph: Graph, added: Added, kept: npt.NDArray[np.bool_]) -> _Tensors:
    old = np.flatnonzero(kept[graph.tensor_node])
    extra = [output for outputs in added.outputs for output in outputs]
    counts = np.concatenate([np.diff(graph.tensor_ptr)[kept], [len(outputs) for outputs in added.outputs]])
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    node = np.repeat(np.arange(len(counts)), counts.astype(np.int64))
    shapes = graph.tensor_shape
    return {
        "tensor_ptr": ids(ptr),
        "tensor_node": ids(node),
        "tensor_port": ids(np.arange(len(node)) - ptr[node]),
        "tensor_dtype": ids(np.concatenate([graph.tensor_dtype[old], np.array([one[0] for one in extra], np.int64)])),
        "tensor_shape": (*(shapes[row] for row in old.tolist()), *(one[1] for one in extra)),
        "tensor_bytes": ints(np.concatenate([graph.tensor_bytes[old], np.array([one[2] for one in extra], np.int64)])),
    }
