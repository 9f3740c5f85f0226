"""The wire table and the loader against the real TensorFlow's messages and importer."""

from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import GraphError
from simulator.graph import messages
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.importer import read_graph
from tests.strategies import DEVICES, Rows, graphs

pytestmark = pytest.mark.tensorflow


def theirs() -> Any:
    from tensorflow.core.framework import graph_pb2, kernel_def_pb2, op_def_pb2
    from tensorflow.core.protobuf import config_pb2, saved_model_pb2
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    return {
        "GraphDef": graph_pb2.GraphDef,
        "OpList": op_def_pb2.OpList,
        "KernelList": kernel_def_pb2.KernelList,
        "RunMetadata": config_pb2.RunMetadata,
        "SavedModel": saved_model_pb2.SavedModel,
        "XSpace": xplane_pb2.XSpace,
    }


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
    assert described(getattr(messages, name).DESCRIPTOR, {}) == described(theirs()[name].DESCRIPTOR, {})


def test_what_tensorflow_exports_of_a_queue_runner_is_read() -> None:
    from tensorflow.core.protobuf import queue_runner_pb2

    runner = queue_runner_pb2.QueueRunnerDef(
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
    read = theirs()["GraphDef"].FromString(ours.SerializeToString())
    assert text_format.MessageToString(read) == text_format.MessageToString(ours)
    assert graph_def(read_graph(read)) == ours


def accepts(rows: Rows) -> Any:
    """Whether TensorFlow imports a graph of NoOps with those names and inputs."""
    import tensorflow as tf

    message = theirs()["GraphDef"]()
    for name, inputs in zip(rows.names, rows.inputs, strict=True):
        message.node.add(name=name, op="NoOp", input=inputs)
    try:
        with tf.Graph().as_default():
            tf.import_graph_def(message, name="")
    except ValueError:
        return False
    return True


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
