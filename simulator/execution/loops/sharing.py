"""Trips and branches that are asked of several programs at once: each heeds those of the loops and predicates it has.

A synchronous training's updates, for example, are a program of their own, without the loops of its workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from simulator.errors import SimvizError
from simulator.execution.loops.branches import Choice, UnknownBranchError
from simulator.execution.loops.trips import UnknownLoopError

Made = TypeVar("Made", covariant=True)


class _Make(Protocol[Made]):
    def __call__(self, *, trips: Mapping[str, int] | None, branches: Mapping[str, Choice] | None) -> Made: ...


@dataclass(eq=False)
class Sharing:
    """What is asked for, and which of it nobody has heeded yet."""

    trips: Mapping[str, int] | None
    branches: Mapping[str, Choice] | None
    heeded: set[str] = field(default_factory=set)
    unknown: dict[str, SimvizError] = field(default_factory=dict)  # name -> what the first said that does not have it

    def heed(self, make: _Make[Made]) -> Made:
        """What one program makes of the trips and branches that it has."""
        if not all(given is None or isinstance(given, Mapping) for given in (self.trips, self.branches)):
            return make(trips=self.trips, branches=self.branches)  # which refuses them
        trips, branches = dict(self.trips or {}), dict(self.branches or {})
        while True:
            try:
                made = make(trips=trips, branches=branches)
            except UnknownLoopError as error:
                self.unknown.setdefault(error.name, error)
                del trips[error.name]
            except UnknownBranchError as error:
                self.unknown.setdefault(error.name, error)
                del branches[error.name]
            else:
                self.heeded |= trips.keys() | branches.keys()
                return made

    def check(self) -> None:
        """Raise the SimvizError of the first name that no program has."""
        for name, error in self.unknown.items():
            if name not in self.heeded:
                raise error
