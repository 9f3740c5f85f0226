"""Timelines as Chrome trace events, for Perfetto (ui.perfetto.dev) and chrome://tracing.

A process is a task, or all links together; a thread is a lane. The format is that of "Trace Event Format" (Google,
2016). It has complete events X, or instants i for what takes no time, metadata M, counters C, flows s t f. `ts` and
`dur` are microseconds, so a nanosecond is the third decimal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from simulator.cluster.cluster import Cluster
from simulator.cluster.master import short_task
from simulator.wording import cut_off
from viz.figures import notes
from viz.scene import Scene, Trained
from viz.timeline import training_timeline as training_lanes
from viz.timeline.step_timeline import step_timeline
from viz.timeline.timeline import LINKS, Facts, Timeline
from viz.timeline.training_timeline import MOST_ARROWS, training_timeline
from viz.training_figures import regime

Event: TypeAlias = "dict[str, str | int | float | Facts]"
Place: TypeAlias = tuple[int, int]  # process, thread

MAX_BYTES = 200_000_000  # viewers fail on more
MAX_NAME = 400  # letters of a name that a viewer can carry
_FIRST_PROCESS = 10_001  # above all threads: Perfetto takes a thread with its process's number for the main thread


def draw_timeline(scene: Scene, *, max_bytes: int = MAX_BYTES) -> str:
    """JSON text of the step's trace, of at most max_bytes; `otherData` counts the events that are left out.

    Slices are in order of start, with arrows and counters behind them. The last events are left out first.
    """
    other: Facts = {
        "title": scene.title,
        "algorithm": scene.assignment.used,
        "makespan_ns": scene.trace.makespan,
    }
    return _written(_events(step_timeline(scene), scene.cluster), other, notes(scene), max_bytes)


def draw_training(scene: Scene, trained: Trained, *, max_bytes: int = MAX_BYTES) -> str:
    """JSON text of the training's trace, of at most max_bytes as in `draw_timeline`.

    Steps come before ops, so the ops of late steps are left out first.
    """
    training = trained.training
    assert training.trace is not None
    other: Facts = {
        "title": scene.title,
        "regime": regime(trained),
        "end_ns": training.end_ns,
        "recorded": "ops are those of the first steps of each client",
    }
    bars, updates, transfers = len(training.step_client), len(training.update_ns), len(training.trace.transfers.row)
    if max(bars, updates) > training_lanes.MOST_STEPS:
        other["bars"] = f"the first {training_lanes.MOST_STEPS:,} of {bars:,} steps and of {updates:,} updates"
    if transfers > MOST_ARROWS:
        other["arrows"] = f"of the first {MOST_ARROWS:,} of {transfers:,} transfers"
    drawn = _events(training_timeline(trained, scene.cluster), scene.cluster, most_arrows=MOST_ARROWS)
    return _written(drawn, other, notes(scene), max_bytes)


def _events(timeline: Timeline, cluster: Cluster, *, most_arrows: int | None = None) -> Iterator[Event]:
    process = {name: _FIRST_PROCESS + number for number, name in enumerate([*cluster.tasks, LINKS])}
    threads = dict.fromkeys(process.values(), 0)
    places: list[Place] = []
    for lane in timeline.lanes:
        at = process[lane.process]
        threads[at] += 1
        places.append((at, threads[at]))
    return chain(
        _names(timeline, process, places),
        _slices(timeline, places),
        _flows(timeline, places, most_arrows),
        _counters(timeline, process),
    )


def _names(timeline: Timeline, process: dict[str, int], places: Sequence[Place]) -> Iterator[Event]:
    """Names of processes and threads. Tasks are short: of a name with slashes Perfetto shows only the last part."""
    for number, (name, at) in enumerate(process.items()):
        yield from _named("process", (at, 0), name if name == LINKS else short_task(name), number)
    for lane, place in zip(timeline.lanes, places, strict=True):
        further = f" lane {lane.number}" if lane.kind == "device" else f" ({lane.number + 1})"
        yield from _named("thread", place, lane.name + further * bool(lane.number), place[1])


def _named(what: str, place: Place, name: str, sort: int) -> Iterator[Event]:
    at: Event = {"ph": "M", "pid": place[0], "tid": place[1]}
    yield {**at, "name": f"{what}_name", "args": {"name": cut_off(name, MAX_NAME)}}
    yield {**at, "name": f"{what}_sort_index", "args": {"sort_index": sort}}


def _slices(timeline: Timeline, places: Sequence[Place]) -> Iterator[Event]:
    """A slice is an instant of its thread if it takes no time: viewers warn about slices without length."""
    slices = timeline.slices
    columns = (slices.lane, slices.label, slices.start_ns, slices.end_ns)
    for row, (lane, number, start, end) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        label, place = timeline.labels[number], places[lane]
        what: Event = {
            "name": cut_off(label.name, MAX_NAME),
            "cat": label.kind,
            "pid": place[0],
            "tid": place[1],
            "ts": _micros(start),
            "args": timeline.facts(row),
        }
        yield {"ph": "i", "s": "t", **what} if start == end else {"ph": "X", "dur": _duration(start, end), **what}


def _flows(timeline: Timeline, places: Sequence[Place], most: int | None) -> Iterator[Event]:
    """An arrow binds to the slice that its time lies in, or to the instant that is there."""
    for number, stops in timeline.arrows(most):
        common: Event = {"cat": "transfer", "name": "transfer", "id": number}
        for phase, (when, lane) in zip(["s", *"t" * (len(stops) - 2), "f"], stops, strict=True):
            bound: Event = {"bp": "e"} if phase == "f" else {}
            yield {**common, **bound, "ph": phase, "pid": places[lane][0], "tid": places[lane][1], "ts": _micros(when)}


def _counters(timeline: Timeline, process: dict[str, int]) -> Iterator[Event]:
    for name, task, before, times, levels in timeline.counters:
        at: Event = {"ph": "C", "name": name, "pid": process[task], "tid": 0}
        for time, level in ((0, before), *zip(times.tolist(), levels.tolist(), strict=True)):
            yield {**at, "ts": _micros(time), "args": {"bytes": level}}


def _written(events: Iterable[Event], other: Facts, said: Sequence[str], max_bytes: int) -> str:
    lines, room, left_out = [], max_bytes - 4096, 0
    for event in events:
        line = json.dumps(event, separators=(",", ":"))
        room -= len(line) + 2
        if room < 0:
            left_out += 1
        else:
            lines.append(line)
    facts: Facts = {key: value[:MAX_NAME] if isinstance(value, str) else value for key, value in other.items()}
    if left_out:
        facts["left_out"] = f"{left_out} events, as the file would exceed {max_bytes} bytes"
    head = json.dumps({**facts, "notes": "; ".join(said)[:2000]})
    body = ",\n".join(lines)
    return f'{{"displayTimeUnit":"ns","otherData":{head},"traceEvents":[\n{body}\n]}}\n'


def _micros(nanos: int) -> float:
    return nanos / 1000


def _duration(start: int, end: int) -> float:
    """The duration by which ts + dur is not after the end's own ts: a sum that rounds up would overlap what follows."""
    duration = _micros(end) - _micros(start)
    while _micros(start) + duration > _micros(end):  # at most the last digit
        duration = math.nextafter(duration, 0.0)
    return duration
