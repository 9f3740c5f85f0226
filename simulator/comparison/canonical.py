"""The canonical form of a cut: without what depends on the order of a node's edges if it has more than eight of a kind.

That order is then one of addresses in memory (`graph/creation.py`), so nobody can know it. The form undoes what depends
on it, and nothing else:

    a node with more than 8 in-edges    the numbers of its control pairs: each takes the next four, in the order of the
                                        set, so the pairs of one node exchange their fours
    a copied constant with more than 8  the ids of the copy's edges, made in the order of the set: the number in the
    out-edges, or in-edges (or 8, one   `tensor_name` of what crosses
    of them from a placeholder that is
    fed)
    a call or a loop with more than 8   the ids of the edges that replace its own when TensorFlow replaces it: the same
    in-edges or out-edges
    a fed node with more than 8         the ids of the edges from the node that stands for the client: the same
    out-edges
    a piece that a worker cuts after    the ids of the edges in the worker's graph, which follow the order in which the
    a master                            master wrote it: the number in `tensor_name`, in a task with such a node

Each side is brought to this form by itself. The fours of a node go to its control pairs in order of the sources' names,
and the ids are removed. All other differences remain: the numbers that a node's pairs take together, what crosses from
where to where, who waits for whom.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from simulator.comparison.cut_nodes import CutNode
from simulator.graph.creation import ORDERED
from simulator.graph.messages import AttrValue
from simulator.partitioning.partitions import RECVS, SENDS

COPY = re.compile(r"(.+)/replicate/_\d+\Z")  # replicate_constants_pass.cc
_FED = re.compile(r"_(?:arg_(?P<local>.+)_\d+|recv_(?P<master>.+))_\d+\Z")  # subgraph.cc
_NUMBERED = re.compile(r"(.+(?:/_|_S|_G))(\d+)\Z")  # names of a session, a master, a worker
_DUMMY = re.compile(r".+/ctrl(?:/_|_S|_G)\d+\Z")
_BY_WORKER = re.compile(r"_G\d+\Z")
_EDGE = re.compile(r"edge_\d+_")
_FOUR = 4  # numbers of a control pair: Const, Send, Recv, Identity

Place = tuple[str, str]  # task, name
_Part = tuple[CutNode, int]  # a node of a control pair, and which of the four it is


@dataclass(frozen=True, slots=True)
class _Side:
    """One side's nodes by where they are, and the nodes of pairs by whom the pair was made for."""

    nodes: Mapping[Place, CutNode]
    ends: Mapping[str, Sequence[CutNode]]  # Sends and Recvs by `_dst`
    after: Mapping[Place, CutNode]  # the Identity after a Recv, by the Recv


def replaced(name: str) -> str | None:
    """The node of the graph whose readers a node of the cut took over, as its copy or as the source of a feed."""
    if found := COPY.match(name):
        return found[1]
    found = _FED.match(name)
    return (found["local"] or found["master"]) if found else None


def canonical(
    nodes: Sequence[CutNode], widely_read: Collection[str], by_chance: Collection[tuple[str, str]] = ()
) -> list[CutNode]:
    """The nodes in canonical form.

    `widely_read` names the copied and the fed nodes of the graph with more than eight out-edges. `by_chance` has the
    ends of the edges that TensorFlow made in the order of such a set before it placed the graph.
    """
    side = _side(nodes)
    names: dict[Place, str] = {}
    without_id: set[Place] = set()
    disordered: set[str] = set()  # tasks
    for node in nodes:
        if node.op in SENDS or node.op in RECVS or 2 * _inputs(node) <= ORDERED:
            continue  # it has no more edges from control loops than inputs
        if _in_edges(side, node) + _had_a_feed_too(side, node) > ORDERED:
            names.update(_pairs_in_order(side, node))
            disordered.add(node.task)
            if COPY.match(node.name):
                without_id.update((end.task, end.name) for end in side.ends.get(node.name, ()))
    for ends in side.ends.values():
        for end in ends:
            made_so = (end.text("_src"), end.text("_dst")) in by_chance
            by_worker = _BY_WORKER.search(end.name) and end.task in disordered
            if made_so or by_worker or replaced(end.text("_src")) in widely_read:
                without_id.add((end.task, end.name))
    if not names and not without_id:
        return list(nodes)
    return [_renamed(_without_edge_id(node) if (node.task, node.name) in without_id else node, names) for node in nodes]


def _side(nodes: Sequence[CutNode]) -> _Side:
    found: defaultdict[str, list[CutNode]] = defaultdict(list)
    after: dict[Place, CutNode] = {}
    for node in nodes:
        if node.op in SENDS or node.op in RECVS:
            found[node.text("_dst")].append(node)
        elif node.op == "Identity" and len(node.data) == 1:
            after[node.task, node.data[0]] = node
    return _Side({(node.task, node.name): node for node in nodes}, found, after)


def _inputs(node: CutNode) -> int:
    return len(node.data) + len(node.controls)


def _in_edges(side: _Side, node: CutNode) -> int:
    """The in-edges of the node when it was cut: its inputs, and edges from a control loop.

    In a loop each input that crosses brings an edge from the control loop's Merge; the Recv takes it over.
    """
    crossing = [end for end in (_recv(side, node.task, name) for name in (*node.data, *node.controls)) if end]
    waits = [one for one in (node, *crossing) for name in one.controls if name.startswith("_cloop")]
    loop = sum(name.startswith("_cloop") for name in node.controls)
    return _inputs(node) - loop + (len(crossing) if waits else 0)


def _had_a_feed_too(side: _Side, node: CutNode) -> bool:
    """Whether a copy's original had one in-edge more for a moment: a feed's edge is made before the old one goes.

    Edges that were once in a set stay in it. Other nodes get their edges anew after that.
    """
    if not COPY.match(node.name):
        return False
    return any(
        _FED.match(name) for name in (*node.controls, *(end.text("_src") for end in side.ends.get(node.name, ())))
    )


def _recv(side: _Side, task: str, name: str) -> CutNode | None:
    """The Recv through which an input comes, directly or by the Identity of a control pair."""
    node = side.nodes.get((task, name))
    if node is not None and node.op == "Identity" and len(node.data) == 1:
        node = side.nodes.get((task, node.data[0]))
    return node if node is not None and node.op in RECVS else None


def _pairs_in_order(side: _Side, node: CutNode) -> dict[Place, str]:
    """New names for the nodes of the control pairs that were made for a node: by the names of the sources."""
    levels: defaultdict[str, defaultdict[tuple[str, str], list[_Part]]] = defaultdict(lambda: defaultdict(list))
    for end in side.ends.get(node.name, ()):
        pair = levels[_stem(end)[-1:]][end.text("_src"), end.text("tensor_name")]
        if end.op in SENDS:
            dummy = side.nodes.get((end.task, end.data[0])) if end.data else None
            if dummy is not None and _DUMMY.match(dummy.name):
                pair += [(dummy, 0), (end, 1)]
        elif (identity := side.after.get((end.task, end.name))) is not None and _stem(identity) == _stem(end):
            pair += [(end, 2), (identity, 3)]
    found: dict[Place, str] = {}
    for pairs in levels.values():  # a master's counter and a worker's
        found.update(_renumbered({key: parts for key, parts in sorted(pairs.items()) if parts}))
    return found


def _renumbered(pairs: Mapping[tuple[str, str], Sequence[_Part]]) -> dict[Place, str]:
    """New names that give the smallest four to the first pair; none if the numbers are not such fours."""
    first = {key: {_number(part) - at for part, at in parts} for key, parts in pairs.items()}
    bases = sorted(number for numbers in first.values() for number in numbers)
    if len(bases) != len(pairs) or any(after - before < _FOUR for before, after in pairwise(bases)):
        return {}
    return {
        (part.task, part.name): _with_number(part.name, base + at)
        for base, parts in zip(bases, pairs.values(), strict=True)
        for part, at in parts
    }


def _stem(node: CutNode) -> str:
    found = _NUMBERED.match(node.name)
    return found[1] if found else node.name


def _number(node: CutNode) -> int:
    found = _NUMBERED.match(node.name)
    return int(found[2]) if found else -1


def _with_number(name: str, number: int) -> str:
    return _NUMBERED.sub(lambda found: f"{found[1]}{number}", name)


def _without_edge_id(node: CutNode) -> CutNode:
    name = _EDGE.sub("edge_*_", node.text("tensor_name"), count=1)
    return replace(node, attrs={**node.attrs, "tensor_name": AttrValue(s=name.encode()).SerializeToString()})


def _renamed(node: CutNode, names: Mapping[Place, str]) -> CutNode:
    """The node with its own name and those that it reads replaced."""
    task = node.task
    data = tuple(names.get((task, name), name) for name in node.data)
    controls = frozenset(names.get((task, name), name) for name in node.controls)
    name = names.get((task, node.name), node.name)
    if name == node.name and data == node.data and controls == node.controls:
        return node
    return replace(node, name=name, data=data, controls=controls)
