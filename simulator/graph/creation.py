"""The order in which TensorFlow creates the nodes and edges of a graph: the order of their ids.

TensorFlow imports a GraphDef node by node, each with its in-edges (`tensorflow/core/common_runtime/
graph_constructor.cc`). Passes that rewrite the graph before placement create further nodes and edges later. The order
of such a graph does not follow from its nodes; `graph.Lowered` holds it.

TensorFlow visits the edges of a node in this order while there are at most `ORDERED`. A node with more edges keeps them
in a hash set of pointers, whose order differs from run to run (`tensorflow/core/graph/edgeset.h`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.columns import Flags, Ids, ids, positions

ORDERED = 8  # edges into a node, or out of it: EdgeSet's kInline


@dataclass(frozen=True, eq=False)
class Creation:
    """Rank of every edge in TensorFlow's order of creation; TensorFlow's own source and sink have edges too."""

    edge: Ids  # [E]
    source: Ids  # [N] of the control edge from TensorFlow's source, -1: it has none
    sink: Ids  # [N] of the control edge to TensorFlow's sink, -1: it has none


def creation_of(names: Sequence[str], src: Ids, dst: Ids, control: Flags, order: Ids) -> Creation:
    """The order of an imported graph; `order` [N] is that of its nodes, the other columns are [E].

    An edge is created with its destination, data before control inputs. Edges from later nodes, which close loops, come
    after all others. Control inputs are in order of name, as Graph::ToGraphDef writes them when a session takes a graph
    over (`tensorflow/core/graph/graph.cc`). The edges of source and sink follow, node by node.
    """
    count, edges = len(names), len(src)
    place = positions(order, count)
    by_name = np.where(control, _name_ranks(names, src[control])[src], 0)
    rank = np.empty(edges, np.int64)
    rank[np.lexsort((np.arange(edges), by_name, control, place[dst], place[src] > place[dst]))] = np.arange(edges)
    ends = np.stack([np.bincount(side, minlength=count) == 0 for side in (dst, src)], axis=1)  # entered, left by none
    late = np.full((count, 2), -1)
    late[ends] = 0
    in_order = late[order]
    in_order[ends[order]] = edges + np.arange(np.count_nonzero(ends))
    late[order] = in_order
    return Creation(ids(rank), ids(late[:, 0]), ids(late[:, 1]))


def _name_ranks(names: Sequence[str], rows: Ids) -> Ids:
    """[N] rank by name of the given rows."""
    rank = np.zeros(len(names), np.int64)
    distinct = sorted(set(rows.tolist()), key=names.__getitem__)
    rank[distinct] = np.arange(len(distinct))
    return ids(rank)
