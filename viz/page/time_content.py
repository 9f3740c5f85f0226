"""Columns of the page's timelines, for a step and for a training; `assets/timeline.js` draws both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias  # Any: elements of a column

import numpy as np
import numpy.typing as npt

from simulator.cluster.cluster import Cluster
from simulator.cluster.master import short_task
from simulator.columns import Ints, ids, positions
from simulator.execution.trace import Moments, Trace
from simulator.training.training import Training
from simulator.wording import counted
from viz import figures, training_figures
from viz.scene import Scene, Trained
from viz.timeline.step_timeline import step_timeline
from viz.timeline.timeline import Timeline
from viz.timeline.training_timeline import Band, all_steps, bands, lost_updates, recorded

# A column of numbers may be an array; a page has it as a list.
Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | npt.NDArray[Any] | str | int | float | bool | None"

MAX_MEMORY_POINTS = 50_000  # of all devices together; more are thinned, peaks kept
FEWEST_MEMORY_POINTS = 100  # of each device
MOST_STEPS = 20_000  # of a training; later ones are left out
MOST_UPDATES = 20_000
MOST_SLICES = 60_000  # of the recorded steps of a training, the longest ones


def step_contents(scene: Scene) -> Mapping[str, Json]:
    """The timeline of a step, with what its slices, transfers and memory stand for."""
    trace, timeline = scene.trace, step_timeline(scene)
    cut = figures.transfers(scene)
    most = max(MAX_MEMORY_POINTS // max(len(scene.cluster), 1), FEWEST_MEMORY_POINTS)
    curves: list[Json] = []
    for counter in timeline.counters:
        keep = _thinned(counter.level, most)
        curves.append({"time_ns": counter.time_ns[keep], "bytes": counter.level[keep]})
    return {
        "timeline": {
            **_slices(timeline, np.arange(len(timeline.slices.lane))),
            "ready_ns": timeline.slices.ready_ns,
            "packs": np.flatnonzero(timeline.slices.packs),
        },
        "slices": {
            "node": figures.slice_nodes(scene),
            "iteration": trace.ops.iteration,
            "iterations": [list(tag) for tag in trace.iterations],
        },
        "transfers": {
            "tensor": cut.tensor,
            "src": cut.source,
            "dst": cut.target,
            "bytes": cut.nbytes,
            "pair": trace.transfers.row,
            "iteration": trace.transfers.iteration,
            "dead": np.flatnonzero(trace.transfers.dead),
            **{field.name: getattr(trace.moments, field.name) for field in fields(Moments)},
            "route": cut.route,
            "routes": [list(route) for route in cut.routes],
        },
        "memory": {
            "curves": curves,
            "peak_bytes": trace.peak_bytes,
            "resident_bytes": trace.resident_bytes,
        },
        "critical": _critical_ops(trace),
    }


def _critical_ops(trace: Trace) -> Json:
    """The ops on the critical path, in order of time, as rows of the trace's ops."""
    if trace.critical is None:
        return None
    place = positions(trace.ops.task, len(trace.tasks.kind))
    rows = place[trace.critical]
    return rows[rows >= 0]


def _slices(timeline: Timeline, rows: npt.NDArray[np.intp]) -> dict[str, Json]:
    """The lanes and these slices; `transfer` is -1 of an op. Ops come first, in order of the trace's."""
    slices = timeline.slices
    return {
        "lanes": [[lane.kind, lane.row, lane.number] for lane in timeline.lanes],
        "lane": slices.lane[rows],
        "transfer": slices.transfer[rows],
        "start_ns": slices.start_ns[rows],
        "end_ns": slices.end_ns[rows],
        "critical": np.flatnonzero(slices.critical[rows]),
    }


def _thinned(levels: Ints, most: int) -> npt.NDArray[np.intp]:
    """Rows to keep of a curve: all, or the lowest and highest of each of most/2 stretches."""
    if len(levels) <= most:
        return np.arange(len(levels))
    kept: set[int] = {0, len(levels) - 1}
    for stretch in np.array_split(np.arange(len(levels)), most // 2):
        kept.add(int(stretch[np.argmin(levels[stretch])]))
        kept.add(int(stretch[np.argmax(levels[stretch])]))
    return np.array(sorted(kept), np.intp)


def recorded_contents(trained: Trained, cluster: Cluster) -> Json:
    """The timeline of the first steps of all clients, as far as a page can hold it."""
    timeline, trace = recorded(trained, cluster), trained.training.trace
    assert trace is not None
    rows = _longest(timeline.slices.start_ns, timeline.slices.end_ns, MOST_SLICES)
    shown = _slices(timeline, rows)
    label = timeline.slices.label[rows]
    used, numbered = np.unique(label, return_inverse=True)
    texts = [(one.name, one.op or one.kind) for one in map(timeline.labels.__getitem__, used.tolist())]
    number = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    moved = timeline.transfers
    return {
        **shown,
        "task_of": list(cluster.task_of),
        "labels": list(map(list, number)),
        "label": ids([number[text] for text in texts])[numbered.reshape(-1)],
        "client": timeline.slices.client[rows],
        "step": timeline.slices.step[rows],
        "transfers": {
            "src": moved.source,
            "dst": moved.target,
            "bytes": moved.nbytes,
            "arrived_ns": trace.moments.arrived_ns,
        },
        "left_out": len(timeline.slices.lane) - len(rows),
    }


def _longest(start_ns: Ints, end_ns: Ints, most: int) -> npt.NDArray[np.intp]:
    """The rows that last longest, at most so many, in their order."""
    return np.sort(np.lexsort((np.arange(len(start_ns)), start_ns - end_ns))[:most])


def steps_contents(trained: Trained, cluster: Cluster) -> Json:
    """The steps of a training by client, its updates, its disturbances, and the waits for late tasks."""
    training = trained.training
    steps, happened = all_steps(training), bands(trained)
    count = len(steps.client)
    shown = np.argsort(steps.start_ns, kind="stable")[:MOST_STEPS]
    updates = training.update_ns[:MOST_UPDATES]
    cut_off = count > MOST_STEPS or len(training.update_ns) > MOST_UPDATES
    end = int(training.end_ns)
    if cut_off:
        last_step = int(steps.end_ns[shown].max()) if count > MOST_STEPS else end
        last_update = int(updates[-1]) if len(training.update_ns) > MOST_UPDATES else end
        end = min(end, last_step, last_update)
    left_out = f"the rest is not shown: {counted(count, 'step')} are too many" if cut_off else ""
    names = zip(
        training.clients,
        training.client_task.tolist(),
        training.is_worker.tolist(),
        training_figures.client_devices(trained, cluster),
        strict=True,
    )
    return {
        "clients": [
            [name, task, short_task(training.tasks[task]), bool(worker), device] for name, task, worker, device in names
        ],
        "session_ns": training.session_ns,
        "waited_for": [short_task(training.tasks[task]) if task >= 0 else "" for task in training.waited_for.tolist()],
        **{name: column[shown] for name, column in steps._asdict().items()},
        "update_ns": updates,
        "update_client": training.update_client[: len(updates)],
        "update_staleness": training.update_staleness[: len(updates)],
        "lost": [row for row in lost_updates(trained, happened).tolist() if row < len(updates)],
        "bands": [_band(band, training) for band in happened],
        "cut_ns": int(trained.answers.cut_ns),
        "whole_ns": end,
        "left_out": left_out,
    }


def _band(band: Band, training: Training) -> Json:
    return {
        "kind": band.kind,
        "task": band.task,
        "name": short_task(training.tasks[band.task]),
        "start_ns": band.start_ns,
        "end_ns": band.end_ns,
        "crash": band.crash,
        "lost": band.lost,
        "saved_ns": band.saved_ns,
        "cut": [[one.client, one.number, one.start_ns] for one in band.cut],
    }
