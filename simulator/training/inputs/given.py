"""Rates of inputs in the user's words: "1200/s", "batch/fifo_queue=1200/s", "none"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from simulator.errors import SimvizError
from simulator.units import Nanos

NEVER_DRY = "none"
MAX_PER_S = 10**8
MIN_PER_S = 10**-6

_RATE = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:e[0-9]+)?)\s*(?:examples)?\s*/\s*s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rate:
    """How many examples an input hands out per second."""

    text: str
    name: str | None  # of a queue, an iterator or a fed tensor, "feed"; None: all of them
    examples_per_s: float | None  # None: it never runs dry

    def element_ns(self, examples: int) -> Nanos:
        """What an element of so many examples takes, rounded up."""
        assert self.examples_per_s is not None
        return max(1, -int(-examples * 10**9 // self.examples_per_s))


def read_rate(text: str) -> Rate:
    """Read one entry. Raises SimvizError for anything else."""
    name, equals, said = text.rpartition("=")
    said = said.strip()
    if equals and not name.strip():
        raise SimvizError(f"{text!r} names no input; write NAME=1200/s, or 1200/s for all of them")
    if said == NEVER_DRY:
        return Rate(text, name.strip() or None, None)
    found = _RATE.fullmatch(said)
    rate = float(found[1].replace(",", "")) if found else 0.0
    if not MIN_PER_S <= rate <= MAX_PER_S:
        raise SimvizError(
            f"{text!r} is no rate of examples; write 1200/s, NAME=1200/s for one queue or iterator, or none: never dry"
        )
    return Rate(text, name.strip() or None, rate)
