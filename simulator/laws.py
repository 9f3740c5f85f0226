"""The laws of graphs and assignments: properties of every value, independent of the code that made it.

Each function returns a sentence per violation, and none for a lawful value. The functions look only at values, so a
fault in the code that makes them cannot hide. Tests, `--check` and debugging use them; they favour clarity over speed.
The laws of partitions are in `partitioning/laws.py`, those of traces in `execution/laws.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.assignment import OVERRULED, RELAXED, RULES, Assignment
from simulator.cluster.cluster import Cluster
from simulator.cluster.devicespec import matches, parse
from simulator.columns import positions
from simulator.graph import ops
from simulator.graph.graph import Graph


def graph_laws(graph: Graph) -> list[str]:
    """Edges point at rows, tensors belong to their nodes, data inputs come first, and only back edges close cycles."""
    return [*_wrong_columns(graph), *_wrong_order(graph)]


def _wrong_columns(graph: Graph) -> Iterator[str]:
    count, tensors = len(graph), len(graph.tensor_node)
    sizes = (len(graph.ops), len(graph.requested), len(graph.attrs), len(graph.order))
    if sizes != (count,) * 4 or len(graph.in_ptr) != count + 1 or len(graph.tensor_ptr) != count + 1:
        yield f"the columns of {count} nodes have {sizes} rows"
        return
    for what, pointer, length in (("edges", graph.in_ptr, len(graph.edge_src)), ("tensors", graph.tensor_ptr, tensors)):
        if pointer[0] != 0 or pointer[-1] != length or (np.diff(pointer) < 0).any():
            yield f"the {what} are not laid out node by node"
            return
    for edge in range(len(graph.edge_src)):
        src, dst, tensor = int(graph.edge_src[edge]), int(graph.edge_dst[edge]), int(graph.edge_tensor[edge])
        if not (0 <= src < count and 0 <= dst < count and -1 <= tensor < tensors):
            yield f"edge {edge} points at a row that is not there"
            continue
        if not graph.in_ptr[dst] <= edge < graph.in_ptr[dst + 1]:
            yield f"edge {edge} is not among the inputs of {graph.names[dst]!r}"
        if tensor >= 0 and graph.tensor_node[tensor] != src:
            yield f"edge {edge} carries a tensor that {graph.names[src]!r} does not make"
        if tensor >= 0 and edge > graph.in_ptr[dst] and graph.edge_tensor[edge - 1] < 0:
            yield f"{graph.names[dst]!r} has a data input after a control input"


def _wrong_order(graph: Graph) -> Iterator[str]:
    if any(sorted(order.tolist()) != list(range(len(graph))) for order in (graph.order, graph.topological)):
        yield "the order of the nodes is not a permutation"
        return
    place = positions(graph.topological, len(graph))
    sound = (graph.edge_src >= 0) & (graph.edge_src < len(graph)) & (graph.edge_dst < len(graph)) & ~graph.edge_back
    edge = np.flatnonzero(sound)
    for bad in edge[place[graph.edge_src[edge]] >= place[graph.edge_dst[edge]]].tolist():
        yield f"{graph.names[graph.edge_dst[bad]]!r} comes before its input {graph.names[graph.edge_src[bad]]!r}"


def assignment_laws(graph: Graph, assignment: Assignment, cluster: Cluster) -> list[str]:
    """Every node is on a device of the cluster that has a kernel for it and matches its request; groups are whole.

    The groups are those of the constraints by which it was placed, if it was. For a request that is not met, `why` must
    have the reason. Soft placement may relax type and number; a reference edge may overrule the whole request.
    """
    if assignment.devices != cluster.device_names:
        return ["the devices of the assignment are not those of the cluster"]
    if len(assignment) != len(graph) or len(assignment.why) != len(graph):
        return [f"{len(assignment)} devices and {len(assignment.why)} reasons for {len(graph)} nodes"]
    found = []
    for row, (device, why) in enumerate(zip(assignment.device.tolist(), assignment.why.tolist(), strict=True)):
        if not (0 <= device < len(cluster) and 0 <= why < len(RULES)):
            found.append(f"{graph.names[row]!r} has no device or no reason")
        else:
            found += _wrong_device(graph, row, cluster, device, why)
    return [*found, *_split_groups(graph, assignment)]


def _wrong_device(graph: Graph, row: int, cluster: Cluster, device: int, why: int) -> Iterator[str]:
    there = cluster.devices[device]
    if there.type not in dict(ops.kernel_types(graph.ops[row], graph.attrs[row])):
        yield f"{graph.names[row]!r} is on {there.name}, where {graph.ops[row]} has no kernel"
    asked, have = parse(graph.requested[row]), parse(there.name)
    must = asked.without_device() if why == RELAXED else asked
    if why != OVERRULED and not matches(must, have):
        yield f"{graph.names[row]!r} asked for {graph.requested[row]!r} and is on {there.name}"


def _split_groups(graph: Graph, assignment: Assignment) -> Iterator[str]:
    first: dict[int, int] = {}
    for row, one in enumerate([] if assignment.constraints is None else assignment.constraints.group.tolist()):
        other = first.setdefault(one, row)
        if assignment.device[other] != assignment.device[row]:
            yield f"{graph.names[row]!r} is not with {graph.names[other]!r} of its group"
