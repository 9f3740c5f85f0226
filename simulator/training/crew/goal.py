"""When a run is over, which whoever waits for it may put off when it is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.training.crew.ledger import Noted


@dataclass
class Goal:
    """Updates to be made. A run that goes on is the same as if that many had been asked for at first."""

    limit: int
    further: Callable[[Noted], int] | None = None  # asked when they are made: how many there are to be; no more: enough
    told: Callable[[int, int], None] | None = None  # now and then: how many there are, and are to be

    def put_off(self, noted: Callable[[], Noted]) -> bool:
        """Whether there are to be more than those that are made."""
        more = self.limit if self.further is None else self.further(noted())
        goes_on = more > self.limit
        self.limit = max(self.limit, more)
        return goes_on

    def tell(self, updates: int) -> None:
        """So many there are."""
        if self.told is not None:
            self.told(updates, self.limit)
