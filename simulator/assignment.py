"""The assignment: the device of each node, with a reason. Placement algorithms make assignments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from simulator.columns import Ids, Ints
from simulator.notebook import Drawn
from simulator.units import Nanos
from simulator.wording import counted, repr_of

if TYPE_CHECKING:
    from simulator.placer.constraints import Constraints

# Reasons for a node's device; `Assignment.why` has the row. Sections are those of docs/tensorflow.md.
RULES = (
    "asked for by its device string (§3.5)",  # 0 REQUESTED: of the graph, a pin or a replication
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

# The words of docs/tensorflow.md behind a rule: by row of RULES each section and what it says.
SENTENCES: Mapping[int, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        REQUESTED: (
            (
                "§3.5",
                "A group may use the devices that match its request and have a kernel for every member, in the order "
                "of §2.3.",
            ),
        ),
        DEFAULT: (
            (
                "§2.3",
                "They are ordered by kernel priority, then by type (§2.1). On a tie devices of the client's task come "
                "before others. The last tie goes by the full name as text (CPU:10 before CPU:2).",
            ),
        ),
        COLOCATED: (
            ("§3.3", "An edge src -> dst ties two nodes."),
            (
                "§3.4",
                "An entry loc:@NAME joins the group called NAME; every node also joins the group that has its own "
                "name.",
            ),
        ),
        RELAXED: (
            (
                "§3.5",
                "If there are none, soft placement drops type and id from the request, where no resource device has "
                "them, and then in any case. Job, replica and task are never given up.",
            ),
        ),
        OVERRULED: (("§3.3", "If the requests differ, dst's request is replaced by src's, with hard placement, too."),),
        METADATA: (
            (
                "§3.7",
                "Shape, Size, Rank (not ShapeN) follow the producer of their first edge, if it has a device by then "
                "and they may use it.",
            ),
        ),
        PASS_THROUGH: (("§3.7", "An Identity that only passes on follows its input likewise."),),
        GENERATOR: (
            (
                "§3.7",
                "A generator goes where its readers are, if all are on one device and it may use that; else it takes "
                "the default.",
            ),
        ),
    }
)


@dataclass(frozen=True)
class Bound:
    """A time below which no placement can bring the step, and why."""

    ns: Nanos
    why: str  # what binds: "the longest path", "the work of worker:0/GPU:0", "the bytes on ps0 nic out"
    fitting: Bound | None = None  # a larger one, of placements whose memory suffices

    def with_proof(self, proven: Bound | None) -> Bound:
        """The larger of this and an algorithm's own proof."""
        if proven is None or proven.ns <= self.ns:
            return self
        larger = self.fitting is not None and self.fitting.ns > proven.ns
        return replace(proven, fitting=self.fitting if larger else None)


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

    @property
    def placed_on(self) -> list[str]:
        """[N] the full name of each node's device."""
        return [self.devices[row] for row in self.device.tolist()]

    def name_of(self, node: int) -> str:
        """Full name of the device that runs a node."""
        return self.devices[int(self.device[node])]
