"""Between which numbers an unknown one lies: a loop's counter, a sum with it, or what is cut to a length."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from math import inf

from simulator.shapes.dims import SYMBOLS, Number, as_dim
from simulator.shapes.site import Site

BOUNDING: Mapping[Hashable, Callable[[float, float], float]] = {"Maximum": max, "Minimum": min}
_DEPTH = 8  # of numbers within numbers
_ANY = (-inf, inf)


def bounds(site: Site, number: Number, depth: int = 0) -> tuple[float, float]:
    """The least and the most that a number can be at this node; infinite where nothing is known."""
    if number > SYMBOLS:
        return number, number
    kind, *parts = site.algebra.reason(as_dim(number))
    if depth == _DEPTH:
        return _ANY
    if kind in BOUNDING:
        numbers: list[Number] = parts  # type: ignore[assignment]  # the symbol of an op has the op and its numbers
        narrow, (a, b) = BOUNDING[kind], (bounds(site, one, depth + 1) for one in numbers)
        return narrow(a[0], b[0]), narrow(a[1], b[1])
    if kind == "polynomial":
        return _summed(site, site.algebra.terms(as_dim(number)), depth)
    return site.counters.get((parts[0], parts[-1]), _ANY) if kind == "either value" else _ANY


def ordered(site: Site, x: Number, y: Number) -> tuple[Number, Number] | None:
    """Two numbers, the lesser first; None where it is not known which one that is."""
    if isinstance(x, int) and isinstance(y, int) and (more := site.algebra.minus(y, x)) > SYMBOLS:
        return (x, y) if more >= 0 else (y, x)
    (least_x, most_x), (least_y, most_y) = bounds(site, x), bounds(site, y)
    return (x, y) if most_x <= least_y else (y, x) if most_y <= least_x else None


def greater(site: Site, x: int, y: int) -> int:
    """The greater of two numbers; a symbol where it is not known which one that is."""
    pair = ordered(site, x, y)
    return site.algebra.symbol("Maximum", x, y) if pair is None else as_dim(pair[1])


def _summed(site: Site, terms: Mapping[tuple[int, ...], int], depth: int) -> tuple[float, float]:
    least = most = 0.0
    for term, factor in terms.items():
        if len(term) > 1:
            return _ANY
        ends = [factor * end for end in (bounds(site, term[0], depth + 1) if term else (1, 1))]
        least, most = least + min(ends), most + max(ends)
    return least, most
