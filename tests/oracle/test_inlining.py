import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf import text_format

from simulator.graph import messages
from simulator.graph.graph_def import graph_def
from simulator.graph.importer import read_graph
from simulator.graph.inlining.expanding import inline
from simulator.oracle import child

MODELS = ("conditionals", "loops", "state", "legacy", "lists")
COMPARED = ("T", "N", "frame_name", "is_constant", "parallel_iterations", "num_outs", "value")

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def lowered() -> Any:
    """Per model: the graph, the graph before and after TensorFlow's pass, and what it computes."""
    return json.loads(child.run("tests.oracle.lowering", b"", timeout_s=120, args=["lower"]))


@pytest.fixture(scope="module")
def flat(lowered: Any) -> Any:
    """Per model the product's flat graph, and what TensorFlow computes with it."""
    graphs = {
        name: inline(read_graph(messages.GraphDef.FromString(base64.b64decode(says["graph"]))))
        for name, says in lowered.items()
    }
    payload = {
        name: (base64.b64encode(graph_def(graph).SerializeToString()).decode(), lowered[name]["fetches"])
        for name, graph in graphs.items()
    }
    answer = child.run("tests.oracle.lowering", json.dumps(payload).encode(), timeout_s=120, args=["run"])
    return graphs, json.loads(answer)


def read(text: str) -> Any:
    return text_format.Parse(text.encode("latin-1"), messages.GraphDef())


def row(name: str, op: str, device: str, inputs: Sequence[str], attrs: Any) -> Any:
    """What is compared of a node. TensorFlow's dump writes "a" for "a:0" and sorts control inputs."""
    data = tuple(text.removesuffix(":0") for text in inputs if text[0] != "^")
    colocated = [entry for entry in attrs["_class"].list.s if entry.startswith(b"loc:@")] if "_class" in attrs else []
    written = {key: attrs[key].SerializeToString(deterministic=True) for key in COMPARED if key in attrs}
    return name, op, device, data, {text for text in inputs if text[0] == "^"}, colocated, written


@pytest.mark.parametrize("model", MODELS)
def test_every_node_is_the_one_that_tensorflow_makes(lowered: Any, model: Any) -> None:
    ours = inline(read_graph(read(lowered[model]["before"])))
    theirs = read(lowered[model]["after"]).node
    made = [row(node.name, node.op, node.requested, node.inputs, node.attrs) for node in ours.nodes()]
    assert [node[0] for node in made] == [node.name for node in theirs]
    assert made == [row(node.name, node.op, node.device, node.input, node.attr) for node in theirs]


@pytest.mark.parametrize("model", MODELS)
def test_the_flat_graph_imports_and_computes_the_same(lowered: Any, flat: Any, model: Any) -> None:
    assert flat[1][model] == lowered[model]["values"]


@pytest.mark.parametrize("model", MODELS)
def test_nothing_functional_is_left(lowered: Any, flat: Any, model: Any) -> None:
    graph = flat[0][model]
    assert not {
        "If",
        "StatelessIf",
        "While",
        "StatelessWhile",
        "Case",
        "PartitionedCall",
        "StatefulPartitionedCall",
    } & {*graph.ops}
    assert not graph.library
