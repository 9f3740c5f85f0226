"""The director of a crew: what the loop asks when many clients take step after step (execution/loop.py).

A client's step begins with a timer and ends with its END, at which its rows are armed anew. Marked ops act at the end
of the round of an instant in which they ended or became ready: those that ended first, in order of number, then gates
and ENDs in the order in which they became ready. What an accumulator or a queue lets go on then does so in the next
round of the same instant.
"""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING

from simulator.errors import DeadlockError
from simulator.execution.loop import ASKS, State
from simulator.training.combining import COUNT
from simulator.training.ledger import Ledger
from simulator.training.noise import ONE, entry, scaled
from simulator.training.pausing import stretched
from simulator.training.synchronising import APPLY, DEQUEUE, ENQUEUE, TAKE, Accumulator, Clocks, TokenQueue

if TYPE_CHECKING:
    from simulator.execution.crossings import Crossings
    from simulator.execution.loop import Wires
    from simulator.execution.tables import Tables
    from simulator.execution.wiring import Wiring
    from simulator.training.combining import Crew
    from simulator.units import Nanos
