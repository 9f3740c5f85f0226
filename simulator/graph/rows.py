"""The nodes of a GraphDef as columns: the form in which every reader hands them to `building.build`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from sys import intern

from simulator.graph.graph import Attrs
from simulator.graph.messages import GraphDef, Proto


@dataclass(slots=True)
class Rows:
    """The nodes of a GraphDef as columns; `rest` is a GraphDef with the other fields, whose nodes do not count."""

    names: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    inputs: list[Sequence[str]] = field(default_factory=list)
    attrs: list[Attrs] = field(default_factory=list)
    rest: Proto = field(default_factory=GraphDef)

    def add(self, node: Proto, attrs: Attrs) -> None:
        """Append a node of a message, with these attributes."""
        self.names.append(node.name)
        self.ops.append(intern(node.op))  # a graph has few ops and device strings: each is held once
        self.requested.append(intern(node.device))
        self.inputs.append(tuple(node.input))
        self.attrs.append(attrs)

    def extend(self, nodes: Iterable[Proto]) -> None:
        """Append NodeDef messages."""
        for node in nodes:
            self.add(node, dict(node.attr))


def rows_of(message: Proto) -> Rows:
    """The rows of a GraphDef message."""
    rows = Rows(rest=message)
    rows.extend(message.node)
    return rows
