"""A reader of GraphDefs in binary form that holds one node at a time, and equal attributes once.

A graph of a million nodes has a few hundred different sets of attributes. Nodes with equal bytes of attributes share
one mapping, as in `text_format`, so that `ops.of_each` asks once for all of them.
"""

from __future__ import annotations

from simulator.graph.graph import Attrs
from simulator.graph.messages import GraphDef, NodeDef, PackedGraphDef, PackedNodeDef
from simulator.graph.rows import Rows

_LARGE_BYTES = 1024  # a larger node holds a constant, which hardly ever has an equal


def read_binary(raw: bytes) -> Rows:
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
