"""The timeline as a picture: devices and links on one clock, with the critical path."""

from __future__ import annotations

from simulator.units import show_nanos
from viz.palette import GREY, HUES, mixed
from viz.pictures.canvas import DARK, PALE, SIZE, Canvas, fitting
from viz.pictures.look import Look
from viz.pictures.rows import clock_of, draw_clock, draw_legend, draw_rows, left_out, rows_of
from viz.scene import Scene
from viz.timeline.step_timeline import step_timeline
from viz.timeline.training_timeline import training_timeline

MARKS = (
    (HUES[0], "op or transfer, in the colour of its device or source"),
    (mixed(HUES[0], "#ffffff", 0.55), "packing and unpacking"),
    (DARK, "critical path"),
)
_TRAINING_MARKS = ((HUES[GREY], "step, update or disturbance"), *MARKS[:2])


def timeline_picture(scene: Scene, look: Look) -> Canvas:
    """The step, or of a training what was recorded of it."""
    canvas = Canvas(look.width)
    trained = scene.training
    timeline = step_timeline(scene) if trained is None else training_timeline(trained, scene.cluster)
    rows, others = rows_of(timeline, look.rows)
    end_ns = int(timeline.slices.end_ns.max()) if len(timeline.slices.end_ns) else scene.trace.makespan
    clock = clock_of(canvas, end_ns)
    took = f"{scene.assignment.used} on {scene.cluster.name}: {scene.unsized.least}{show_nanos(scene.trace.makespan)}"
    canvas.text(0, SIZE, fitting(scene.title if trained is not None else f"{scene.title}, {took}", canvas.width))
    bottom = draw_rows(canvas, timeline, rows, clock, SIZE + 5)
    bottom = draw_clock(canvas, clock, bottom)
    if look.legend:
        bottom = draw_legend(canvas, MARKS if trained is None else _TRAINING_MARKS, bottom + 2)
    if left_out(others):
        canvas.text(0, bottom + SIZE, left_out(others), colour=PALE)
    return canvas
