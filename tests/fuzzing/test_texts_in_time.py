"""Texts of runs of one character: a reader looks at each of them a few times, and not at each pair."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.fuzzing.cases import GRAPH, INPUT, SMALL, Case
from tests.fuzzing.judging import REFUSED, outcomes

RUN = 300_000  # its square would take hours
TEXTS: Mapping[str, tuple[str, str]] = {
    "blank lines before GPU0": ("--cluster", "{" + "\n" * RUN + "GPU0"),
    "blanks after GPU0": ("--cluster", "GPU0" + " " * RUN + "Y"),
    "blanks in a number of GPUs": ("--cluster", '[[host]]\nname = "a"\ngpus = "8' + " " * RUN + '!"'),
    "blanks behind the first field of times": ("--costs", "node" + " " * RUN + "!"),
    "digits of a time": ("--costs", "x,cpu," + "1" * RUN + "!"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_run_of_a_character_takes_time_in_proportion(name: str) -> None:
    option, text = TEXTS[name]
    case = Case("run", (GRAPH, option, INPUT), {GRAPH: SMALL, INPUT: text.encode()})
    ((_, found),) = outcomes([case])  # of which one that takes 20 s is a fault
    assert found.verdict == REFUSED, found.said
