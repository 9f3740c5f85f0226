"""Outputs that are written over an input, worked by hand: 100 bytes each, by both engines, for a plan and its trace."""

from __future__ import annotations

from simulator.execution.simulate import simulate
from simulator.graph.messages import AttrValue
from simulator.partitioning.cut import partition
from tests.execution.cases import apart, assigned, costs, whole
from tests.execution.test_engine import story
from tests.execution.test_memory import curve
from tests.execution.test_stored import number, peak
from tests.strategies import INT32, Rows, shapes_attr, type_attr, typed

FED = 100  # x, which the client keeps


def peak_of(*nodes: str) -> int:
    return peak(story("x = Placeholder", *nodes).built())[0] - FED


def test_a_chain_is_written_over_its_first_buffer() -> None:
    assert peak_of("a = Exp x") == 100  # over x it may not be
    assert peak_of("a = Exp x", "b = Tanh a", "c = Neg b", "d = Sqrt c") == 100


def test_what_somebody_else_still_needs_is_not_written_over() -> None:
    assert peak_of("a = Exp x", "b = Tanh a", "c = Neg a ^b", "d = AddN b c") == 200  # c over a, d over b
    assert peak_of("a = Exp x", "b = Tanh a", "c = Neg b", "d = AddN a c") == 200
    assert peak_of("a = Exp x", "b = Tanh a", "c = Sin a ^b", "d = Cos a ^c", "e = AddN b c d") == 300


def test_a_reader_that_runs_at_the_same_time_needs_it() -> None:
    graph = story("x = Placeholder", "a = Exp x", "b = Tanh a", "c = Neg a").built()
    for lanes, most in ((1, 300), (2, 400)):  # x, a and b; two threads make b and c of a at once
        on = apart(1, lanes=lanes)
        pieces = partition(graph, assigned(on, [0] * 4), on, legal=False, step=whole(graph))
        assert simulate(pieces, on, costs(graph, on, 10)).peak_bytes.tolist() == [most]


def test_an_input_that_is_read_twice_is_not_written_over() -> None:
    assert peak_of("a = Exp x", "b = Mul a a") == 200
    assert peak_of("a = Exp x", "b = Mul a x") == peak_of("a = Exp x", "b = Mul x a") == 100


def test_other_types_and_kernels_take_a_buffer_of_their_own() -> None:
    assert peak_of("a = Exp x", "b = Less a x") == 125  # of bools
    made = story("x = Placeholder", "a = Exp x")
    number(made, "axis")
    kinds = {"T": type_attr(), "Tidx": type_attr(INT32)}
    made.add("b", "Cumsum", ["a", "axis"], **kinds, _output_shapes=shapes_attr((25,)))
    assert peak(made.built())[0] - FED == 200


def test_a_view_keeps_it() -> None:
    assert peak_of("a = Exp x", "v = Identity a", "b = Tanh a", "c = Neg v ^b", "d = AddN b c") == 200
    assert peak_of("a = Exp x", "v = Identity a", "b = Tanh v") == 100


def test_variables_are_not_written_over() -> None:
    draft = Rows()
    draft.add("v", "VariableV2", **typed("VariableV2", (25,)))
    draft.add("read", "Identity", ["v"], **typed("Identity", (25,)))
    draft.add("a", "Neg", ["read"], **typed("Neg", (25,)))
    draft.add("b", "Neg", ["a"], **typed("Neg", (25,)))
    assert peak(draft.built()) == [100]


def test_an_output_that_nobody_reads_takes_no_scratch_then() -> None:
    """The gradient that a loss of an evaluation leaves behind lies where its logits did."""
    draft = Rows()
    draft.add("x", "Placeholder", **typed("Placeholder", (5, 5)))
    draft.add("a", "Exp", ["x"], **typed("Exp", (5, 5)))
    draft.add("y", "Placeholder", dtype=type_attr(INT32), shape=AttrValue(), _output_shapes=shapes_attr((5,)))
    shapes = {"_output_shapes": shapes_attr((5,), (5, 5))}
    draft.add(
        "loss", "SparseSoftmaxCrossEntropyWithLogits", ["a", "y"], T=type_attr(), Tlabels=type_attr(INT32), **shapes
    )
    draft.add("end", "Neg", ["loss"], **typed("Neg", (5,)))
    assert peak(draft.built()) == [100 + 20 + 100 + 20]  # x and y, a and the gradient, the loss and its negative


def test_a_copy_is_written_over_where_it_arrived() -> None:
    graph, on = story("x = Placeholder", "a = Exp x", "b = Neg a", "c = Neg b").built(), apart(2)
    assert peak(graph, 2, [0, 0, 1, 1]) == [200, 100]
    pieces = partition(graph, assigned(on, [0, 0, 1, 1]), on, legal=False, step=whole(graph))
    trace = simulate(pieces, on, costs(graph, on, 10))
    assert curve(trace, 1) == [(10, 100), (230, 0)]  # from the first byte until c has ended
