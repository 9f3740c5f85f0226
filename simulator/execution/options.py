"""The options of a simulation, as one value that is checked when it is made and handed through whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from simulator.arguments import shown
from simulator.cluster.contention import CONTENTIONS
from simulator.errors import SimvizError, UnsupportedError
from simulator.units import as_python, is_whole

if TYPE_CHECKING:
    from simulator.observed.observed_step import ObservedStep

# How a predicate is decided: it holds or not, with a probability, or the number of a Case's branch.
Choice: TypeAlias = bool | float | int
ORDERS = ("auto", "fifo", "priority", "tensorflow")  # how a device chooses among its ready ops
ENFORCED = "enforced"  # the order of a run that is simulated in two of these (`enforcing`)
ENGINES = ("auto", "python", "compiled")  # which event loop runs
MAX_SEED = 2**64 - 1  # noise draws from 64 bits


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Options by which a step is simulated.

    `order` is how a device chooses among ready ops. By "fifo" it goes by ready time, by "priority" by
    `Partitions.priority` (smaller first; ties go by row). By "tensorflow" it chooses as TensorFlow's executor does
    (`executor`). By "auto" the order is "priority" where the assignment gave one, else "fifo"; it is "fifo" where
    several sessions train (`for_sessions`).

    `contention` is how transfers use a link that does not say it itself. By "serial" they use it one at a time, in the
    order in which they come to it, for the time of their bytes. By "fair" they use it at the same time, in max-min fair
    shares, and by "none" as if each were alone.

    `trips` says how often the body of each loop runs, by the `frame_name` of its Enters, "*" for every loop. Without it
    a loop runs as the graph's constants say, else once. `branches` says which way a branch goes, by the node or tensor
    of its predicate. A way is True, False or a probability; for a Case it is the number of the branch. A probability is
    drawn anew in every iteration from `seed`, but once for all steps of a training. Without `branches` a branch goes as
    constants and counters say, else it holds (of a Case, branch 0). Both are copied. `seed` is also that of the noise
    of a training. `observed` is a step that really ran: loops and branches that are not asked for run as they did then.

    `engine` is "python", "compiled" or, by "auto", the faster of them (`choosing.choose`); both give the same result.

    Raises UnsupportedError for an order, a contention or an engine that is not modelled. Raises SimvizError for a seed
    that is no whole number from 0. So it does for trips and branches that are no mappings, and a count of trips that is
    none.
    """

    order: str = "auto"
    contention: str = "serial"
    trips: Mapping[str, int] = field(default_factory=dict, hash=False)
    branches: Mapping[str, Choice] = field(default_factory=dict, hash=False)
    seed: int = 0
    engine: str = "auto"
    observed: ObservedStep | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        for name in ("trips", "branches", "seed"):
            object.__setattr__(self, name, as_python(getattr(self, name)))
        for name, value, known in (
            ("order", self.order, ORDERS),
            ("contention", self.contention, CONTENTIONS),
            ("engine", self.engine, ENGINES),
        ):
            if not isinstance(value, str) or value not in known:
                raise UnsupportedError(
                    f"{name}={shown(value)} is not modelled; choose {' or '.join(map(repr, known))}."
                )
        if not is_whole(self.seed) or not 0 <= self.seed <= MAX_SEED:
            raise SimvizError(f"A seed is a whole number from 0 to 2^64 - 1, not {shown(self.seed)}.")
        for name, given, wanted in (
            ("trips", self.trips, "loops to counts"),
            ("branches", self.branches, "predicates to their values"),
        ):
            if not isinstance(given, Mapping):
                raise SimvizError(f"{name} is {shown(given)}; give a mapping from the names of {wanted}.")
            object.__setattr__(self, name, dict(given))
        for name, count in self.trips.items():
            if not is_whole(count) or count < 0:
                raise SimvizError(f"A loop runs a whole number of times, 0 or more; trips[{name!r}] is {shown(count)}.")

    @property
    def drawn(self) -> tuple[str, ...]:
        """The predicates of which only a probability is given, in order."""
        return tuple(name for name, way in self.branches.items() if isinstance(way, float) and 0 < way < 1)

    def order_for(self, priority: object | None) -> str:
        """The order in which ops with these priorities run; None: they have none.

        Raises SimvizError where priorities are asked for and there are none.
        """
        if self.order == "auto":
            return "fifo" if priority is None else "priority"
        if self.order == "priority" and priority is None:
            raise SimvizError('There are no priorities; give them or choose order="fifo" or "tensorflow".')
        return self.order

    def for_sessions(self, count: int) -> SimulationOptions:
        """The same for the steps of so many sessions; of several, "auto" is "fifo".

        Priorities are of one step of one session, and sessions that share a device know nothing of each other.
        """
        return replace(self, order="fifo") if count > 1 and self.order == "auto" else self

    def unrolls_like(self, other: SimulationOptions) -> bool:
        """Tell whether loops and branches run alike under both, so that both have the same tables."""
        mine, theirs = (self.trips, self.branches, self.seed), (other.trips, other.branches, other.seed)
        return mine == theirs and self.observed is other.observed
