"""What happened to tasks in a training, and when: they came up late, stood still, were gone, read their checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice, repeat
from typing import Literal, TypeAlias

import numpy as np

from simulator.columns import Ids, ids
from simulator.training.training import CutShort
from simulator.units import Nanos
from simulator.wording import counted
from viz.scene import Trained

MOST_PAUSES = 5_000  # that are shown, of all tasks; the first ones

Kind: TypeAlias = Literal["late", "pause", "gone", "restores"]


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of time in which a task does nothing for others; of a crash also what it cost."""

    kind: Kind
    task: int  # row of the training's tasks
    start_ns: Nanos  # before the run ends
    end_ns: Nanos  # perhaps after it
    crash: int = -1  # row of `Disturbed`, of what is gone or restores
    lost: int = 0  # updates that the crash took back
    saved_ns: Nanos = -1  # when the checkpoint was taken to which all fell back; -1: nothing fell back
    cut: tuple[CutShort, ...] = ()  # the steps that it ended


def bands(trained: Trained) -> tuple[Band, ...]:
    """All that began before the run ended, in order of (task, start)."""
    up_ns, end_ns = trained.disturbed.up_ns.tolist(), trained.training.end_ns
    late = (Band("late", task, 0, up) for task, up in enumerate(up_ns) if up)
    every = chain(late, _pauses(trained), _crashes(trained))
    return tuple(sorted((one for one in every if one.start_ns < end_ns), key=lambda one: (one.task, one.start_ns)))


def _crashes(trained: Trained) -> Iterator[Band]:
    training, disturbed = trained.training, trained.disturbed
    columns = (disturbed.crash_task, disturbed.crash_at_ns, disturbed.crash_down_ns, disturbed.crash_restore_ns)
    for crash, (task, at, down, restore) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        every, lost = int(disturbed.crash_checkpoint_ns[crash]), int(training.lost_by_crash[crash])
        saved_ns = at // every * every if lost else -1
        cut = tuple(one for one in training.cut_short if one.crash == crash)
        yield Band("gone", task, at, at + down, crash, lost, saved_ns, cut)
        if restore:
            yield Band("restores", task, at + down, at + down + restore, crash)


def _pauses(trained: Trained) -> Iterator[Band]:
    """The first ones of all tasks."""
    each = [zip(starts, repeat(task), repeat(length), strict=False) for task, starts, length in _paused(trained)]
    for start, task, length in islice(merge(*each), MOST_PAUSES):
        yield Band("pause", task, start, start + length)


def _paused(trained: Trained) -> list[tuple[int, range, Nanos]]:
    """Task, the starts of its pauses, and how long each is."""
    disturbed, end_ns = trained.disturbed, trained.training.end_ns
    columns = (disturbed.pause_phase_ns, disturbed.pause_period_ns, disturbed.pause_length_ns)
    return [
        (task, range(phase, end_ns, period or end_ns), length)
        for task, (phase, period, length) in enumerate(zip(*(one.tolist() for one in columns), strict=True))
        if length and phase < end_ns
    ]


def not_drawn(trained: Trained) -> str:
    """A sentence on pauses that are too many to be drawn; "": all are there."""
    left = sum(len(starts) for _, starts, _ in _paused(trained)) - MOST_PAUSES
    return f"{counted(left, 'pause')} that came later are not drawn" if left > 0 else ""


def lost_updates(trained: Trained, found: Sequence[Band]) -> Ids:
    """Rows of the updates that crashes took back: those after the last checkpoint before each, as `Crash` says."""
    update_ns, taken = trained.training.update_ns, set[int]()
    for band in found:
        if band.lost:
            first, last = np.searchsorted(update_ns, [band.saved_ns, band.start_ns], side="right").tolist()
            taken.update(range(first, last))
    return ids(sorted(taken))
