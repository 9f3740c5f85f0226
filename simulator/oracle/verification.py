"""Verification: the placement and the cut by simviz, or its refusal, compared with those by the real TensorFlow.

Our errors say in substance what TensorFlow says and begin alike, so the same words show the kind of both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from simulator.cluster.master import with_client
from simulator.comparison.comparison import Comparison, compare_items
from simulator.graph.op_classes import MOVED
from simulator.laws import assignment_laws, graph_laws
from simulator.oracle.child import Asking
from simulator.oracle.dry_runs import STAND_INS, TIMEOUT_S, DryRun, ask, dry_run
from simulator.partitioning.cut import partition, partition_by_task
from simulator.partitioning.laws import partition_laws

if TYPE_CHECKING:
    from simulator.assignment import Assignment
    from simulator.cluster.cluster import Cluster
    from simulator.errors import GraphError, InfeasibleError
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step
    from simulator.partitioning.partitions import Partitions

MODES = ("predict", "pin")
Informed: TypeAlias = Callable[[Mapping[str, str]], "Assignment"]  # TensorFlow's placement -> ours


def check(
    graph: Graph,
    cluster: Cluster,
    assignment: Assignment,
    partitions: Partitions,
    step: Step,
    *,
    mode: str,
    soft: bool = True,
    timeout_s: float = TIMEOUT_S,
    asking: Asking = ask,
    informed: Informed | None = None,
) -> dict[str, Any]:
    """Ask TensorFlow and count where it agrees: the `check` of the JSON, described in docs/json.md.

    Mode "predict" asks whether TensorFlow places and cuts this graph as we do. Mode "pin" writes our device into every
    node and asks whether TensorFlow, with hard placement, accepts that and cuts the graph as we do. It asks with soft
    placement where ours rests on `_class` entries that soft placement gave up.

    TensorFlow's cut is compared with ours of the same flavour. Both are by device for a session of one process, by task
    for a master over stand-in workers. The flavour of `partitions` does not matter, as only its laws are checked. A
    graph that TensorFlow refuses agrees nowhere; `refused` holds its sentence, and `foreseen` says whether we refuse
    it, too. Raises OracleError if TensorFlow is missing or does not answer.

    TensorFlow is asked about `extended(cluster)`; a prediction should be one for that cluster. `added_task` is the task
    that was added for TensorFlow's master, or None. `informed` makes the prediction from TensorFlow's placement: it may
    follow that where TensorFlow itself decides by chance, and nowhere else.
    """
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
    pinned = assignment.placed_on if mode == "pin" else None
    # written into every node, what soft placement gave up of `_class` is refused by hard placement
    given_up = assignment.constraints is not None and bool(assignment.constraints.dropped)
    hard = mode == "pin" and not given_up
    # devices can be written into the nodes that there are in the end
    asked = graph if pinned is None else graph.imported()
    seen = dry_run(
        asked, cluster, step=step, soft=soft and not hard, devices=pinned, timeout_s=timeout_s, asking=asking
    )
    return {
        "mode": mode,
        "oracle": seen.oracle,
        "tensorflow": seen.tensorflow,
        "added_task": seen.added_task,
        **agreement(asked, cluster, assignment, step, seen, informed),
        "laws": [
            *graph_laws(graph),
            *assignment_laws(graph, assignment, cluster),
            *partition_laws(graph, step, cluster, assignment, partitions),
        ],
        "refused": seen.refusal,
        "unseen_cuts": _unseen_cuts(cluster, partitions, seen),
        "foreseen": partitions.refused is not None and partitions.refused in (seen.refusal or ""),
    }


def _unseen_cuts(cluster: Cluster, partitions: Partitions, seen: DryRun) -> list[str]:
    """The tasks that would cut their piece further, between several devices; stand-ins do not.

    The master's own task does so, within the real server.
    """
    if seen.oracle != STAND_INS or seen.refusal is not None:
        return []
    used = Counter(cluster.devices[row].task for row in sorted(set(partitions.device.tolist())))
    own = seen.added_task or cluster.client_task
    return [task for task in cluster.tasks if used[task] > 1 and task != own]


def agreement(
    graph: Graph,
    cluster: Cluster,
    assignment: Assignment,
    step: Step,
    seen: DryRun,
    informed: Informed | None = None,
) -> dict[str, Any]:
    """The agreement of placement, order of the log and partition with a dry run: that part of `check`."""
    placement, partition = differences(graph, cluster, assignment, step, seen)
    if informed is not None and seen.refusal is None and placement.differences:
        again = differences(graph, cluster, informed(seen.placement), step, seen)
        placement, partition = (
            replace(after, raw=before.raw) for before, after in zip((placement, partition), again, strict=True)
        )
    return {
        "placement": {"agree": placement.agree, "of": placement.of, "raw": placement.raw},
        "log_order": _log_order(graph, assignment, seen),
        "partition": {"agree": partition.agree, "of": partition.of, "raw": partition.raw},
        "bodies": seen.bodies,
        "differences": [asdict(one) for one in (*placement.differences, *partition.differences)],
    }


def differences(
    graph: Graph, cluster: Cluster, assignment: Assignment, step: Step, seen: DryRun
) -> tuple[Comparison, Comparison]:
    """Placement and partition compared with a dry run; all differ, without a list, if TensorFlow refused."""
    cut = _cuts(graph, cluster, assignment, step, seen)
    if seen.refusal is not None:
        return Comparison(0, len(graph), 0, ()), Comparison(0, cut.of, 0, ())
    return compare_items(assignment, seen.placement, graph=graph), cut


def _cuts(graph: Graph, cluster: Cluster, assignment: Assignment, step: Step, seen: DryRun) -> Comparison:
    """Our cut compared with TensorFlow's, of the same flavour on the same cluster.

    If they differ, control flow is put where TensorFlow moved it, as far as that is by chance, and compared again.
    """
    if seen.added_task and seen.added_task not in cluster.tasks:  # a pinned placement, which does not use that task
        cluster = with_client(cluster)
        assignment = replace(assignment, devices=cluster.device_names)
    first = _cut(graph, cluster, assignment, step, seen, {})
    moved = {
        node.name: node.device
        for piece in seen.partitions
        for node in piece.node
        if node.name in graph.index and node.op in MOVED and node.device in cluster.index
    }
    if not moved or first.agree == first.of:
        return first
    return replace(_cut(graph, cluster, assignment, step, seen, moved), raw=first.raw)


def _cut(
    graph: Graph,
    cluster: Cluster,
    assignment: Assignment,
    step: Step,
    seen: DryRun,
    moved: Mapping[str, str],
) -> Comparison:
    """Compare a master's cut: the pieces that it sends to its workers.

    The worker in the master's own process has cut its piece further. If that task has several devices, the second level
    is compared for it.
    """
    pieces = () if seen.refusal is not None else seen.partitions
    if seen.oracle != STAND_INS:
        ours = partition(graph, assignment, cluster, step=step, flavour="local", legal=False, seen=moved)
        return compare_items(ours, pieces, graph=graph)
    sent = partition_by_task(graph, assignment, cluster, step=step, seen=moved)
    own = cluster.client_task
    if sum(device.task == own for device in cluster.devices) == 1:
        return compare_items(sent, pieces, graph=graph)
    others = compare_items(sent, pieces, graph=graph, tasks=[task for task in cluster.tasks if task != own])
    cut = partition(graph, assignment, cluster, step=step, flavour="master", legal=False, seen=moved)
    further = compare_items(cut, pieces, graph=graph, tasks=(own,))
    return Comparison(
        others.agree + further.agree,
        others.of + further.of,
        others.raw + further.raw,
        (*others.differences, *further.differences),
    )


def _log_order(graph: Graph, assignment: Assignment, seen: DryRun) -> dict[str, int] | None:
    """The number of places of TensorFlow's log that hold the predicted node; None: nothing was predicted."""
    if assignment.log_order is None:
        return None
    ours = [graph.names[row] for row in assignment.log_order.tolist()]
    theirs = [] if seen.refusal is not None else list(seen.placement)
    agree = sum(here == there for here, there in zip(ours, theirs, strict=False))
    return {"agree": agree, "of": max(len(ours), len(theirs))}


# --- refusals ---------------------------------------------------------------------------------------------------------


class Complaint(NamedTuple):
    """The reason of a refusal."""

    kind: str  # a key of _KINDS
    node: str | None  # the node that it names; None where it names none


# kind -> the beginning of a sentence, and the place of the node in TensorFlow's; of an edge it is the destination
_KINDS = {
    "malformed": ("Malformed device specification", r"in node: \{name:'([^']*)'"),
    "no kernel": ("No OpKernel was registered", r"used by \{\{node ([^}]*)\}\}"),
    "undeclared attribute": ("OpKernel '", r"\[\[\{\{node ([^}]*)\}\}\]\]"),
    "resource devices": ("Cannot place the graph because a reference", r"the dst node is name='([^']*)'"),
    "reference": ("Nodes were connected by a reference", r"\}\} and \{\{colocation_node ([^}]*)\}\}"),
    "colocation": ("Cannot colocate nodes", r"\{\{colocation_node ([^}]*)\}\} and"),
    "no such device": ("Cannot assign a device", r"operation (\S+): .*explicitly assigned to"),
    "no device for the group": ("Cannot assign a device", r"operation (\S+): .*colocated with a group"),
    "no kernel there": ("Cannot assign a device", r"operation (\S+): "),
    "function": ("Cannot merge devices", None),
    "recursion": ("Recursive function calls", r"Node \{\{node ([^}]*)\}\}"),
    "missing function": ("Failed to find function", None),
}


def complaint(sentence: str, node: str | None = None) -> Complaint | None:
    """The reason in a sentence by TensorFlow's placer; None for a sentence by another part, as the importer.

    `node` is for a sentence of ours, whose error has the node.
    """
    for kind, (beginning, named) in _KINDS.items():
        if not sentence.startswith(beginning):
            continue
        found = re.search(named, sentence) if named else None
        if beginning != "Cannot assign a device" or found:
            return Complaint(kind, found[1] if found else node)
    return None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Both sides of a graph that we refuse to place."""

    agree: bool  # TensorFlow's placer refuses too, for the same kind of reason, and names the same node
    said: str  # a sentence


def check_refusal(
    graph: Graph,
    cluster: Cluster,
    error: InfeasibleError | GraphError,
    step: Step,
    *,
    soft: bool = True,
    timeout_s: float = TIMEOUT_S,
    asking: Asking = ask,
) -> Refusal:
    """Ask TensorFlow about a graph that we refuse to place on a cluster; `error` is our refusal of `extended(cluster)`.

    Raises OracleError if TensorFlow is missing or does not answer.
    """
    seen = dry_run(graph, cluster, step=step, soft=soft, timeout_s=timeout_s, asking=asking)
    return compare_refusals(graph, error, seen)


def compare_refusals(graph: Graph, error: InfeasibleError | GraphError, seen: DryRun) -> Refusal:
    """Our refusal beside what was observed."""
    name = f"TensorFlow {seen.tensorflow}"
    if seen.refusal is None or len(seen.placement) >= len(graph):  # later refusals are not the placer's
        return Refusal(agree=False, said=f"{name} places this graph.")
    found, own = complaint(seen.refusal), complaint(str(error), error.node)
    theirs = found.node if found else None
    if theirs == error.node and found and own and found.kind == own.kind:
        where = "too, and names no node" if theirs is None else f"too, at the same node {theirs!r}"
        return Refusal(agree=True, said=f"{name} refuses {where}: {seen.refusal}")
    at = "without naming a node" if theirs is None else f"at {theirs!r}"
    ours = "none" if error.node is None else repr(error.node)
    return Refusal(agree=False, said=f"{name} refuses too, but {at} instead of {ours}: {seen.refusal}")
