"""The assignment: the device of each node, with a reason. Placement algorithms make assignments."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from simulator.columns import Ids, Ints
from simulator.notebook import Drawn
from simulator.units import Nanos
from simulator.wording import counted, repr_of

if TYPE_CHECKING:
    from simulator.placer.constraints import Constraints

# Reasons for a node's device; `Assignment.why` has the row. Sections are those of docs/tensorflow.md.
RULES = (
    "asked for by the graph's own device string (§3.5)",  # 0 REQUESTED
    "nothing decides: the first device with a kernel, by kernel, type, own task before others, then name (§2.3)",  # 1
    "placed with a member of its colocation group (§3.3 edges, §3.4 _class)",  # 2 COLOCATED
    "chosen by cost",  # 3 COST
    "the single device that runs the whole step fastest",  # 4 SINGLE
    "that device has no kernel or may not be used: the CPU of its task",  # 5 CPU_OF_TASK
    "the only device that it may use",  # 6 ONLY
    "does not run in this step: with its group or on the default device",  # 7 NOT_RUN
    "asked for, but soft placement relaxed the type or the number (§3.5)",  # 8 RELAXED
    "asked for, but the reference or resource that it uses is elsewhere (§3.3)",  # 9 OVERRULED
    "only looks at the shape of its input: on the input's device (§3.7, metadata)",  # 10 METADATA
    "passes its input on between two equal requests: on the input's device (§3.7, Identity)",  # 11 PASS_THROUGH
    "has no inputs, and all that read it are on one device: on that device (§3.7, generator)",  # 12 GENERATOR
)
REQUESTED, DEFAULT, COLOCATED, COST, SINGLE, CPU_OF_TASK, ONLY, NOT_RUN, RELAXED, OVERRULED = range(10)
METADATA, PASS_THROUGH, GENERATOR = range(10, len(RULES))


@dataclass(frozen=True)
class Bound:
    """A time below which no placement can bring the step, and why."""

    ns: Nanos
    why: str  # what binds: "the longest path", "the work of worker:0/GPU:0", "the bytes on ps0 nic out"

    def with_proof(self, proven: Bound | None) -> Bound:
        """The larger of this and an algorithm's own proof."""
        return self if proven is None or proven.ns <= self.ns else proven


@dataclass(frozen=True)
class SearchRecord:
    """A search for a placement: its counts and improvements. Its judge has each step cut as by one session."""

    judged: int  # placements, in all
    seed: int
    effort: str  # what it was allowed, as a phrase
    groups: int  # that have a choice of devices
    listed: tuple[tuple[str, Nanos | None], ...]  # the other algorithms and their makespans; None: no plan that fits
    left_out: tuple[str, ...]  # algorithms that were not asked: they would take too long, or lack a library
    better: tuple[tuple[int, str, Nanos], ...]  # each time it found one that is better: placements judged so far, how
    cycles: int  # of annealing
    accepted: int  # moves of it
    hopeless: bool = False  # it ended before its budget, as nothing better was to be expected

    @property
    def gains(self) -> dict[str, Nanos]:
        """The time that each part of the search saved; the first placement saves nothing."""
        gained = {how: 0 for _, how, _ in self.better}
        for (_, _, before), (_, how, after) in pairwise(self.better):
            gained[how] += before - after
        return gained


@dataclass(frozen=True, eq=False)
class Assignment(Drawn):
    """A device for every node of a graph. Axis: N nodes."""

    devices: tuple[str, ...]  # [D] full device names, the rows of the cluster
    device: Ids  # [N] row of `devices`
    why: Ids  # [N] row of RULES
    asked: str  # the requested algorithm
    used: str  # the algorithm of this result: another one where its result was better
    priority: Ints | None = None  # [N] smaller runs first; None: by ready time
    notes: tuple[str, ...] = ()
    # the rules that it was made by; `simulator.placer.legality` looks for them where this is None
    constraints: Constraints | None = None
    log_order: Ids | None = None  # [N] the nodes in the order of TensorFlow's placement log; None for other algorithms
    search: SearchRecord | None = None  # what the search for it did; None for other algorithms
    proven: Bound | None = None  # the algorithm's own proof

    def __len__(self) -> int:
        return len(self.device)

    def __repr__(self) -> str:
        used = f"{len(set(self.device.tolist()))} of {counted(len(self.devices), 'device')}"
        return repr_of(self, f"{counted(len(self), 'node')} on {used}", f"by {self.used}")

    def name_of(self, node: int) -> str:
        """Full name of the device that runs a node."""
        return self.devices[int(self.device[node])]
