"""No option takes a number that breaks it: of thousands of digits, of none, negative, infinite, or no number."""

from __future__ import annotations

import pytest

from tests.fuzzing.cases import GRAPH, SMALL, Case
from tests.fuzzing.graphs import seeds
from tests.fuzzing.judging import FAULT, outcomes
from tests.fuzzing.numbers import WORST, forms, is_wish, typed


@pytest.mark.parametrize("trains", [False, True])
def test_no_number_breaks_an_option(trains: bool) -> None:
    content = seeds()["train"][0] if trains else SMALL
    cases = [
        Case("numbers", tuple(typed(GRAPH, form, number, trains=trains)), {GRAPH: content})
        for form in forms(trains=trains)
        for number in WORST
        if not is_wish(form, number)
    ]
    assert [(case.arguments, found.said) for case, found in outcomes(cases) if found.verdict == FAULT] == []
