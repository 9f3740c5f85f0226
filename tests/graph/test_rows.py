"""GraphDefs in binary form: read node by node as protobuf reads them whole, with equal attributes held once."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from simulator.graph.building import build
from simulator.graph.messages import GraphDef
from simulator.graph.ops import of_nodes
from simulator.graph.rows import rows_of_bytes
from tests.graph.test_text_format import assert_equal, graph_defs


@given(message=graph_defs(), long=st.booleans())
def test_bytes_read_as_the_message_that_they_are(message: Any, long: bool) -> None:
    for node in message.node[:1] if long else ():
        node.attr["value"].tensor.tensor_content = bytes(2000)
    assert_equal(rows_of_bytes(message.SerializeToString()), message)


@given(message=graph_defs(), at=st.integers(0, 10_000), new=st.binary(min_size=1, max_size=4))
def test_damaged_bytes_are_refused_where_protobuf_refuses_them(message: Any, at: int, new: bytes) -> None:
    raw = bytearray(message.SerializeToString())
    at %= len(raw) + 1
    raw[at : at + len(new)] = new
    try:
        whole = GraphDef.FromString(bytes(raw))
    except DecodeError:
        whole = None
    try:
        rows = rows_of_bytes(bytes(raw))
    except DecodeError:
        rows = None
    assert (whole is None) == (rows is None)
    if rows is not None:
        assert_equal(rows, whole)


def test_nodes_of_equal_attributes_share_them_and_are_asked_about_once() -> None:
    message = GraphDef()
    for number, op in enumerate(("Ours", "Ours", "Theirs", "Ours")):
        message.node.add(name=f"n{number}", op=op).attr["T"].type = 1 + (number == 3)
    rows = rows_of_bytes(message.SerializeToString())
    assert rows.attrs[0] is rows.attrs[1] is rows.attrs[2] is not rows.attrs[3]
    asked: list[tuple[str, int]] = []

    def answer(op: str, attrs: Any) -> str:
        asked.append((op, attrs["T"].type))
        return f"{op} {attrs['T'].type}"

    graph = build(rows.names, rows.ops, rows.requested, rows.inputs, rows.attrs)
    assert of_nodes(answer, graph) == ["Ours 1", "Ours 1", "Theirs 1", "Ours 2"]
    assert asked == [("Ours", 1), ("Theirs", 1), ("Ours", 2)]
