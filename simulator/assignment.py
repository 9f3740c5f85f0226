"""The assignment: which device runs each node, and why. Algorithms make it; it belongs to the world."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.columns import Ids, Ints

# Why a node is where it is. `Assignment.why` holds the row.
RULES = (
    "asked for by the graph's own device string",  # 0 REQUESTED
    "the default device of the cluster, as nothing was asked for",  # 1 DEFAULT
    "placed with a member of its colocation group",  # 2 COLOCATED
    "chosen by cost",  # 3 COST
    "the single device that runs the whole step fastest",  # 4 SINGLE
    "that device has no kernel or may not be used: the CPU of its task",  # 5 CPU_OF_TASK
    "the only device that it may use",  # 6 ONLY
    "does not run in this step: with its group or on the default device",  # 7 NOT_RUN
    "asked for, but soft placement relaxed the type or the number",  # 8 RELAXED
    "asked for, but the reference or resource that it uses is elsewhere",  # 9 OVERRULED
)
REQUESTED, DEFAULT, COLOCATED, COST, SINGLE, CPU_OF_TASK, ONLY, NOT_RUN, RELAXED, OVERRULED = range(len(RULES))


@dataclass(frozen=True, eq=False)
class Assignment:
    """A device for every node of a graph. Axis: N nodes."""

    devices: tuple[str, ...]  # [D] full device names, the rows of the cluster
    device: Ids  # [N] row of `devices`
    why: Ids  # [N] row of RULES
    asked: str  # the algorithm that was asked for
    used: str  # the one whose result this is: another when it was better
    priority: Ints | None = None  # [N] smaller runs first; None: by ready time
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.device)

    def name_of(self, node: int) -> str:
        """Full name of the device that runs a node."""
        return self.devices[int(self.device[node])]
