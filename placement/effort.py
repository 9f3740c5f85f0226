"""The length of a search, and its progress."""

from __future__ import annotations

import re
from dataclasses import dataclass

from simulator import limits
from simulator.arguments import shown
from simulator.errors import SimvizError
from simulator.progress import Say, silent
from simulator.units import as_python, is_quantity, is_whole

_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_DIGITS = 20  # Python reads no number of thousands of digits
_MOST_SECONDS = 1e9
_OVERHEAD, _PER_OP = 5e-6, 5e-8  # seconds


@dataclass(frozen=True)
class Effort:
    """The budget of a search: so many placements judged, or so much time; by default about a second's worth.

    With a number of placements a search repeats. A time ends the same search earlier or later. Raises SimvizError for
    a number that is no budget.
    """

    judged: int | None = None
    seconds: float | None = None
    say: Say = silent  # gets a sentence on its progress now and then

    def __post_init__(self) -> None:
        judged, seconds = as_python(self.judged), as_python(self.seconds)
        object.__setattr__(self, "judged", judged)
        object.__setattr__(self, "seconds", seconds)
        if judged is not None and not (is_whole(judged) and judged >= 0):
            raise SimvizError(f"A budget of {shown(judged)} placements: give a whole number from 0.")
        if seconds is not None and not is_quantity(seconds):
            raise SimvizError(f"A budget of {shown(seconds)} seconds: give a finite number from 0.")

    @property
    def limited(self) -> bool:
        """Somebody said how much."""
        return self.judged is not None or self.seconds is not None

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"{self.seconds:g} s"
        return "about a second's worth" if self.judged is None else f"{self.judged:,} placements"


DEFAULT_EFFORT = Effort()


def judged_in(seconds: float, ops: int) -> int:
    """About how many placements of a step of so many ops are judged in some seconds, by one core of a usual machine."""
    return max(int(seconds / (_OVERHEAD + _PER_OP * ops)), 4)


def seconds_of(effort: Effort, ops: int) -> float:
    """About how long an effort takes, on one core of a usual machine."""
    if effort.judged is None:
        return 1.0 if effort.seconds is None else effort.seconds
    return effort.judged * (_OVERHEAD + _PER_OP * ops)


def read_effort(text: str, say: Say = silent) -> Effort:
    """Read "2s", "500ms", "5min", or a number of placements. Raise SimvizError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h)|(\d+)", text.strip())
    if found is None:
        raise SimvizError(f"{text!r} is no budget; give a time such as 2s, or a number of placements such as 20000.")
    number, unit, count = found.groups()
    if count is None:
        return Effort(seconds=min(float(number) * _UNITS[unit], _MOST_SECONDS), say=say)
    judged, most = int(count.lstrip("0")[:_DIGITS] or 0), limits.PLACEMENTS.most
    if judged > most:
        raise SimvizError(
            f"{count[:_DIGITS]}.. is a budget of more than {most:,} placements; {limits.PLACEMENTS.remedy}."
        )
    return Effort(judged=judged, say=say)
