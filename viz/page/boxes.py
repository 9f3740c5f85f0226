"""Lay out the folded graph: each item's column and row within its scope, by longest path and barycentre sweeps.

The steps are those of Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures"
(1981). Cycles are broken. Each item gets a rank, which is its column; the picture flows to the right. Every column that
an edge passes gets a dummy. Columns are ordered by the mean position of neighbours. Last, each item is drawn as near to
its neighbours as its column allows, by pool adjacent violators, the exact answer for one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids
from viz.figures import taking_part
from viz.page.folding import Folding
from viz.scene import Scene

Lists: TypeAlias = list[list[int]]
Flags: TypeAlias = npt.NDArray[np.bool_]

ROW_STEPS = 20  # rows are written in twentieths of an item's height
SWEEPS = 4
LONGEST_CHAIN = 12  # columns that an edge may pass with dummies; a longer edge may cross boxes
DUMMY_HEIGHT = 0.45  # rows that a passing edge takes, where an item takes one


def ranks(count: int, edges: Sequence[tuple[int, int]], order: Sequence[float]) -> list[int]:
    """Column of each of `count` items: after all before it, and sources next to their first consumer.

    edges are pairs of items without duplicates; where they form cycles, the item that comes first in `order` goes
    first and the edges back to it are ignored.
    """
    ahead: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for src, dst in edges:
        ahead[src].append(dst)
        waiting[dst] += 1
    ready = [(order[item], item) for item in range(count) if not waiting[item]]
    heapify(ready)
    stuck = sorted((order[item], item) for item in range(count))
    has_source = [bool(n) for n in waiting]
    rank, done, next_stuck = [0] * count, [False] * count, 0
    sequence: list[int] = []
    while len(sequence) < count:
        if ready:
            item = heappop(ready)[1]
        else:
            while done[stuck[next_stuck][1]]:
                next_stuck += 1
            item = stuck[next_stuck][1]
        done[item] = True
        sequence.append(item)
        for other in ahead[item]:
            if not done[other]:
                rank[other] = max(rank[other], rank[item] + 1)
                waiting[other] -= 1
                if not waiting[other]:
                    heappush(ready, (order[other], other))
    for item in reversed(sequence):
        if not has_source[item] and ahead[item]:
            rank[item] = max(0, min(rank[other] for other in ahead[item]) - 1)
    return rank


def arrange(count: int, edges: Sequence[tuple[int, int]], order: Sequence[float]) -> tuple[list[int], list[float]]:
    """Column and row of each of `count` items; rows are in units of one item's height, around 0.

    In a column no two items are nearer than 1. Ties go by `order`, then by item. The cost is linear in items, edges
    and dummies, but for sorting columns.
    """
    rank = ranks(count, edges, order)
    if count == 1:
        return rank, [0.0]
    columns, left, right = _with_dummies(edges, order, rank)
    place = [0.0] * len(left)
    wide = [column for column in columns if len(column) > 1]
    if not wide:
        return rank, place[:count]  # one line
    for column in wide:
        _number(column, place)
    for sweep in range(SWEEPS):
        near = left if sweep % 2 == 0 else right
        for column in wide if sweep % 2 == 0 else reversed(wide):
            wish = {item: _mean(near[item], place, place[item]) for item in column}
            column.sort(key=wish.__getitem__)
            _number(column, place)
    for sweep in range(SWEEPS):
        near = right if sweep % 2 == 0 else left
        for column in reversed(columns) if sweep % 2 == 0 else columns:
            wishes = [_mean(near[item], place, place[item]) for item in column]
            if len(column) > 1:
                wishes = spread(wishes, [1.0 if item < count else DUMMY_HEIGHT for item in column])
            for item, row in zip(column, wishes, strict=True):
                place[item] = row
    return rank, place[:count]


def _number(column: Sequence[int], place: list[float]) -> None:
    top = -(len(column) - 1) / 2
    for index, item in enumerate(column):
        place[item] = top + index


def _mean(near: Sequence[int], place: Sequence[float], otherwise: float) -> float:
    if not near:
        return otherwise
    if len(near) == 1:
        return place[near[0]]
    return sum([place[item] for item in near]) / len(near)


def _with_dummies(
    edges: Sequence[tuple[int, int]], order: Sequence[float], rank: Sequence[int]
) -> tuple[Lists, Lists, Lists]:
    """The items of each column in their first order, and the neighbours of each item one column before and behind.

    Edges of one source share their dummies: they run together until they part.
    """
    columns: Lists = [[] for _ in range(max(rank) + 1)]
    for item in sorted(range(len(rank)), key=lambda item: (order[item], item)):
        columns[rank[item]].append(item)
    left: Lists = [[] for _ in rank]
    right: Lists = [[] for _ in rank]
    chain: dict[tuple[int, int], int] = {}  # (source, column) -> the source's dummy there
    for src, dst in edges:
        if not 0 < rank[dst] - rank[src] <= LONGEST_CHAIN:
            continue
        behind = src
        for column in range(rank[src] + 1, rank[dst]):
            dummy = chain.get((src, column))
            if dummy is None:
                dummy = chain[src, column] = len(left)
                left.append([behind])
                right.append([])
                right[behind].append(dummy)
                columns[column].append(dummy)
            behind = dummy
        left[dst].append(behind)
        right[behind].append(dst)
    return columns, left, right


def spread(wishes: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Places in the given order, no two nearer than half the sum of their sizes, as near to the wishes as can be.

    Least squares by pooling adjacent violators: with the sizes before an item taken off its wish, places must only
    not decrease.
    """
    offsets, reached = [], 0.0
    for size in sizes:
        offsets.append(reached + size / 2)
        reached += size
    pools: list[tuple[float, int]] = []  # (sum of shifted wishes, members)
    for wish, offset in zip(wishes, offsets, strict=True):
        total, members = wish - offset, 1
        while pools and pools[-1][0] * members >= total * pools[-1][1]:
            before, count = pools.pop()
            total, members = total + before, members + count
        pools.append((total, members))
    places = [total / members for total, members in pools for _ in range(members)]
    return [place + offset for place, offset in zip(places, offsets, strict=True)]


def arrange_items(scene: Scene, folding: Folding) -> tuple[list[int], list[int]]:
    """[I] column of each item within its scope, and its row in twentieths of an item's height.

    Column -1: not in the flow of its scope but on the shelf below, as it is a hub or holds nothing that runs.
    """
    graph = scene.graph
    flows = _flowing(scene, folding)
    pairs = _sibling_pairs(scene, folding, flows)
    position = _mean_positions(graph.topological, folding)
    column, row = [-1] * len(flows), [0] * len(flows)
    flowing = flows.tolist()
    known: dict[tuple[tuple[tuple[int, int], ...], tuple[int, ...]], tuple[list[int], list[float]]] = {}
    for scope, children in enumerate(folding.children()):
        items = [item for item in children if flowing[item]]
        if not items:
            continue
        local = {item: index for index, item in enumerate(items)}
        edges = [(local[src], local[dst]) for src, dst in pairs.get(scope, ())]
        # Layers and towers are often equal: a layout depends on the edges and on the order of items alone.
        first = sorted(range(len(items)), key=[position[item] for item in items].__getitem__)  # stable: ties by item
        shape = (tuple(edges), tuple(first))
        if shape not in known:
            order = [0.0] * len(items)
            for at, index in enumerate(first):
                order[index] = at
            known[shape] = arrange(len(items), edges, order)
        columns, rows = known[shape]
        for item, at, height in zip(items, columns, rows, strict=True):
            column[item], row[item] = at, round(height * ROW_STEPS)
    return column, row


def _flowing(scene: Scene, folding: Folding) -> Flags:
    """[I] the items in the flow: nodes of the step that are no hubs, and scopes that hold a node of the step."""
    scopes, part = folding.scopes, taking_part(scene)
    flows = np.concatenate([np.zeros(scopes, bool), part & ~folding.hub])
    parent = folding.parent.tolist()
    for item in np.flatnonzero(np.concatenate([np.zeros(scopes, bool), part])).tolist():
        scope = parent[item]
        while scope > 0 and not flows[scope]:
            flows[scope] = True
            scope = parent[scope]
    return flows


def _sibling_pairs(scene: Scene, folding: Folding, flows: Flags) -> dict[int, list[tuple[int, int]]]:
    """Scope -> the pairs of its items that an edge joins, each once, for edges between nodes that flow."""
    graph, scopes = scene.graph, folding.scopes
    keep = ~graph.edge_back & flows[scopes + graph.edge_src] & flows[scopes + graph.edge_dst]
    above = folding.ancestors()
    src, dst = above[scopes + graph.edge_src[keep]], above[scopes + graph.edge_dst[keep]]
    if not len(src):
        return {}
    level = np.argmax(src != dst, axis=1)
    rows = np.arange(len(src))
    first, second, scope = src[rows, level], dst[rows, level], src[rows, level - 1]
    joined = np.unique(np.stack([scope, first, second], axis=1)[first != second], axis=0)
    found: dict[int, list[tuple[int, int]]] = {}
    for inside, a, b in joined.tolist():
        found.setdefault(inside, []).append((a, b))
    return found


def _mean_positions(order: Ids, folding: Folding) -> list[float]:
    """[I] mean place of an item's nodes in the topological order."""
    count, scopes = len(order), folding.scopes
    place = np.empty(count)
    place[order] = np.arange(count)
    total, members = np.zeros(scopes + count), np.zeros(scopes + count)
    total[scopes:], members[scopes:] = place, 1
    home = folding.parent[scopes:]
    total[:scopes] = np.bincount(home, weights=place, minlength=scopes)
    members[:scopes] = np.bincount(home, minlength=scopes)
    for scope in range(scopes - 1, 0, -1):  # parents come first
        total[folding.parent[scope]] += total[scope]
        members[folding.parent[scope]] += members[scope]
    return list((total / np.maximum(members, 1)).tolist())
