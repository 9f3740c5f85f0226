"""Without options a step runs so that all that is fetched is live; the fewest predicates turn for it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import SimvizError
from simulator.execution.options import SimulationOptions
from simulator.execution.simulate import simulate
from simulator.execution.tables import Tables, of_partitions, of_step
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.graph.step import choose_step
from simulator.partitioning.cut import partition
from simulator.partitioning.levels import FLAVOURS
from tests.execution.cases import apart, assigned, costs
from tests.execution.loops.cases import begun, conditional, counting, live_counts, predicate, scalars
from tests.strategies import BOOL, INT32, type_attr, typed

PREDICATES = 3


def tables_of(graph: Graph, *fetches: str, **options: Any) -> Tables:
    step = choose_step(graph, fetches=fetches)
    return of_step(graph, step, apart(1), costs(graph, apart(1), 10), SimulationOptions(**options))


def branching(random: Random) -> Graph:
    """Conditionals on a few predicates, which read each other's branches and merges."""
    rows, values = begun(), ["x"]
    for at in range(PREDICATES):
        predicate(rows, f"p{at}")
        rows.add(f"not{at}", "LogicalNot", [f"p{at}"], _output_shapes=scalars(1))
    for at in range(random.randint(1, 6)):
        asked = random.choice([f"p{random.randrange(PREDICATES)}", f"not{random.randrange(PREDICATES)}"])
        merged = conditional(rows, f"c{at}", random.choice(values), asked)
        values += [merged, f"c{at}/true", f"c{at}/false"]
    return rows.built()


def are_live(tables: Tables) -> bool:
    return not any(tables.silent[op] for op, name in enumerate(tables.names) if name.endswith("(fetched)"))


@settings(max_examples=35)
@given(st.randoms(use_true_random=False), st.sampled_from(FLAVOURS))
def test_the_fewest_predicates_turn(random: Random, flavour: str) -> None:
    graph = branching(random)
    inside = [name for name in graph.names if "/" in name and not name.endswith("Switch")]
    fetches = [f"{name}:0" for name in random.sample(inside, random.randint(1, 3))]
    step, on = choose_step(graph, fetches=fetches), apart(2)
    decided = of_step(graph, step, apart(1), costs(graph, apart(1)))
    asked = [at for at in range(PREDICATES) if step.runs[graph.index[f"p{at}"]] or f"p{at}:0" in step.feeds]
    turned = {sum(f"'p{at}:0' is unknown; taken false" in note for note in decided.notes) for at in asked}
    needed = []
    for ways in product([True, False], repeat=len(asked)):
        named = {f"p{at}": way for at, way in zip(asked, ways, strict=True)}
        try:
            if are_live(of_step(graph, step, apart(1), costs(graph, apart(1)), SimulationOptions(branches=named))):
                needed.append(ways.count(False))
        except SimvizError:
            continue
    assert bool(decided.dead_fetches) == (not needed)
    if needed:
        assert are_live(decided)
        assert sum(note.count("is unknown; taken false") for note in decided.notes) == min(needed)
        assert turned <= {0, 1}
    placed = assigned(on, [random.randrange(2) for _ in graph.names])
    cut, _ = of_partitions(partition(graph, placed, on, step=step, flavour=flavour), on, costs(graph, on))
    assert (cut.notes, cut.dead_fetches) == (decided.notes, decided.dead_fetches)
    counts = live_counts(cut)
    ours = {name: count for name, count in live_counts(decided).items() if name in graph.index}
    assert {name: counts[name] for name in ours if graph.ops[graph.index[name]] != "Const"} == ours


def one_branch() -> Graph:
    rows = begun()
    predicate(rows)
    conditional(rows, "c", "x", "p")
    return rows.built()


def test_what_is_chosen_is_said() -> None:
    tables = tables_of(one_branch(), "c/false:0")
    assert live_counts(tables)["c/false"] == 1
    assert tables.notes == ("The predicate 'p:0' is unknown; taken false, since the fetch 'c/false:0' runs only then.",)
    assert "since 'c/false' runs only then" in tables_of(one_branch(), "c/false").notes[0]
    assert "are taken as true" in tables_of(one_branch(), "c/Merge:0").notes[0]


def test_fetches_of_both_branches_are_refused_by_tensorflow_alone() -> None:
    tables = tables_of(one_branch(), "c/false:0", "c/true:0")
    assert tables.dead_fetches == ("c/false:0",)
    assert tables.notes[0].startswith("TensorFlow refuses this step")
    assert live_counts(tables)["c/true"] == 1
    graph, on = one_branch(), apart(1)
    pieces = partition(
        graph, assigned(on, [0] * len(graph)), on, step=choose_step(graph, fetches=["c/true:0", "c/false:0"])
    )
    assert simulate(pieces, on, costs(graph, on)).dead_fetches == ("c/false:0",)


@pytest.mark.parametrize("way", [True, 1.0])
def test_an_option_that_kills_a_fetch_is_refused(way: bool | float) -> None:
    with pytest.raises(
        SimvizError, match=r"fetch 'c/false:0' is dead with --branch p=(true|1.0), and TensorFlow refuses"
    ):
        tables_of(one_branch(), "c/false:0", branches={"p": way})
    assert live_counts(tables_of(one_branch(), "c/false", branches={"p": way}))["c/false"] == 0  # it only had to run


def test_a_case_takes_the_branch_that_is_fetched() -> None:
    rows = begun()
    rows.add("k", "Placeholder", dtype=type_attr(INT32), _output_shapes=scalars(1))
    rows.add("s", "_SwitchN", ["x", "k"], T=type_attr(), num_outs=AttrValue(i=3), _output_shapes=scalars(3))
    for side in range(3):
        rows.add(f"b{side}", "Neg", [f"s:{side}"], **typed("Neg", ()))
    tables = tables_of(rows.built(), "b2:0")
    assert live_counts(tables)["b2"] == 1
    assert tables.notes == ("The predicate 'k:0' is unknown; taken branch 2, since the fetch 'b2:0' runs only then.",)


def test_a_loop_runs_as_often_as_a_fetch_needs() -> None:
    """What leaves the loop is computed in its second iteration at the earliest."""
    rows = begun()
    rows.add("n", "Placeholder", dtype=type_attr(INT32), _output_shapes=scalars(1))

    def body(value: str, pivot: str) -> str:
        late = rows.add(
            "late", "Greater", ["loop/i/Identity", "loop/first/Enter"], T=type_attr(INT32), _output_shapes=scalars(1)
        )
        rows.add("late/Switch", "Switch", [value, late], T=type_attr(), _output_shapes=scalars(2))
        rows.add("left", "Exit", ["late/Switch:1"], T=type_attr(), _output_shapes=scalars(1))
        return value

    counting(rows, "loop", "x", 5, body)
    enter = rows.attrs[rows.names.index("loop/bound/Enter")]
    rows.add("loop/first/Enter", "Enter", ["loop/first"], **enter)
    rows.inputs[rows.names.index("loop/bound/Enter")] = ["n"]
    tables = tables_of(rows.built(), "left:0")
    assert live_counts(tables)["left"] == 1
    assert (
        tables.notes[0]
        == "The trips of loop 'loop' are unknown; taken 2 times, since the fetch 'left:0' runs only then."
    )


def test_a_trigger_runs_although_what_it_waits_for_is_dead() -> None:
    rows = begun()
    predicate(rows)
    conditional(rows, "c", "x", "p", other="there")
    rows.add("trigger", "ControlTrigger", ["^c/false", "^c/true"])
    rows.add("after", "Neg", ["x", "^trigger"], **typed("Neg", ()))
    graph, on = rows.built(), apart(2)
    step = choose_step(graph, fetches=["after:0"])
    assert live_counts(of_step(graph, step, on, costs(graph, on)))["after"] == 1
    rows_of = [int(name in ("c/false", "trigger")) for name in graph.names]
    cut, _ = of_partitions(partition(graph, assigned(on, rows_of), on, step=step, legal=False), on, costs(graph, on))
    counts = live_counts(cut)
    assert [counts[name] for name in ("c/false", "c/true", "trigger", "after")] == [0, 1, 1, 1]


def test_a_gradient_takes_the_branches_of_its_forward_pass() -> None:
    """A predicate that was laid on a stack is taken from it in the opposite order."""
    rows = begun()
    predicate(rows)
    whole: dict[str, Any] = {"T": type_attr(BOOL), "swap_memory": AttrValue(b=False), "elem_type": type_attr(BOOL)}
    rows.add("most", "Const", **rows_of_number(-1))
    rows.add("stack", "StackV2", ["most"], elem_type=type_attr(BOOL), _output_shapes=scalars(1))

    def forward(value: str, pivot: str) -> str:
        rows.add("early", "Less", ["up/i/Identity", "up/two"], T=type_attr(INT32), _output_shapes=scalars(1))
        rows.add("up/two", "Const", [f"^{pivot}"], **rows_of_number(1))
        rows.add("push", "StackPushV2", ["up/stack", "early"], **whole, _output_shapes=scalars(1))
        pushed = rows.add("pushed", "Identity", [value, "^push"], T=type_attr(), _output_shapes=scalars(1))
        return conditional(rows, "c", pushed, "early")

    def backward(value: str, pivot: str) -> str:
        rows.add("pop", "StackPopV2", ["down/stack"], elem_type=type_attr(BOOL), _output_shapes=scalars(1))
        return conditional(rows, "g", value, "pop")

    last = counting(rows, "up", "x", 3, forward)
    end = counting(rows, "down", last, 3, backward)
    for name in ("up", "down"):
        enter = rows.attrs[rows.names.index(f"{name}/bound/Enter")]
        rows.add(f"{name}/stack", "Enter", ["stack"], **{**enter, "T": AttrValue(type=20)})
    tables = tables_of(rows.built(), f"{end}:0")
    counts = live_counts(tables)
    assert [counts[f"{name}/true"] for name in ("c", "g")] == [1, 1]
    live = np.flatnonzero(~tables.silent).tolist()
    last_iteration = [tables.iterations[tables.iteration[op]] for op in live if tables.names[op] == "g/true"]
    assert last_iteration == [(2,)]  # of three: the forward pass took it first


def rows_of_number(value: int) -> dict[str, Any]:
    attr = AttrValue()
    attr.tensor.dtype = INT32
    attr.tensor.int_val.append(value)
    attr.tensor.tensor_shape.SetInParent()
    return {"dtype": type_attr(INT32), "value": attr, "_output_shapes": scalars(1)}


def test_a_way_that_is_asked_for_holds_for_each_copy() -> None:
    """Replication copies a predicate and what it decides under a prefix; a copy may have a way of its own."""
    rows = begun()
    for prefix in ("", "tower_1/"):
        conditional(rows, f"{prefix}c", "x", predicate(rows, f"{prefix}p"))
    graph = rows.built()
    copies = {name: name.removeprefix("tower_1/") for name in graph.names if name.startswith("tower_1/")}
    graph = replace(graph, copies=copies)
    for asked, expected in (({"p": False}, (0, 0)), ({"p": False, "tower_1/p": True}, (0, 1)), ({"p:0": True}, (1, 1))):
        found = live_counts(tables_of(graph, "c/Merge", "tower_1/c/Merge", branches=asked))
        assert (found["c/true"], found["tower_1/c/true"]) == expected
        assert (found["c/false"], found["tower_1/c/false"]) == tuple(1 - one for one in expected)
