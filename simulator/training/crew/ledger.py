"""Counters of a run, read now and then: work per device and task, bytes per link, steps, updates.

Sums alone, so that memory grows by a few numbers per step and update, whatever the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simulator.columns import Ints, ints
from simulator.execution.routes import Routes
from simulator.training.training import CutShort, Spent

if TYPE_CHECKING:
    from simulator.training.crew.combining import Crew
    from simulator.training.crew.recording import Recorder
    from simulator.units import Nanos


# Client, number, start, end, time in which a gate waited, time in which an input was waited for.
Row: TypeAlias = tuple[int, int, int, int, int, int]


class Noted(NamedTuple):
    """What is known when a run is over."""

    ledger: Ledger
    dropped: int  # gradients
    recorder: Recorder
    end_ns: Nanos
    under_way: tuple[tuple[int, int, int], ...]  # (client, number, start) of steps that the end of the run cut off
    spent: Spent
    marks: tuple[Spent, ...]  # at some updates before
    input_ns: Ints  # [I] that all who drew from each input waited for it


def under_way(
    running: Sequence[bool], number: Sequence[int], begin_ns: Sequence[Nanos], end_ns: Nanos
) -> tuple[tuple[int, int, int], ...]:
    """The steps that have taken time already when the run ends, by client."""
    rows = enumerate(zip(running, number, begin_ns, strict=True))
    return tuple((client, at, begin) for client, (runs, at, begin) in rows if runs and begin < end_ns)


class Ledger:
    """Steps and updates as they were made, and sums. Axes: K tasks, D devices, W routes, L links, Z crashes."""

    def __init__(self, crew: Crew, routes: Routes) -> None:
        pairs = [(route, link) for route, links in enumerate(routes.links) for link in links]
        self.links = np.array(pairs, np.int64).reshape(len(pairs), 2).T  # [2, pairs]
        self.steps: list[Row] = []
        self.updates: list[tuple[int, int, int, int, int]] = []  # time, client, staleness, gradients, examples
        self.lost = [0] * (0 if crew.disturbed is None else len(crew.disturbed.crash_task))  # [Z] updates
        self.cut: list[CutShort] = []

    def summed(
        self,
        updates: int,
        now: Nanos,
        task_ns: npt.NDArray[np.int64],
        busy_ns: tuple[Sequence[int] | Ints, Sequence[int] | Ints],
        carried: Sequence[int] | Ints,
        link_ns: Sequence[int] | Ints,
    ) -> Spent:
        """Sums as columns. `task_ns` [kind, K] is without waiting; `busy_ns` is that of all jobs, and of the work for
        transfers alone; `carried` [W] is by route.
        """
        route, link = self.links
        link_bytes = np.zeros(len(link_ns), np.int64)
        np.add.at(link_bytes, link, np.asarray(carried, np.int64)[route])
        tasks = np.concatenate([task_ns, now - task_ns.sum(axis=0, keepdims=True)]).T.copy()
        tasks.setflags(write=False)
        return Spent(updates, now, tasks, ints(busy_ns[0]), ints(busy_ns[1]), ints(link_bytes), ints(link_ns))
