"""Replication of small constants to the devices that read them, so that they never cross between CPUs.

The rule is that of `tensorflow/core/common_runtime/replicate_constants_pass.cc`, which is on by default. It takes a
Const on a CPU with at most 16 elements and no control successor that is read on two or more targets. The Const is
deleted and made anew on each target. The target of a reader is its own device if that is a CPU, else a CPU of its task
(`Cluster.home`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster
from simulator.columns import Flags, alike, different
from simulator.graph.editor import CONTROL
from simulator.graph.graph import Graph
from simulator.graph.step import Exchange, Step
from simulator.partitioning.cut_graph import FIRST_ID, LAST, Column, CutEdges, CutNodes, new_edges

MAX_ELEMENTS = 16  # replicate_constants_pass.cc


def is_small(graph: Graph, row: int) -> bool:
    """Tell whether a constant's value says that it has few enough elements to be copied."""
    value = graph.attrs[row].get("value")
    if value is None:
        return False
    elements = 1
    for dim in value.tensor.tensor_shape.dim:
        elements *= dim.size
    return bool(0 <= elements <= MAX_ELEMENTS)


def replicate_constants(
    nodes: CutNodes, given: CutEdges, step: Step, client: Exchange, cluster: Cluster, client_ends: Column
) -> tuple[CutEdges, Flags, int]:
    """Replace each constant that TensorFlow copies; returns the new edges, the deleted rows [N] and the next edge id.

    Copies are added in order of node id, then of device name. Their edges get the last ids, as the pass makes them: for
    each copy those to its readers, then its control inputs. `client_ends` are as `client.attach` gives them.
    """
    graph, device = nodes.graph, np.array(nodes.device, np.int64)
    gone = np.zeros(len(nodes), bool)
    reading = _readings(graph, cluster, given, device)
    target = cluster.home[device[given.dst[reading]]].astype(np.int64)
    gone[_of_several_targets(given.src[reading], target)] = True
    chosen = gone[given.src[reading]]
    stays = ~(gone[given.src] | gone[given.dst])
    given, next_id = _without_gaps(graph, client, given, stays, step.runs & ~gone[: len(graph)], client_ends)
    if gone.any():
        waiting = _waiting(graph, client, given, gone)
        given, made, next_id = _copies(nodes, given, cluster, reading[chosen], target[chosen], waiting, next_id)
        given = given.take(~gone[given.dst]).join(made)
    return given, gone[: len(graph)], next_id


def _readings(graph: Graph, cluster: Cluster, given: CutEdges, device: Column) -> npt.NDArray[np.intp]:
    """The edges that read a constant which may be copied."""
    on_cpu = np.array([one.type == "CPU" for one in cluster.devices], bool)[device]
    may = np.zeros(len(device), bool)
    may[: len(graph)] = np.fromiter((op == "Const" for op in graph.ops), bool, len(graph))
    may &= on_cpu & (np.bincount(given.src, minlength=len(device)) > 1)
    may[given.src[given.port == CONTROL]] = False
    rows = np.flatnonzero(may)
    may[:] = False
    may[[row for row in rows.tolist() if is_small(graph, row)]] = True
    return np.flatnonzero(may[given.src])


def _of_several_targets(row: Column, target: Column) -> Column:
    rows = row[alike(row, target)[0]]
    return different(rows[1:][rows[1:] == rows[:-1]])


def _copies(
    nodes: CutNodes,
    given: CutEdges,
    cluster: Cluster,
    reading: npt.NDArray[np.intp],
    target: Column,
    waiting: Mapping[int, Sequence[int]],
    next_id: int,
) -> tuple[CutEdges, CutEdges, int]:
    """Add the copies; returns the edges with readers led to them, the control inputs of copies, the next edge id."""
    graph, place = nodes.graph, nodes.graph.place
    src, number = given.src.copy(), given.id.copy()
    readers: dict[tuple[int, int], list[int]] = {}
    order = np.argsort(given.id[reading])
    for edge, home in zip(reading[order].tolist(), target[order].tolist(), strict=True):
        readers.setdefault((int(given.src[edge]), home), []).append(edge)
    fresh = []
    before = len(nodes)
    for row, home in sorted(readers, key=lambda pair: (place[pair[0]], cluster.devices[pair[1]].name)):
        name, value = f"{graph.names[row]}/replicate/_{len(nodes) - before}", nodes.value(row, 0)
        copy = nodes.add(name, "Const", graph.attrs[row], row, home, (value,))
        read, sources = readers[row, home], waiting.get(row, ())
        src[read] = copy
        number[read] = range(next_id, next_id + len(read))
        next_id += len(read)
        fresh += [(source, copy, next_id + at) for at, source in enumerate(sources)]
        next_id += max(len(sources), 1)  # one that waits for nothing hangs on TensorFlow's source
    waits = np.array(fresh, np.int64).reshape(-1, 3).T
    made = new_edges(waits[0], CONTROL, waits[1], LAST, waits[2])
    return replace(given, src=src, id=number), made, next_id


def _waiting(graph: Graph, client: Exchange, given: CutEdges, gone: Flags) -> dict[int, list[int]]:
    """The control inputs of each deleted constant, in the order in which its edges stand.

    An edge from a fed tensor has a late id. It stands where the placeholder's edge stood, whose place in the list it
    took (`tensorflow/core/graph/edgeset.cc`).
    """
    found: dict[int, dict[int, int]] = {}
    for edge in np.flatnonzero(gone[given.dst]).tolist():
        src = int(given.src[edge])
        origin = src if src < len(graph) else int(graph.tensor_node[client.fed[src - len(graph)]])
        found.setdefault(int(given.dst[edge]), {})[origin] = src
    made = graph.creation.edge
    waits: dict[int, list[int]] = {}
    for row, standing in found.items():
        edges = sorted(graph.in_edges(row), key=made.__getitem__)
        waits[row] = [standing[origin] for origin in dict.fromkeys(graph.edge_src[edges].tolist())]
    return waits


def _without_gaps(
    graph: Graph,
    client: Exchange,
    given: CutEdges,
    stays: Flags,
    runs: Flags,
    client_ends: Column,
) -> tuple[CutEdges, int]:
    """Close the gaps in the ids that edges leave which do not stay. Return the edges, and the next free id.

    Edges that do not stay keep their ids until they get new ones. The edges of TensorFlow's source and sink count where
    they were made. At the end TensorFlow joins to source and sink the nodes that have no input or no reader any more.
    They lost them by pruning, or because the client took a placeholder's edges over.
    """
    source, sink = graph.creation.source, np.where(client.replaced, -1, graph.creation.sink)
    ends = FIRST_ID + np.concatenate([source[runs], sink[runs]]).astype(np.int64)
    rows = np.flatnonzero(stays)
    all_ids = np.sort(np.concatenate([given.id[rows], ends[ends >= FIRST_ID], client_ends]))
    number: Column = given.id.copy()
    number[rows] = FIRST_ID + np.searchsorted(all_ids, given.id[rows])
    read, reads = np.zeros(len(graph), bool), np.zeros(len(graph), bool)
    read[given.src[given.src < len(graph)]] = True
    reads[given.dst[given.dst < len(graph)]] = True
    left = np.count_nonzero(runs & ~reads & (source < 0)) + np.count_nonzero(runs & ~read & (sink < 0))
    return replace(given, id=number), FIRST_ID + len(all_ids) + int(left)
