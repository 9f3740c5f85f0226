from dataclasses import replace

import pytest
from hypothesis import given

from simulator.errors import GraphError
from simulator.graph.graph import Graph, Shape
from simulator.graph.graph_def import graph_def, to_text
from simulator.graph.importer import read_graph
from simulator.graph.messages import FunctionDef
from tests.strategies import DEVICES, Rows, graphs, typed


@given(graphs(devices=DEVICES, colocations=True))
def test_what_is_written_reads_as_the_same_graph(graph: Graph) -> None:
    written = graph_def(graph)
    for again in (read_graph(written.SerializeToString()), read_graph(to_text(written).encode()), read_graph(written)):
        assert graph_def(again) == written
        assert again.tensor_shape == graph.tensor_shape
        assert again.edge_tensor.tolist() == graph.edge_tensor.tolist()


@given(graphs())
def test_the_text_is_the_same_in_every_run(graph: Graph) -> None:
    assert to_text(graph_def(graph)) == to_text(graph_def(read_graph(graph_def(graph))))


def sample() -> Graph:
    made = Rows()
    made.add("a", "NoOp", device="/cpu:0")
    made.add("b", "NoOp", ["^a"])
    function = FunctionDef()
    function.signature.name = "f"
    return made.built(library={"f": function}, gradients={"f": "g"}, producer=24, min_consumer=12)


@pytest.mark.parametrize(
    ("shape", "said"), [((16, 8), True), ((16, -1), False), (None, False), ((32, 8), False), ((16,), False)]
)
def test_a_shape_of_the_file_is_written_if_its_tensor_has_it(shape: Shape | None, said: bool) -> None:
    """With another batch it has another one, or an unknown one of which TensorFlow's rules may know more."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (16, 8)))
    graph = replace(made.built(), tensor_shape=(shape,))
    assert ("_output_shapes" in graph_def(graph).node[0].attr) == said


def test_library_and_versions_are_written() -> None:
    written = graph_def(sample())
    assert written.versions.producer == 24
    assert written.versions.min_consumer == 12
    assert [function.signature.name for function in written.library.function] == ["f"]
    assert [(found.function_name, found.gradient_func) for found in written.library.gradient] == [("f", "g")]


def test_given_devices_replace_the_requested_ones() -> None:
    written = graph_def(sample(), devices=["/gpu:0", "/gpu:1"])
    assert [node.device for node in written.node] == ["/gpu:0", "/gpu:1"]


def test_one_device_per_node() -> None:
    with pytest.raises(GraphError, match="1 devices for 2 nodes"):
        graph_def(sample(), devices=["/gpu:0"])
