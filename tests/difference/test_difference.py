"""Random graphs on random clusters: placement, order of the log, refusals and the cut are those of TensorFlow.

A bounded number; `pytest --hypothesis-profile=long tests/difference` draws more, and `benchmarks/differential.py`
thousands. What differs is shrunk by hypothesis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import OracleError
from simulator.oracle.child import Asking
from tests.difference.asking import conversation
from tests.difference.cases import LOCAL, REAL_WORKERS, STOOD_IN, Case, drawn
from tests.difference.forking import DIED
from tests.difference.repro import read, written
from tests.difference.verdict import verdict_on

pytestmark = pytest.mark.tensorflow
CHANCE = st.randoms(use_true_random=False)  # so that a case shrinks


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with conversation() as found:
        yield found


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    """How many cases were compared, so that a run which compares nothing fails."""
    found: Counter[str] = Counter()
    yield found
    assert found["differ"] or found["cut"] > found["asked"] / 4  # what differs is shrunk: many like it are asked
    assert found["differ"] or found["refused"] > found["asked"] / 20


def hold(case: Case, asking: Asking, tally: Counter[str]) -> None:
    tally["asked"] += 1
    try:
        verdict = verdict_on(asking, case)
    except OracleError as error:
        if str(error) != DIED:
            raise
        return
    if verdict is None:
        return
    tally["differ"] += verdict.aspect != ""
    assert verdict.aspect == "", f"{verdict.aspect}: {verdict.said}\n{written(case)}"
    tally["refused"] += verdict.refused
    tally["cut"] += verdict.cut > 0


@given(CHANCE)
def test_a_flat_graph_in_a_local_session(asking: Asking, tally: Any, random: Random) -> None:
    hold(drawn(random, LOCAL, keep_calls=False), asking, tally)


@given(CHANCE)
def test_a_graph_with_its_calls_in_a_local_session(asking: Asking, tally: Any, random: Random) -> None:
    hold(drawn(random, LOCAL), asking, tally)


@given(CHANCE)
def test_a_master_over_stand_ins(asking: Asking, tally: Any, random: Random) -> None:
    hold(drawn(random, STOOD_IN), asking, tally)


@settings(max_examples=settings().max_examples // 2)
@given(CHANCE)
def test_a_master_and_its_workers(asking: Asking, tally: Any, random: Random) -> None:
    hold(drawn(random, REAL_WORKERS), asking, tally)


@settings(max_examples=15)
@given(CHANCE)
def test_a_case_comes_back_from_its_file(random: Random) -> None:
    case = drawn(random)
    assert written(read(written(case))) == written(case)
