"""Random programs with loops and branches run as in a real session: which nodes, how often, which fetches are dead.

A bounded number; `benchmarks/control_flow.py` draws thousands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import OracleError
from simulator.oracle.child import Asking
from tests.control_flow.examples import EXAMPLES
from tests.control_flow.running import NOT_BUILT
from tests.control_flow.verdict import ask, ask_for, conversation, judged
from tests.difference.forking import DIED

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with conversation() as found:
        yield found


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    """How many programs were compared, so that a run which compares nothing fails."""
    found: Counter[str] = Counter()
    yield found
    assert found["differ"] or found["compared"] > found["asked"] / 2


def hold(asking: Asking, tally: Counter[str], seed: int | str, size: int, *, v2: bool) -> None:
    tally["asked"] += 1
    try:
        case = ask(asking, seed, size, v2=v2)
    except OracleError as error:
        if str(error) not in (DIED, NOT_BUILT):
            raise
        return
    if case.facts["refusal"]:
        return
    said = judged(case).said
    tally["differ"] += bool(said)
    assert not said
    tally["compared"] += 1


@settings(max_examples=settings().max_examples // 2)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 12), v2=st.booleans())
def test_programs_run_as_in_a_session(asking: Asking, tally: Counter[str], seed: int, size: int, v2: bool) -> None:
    hold(asking, tally, seed, size, v2=v2)


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_once_differed(asking: Asking, name: str) -> None:
    case = ask_for(asking, name)
    assert not case.facts["refusal"]
    assert not judged(case).said
