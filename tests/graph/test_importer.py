import gzip
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from hypothesis import given

from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from simulator.graph.importer import read_graph
from simulator.graph.messages import Event, GraphDef, MetaGraphDef, QueueRunnerDef, RunMetadata, SavedModel
from simulator.limits import raised
from tests.strategies import Rows, graphs, loop, typed


def sample() -> Any:
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (2, 3)))
    made.add("c", "Const", **typed("Const", (2, 3)))
    made.add("sum", "AddV2", ["x", "c"], device="/job:ps/task:0", **typed("AddV2", (2, 3)))
    loop(made, start="sum")
    return graph_def(made.built(producer=24))


def meta_graph() -> Any:
    message = MetaGraphDef(graph_def=sample())
    message.meta_info_def.tags.append("serve")
    message.meta_info_def.tensorflow_version = "1.15.0"
    message.collection_def["train_op"].node_list.value.append("while/Exit")
    message.signature_def["predict"].inputs["image"].name = "x:0"
    message.signature_def["predict"].outputs["score"].name = "sum:0"
    return message


def saved_model() -> Any:
    return SavedModel(saved_model_schema_version=1, meta_graphs=[meta_graph()])


MESSAGES = {"GraphDef": sample, "MetaGraphDef": meta_graph, "SavedModel": saved_model}
FORMS: dict[str, Callable[[Any], bytes]] = {
    "binary": lambda message: message.SerializeToString(),
    "text": lambda message: text_format.MessageToString(message).encode(),
    "one line of text": lambda message: text_format.MessageToString(message, as_one_line=True).encode(),
    "text with a mark": lambda message: b"\xef\xbb\xbf" + text_format.MessageToString(message).encode(),
    "text from PowerShell": lambda message: text_format.MessageToString(message).encode("utf-16"),
    "text with comments": lambda message: b"# ours\n\n" + text_format.MessageToString(message).encode(),
}


def events(*found: Any) -> bytes:
    """A file of events with these graphs, as TensorFlow writes it but for its checksums, which nobody reads."""
    records = [Event(wall_time=1, file_version="brain.Event:2").SerializeToString(), Event(step=5).SerializeToString()]
    for message in found:
        record = bytearray(Event(wall_time=1, graph_def=message.SerializeToString()).SerializeToString())
        record[9] = {"GraphDef": 4, "MetaGraphDef": 9}[message.DESCRIPTOR.name] << 3 | 2  # the field behind the time
        records.append(bytes(record))
    return b"".join(len(one).to_bytes(8, "little") + bytes(4) + one + bytes(4) for one in records)


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("zipped", [False, True])
def test_the_kind_is_told_from_the_content(kind: str, form: str, zipped: bool, tmp_path: Path) -> None:
    raw = FORMS[form](MESSAGES[kind]())
    path = tmp_path / "misleading.png"
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    graph = read_graph(path)
    assert graph_def(graph) == sample()
    assert graph.source == str(path)
    assert bool(graph.signatures) == bool(graph.train_ops) == (kind != "GraphDef")


def test_a_meta_graph_brings_its_signatures_and_train_ops() -> None:
    graph = read_graph(meta_graph().SerializeToString())
    assert graph.train_ops == ("while/Exit",)
    assert graph.signatures["predict"].inputs == {"image": "x:0"}
    assert graph.signatures["predict"].outputs == {"score": "sum:0"}
    assert graph.producer == 24


@pytest.mark.parametrize("form", ["binary", "text"])
def test_a_meta_graph_says_what_its_queue_runners_enqueue(form: str) -> None:
    message = meta_graph()
    packed = message.collection_def["queue_runners"].bytes_list.value
    for names in (("a", "b:0"), ("c", "c")):
        runner = QueueRunnerDef(queue_name="queue", enqueue_op_name=names, close_op_name="close")
        packed.append(runner.SerializeToString() + b"\x2a\x01\x0b")  # and the error by which it ends
    assert read_graph(FORMS[form](message)).queue_runners == ("a", "b:0", "c", "c")
    packed.append(b"\xff")
    with pytest.raises(GraphError, match=r"'queue_runners' is no QueueRunnerDef.*Export"):
        read_graph(FORMS[form](message))


@pytest.mark.parametrize("name", ["saved_model.pb", "saved_model.pbtxt", "saved_model.pb.gz"])
def test_a_saved_model_folder(name: str, tmp_path: Path) -> None:
    raw = FORMS["text" if "txt" in name else "binary"](saved_model())
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    assert graph_def(read_graph(tmp_path)) == sample()


@pytest.mark.parametrize("form", ["binary", "text"])
def test_the_meta_graph_tagged_serve_is_taken(form: str) -> None:
    message = saved_model()
    train = message.meta_graphs.add(graph_def=GraphDef())
    train.graph_def.node.add(name="only", op="NoOp")
    train.meta_info_def.tags.append("train")
    message.meta_graphs.reverse()
    graph = read_graph(FORMS[form](message))
    assert graph_def(graph) == sample()
    assert any("2 MetaGraphs" in note for note in graph.notes)


def test_the_train_signature_of_a_saved_model_is_its_train_op() -> None:
    message = meta_graph()
    message.collection_def.clear()
    message.signature_def["__saved_model_train_op"].outputs["__saved_model_train_op"].name = "while/Exit:0"
    graph = read_graph(message)
    assert graph.train_ops == ("while/Exit:0",)
    assert list(graph.signatures) == ["predict"]


def test_sparse_and_composite_arguments_become_one_entry_per_tensor() -> None:
    message = meta_graph()
    sparse = message.signature_def["predict"].inputs["sparse"].coo_sparse
    sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name = "v:0", "i:0", "s:0"
    message.signature_def["predict"].inputs["ragged"].composite_tensor.components.add(name="r:0")
    assert read_graph(message).signatures["predict"].inputs == {
        "image": "x:0",
        "ragged.0": "r:0",
        "sparse.dense_shape": "s:0",
        "sparse.indices": "i:0",
        "sparse.values": "v:0",
    }


def test_a_file_of_events_holds_a_graph(tmp_path: Path) -> None:
    graph = read_graph(events(sample()))
    assert graph_def(graph) == sample()
    assert graph.notes == ()
    (tmp_path / "zipped").write_bytes(gzip.compress(events(sample(), meta_graph())))
    both = read_graph(tmp_path / "zipped")
    assert both.train_ops == ("while/Exit",)
    assert both.notes == ()


def test_of_several_graphs_in_a_file_of_events_the_last_is_taken_and_said() -> None:
    other = GraphDef()
    other.node.add(name="only", op="NoOp")
    graph = read_graph(events(other, sample()))
    assert graph_def(graph) == sample()
    assert graph.notes == ("of 2 graphs in the file of events the last was taken",)


def test_a_run_that_goes_on_has_written_a_part_of_a_record() -> None:
    whole = events(sample())
    assert graph_def(read_graph(whole + events(meta_graph())[60:90])) == sample()
    with pytest.raises(GraphError, match=r"file of events without a graph.*FileWriter"):
        read_graph(whole[:-9])


def test_the_only_file_of_events_in_a_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.host").write_bytes(events(sample()))
    assert graph_def(read_graph(tmp_path)) == sample()
    (tmp_path / "events.out.tfevents.2.host").write_bytes(events(meta_graph()))
    with pytest.raises(GraphError, match=r"Did you mean .*tfevents.2.host\?"):
        read_graph(tmp_path)


def test_the_version_of_the_first_releases() -> None:
    message = sample()
    message.ClearField("versions")
    message.version = 7
    assert read_graph(message).producer == 7


def foreign(message: Any | Any) -> Any | Any:
    """The same message as another library would hold it: in a pool that is not ours."""
    pool = descriptor_pool.DescriptorPool()
    for name in ("simviz/google.protobuf.proto", "simviz/tensorflow.proto"):
        file = descriptor_pb2.FileDescriptorProto()
        message.DESCRIPTOR.file.pool.FindFileByName(name).CopyToProto(file)
        pool.AddSerializedFile(file.SerializeToString())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(message.DESCRIPTOR.full_name))
    return kind.FromString(message.SerializeToString())


class Graphlike:
    def as_graph_def(self, add_shapes: bool = False) -> Any:
        assert add_shapes
        return foreign(sample())


class PlainGraphlike:
    def as_graph_def(self) -> Any:
        return sample()


@pytest.mark.parametrize("source", [sample(), foreign(sample()), foreign(saved_model()), Graphlike(), PlainGraphlike()])
def test_what_lives_in_memory(source: Any) -> None:
    assert graph_def(read_graph(source)) == sample()


def test_a_graph_is_returned_as_it_is() -> None:
    graph = read_graph(sample())
    assert read_graph(graph) is graph


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = sample().SerializeToString()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    graph = read_graph("-")
    assert graph_def(graph) == sample()
    assert graph.source == "standard input"


def test_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen([sys.executable, "-c", f"open({str(path)!r}, 'wb').write({sample().SerializeToString()!r})"]):
        assert graph_def(read_graph(path)) == sample()


NOT_GRAPHS = [
    ("git lfs pull", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
    ("label map", b"item {\n  id: 1\n  name: 'cat'\n}\n"),
    ("HTML", b"\n<!DOCTYPE html>\n<html><body>404</body></html>"),
    ("an image", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
    ("is empty", b""),
    ("is empty", b" \n\n"),
    ("zero bytes", bytes(500)),
    ("zip", b"PK\x03\x04\x14\0\0\0"),
    ("HDF5", b"\x89HDF\r\n\x1a\n"),
    ("Lite", b"\x1c\0\0\0TFL3\x14\0"),
    ("checkpoint", b'model_checkpoint_path: "model.ckpt-1"\n'),
    ("JSON", b'{"node": []}'),
    ("begins with the field 'layer'", b'layer {\n  name: "conv"\n}\n'),  # Caffe's prototxt
    ("begins with 'Once upon a time'", b"Once upon a time\n"),
    ("neither a GraphDef nor", bytes(range(1, 200))),
    ("damaged", gzip.compress(b"node {}")[:10] + b"\xff" * 20),
    ("cut", gzip.compress(sample().SerializeToString())[:-20]),
    ("cut", text_format.MessageToString(sample()).encode()[:-30]),
    ("'x' is not", sample().SerializeToString()[: len(sample().node[0].SerializeToString()) + 20]),
    ('no field named "colour"', b'node {\n  name: "a"\n  op: "b"\n  colour: 3\n}\n'),
    ("line 3", b'node {\n  name: "a"\n  op: 5\n}\n'),
    ("UTF-8", b'node {\n  name: "a"\n  op: "\xff\xfe"\n}\n'),
    ("without a MetaGraph", b"saved_model_schema_version: 1\n"),
    ("neither a GraphDef nor a", RunMetadata(partition_graphs=[sample()]).SerializeToString()),
]


@pytest.mark.parametrize(("sentence", "raw"), NOT_GRAPHS, ids=[sentence for sentence, _ in NOT_GRAPHS])
def test_what_is_no_graph_is_named(sentence: str, raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_bytes(raw)
    with pytest.raises(GraphError) as refusal:
        read_graph(path)
    assert str(path) in str(refusal.value)
    assert sentence in str(refusal.value)
    assert str(refusal.value).endswith(".")


@pytest.mark.parametrize("extra", [*range(70, 130), 250, 300])
def test_a_binary_graph_is_no_stranger_whatever_the_length_of_its_first_node(extra: int) -> None:
    message = GraphDef()  # the second byte of the file is that length: "{" and "[" are lengths too
    message.node.add(name="a" * (1 + extra), op="NoOp")
    assert len(read_graph(message.SerializeToString())) == 1


def test_a_missing_file_proposes_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "graph.pbtxt").write_bytes(b"x")
    with pytest.raises(GraphError, match=r"no such file\. Did you mean 'graph\.pbtxt'"):
        read_graph(tmp_path / "grahp.pbtxt")


def test_a_folder_without_a_saved_model_proposes_the_version_in_it(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"without saved_model\.pb.* Name the file"):
        read_graph(tmp_path)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(GraphError, match=r"Did you mean .*/1\?"):
        read_graph(tmp_path)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Path | str) -> None:
        raise PermissionError

    path = tmp_path / "graph.pb"
    path.write_bytes(b"")
    monkeypatch.setattr(Path, "open", refuse)  # root may read everything
    with pytest.raises(GraphError, match="chmod"):
        read_graph(path)


@pytest.mark.parametrize("source", ["a\0b", "x" * 5000, os.devnull, "/dev/null/x"])
def test_strange_paths(source: str) -> None:
    with pytest.raises(GraphError):
        read_graph(source)


@pytest.mark.parametrize("source", [None, 3, object(), [1], RunMetadata()])
def test_strange_objects(source: Any) -> None:
    with pytest.raises(GraphError, match="is not a graph"):
        read_graph(source)


class Concrete:
    """As a concrete function, which has a graph."""

    structured_input_signature: tuple[Any, Any] = ((), {})

    graph = SimpleNamespace(as_graph_def=lambda add_shapes=False: sample())


class Tensor:
    """As a tensor: it belongs to a graph."""

    graph = SimpleNamespace(as_graph_def=lambda: sample())


class Traced:
    """As a tf.function: it makes concrete functions."""

    def get_concrete_function(self) -> Any:
        return Concrete()


def test_a_concrete_function_has_a_graph_and_a_function_is_told_how_to_make_one() -> None:
    assert read_graph(Concrete()).names == read_graph(Concrete().graph).names == read_graph(sample()).names
    with pytest.raises(GraphError, match=r"a value of type Tensor is not a graph: give its \.graph\."):
        read_graph(Tensor())
    with pytest.raises(GraphError, match=r"give the concrete function that its get_concrete_function makes"):
        read_graph(Traced())


def test_a_binary_graph_without_nodes_is_a_graph() -> None:
    empty = GraphDef()
    empty.versions.producer = 2474
    assert len(read_graph(empty.SerializeToString())) == 0


def test_gzip_does_not_unfold_without_bounds(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(5_000)) * 3  # three members, each within the bound
    path = tmp_path / "bomb.pb"
    path.write_bytes(bomb)
    with raised({"stream-bytes": 10_000}), pytest.raises(GraphError, match="unfolds to more than"):
        read_graph(path)


@given(graphs())
def test_bytes_and_text_give_the_same_graph(graph: Graph) -> None:
    message = graph_def(graph)
    binary, text = read_graph(FORMS["binary"](message)), read_graph(FORMS["text"](message))
    assert graph_def(binary) == graph_def(text) == message
    assert binary.order.tolist() == text.order.tolist()


@pytest.mark.parametrize(
    ("op", "least", "said"),
    [("Switch", 2, "2 inputs"), ("ReadVariableOp", 1, "1 input"), ("Conv2D", 2, "2 inputs"), ("Tile", 2, "2 inputs"),
     ("_FusedConv2D", 2, "2 inputs or more"), ("StatelessIf", 1, "1 input or more")],
)  # fmt: skip
def test_a_node_with_fewer_inputs_than_its_op_takes_is_refused(op: str, least: int, said: str) -> None:
    message = GraphDef()
    message.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    node = message.node.add(name="short", op=op)
    for count in range(least):
        node.input[:] = ["x"] * count + ["^x"]
        with pytest.raises(GraphError, match=f"node 'short': {op} takes {said}, and has {count}"):
            read_graph(message)
    node.input[:] = ["x"] * least
    assert len(read_graph(message)) == 2


@pytest.mark.parametrize("claimed", [70_000, 70_001, 2**62])
def test_an_op_has_as_many_inputs_as_its_file_writes_out(claimed: int) -> None:
    message = GraphDef()
    message.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    node = message.node.add(name="sum", op="AddN", input=["x"] * 70_000)
    node.attr["T"].type = 1
    node.attr["N"].i = claimed
    if claimed == 70_000:
        assert len(read_graph(message).node("sum").inputs) == claimed
        return
    with pytest.raises(GraphError, match="'sum': A node claims more than 65,536 tensors for the argument 'inputs'"):
        read_graph(message)
