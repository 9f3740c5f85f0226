"""What TensorFlow makes of a graph with calls before it places it, where it leaves calls alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulator.graph.graph import Graph
from simulator.graph.inlining.expanding import inline, lower
from simulator.graph.messages import AttrValue
from simulator.graph.step import choose_step
from simulator.laws import graph_laws
from tests.graph.inlining.functional import FLOAT, T, call, calls, conditional, function, graph
from tests.graph.inlining.test_inlining import DOUBLE, P, X, a_loop
from tests.strategies import type_attr

ON = {"_lower_using_switch_merge": AttrValue(b=True)}
MARKED = {"_lower_as_multi_device_function": AttrValue(b=True)}
RESOURCE = 20


def branches(*functions: Any, then: str = "double", **attrs: Any) -> Graph:
    nodes = [P, X, ("c", "StatelessIf", ["p", "x"], {**conditional(then, "double", 1), **ON, **attrs})]
    return graph([*nodes, ("y", "Neg", ["c"], T)], [DOUBLE, *functions])


def rows(made: Graph) -> list[tuple[str, ...]]:
    return [(node.name, node.op, *node.inputs) for node in made.nodes()]


def in_order(made: Graph) -> list[tuple[str, str]]:
    """The edges in the order in which TensorFlow makes them, as (source, destination)."""
    order = np.argsort(made.creation.edge)
    return [(made.names[made.edge_src[edge]], made.names[made.edge_dst[edge]]) for edge in order]


@pytest.mark.parametrize("attrs", [{}, {"f": calls("gone")}])
def test_calls_stay_on_purpose_and_nothing_else_changes(attrs: Mapping[str, Any]) -> None:
    made = graph([X, ("c", "PartitionedCall", ["x"], {**call("double", 1), **attrs})], [DOUBLE])
    assert lower(made).names == made.names
    assert lower(made).keeps_calls


def test_a_conditional_that_does_not_ask_for_it_is_not_lowered() -> None:
    made = graph([P, X, ("c", "StatelessIf", ["p", "x"], conditional("double", "double", 1))], [DOUBLE])
    assert lower(made).names == made.names


@pytest.mark.parametrize("key", ["_xla_compile_id", "_tpu_replicate"])
def test_what_is_left_to_xla_is_not_lowered(key: str) -> None:
    made = branches(**{key: AttrValue(s=b"cluster")})
    assert lower(made).names == made.names


def test_branches_are_inlined_and_calls_within_them_are_not() -> None:
    nodes = [("inner", "PartitionedCall", ["a"], call("double", 1))]
    made = lower(branches(function("f", ["a"], nodes, ["inner:output:0"]), then="f"))
    assert made.node("c/then/_0/inner").op == "PartitionedCall"
    assert made.node("c/else/_1/sum").op == "AddV2"
    assert made.node("c").op == "IdentityN"
    assert made.notes == ("Expanded 1 conditional into its body.",)
    assert [*made.library] == ["double", "f"]
    assert not graph_laws(made)


def test_the_given_graph_is_kept_for_tensorflow() -> None:
    given = branches()
    made = lower(given).lowered
    assert made is not None
    assert made.given is given
    assert lower(inline(given)).lowered is None


@pytest.mark.parametrize("attribute", [{"_noinline": AttrValue(b=True)}, {"api_implements": AttrValue(s=b"lstm")}])
def test_a_branch_that_may_not_be_inlined_stays_a_call_by_its_function(attribute: Mapping[str, Any]) -> None:
    whole = function("whole", ["a"], [("n", "Neg", ["a"], T)], ["n:y:0"])
    for key, value in attribute.items():
        whole.attr[key].CopyFrom(value)
    made = lower(branches(whole, then="whole"))
    assert made.node("c/then/_0").op == "whole"
    assert made.node("c/else/_1").op == "IdentityN"


def test_a_call_that_is_marked_is_inlined_over_many_devices() -> None:
    nodes = [X, ("c", "double", ["x"], MARKED, "/cpu:1"), ("d", "double", ["x"], {}, "/cpu:1")]
    made = lower(graph(nodes, [DOUBLE]))
    assert made.node("c/sum").requested == "/cpu:1"
    assert made.node("Func/c/output/_1").requested == ""
    assert made.node("d").op == "double"


def test_nodes_are_numbered_as_they_were_made_and_values_come_before_their_readers() -> None:
    made = lower(branches())
    ids = [made.names[row] for row in made.order]
    assert ids[:5] == ["p", "x", "y", "c/switch_pred/_2", "c/pivot_f/_3"]
    assert ids.index("y") < ids.index("c/output/_6")
    later = [made.names[row] for row in made.topological]
    assert later.index("c/output/_6") < later.index("y")


def test_edges_are_made_in_the_order_of_the_rewriting() -> None:
    edges = in_order(lower(branches()))
    assert edges[:4] == [("p", "c/switch_pred/_2")] * 2 + [
        ("c/switch_pred/_2", "c/pivot_f/_3"),
        ("c/switch_pred/_2", "c/pivot_t/_4"),
    ]
    read = edges.index(("c/output/_6", "y"))
    assert edges.index(("c/output/_6", "c")) < read < edges.index(("c/x/_5", "Func/c/then/_0/input/_9"))


def test_a_node_that_was_made_later_has_no_edge_to_the_sink() -> None:
    made = lower(branches())
    last = [made.names[row] for row in np.flatnonzero(made.creation.sink >= 0)]
    assert last == ["y"]
    assert [made.names[row] for row in np.flatnonzero(made.creation.source >= 0)] == ["p", "x"]


def test_as_it_stands_a_lowered_graph_is_numbered_anew() -> None:
    made = lower(branches())
    again = made.imported()
    assert again.order.tolist() == again.topological.tolist() == made.topological.tolist()
    assert again.lowered is None
    assert branches().imported().lowered is None


def test_fetches_by_the_names_of_the_file_stay_valid() -> None:
    assert choose_step(lower(branches()), fetches=["c:0"]).fetches == ("c:0",)
    assert choose_step(lower(branches())).fetches == ("y:0",)


@pytest.mark.parametrize("asks", [True, False])
def test_a_loop_becomes_a_frame_if_it_asks_for_it(asks: bool) -> None:
    given = a_loop()
    attrs = [{**kept, "_lower_using_switch_merge": AttrValue(b=asks)} for kept in given.attrs]
    made = lower(replace(given, attrs=tuple(attrs)))
    assert {"Enter", "LoopCond", "NextIteration", "Exit"}.isdisjoint(made.ops) != asks
    assert not graph_laws(made)


def stack(*inputs: str, controls: Sequence[str] = ()) -> tuple[str, str, list[str], dict[str, Any]]:
    shape = AttrValue()
    shape.shape.dim.add(size=len(inputs))
    return ("stack", "ParallelConcat", [*inputs, *controls], {**T, "N": AttrValue(i=len(inputs)), "shape": shape})


def test_a_parallel_concatenation_writes_into_an_empty_tensor() -> None:
    given = [X, ("w", "NoOp", [], {}), stack("x", "x", controls=["^w"]), ("y", "Neg", ["stack"], T)]
    assert rows(lower(graph(given)))[2:] == [
        ("y", "Neg", "stack"),
        ("stack/Internal/_0", "_ParallelConcatStart", "^w"),
        ("stack/Internal/_1", "_ParallelConcatUpdate", "stack/Internal/_0", "x"),
        ("stack/Internal/_2", "_ParallelConcatUpdate", "stack/Internal/_0", "x"),
        ("stack", "Identity", "stack/Internal/_0", "^stack/Internal/_1", "^stack/Internal/_2"),
    ]


def total(*inputs: str) -> tuple[str, str, list[str], dict[str, Any]]:
    return ("total", "AccumulateNV2", list(inputs), {**T, "N": AttrValue(i=len(inputs)), "shape": AttrValue(shape={})})


def test_an_accumulation_adds_to_a_temporary_variable() -> None:
    made = lower(graph([X, total("x", "x"), ("y", "Neg", ["total"], T)]))
    assert [row[1] for row in rows(made)[2:]] == [
        "TemporaryVariable",
        "Shape",
        "Const",
        "Fill",
        "Assign",
        "AssignAdd",
        "AssignAdd",
        "DestroyTemporaryVariable",
    ]
    assert made.node("total").inputs == ("total/Internal/_4", "^total/Internal/_5", "^total/Internal/_6")
    assert made.node("y").inputs == ("total",)


@pytest.mark.parametrize(("parallel", "op"), [(10, "AddN"), (1, "DestroyTemporaryVariable")])
def test_in_a_loop_whose_iterations_overlap_it_is_a_sum(parallel: int, op: str) -> None:
    frame = {**T, "frame_name": AttrValue(s=b"w"), "parallel_iterations": AttrValue(i=parallel)}
    given = [X, ("e", "Enter", ["x"], frame), total("e", "e"), ("y", "Exit", ["total"], T)]
    assert lower(graph(given)).node("total").op == op


def test_a_call_that_hands_back_a_resource_is_isolated() -> None:
    made = function("handle", ["a"], [("v", "VarHandleOp", [], {"dtype": type_attr(FLOAT)})], ["v:resource:0", "a"])
    made.signature.output_arg[0].type = RESOURCE
    attrs = call("handle", 1)
    attrs["Tout"] = AttrValue(list={"type": [RESOURCE, FLOAT]})
    reading = ("r", "ReadVariableOp", ["c"], {"dtype": type_attr(FLOAT)})
    lowered = lower(
        graph([X, ("c", "StatefulPartitionedCall", ["x"], attrs), reading, ("n", "NoOp", ["^c"], {})], [made])
    )
    assert rows(lowered) == [
        ("x", "Placeholder"),
        ("c", "StatefulPartitionedCall", "x_c"),
        ("r", "ReadVariableOp", "c_r"),
        ("n", "NoOp", "^c"),
        ("x_c", "Identity", "x"),
        ("c_r", "Identity", "c"),
        ("c_0", "Identity", "c:1"),
    ]
    assert lowered.node("c_r").attrs["T"].type == RESOURCE
