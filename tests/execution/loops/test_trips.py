"""Trip counts that the graph's constants determine, against counting; and loops of unknown trips."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.description import load_cluster
from simulator.costs.estimate import estimate
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables, of_partitions, of_step
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.partitioning.cut import partition
from tests.execution.cases import apart, assigned, costs, whole
from tests.execution.loops.cases import begun, conditional, counting, live_counts, number, predicate, scalars
from tests.strategies import BOOL, INT32, Rows, shapes_attr, type_attr, typed

MANY = 60
COMPARE = {
    "Less": lambda i, n: i < n,
    "LessEqual": lambda i, n: i <= n,
    "Greater": lambda i, n: i > n,
    "GreaterEqual": lambda i, n: i >= n,
    "NotEqual": lambda i, n: i != n,
    "Equal": lambda i, n: i == n,
}


def tables_of(graph: Graph, trips: Mapping[str, int] | None = None) -> Tables:
    return of_step(graph, whole(graph), apart(1), costs(graph, apart(1), 10), SimulationOptions(trips=trips or {}))


def counted(compare: str, first: int, step: int, bound: int) -> int | None:
    """None: it does not end."""
    for trip in range(MANY):
        if not COMPARE[compare](first + step * trip, bound):
            return trip
    return None


@given(st.sampled_from(sorted(COMPARE)), st.integers(-9, 9), st.integers(-3, 3), st.integers(-9, 9), st.randoms())
def test_counters_are_counted_wherever_the_loop_is(
    compare: str, first: int, step: int, bound: int, random: Random
) -> None:
    rows = begun()
    counting(rows, "loop", "x", bound, compare=compare, first=first, step=step)
    graph, on = rows.built(), apart(2)
    expected = counted(compare, first, step, bound)
    tables = tables_of(graph)
    assert live_counts(tables)["loop/x/Neg"] == (1 if expected is None else expected)
    said = "Loops of unknown trips run once" if expected is None else "Loops run as their constants say"
    assert tables.notes[0].startswith(said)
    pieces = partition(graph, assigned(on, [random.randrange(2) for _ in graph.names]), on, step=whole(graph))
    cut, _ = of_partitions(pieces, on, costs(graph, on))
    assert cut.notes == tables.notes
    assert live_counts(cut)["loop/x/Neg"] == live_counts(tables)["loop/x/Neg"]


def condition(rows: Rows, op: str, *inputs: str) -> None:
    """Let another predicate decide in the place of the loop's own."""
    rows.add("decides", op, inputs, _output_shapes=scalars(1))
    rows.inputs[rows.names.index("loop/LoopCond")] = ["decides"]


def enter_predicate(rows: Rows) -> str:
    enter = {**rows.attrs[rows.names.index("loop/bound/Enter")], "T": rows.attrs[rows.names.index("p")]["dtype"]}
    return rows.add("p/Enter", "Enter", ["p"], **enter)


@pytest.mark.parametrize(
    ("op", "trips", "said"),
    [
        (
            "LogicalAnd",
            4,
            "Loops run as often as their counters allow, though their data may end them before: 'loop' 4",
        ),
        ("LogicalOr", 1, "Loops of unknown trips run once: 'loop'"),
    ],
    ids=["at most", "nothing says how many at least"],
)
def test_half_a_condition_bounds_an_and_alone(op: str, trips: int, said: str) -> None:
    rows = begun()
    predicate(rows)
    counting(rows, "loop", "x", 4)
    condition(rows, op, "loop/compare", enter_predicate(rows))
    tables = tables_of(rows.built())
    assert live_counts(tables)["loop/x/Neg"] == trips
    assert tables.notes[0].startswith(said)


def test_the_smaller_bound_of_two_counts() -> None:
    rows = begun()
    counting(rows, "loop", "x", 9)
    limit = number(rows, "limit", 5)
    enter = rows.attrs[rows.names.index("loop/bound/Enter")]
    rows.add("limit/Enter", "Enter", [limit], **enter)
    rows.add("less", "Less", ["loop/i/Merge", "limit/Enter"], T=type_attr(INT32), _output_shapes=scalars(1))
    condition(rows, "LogicalAnd", "loop/compare", "less")
    assert live_counts(tables_of(rows.built()))["loop/x/Neg"] == 5


def test_a_gradient_of_a_loop_that_its_data_may_end_may_end_before_too() -> None:
    rows = begun()
    predicate(rows)
    last = counting(rows, "loop", "x", 4)
    condition(rows, "LogicalAnd", "loop/compare", enter_predicate(rows))
    other = counting(rows, "down", last, 1, compare="GreaterEqual", step=-1)
    rows.inputs[rows.names.index("down/i/Enter")] = ["loop/i/Exit"]
    counting(rows, "alone", other, 3)
    assert tables_of(rows.built()).notes[:2] == (
        "Loops run as their constants say: 'alone' 3 times.",
        "Loops run as often as their counters allow, though their data may end them before: 'down' 4 times, "
        "'loop' 4 times.",
    )


def test_a_gradient_counts_down_what_its_loop_counted_up() -> None:
    rows = begun()
    last = counting(rows, "up", "x", 7)
    counting(rows, "down", last, 1, compare="GreaterEqual", step=-1)
    rows.inputs[rows.names.index("down/i/Enter")] = ["up/i/Exit"]
    graph = rows.built()
    assert live_counts(tables_of(graph))["down/x/Neg"] == 7
    assert live_counts(tables_of(graph, {"up": 3}))["down/x/Neg"] == 3
    assert live_counts(tables_of(graph, {"up": 3, "*": 2}))["down/x/Neg"] == 2
    assert tables_of(graph, {"up": 3}).notes == (
        "Loops run as asked: 'up' 3 times.",
        "Loops run as their constants say: 'down' 3 times.",
    )


@pytest.mark.parametrize(("shape", "trips"), [((13, 4), 13), ((-1, 4), 1)])
def test_a_known_size_is_a_bound(shape: tuple[int, ...], trips: int) -> None:
    rows = begun()
    counting(rows, "loop", "x", 1)
    rows.add("wide", "Placeholder", **typed("Placeholder", shape))
    rows.add("shape", "Shape", ["wide"], T=type_attr(), _output_shapes=shapes_attr((2,)))
    ends = [number(rows, name, value) for name, value in (("from", 0), ("to", 1), ("by", 1))]
    for name in ends:
        rows.attrs[rows.names.index(name)]["value"].tensor.tensor_shape.dim.add(size=1)
    rows.add(
        "size", "StridedSlice", ["shape", *ends], T=type_attr(INT32), Index=type_attr(INT32),
        shrink_axis_mask=AttrValue(i=1), _output_shapes=scalars(1),
    )  # fmt: skip
    rows.inputs[rows.names.index("loop/bound/Enter")] = ["size"]
    assert live_counts(tables_of(rows.built()))["loop/x/Neg"] == trips


def vector(rows: Rows, name: str, *values: int) -> str:
    """A Const of several integers."""
    number(rows, name, 0)
    tensor = rows.attrs[rows.names.index(name)]["value"].tensor
    tensor.ClearField("int_val")
    tensor.int_val.extend(values)
    tensor.tensor_shape.dim.add(size=len(values))
    rows.attrs[rows.names.index(name)]["_output_shapes"] = shapes_attr((len(values),))
    return name


def test_a_bound_is_computed_of_constants_as_sizes_are() -> None:
    """A known shape is a constant vector of which a program takes an element; limits may be parts of it."""
    rows = begun()
    counting(rows, "loop", "x", 1)
    whole = {"T": type_attr(INT32), "_output_shapes": scalars(1)}
    ends = [vector(rows, name, at) for name, at in (("from", 1), ("to", 2), ("by", 1))]
    rows.add("size", "StridedSlice", [vector(rows, "shape", 3, 26, 2), *ends], **whole, Index=type_attr(INT32),
             shrink_axis_mask=AttrValue(i=1))  # fmt: skip
    rows.add("half", "FloorDiv", ["size", number(rows, "two", 2)], **whole)
    rows.add(
        "bound", "Minimum", [rows.add("most", "Max", ["shape", vector(rows, "axis", 0)], **whole), "half"], **whole
    )
    rows.inputs[rows.names.index("loop/bound/Enter")] = ["bound"]
    assert live_counts(tables_of(rows.built()))["loop/x/Neg"] == 13


@pytest.mark.parametrize(("in_range", "trips"), [(True, 4), (False, 1)], ids=["stops beyond it", "goes on beyond it"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_branch_with_a_constant_side_bounds_a_loop_as_and_does(in_range: bool, trips: int, turned: bool) -> None:
    """As AutoGraph writes a `for` with a `break`: in range the flag decides, beyond it the loop is over."""
    rows = begun()
    predicate(rows)
    counting(rows, "loop", "x", 4)
    truth = {"T": type_attr(BOOL)}
    rows.add("switch", "Switch", [enter_predicate(rows), "loop/compare"], **truth, _output_shapes=scalars(2))
    on, off = ("switch:1", "switch:0") if in_range else ("switch:0", "switch:1")
    pivot = rows.add("pivot", "Identity", [off], **truth, _output_shapes=scalars(1))
    over = number(rows, "over", int(not in_range), pivot)
    attrs = rows.attrs[rows.names.index(over)]
    attrs["value"].tensor.dtype, attrs["dtype"] = BOOL, type_attr(BOOL)
    attrs["value"].tensor.ClearField("int_val")
    attrs["value"].tensor.bool_val.append(not in_range)
    flag = rows.add("flag", "Identity", [on], **truth, _output_shapes=scalars(1))
    sides = [over, flag] if turned else [flag, over]
    rows.add("decided", "Merge", sides, **truth, N=AttrValue(i=2), _output_shapes=scalars(2))
    condition(rows, "Identity", "decided")
    rows.attrs[rows.names.index("decides")]["T"] = type_attr(BOOL)
    assert live_counts(tables_of(rows.built()))["loop/x/Neg"] == trips


@pytest.mark.parametrize("deep", ["LogicalAnd", "Identity"])
def test_a_condition_that_was_made_to_cost_is_left_unknown(deep: str) -> None:
    rows = begun()
    counting(rows, "loop", "x", 4)
    before = "loop/compare"
    for at in range(3000):
        before = rows.add(f"deep{at}", deep, [before] * (2 if deep == "LogicalAnd" else 1), _output_shapes=scalars(1))
    condition(rows, "Identity", before)
    assert live_counts(tables_of(rows.built()))["loop/x/Neg"] == 1


def multiplying(rows: Rows, prefix: str, value: str, bound: int, *, first: int = 1, factor: int = 3) -> str:
    """A loop whose counter grows by a factor, so that nothing but its course tells the trips."""
    left = counting(rows, prefix, value, bound, first=first, step=factor)
    rows.ops[rows.names.index(f"{prefix}/i/Add")] = "Mul"
    return left


@given(st.integers(1, 5), st.integers(2, 4), st.integers(-5, 200), st.randoms())
def test_a_loop_is_walked_where_its_counter_grows_otherwise(
    first: int, factor: int, bound: int, random: Random
) -> None:
    rows = begun()
    multiplying(rows, "loop", "x", bound, first=first, factor=factor)
    expected = sum(first * factor**trip < bound for trip in range(10))
    graph, on = rows.built(), apart(2)
    tables = tables_of(graph)
    assert live_counts(tables)["loop/x/Neg"] == expected
    assert tables.notes[0].startswith("Loops run as their constants say")
    pieces = partition(graph, assigned(on, [random.randrange(2) for _ in graph.names]), on, step=whole(graph))
    cut, _ = of_partitions(pieces, on, costs(graph, on))
    assert live_counts(cut)["loop/x/Neg"] == expected


def test_a_loop_is_walked_through_its_branches() -> None:
    """From 1 on it is 3, 9, 27 and then grows by 7 to 34 and 41."""
    rows = begun()
    whole_ = {"T": type_attr(INT32)}
    multiplying(rows, "loop", "x", 40)
    ten = number(rows, "ten", 10, "loop/i/Identity")
    rows.add("small", "Less", ["loop/i/Identity", ten], **whole_, _output_shapes=scalars(1))
    rows.add("way", "Switch", ["loop/i/Identity", "small"], **whole_, _output_shapes=scalars(2))
    rows.add("seven", "AddV2", ["way", number(rows, "7", 7, "way")], **whole_, _output_shapes=scalars(1))
    rows.inputs[rows.names.index("loop/i/Add")] = ["way:1", "loop/one"]
    rows.add("both", "Merge", ["seven", "loop/i/Add"], N=AttrValue(i=2), **whole_, _output_shapes=scalars(2))
    rows.inputs[rows.names.index("loop/i/Next")] = ["both"]
    found = live_counts(tables_of(rows.built()))
    assert (found["loop/x/Neg"], found["loop/i/Add"], found["seven"]) == (5, 3, 2)


@pytest.mark.parametrize("summands", [1, 2, 3])
def test_sums_of_many_are_followed(summands: int) -> None:
    """The bound, the counter and the predicate of a branch are sums by AddN."""
    rows = begun()
    ints = {"T": type_attr(INT32), "N": AttrValue(i=summands), "_output_shapes": scalars(1)}

    def body(value: str, pivot: str) -> str:
        limit = [number(rows, f"limit/{at}", 2 * at, pivot) for at in range(1, summands)]
        rows.add("index", "AddN", ["loop/i/Identity", *limit], **ints)
        most = number(rows, "most", summands * (summands - 1) + 3, pivot)
        rows.add("early", "Less", ["index", most], T=type_attr(INT32), _output_shapes=scalars(1))
        return conditional(rows, "c", value, "early")

    counting(rows, "loop", "x", 0, body)
    bound = [number(rows, f"part/{at}", 12 // summands) for at in range(summands)]
    rows.inputs[rows.names.index("loop/bound/Enter")] = [rows.add("bound", "AddN", bound, **ints)]
    if summands > 1:
        more = [number(rows, f"more/{at}", 1, "loop/i/Identity") for at in range(1, summands)]
        row = rows.names.index("loop/i/Add")
        rows.ops[row], rows.inputs[row], rows.attrs[row] = "AddN", ["loop/i/Identity", *more], ints
    step = max(1, summands - 1)
    graph, on = rows.built(), apart(2)
    pieces = partition(graph, assigned(on, [row % 2 for row in range(len(graph))]), on, step=whole(graph), legal=False)
    cut, _ = of_partitions(pieces, on, costs(graph, on))
    for tables in (tables_of(graph), cut):
        counts = live_counts(tables)
        assert counts["c/true"] == -(-3 // step)
        assert counts["c/true"] + counts["c/false"] == 12 // step
        assert tables.notes[0].startswith("Loops run as their constants say")


def test_what_a_walked_loop_leaves_bounds_the_next_one() -> None:
    rows = begun()
    after = counting(rows, "next", multiplying(rows, "loop", "x", 40), 0)
    rows.inputs[rows.names.index("next/bound/Enter")] = ["loop/i/Exit"]
    assert after
    assert live_counts(tables_of(rows.built()))["next/x/Neg"] == 81


def handed_through(rows: Rows, prefix: str, start: str) -> str:
    """A further variable of a loop, a whole number that each iteration hands on as it is; returns its Exit."""
    whole = {"T": type_attr(INT32), "_output_shapes": scalars(1)}
    entering = {**rows.attrs[rows.names.index(f"{prefix}/i/Enter")]}
    rows.add(f"{prefix}/n/Enter", "Enter", [start], **entering)
    both = {**whole, "N": AttrValue(i=2), "_output_shapes": scalars(2)}
    rows.add(f"{prefix}/n/Merge", "Merge", [f"{prefix}/n/Enter", f"{prefix}/n/Next"], **both)
    ways = {**whole, "_output_shapes": scalars(2)}
    rows.add(f"{prefix}/n/Switch", "Switch", [f"{prefix}/n/Merge", f"{prefix}/LoopCond"], **ways)
    rows.add(f"{prefix}/n/Identity", "Identity", [f"{prefix}/n/Switch:1"], **whole)
    rows.add(f"{prefix}/n/Next", "NextIteration", [f"{prefix}/n/Identity"], **whole)
    return rows.add(f"{prefix}/n/Exit", "Exit", [f"{prefix}/n/Switch"], **whole)


@pytest.mark.parametrize(("grows", "trips"), [("", 15), ("inner", 3), ("outer", 5 + 6 + 7)])
def test_a_bound_that_all_loops_hand_through_is_known_in_the_innermost(grows: str, trips: int) -> None:
    """The number of leapfrog steps of a chain of samples is a variable of each loop, which none of them changes."""
    rows = begun()
    last = counting(rows, "outer", "x", 3, lambda value, once: counting(rows, "inner", value, 9, inside=once))
    handed_through(rows, "outer", number(rows, "n", 5))
    back = handed_through(rows, "inner", "outer/n/Identity")
    rows.inputs[rows.names.index("outer/n/Next")] = [back]
    rows.inputs[rows.names.index("inner/compare")] = ["inner/i/Merge", "inner/n/Merge"]
    if grows:
        at = rows.names.index(f"{grows}/n/Next")
        more = [*rows.inputs[at], f"{grows}/one"]
        rows.inputs[at] = [rows.add("more", "AddV2", more, T=type_attr(INT32), _output_shapes=scalars(1))]
    assert last
    assert live_counts(tables_of(rows.built()))["inner/x/Neg"] == trips


def state(rows: Rows, prefix: str, start: int, made: Callable[[str], str]) -> str:
    """A further whole number of a loop, out of which each iteration makes the next one; returns the old one."""
    handed_through(rows, prefix, number(rows, f"{prefix}/start", start))
    old = f"{prefix}/n/Identity"
    rows.inputs[rows.names.index(f"{prefix}/n/Next")] = [made(old)]
    return old


@given(st.integers(0, 6), st.integers(0, 3), st.sampled_from([2, 3]), st.integers(0, 2), st.randoms())
def test_a_loop_runs_as_often_as_a_number_says_that_the_loop_around_it_computes(
    trips: int, start: int, factor: int, more: int, random: Random
) -> None:
    """It ran once, as neither its own counter nor that of the loop around it says when it ends."""
    rows = begun()
    nested(rows, trips)
    ints = {"T": type_attr(INT32), "_output_shapes": scalars(1)}

    def made(old: str) -> str:
        times = rows.add("times", "Mul", [old, number(rows, "factor", factor, old)], **ints)
        rest = rows.add("rest", "FloorMod", [times, number(rows, "seven", 7, old)], **ints)
        return rows.add("grown", "AddV2", [rest, number(rows, "more", more, old)], **ints)

    rows.inputs[rows.names.index("inner/bound/Enter")] = [state(rows, "outer", start, made)]
    expected, value = 0, start
    for _ in range(trips):
        expected, value = expected + value, value * factor % 7 + more
    graph, on = rows.built(), apart(2)
    pieces = partition(graph, assigned(on, [random.randrange(2) for _ in graph.names]), on, step=whole(graph))
    cut, _ = of_partitions(pieces, on, costs(graph, on))
    for tables in (tables_of(graph), cut):
        assert live_counts(tables)["inner/x/Neg"] == expected


def by_its_own_state(rows: Rows, prefix: str, trips: int) -> None:
    """A loop with a state from 0 on: 3 less if it is above 4, else 2 more."""
    ints = {"T": type_attr(INT32), "_output_shapes": scalars(1)}
    both = {**ints, "_output_shapes": scalars(2)}
    counting(rows, prefix, "x", trips)

    def made(old: str) -> str:
        above = rows.add("above", "Greater", [old, number(rows, "four", 4, old)], **ints)
        way = rows.add("way", "Switch", [old, above], **both)
        less = rows.add("less", "Sub", ["way:1", number(rows, "three", 3, old)], **ints)
        more = rows.add("more", "AddV2", [way, number(rows, "two", 2, old)], **ints)
        return rows.add("next", "Merge", [more, less], N=AttrValue(i=2), **both)

    state(rows, prefix, 0, made)


def test_a_branch_that_hangs_on_what_it_makes_goes_both_ways() -> None:
    """0, 2, 4, 6, 3, 5, 2, 4: it was taken for a counter that always grows, and went to one side five times."""
    rows = begun()
    by_its_own_state(rows, "loop", 8)
    found = live_counts(tables_of(rows.built()))
    assert (found["less"], found["more"]) == (2, 6)


def test_a_branch_that_hangs_on_itself_and_on_data_is_taken_as_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds went on for a thousand times between two scenarios, and ended in either."""
    monkeypatch.setattr("simulator.execution.loops.trips._walk_through", lambda *_: False)
    rows = begun()
    by_its_own_state(rows, "loop", 8)
    tables = tables_of(rows.built())
    found = live_counts(tables)
    assert (found["less"], found["more"]) == (8, 0)
    assert any(note.startswith("Unknown predicates are taken as true") for note in tables.notes)


def nested(rows: Rows, trips: int, *, first: int = 0, step: int = 1, compare: str = "Less", start: int = 0) -> None:
    """A loop in a loop, which compares its counter with that of the loop around it."""

    def body(value: str, once: str) -> str:
        after = counting(rows, "inner", value, 0, inside=once, step=step, compare=compare, first=start)
        rows.inputs[rows.names.index("inner/bound/Enter")] = ["outer/i/Identity"]
        return after

    counting(rows, "outer", "x", trips, body, first=first)


@given(st.integers(0, 6), st.integers(-3, 3), st.sampled_from([1, 2, 3]), st.integers(-3, 3), st.randoms())
def test_a_loop_runs_as_often_as_the_loop_around_it_says(
    trips: int, first: int, step: int, start: int, random: Random
) -> None:
    rows = begun()
    nested(rows, trips, first=first, step=step, start=start)
    around = [first + at for at in range(max(0, trips - first))]
    expected = sum(max(0, -((start - bound) // step)) for bound in around)
    graph, on = rows.built(), apart(2)
    tables = tables_of(graph)
    assert live_counts(tables)["inner/x/Neg"] == expected
    pieces = partition(graph, assigned(on, [random.randrange(2) for _ in graph.names]), on, step=whole(graph))
    cut, _ = of_partitions(pieces, on, costs(graph, on))
    assert cut.notes == tables.notes
    assert live_counts(cut)["inner/x/Neg"] == expected


def test_a_condition_that_a_branch_joins_is_that_of_each_entry() -> None:
    """The sides that were taken counted as those of other iterations when more of these were looked at."""
    rows = begun()
    nested(rows, 4)
    truths = {"T": type_attr(BOOL), "_output_shapes": scalars(1)}
    rows.add("same", "LogicalAnd", ["inner/compare", "inner/compare"], _output_shapes=scalars(1))
    rows.add("ways", "Switch", ["inner/compare", "same"], **{**truths, "_output_shapes": scalars(2)})
    rows.add("goes", "LogicalNot", ["ways:1"], _output_shapes=scalars(1))
    rows.add("on", "LogicalNot", ["goes"], _output_shapes=scalars(1))
    rows.add("ends", "Identity", ["ways"], **truths)
    rows.add("both", "Merge", ["ends", "on"], N=AttrValue(i=2), **{**truths, "_output_shapes": scalars(2)})
    rows.inputs[rows.names.index("inner/LoopCond")] = ["both"]
    assert live_counts(tables_of(rows.built()))["inner/x/Neg"] == 6


def test_a_note_says_how_often_a_loop_runs_that_varies() -> None:
    rows = begun()
    nested(rows, 40)
    assert tables_of(rows.built()).notes == (
        "Loops run as their constants say: 'inner' up to 39 times, 780 in all, 'outer' 40 times.",
    )


def test_a_loop_that_varies_is_walked_where_its_counter_grows_otherwise() -> None:
    """1, 3, 9, .. are below 0 to 9 in this many iterations."""
    rows = begun()
    nested(rows, 10, step=3, start=1)
    rows.ops[rows.names.index("inner/i/Add")] = "Mul"
    assert live_counts(tables_of(rows.built()))["inner/x/Neg"] == 2 + 2 * 6


def test_a_loop_that_varies_and_never_ends_in_some_iteration_is_left() -> None:
    rows = begun()
    nested(rows, 3, first=-1, compare="NotEqual", step=2)
    tables = tables_of(rows.built())
    assert live_counts(tables)["inner/x/Neg"] == 4
    assert tables.notes[1] == "Loops of unknown trips run once: 'inner'."


def test_half_a_condition_bounds_a_loop_that_varies() -> None:
    rows = begun()
    nested(rows, 5)
    predicate(rows)
    enter = {**rows.attrs[rows.names.index("outer/bound/Enter")], "T": rows.attrs[rows.names.index("p")]["dtype"]}
    rows.add("p/outer", "Enter", ["p"], **enter)
    rows.add("p/inner", "Enter", ["p/outer"], **enter | {"frame_name": AttrValue(s=b"inner")})
    rows.add("decides", "LogicalAnd", ["inner/compare", "p/inner"], _output_shapes=scalars(1))
    rows.inputs[rows.names.index("inner/LoopCond")] = ["decides"]
    tables = tables_of(rows.built())
    assert live_counts(tables)["inner/x/Neg"] == 10
    assert tables.notes[1].startswith("Loops run as often as their counters allow")


def test_what_a_loop_that_varies_leaves_bounds_the_next_one() -> None:
    """As the gradient of such a loop, which counts down what it counted up."""
    rows = begun()

    def body(value: str, once: str) -> str:
        counting(rows, "down", value, 1, inside=once, compare="GreaterEqual", step=-1)
        counting(rows, "up", value, 1, inside=once)
        rows.inputs[rows.names.index("up/bound/Enter")] = ["outer/i/Identity"]
        rows.inputs[rows.names.index("down/i/Enter")] = ["up/i/Exit"]
        return rows.add("both", "AddV2", ["up/x/Exit", "down/x/Exit"], **typed("AddV2", ()))

    counting(rows, "outer", "x", 6, body)
    found = live_counts(tables_of(rows.built()))
    assert found["down/x/Neg"] == found["up/x/Neg"] == 15


def test_a_walk_reads_a_condition_that_a_gpu_hands_to_its_host() -> None:
    """Its LogicalAnd is in the GPU's memory, and LoopCond reads the host's: within the device a copy lies between."""
    rows = begun()
    multiplying(rows, "loop", "x", 40)
    condition(rows, "LogicalAnd", "loop/compare", "loop/compare")
    graph, on = rows.built(), load_cluster("1gpu")
    pieces = partition(
        graph,
        assigned(on, [on.index["/job:localhost/replica:0/task:0/device:GPU:0"]] * len(graph)),
        on,
        step=whole(graph),
    )
    assert "_HostRecv" in pieces.graph.ops
    cut, _ = of_partitions(pieces, on, estimate(graph, on))
    assert live_counts(cut)["loop/x/Neg"] == 4


def test_trips_that_are_asked_for_hold_for_each_copy() -> None:
    """Replication copies a loop under a prefix; a copy may have trips of its own."""
    rows = begun()
    for prefix in ("", "tower_1/"):
        counting(rows, f"{prefix}loop", "x", 4)
    graph = rows.built()
    copies = {name: name.removeprefix("tower_1/") for name in graph.names if name.startswith("tower_1/")}
    graph = replace(graph, copies=copies)
    for asked, expected in (({"loop": 7}, (7, 7)), ({"loop": 7, "tower_1/loop": 2}, (7, 2)), ({"*": 3}, (3, 3))):
        found = live_counts(tables_of(graph, asked))
        assert (found["loop/x/Neg"], found["tower_1/loop/x/Neg"]) == expected


def test_a_walk_ends_where_nothing_is_known() -> None:
    rows = begun()
    predicate(rows)
    multiplying(rows, "loop", "x", 40)
    condition(rows, "LogicalOr", "loop/compare", enter_predicate(rows))
    tables = tables_of(rows.built())
    assert live_counts(tables)["loop/x/Neg"] == 1
    assert tables.notes[0].startswith("Loops of unknown trips run once")


@pytest.mark.parametrize(("first", "factor"), [(0, 3), (1, -1)], ids=["nothing changes", "for ever"])
def test_a_walk_that_does_not_end_is_left(first: int, factor: int) -> None:
    rows = begun()
    multiplying(rows, "loop", "x", 40, first=first, factor=factor)
    assert live_counts(tables_of(rows.built()))["loop/x/Neg"] == 1
