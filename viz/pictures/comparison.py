"""Two runs as a picture: both timelines on one clock, and the parts of the difference as bars."""

from __future__ import annotations

from viz.difference.difference import Difference, difference
from viz.difference.explanation import signed_nanos
from viz.palette import HUES
from viz.pictures.canvas import PALE, RULE, SIZE, Canvas, fitting, wrapped
from viz.pictures.look import Look
from viz.pictures.rows import clock_of, draw_clock, draw_legend, draw_rows, rows_of
from viz.pictures.timeline import MARKS
from viz.scene import Scene
from viz.timeline.step_timeline import step_timeline

LONGER, SHORTER = HUES[5], HUES[2]
_PARTS, _LINES = 5, 4


def comparison_picture(scene: Scene, look: Look) -> Canvas:
    """The run that the scene is compared with above the scene, and the difference explained.

    There has to be such a run, and neither may be a training. Of an earlier result only the difference is drawn.
    """
    found = difference(scene)
    assert found is not None  # by `check_needs`
    canvas = Canvas(look.width)
    top = 0.0
    if isinstance(scene.against, Scene):
        top = _timelines(canvas, scene.against, scene, found, look)
        if look.legend:
            top = draw_legend(canvas, (*MARKS, (LONGER, "longer"), (SHORTER, "shorter")), top + 2)
    _parts(canvas, found, top + 4)
    return canvas


def _timelines(canvas: Canvas, first: Scene, second: Scene, found: Difference, look: Look) -> float:
    clock = clock_of(canvas, max(int(one.trace.makespan) for one in (first, second)))
    top = 0.0
    for scene, name, time in zip((first, second), found.names, found.times, strict=True):
        canvas.text(0, top + SIZE, fitting(f"{name}: {time}", canvas.width))
        timeline, at = step_timeline(scene), clock.at(int(scene.trace.makespan))
        end = draw_rows(canvas, timeline, rows_of(timeline, max(1, look.rows // 2))[0], clock, top + SIZE + 4)
        canvas.line([(at, top + SIZE + 2), (at, end)], PALE, 0.4)
        top = end + 2
    return draw_clock(canvas, clock, top - 2)


def _parts(canvas: Canvas, found: Difference, top: float) -> None:
    """A bar and a sentence for each part; the bars add up to the difference."""
    parts = found.explanation(_PARTS)
    change = signed_nanos(found.difference_ns) if found.difference_ns else "as long"
    canvas.text(0, top + SIZE, fitting(f"{found.names[1]} against {found.names[0]}: {change}", canvas.width))
    top += 2 * SIZE
    most = max((abs(part.difference_ns) for part in parts), default=1)
    middle, half = canvas.width * 0.15, canvas.width * 0.14
    said = canvas.width * 0.31
    for part in parts:
        lines = wrapped(str(part), canvas.width - said - 1, _LINES)
        wide = half * abs(part.difference_ns) / max(1, most)
        colour = LONGER if part.difference_ns > 0 else SHORTER
        canvas.box(middle if part.difference_ns > 0 else middle - wide, top + 1, wide, SIZE, colour)
        for number, line in enumerate(lines):
            canvas.text(said, top + SIZE + number * SIZE * 1.2, line)
        below = top + SIZE * 1.2 * len(lines) + 3
        canvas.line([(middle, top), (middle, below)], RULE, 0.4)
        top = below
