"""Lay the cut graph out as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict, TypeVar

import numpy as np

from simulator.columns import Ids, Ints, flags, ids, ints
from simulator.graph.building import smallest_order_and_back
from simulator.graph.graph import Graph, Shape
from simulator.partitioning.draft import CONTROL, Added, Column, Wires, without_twins

_T = TypeVar("_T")


def assemble(graph: Graph, added: Added, given: Wires, nodes: Column, requested: Sequence[str]) -> Graph:
    """The cut graph: these nodes of the graph and the added ones, in this order, and these wires between them.

    `requested` holds their devices. Control inputs come in order of wire id.
    """
    rows = nodes.tolist()
    row_of = np.full(len(graph) + len(added), -1)
    row_of[nodes] = np.arange(len(nodes))
    names = _of_both(graph.names, _free_names(graph, added), rows)
    ops = _of_both(graph.ops, added.ops, rows)
    tensors = _tensors(graph, added, nodes)
    src, dst = row_of[given.src], row_of[given.dst]
    order = np.lexsort((given.id, given.slot, dst))
    src, dst, port, back = src[order], dst[order], given.port[order], given.back[order]
    in_ptr = np.searchsorted(dst, np.arange(len(names) + 1))
    tensor_ptr = tensors["tensor_ptr"]
    return replace(
        graph,
        names=names,
        ops=ops,
        attrs=_of_both(graph.attrs, added.attrs, rows),
        requested=tuple(requested),
        **tensors,
        in_ptr=ids(in_ptr),
        edge_src=ids(src),
        edge_dst=ids(dst),
        edge_tensor=ids(np.where(port == CONTROL, -1, tensor_ptr[src] + port)),
        edge_back=flags(back),
        order=smallest_order_and_back(names, ops, src, dst, port, in_ptr, "the cut graph", flags(back))[0],
        signatures={},
        train_ops=(),
        queue_runners=(),
        meta_graph=None,
        lowered=None,
        source=f"the pieces of {graph.source}",
    )


def imported(graph: Graph) -> Graph:
    """The pieces as TensorFlow takes them over to run them: a control input that stands twice is one edge."""
    edge = without_twins(graph, np.arange(len(graph.edge_src)))
    if len(edge) == len(graph.edge_src):
        return graph
    dst = graph.edge_dst[edge]
    return replace(
        graph,
        in_ptr=ids(np.searchsorted(dst, np.arange(len(graph) + 1))),
        edge_src=ids(graph.edge_src[edge]),
        edge_dst=ids(dst),
        edge_tensor=ids(graph.edge_tensor[edge]),
        edge_back=flags(graph.edge_back[edge]),
    )


def _of_both(first: Sequence[_T], others: Sequence[_T], rows: Sequence[int]) -> tuple[_T, ...]:
    whole = [*first, *others]
    return tuple([whole[row] for row in rows])


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


class _Tensors(TypedDict):
    """The tensor columns of a Graph."""

    tensor_ptr: Ids
    tensor_node: Ids
    tensor_port: Ids
    tensor_dtype: Ids
    tensor_shape: tuple[Shape | None, ...]
    tensor_bytes: Ints


def _tensors(graph: Graph, added: Added, nodes: Column) -> _Tensors:
    extra = [output for outputs in added.outputs for output in outputs]
    every = np.concatenate([np.diff(graph.tensor_ptr), [len(outputs) for outputs in added.outputs]]).astype(np.int64)
    begin, counts = (np.cumsum(every) - every)[nodes], every[nodes]
    ptr = np.concatenate([[0], np.cumsum(counts)])
    node = np.repeat(np.arange(len(counts)), counts)
    port = np.arange(len(node)) - ptr[node]
    taken = begin[node] + port
    shapes = (*graph.tensor_shape, *(one[1] for one in extra))
    dtype = np.concatenate([graph.tensor_dtype, np.array([one[0] for one in extra], np.int64)])
    nbytes = np.concatenate([graph.tensor_bytes, np.array([one[2] for one in extra], np.int64)])
    return {
        "tensor_ptr": ids(ptr),
        "tensor_node": ids(node),
        "tensor_port": ids(port),
        "tensor_dtype": ids(dtype[taken]),
        "tensor_shape": tuple([shapes[row] for row in taken.tolist()]),
        "tensor_bytes": ints(nbytes[taken]),
    }
