"""The result of a bench: each algorithm against the best that is known of each problem, as a table and as a picture.

The picture has performance profiles, by Dolan and Moré, "Benchmarking optimization software with performance
profiles", Mathematical Programming 91, 2002. They show for each factor on which share of the problems an algorithm
takes at most that many times as long as the best. A plan that runs out of memory counts as none.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log2
from statistics import geometric_mean, median

from simulator.units import Nanos
from simulator.wording import aligned, counted, printable, some
from viz.bench.rows import BenchRow
from viz.palette import HUES

HEAD = ("algorithm", "plans that fit", "x best: mean", "median", "worst", "best", "placing")
_SINGLE = "single"
_CLOSE = 1.01  # as good as the best
_WIDE, _HIGH, _EDGE = 420, 260, 44  # pixels
_FARTHEST = 10.0  # factor at the right edge, at most


@dataclass(frozen=True, slots=True)
class Standing:
    """One algorithm with one budget, over all problems on which it was asked."""

    name: str
    ratios: tuple[float, ...]  # makespan over the best known, of a problem each; inf: no plan that fits
    placing_s: tuple[float, ...]

    @property
    def found(self) -> list[float]:
        """The ratios of plans that fit."""
        return [ratio for ratio in self.ratios if ratio < inf]

    def within(self, factor: float) -> float:
        """The share of problems on which it takes at most that many times as long as the best."""
        return sum(ratio <= factor for ratio in self.ratios) / len(self.ratios)


def best_known(rows: Sequence[BenchRow]) -> Mapping[tuple[str, ...], Nanos]:
    """The shortest step of each problem, of plans that fit; problems that nothing fits have none."""
    found: dict[tuple[str, ...], Nanos] = {}
    for row in rows:
        if row.fits and not row.refused:
            problem = row.key.problem
            found[problem] = min(row.makespan_ns, found.get(problem, row.makespan_ns))
    return found


def standings(rows: Sequence[BenchRow]) -> tuple[Standing, ...]:
    """Each algorithm and budget, best mean first; problems that nothing fits count for nobody."""
    best = best_known(rows)
    ratios: dict[str, list[float]] = {}
    placing: dict[str, list[float]] = {}
    for row in rows:
        if row.key.problem in best:
            name = f"{row.key.algorithm} {row.key.budget}".strip()
            ratios.setdefault(name, []).append(_ratio(row, best[row.key.problem]))
            placing.setdefault(name, []).append(row.placing_s)
    made = [Standing(name, tuple(ratios[name]), tuple(placing[name])) for name in ratios]
    return tuple(sorted(made, key=lambda one: (-len(one.found) / len(one.ratios), _mean(one.found), one.name)))


def as_text(rows: Sequence[BenchRow]) -> str:
    """A line about the bench, then the table."""
    best = best_known(rows)
    problems = {row.key.problem for row in rows}
    refused = sum(bool(row.refused) for row in rows)
    said = f"{counted(len(rows), 'row')} on {counted(len(problems), 'problem')}"
    if unknown := len(problems) - len(best):
        said += f", {unknown} of them without any plan that fits"
    table = aligned([HEAD, *(_cells(one) for one in standings(rows))])
    last = [f"{counted(refused, 'row')} refused; the file says why."] if refused else []
    last += _replaced(rows)
    if unsized := len({row.key.problem for row in rows if row.unsized_tensors}):
        last.append(
            f"Tensors of unknown size count nothing in {counted(unsized, 'problem')}: the steps there are lower bounds."
        )
    return "\n".join(map(printable, [f"{said}.", *table, *last]))


def _replaced(rows: Sequence[BenchRow]) -> list[str]:
    """A sentence about plans in whose place that of a single device counts, if there are some."""
    asked = Counter(row.key.algorithm for row in rows if not row.refused)
    found = Counter(row.key.algorithm for row in rows if row.used == _SINGLE != row.key.asked)
    if not found:
        return []
    said = some([f"{name} in {count} of {counted(asked[name], 'row')}" for name, count in sorted(found.items())])
    return [f"The plan of a single device, which is faster, takes the place of {said}; --no-fallback keeps theirs."]


def _cells(one: Standing) -> tuple[str, ...]:
    found = one.found
    share = f"{len(found)} of {len(one.ratios)}"
    if not found:
        return (one.name, share, "-", "-", "-", "-", "-")
    return (
        one.name,
        share,
        f"{_mean(found):.3f}",
        f"{median(found):.3f}",
        f"{max(found):.2f}",
        f"{one.within(_CLOSE):.0%}",
        f"{median(one.placing_s):.2g} s",
    )


def as_svg(rows: Sequence[BenchRow]) -> str:
    """The performance profiles."""
    found = standings(rows)
    far = min(max([2.0, *(ratio for one in found for ratio in one.found)]), _FARTHEST)
    width, height = _WIDE + 2 * _EDGE + 150, _HIGH + 2 * _EDGE

    def across(factor: float) -> float:
        return _EDGE + log2(min(factor, far)) / log2(far) * _WIDE

    def upwards(share: float) -> float:
        return _EDGE + (1 - share) * _HIGH

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<path d="M{_EDGE},{_EDGE}H{_EDGE + _WIDE}V{_EDGE + _HIGH}H{_EDGE}Z" fill="none" stroke="#888"/>',
    ]
    for tick in (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0):
        if tick <= far:
            x = across(tick)
            parts.append(f'<path d="M{x:.1f},{_EDGE + _HIGH}v4" stroke="#888"/>')
            parts.append(f'<text x="{x:.1f}" y="{_EDGE + _HIGH + 16}" text-anchor="middle">{tick:g}</text>')
    for percent in (0, 25, 50, 75, 100):
        y = upwards(percent / 100)
        parts.append(f'<path d="M{_EDGE},{y:.1f}h{_WIDE}" stroke="#ddd"/>')
        parts.append(f'<text x="{_EDGE - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    middle, below = _EDGE + _WIDE / 2, _EDGE + _HIGH + 34
    parts.append(f'<text x="{middle}" y="{below}" text-anchor="middle">times as long as the best known</text>')
    parts.append(f'<text x="{_EDGE}" y="{_EDGE - 10}">problems solved within that factor</text>')

    def curve(one: Standing) -> str:
        path = f"M{across(1):.1f},{upwards(one.within(1)):.1f}"
        for ratio in sorted(set(one.found)):
            if ratio <= far:
                path += f"H{across(ratio):.1f}V{upwards(one.within(ratio)):.1f}"
        return f"{path}H{_EDGE + _WIDE}"

    curves = [curve(one) for one in found]
    for row, one in enumerate(found):
        colour = HUES[row % len(HUES)]
        stroke = 2 + 3 * curves[row + 1 :].count(curves[row])  # wider than those that would cover it
        parts.append(f'<path d="{curves[row]}" fill="none" stroke="{colour}" stroke-width="{stroke}"/>')
        y = _EDGE + 12 + 16 * row
        parts.append(f'<path d="M{_EDGE + _WIDE + 12},{y - 4}h16" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{_EDGE + _WIDE + 34}" y="{y}">{html.escape(printable(one.name))}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _ratio(row: BenchRow, best: Nanos) -> float:
    if row.refused or not row.fits:
        return inf
    return row.makespan_ns / best if best else 1.0


def _mean(ratios: Sequence[float]) -> float:
    return geometric_mean(ratios) if ratios else inf
