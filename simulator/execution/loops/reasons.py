"""Requested trips and branches: names that the step lacks, and the reasons for what was taken instead or as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from simulator.errors import SimvizError
from simulator.wording import near, printable, some

EVERY = "*"  # stands for every loop
NAMED = 3  # loops or predicates that a note names


class Reason(Enum):
    """The reason for a trip count or for the side of a branch."""

    REQUESTED = "requested by the caller"
    DRAWN = "drawn with the probability that the caller gave"
    KNOWN = "determined by the graph"
    AT_MOST = "at most so often by the graph, and its data may end it before"
    OBSERVED = "as in a step that ran"
    CHOSEN = "chosen so that the fetches run"
    DEFAULT = "not determined: one trip, a predicate that holds"


class UnknownNameError(SimvizError):
    """The step has no loop or predicate of a name in `trips` or `branches`."""

    def __init__(self, message: str, option: str, name: str) -> None:
        super().__init__(message)
        self.option = option  # "trips" or "branches"
        self.name = name


def check_trips(trips: Mapping[str, int], frames: Iterable[str]) -> None:
    """Raise SimvizError for a loop that the step does not have."""
    known = list(frames)
    for name in trips:
        if name != EVERY and name not in known:
            listed = f"its loops are {some([quoted(one) for one in known])}" if known else "it has none"
            raise UnknownNameError(f"The step has no loop {name!r}; {listed}.{near(name, known)}", "trips", name)


def unused_trips(trips: Mapping[str, int], frames: Sequence[object]) -> tuple[str, ...]:
    """A note where trips were requested and there is no loop."""
    return ("The step has no loop, so trips change nothing.",) if trips and not frames else ()


def quoted(name: str) -> str:
    """The name for messages."""
    return f"'{printable(name)}'"
