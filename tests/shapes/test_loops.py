"""Sizes that hang on how often a loop runs, or on the side of a branch that is always taken."""

from __future__ import annotations

from operator import eq, ge, gt, le, lt, ne

import pytest

from simulator.graph.graph import Graph, Shape
from simulator.graph.messages import AttrValue
from simulator.shapes.filling import with_shapes
from simulator.shapes.variables import iterations
from tests.shapes.test_rules import FLOAT, INT32, number, scalar, vector
from tests.shapes.test_values import LIST, VARIANT, shape_of
from tests.strategies import Rows, shape_attr, type_attr

BOOL, RESOURCE = 10, 20


class Loop:
    """A while loop with a counter `i`, as TensorFlow lowers one; other variables are added to it."""

    def __init__(self, made: Rows, name: str = "loop") -> None:
        self.made, self.name = made, name

    def constant(self, name: str, value: AttrValue) -> str:
        self.made.add(f"{self.name}/{name}", "Const", dtype=type_attr(INT32), value=value)
        return f"{self.name}/{name}"

    def variable(self, name: str, start: str, back: str, dtype: int = INT32) -> None:
        """Enter to Exit of a variable, which the body's node `back` gives anew."""
        at = f"{self.name}/{name}"
        frame = AttrValue(s=self.name.encode())
        self.made.add(f"{at}/enter", "Enter", [start], T=type_attr(dtype), frame_name=frame)
        self.made.add(at, "Merge", [f"{at}/enter", f"{at}/next"], T=type_attr(dtype), N=number(2))
        self.made.add(f"{at}/switch", "Switch", [at, f"{self.name}/cond"], T=type_attr(dtype))
        self.made.add(f"{at}/next", "NextIteration", [back], T=type_attr(dtype))
        self.made.add(f"{at}/exit", "Exit", [f"{at}/switch"], T=type_attr(dtype))

    def inside(self, name: str) -> str:
        return f"{self.name}/{name}/switch:1"

    def runs_while(self, op: str, start: int, limit: int, step: int, also: str = "") -> None:
        """The condition `i op limit`, and perhaps another one; `i` begins at `start` and grows by `step`."""
        self.constant("limit", scalar(limit))
        self.constant("step", scalar(step))
        self.variable("i", self.constant("start", scalar(start)), f"{self.name}/more")
        self.made.add(f"{self.name}/more", "AddV2", [self.inside("i"), f"{self.name}/step"], T=type_attr(INT32))
        self.made.add(f"{self.name}/within", op, [f"{self.name}/i", f"{self.name}/limit"], T=type_attr(INT32))
        if also:
            self.made.add(f"{self.name}/both", "LogicalAnd", [f"{self.name}/within", also])
        self.made.add(f"{self.name}/cond", "LoopCond", [f"{self.name}/{'both' if also else 'within'}"])


def built(made: Rows, *ends: str) -> Graph:
    for at, end in enumerate(ends):
        made.add(f"end{at}", "Identity", [end], T=type_attr())
    return with_shapes(made.built(producer=1882))


@pytest.mark.parametrize(
    ("op", "start", "limit", "step", "rows"),
    [
        ("Less", 0, 5, 1, 1 + 5),
        ("LessEqual", 1, 9, 2, 1 + 5),
        ("Greater", 8, 0, -3, 1 + 3),
        ("NotEqual", 6, 0, -2, 1 + 3),
        ("Less", 7, 5, 1, 1),
        ("Less", 0, 5, -1, -1),
    ],
)
def test_a_tensor_that_grows_in_a_loop_has_a_size_when_it_ends(
    op: str, start: int, limit: int, step: int, rows: int
) -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(1, 6))
    loop = Loop(made)
    loop.runs_while(op, start, limit, step)
    loop.variable("y", "x", "longer", FLOAT)
    made.add(
        "longer", "ConcatV2", [loop.inside("y"), "x", loop.constant("axis", scalar(0))], T=type_attr(), N=number(2)
    )
    graph = built(made, "loop/y/exit", "longer")
    assert [shape_of(graph, name) for name in ("loop/y/exit", "loop/y/switch", "end0")] == [(rows, 6)] * 3
    assert shape_of(graph, "longer") == (-1, 6) if rows > 1 else True  # another one in each iteration


@pytest.mark.parametrize(
    ("op", "start", "limit", "by", "rows"),
    [("Mul", 1, 20, 2, 5), ("FloorDiv", 20, 0, 2, 5), ("Mul", 3, 3, 2, 0), ("Mul", 0, 1, 2, -1), ("Div", 20, 0, 2, -1)],
)
def test_a_counter_that_is_multiplied_or_divided_says_sizes_too(
    op: str, start: int, limit: int, by: int, rows: int
) -> None:
    """One tensor grows by a row in each iteration, the other doubles; a counter that stays 0 ends no loop."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(1, 6))
    loop = Loop(made)
    loop.runs_while("Less" if op == "Mul" else "Greater", start, limit, by)
    made.ops[made.names.index("loop/more")] = op
    axis = loop.constant("axis", scalar(0))
    for name, more in (("y", "x"), ("z", loop.inside("z"))):
        loop.variable(name, "x", f"longer_{name}", FLOAT)
        made.add(f"longer_{name}", "ConcatV2", [loop.inside(name), more, axis], T=type_attr(), N=number(2))
    graph = built(made, "loop/y/exit", "loop/z/exit")
    known = [(1 + rows, 6), (2**rows, 6)] if rows >= 0 else [(-1, 6)] * 2
    assert [shape_of(graph, name) for name in ("end0", "end1")] == known


def test_a_loop_that_data_may_end_leaves_an_unknown_size() -> None:
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(1, 6))
    made.add("go", "Placeholder", dtype=type_attr(BOOL), shape=shape_attr())
    loop = Loop(made)
    made.add(
        "loop/go", "Enter", ["go"], T=type_attr(BOOL), frame_name=AttrValue(s=b"loop"), is_constant=AttrValue(b=True)
    )
    loop.runs_while("Less", 0, 5, 1, also="loop/go")
    loop.variable("y", "x", "longer", FLOAT)
    made.add(
        "longer", "ConcatV2", [loop.inside("y"), "x", loop.constant("axis", scalar(0))], T=type_attr(), N=number(2)
    )
    assert shape_of(built(made, "loop/y/exit"), "end0") == (-1, 6)


def test_what_a_reader_asks_after_a_loop_holds_there_alone() -> None:
    """A product asks for 4 rows after the loop; in the loop there are fewer."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(1, 6))
    made.add("w", "Placeholder", dtype=type_attr(), shape=shape_attr(2, 4))
    made.add("go", "Placeholder", dtype=type_attr(BOOL), shape=shape_attr())
    loop = Loop(made)
    made.add(
        "loop/go", "Enter", ["go"], T=type_attr(BOOL), frame_name=AttrValue(s=b"loop"), is_constant=AttrValue(b=True)
    )
    loop.runs_while("Less", 0, 5, 1, also="loop/go")
    loop.variable("y", "x", "longer", FLOAT)
    made.add(
        "longer", "ConcatV2", [loop.inside("y"), "x", loop.constant("axis", scalar(0))], T=type_attr(), N=number(2)
    )
    made.add("product", "MatMul", ["w", "loop/y/exit"], T=type_attr())
    graph = built(made, "product")
    assert [shape_of(graph, name) for name in ("loop/y/exit", "longer")] == [(4, 6), (-1, 6)]


@pytest.mark.parametrize("written", ["at the counter", "at its end", "at the back"])
def test_a_list_that_grows_in_a_loop_is_as_long_as_the_loop_has_iterations(written: str) -> None:
    """As a TensorArray of dynamic size, which is stacked in the end."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(3, 6))
    made.add("any", "Const", dtype=type_attr(INT32), value=scalar(-1))
    made.add("none", "Const", dtype=type_attr(INT32), value=scalar(0))
    made.add("list", "TensorListReserve", ["any", "none"], **LIST)
    loop = Loop(made)
    loop.runs_while("Less", 0, 7, 1)
    loop.variable("ta", "list", "more", VARIANT)
    made.add("length", "TensorListLength", [loop.inside("ta")])
    at = {"at the counter": [loop.inside("i")], "at its end": ["length"], "at the back": []}[written]
    op = "TensorListSetItem" if at else "TensorListPushBack"
    grow = {"resize_if_index_out_of_bounds": AttrValue(b=True)} if at else {}
    made.add("more", op, [loop.inside("ta"), *at, "x"], element_dtype=type_attr(), **grow)
    made.add("stacked", "TensorListStack", ["loop/ta/exit", "any"], element_dtype=type_attr())
    assert shape_of(built(made, "stacked"), "stacked") == (7, 3, 6)


@pytest.mark.parametrize(("start", "trips", "branch", "length"), [(0, 6, False, 6), (9, 6, False, 9), (0, 6, True, -1)])
def test_an_array_of_tensorflow_1_is_as_long_as_its_last_place_says(
    start: int, trips: int, branch: bool, length: int
) -> None:
    """A TensorArray of dynamic size, which may be longer at first; a branch may leave out its last place."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(3, 6))
    made.add("go", "Placeholder", dtype=type_attr(BOOL), shape=shape_attr())
    made.add("size", "Const", dtype=type_attr(INT32), value=scalar(start))
    grows = AttrValue(b=True)
    made.add("array", "TensorArrayV3", ["size"], dtype=type_attr(), dynamic_size=grows, element_shape=shape_attr(3, 6))
    loop = Loop(made)
    loop.runs_while("Less", 0, trips, 1)
    for name, of, dtype in (("loop/array", "array", RESOURCE), ("loop/x", "x", FLOAT), ("loop/go", "go", BOOL)):
        frame = {"frame_name": AttrValue(s=b"loop"), "is_constant": AttrValue(b=True)}
        made.add(name, "Enter", [of], T=type_attr(dtype), **frame)
    made.add("maybe", "Switch", ["loop/x", "loop/go"], T=type_attr())
    made.add(
        "written",
        "TensorArrayWriteV3",
        ["loop/array", loop.inside("i"), "maybe:1" if branch else "loop/x", loop.inside("flow")],
        T=type_attr(),
    )
    made.add("back", "Merge", ["written", "maybe"], T=type_attr(), N=number(2))
    loop.variable("flow", "array:1", "back" if branch else "written", FLOAT)
    made.add("long", "TensorArraySizeV3", ["array", "loop/flow/exit"])
    made.add("none", "Const", dtype=type_attr(INT32), value=scalar(0))
    made.add("one", "Const", dtype=type_attr(INT32), value=scalar(1))
    made.add("places", "Range", ["none", "long", "one"], Tidx=type_attr(INT32))
    made.add("all", "TensorArrayGatherV3", ["array", "places", "loop/flow/exit"], dtype=type_attr())
    assert shape_of(built(made, "all"), "all") == (length, 3, 6)


def test_loops_in_loops_grow_as_often_as_both_run() -> None:
    """The inner loop begins each time with what the outer one has."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(1, 6))
    outer, inner = Loop(made, "outer"), Loop(made, "inner")
    outer.runs_while("Less", 0, 3, 1)
    outer.variable("y", "x", "inner/y/exit", FLOAT)
    inner.runs_while("Less", 0, 4, 1)
    inner.variable("y", outer.inside("y"), "longer", FLOAT)
    made.add("axis", "Const", dtype=type_attr(INT32), value=scalar(0))
    made.add("longer", "ConcatV2", [inner.inside("y"), "x", "axis"], T=type_attr(), N=number(2))
    assert shape_of(built(made, "outer/y/exit"), "end0") == (13, 6)


@pytest.mark.parametrize(("width", "taken"), [(12, 4), (11, -1)])
def test_a_slice_that_a_counter_moves_has_its_size_where_all_fit(width: int, taken: int) -> None:
    """As a step over minibatches takes `x[i * 4 : i * 4 + 4]` three times; of eleven rows the last part has three."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(width, 6))
    loop = Loop(made)
    loop.runs_while("Less", 0, 3, 1)
    four, one = loop.constant("4", scalar(4)), loop.constant("1", vector(1))
    made.add("begin", "Mul", [loop.inside("i"), four], T=type_attr(INT32))
    made.add("behind", "AddV2", ["begin", four], T=type_attr(INT32))
    for name, of in (("begins", "begin"), ("ends", "behind")):
        made.add(name, "Pack", [of], T=type_attr(INT32), N=number(1), axis=number(0))
    made.add("part", "StridedSlice", ["x", "begins", "ends", one], T=type_attr(), Index=type_attr(INT32))
    made.add("axes", "Const", dtype=type_attr(INT32), value=vector(0, 1))
    made.add("sum", "Sum", ["part", "axes"], T=type_attr(), Tidx=type_attr(INT32))
    made.add("zero", "Const", dtype=type_attr(), value=scalar(0))
    loop.variable("total", "zero", "added", FLOAT)
    made.add("added", "AddV2", [loop.inside("total"), "sum"], T=type_attr())
    assert shape_of(built(made, "loop/total/exit"), "part") == (taken, 6)


def test_an_array_that_begins_before_its_loop_has_the_examples_of_another_batch() -> None:
    """As `tf.scan` sets the first element, and its loop the others."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(4, 6))
    for name, value in (("any", scalar(-1)), ("row", vector(6)), ("none", scalar(0)), ("four", scalar(4))):
        made.add(name, "Const", dtype=type_attr(INT32), value=value)
    made.add("given", "TensorListFromTensor", ["x", "row"], **LIST)
    made.add("array", "TensorListReserve", ["row", "four"], **LIST)
    made.add("head", "TensorListGetItem", ["given", "none", "row"], element_dtype=type_attr())
    made.add("begun", "TensorListSetItem", ["array", "none", "head"], element_dtype=type_attr())
    loop = Loop(made)
    loop.runs_while("Less", 1, 4, 1)
    loop.variable("in", "given", loop.inside("in"), VARIANT)
    loop.variable("out", "begun", "set", VARIANT)
    made.add("one", "TensorListGetItem", [loop.inside("in"), loop.inside("i"), "row"], element_dtype=type_attr())
    made.add("set", "TensorListSetItem", [loop.inside("out"), loop.inside("i"), "one"], element_dtype=type_attr())
    made.add("all", "TensorListStack", ["loop/out/exit", "row"], element_dtype=type_attr(), num_elements=number(4))
    made.add("end", "Identity", ["all"], T=type_attr())
    assert shape_of(with_shapes(made.built(producer=1882), batch=7), "all") == (7, 6)


@pytest.mark.parametrize("way", [0, 1])
def test_a_branch_that_is_never_taken_has_no_part_in_a_shape(way: int) -> None:
    """As `tf.image.rot90` chooses by a constant; the other side would have another shape."""
    made = Rows()
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(3, 6))
    for name, value in (("two", scalar(2)), ("which", scalar(2 * way)), ("order", vector(1, 0))):
        made.add(name, "Const", dtype=type_attr(INT32), value=value)
    made.add("said", "Equal", ["which", "two"], T=type_attr(INT32))
    made.add("switch", "Switch", ["x", "said"], T=type_attr())
    made.add("turned", "Transpose", ["switch:1", "order"], T=type_attr(), Tperm=type_attr(INT32))
    made.add("merge", "Merge", ["switch", "turned"], T=type_attr(), N=number(2))
    shape: Shape = (6, 3) if way else (3, 6)
    assert shape_of(built(made, "merge"), "merge") == shape


def test_a_branch_that_is_never_taken_may_begin_with_a_control_edge() -> None:
    made = Rows()
    made.add("said", "Const", dtype=type_attr(BOOL), value=scalar(1))
    made.add("x", "Placeholder", dtype=type_attr(), shape=shape_attr(3, 6))
    made.add("switch", "Switch", ["x", "said"], T=type_attr())
    made.add("pivot", "Identity", ["switch"], T=type_attr())
    made.add("sides", "Const", dtype=type_attr(INT32), value=vector(9, 9))
    made.add("zero", "Const", dtype=type_attr(), value=scalar(0))
    made.add("other", "Fill", ["sides", "zero", "^pivot"], T=type_attr(), index_type=type_attr(INT32))
    made.add("merge", "Merge", ["other", "switch:1"], T=type_attr(), N=number(2))
    assert shape_of(built(made, "merge"), "merge") == (3, 6)


@pytest.mark.parametrize("handed", [False, True])
def test_a_branch_takes_what_the_same_branch_of_an_earlier_conditional_made(handed: bool) -> None:
    """As in the gradient of a conditional: each branch takes values that its own forward branch has kept."""
    made, boolean = Rows(), type_attr(BOOL)
    made.add("which", "Placeholder", dtype=boolean, shape=shape_attr())
    for name, rows in (("wide", 7), ("high", 3)):
        made.add(name, "Placeholder", dtype=type_attr(), shape=shape_attr(rows, 10 - rows))
    made.add("then", "Switch", ["high", "which"], T=type_attr())
    made.add("else", "Switch", ["wide", "which"], T=type_attr())
    made.add("doubled", "AddV2", ["then:1", "then:1"], T=type_attr())
    made.add("either", "Merge", ["doubled", "else"], T=type_attr(), N=number(2))
    taken = ["either", "which"]
    if handed:
        for name, dtype in (("either", type_attr()), ("which", boolean)):
            made.add(f"{name}/handed", "Identity", [name], T=dtype)
        taken = ["either/handed", "which/handed"]
    made.add("later", "Switch", taken, T=type_attr())
    graph = built(made, "later:0", "later:1")
    assert [shape_of(graph, f"end{at}") for at in (0, 1)] == [(7, 3), (3, 7)]


def test_a_branch_of_another_predicate_takes_either_shape() -> None:
    made = Rows()
    for name in ("which", "other"):
        made.add(name, "Placeholder", dtype=type_attr(BOOL), shape=shape_attr())
    for name, rows in (("wide", 7), ("high", 3)):
        made.add(name, "Placeholder", dtype=type_attr(), shape=shape_attr(rows))
        made.add(f"{name}/taken", "Switch", [name, "which"], T=type_attr())
    made.add("either", "Merge", ["high/taken:1", "wide/taken"], T=type_attr(), N=number(2))
    made.add("later", "Switch", ["either", "other"], T=type_attr())
    graph = built(made, "later:0", "later:1")
    assert [shape_of(graph, f"end{at}") for at in (0, 1)] == [(-1,), (-1,)]


@pytest.mark.parametrize("comparison", ["Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"])
def test_iterations_are_counted_as_a_walk_counts_them(comparison: str) -> None:
    holds = {"Less": lt, "LessEqual": le, "Greater": gt, "GreaterEqual": ge, "Equal": eq, "NotEqual": ne}[comparison]
    for start in range(-7, 8):
        for step in range(-3, 4):
            walked = next((i for i in range(100) if not holds(start + step * i, 0)), float("inf"))
            assert iterations(comparison, start, step) == walked, (start, step)
