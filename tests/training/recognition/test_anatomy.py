"""Values that come to a node, through loops, too."""

from __future__ import annotations

from simulator.training.recognition.anatomy import _behind
from tests.strategies import Rows, type_attr


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
