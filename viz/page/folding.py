"""The folded graph: a tree of boxes by the scopes of names, with few enough items per box to be read.

    tower_0/conv/weights        root ─ tower_0/conv ─┬ weights
    tower_0/conv/Conv2D                              ├ Conv2D
    tower_0/conv/AddN_1 ..9                          └ AddN ×9 ─┬ AddN_1 ...

Items are scopes (0 is the root, parents before children) and then the nodes: item `scopes + row` is node `row`.
A chain of scopes with one child each becomes one scope. Many siblings that differ only by a number become a series. A
scope with still too many items is dealt into blocks. Hubs, nodes with very many neighbours, are marked.

A variable or a constant is shown in the box of the first node that reads it:

    weights ──▶ weights/read ──▶ Conv2D          Conv2D
                                      │     →    weights [3, 3, 64, 64]
    Reshape/shape ──▶ Reshape ◀───────┘            └──▶ Reshape

Half of the nodes of a training only hold a value or hand it on. As boxes of their own they would hide the computation.
A value that crosses to another device stays a box: its transfer is an edge to be seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np

from simulator.columns import Flags, Ids, Ints, different, flags, ids, positions
from simulator.graph.graph import Graph
from simulator.graph.op_classes import CONSTANTS, VARIABLES
from simulator.wording import counted, repr_of
from viz import figures
from viz.scene import Scene

MAX_DEPTH = 24  # scopes inside scopes; deeper ones stay part of the last label
SERIES = 4  # as many numbered siblings become a series
PARALLEL = 12  # as many numbered sibling scopes become a series if no edge joins two of them
WIDE = 60  # children from which on numbered scopes are a series too, and ops are grouped by type
BLOCK = 200  # children that a box may have before they are dealt into blocks
HUB = 32  # other nodes on one side that make a node a hub

_NUMBERED = re.compile(r"_?[0-9]+\Z")
_EACH_NUMBERED = re.compile(r"_?[0-9]+(?=/|\Z)")


@dataclass(frozen=True, eq=False)
class Folding:
    """The tree of boxes of one graph. Axes: B scopes, I = B + N items."""

    labels: tuple[str, ...]  # [B] the text of the box; the root's is ""
    parent: Ids  # [I] scope that holds the item; -1 for the root
    series: Flags  # [B] made by folding siblings, not a scope of the file
    hub: Flags  # [N]

    def __repr__(self) -> str:
        return repr_of(self, counted(self.scopes, "scope"), counted(len(self.hub), "node"))

    @property
    def scopes(self) -> int:
        """The number of scopes, the root included."""
        return len(self.labels)

    def children(self) -> list[list[int]]:
        """[B] the items of each scope, scopes first, each kind in order of its rows."""
        found: list[list[int]] = [[] for _ in self.labels]
        for item, parent in enumerate(self.parent.tolist()):
            if parent >= 0:
                found[parent].append(item)
        return found


@dataclass
class _Tree:
    """The tree while it grows: labels, parents and series per scope, the scope of each node."""

    labels: list[str] = field(default_factory=lambda: [""])
    parents: list[int] = field(default_factory=lambda: [-1])
    series: list[bool] = field(default_factory=lambda: [False])
    homes: list[int] = field(default_factory=list)


def fold(graph: Graph) -> Folding:
    """Fold a graph by its name scopes; nothing but names, ops and the topological order decides."""
    tree = _without_chains(_scopes(graph.names))
    _fold_parallel(graph, tree)
    _fold_siblings(graph, tree)
    _parents_first(tree)
    return Folding(tuple(tree.labels), ids(tree.parents + tree.homes), flags(tree.series), _hubs(graph))


def item_order(topological: Ids, folding: Folding) -> Ids:
    """[I] position of each item when all are sorted by the mean topological place of their nodes; ties go by item.

    The page lays out what is open when it is opened, for it alone knows the pane. This order breaks its ties.
    """
    count, scopes = len(topological), folding.scopes
    place = positions(topological, count)
    total, members = np.zeros(scopes + count), np.zeros(scopes + count)
    total[scopes:], members[scopes:] = place, 1
    home = folding.parent[scopes:]
    total[:scopes] = np.bincount(home, weights=place, minlength=scopes)
    members[:scopes] = np.bincount(home, minlength=scopes)
    for scope in range(scopes - 1, 0, -1):  # parents come first
        total[folding.parent[scope]] += total[scope]
        members[folding.parent[scope]] += members[scope]
    return ids(positions(np.argsort(total / np.maximum(members, 1), kind="stable"), scopes + count))


def _add(tree: _Tree, label: str, parent: int, *, series: bool = False) -> int:
    tree.labels.append(label)
    tree.parents.append(parent)
    tree.series.append(series)
    return len(tree.labels) - 1


def _scopes(names: Sequence[str]) -> _Tree:
    """The scopes as the names say them. A node that is named like a scope goes into it."""
    tree = _Tree()
    known: dict[str, int] = {"": 0}
    for name in names:
        path = name.rpartition("/")[0]
        scope = known.get(path)
        tree.homes.append(_enter(path, tree, known) if scope is None else scope)
    for row, name in enumerate(names):
        inside = known.get(name)
        if inside:
            tree.homes[row] = inside
    return tree


def _enter(path: str, tree: _Tree, known: dict[str, int]) -> int:
    """The scope of a path, made with those above it where they are missing."""
    scope, start = 0, 0
    for level in range(MAX_DEPTH):
        end = path.find("/", start) if level + 1 < MAX_DEPTH else -1
        prefix = path if end < 0 else path[:end]
        inner = known.get(prefix)
        if inner is None:
            inner = known[prefix] = _add(tree, prefix[start:], scope)
        scope, start = inner, end + 1
        if end < 0:
            break
    return scope


def _without_chains(tree: _Tree) -> _Tree:
    """Dissolve each scope that holds one scope and nothing else; the inner one takes both labels."""
    count, inner = [0] * len(tree.labels), [0] * len(tree.labels)
    for parent in tree.parents[1:]:
        count[parent] += 1
        inner[parent] += 1
    for home in tree.homes:
        count[home] += 1
    kept = _Tree()
    place = [0] * len(tree.labels)  # where the content of a scope goes
    prefix = [""] * len(tree.labels)
    for scope in range(1, len(tree.labels)):
        parent = tree.parents[scope]
        label = prefix[parent] + tree.labels[scope]
        if count[scope] == 1 and inner[scope] == 1:
            place[scope], prefix[scope] = place[parent], label + "/"
        else:
            place[scope] = _add(kept, label, place[parent])
    kept.homes = [place[home] for home in tree.homes]
    return kept


def _fold_parallel(graph: Graph, tree: _Tree) -> None:
    """Put numbered sibling scopes that no edge joins under one scope. Layers, one after the other, stay as they are."""
    found: list[tuple[str, int, list[int]]] = []  # label, parent and members of each group
    group = np.full(len(tree.labels), -1)
    for parent, inner in enumerate(_inside(tree)):
        if len(inner) < PARALLEL:
            continue
        groups, _ = _grouped(inner, lambda scope: _EACH_NUMBERED.sub("", tree.labels[scope]))
        for key, members in groups:
            if len(members) >= PARALLEL:
                group[members] = len(found)
                found.append((f"{key} ×{len(members)}", parent, members))
    joined = _joined(graph, tree, group)
    for number, (label, parent, members) in enumerate(found):
        if number not in joined:
            _deal(tree, label, parent, members, tree.parents)


def _joined(graph: Graph, tree: _Tree, group: Ints) -> set[int]:
    """The groups of which an edge joins two members: the siblings above its ends, where the ways up from these meet."""
    parents, homes = np.array(tree.parents), np.array(tree.homes, np.int64)
    parents[0] = 0
    depth = np.zeros(len(parents), np.int64)
    for scope in range(1, len(parents)):  # parents come first
        depth[scope] = depth[parents[scope]] + 1
    a, b = np.divmod(different(homes[graph.edge_src] * len(parents) + homes[graph.edge_dst]), len(parents))
    while (lower := depth[a] != depth[b]).any():
        deep = depth[a] > depth[b]
        a, b = np.where(deep, parents[a], a), np.where(lower & ~deep, parents[b], b)
    while (apart := parents[a] != parents[b]).any():
        a, b = np.where(apart, parents[a], a), np.where(apart, parents[b], b)
    return set(group[a[(a != b) & (group[a] == group[b])]].tolist())


def _fold_siblings(graph: Graph, tree: _Tree) -> None:
    """Put siblings that differ only by a number, and what is still too many, under scopes of their own."""
    nodes_of: list[list[int]] = [[] for _ in tree.labels]
    for row in graph.topological.tolist():  # so that blocks follow the computation
        nodes_of[tree.homes[row]].append(row)
    names, ops, unnumbered = graph.names, graph.ops, cache(partial(_NUMBERED.sub, ""))
    for scope, (inner, nodes) in enumerate(zip(_inside(tree), nodes_of, strict=True)):
        if len(nodes) + len(inner) <= SERIES or tree.series[scope]:
            continue
        found, rest = _grouped(nodes, lambda row: unnumbered(names[row].rpartition("/")[2]) + "\0" + ops[row])
        if not rest and not inner and len(found) == 1 and len(nodes) <= BLOCK:
            continue  # the scope is that series
        if len(found) + len(rest) + len(inner) > WIDE:
            by_op, alone = _grouped(rest, lambda row: ops[row] + "\0")
            if len(by_op) <= WIDE:
                found, rest = found + by_op, alone
        found.sort(key=lambda group: -len(group[1]))
        rest += [row for _, members in found[BLOCK // 2 :] for row in members]
        for key, members in found[: BLOCK // 2]:
            _deal(tree, f"{key.partition(chr(0))[0]} ×{len(members)}", scope, members, tree.homes)
        if len(rest) > BLOCK:
            chosen = set(rest)
            _deal(tree, f"{len(rest)} ops", scope, [row for row in nodes if row in chosen], tree.homes)
        if len(inner) > WIDE:
            _fold_scopes(tree, scope, inner)


def _fold_scopes(tree: _Tree, scope: int, inner: Sequence[int]) -> None:
    """The same for the scopes inside a scope: a numbered series is one box, what is still too many is dealt."""
    found, rest = _grouped(inner, lambda inside: _NUMBERED.sub("", tree.labels[inside]))
    found.sort(key=lambda group: -len(group[1]))
    rest += [inside for _, members in found[BLOCK // 2 :] for inside in members]
    if len(rest) > BLOCK:
        found = [*found[: BLOCK // 2], ("scopes", rest)]
    for key, members in found[: BLOCK // 2 + 1]:
        _deal(tree, f"{key} ×{len(members)}", scope, members, tree.parents)


def _grouped(items: Iterable[int], key: Callable[[int], str]) -> tuple[list[tuple[str, list[int]]], list[int]]:
    """Groups of at least SERIES items with an equal key, in order of appearance, and the items of no group."""
    groups: dict[str, list[int]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    large = [(text, members) for text, members in groups.items() if len(members) >= SERIES]
    return large, [item for members in groups.values() if len(members) < SERIES for item in members]


def _deal(tree: _Tree, label: str, parent: int, items: Sequence[int], home_of: list[int]) -> None:
    """Put nodes (`home_of` is the tree's homes) or scopes (its parents) under a new scope, in blocks if too many."""
    new = _add(tree, label, parent, series=True)
    for start in range(0, len(items), BLOCK):
        block = items[start : start + BLOCK]
        home = new
        if len(items) > BLOCK:
            home = _add(tree, f"{start + 1}–{start + len(block)}", new, series=True)
        for item in block:
            home_of[item] = home


def _inside(tree: _Tree) -> list[list[int]]:
    """The scopes directly inside each scope."""
    inside: list[list[int]] = [[] for _ in tree.labels]
    for scope in range(1, len(tree.labels)):
        inside[tree.parents[scope]].append(scope)
    return inside


def _parents_first(tree: _Tree) -> None:
    """Renumber the scopes, level by level, so that a parent's row comes before its children's."""
    inside, order = _inside(tree), [0]
    for scope in order:
        order.extend(inside[scope])  # the list grows while it is read: breadth first
    new = [0] * len(order)
    for position, scope in enumerate(order):
        new[scope] = position
    tree.labels[:] = [tree.labels[scope] for scope in order]
    tree.series[:] = [tree.series[scope] for scope in order]
    tree.parents[:] = [-1] + [new[tree.parents[scope]] for scope in order[1:]]
    tree.homes[:] = [new[home] for home in tree.homes]


def _hubs(graph: Graph) -> Flags:
    """[N] nodes with at least HUB different nodes before or behind them."""
    count = len(graph)
    pairs = different(graph.edge_src.astype(np.int64) * count + graph.edge_dst)
    behind = np.bincount(pairs // max(count, 1), minlength=count)
    before = np.bincount(pairs % max(count, 1), minlength=count)
    return flags((behind >= HUB) | (before >= HUB))


# --- variables in the boxes of their readers -------------------------------------------------------------------------


READS = frozenset(("ReadVariableOp", "Identity"))
_HELD = VARIABLES | CONSTANTS | READS  # ops that may have a host


def hosts(scene: Scene, *others: Scene) -> Ids:
    """[N] node in whose box a node is shown, -1 for a node with a box of its own.

    Of several readers the first in topological order is the host. Variables, constants and their reads have a host if
    they run and are not fed. No edge of theirs may cross devices, here or in other runs of the graph. The host of a
    read is also that of its variable.
    """
    graph = scene.graph
    part = figures.taking_part(scene)
    candidate = part & np.fromiter((op in _HELD for op in graph.ops), bool, len(graph))
    for run in (scene, *others):
        candidate[graph.edge_src[figures.pair_of_edges(run) >= 0]] = False
    candidate[figures.fed_nodes(scene)] = False
    joins = part[graph.edge_src] & part[graph.edge_dst] & (graph.edge_tensor >= 0) & ~graph.edge_back
    readers: dict[int, list[int]] = {}
    source: dict[int, int] = {}  # of the first input of a candidate
    for edge in np.flatnonzero(joins & candidate[graph.edge_src]).tolist():
        readers.setdefault(int(graph.edge_src[edge]), []).append(int(graph.edge_dst[edge]))
    for edge in np.flatnonzero(joins & candidate[graph.edge_dst]).tolist():
        source.setdefault(int(graph.edge_dst[edge]), int(graph.edge_src[edge]))
    place = positions(graph.topological, len(graph))
    order, holds = sorted(readers, key=place.__getitem__), set[int]()
    for node in order:
        read = graph.ops[node] in READS
        if (read and source.get(node) in holds) or (not read and node not in source):
            holds.add(node)
    host = np.full(len(graph), -1)
    for node in reversed(order):
        if node in holds:
            first = min(readers[node], key=place.__getitem__)
            host[node] = first if host[first] < 0 else host[first]
    return ids(host)
