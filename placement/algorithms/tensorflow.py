"""TensorFlow's own placer, node by node (`tensorflow/core/common_runtime/placer.cc`; docs/tensorflow.md, §3.7).

Costs and memory play no part. Nodes are placed in the order of their ids, those without inputs last; the first node of
a group decides for the group. A node takes the first device that its group may use, except by three heuristics:

    metadata        Shape, Size and Rank go to the device of their input
    pass-through    an Identity between two nodes with the same request goes to the device of its input
    generator       a node without inputs goes to the device of all its readers

The device of "the" input is that of the first edge. TensorFlow keeps up to eight edges of a node in order; beyond, the
order is that of addresses in memory. TensorFlow's choice for metadata ops with more edges can only be observed.
"""

from __future__ import annotations

import numpy as np

from placement.plan import Plan
from placement.problem import Problem
from simulator.assignment import COLOCATED, DEFAULT, GENERATOR, METADATA, PASS_THROUGH
from simulator.graph.creation import ORDERED
from simulator.graph.graph import Graph
from simulator.placer.constraints import placement_order
from simulator.wording import counted

_METADATA = frozenset({"Shape", "Size", "Rank"})
_UNPLACED = -1


def tensorflow(problem: Problem) -> Plan:
    """Place every node of the graph, whether it runs or not."""
    graph, group, allowed = problem.graph, problem.constraints.group.tolist(), problem.lawful
    chosen = [_UNPLACED] * len(allowed)  # [G] device
    device = [_UNPLACED] * len(graph)  # a generator's group may be placed before the generator itself is placed
    rule = [COLOCATED] * len(graph)
    followed = _followed(graph)
    unordered = _by_chance(graph)
    early, late = placement_order(graph)
    for node in early:
        row = group[node]
        if chosen[row] == _UNPLACED:
            chosen[row], rule[node] = allowed[row][0], DEFAULT
            beside = followed.get(node)
            if node in unordered and problem.seen.get(node) in _choices(unordered[node], device, allowed[row]):
                chosen[row], rule[node] = problem.seen[node], METADATA
            elif beside is not None and device[beside] in allowed[row]:
                chosen[row] = device[beside]
                rule[node] = METADATA if graph.ops[node] in _METADATA else PASS_THROUGH
        device[node] = chosen[row]
    readers, first, sink = graph.edge_dst[graph.out_edge], graph.out_ptr.tolist(), graph.creation.sink.tolist()
    for node in late:
        row = group[node]
        if chosen[row] == _UNPLACED:
            chosen[row], rule[node] = allowed[row][0], DEFAULT
            where = {device[reader] for reader in readers[first[node] : first[node + 1]].tolist()}
            if sink[node] >= 0:  # TensorFlow's own reader of what nobody reads is on no device
                where.add(_UNPLACED)
            if len(where) == 1 and (only := where.pop()) in allowed[row]:
                chosen[row], rule[node] = only, GENERATOR
        device[node] = chosen[row]
    notes = (_note(graph, unordered),) if unordered else ()
    # groups that are still open are the client's own
    chosen = [devices[0] if one == _UNPLACED else one for one, devices in zip(chosen, allowed, strict=True)]
    return Plan(chosen, [DEFAULT] * len(allowed), why=rule, log_order=[*early, *late], notes=notes)


def _followed(graph: Graph) -> dict[int, int]:
    """Metadata ops and pass-through Identities, each with the node that it follows: the source of its first edge."""
    found = {}
    indegree, outdegree = np.diff(graph.in_ptr), np.diff(graph.out_ptr)
    followers = outdegree + (graph.creation.sink >= 0)
    for node, op in enumerate(graph.ops):
        if op in _METADATA and indegree[node]:
            found[node] = int(graph.edge_src[min(graph.in_edges(node), key=graph.creation.edge.item)])
        elif op == "Identity" and not graph.requested[node] and indegree[node] == 1 and followers[node] == 1:
            source = int(graph.edge_src[graph.in_ptr[node]])
            after = graph.edge_dst[graph.out_edge[graph.out_ptr[node]]] if outdegree[node] else None
            asks = graph.requested[after] if after is not None else ""  # a leaf is followed by TensorFlow's sink
            if graph.requested[source] == asks:
                found[node] = source
    return found


def _by_chance(graph: Graph) -> dict[int, list[int]]:
    """The metadata ops with more edges than TensorFlow keeps in order, each with the sources of all of them."""
    found = {}
    for node in np.flatnonzero(np.diff(graph.in_ptr) > ORDERED).tolist():
        if graph.ops[node] in _METADATA:
            found[node] = graph.sources(node)
    return found


def _choices(sources: list[int], device: list[int], allowed: tuple[int, ...]) -> set[int]:
    """The devices that TensorFlow may choose, depending on which source comes first."""
    return {device[source] if device[source] in allowed else allowed[0] for source in sources}


def _note(graph: Graph, unordered: dict[int, list[int]]) -> str:
    first = graph.names[min(unordered)]
    return (
        f"{counted(len(unordered), 'shape op')} with more than {ORDERED} inputs, the first {first!r}: which of them "
        "TensorFlow follows is by chance; here it is the first"
    )
