"""Arrange the folded graph: every item's column and row within its scope."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.columns import Ids
from viz.folding import Folding
from viz.layout import arrange
from viz.scene import Scene
from viz.tables import taking_part

ROW_STEPS = 20  # rows are written in twentieths of an item's height

Flags: TypeAlias = npt.NDArray[np.bool_]
Pairs: TypeAlias = list[tuple[int, int]]


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
        # Layers and towers look alike: what is laid out depends on the edges and on who comes first, not on when.
        first = sorted(range(len(items)), key=[position[item] for item in items].__getitem__)  # stable: ties by item
        likeness = (tuple(edges), tuple(first))
        if likeness not in known:
            order = [0.0] * len(items)
            for at, index in enumerate(first):
                order[index] = at
            known[likeness] = arrange(len(items), edges, order)
        columns, rows = known[likeness]
        for item, at, height in zip(items, columns, rows, strict=True):
            column[item], row[item] = at, round(height * ROW_STEPS)
    return column, row


def _flowing(scene: Scene, folding: Folding) -> Flags:
    """[I] who takes part in the flow: nodes of the step that are no hubs, and scopes that hold a node of the step."""
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
