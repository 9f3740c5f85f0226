"""The look of a picture: width, legend, and how much of the graph or of the timeline it shows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from simulator.errors import SimvizError
from simulator.wording import choices

POINTS_PER_MM = 72 / 25.4
COLUMN_MM = 85.0  # of a page in two columns
WIDTHS_MM = (40.0, 1000.0)
MOST_ROWS, MOST_BOXES = 1000, 1000
KEYS = ("width", "rows", "boxes", "depth", "legend", "letters")
EXAMPLE = "width=180mm,rows=24,boxes=60,depth=2,legend=no"


@dataclass(frozen=True, slots=True)
class Look:
    """The choices that a user has for a picture."""

    width_mm: float | None = None  # None: a column; of the graph its natural width
    rows: int = 16  # most rows of a timeline; the busiest are kept
    boxes: int = 30  # about so many boxes of the graph at most
    depth: int | None = None  # scopes are opened this deep at most; None: as far as there is room
    legend: bool = True
    shapes: bool = False  # an SVG holds the shapes of its letters, so it needs no font, but its text can't be searched

    @property
    def width(self) -> float:
        """The width of a picture of times, in points."""
        return (self.width_mm or COLUMN_MM) * POINTS_PER_MM


def read_look(text: str | None) -> Look:
    """The look that "width=180mm,legend=no" describes. Raise SimvizError for what is none."""
    look = Look()
    for part in filter(None, (text or "").split(",")):
        key, _, value = part.strip().partition("=")
        look = _with(look, key, value.strip())
    return look


def _with(look: Look, key: str, value: str) -> Look:
    if key == "width":
        return replace(look, width_mm=_millimetres(value))
    if key == "rows":
        return replace(look, rows=_count(key, value, MOST_ROWS))
    if key == "boxes":
        return replace(look, boxes=_count(key, value, MOST_BOXES))
    if key == "depth":
        return replace(look, depth=_count(key, value, MOST_BOXES))
    if key == "legend":
        if value not in ("yes", "no"):
            raise SimvizError(f"--picture legend={value}: the legend is there or not, so write yes or no")
        return replace(look, legend=value == "yes")
    if key == "letters":
        if value not in ("text", "shapes"):
            raise SimvizError(f"--picture letters={value}: an SVG has letters as text or as shapes; write one of these")
        return replace(look, shapes=value == "shapes")
    raise SimvizError(f"--picture has no {key!r}; such as {EXAMPLE}; choose of {choices(key, KEYS)}")


def _millimetres(value: str) -> float:
    found = re.fullmatch(r"(\d{1,4}(?:\.\d{1,3})?) ?(mm|cm|in)", value)
    if found:
        width = float(found[1]) * {"mm": 1.0, "cm": 10.0, "in": 25.4}[found[2]]
        if WIDTHS_MM[0] <= width <= WIDTHS_MM[1]:
            return width
    low, high = WIDTHS_MM
    raise SimvizError(f"--picture width={value}: write a width of {low:g}mm to {high:g}mm, such as 85mm, 18cm or 3.4in")


def _count(key: str, value: str, most: int) -> int:
    if re.fullmatch(r"\d{1,6}", value) and 1 <= int(value) <= most:
        return int(value)
    raise SimvizError(f"--picture {key}={value}: write a whole number from 1 to {most}")
