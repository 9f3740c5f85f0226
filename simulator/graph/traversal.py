"""Traversal of a graph: fan-in, as in TensorFlow's pruning, fan-out, direct inputs, and sinks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np

from simulator.columns import Flags, flags
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, EXITS

_Key = TypeVar("_Key", bound=Hashable)
PLACEHOLDERS = frozenset(("Placeholder", "PlaceholderV2"))


def fan_in(graph: Graph, targets: Iterable[int], fed: Collection[int] = ()) -> Flags:
    """[N] the nodes that run for the target nodes when the tensors in `fed` (rows) are handed in by the client.

    The traversal goes backwards over data and control edges, loops included. It ends at a fed tensor: the client
    replaces the node's data edges, and a placeholder's control edges too. A fed node still runs if another of its
    outputs is read, or if it is no placeholder and has control successors (`tensorflow/core/graph/subgraph.cc`).
    """
    runs = bytearray(len(graph))
    in_ptr, silent = graph.in_ptr.tolist(), _fed_placeholders(graph, fed)
    handed_in = np.isin(graph.edge_tensor, list(fed))
    handed_in |= (graph.edge_tensor < 0) & np.isin(graph.edge_src, list(silent))
    sources = np.where(handed_in, graph.edge_dst, graph.edge_src).tolist()  # such an edge leads to nothing else
    pending = list(targets)
    for row in pending:
        runs[row] = 1
    while pending:
        row = pending.pop()
        for source in sources[in_ptr[row] : in_ptr[row + 1]]:
            if not runs[source]:
                runs[source] = 1
                pending.append(source)
    return flags(np.frombuffer(runs, np.bool_))


def fan_out(graph: Graph, sources: Iterable[int]) -> list[int]:
    """The nodes that depend on the sources, with the sources, in ascending order."""
    reached = set(sources)
    out_ptr = graph.out_ptr.tolist()
    targets = graph.edge_dst[graph.out_edge].tolist()
    pending = list(reached)
    while pending:
        row = pending.pop()
        for target in targets[out_ptr[row] : out_ptr[row + 1]]:
            if target not in reached:
                reached.add(target)
                pending.append(target)
    return sorted(reached)


def closure(begin: Iterable[_Key], onward: Callable[[_Key], Iterable[_Key]]) -> set[_Key]:
    """The keys at the beginning, and all to which `onward` leads from them, step by step."""
    pending = list(begin)
    seen = set(pending)
    while pending:
        new = [key for key in dict.fromkeys(onward(pending.pop())) if key not in seen]
        seen.update(new)
        pending += new
    return seen


def gathered(order: Iterable[int], before: Sequence[Sequence[int]], own: Sequence[int], *, loops: bool) -> list[int]:
    """[N] the bits of each node with those of all nodes that lead to it, of their own bits and the nodes before each.

    In `order` a node stands behind those before it, but where there are loops: then it is walked until no bit is new.
    A node that is not in it keeps its own bits.
    """
    found, again, order = list(own), True, [*order]
    while again:
        again = False
        for row in order:
            mask = found[row]
            for one in before[row]:
                mask |= found[one]
            again |= loops and mask != found[row]
            found[row] = mask
    return found


def all_sources(graph: Graph) -> list[list[int]]:
    """[N] the nodes that each node reads or waits for, one for each edge: `Graph.sources` of all nodes at once."""
    sources: list[int] = graph.edge_src.tolist()
    return [sources[first:last] for first, last in pairwise(graph.in_ptr.tolist())]


def sinks(graph: Graph) -> list[int]:
    """The nodes without out-edges, in ascending order."""
    rows: list[int] = np.flatnonzero(np.diff(graph.out_ptr) == 0).tolist()
    return rows


def own_sinks(graph: Graph) -> list[int]:
    """The sinks that a client may ask for, ascending: where calls were expanded, those before that."""
    return sorted(graph.index[name] for name in graph.ends if name in graph.index) or sinks(graph)


def loop_depths(graph: Graph) -> list[int]:
    """[N] the number of loops inside which each node runs; an Enter is inside, an Exit outside."""
    depth, sources = [0] * len(graph), all_sources(graph)
    for row in graph.topological.tolist():
        outer = max((depth[source] for source in sources[row]), default=0)
        depth[row] = outer + (graph.ops[row] in ENTERS) - (graph.ops[row] in EXITS)
    return depth


def whole_loops(graph: Graph, rows: Collection[int]) -> frozenset[int]:
    """The rows with all nodes of the loops in which some of them run, counters and Exits among them."""
    depth = loop_depths(graph)

    def beside(row: int) -> list[int]:
        return [at for at in (*graph.sources(row), *graph.edge_dst[graph.out_edges(row)].tolist()) if depth[at]]

    inside = closure((row for row in rows if depth[row]), beside)
    after = {int(graph.edge_dst[edge]) for row in inside for edge in graph.out_edges(row)}
    exits = {row for row in after if graph.ops[row] in EXITS}
    return frozenset(rows) | inside | exits


def _fed_placeholders(graph: Graph, fed: Collection[int]) -> set[int]:
    return {node for tensor in fed if graph.ops[node := int(graph.tensor_node[tensor])] in PLACEHOLDERS}
