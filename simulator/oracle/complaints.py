"""Read the sentence with which TensorFlow's placer refuses a graph, or ours: what is wrong, and at which node.

Our errors say in substance what TensorFlow says and begin alike, so that both can be told apart by the same words.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Complaint(NamedTuple):
    """What a refusal is about."""

    kind: str  # a key of _KINDS
    node: str | None  # the node that it names; None where it names none


# How a sentence of the kind begins, and where TensorFlow writes the node in it. An edge is refused at its destination.
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
    """What a refusal of TensorFlow's placer is about; None for a refusal by another part, as the importer.

    `node` is for a sentence of ours, whose error has the node.
    """
    for kind, (beginning, named) in _KINDS.items():
        if not sentence.startswith(beginning):
            continue
        found = re.search(named, sentence) if named else None
        if beginning != "Cannot assign a device" or found:
            return Complaint(kind, found[1] if found else node)
    return None
