from collections.abc import Sequence
from dataclasses import replace

import pytest

from simulator.graph.messages import AttrValue
from simulator.graph.purposes import apply_nodes, computes
from tests.strategies import Rows, type_attr, typed


def float_node(made: Rows, name: str, op: str, inputs: Sequence[str] = ()) -> str:
    return made.add(name, op, inputs, **typed(op, ()))


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("ApplyAdam", True),
        ("ResourceApplyMomentum", True),
        ("SparseApplyAdagrad", True),
        ("ResourceSparseApplyFtrlV2", True),
        ("AccumulatorApplyGradient", False),
        ("Apply", False),
        ("MapApply", False),
    ],
)
def test_apply_ops(op: str, expected: bool) -> None:
    made = Rows()
    made.ops, made.names, made.requested, made.inputs, made.attrs = ["NoOp"], ["a"], [""], [[]], [{}]
    graph = replace(made.built(), ops=(op,))
    assert bool(apply_nodes(graph)) == expected


def test_an_assignment_from_the_variable_itself_computes() -> None:
    made = Rows()
    float_node(made, "v", "VariableV2")
    float_node(made, "next", "Neg", ["v"])
    made.add("v/Assign", "Assign", ["v", "next"], T=type_attr())
    graph = made.built()
    assert computes(graph, [2]) == [2]


def test_an_assignment_from_what_comes_in_computes() -> None:
    made = Rows()
    float_node(made, "v", "VariableV2")
    float_node(made, "x", "Placeholder")
    made.add("v/Assign", "Assign", ["v", "x"], T=type_attr())
    assert computes(made.built(), [2]) == [2]


def test_a_group_is_there_for_what_it_groups() -> None:
    made = Rows()
    float_node(made, "v", "VariableV2")
    float_node(made, "first", "Const")
    float_node(made, "x", "Placeholder")
    float_node(made, "work", "Neg", ["x"])
    made.add("v/Assign", "Assign", ["v", "first"], T=type_attr())
    made.add("init", "NoOp", ["^v/Assign"])
    made.add("both", "NoOp", ["^v/Assign", "^work"])
    made.add("nothing", "NoOp")
    made.add("again", "Identity", ["first", "^init"], T=type_attr())
    graph = made.built()
    assert [graph.names[row] for row in computes(graph, list(range(len(graph))))] == ["work", "both"]


def test_a_ready_check_of_the_input_is_part_of_the_computation() -> None:
    made = Rows()
    float_node(made, "x", "Placeholder")
    float_node(made, "v", "VariableV2")
    made.add("ready", "IsVariableInitialized", ["v"], dtype=type_attr())
    float_node(made, "out", "Neg", ["x"])
    made.inputs[-1].append("^ready")
    made.add("names", "Pack", ["ready"], T=type_attr(10), N=AttrValue(i=1))
    graph = made.built()
    assert [graph.names[row] for row in computes(graph, [3, 4])] == ["out"]
