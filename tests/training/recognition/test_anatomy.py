"""The global step among several counters, and values that come to a node, through loops, too."""

from __future__ import annotations

import pytest

from simulator.training.recognition.anatomy import _behind, anatomy
from tests.strategies import Rows, shape_attr, shapes_attr, type_attr
from tests.training.recognition.test_captured import INT64, assign, read


def test_what_a_loop_only_reads_comes_out_of_the_sum_that_it_begins_with_nothing() -> None:
    """The sum and the counter begin as constants, so nothing comes to their Merges in the first round."""
    made, number = Rows(), {"T": type_attr()}
    made.add("x", "Placeholder", dtype=type_attr())
    made.add("zero", "Const", dtype=type_attr())
    made.add("go", "Const", dtype=type_attr(10))
    made.add("into", "Enter", ["zero"], **number)
    made.add("read", "Enter", ["x"], **number)
    made.add("merge", "Merge", ["into", "next"], **number)
    made.add("cond", "LoopCond", ["go"])
    made.add("switch", "Switch", ["merge", "cond"], **number)
    made.add("add", "AddV2", ["switch:1", "read"], **number)
    made.add("next", "NextIteration", ["add"], **number)
    made.add("out", "Exit", ["switch"], **number)
    graph = made.built()
    found = _behind(graph, [0] * len(graph))
    assert found[graph.index["out"]] == found[graph.index["x"]] == 1
    assert found[graph.index["zero"]] == 0


@pytest.mark.parametrize(
    ("read_by", "step"), [("the update", "iterations"), ("the model", "iterations"), ("nothing", "epoch")]
)
def test_the_global_step_is_the_counter_of_the_update_and_not_one_of_the_model(read_by: str, step: str) -> None:
    """It was the first in the file: then a step counter of a curriculum was added to by workers and the chief."""
    made, sizes = Rows(), {"_output_shapes": shapes_attr((4, 4))}
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 4), **sizes)
    for name in ("epoch", "iterations"):
        number = {"dtype": type_attr(INT64), "shape": shape_attr(), "_output_shapes": shapes_attr(())}
        made.add(name, "VarHandleOp", **number)
        made.add(f"{name}/one", "Const", dtype=type_attr(INT64))
        assign(made, f"{name}/count", "Add", name, f"{name}/one", dtype=INT64)
        read(made, f"{name}/read", name, f"^{name}/count", dtype=INT64)
        made.add(f"{name}/rate", "Cast", [f"{name}/read"], SrcT=type_attr(INT64), DstT=type_attr())
    made.add("w", "VarHandleOp", dtype=type_attr(), shape=shape_attr(4, 4), _output_shapes=shapes_attr(()))
    read(made, "w/read", "w", shape=(4, 4))
    noisy = made.add("noisy", "Mul", ["x", "epoch/rate"], T=type_attr(), **sizes) if read_by == "the model" else "x"
    made.add("y", "MatMul", [noisy, "w/read"], T=type_attr(), **sizes)
    made.add("g", "MatMul", ["x", "y"], T=type_attr(), **sizes)
    scaled = ["g", "iterations/rate"] if read_by == "the update" else ["g", "g"]
    made.add("change", "Mul", scaled, T=type_attr(), **sizes)
    assign(made, "w/update", "Sub", "w", "change")
    made.add("loss", "Neg", ["y"], T=type_attr(), **sizes)
    graph = made.built()
    found = anatomy(graph)
    assert found.global_step == graph.row(step)
    assert found.counts == (graph.row(f"{step}/count"),)
