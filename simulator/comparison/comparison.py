"""Compare two results item by item: count the equal ones, and say of every other one what differs.

    a placement      node                      -> its device
    a cut            node of the graph         -> op, device, inputs in order, control inputs, attributes
                     node that the cut made,   -> the same
                     by its task and name
    a trace          slice of a node           -> device, lane, start, end

A cut has two figures. `raw` counts the nodes that are equal as they are, `agree` those that are equal in the canonical
form. That form undoes what TensorFlow itself does differently in every run (`cut_nodes.canonical`, docs/tensorflow.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from simulator.assignment import RULES, Assignment
from simulator.comparison.cut_nodes import (
    COPY,
    CutNode,
    Key,
    attrs_that_differ,
    canonical,
    nodes_of,
    nodes_of_messages,
    replaced,
)
from simulator.errors import SimvizError
from simulator.execution.trace import Trace
from simulator.graph.creation import ORDERED
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue, Proto
from simulator.graph.op_classes import ENTERS, EXITS, NEXT_ITERATIONS, SWITCHES
from simulator.partitioning.partitions import RECVS, SENDS, Partitions


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One item on which the two sides differ; a side that lacks it is empty."""

    node: str
    ours: str
    theirs: str
    rule: str  # of a placement: why ours is so; of a cut: the aspects that differ, and the rule by which ours was made


@dataclass(frozen=True, slots=True)
class Comparison:
    """The agreement of two results: `agree` of `of` items, `raw` of them without the canonical form."""

    agree: int
    of: int
    raw: int
    differences: tuple[Mismatch, ...]  # in order of ours, then what only theirs has


Measured: TypeAlias = Mapping[str, str] | Sequence[Proto]


def compare_items(
    ours: Assignment | Partitions | Trace,
    theirs: Assignment | Partitions | Trace | Measured,
    *,
    graph: Graph | None = None,
    tasks: Collection[str] | None = None,
) -> Comparison:
    """Compare two Assignments, two Partitions or two Traces item by item, or ours with what was measured.

    A measured placement maps node names to device names. A measured cut is a sequence of GraphDef messages, one per
    piece. `graph` is the graph that was placed, cut (before the cut) or run (Partitions.graph). Without it, nodes of an
    Assignment or a Trace are named by their rows, and a cut's own nodes are those that run in it. With `tasks`, only
    the nodes of a cut on those tasks count. Raises SimvizError for two results of different kinds.
    """
    if isinstance(ours, Assignment):
        if isinstance(theirs, Assignment):
            return _compared(_placed(ours, graph), _placed(theirs, graph), _reasons(ours, graph))
        if isinstance(theirs, Mapping):
            return _compared(_placed(ours, graph), theirs, _reasons(ours, graph))
    elif isinstance(ours, Trace):
        if isinstance(theirs, Trace):
            return _compared(_slices(ours, graph), _slices(theirs, graph), {})
    elif isinstance(theirs, Partitions) or not isinstance(theirs, Assignment | Trace | Mapping):
        there = nodes_of(theirs) if isinstance(theirs, Partitions) else nodes_of_messages(theirs)
        own = frozenset(graph.names if graph else (ours.graph.names[row] for row in np.flatnonzero(~ours.inserted)))
        return _cuts(list(nodes_of(ours)), list(there), own, graph, tasks)
    raise SimvizError(
        f"{type(ours).__name__} and {type(theirs).__name__} are results of different kinds; give two of one."
    )


def _compared(ours: Mapping[str, str], theirs: Mapping[str, str], reasons: Mapping[str, str]) -> Comparison:
    items = dict.fromkeys((*ours, *theirs))
    differences = tuple(
        Mismatch(item, here, there, reasons.get(item) or _side(here, there))
        for item in items
        if (here := ours.get(item, "")) != (there := theirs.get(item, ""))
    )
    agree = len(items) - len(differences)
    return Comparison(agree, len(items), agree, differences)


def _side(ours: object, theirs: object) -> str:
    return "only ours" if not theirs else "only theirs" if not ours else "differs"


def _placed(assignment: Assignment, graph: Graph | None) -> dict[str, str]:
    return {_name(graph, row): device for row, device in enumerate(assignment.placed_on)}


def _reasons(assignment: Assignment, graph: Graph | None) -> dict[str, str]:
    return {_name(graph, row): RULES[why] for row, why in enumerate(assignment.why.tolist())}


def _name(graph: Graph | None, row: int) -> str:
    return graph.names[row] if graph else f"node {row}"


def _slices(trace: Trace, graph: Graph | None) -> dict[str, str]:
    """Each slice by its node; one of several slices of a node (in a loop, in several steps) by its turn, too."""
    turns: Counter[int] = Counter()
    found = {}
    columns = (trace.ops.node, trace.ops.device, trace.ops.lane, trace.ops.start_ns, trace.ops.end_ns)
    for node, device, lane, start, end in zip(*(column.tolist() for column in columns), strict=True):
        turns[node] += 1
        item = _name(graph, node) + (f" ({turns[node]})" if turns[node] > 1 else "")
        found[item] = f"device {device}, lane {lane}, {start} to {end} ns"
    return found


def _cuts(
    ours: list[CutNode], theirs: list[CutNode], own: frozenset[str], graph: Graph | None, tasks: Collection[str] | None
) -> Comparison:
    here, there = _keyed(ours, own, tasks), _keyed(theirs, own, tasks)
    raw = sum(key in there and _equal(node, there[key]) for key, node in here.items())
    widely = _widely_read(ours, graph) if graph else frozenset()
    chance = _by_chance(graph) if graph else frozenset()
    here, there = (_keyed(canonical(side, widely, chance), own, tasks) for side in (ours, theirs))
    keys = dict.fromkeys((*here, *there))
    differences = tuple(
        _mismatch(key, here.get(key), there.get(key))
        for key in keys
        if key not in here or key not in there or not _equal(here[key], there[key])
    )
    return Comparison(len(keys) - len(differences), len(keys), raw, differences)


def _keyed(nodes: Iterable[CutNode], own: frozenset[str], tasks: Collection[str] | None) -> dict[Key, CutNode]:
    """Nodes of the graph by name, others by task and name; a repeated key gets a suffix."""
    found: dict[Key, CutNode] = {}
    for node in nodes:
        if tasks is not None and node.task not in tasks:
            continue
        task, name = "" if node.name in own else node.task, node.name
        while (task, name) in found:
            name += " again"
        found[task, name] = node
    return found


def _widely_read(ours: Iterable[CutNode], graph: Graph) -> frozenset[str]:
    """The copied and the fed nodes whose out-edges have no known order."""
    originals = {replaced(node.name) for node in ours}
    rows = [graph.index[name] for name in originals if name is not None and name in graph.index]
    return frozenset(graph.names[row] for row in rows if graph.out_ptr[row + 1] - graph.out_ptr[row] > ORDERED)


def _by_chance(graph: Graph) -> frozenset[tuple[str, str]]:
    """The ends of the edges whose ids are by chance, as TensorFlow made them when it rewrote the graph by itself."""
    edges = np.flatnonzero(graph.lowered.by_chance) if graph.lowered is not None else np.zeros(0, np.int64)
    ends = zip(graph.edge_src[edges].tolist(), graph.edge_dst[edges].tolist(), strict=True)
    return frozenset((graph.names[src], graph.names[dst]) for src, dst in ends)


def _equal(ours: CutNode, theirs: CutNode) -> bool:
    return (ours.op, ours.device, ours.data, ours.controls) == (
        theirs.op,
        theirs.device,
        theirs.data,
        theirs.controls,
    ) and not attrs_that_differ(ours, theirs)


def _mismatch(key: Key, ours: CutNode | None, theirs: CutNode | None) -> Mismatch:
    name = f"{key[1]} on {key[0]}" if key[0] else key[1]
    node = ours or theirs
    assert node is not None, key
    rule = _rule(node)
    if ours is None or theirs is None:
        here, there = (f"{one.op} on {one.device}" if one else "" for one in (ours, theirs))
        return Mismatch(name, here, there, f"{_side(here, there)}: {rule}")
    what, here_said, there_said = [], [], []
    for aspect, here, there in (
        ("op", ours.op, theirs.op),
        ("device", ours.device, theirs.device),
        ("inputs", f"({' '.join(ours.data)})", f"({' '.join(theirs.data)})"),
        ("control inputs", _controls(ours, theirs), _controls(theirs, ours)),
        *((f"attribute {attr}", _shown(ours, attr), _shown(theirs, attr)) for attr in attrs_that_differ(ours, theirs)),
    ):
        if here != there:
            what.append(aspect)
            here_said.append(here)
            there_said.append(there)
    return Mismatch(name, ", ".join(here_said), ", ".join(there_said), f"{', '.join(what)}: {rule}")


def _controls(node: CutNode, other: CutNode) -> str:
    """The control inputs that the other side lacks, and how many both have."""
    more = " ".join(f"^{name}" for name in sorted(node.controls - other.controls))
    return f"({more or 'no more'} than {len(node.controls & other.controls)} of both)"


def _shown(node: CutNode, attr: str) -> str:
    if attr not in node.attrs:
        return "absent"
    return " ".join(str(AttrValue.FromString(node.attrs[attr])).split())[:200]


def _rule(node: CutNode) -> str:
    """The rule by which a node of a cut is made."""
    if node.op in SENDS or node.op in RECVS:
        if node.name.startswith(("_send_", "_recv_")):
            return "feeds and fetches end at the client (§6)"
        return "a pair per tensor, destination and memory, named and numbered in order of readers (§5.2 to §5.5)"
    if node.op in ("_Arg", "_Retval"):
        return "feeds and fetches end at the client (§6)"
    if COPY.match(node.name):
        return "a small constant is copied to each device that reads it (§3.9)"
    if node.name.startswith("_cloop"):
        return "a device that takes part in a loop has a control loop (§5.7)"
    if node.op in SWITCHES | EXITS | ENTERS | NEXT_ITERATIONS:
        return "control flow runs next to its values (§5.7)"
    return "a node reads what is on its device, and all else through a pair (§5.2)"
