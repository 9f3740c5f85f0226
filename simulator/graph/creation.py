"""In which order TensorFlow makes the nodes and edges of a graph: what its ids tell apart.

A graph that comes out of a GraphDef is made node by node, each with the edges that lead into it
(`tensorflow/core/common_runtime/graph_constructor.cc`). Passes that rewrite it before placement make further nodes and
edges later; for such a graph the order cannot be told from its nodes, and `Lowered` holds it.

Whoever walks through the edges of one node meets them in this order up to `ORDERED`; a node that has more keeps them in
a hash set of pointers, whose order is another in every run (`tensorflow/core/graph/edgeset.h`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simulator.columns import Flags, Ids, ids

if TYPE_CHECKING:
    from simulator.graph.graph import Graph

ORDERED = 8  # edges into a node, or out of it: EdgeSet's kInline


@dataclass(frozen=True, eq=False)
class Creation:
    """Rank of every edge in the order in which TensorFlow makes them; its own source and sink have edges too."""

    edge: Ids  # [E]
    source: Ids  # [N] of the control edge from TensorFlow's source, -1: it has none
    sink: Ids  # [N] of the control edge to TensorFlow's sink, -1: it has none


@dataclass(frozen=True, eq=False)
class Lowered:
    """What a graph was before TensorFlow's passes rewrote it for the placer, and what they made of its order."""

    given: Graph  # what TensorFlow is handed
    creation: Creation
    topological: Ids  # [N] the smallest topological order by row, back edges ignored
    by_chance: Flags  # [E] made in the order of a set of pointers: its rank is one of many that it may have


def creation_of(graph: Graph) -> Creation:
    """The order for a graph as TensorFlow's importer makes it.

    An edge is made with its destination, data before control inputs; edges from nodes that come later, which close
    loops, last of all. Control inputs come in order of name, as Graph::ToGraphDef writes them when a session takes a
    graph over (`tensorflow/core/graph/graph.cc`). The edges of source and sink follow, node by node.
    """
    count, edges = len(graph), len(graph.edge_src)
    control = graph.edge_tensor < 0
    by_name = np.where(control, _name_ranks(graph, graph.edge_src[control])[graph.edge_src], 0)
    closing = graph.place[graph.edge_src] > graph.place[graph.edge_dst]
    keys = (np.arange(edges), by_name, control, graph.place[graph.edge_dst], closing)
    rank = np.empty(edges, np.int64)
    rank[np.lexsort(keys)] = np.arange(edges)
    ends = np.zeros((count, 2), bool)
    ends[:, 0] = np.diff(graph.in_ptr) == 0
    ends[:, 1] = np.diff(graph.out_ptr) == 0
    late = np.full((count, 2), -1)
    late[ends] = 0
    in_order = late[graph.order]
    in_order[ends[graph.order]] = edges + np.arange(np.count_nonzero(ends))
    late[graph.order] = in_order
    return Creation(ids(rank), ids(late[:, 0]), ids(late[:, 1]))


def _name_ranks(graph: Graph, rows: Ids) -> Ids:
    """[N] rank by name of the given rows."""
    rank = np.zeros(len(graph), np.int64)
    distinct = sorted(set(rows.tolist()), key=graph.names.__getitem__)
    rank[distinct] = np.arange(len(distinct))
    return ids(rank)
