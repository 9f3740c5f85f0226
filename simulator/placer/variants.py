"""Nodes that must stay on CPUs because of the content of their variants (§3.2).

A variant is a box. A dataset, a list of strings or a lock can't be copied to a GPU, and only the content tells them
from other variants. TensorFlow finds it in two ways (`tensorflow/core/common_runtime/colocation_graph.cc`):

    by full types       Ops declare the content of the variants that they make. Identity, Switch, Merge, Enter, Exit and
                        NextIteration pass it on (forward_type_inference.cc). Such an op, or a call, stays on CPUs if it
                        reads anything of a node with such variants.
    by lists            Any other reader is traced back over variant edges to the op that made the list.
"""

from __future__ import annotations

import numpy as np

from simulator.graph import registry
from simulator.graph.dtypes import RESOURCE, STRING, VARIANT
from simulator.graph.graph import Graph
from simulator.graph.op_classes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES

_FORWARDS = frozenset({"Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration"})
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient"})
_LOOKS_AT_TYPES = (
    SWITCHES | MERGES | ENTERS | EXITS | NEXT_ITERATIONS | _CALLS | {"_SwitchN", "Identity", "RefIdentity", "_Retval"}
)
_ALWAYS = "*"


def host_bound(graph: Graph) -> list[int]:
    """The nodes with variant inputs that live on the host, ascending."""
    carried = np.append(graph.tensor_dtype, 0)[graph.edge_tensor]  # a control edge carries tensor -1, the last: nothing
    readers = np.unique(graph.edge_dst[carried == VARIANT]).tolist()
    if not readers:
        return []
    hosted = _hosted(graph)
    lists = _Lists(graph)
    return [node for node in readers if _reads_hosted(graph, node, hosted) or lists.on_host(node)]


def _reads_hosted(graph: Graph, node: int, hosted: set[int]) -> bool:
    if graph.ops[node] not in _LOOKS_AT_TYPES and graph.ops[node] not in graph.library:
        return False
    sources = graph.edge_src[graph.in_ptr[node] : graph.in_ptr[node + 1]].tolist()
    return not hosted.isdisjoint(sources)


def _hosted(graph: Graph) -> set[int]:
    """The nodes whose variants are declared to live on the host, and the nodes that pass these on."""
    todo = [node for node, op in enumerate(graph.ops) if _makes_hosted(graph, node, op)]
    hosted = set(todo)
    while todo:
        node = todo.pop()
        for edge in graph.out_edge[graph.out_ptr[node] : graph.out_ptr[node + 1]].tolist():
            target = int(graph.edge_dst[edge])
            op = graph.ops[target]
            if target in hosted or op not in _FORWARDS or graph.edge_tensor[edge] < 0:
                continue
            if op == "Merge" or edge == graph.in_ptr[target]:
                hosted.add(target)
                todo.append(target)
    return hosted


def _makes_hosted(graph: Graph, node: int, op: str) -> bool:
    given = registry.facts(op)
    if given is None or not given.host_variant:
        return False
    if given.host_variant == _ALWAYS:
        return True
    held = graph.attrs[node].get(given.host_variant)
    return held is not None and (held.type == STRING or STRING in held.list.type)


class _Lists:
    """The content of the lists that reach a node over variant edges; chains of nodes share their answer."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[int, bool] = {}

    def on_host(self, node: int) -> bool:
        """Whether the list that is found first holds strings or resources."""
        chain = []
        while node not in self._known:
            chain.append(node)
            sources = self._sources(node)
            if _element_type(self._graph, node) or len(sources) != 1:  # a loop has a Merge, which has two
                self._known[node] = self._searched(node)
                break
            node = sources[0]
        self._known.update(dict.fromkeys(chain, self._known[node]))
        return self._known[node]

    def _sources(self, node: int) -> list[int]:
        graph = self._graph
        edges = range(int(graph.in_ptr[node]), int(graph.in_ptr[node + 1]))
        tensors = graph.edge_tensor[edges.start : edges.stop].tolist()
        return [
            int(graph.edge_src[edge])
            for edge, tensor in zip(edges, tensors, strict=True)
            if tensor >= 0 and graph.tensor_dtype[tensor] == VARIANT
        ]

    def _searched(self, node: int) -> bool:
        """Depth first against the edges, the last input first; a list that was due before the first find counts too."""
        found = None
        todo, seen = [node], set()
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            held = _element_type(self._graph, node)
            if held:
                found = held in (STRING, RESOURCE)
            if found is None:
                todo += [source for source in self._sources(node) if source not in seen]
        return bool(found)


def _element_type(graph: Graph, node: int) -> int:
    """The element type of a list op; 0 for other ops and for lists of variants."""
    if not graph.ops[node].startswith(("TensorList", "EmptyTensorList")):
        return 0
    value = graph.attrs[node].get("element_dtype")
    return 0 if value is None or value.type == VARIANT else int(value.type)
