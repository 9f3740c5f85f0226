"""The timeline of a training: every step as a bar, its disturbances, and its first steps op by op.

A lane per client holds its steps and updates. A lane per task and kind holds its disturbances: a late start, a pause,
or a crash with the restore. The time before a session starts is a slice that names the task that it waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import chain, islice, repeat
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from simulator.cluster.cluster import Cluster
from simulator.cluster.master import short_task
from simulator.columns import Ids, Ints, flags, ids, ints
from simulator.training.training import CutShort, Training
from simulator.units import Nanos
from simulator.wording import counted
from viz.scene import Trained
from viz.timeline.labels import Label
from viz.timeline.timeline import Arrow, DrawnLane, Facts, Slices, Timeline, joined, of_trace
from viz.transfers import DrawnClient

WHOLE, BY_END = -2, -1  # of a complete step, and of one that the end of the run cut off
MOST_STEPS = 200_000  # bars, and as many updates: the first ones
MOST_ARROWS = 20_000  # of the first transfers
MOST_PAUSES = 5_000  # of all tasks together: the first ones

Kind: TypeAlias = Literal["late", "pause", "gone", "restores"]
LANES = {"late": "late start", "pause": "pauses", "gone": "crashes", "restores": "crashes"}
SAID = {"late": "has not started", "pause": "pauses", "gone": "is gone", "restores": "restores its checkpoint"}


# ---- disturbances


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of time in which a task does nothing for others, with the cost of a crash."""

    kind: Kind
    task: int  # row of the training's tasks
    start_ns: Nanos  # before the run ends
    end_ns: Nanos  # perhaps after it
    crash: int = -1  # row of `Disturbed`, for "gone" and "restores"
    lost: int = 0  # updates that the crash took back
    saved_ns: Nanos = -1  # time of the checkpoint to which all fell back; -1: nothing was lost
    cut: tuple[CutShort, ...] = ()  # the steps that it ended


def bands(trained: Trained) -> tuple[Band, ...]:
    """The disturbances of tasks that began before the run ended, in order of (task, start)."""
    up_ns, end_ns = trained.disturbed.up_ns.tolist(), trained.training.end_ns
    late = (Band("late", task, 0, up) for task, up in enumerate(up_ns) if up)
    every = chain(late, _pauses(trained), _crashes(trained))
    return tuple(sorted((one for one in every if one.start_ns < end_ns), key=lambda one: (one.task, one.start_ns)))


def _crashes(trained: Trained) -> Iterator[Band]:
    training, disturbed = trained.training, trained.disturbed
    for crash, (task, one) in enumerate(disturbed.crashes):
        lost, up_ns = int(training.lost_by_crash[crash]), one.at_ns + one.down_ns
        saved_ns = one.at_ns // one.checkpoint_ns * one.checkpoint_ns if lost else -1
        cut = tuple(step for step in training.cut_short if step.crash == crash)
        yield Band("gone", task, one.at_ns, up_ns, crash, lost, saved_ns, cut)
        if one.restore_ns:
            yield Band("restores", task, up_ns, one.back_ns, crash)


def _pauses(trained: Trained) -> Iterator[Band]:
    """The first pauses of all tasks."""
    each = [zip(starts, repeat(task), repeat(length), strict=False) for task, starts, length in _paused(trained)]
    for start, task, length in islice(merge(*each), MOST_PAUSES):
        yield Band("pause", task, start, start + length)


def _paused(trained: Trained) -> list[tuple[int, range, Nanos]]:
    """Each task that pauses, the starts of its pauses, and their length."""
    disturbed, end_ns = trained.disturbed, trained.training.end_ns
    return [
        (task, range(phase, end_ns, period or end_ns), length)
        for task, (phase, period, length) in enumerate(disturbed.pauses)
        if length and phase < end_ns
    ]


def not_drawn(trained: Trained) -> str:
    """A sentence on pauses that are too many to be drawn; "": all are drawn."""
    left = sum(len(starts) for _, starts, _ in _paused(trained)) - MOST_PAUSES
    return f"{counted(left, 'later pause')} {'is' if left == 1 else 'are'} not drawn" if left > 0 else ""


def lost_updates(trained: Trained, found: Sequence[Band]) -> Ids:
    """Rows of the updates that crashes took back: those since the last checkpoint before each crash."""
    update_ns, taken = trained.training.update_ns, set[int]()
    for band in found:
        if band.lost:
            first, last = np.searchsorted(update_ns, [band.saved_ns, band.start_ns], side="right").tolist()
            taken.update(range(first, last))
    return ids(sorted(taken))


# ---- the timeline


class _Bar(NamedTuple):
    """A slice that is no part of the trace."""

    lane: DrawnLane
    label: Label
    client: int  # -1: none
    step: int
    start: Nanos
    end: Nanos
    facts: Facts


def recorded(trained: Trained, cluster: Cluster) -> Timeline:
    """The first steps of all clients, op by op."""
    trace = trained.training.trace
    assert trace is not None
    clients = [DrawnClient(one.program.name, one.program.graph, one.partitions, one.devices) for one in trained.clients]
    return of_trace(trace, cluster, clients)


def training_timeline(trained: Trained, cluster: Cluster) -> Timeline:
    """Sessions, disturbances, steps and updates, then the recorded steps with arrows."""
    training, first = trained.training, recorded(trained, cluster)
    clients = [
        DrawnLane("client", training.tasks[task], f"steps of {name}", row)
        for row, (name, task) in enumerate(zip(training.clients, training.client_task.tolist(), strict=True))
    ]
    parts = (_sessions(trained), _disturbances(trained), _steps(trained), _updates(trained))
    bars = list(chain.from_iterable(parts))
    tasks = {bar.lane for bar in bars if bar.lane.kind == "task"}
    own = [*clients, *sorted(tasks, key=lambda lane: (lane.row, lane.name))]
    lane_of = {lane: row for row, lane in enumerate(own)}
    labels = {label: row for row, label in enumerate(dict.fromkeys(bar.label for bar in bars))}
    start_ns = ints([bar.start for bar in bars])
    before = Slices(
        lane=ids([lane_of[bar.lane] for bar in bars]),
        label=ids([labels[bar.label] for bar in bars]),
        packs=flags([False] * len(bars)),
        client=ids([bar.client for bar in bars]),
        step=ids([bar.step for bar in bars]),
        op=ids([-1] * len(bars)),
        transfer=ids([-1] * len(bars)),
        ready_ns=start_ns,
        start_ns=start_ns,
        end_ns=ints([bar.end for bar in bars]),
        critical=flags([False] * len(bars)),
    )
    rest = replace(first.slices, lane=ids(first.slices.lane + len(own)), label=ids(first.slices.label + len(labels)))
    slices = joined([before, rest])

    def facts(row: int) -> Facts:
        if row < len(bars):
            return bars[row].facts
        client, step = int(slices.client[row]), int(slices.step[row])
        return {"client": training.clients[client], "step": step, **first.facts(row - len(bars))}

    def arrows(most: int | None) -> Iterator[Arrow]:
        for number, stops in first.arrows(most):
            yield Arrow(number, [(when, lane + len(own)) for when, lane in stops])

    return Timeline((*own, *first.lanes), (*labels, *first.labels), slices, first.transfers, facts, arrows)


def _lane_of_client(trained: Trained, client: int) -> DrawnLane:
    training = trained.training
    task = training.tasks[int(training.client_task[client])]
    return DrawnLane("client", task, f"steps of {training.clients[client]}", client)


def _sessions(trained: Trained) -> Iterator[_Bar]:
    """The time in which each client waits for a task to start."""
    training = trained.training
    columns = (training.session_ns.tolist(), training.waited_for.tolist())
    for client, (start, task) in enumerate(zip(*columns, strict=True)):
        if start:
            what = f"waits for {short_task(training.tasks[task])}" if task >= 0 else "waits"
            facts: Facts = {"client": training.clients[client]}
            yield _Bar(_lane_of_client(trained, client), Label(what, "", "session"), client, -1, 0, start, facts)


def _disturbances(trained: Trained) -> Iterator[_Bar]:
    """The disturbances of tasks, until the run ended."""
    training = trained.training
    for band in bands(trained):
        task = short_task(training.tasks[band.task])
        facts: Facts = {"task": task, "until ns": band.end_ns}
        if band.kind == "gone":
            facts["updates lost"] = band.lost
            facts["steps cut short"] = len(band.cut)
            if band.lost:
                facts["checkpoint ns"] = band.saved_ns
            if band.cut:
                facts["begun before ns"] = sum(one.end_ns - one.start_ns for one in band.cut)
        lane = DrawnLane("task", training.tasks[band.task], f"{LANES[band.kind]} of {task}", band.task)
        label, end = Label(f"{task} {SAID[band.kind]}", "", "disturbance"), min(band.end_ns, training.end_ns)
        yield _Bar(lane, label, -1, -1, band.start_ns, end, facts)


class DrawnSteps(NamedTuple):
    """The steps of a training: those that ended, then those that the end of the run or a crash cut off. Axis: S."""

    client: Ints  # [S]
    number: Ints  # [S] of the client's steps
    start_ns: Ints  # [S]
    end_ns: Ints  # [S]
    waiting_ns: Ints  # [S] for tokens and gradients; -1: unknown, as it was cut off
    input_ns: Ints  # [S] for inputs; -1: unknown
    cut: Ints  # [S] WHOLE, BY_END or the crash that cut it off


def all_steps(training: Training) -> DrawnSteps:
    """All steps of a training."""
    ended = (
        training.step_client,
        training.step_number,
        training.step_start_ns,
        training.step_end_ns,
        training.step_waiting_ns,
        training.step_input_ns,
        np.full(len(training.step_client), WHOLE),
    )
    left = [(*row, training.end_ns, -1, -1, BY_END) for row in training.under_way]
    left += [
        (one.client, one.number, one.start_ns, one.end_ns, -1, -1, one.crash)
        for one in training.cut_short
        if one.start_ns < one.end_ns
    ]
    cut_off = np.array(left, np.int64).reshape(len(left), len(ended)).T
    return DrawnSteps(*map(ints, np.concatenate([np.array(ended, np.int64), cut_off], axis=1)))


def _steps(trained: Trained) -> Iterator[_Bar]:
    """The first complete steps in order of start, then those that were cut off."""
    training = trained.training
    steps = all_steps(training)
    whole = np.flatnonzero(steps.cut == WHOLE)
    order = whole[np.lexsort((steps.client[whole], steps.start_ns[whole]))]
    cut_off = np.flatnonzero(steps.cut > (WHOLE if len(whole) <= MOST_STEPS else BY_END))
    rows = np.concatenate([order[:MOST_STEPS], cut_off])
    columns = (column[rows].tolist() for column in steps)
    for client, number, start, end, waited, dry, cut in zip(*columns, strict=True):
        facts: Facts = {"client": training.clients[client], "step": number}
        if cut == WHOLE:
            facts["waited for tokens or gradients ns"] = waited
            if training.inputs:
                facts["waited for input ns"] = dry
        elif cut == BY_END:
            facts["cut off"] = "by the end of the run"
        else:
            gone = training.tasks[trained.disturbed.crashes[cut][0]]
            facts["cut off"] = f"by the crash of {short_task(gone)}"
        lane, label = _lane_of_client(trained, client), Label(f"step {number}", "", "step")
        yield _Bar(lane, label, client, number, start, end, facts)


def _updates(trained: Trained) -> Iterator[_Bar]:
    training = trained.training
    columns = (
        training.update_ns,
        training.update_client,
        training.update_staleness,
        training.update_gradients,
        training.update_examples,
    )
    rows = zip(*(column[:MOST_STEPS].tolist() for column in columns), strict=True)
    for number, (when, client, stale, gradients, examples) in enumerate(rows, start=1):
        facts: Facts = {
            "client": training.clients[client],
            "staleness": stale,
            "gradients": gradients,
            "examples": examples,
        }
        yield _Bar(
            _lane_of_client(trained, client), Label(f"update {number}", "", "update"), client, -1, when, when, facts
        )
