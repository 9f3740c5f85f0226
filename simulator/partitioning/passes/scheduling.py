"""Recv scheduling: Recvs of a worker start late, by the option `enable_recv_scheduling` of a master.

The master writes its earliest start on every node, as if every op took one microsecond and every copy ten
(`tensorflow/core/distributed_runtime/scheduler.cc`). Each worker divides the time of each of its pieces into epochs
(`tensorflow/core/graph/graph_partition.cc`). A ControlTrigger begins each epoch, after the last node that starts before
it. A Recv waits for the trigger six epochs ahead of its own.

TensorFlow 2.21 itself seldom comes so far. Its cost model knows nodes by numbers that hold no longer once a node was
pruned or copied, and outputs by their readers. Where a node or an output is missing there, the process dies. The cut
here is the one of a graph that spares TensorFlow that.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.columns import flags, ids
from simulator.graph.editor import CONTROL
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.graph.op_classes import MERGES
from simulator.partitioning.cut_graph import Column, CutEdges, CutNodes, as_graph, edges_of, nodes_of, waits
from simulator.partitioning.levels import Level
from simulator.partitioning.pieces import Pieces

# in microseconds
_OP, _COPY = 1, 10
_EPOCHS, _AHEAD = 100, 6


def earliest_starts(nodes: CutNodes, given: CutEdges) -> Column:
    """[nodes] the earliest start of each, in microseconds, on its device before control flow moves.

    The walk is first in, first out. A node's start counts for its successors as it is when the walk comes to the node.
    A loop's Merge goes on with its first value; a later iteration may still raise its own start.
    """
    graph, count, device = nodes.graph, len(nodes), np.array(nodes.device, np.int64)
    src, dst = given.src.tolist(), given.dst.tolist()
    control = given.port == CONTROL
    cost = (_OP + np.where(~control & (device[given.src] != device[given.dst]), _COPY, 0)).tolist()
    merge = [op in MERGES for op in graph.ops] + [False] * (count - len(graph))
    waits = np.bincount(given.dst, minlength=count).tolist()
    controls = np.bincount(given.dst[control], minlength=count).tolist()
    pending = [2 * controls[node] + 1 if merge[node] else waits[node] for node in range(count)]
    leaving: list[list[int]] = [[] for _ in range(count)]
    for wire in np.argsort(given.id, kind="stable").tolist():
        leaving[src[wire]].append(wire)
    start = [0 if count else _OP for count in waits]  # TensorFlow's source takes its time too
    ready = deque([*(node for node in [*graph.order.tolist(), *range(len(graph), count)] if not waits[node])])
    is_control = control.tolist()
    while ready:
        node = ready.popleft()
        for wire in leaving[node]:
            after = dst[wire]
            start[after] = max(start[after], start[node] + cost[wire])
            if merge[after] and not is_control[wire] and pending[after] % 2 == 0:
                continue  # not its first value
            pending[after] -= 2 if merge[after] and is_control[wire] else 1
            if not pending[after]:
                ready.append(after)
    return np.array(start, np.int64)


def with_starts(pieces: Pieces) -> Graph:
    """The graph of the pieces, with `_start_time` on every node where Recvs are scheduled."""
    graph = pieces.graph
    if pieces.start is None:
        return graph
    rows = zip(graph.attrs, pieces.start.tolist(), strict=True)
    return replace(graph, attrs=tuple({**own, "_start_time": AttrValue(i=when)} for own, when in rows))


def with_triggers(pieces: Pieces, level: Level, cluster: Cluster) -> Pieces:
    """The pieces by device, with the triggers of their epochs last."""
    graph, start = pieces.graph, pieces.start
    assert start is not None
    nodes, given = nodes_of(graph, pieces.device.tolist()), edges_of(graph)
    begin, numbers = start.tolist(), list(pieces.numbers)
    for where in sorted(set(pieces.device.tolist())):
        members = np.flatnonzero(pieces.device == where).tolist()
        counter = int(level.counter[where])
        epochs, more = _epochs(graph, _in_order_of_time(graph, members, start), len(nodes))
        for epoch in range(len(epochs)):
            nodes.add(f"synch_{epoch}{level.suffix}{numbers[counter]}", "ControlTrigger", {}, members[0], where)
            numbers[counter] += 1
        begin += epochs
        given = given.join(waits(more, len(graph.edge_src)))
    added = len(nodes) - len(graph)
    requested = [cluster.devices[row].name for row in nodes.device]
    return replace(
        pieces,
        graph=as_graph(nodes, given, np.arange(len(nodes)), requested),
        device=ids(nodes.device),
        origin=ids(pieces.origin[nodes.origin]),
        inserted=flags(np.append(pieces.inserted, np.ones(added, bool))),
        endpoint=ids(np.append(pieces.endpoint, np.full(added, -1))),
        numbers=tuple(numbers),
        start=np.array(begin, np.int64),
    )


def _epochs(graph: Graph, order: list[tuple[int, int]], first: int) -> tuple[list[int], list[tuple[int, int]]]:
    """The begins of a piece's epochs, and pairs (first, then) of nodes that wait; triggers are rows from `first` on."""
    resolution = order[-1][1] // _EPOCHS + 1 if order else 1
    begin: list[int] = []
    waits = []
    passed = 0
    while len(begin) < _EPOCHS and passed < len(order):
        when = len(begin) * resolution
        if when > order[passed][1]:
            passed += 1
            continue
        if passed:
            waits.append((order[passed - 1][0], first + len(begin)))
        begin.append(when)
    for node, when in order:
        if graph.ops[node] == "_Recv" and when // resolution >= _AHEAD:
            waits.append((first + when // resolution - _AHEAD, node))
    return begin, waits


def _in_order_of_time(graph: Graph, members: list[int], start: Column) -> list[tuple[int, int]]:
    """(node, start) in topological order, the earliest first; a node starts after each of its inputs."""
    when = {node: int(start[node]) for node in members}
    forward = ~graph.edge_back
    pending = {node: int(forward[graph.in_ptr[node] : graph.in_ptr[node + 1]].sum()) for node in members}
    heap: list[tuple[int, int]] = []
    for node in members:
        if not pending[node]:
            _push(heap, (when[node], node))
    order = []
    while heap:
        now, node = _pop(heap)
        order.append((node, now))
        for edge in graph.out_edges(node):
            after = int(graph.edge_dst[edge])
            if not forward[edge]:
                continue
            pending[after] -= 1
            if not pending[after]:
                when[after] = max(when[after], now + 1)
                _push(heap, (when[after], after))
    return order


def _push(heap: list[tuple[int, int]], item: tuple[int, int]) -> None:
    """Add to a heap as C++'s std::push_heap does: among equal times its layout decides who comes first."""
    heap.append(item)
    _rise(heap, len(heap) - 1)


def _rise(heap: list[tuple[int, int]], at: int) -> None:
    item = heap[at]
    while at and heap[(at - 1) // 2][0] > item[0]:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = item


def _pop(heap: list[tuple[int, int]]) -> tuple[int, int]:
    """Take the top as std::pop_heap does: the hole sinks to the bottom, the last item takes it and rises."""
    top, last = heap[0], heap.pop()
    if not heap:
        return top
    at = 0
    while (child := 2 * at + 2) <= len(heap):
        if child == len(heap) or heap[child][0] > heap[child - 1][0]:
            child -= 1
        heap[at] = heap[child]
        at = child
    heap[at] = last
    _rise(heap, at)
    return top
