"""Memory as a picture: what each device holds during the step, each to a scale of its own."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from simulator.columns import Ints
from simulator.units import show_bytes
from simulator.wording import counted
from viz.palette import device_colour, mixed
from viz.pictures.canvas import PALE, RULE, SIZE, Canvas, Point, fitting
from viz.pictures.look import Look
from viz.pictures.rows import GAP, Clock, clock_of, draw_clock
from viz.scene import Scene
from viz.timeline.step_timeline import memory_counters
from viz.timeline.timeline import Counter

_HIGH = 20.0  # points of a curve
_FINE = 0.25  # points: finer changes are drawn as their maximum


def memory_picture(scene: Scene, look: Look) -> Canvas:
    """A curve for each device that holds something, the fullest kept; of a step alone."""
    canvas = Canvas(look.width)
    trace, devices = scene.trace, scene.cluster.devices
    full = [int(trace.peak_bytes[row]) / max(1, device.memory_bytes) for row, device in enumerate(devices)]
    order = sorted((row for row in range(len(devices)) if trace.peak_bytes[row]), key=lambda row: (-full[row], row))
    clock = clock_of(canvas, int(trace.makespan))
    canvas.text(0, SIZE, fitting(f"{scene.title}, {scene.assignment.used} on {scene.cluster.name}", canvas.width))
    top, counters = SIZE + 6, memory_counters(scene)
    for row in sorted(order[: look.rows]):
        device, peak = devices[row], int(trace.peak_bytes[row])
        canvas.text(0, top + SIZE, fitting(device.short, clock.left - GAP))
        held = f"{scene.unsized.least_held}{show_bytes(peak)} of {show_bytes(device.memory_bytes)}"
        canvas.text(0, top + 2.3 * SIZE, fitting(held, clock.left - GAP, SIZE - 1), colour=PALE, size=SIZE - 1)
        curve = _curve(counters[row], clock, peak, top)
        canvas.area(
            [(clock.left, top + _HIGH), *curve, (curve[-1][0], top + _HIGH)], mixed(device_colour(row), "#ffffff", 0.6)
        )
        canvas.line(curve, device_colour(row), 0.6)
        canvas.line([(clock.left, top + _HIGH), (clock.left + clock.width, top + _HIGH)], RULE, 0.4)
        top += _HIGH + 2 * GAP
    bottom = draw_clock(canvas, clock, top - GAP)
    if look.legend:
        canvas.text(0, bottom + SIZE, "Memory in use, each device to the scale of its own peak.", colour=PALE)
        bottom += 1.4 * SIZE
    if len(order) > look.rows:
        canvas.text(
            0, bottom + SIZE, f"Not drawn: {counted(len(order) - look.rows, 'device')}, less full.", colour=PALE
        )
    return canvas


def _curve(counter: Counter, clock: Clock, peak: int, top: float) -> list[Point]:
    """Steps of the level, each column of the picture with its maximum, so that no peak is lost."""
    times: Ints = np.concatenate([[0], counter.time_ns, [clock.end_ns]]).astype(np.int64)
    levels: Ints = np.concatenate([[counter.before], counter.level]).astype(np.int64)
    columns = max(1, int(clock.width / _FINE))
    first, last = (np.clip(at * columns // clock.end_ns, 0, columns - 1) for at in (times[:-1], times[1:]))
    highest = np.zeros(columns, np.int64)
    for begin, end, level in zip(first.tolist(), last.tolist(), levels.tolist(), strict=True):
        part = highest[begin : end + 1]
        np.maximum(part, level, out=part)
    change = [0, *(np.flatnonzero(np.diff(highest)) + 1).tolist(), columns]
    points: list[Point] = []
    for begin, end in pairwise(change):
        y = top + _HIGH * (1 - int(highest[begin]) / max(1, peak))
        points += [(clock.left + begin * clock.width / columns, y), (clock.left + end * clock.width / columns, y)]
    return points
