"""Moments of a run, at updates, at which it is known what was done until then: a bounded number, evenly spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.training.training import Spent

MOST = 128


class Milestones:
    """First every update is one; whenever there are too many, every second is forgotten and half as many follow."""

    def __init__(self) -> None:
        self.kept: list[Spent] = []
        self.every, self.next = 1, 1  # updates: between two of them, and until that which follows

    def note(self, spent: Spent) -> None:
        """Keep what was done until now; there are `next` updates or, where several come at once, more."""
        self.kept.append(spent)
        if len(self.kept) == MOST:
            self.kept = self.kept[1::2]
            self.every *= 2
        self.next = spent.updates + self.every
