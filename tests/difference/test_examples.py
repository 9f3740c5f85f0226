"""What once differed agrees, and goes on to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulator.oracle.child import Asking
from tests.difference.asking import ask, conversation
from tests.difference.examples import EXAMPLES
from tests.difference.verdict import judged

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with conversation() as found:
        yield found


@pytest.mark.parametrize("name", EXAMPLES)
def test_both_agree(name: str, asking: Asking) -> None:
    case = EXAMPLES[name].case
    seen = ask(asking, case)
    assert seen is not None, "TensorFlow does not import it"
    verdict = judged(case, seen)
    assert verdict.aspect == "", verdict.said
    assert verdict.refused or verdict.placed
