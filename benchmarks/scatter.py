"""A plot of times: measured across, simulated upwards, both logarithmic, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

SIZE, EDGE = 360, 44  # pixels


class Point(NamedTuple):
    """One step."""

    measured_ms: float
    simulated_ms: float
    kind: str


def scatter(
    points: Iterable[Point], colours: Mapping[str, str], *, upwards: str, first_ms: float, last_ms: float, within: float
) -> str:
    """The points, with a band in which a simulated time is off by a factor of 1 + `within` at most.

    `colours` has the kinds in the order of the legend; `upwards` says what the simulated times are.
    """
    first, decades = math.log10(first_ms), math.log10(last_ms / first_ms)

    def at(ms: float) -> float:
        return (math.log10(ms) - first) / decades * SIZE

    width, height = SIZE + 2 * EDGE, SIZE + 2 * EDGE
    off = math.log10(1 + within) / decades * SIZE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<g transform="translate({EDGE},{SIZE + EDGE / 2}) scale(1,-1)">',
        f'<path d="M0,0V{off:.1f}L{SIZE - off:.1f},{SIZE}H{SIZE}V{SIZE - off:.1f}L{off:.1f},0Z" fill="#eee"/>',
        f'<path d="M0,0L{SIZE},{SIZE}M0,0H{SIZE}V{SIZE}H0Z" fill="none" stroke="#888"/>',
    ]
    for point in points:
        x, y = at(point.measured_ms), at(point.simulated_ms)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colours[point.kind]}" fill-opacity=".7"/>')
    parts.append("</g>")
    for tick in _ticks(first_ms, last_ms):
        x, y = EDGE + at(tick), SIZE + EDGE / 2 - at(tick)
        parts.append(f'<text x="{x:.0f}" y="{SIZE + EDGE / 2 + 14:.0f}" text-anchor="middle">{tick:g} ms</text>')
        parts.append(f'<text x="{EDGE - 4}" y="{y + 4:.0f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<text x="{EDGE + SIZE / 2}" y="{SIZE + EDGE / 2 + 32}" text-anchor="middle">measured</text>')
    parts.append(f'<text x="{EDGE + 8}" y="{EDGE / 2 + 16}">{upwards}</text>')
    for number, (name, colour) in enumerate(colours.items()):
        y = EDGE / 2 + 36 + 16 * number
        parts.append(
            f'<circle cx="{EDGE + 14}" cy="{y - 4}" r="4" fill="{colour}"/><text x="{EDGE + 24}" y="{y}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


def _ticks(first_ms: float, last_ms: float) -> list[float]:
    """Powers of ten; where there is no more than a decade, what doubles or so in between, too."""
    steps = (1, 2, 5) if last_ms / first_ms <= 20 else (1,)
    exponents = range(math.floor(math.log10(first_ms)), math.ceil(math.log10(last_ms)) + 1)
    found = [step * 10.0**exponent for exponent in exponents for step in steps]
    return [tick for tick in found if first_ms < tick < last_ms]
