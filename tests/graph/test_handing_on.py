"""Ops that hand an input on, whatever its shape. Those that need shapes are held against TensorFlow."""

import pytest

from simulator.graph.graph import Attrs, Shape
from simulator.graph.handing_on import COPIED, NONE, handed_on
from simulator.graph.messages import AttrValue
from tests.strategies import INT32, Rows, shape_attr, shapes_attr, type_attr, types_attr

HALF = 19


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "handed"),
    [
        ("AddN", ["x"], {"T": type_attr(), "N": AttrValue(i=1)}, 0),
        ("AddN", ["x", "x"], {"T": type_attr(), "N": AttrValue(i=2)}, NONE),
        ("Pack", ["x"], {"T": type_attr(), "N": AttrValue(i=1)}, 0),
        ("Cast", ["x"], {"SrcT": type_attr(), "DstT": type_attr()}, 0),
        ("Cast", ["x"], {"SrcT": type_attr(), "DstT": type_attr(HALF)}, NONE),
        ("Split", ["axis", "x"], {"T": type_attr(), "num_split": AttrValue(i=1)}, 1),
        ("Split", ["axis", "x"], {"T": type_attr(), "num_split": AttrValue(i=2)}, NONE),
    ],
)
def test_what_needs_no_shape_is_handed_on_without_one(op: str, inputs: list[str], attrs: Attrs, handed: int) -> None:
    """An input that comes from a program of Python has no shape."""
    made = Rows()
    made.add("axis", "Const", dtype=type_attr(INT32), shape=shape_attr())
    made.add("x", "PyFunc", Tin=types_attr(), Tout=types_attr(1))
    made.add("y", op, inputs, **attrs)
    graph = made.built()
    assert handed_on(graph)[graph.index["y"]] == handed


@pytest.mark.parametrize(
    ("op", "second", "taken", "given", "handed"),
    [
        ("Sum", (0,), (2, -1), (2, -1), 0),  # over no axes
        ("Sum", (-1,), (2, -1), (-1, -1), 0),  # perhaps over none
        ("Sum", None, None, None, 0),
        ("Sum", (-1,), (2, -1), (-1,), NONE),
        ("Sum", (-1,), (2, 3), (1, 3), NONE),
        ("Sum", (1,), (2, -1), (2, 1), NONE),
        ("Sum", (1,), (1, -1, 32), (1, -1, 32), 0),  # over one element
        ("Sum", (2,), (-1, -1), (1, 1), NONE),
        ("Transpose", (3,), (2, -1, 32), (2, -1, 32), 0),
        ("Transpose", (3,), (2, -1, 32), (-1, 2, 32), NONE),
        ("Transpose", (3,), (-1, -1, 32), (-1, -1, 32), 0),
        ("Transpose", (4,), (-1, 32, 32, -1), (-1, 32, 32, -1), NONE),
    ],
)
def test_shapes_that_are_known_in_part_tell_what_is_handed_on(
    op: str, second: Shape | None, taken: Shape | None, given: Shape | None, handed: int
) -> None:
    """With sizes the step took less than the lower bound that it had without them."""
    made = Rows()
    for name, shape in (("x", taken), ("second", second)):
        known = {} if shape is None else {"_output_shapes": shapes_attr(shape)}
        made.add(name, "PyFunc", Tin=types_attr(), Tout=types_attr(INT32 if name == "second" else 1), **known)
    kinds = {"Tidx": type_attr(INT32)} if op == "Sum" else {"Tperm": type_attr(INT32)}
    shaped = {} if given is None else {"_output_shapes": shapes_attr(given)}
    made.add("y", op, ["x", "second"], T=type_attr(), **kinds, **shaped)
    graph = made.built()
    assert handed_on(graph)[graph.index["y"]] == handed


def test_reads_of_a_variable_that_is_taken_by_rows_are_copies_by_whatever_handle() -> None:
    made = Rows()
    for name, shared in (("rows", b"table"), ("whole", b"other"), ("again", b"table")):
        made.add(name, "VarHandleOp", dtype=type_attr(), shape=shape_attr(8, 4), shared_name=AttrValue(s=shared))
    made.add("loop", "Enter", ["rows"], T=type_attr(20), frame_name=AttrValue(s=b"loop"))
    made.add("indices", "Const", dtype=type_attr(INT32), shape=shape_attr())
    made.add("gathered", "ResourceGather", ["loop", "indices"], dtype=type_attr(), Tindices=type_attr(INT32))
    for name in ("rows", "whole", "again"):
        made.add(f"read_{name}", "ReadVariableOp", [name], dtype=type_attr())
    graph = made.built()
    found = handed_on(graph)
    assert [int(found[graph.index[f"read_{name}"]]) for name in ("rows", "whole", "again")] == [COPIED, NONE, COPIED]


def test_a_handle_from_outside_is_one_variable_and_two_without_names_are_two() -> None:
    made = Rows()
    made.add("captured", "Placeholder", dtype=type_attr(20), shape=shape_attr())
    for name in ("one", "other"):
        made.add(name, "VarHandleOp", dtype=type_attr(), shape=shape_attr(8, 4), container=AttrValue(s=b"same"))
    made.add("indices", "Const", dtype=type_attr(INT32), shape=shape_attr())
    for name in ("captured", "one"):
        made.add(f"by_{name}", "ResourceGather", [name, "indices"], dtype=type_attr(), Tindices=type_attr(INT32))
    for name in ("captured", "one", "other"):
        made.add(f"read_{name}", "ReadVariableOp", [name], dtype=type_attr())
    graph = made.built()
    found = [int(handed_on(graph)[graph.index[f"read_{name}"]]) for name in ("captured", "one", "other")]
    assert found == [COPIED, COPIED, NONE]
