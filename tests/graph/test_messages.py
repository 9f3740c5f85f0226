import subprocess
import sys

import pytest
from google.protobuf import text_format

from simulator.graph import dtypes, messages

# Written by hand from the wire format: NodeDef{name: "x", op: "Const", attr{key: "dtype" value{type: DT_INT32}}}
NODE_ON_THE_WIRE = b"\x0a\x01x\x12\x05Const\x2a\x0b\x0a\x05dtype\x12\x02\x30\x03"
NODE_IN_TEXT = """name: "x"
op: "Const"
attr {
  key: "dtype"
  value {
    type: DT_INT32
  }
}
"""


def test_a_node_is_read_from_bytes_written_by_hand() -> None:
    node = messages.NodeDef.FromString(NODE_ON_THE_WIRE)
    assert (node.name, node.op, node.attr["dtype"].type) == ("x", "Const", 3)
    assert node.attr["dtype"].WhichOneof("value") == "type"
    assert node.SerializeToString() == NODE_ON_THE_WIRE


def test_text_names_enumerators() -> None:
    node = text_format.Parse(NODE_IN_TEXT, messages.NodeDef())
    assert node.SerializeToString() == NODE_ON_THE_WIRE
    assert text_format.MessageToString(node) == NODE_IN_TEXT


def test_numbers_are_packed_as_proto3_does() -> None:
    tensor = messages.TensorProto(float_val=[1.0, 2.0])
    assert tensor.SerializeToString() == b"\x2a\x08\x00\x00\x80\x3f\x00\x00\x00\x40"


def test_the_members_of_a_oneof_exclude_each_other() -> None:
    value = messages.AttrValue(i=1)
    value.b = True
    assert value.WhichOneof("value") == "b"
    assert value.i == 0


def test_unknown_fields_survive() -> None:
    raw = NODE_ON_THE_WIRE + b"\xf8\x06\x01"  # field 111, not in the table
    assert messages.NodeDef.FromString(raw).SerializeToString() == raw


def test_field_numbers_and_names_are_unique_in_every_message() -> None:
    for line in messages.MESSAGES.replace("\n    ", " ").splitlines():
        if line and not line.startswith("#"):
            rows = [row.split() for row in line.partition(":")[2].split(",") if row.strip()]
            assert all(len(row) == 3 for row in rows), line
            assert len({row[0] for row in rows}) == len({row[1] for row in rows}) == len(rows), line


@pytest.mark.parametrize(("number", "name", "size"), [(1, "DT_FLOAT", 4), (9, "DT_INT64", 8), (14, "DT_BFLOAT16", 2)])
def test_types(number: int, name: str, size: int) -> None:
    assert dtypes.NAMES[number] == name
    assert dtypes.NAMES[number + dtypes.REF] == f"{name}_REF"
    assert dtypes.SIZE[number] == size
    assert dtypes.base(number + dtypes.REF) == dtypes.base(number) == number


def test_importing_the_messages_needs_no_tensorflow() -> None:
    code = "import sys, simulator.graph.messages; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
