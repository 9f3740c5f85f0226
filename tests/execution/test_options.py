"""The options of a simulation: they are checked when they are made, and nothing changes them afterwards."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.contention import CONTENTIONS
from simulator.errors import SimvizError, UnsupportedError
from simulator.execution.arrays import CODES
from simulator.execution.options import ENGINES, ORDERS, SimulationOptions

OPTIONS = st.builds(
    SimulationOptions,
    order=st.sampled_from(ORDERS),
    contention=st.sampled_from(CONTENTIONS),
    trips=st.dictionaries(st.text(max_size=3), st.integers(0, 2**40), max_size=3),
    branches=st.dictionaries(st.text(max_size=3), st.booleans() | st.floats(0, 1) | st.integers(0, 9), max_size=3),
    seed=st.integers(0, 2**64 - 1),
    engine=st.sampled_from(ENGINES),
)


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        ({"order": "lifo"}, UnsupportedError, "order='lifo' is not modelled; choose 'auto' or 'fifo' or 'priority' or"),
        ({"order": None}, UnsupportedError, "order=None is not modelled"),
        ({"contention": "polite"}, UnsupportedError, "contention='polite' is not modelled; choose 'serial' or 'fair'"),
        ({"engine": "abacus"}, UnsupportedError, "engine='abacus' is not modelled; choose 'auto' or 'python'"),
        ({"seed": -1}, SimvizError, r"A seed is a whole number from 0 to 2\^64 - 1, not -1"),
        ({"seed": 2**64}, SimvizError, r"A seed is a whole number from 0 to 2\^64 - 1, not 18446744073709551616"),
        ({"seed": 0.5}, SimvizError, r"A seed is a whole number from 0 to 2\^64 - 1, not 0.5"),
        ({"seed": True}, SimvizError, r"A seed is a whole number from 0 to 2\^64 - 1, not True"),
        ({"trips": 3}, SimvizError, "trips is 3; give a mapping from the names of loops"),
        ({"trips": {"loop": -1}}, SimvizError, r"a whole number of times, 0 or more; trips\['loop'\] is -1"),
        ({"trips": {"loop": 2.5}}, SimvizError, "is 2.5"),
        ({"trips": {"loop": True}}, SimvizError, "is True"),
        ({"branches": ["p"]}, SimvizError, r"branches is a list; give a mapping from the names of predicates"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made_or_changed(
    wrong: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        SimulationOptions(**wrong)
    with pytest.raises(error, match=sentence):
        replace(SimulationOptions(), **wrong)


@given(OPTIONS)
def test_options_are_values(options: SimulationOptions) -> None:
    again = pickle.loads(pickle.dumps(options))
    assert again == options == replace(options)
    assert hash(again) == hash(options)
    assert options.unrolls_like(again)


def test_what_the_caller_changes_later_changes_nothing() -> None:
    trips, branches = {"*": 3}, {"p": True}
    options = SimulationOptions(trips=trips, branches=branches)
    trips["*"], branches["q"] = -1, False
    assert options == SimulationOptions(trips={"*": 3}, branches={"p": True})


@given(OPTIONS, st.none() | st.just([1]))
def test_auto_is_the_order_of_the_priorities_where_there_are_some(options: SimulationOptions, priority: Any) -> None:
    if options.order == "priority" and priority is None:
        with pytest.raises(SimvizError, match="There are no priorities; give them or choose order="):
            options.order_for(priority)
    else:
        auto = "fifo" if priority is None else "priority"
        assert options.order_for(priority) == (auto if options.order == "auto" else options.order)
        assert options.order_for(priority) in CODES


@given(OPTIONS, st.sampled_from(ORDERS), st.sampled_from(CONTENTIONS), st.sampled_from(ENGINES))
def test_loops_and_branches_run_alike_under_any_order_contention_and_engine(
    options: SimulationOptions, order: str, contention: str, engine: str
) -> None:
    assert options.unrolls_like(replace(options, order=order, contention=contention, engine=engine))
    assert not options.unrolls_like(replace(options, seed=options.seed ^ 1))
    assert not options.unrolls_like(replace(options, trips={**options.trips, "another": 1}))
    assert not options.unrolls_like(replace(options, branches={**options.branches, "another": True}))
