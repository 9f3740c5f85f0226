"""Programs for XLA: the shapes that they list, with the batch of their arguments, and no others than in the file."""

from __future__ import annotations

import pytest

from simulator import choose_step
from simulator.cluster.description import load_cluster
from simulator.costs.estimate import estimate
from simulator.errors import GraphError
from simulator.graph.graph import Graph, Shape
from simulator.graph.messages import AttrValue
from simulator.shapes.filling import with_shapes
from simulator.shapes.unknown import unsized_of
from tests.strategies import Rows, shape_attr, shapes_attr, type_attr


def called(argument: Shape, *outputs: Shape) -> Graph:
    """A program on one placeholder, whose first output is read."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(*argument), _output_shapes=shapes_attr(argument))
    types = AttrValue()
    types.list.type.extend([1] * len(outputs))
    made.add("net", "XlaCallModule", ["x"], Sout=shapes_attr(*outputs), Tout=types)
    made.add("read", "Relu", ["net"], T=type_attr())
    return made.built(producer=1882)


@pytest.mark.parametrize(("batch", "rows"), [(None, 1), (6, 6)])
def test_an_open_number_of_rows_of_a_program_is_the_batch_of_its_arguments(batch: int | None, rows: int) -> None:
    graph = with_shapes(called((-1, 784), (-1, 10), ()), batch=batch)
    made = [graph.tensor_shape[row] for name in ("net", "read") for row in graph.outputs(graph.row(name))]
    assert made == [(rows, 10), (), (rows, 10)]
    assert f"batch {rows} is the unknown first dimension of x:0, net:0" in graph.notes


def test_nothing_is_guessed_of_a_program_whose_arguments_have_no_open_batch() -> None:
    graph = with_shapes(called((8, 784), (-1, 10)))
    assert graph.tensor_shape[graph.tensor_ptr[graph.row("net")]] == (-1, 10)
    assert unsized_of(graph, choose_step(graph)).remedy == "--observe"  # a feed would take the program's place


@pytest.mark.parametrize("outputs", [[(32, 10)], [(), (784, 10)]])
def test_a_program_takes_no_batch_and_no_feed_but_that_of_the_file(outputs: list[Shape]) -> None:
    source = called((32, 784), *outputs)
    for asked in ({"batch": 64}, {"feeds": {"x": (64, 784)}}):
        with pytest.raises(GraphError, match="compiled for 32,784 of 'x:0', and takes no 64,784"):
            with_shapes(source, **asked)
    same = with_shapes(source, batch=32)
    assert same.tensor_shape[same.tensor_ptr[same.row("net")]] == outputs[0]
    assert with_shapes(called((-1, 784), *outputs), batch=64)  # its gradients have no rows, and it takes any


def test_only_the_call_of_a_program_is_priced_and_a_note_says_so() -> None:
    graph = with_shapes(called((-1, 784), (-1, 10)), batch=8)
    notes = estimate(graph, load_cluster("1gpu")).notes
    assert any(note.startswith("no op of the graph does the work of XlaCallModule 1") for note in notes)
