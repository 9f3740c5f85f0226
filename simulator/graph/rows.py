"""The nodes of a GraphDef as columns: the form in which every reader hands them to `building.build`.

A graph of a million nodes has a few hundred different sets of attributes. In binary form it is read node by node, and
nodes with equal bytes of attributes share one mapping, as in `text_format`. `ops.of_nodes` asks once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from sys import intern

from simulator.graph.graph import Attrs
from simulator.graph.messages import GraphDef, NodeDef, PackedGraphDef, PackedNodeDef, Proto

_LARGE_BYTES = 1024  # a larger node holds a constant, which hardly ever has an equal


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


def rows_of_bytes(raw: bytes) -> Rows:
    """The rows of a GraphDef in binary form. Raises DecodeError or ValueError for bytes that are no GraphDef."""
    packed = PackedGraphDef.FromString(raw)
    rows = Rows()
    known: dict[tuple[bytes, ...], Attrs] = {}
    for one in packed.node:
        if len(one) > _LARGE_BYTES:
            rows.extend((NodeDef.FromString(one),))
            continue
        node = PackedNodeDef.FromString(one)
        key = tuple(node.attr)
        attrs = known.get(key)
        if attrs is None:
            attrs = known[key] = dict(NodeDef.FromString(PackedNodeDef(attr=key).SerializeToString()).attr)
        rows.add(node, attrs)
    packed.ClearField("node")
    rows.rest = GraphDef.FromString(packed.SerializeToString())
    return rows
