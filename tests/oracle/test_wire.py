"""The wire table and the loader against the real TensorFlow's messages and importer."""

import json
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import GraphError
from simulator.graph import messages
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.importer import read_graph
from tests.oracle.staying import staying
from tests.strategies import DEVICES, Rows, graphs

pytestmark = pytest.mark.tensorflow


MESSAGES = {
    "GraphDef": "core.framework.graph",
    "OpList": "core.framework.op_def",
    "KernelList": "core.framework.kernel_def",
    "RunMetadata": "core.protobuf.config",
    "SavedModel": "core.protobuf.saved_model",
    "XSpace": "tsl.profiler.protobuf.xplane",
    "QueueRunnerDef": "core.protobuf.queue_runner",
}


@cache
def theirs(name: str) -> Any:
    """A message of TensorFlow's, without the rest of the package, which takes seconds."""
    found = find_spec("tensorflow")
    assert found is not None
    package = ModuleType("tensorflow")
    package.__path__ = found.submodule_search_locations or []
    with patch.dict(sys.modules, {"tensorflow": package}):
        return getattr(import_module(f"tensorflow.{MESSAGES[name]}_pb2"), name)


def plain(name: str) -> str:
    """The name in our own package, which holds the profiler's messages, too."""
    return name.replace("tensorflow.profiler.", "tensorflow.")


def described(message: Any, seen: dict[str, Any]) -> dict[str, Any]:
    """Every message that can be reached: its fields by number, with name, type, label and oneof."""
    name = plain(message.full_name)
    if name in seen:
        return seen
    seen[name] = {
        field.number: (
            field.name,
            field.type,
            field.is_repeated,
            field.containing_oneof.name if field.containing_oneof else None,
            plain(field.message_type.full_name) if field.message_type else None,
            {value.name: value.number for value in field.enum_type.values} if field.enum_type else None,
        )
        for field in message.fields
    }
    for field in message.fields:
        if field.message_type:
            described(field.message_type, seen)
    return seen


@pytest.mark.parametrize("name", ["GraphDef", "OpList", "KernelList", "RunMetadata", "SavedModel", "XSpace"])
def test_the_table_says_what_tensorflow_says(name: str) -> None:
    assert described(getattr(messages, name).DESCRIPTOR, {}) == described(theirs(name).DESCRIPTOR, {})


def test_what_tensorflow_exports_of_a_queue_runner_is_read() -> None:
    runner = theirs("QueueRunnerDef")(
        queue_name="queue",
        enqueue_op_name=["first", "second"],
        close_op_name="close",
        cancel_op_name="cancel",
        queue_closed_exception_types=[11],
    )
    read = messages.QueueRunnerDef.FromString(runner.SerializeToString())
    assert (read.queue_name, list(read.enqueue_op_name)) == ("queue", ["first", "second"])
    assert (read.close_op_name, read.cancel_op_name) == ("close", "cancel")


@given(graphs(devices=DEVICES, colocations=True))
def test_bytes_and_text_of_one_are_read_by_the_other(graph: Graph) -> None:
    ours = graph_def(graph)
    read = theirs("GraphDef").FromString(ours.SerializeToString())
    assert text_format.MessageToString(read) == text_format.MessageToString(ours)
    assert graph_def(read_graph(read)) == ours


def accepts(rows: Rows) -> bool:
    """Whether TensorFlow imports a graph of NoOps with those names and inputs."""
    message = theirs("GraphDef")()
    for name, inputs in zip(rows.names, rows.inputs, strict=True):
        message.node.add(name=name, op="NoOp", input=inputs)
    return json.loads(staying("tests.oracle.importing")(message.SerializeToString(), 60)) is not None


NAMES = st.one_of(st.sampled_from("abcd"), st.text("aB0.>_/-: ^é", min_size=1, max_size=4))


# TensorFlow lets its own passes begin a name with "_"; its Python importer does not, so those are left out.
@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(NAMES.filter(lambda name: name[0] != "_"), st.lists(NAMES.map("^".__add__), max_size=2)), max_size=4
    )
)
def test_refuses_what_tensorflow_refuses_and_nothing_else(nodes: Any) -> None:
    made = Rows()
    for name, inputs in nodes:
        made.add(name, "NoOp", inputs)
    try:
        made.built()
    except GraphError:
        assert not accepts(made)
    else:
        assert accepts(made)
