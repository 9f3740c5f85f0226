"""An episode: the partial schedule of the decisions so far, and what an agent sees of it.

The schedule is a list schedule without gaps. Transfers wait for nothing but their value. It is for features and for
shaping alone; rewards are by the event loop. Times are in units of the mean work of a decision, and as logarithms, so
that a large graph looks like a small one.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import Any  # Any: the widths of numpy's numbers

import numpy as np
import numpy.typing as npt

from placement.columns import COPIED, STAYS
from placement.environment.course import Course
from placement.problem import NEVER
from simulator.units import Bytes, Nanos

DEVICE_FEATURES = (
    "allowed",  # 1: the action is
    "run",  # work of the group there
    "start",  # when its first op would start there, after the earliest of all allowed devices
    "end",  # the same of its end
    "load",  # work that is there already, beyond the least loaded allowed device
    "share",  # all of the work that is there, as a share of the work of all decisions where it is fastest
    "crossing",  # time of the values that would cross between the group and its decided neighbours
    "near",  # share of what it exchanges with decided neighbours, that stays there
    "closest",  # 1: the decided neighbour with which it exchanges most is there
    "kin",  # share of the decided neighbours of its open neighbours that are there, by the values between them
    "traffic",  # time of the values that arrived there from other devices so far
    "filled",  # share of memory that would be resident
    "used",  # 1: some decided group is there
    "last",  # 1: the group before went there
    "cpu",  # 1: it is a CPU
)
GROUP_FEATURES = (
    "position",  # share of the decisions that are made
    "decided",  # share of what the group exchanges, that is with decided neighbours
    "resident",  # bytes that stay with it, as a share of the smallest memory
    "work",  # on its fastest device
    "bytes_in",  # KiB
    "bytes_out",
    "rank",  # upward rank of its first op, as a share of the largest
    "depth",  # place of its first op in the order, as a share
)
_STRONGEST = 8  # ties of a group that are followed to neighbours of neighbours
HIGHEST = 64.0  # of all features: the logarithm of the largest time is below 45


class Episode:
    """The state of an episode: it begins with all groups open that have a choice."""

    def __init__(self, course: Course) -> None:
        self.course = course
        problem = course.problem
        step, count = problem.columns, len(problem.capacity)
        self._group = course.decisions.group.tolist()
        self._wire, self._pace, self._size = (one.tolist() for one in (step.wire_ns, step.pace, step.size))
        self._spread = step.spread.tolist()
        self.device = list(course.fixed)  # [G] -1: open
        self.decided = 0  # number of decisions so far
        self.last = -1  # device of the last one
        self.end_ns: Nanos = 0  # of the partial schedule
        self.work_ns = np.zeros(count)
        self.traffic_ns = np.zeros(count)
        self.resident = np.zeros(count)
        self._free = [[0] * min(lanes, 64) for lanes in step.lanes.tolist()]
        self._done = [0] * len(problem.group)
        self._arrive: dict[int, Nanos] = {}
        self._at = 0
        for group, device in enumerate(self.device):
            if device >= 0:
                self._settle(group, device)
        self._go()

    @property
    def over(self) -> bool:
        """Whether all is decided."""
        return self.decided == len(self.course.turn)

    @property
    def group(self) -> int:
        """The group that is to be decided."""
        return self.course.turn[self.decided]

    def mask(self) -> npt.NDArray[np.int8]:
        """[D] 1: the group may go there, and what stays resident fits; where it fits nowhere, memory does not count."""
        problem, found = self.course.problem, np.zeros(len(self.work_ns), np.int8)
        allowed = list(problem.allowed[self.group])
        room = [at for at in allowed if self.resident[at] + problem.resident[self.group] <= problem.capacity[at]]
        found[room or allowed] = 1
        return found

    def decide(self, device: int) -> None:
        """Put the group on a device that it may use, and go on to the next decision."""
        group = self.group
        self.device[group], self.last = device, device
        self._settle(group, device)
        self.decided += 1
        self._go()

    def group_features(self) -> npt.NDArray[np.float32]:
        """[len(GROUP_FEATURES)]."""
        course, group = self.course, self.group
        ties = course.ties[group]
        known = sum(ns for other, ns in ties if self.device[other] >= 0)
        share = known / max(sum(ns for _, ns in ties), 1.0)
        resident = course.problem.resident[group] / max(min(course.problem.capacity), 1)
        fixed = (self.decided / len(course.turn), share, resident)
        return np.concatenate([fixed, course.facts[self.decided]]).clip(0, HIGHEST).astype(np.float32)

    def device_features(self, mask: npt.NDArray[np.int8]) -> npt.NDArray[np.float32]:
        """[D, len(DEVICE_FEATURES)]; where the mask is 0, all is 0."""
        course, problem, group = self.course, self.course.problem, self.group
        may = np.flatnonzero(mask)
        op = course.first[self.decided]
        begin = np.array([self._start(op, device) for device in may.tolist()], float)
        ends = begin + np.array(problem.run[op], float)[may]
        ties, closest = np.zeros(len(self.work_ns)), -1
        for other, ns in course.ties[group]:
            if (there := self.device[other]) >= 0:
                ties[there] += ns
                closest = there if closest < 0 else closest  # they come by falling time
        exchanged = float(ties.sum())
        capacity = np.array(problem.capacity, float)[may]
        load = self.work_ns[may]
        columns = [
            np.ones(len(may)),
            self._log(course.work_ns[group, may]),
            self._log(begin - begin.min()),
            self._log(ends - ends.min()),
            self._log(load - load.min()),
            load / (course.unit_ns * len(course.turn)),
            self._log(exchanged - ties[may]),
            ties[may] / max(exchanged, 1.0),
            (may == closest).astype(float),
            self._kin()[may],
            self._log(self.traffic_ns[may]),
            (self.resident[may] + problem.resident[group]) / np.maximum(capacity, 1.0),
            (load > 0).astype(float),
            (may == self.last).astype(float),
            np.array(problem.cpu, float)[may],
        ]
        found = np.zeros((len(mask), len(DEVICE_FEATURES)), np.float32)
        found[may] = np.stack(columns, axis=1).clip(0, HIGHEST)
        return found

    def _kin(self) -> npt.NDArray[np.floating[Any]]:
        """[D] over the strongest ties: a variable is open before its reader, whose other inputs may be decided."""
        found = np.zeros(len(self.work_ns))
        for open_, ns in self.course.ties[self.group][:_STRONGEST]:
            if self.device[open_] < 0:
                for other, more_ns in self.course.ties[open_][:_STRONGEST]:
                    if (there := self.device[other]) >= 0:
                        found[there] += min(ns, more_ns)
        return found / max(float(found.sum()), 1.0)

    def _log(self, ns: npt.NDArray[np.floating[Any]] | npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.floating[Any]]:
        found: npt.NDArray[np.floating[Any]] = np.log1p(np.maximum(ns, 0) / self.course.unit_ns)
        return found

    def _settle(self, group: int, device: int) -> None:
        resident: Bytes = self.course.problem.resident[group]
        self.resident[device] += resident
        if self.course.fixed[group] < 0:
            self.work_ns[device] += self.course.work_ns[group, device]

    def _go(self) -> None:
        """Schedule ops up to the next one whose group is open."""
        problem, order = self.course.problem, self.course.order
        while self._at < len(order):
            op = order[self._at]
            device = self.device[self._group[op]]
            if device < 0:
                return
            begin = self._start(op, device, take=True)
            end = begin + max(problem.run[op][device], 0)
            self._done[op] = end
            self.end_ns = max(self.end_ns, min(end, NEVER))
            if not problem.instant[op]:
                heapreplace(self._free[device], end)
            self._at += 1

    def _start(self, op: int, device: int, *, take: bool = False) -> Nanos:
        """When an op could start there; with `take` its inputs go there, each once."""
        problem, course = self.course.problem, self.course
        begin = 0 if problem.instant[op] else self._free[device][0]
        for tensor in problem.inputs[op]:
            maker = course.problem.columns.maker.item(tensor)
            source = self.device[self._group[maker]]
            arrives = self._done[maker]
            spread = self._spread[tensor]
            if source != device and spread != STAYS and not (spread == COPIED and problem.cpu[device]):
                key = tensor * len(self._free) + device
                if key in self._arrive:
                    arrives = self._arrive[key]
                else:
                    wire = self._wire[self._size[tensor] + self._pace[source * len(self._free) + device]]
                    arrives = min(arrives + wire, NEVER)
                    if take:
                        self._arrive[key] = arrives
                        self.traffic_ns[device] += min(wire, NEVER)
            begin = max(begin, arrives)
        return begin
