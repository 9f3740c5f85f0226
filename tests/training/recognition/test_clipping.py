"""Gradients where the backward pass hands them out, before what is no linear function of them."""

from __future__ import annotations

from simulator.training.recognition.anatomy import anatomy
from simulator.training.recognition.captured import with_variables
from simulator.training.recognition.clipping import as_computed
from tests.strategies import Rows, shape_attr, shapes_attr, type_attr, typed
from tests.training.recognition.test_captured import assign, read

RESOURCE = 20


def test_a_gradient_that_stays_where_it_is_keeps_its_readers_though_another_moves() -> None:
    """Replicas updated by their own gradient in part, as those of T5 by Adafactor, and went apart."""
    made, sized = Rows(), {"T": type_attr(), "_output_shapes": shapes_attr((4, 4))}
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr((4, 4)))
    made.add("ids", "Placeholder", dtype=type_attr(3), shape=shape_attr(4), _output_shapes=shapes_attr((4,)))
    for name in ("w", "v", "m"):
        made.add(name, "Placeholder", dtype=type_attr(RESOURCE), shape=shape_attr())
        read(made, f"{name}/read", name, shape=(4, 4))
    made.add("y", "MatMul", ["x", "w/read"], **sized)
    made.add("w/g", "MatMul", ["x", "v/read"], **sized)
    assign(made, "m/update", "Add", "m", "w/g")
    read(made, "m/now", "m", "^m/update", shape=(4, 4))
    made.add("w/step", "RealDiv", ["w/g", "m/now"], **sized)
    assign(made, "w/update", "Sub", "w", "w/step")
    made.add("v/g", "MatMul", ["x", "y"], **sized)
    made.add("v/square", "Square", ["v/g"], **sized)
    made.add("axes", "Const", **typed("Const"))
    made.add("norm", "Max", ["v/square", "axes"], T=type_attr())
    made.add("v/step", "RealDiv", ["v/g", "norm"], **sized)
    kinds = {"dtype": type_attr(), "Tindices": type_attr(3)}
    made.add("v/update", "ResourceScatterSub", ["v", "ids", "v/step"], **kinds)
    made.add("train", "NoOp", ["^w/update", "^v/update"])
    graph = with_variables(made.built())
    found = as_computed(graph, anatomy(graph, fetches=["train"]))
    ends = {
        graph.names[one.variable]: {(graph.names[graph.edge_src[at]], graph.names[graph.edge_dst[at]]) for at in edges}
        for one in found.gradients
        for edges in [one.values]
    }
    assert ends == {
        "w": {("w/g", "m/update"), ("w/g", "w/step")},
        "v": {("v/g", "v/step"), ("v/g", "v/square")},
    }
