"""Lay the cut graph out as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from simulator.columns import flags, ids, ints
from simulator.graph.building import columns
from simulator.graph.graph import Graph
from simulator.graph.tensors import EdgeColumns, TensorColumns
from simulator.partitioning.draft import Added, Column, Wires, edges_once

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
    edges = EdgeColumns(src, port, dst, np.searchsorted(dst, np.arange(len(names) + 1)))
    return replace(
        graph,
        names=names,
        ops=ops,
        attrs=_of_both(graph.attrs, added.attrs, rows),
        requested=tuple(requested),
        **columns(names, ops, tensors, edges, "the cut graph", back),
        signatures={},
        train_ops=(),
        queue_runners=(),
        meta_graph=None,
        lowered=None,
        source=f"the pieces of {graph.source}",
    )


def imported(graph: Graph) -> Graph:
    """The pieces as TensorFlow takes them over to run them: a control input that stands twice is one edge."""
    edge = edges_once(graph, np.arange(len(graph.edge_src)))
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


def _tensors(graph: Graph, added: Added, nodes: Column) -> TensorColumns:
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
    return TensorColumns(
        ids(ptr),
        ids(node),
        ids(port),
        ids(dtype[taken]),
        tuple([shapes[row] for row in taken.tolist()]),
        ints(nbytes[taken]),
        (),
    )
