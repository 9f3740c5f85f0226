"""TensorFlow's GraphDef family as protobuf messages, without TensorFlow.

The descriptors are made at run time from the table in `wire.py`, in a pool of our own. So they neither need TensorFlow
nor collide with it when it is loaded in the same process. Both have the same wire format: each reads the bytes and text
of the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from simulator.graph import dtypes, wire

# Any: descriptors made at run time have fields that no checker knows. This module is one of the two places where
# untyped values enter. A parameter of this type is a message, ours or TensorFlow's.
Proto: TypeAlias = Any
_Field = descriptor_pb2.FieldDescriptorProto
_SCALAR_NAMES = (
    "bool",
    "bytes",
    "double",
    "fixed64",
    "float",
    "int32",
    "int64",
    "sint64",
    "string",
    "uint32",
    "uint64",
)
_SCALARS = {name: getattr(_Field, f"TYPE_{name.upper()}") for name in _SCALAR_NAMES}
_ANY = "google.protobuf.Any"

Table: TypeAlias = Mapping[str, Sequence[Sequence[str]]]


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _table(text: str) -> Table:
    """Rows of words by name, from lines "Name: word word, word word"; an indented line continues the one before."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\n +", " ", "\n".join(lines))
    entries = (line.split(":", 1) for line in joined.splitlines() if line)
    return {name: [row.split() for row in rows.split(",") if row.strip()] for name, rows in entries}


def _set_type(field: Any, kind: str, enums: Table) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_ENUM if kind in enums else _Field.TYPE_MESSAGE
        field.type_name = f".{kind}" if kind == _ANY else f".tensorflow.{kind}"


def _add_field(message: Any, row: Sequence[str], path: str, enums: Table) -> None:
    name, number, kind = row
    kind, _, oneof = kind.partition("|")
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if kind.endswith("*"):
        field.label = _Field.LABEL_REPEATED
        kind = kind[:-1]
    if oneof:
        known = [declared.name for declared in message.oneof_decl]
        if oneof not in known:
            message.oneof_decl.add(name=oneof)
            known.append(oneof)
        field.oneof_index = known.index(oneof)
    key, arrow, value = kind.partition("->")
    if arrow:
        entry = message.nested_type.add(name=f"{_camel(name)}Entry")
        entry.options.map_entry = True
        for position, (part, part_kind) in enumerate((("key", key), ("value", value)), 1):
            _set_type(entry.field.add(name=part, number=position, label=_Field.LABEL_OPTIONAL), part_kind, enums)
        field.label = _Field.LABEL_REPEATED
        kind = f"{path}.{entry.name}"
    _set_type(field, kind, enums)


def _declare(pool: descriptor_pool.DescriptorPool) -> None:
    rows = _table(wire.MESSAGES)
    data_type = [(name, str(number)) for number, name in dtypes.NAMES.items()]
    enums = {**_table(wire.ENUMS), "DataType": data_type}
    files = {
        package: descriptor_pb2.FileDescriptorProto(name=f"simviz/{package}.proto", package=package, syntax="proto3")
        for package in ("google.protobuf", "tensorflow")
    }
    files["tensorflow"].dependency.append("simviz/google.protobuf.proto")
    made: dict[str, Any] = {}

    def message(path: str) -> Any:
        """The message of that name, made together with the enclosing messages."""
        if path not in made:
            outer, _, name = path.rpartition(".")
            home = message(outer).nested_type if outer else files["tensorflow"].message_type
            made[path] = home.add(name=name)
        return made[path]

    made[_ANY] = files["google.protobuf"].message_type.add(name="Any")
    for path, fields in rows.items():
        for row in fields or ():
            _add_field(message(path), row, path, enums)
        message(path)
    for path, members in enums.items():
        outer, _, name = path.rpartition(".")
        enum = (message(outer) if outer else files["tensorflow"]).enum_type.add(name=name)
        for label, number in members:
            enum.value.add(name=label, number=int(number))
    for declared in files.values():
        pool.AddSerializedFile(declared.SerializeToString())


_POOL = descriptor_pool.DescriptorPool()
_declare(_POOL)


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"tensorflow.{name}"))


GraphDef = _message("GraphDef")
NodeDef = _message("NodeDef")
AttrValue = _message("AttrValue")
NameAttrList = _message("NameAttrList")
TensorProto = _message("TensorProto")
TensorShapeProto = _message("TensorShapeProto")
FunctionDef = _message("FunctionDef")
FunctionDefLibrary = _message("FunctionDefLibrary")
OpDef = _message("OpDef")
OpList = _message("OpList")
KernelDef = _message("KernelDef")
KernelList = _message("KernelList")
CollectionDef = _message("CollectionDef")
QueueRunnerDef = _message("QueueRunnerDef")
SignatureDef = _message("SignatureDef")
MetaGraphDef = _message("MetaGraphDef")
SavedModel = _message("SavedModel")
StepStats = _message("StepStats")
CostGraphDef = _message("CostGraphDef")
RunMetadata = _message("RunMetadata")
