"""Legality of an assignment: the placer's rules, applied to a placement that somebody made.

The standard is a session with hard placement whose graph has the device of the assignment in every node. It refuses a
node without a kernel for its device, and a `_class` group that is split. It moves each user of a reference or resource
next to it (§3.3). Such a node would not run where the assignment has it, so that counts as refused, too. Besides, a
node stays in the job, replica and task that the graph itself asks for, which soft placement never gives up (§3.5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.cluster.devicespec import matches, parse
from simulator.errors import InfeasibleError
from simulator.graph import ops
from simulator.graph.attributes import colocated_with
from simulator.placer.colocation import tied_edges
from simulator.placer.constraints import Constraints, constrain
from simulator.wording import some

if TYPE_CHECKING:
    from simulator.assignment import Assignment
    from simulator.cluster.cluster import Cluster
    from simulator.graph.graph import Graph

_WAY_OUT = "Place them so, or cut with legal=False to see what no TensorFlow would run."


def require_legal(graph: Graph, assignment: Assignment, cluster: Cluster, *, soft: bool = True) -> None:
    """Raise InfeasibleError for an assignment that TensorFlow would not take, with the rule, the nodes and the devices.

    `soft`: a type or number that the graph asks for may be given up, as by soft placement; else requests are binding.
    An assignment by `place` carries its constraints, so the check of it is quick. Raises what `constrain` raises where
    TensorFlow would not place the graph at all.
    """
    rules = assignment.constraints
    if rules is None or rules.graph is not graph or rules.soft != soft or rules.devices != assignment.devices:
        rules = constrain(graph, cluster, soft=soft)
    device, first = np.asarray(assignment.device), np.array([members[0] for members in rules.members], np.int64)
    apart = np.flatnonzero(device[first][rules.group] != device) if len(graph) else first
    if len(apart):
        raise _split(graph, assignment, rules, int(rules.group[apart[0]]))
    kinds = {id(rows): rows for rows in rules.may}
    row_of = {key: row for row, key in enumerate(kinds)}
    able = np.zeros((len(kinds), len(cluster)), bool)
    for row, rows in enumerate(kinds.values()):
        able[row, list(rows)] = True
    kind = np.array([row_of[id(rows)] for rows in rules.may], np.int64)
    unable = np.flatnonzero(~able[kind, device[first]])
    if len(unable):
        raise _elsewhere(graph, assignment, rules, int(unable[0]))


def _split(graph: Graph, assignment: Assignment, rules: Constraints, group: int) -> InfeasibleError:
    """The error for a group on several devices: by an edge that ties two of them, by `_class`, or by a call."""
    members = set(rules.members[group])
    one, other = _tied(graph, assignment, members)
    if one >= 0:
        rule = (
            f"{graph.names[other]!r} uses a reference, resource or dataset of {graph.names[one]!r} and runs on its "
            "device (§3.2, §3.3)"
        )
    elif (pair := _classed(graph, assignment, rules.members[group])) is not None:
        one, other = pair
        rule = f"`_class` asks for {graph.names[one]!r} and {graph.names[other]!r} to share a device (§3.4)"
    else:
        one = rules.members[group][0]
        other = next(row for row in rules.members[group] if assignment.device[row] != assignment.device[one])
        rule = (
            f"{graph.names[one]!r} and {graph.names[other]!r} share a device with others that tie them together, "
            "through other nodes or within a call's body (§3.2 to §3.6)"
        )
    names = (graph.names[one], graph.names[other])
    where = [assignment.name_of(row) for row in (one, other)]
    return InfeasibleError(
        f"TensorFlow would not run this placement: {rule}, but {names[0]!r} is on {where[0]} and {names[1]!r} on "
        f"{where[1]}. {_WAY_OUT}",
        node=names[1],
        members=tuple(graph.names[row] for row in rules.members[group]),
        allows={name: tuple(rules.devices[row] for row in rules.may[group]) for name in names},
    )


def _tied(graph: Graph, assignment: Assignment, members: set[int]) -> tuple[int, int]:
    """The ends of an edge within the group that are tied and on different devices; -1: there is none."""
    for source, target in tied_edges(graph):
        if source in members and target in members and assignment.device[source] != assignment.device[target]:
            return source, target
    return -1, -1


def _classed(graph: Graph, assignment: Assignment, members: tuple[int, ...]) -> tuple[int, int] | None:
    """Two members of the group that one key joins and that are on different devices."""
    first: dict[str, int] = {}
    for row in members:
        for key in (graph.names[row], *colocated_with(graph.attrs[row])):
            other = first.setdefault(key, row)
            if assignment.device[other] != assignment.device[row]:
                return other, row
    return None


def _elsewhere(graph: Graph, assignment: Assignment, rules: Constraints, group: int) -> InfeasibleError:
    """The error for a group on a device that it may not use: it has no kernel, or the graph asks for another."""
    members = rules.members[group]
    name, device = assignment.name_of(members[0]), parse(assignment.name_of(members[0]))
    may = tuple(rules.devices[row] for row in rules.may[group])
    for node in members:
        if device.type not in dict(ops.kernel_types(graph.ops[node], graph.attrs[node])):
            rule = f"{graph.ops[node]!r} with its attributes has no kernel for a {device.type} (§2.2)"
            break
        asked = rules.specs[node] if not rules.soft else rules.specs[node].without_device()
        if not matches(asked, device):
            how = "soft" if rules.soft else "hard"
            rule = f"it asks for {graph.requested[node]!r}, which {how} placement keeps (§3.5)"
            break
    else:
        node = members[0]
        rule = f"{graph.names[node]!r} or what it is tied to may not use that device (§3.2 to §3.6)"
    return InfeasibleError(
        f"TensorFlow would not run this placement: {graph.names[node]!r} is on {name}, but {rule}; it may use "
        f"{some(may) if may else 'no device of this cluster'}. {_WAY_OUT}",
        node=graph.names[node],
        members=tuple(graph.names[row] for row in members),
        allows={graph.names[node]: may},
    )
