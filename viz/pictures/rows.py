"""Rows of a timeline on a canvas: a device or a link each, its lanes below each other, and the clock below all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.columns import Ids, ids
from simulator.units import Nanos, show_nanos
from simulator.wording import counted
from viz.palette import GREY, HUES, PACKING, UNPACKING, device_colour, mixed
from viz.pictures.canvas import DARK, PALE, RULE, SIZE, Canvas, fitting, width_of
from viz.timeline.timeline import Timeline

LABELS = 0.32  # of the width, at most, is for the names of rows
GAP, TICK = 3.0, 2.5  # points
_LANE, _LEAST_LANE, _HIGHEST = 7.0, 1.6, 21.0  # points: of a lane, of one among many, of all lanes of a row
_FINE, _WIDE = 0.12, 0.9  # points: finer is not drawn; a wider slice stands apart from the next one
_TICKS = 6  # about


@dataclass(frozen=True, slots=True)
class Clock:
    """The time axis."""

    left: float  # points
    width: float
    end_ns: Nanos

    def at(self, nanos: float) -> float:
        """The place of a moment."""
        return self.left + self.width * nanos / max(1, self.end_ns)


@dataclass(frozen=True, slots=True)
class Row:
    """A device, a link, a client or a task, with its lanes in the timeline."""

    kind: str
    name: str
    number: int  # of the device, link, ..
    lanes: tuple[int, ...]
    busy_ns: Nanos


def rows_of(timeline: Timeline, most: int) -> tuple[list[Row], list[Row]]:
    """The rows on which something happens, the busiest `most` of them in their order, and the others."""
    lanes: dict[tuple[str, str, int], list[int]] = {}
    for at, lane in enumerate(timeline.lanes):
        lanes.setdefault((lane.kind, lane.name, lane.row), []).append(at)
    busy = np.zeros(len(timeline.lanes), np.int64)
    np.add.at(busy, timeline.slices.lane, timeline.slices.end_ns - timeline.slices.start_ns)
    found = [Row(*key, tuple(own), int(busy[own].sum())) for key, own in lanes.items()]
    order = sorted(range(len(found)), key=lambda row: (found[row].kind == "link", -found[row].busy_ns, row))
    # links take at most half of the rows while devices want the others
    devices = [row for row in order if found[row].kind != "link" and found[row].busy_ns]
    links = [row for row in order if found[row].kind == "link" and found[row].busy_ns]
    kept = set(devices[: max(most - len(links), (most + 1) // 2)])
    kept |= set(links[: most - len(kept)])
    return [found[row] for row in sorted(kept)], [found[row] for row in range(len(found)) if row not in kept]


def clock_of(canvas: Canvas, end_ns: Nanos) -> Clock:
    """The time axis, right of the names of rows."""
    left = canvas.width * LABELS
    return Clock(left, canvas.width - left - 1, max(1, end_ns))


def draw_rows(canvas: Canvas, timeline: Timeline, rows: Sequence[Row], clock: Clock, top: float) -> float:
    """Draw the rows from `top` on, each with its name; returns where they end."""
    slices = timeline.slices
    order = ids(np.lexsort((slices.start_ns, slices.lane)))
    first = np.searchsorted(slices.lane[order], np.arange(len(timeline.lanes) + 1))
    for row in rows:
        high = max(_LEAST_LANE, min(_LANE, _HIGHEST / len(row.lanes)))
        tall = max(high * len(row.lanes), SIZE)
        canvas.text(0, top + tall / 2 + SIZE * 0.35, fitting(row.name, clock.left - GAP), colour=DARK)
        canvas.line([(clock.left, top + tall), (clock.left + clock.width, top + tall)], RULE, 0.3)
        for number, lane in enumerate(row.lanes):
            own = order[first[lane] : first[lane + 1]]
            for left, right, colour, critical in _bars(timeline, row, own, clock):
                canvas.box(left, top + number * high, right - left, high * 0.86, colour)
                if critical:
                    canvas.box(left, top + number * high + high * 0.78, right - left, high * 0.22, DARK)
        top += tall + GAP
    return top


def _bars(timeline: Timeline, row: Row, own: Ids, clock: Clock) -> Iterator[tuple[float, float, str, bool]]:
    """Left, right, colour and criticality of what is drawn of a lane; slices too fine to be told apart are joined."""
    slices, labels = timeline.slices, timeline.labels
    scale = clock.width / max(1, clock.end_ns)
    held: tuple[float, float, str, bool] | None = None  # to be drawn next, and whether it is fine
    held_fine = False
    columns = (slices.start_ns, slices.end_ns, slices.label, slices.transfer, slices.critical)
    for start, end, label, transfer, critical in zip(*(column[own].tolist() for column in columns), strict=True):
        left, right = clock.left + start * scale, clock.left + end * scale
        source = int(timeline.transfers.source[transfer]) if row.kind == "link" else row.number
        colour = _colour(row.kind, labels[label].kind, source)
        fine = right - left < _WIDE
        this = (left, max(right, left + _FINE) if fine else right - _FINE, colour, critical)
        if held is not None and fine and held_fine and (colour, critical) == held[2:] and left - held[1] <= 2 * _FINE:
            held = (held[0], max(held[1], this[1]), colour, critical)
            continue
        if held is not None:
            yield held
        held, held_fine = this, fine
    if held is not None:
        yield held


def _colour(kind: str, what: str, row: int) -> str:
    if kind not in ("device", "link"):
        return HUES[GREY]
    colour = device_colour(row)
    return mixed(colour, "#ffffff", 0.55) if what in (PACKING, UNPACKING) else colour


def draw_clock(canvas: Canvas, clock: Clock, top: float) -> float:
    """Draw the axis at `top`; returns where it ends."""
    canvas.line([(clock.left, top), (clock.left + clock.width, top)], PALE, 0.5)
    for nanos in ticks(clock.end_ns):
        x = clock.at(nanos)
        canvas.line([(x, top), (x, top + TICK)], PALE, 0.5)
        at = "end" if x > clock.left + clock.width - 14 else "start" if not nanos else "middle"
        canvas.text(x, top + TICK + SIZE, show_nanos(nanos) if nanos else "0", at=at, colour=PALE)
    return top + TICK + SIZE + 2


def ticks(end_ns: Nanos) -> list[Nanos]:
    """Round moments from 0 to the end, some five of them."""
    least = max(1, end_ns / _TICKS)
    power = 10 ** (len(str(int(least))) - 1)
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)
    return list(range(0, end_ns + 1, step))


def draw_legend(canvas: Canvas, marks: Sequence[tuple[str, str]], top: float) -> float:
    """Draw marks (colour, meaning) in lines as wide as the canvas; returns where they end."""
    x, baseline = 0.0, top + SIZE
    for colour, meaning in marks:
        wide = SIZE + 2 + width_of(meaning) + 8
        if x and x + wide > canvas.width:
            x, baseline = 0.0, baseline + SIZE * 1.4
        canvas.box(x, baseline - SIZE * 0.75, SIZE * 0.9, SIZE * 0.75, colour)
        canvas.text(x + SIZE + 2, baseline, meaning, colour=PALE)
        x += wide
    return baseline + 3


def left_out(rows: Sequence[Row]) -> str:
    """A line on rows that are not drawn; "": all are."""
    idle = sum(not row.busy_ns for row in rows)
    said = [counted(idle, "idle row")] if idle else []
    said += [f"{counted(len(rows) - idle, 'row')} with less"] if len(rows) > idle else []
    return f"Not drawn: {' and '.join(said)}." if said else ""
