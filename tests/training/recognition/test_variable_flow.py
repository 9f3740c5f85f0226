"""Variables that reach each other, against a search that follows one variable at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simulator.graph.traversal import closure
from simulator.training.recognition.variable_flow import Reach

COUNT = 7
SETS = st.frozensets(st.integers(0, COUNT - 1))
RESULT = -1


@st.composite
def directly(draw: st.DrawFn) -> dict[int, frozenset[int]]:
    """The variables, and perhaps a result, that each variable reaches by itself."""
    ends = st.frozensets(st.integers(RESULT, COUNT - 1), max_size=3)
    return {variable: draw(ends) for variable in range(COUNT)}


def reach(found: dict[int, frozenset[int]]) -> Reach:
    order = (RESULT, *found)
    bits = {one: sum(1 << place for place, end in enumerate(order) if end in ends) for one, ends in found.items()}
    return Reach(order, bits)


@given(directly(), SETS, SETS)
def test_what_a_variable_serves_is_found_by_way_of_what_is_not_trained(
    found: dict[int, frozenset[int]], trained: frozenset[int], asked: frozenset[int]
) -> None:
    served = reach(found).served(asked, trained)
    assert served.keys() == asked
    for variable, some in served.items():
        passed = closure(found[variable], lambda at: found[at] if at != RESULT and at not in trained else ())
        every = sorted((passed & trained) - {variable})
        assert some == every if len(every) < 2 else (len(some) == 2 and set(some) <= set(every))


@given(directly(), SETS)
def test_sources_are_the_others_that_reach_a_variable(found: dict[int, frozenset[int]], asked: frozenset[int]) -> None:
    known = reach(found)
    sources = {one: [at for at in range(COUNT) if one in found[at] and at != one] for one in asked}
    assert known.sources(asked) == sources
    assert {one: set(known.of(one)) for one in found} == {one: ends - {RESULT} for one, ends in found.items()}
    assert [one for one in found if known.has_result(one)] == [one for one, ends in found.items() if RESULT in ends]
