"""Refusals of a graph, ours beside TensorFlow's: does its placer refuse, too, for the same reason and at the same node?

Our errors say in substance what TensorFlow says and begin alike, so the same words tell the kind of both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from simulator.graph.messages import GraphDef
from simulator.oracle.child import Asking, pack, unpack
from simulator.oracle.observation import TIMEOUT_S, Observation, ask, observe

if TYPE_CHECKING:
    from simulator.cluster.cluster import Cluster
    from simulator.errors import GraphError, InfeasibleError
    from simulator.graph.graph import Graph
    from simulator.graph.step import Step


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
    seen = observe(graph, cluster, step=step, soft=soft, timeout_s=timeout_s, asking=asking)
    return compare_refusals(graph, error, seen)


def compare_refusals(graph: Graph, error: InfeasibleError | GraphError, seen: Observation) -> Refusal:
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


def import_refusal(content: bytes, *, timeout_s: float = TIMEOUT_S, asking: Asking = ask) -> str | None:
    """TensorFlow's sentence about a file that holds a GraphDef, in text or binary, which it does not import; else None.

    For files that we do not take for a graph. One that is no GraphDef at all is refused by protobuf, in its words.
    """
    from google.protobuf import message, text_format

    found = GraphDef()
    try:
        text_format.Parse(content, found)
    except (text_format.ParseError, UnicodeDecodeError) as error:  # then it is binary, or no GraphDef
        try:
            found.ParseFromString(content)
        except message.DecodeError:  # the text's error says more
            return f"no GraphDef: {error}"
    step = {"target": [node.name for node in found.node[:1]]}
    question = {"soft": True, "step": step, "tasks": [], "master": "", "counts": {"CPU": 1}}
    reply, _ = unpack(asking(pack(question, [found.SerializeToString(deterministic=True)]), timeout_s))
    refusal: str | None = reply["refusal"]
    return refusal
