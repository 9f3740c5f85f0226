"""Results of a run: steps, updates, and the use of its time, also at samples in between.

All but steps and updates are sums, so that memory grows by a few numbers per step and update, whatever the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.columns import Ints, ints
from simulator.execution.routes import Routes
from simulator.training.training import CutShort, ResourceUsage

if TYPE_CHECKING:
    from simulator.training.clients.workload import Workload
    from simulator.training.control.recording import Recorder
    from simulator.units import Nanos


# Client, number, start, end, time in which an op waited for a token or a gradient, time in which one did for an input.
StepRow: TypeAlias = tuple[int, int, int, int, int, int]


class RunResult(NamedTuple):
    """The results of a run."""

    log: StepLog
    dropped: int  # gradients
    recorder: Recorder
    end_ns: Nanos
    under_way: tuple[tuple[int, int, int], ...]  # (client, number, start) of steps that the end of the run cut off
    usage: ResourceUsage
    samples: tuple[ResourceUsage, ...]  # at some updates before
    input_ns: Ints  # [I] that clients waited for each input


def under_way(
    running: Sequence[bool], number: Sequence[int], begin_ns: Sequence[Nanos], end_ns: Nanos
) -> tuple[tuple[int, int, int], ...]:
    """The steps that have taken time already when the run ends, by client."""
    rows = enumerate(zip(running, number, begin_ns, strict=True))
    return tuple((client, at, begin) for client, (runs, at, begin) in rows if runs and begin < end_ns)


class StepLog:
    """Steps and updates as they were made. Axes: K tasks, D devices, W routes, L links, Z crashes."""

    def __init__(self, workload: Workload, routes: Routes) -> None:
        pairs = [(route, link) for route, links in enumerate(routes.links) for link in links]
        self.links = np.array(pairs, np.int64).reshape(len(pairs), 2).T  # [2, pairs]
        self.steps: list[StepRow] = []
        self.updates: list[tuple[int, int, int, int, int]] = []  # time, client, staleness, gradients, examples
        self.lost = [0] * (0 if workload.disturbed is None else len(workload.disturbed.crash_task))  # [Z] updates
        self.cut: list[CutShort] = []

    def summed(
        self,
        updates: int,
        now: Nanos,
        task_ns: npt.NDArray[np.int64],
        busy_ns: tuple[Sequence[int] | Ints, Sequence[int] | Ints],
        carried: Sequence[int] | Ints,
        link_ns: Sequence[int] | Ints,
    ) -> ResourceUsage:
        """Counters as columns. `task_ns` [kind, K] is without waiting; `busy_ns` is that of all jobs, and of the
        work for transfers alone; `carried` [W] is by route.
        """
        route, link = self.links
        link_bytes = np.zeros(len(link_ns), np.int64)
        np.add.at(link_bytes, link, np.asarray(carried, np.int64)[route])
        tasks = np.concatenate([task_ns, now - task_ns.sum(axis=0, keepdims=True)]).T.copy()
        tasks.setflags(write=False)
        return ResourceUsage(updates, now, tasks, ints(busy_ns[0]), ints(busy_ns[1]), ints(link_bytes), ints(link_ns))


MOST = 128


class Samples:
    """Samples of a run. At first every update is one; of too many every second is dropped, and half as many follow."""

    def __init__(self) -> None:
        self.kept: list[ResourceUsage] = []
        self.every, self.next = 1, 1  # updates between two samples, and at the next one

    def note(self, usage: ResourceUsage) -> None:
        """Keep what was done until now; there are `next` updates or, where several come at once, more."""
        self.kept.append(usage)
        if len(self.kept) == MOST:
            self.kept = self.kept[1::2]
            self.every *= 2
        self.next = usage.updates + self.every


@dataclass
class StopCondition:
    """The stop condition of a run: a number of updates, which a callback may raise.

    A run that goes on is the same as if that many had been asked for at first.
    """

    limit: int
    extend: Callable[[RunResult], int] | None = None  # returns how many there are to be; the run ends if no more
    on_progress: Callable[[int, int], None] | None = None  # gets updates made, and updates to be made

    def put_off(self, result: Callable[[], RunResult]) -> bool:
        """Whether there are to be more than those that are made."""
        more = self.limit if self.extend is None else self.extend(result())
        goes_on = more > self.limit
        self.limit = max(self.limit, more)
        return goes_on

    def report(self, updates: int) -> None:
        """Report how many updates have been made."""
        if self.on_progress is not None:
            self.on_progress(updates, self.limit)
