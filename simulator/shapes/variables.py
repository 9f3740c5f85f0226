"""The variables of a loop: lines of its iterations, and numbers that are computed iteration by iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, prod
from typing import NamedTuple

from simulator.shapes.dims import SYMBOLS, Algebra, Number, as_dim
from simulator.shapes.values import of_whole_numbers

NEGATED: Mapping[str, str] = {
    "Less": "GreaterEqual",
    "GreaterEqual": "Less",
    "Greater": "LessEqual",
    "LessEqual": "Greater",
    "Equal": "NotEqual",
    "NotEqual": "Equal",
}
_DEPTH = 32  # of conditions within conditions
_MOST_NUMBERS = 5_000  # of a loop that are computed, iteration by iteration


class LinearCourse(NamedTuple):
    """A number that is `start + step * i` in iteration i."""

    start: int  # a dimension, which may hang on loops around
    step: int


def iterations(comparison: str, start: int, step: int) -> float:
    """The number of iterations i, from 0 on, in which `start + step * i` compares to 0 like this; `inf` for all."""
    if comparison == "Equal":
        return 0 if start else 1 if step else inf
    if comparison == "NotEqual":
        if not start:
            return 0
        reaches_zero = bool(step) and -start % step == 0 and -start // step >= 0
        return -start // step if reaches_zero else inf
    if comparison in ("Greater", "GreaterEqual"):
        start, step = -start, -step
    if comparison in ("LessEqual", "GreaterEqual"):
        start -= 1
    if start >= 0:
        return 0
    return inf if step <= 0 else -(start // step)


@dataclass(frozen=True)
class LoopCourse:
    """A loop while its course is found out."""

    algebra: Algebra
    lines: dict[int, LinearCourse] = field(default_factory=dict)  # symbol of a variable -> its course
    # symbol of a variable that is as large as the most of a line -> what it is at first, and the line
    grown: dict[int, tuple[int, LinearCourse]] = field(default_factory=dict)
    outside: set[int] = field(default_factory=set)  # symbols that the loop does not change
    variables: dict[int, tuple[int, int]] = field(default_factory=dict)  # symbol -> what it is at first, and comes back
    ended: dict[int, int] = field(default_factory=dict)  # symbol -> what it is in the end

    def line(self, number: Number) -> LinearCourse | None:
        """The course of a number; None where it is no line."""
        if not isinstance(number, int):
            return None
        start = step = 0
        for term, factor in self.algebra.terms(number).items():
            moved = [symbol for symbol in term if symbol in self.lines]
            if not self.outside.issuperset(set(term) - set(moved)) or (moved and len(term) > 1):
                return None
            begin, each = self.lines[term[0]] if moved else (self.algebra.product(term), 0)
            start, step = self.algebra.plus(start, self.algebra.times(factor, begin)), step + factor * each
        return LinearCourse(start, step)

    def learn(self, variable: Number, entering: Number, back: Number) -> None:
        """Note the course of a variable of that symbol, by what it is at first and what comes back."""
        if not all(isinstance(one, int) for one in (variable, entering, back)):
            return
        symbol, begin, after = as_dim(variable), as_dim(entering), as_dim(back)
        self.outside.update(one for term in self.algebra.terms(begin) for one in term)
        if symbol > SYMBOLS or symbol in self.outside:
            return
        self.variables[symbol] = begin, after
        step = self.algebra.minus(after, symbol)
        if step > SYMBOLS:
            self.lines[symbol] = LinearCourse(begin, step)
            return
        kind, *parts = self.algebra.reason(after) if after <= SYMBOLS else ("",)
        if kind == "Maximum" and symbol in parts:
            other = self.line(parts[1 - parts.index(symbol)])  # type: ignore[arg-type]  # of numbers
            if other is not None:
                self.grown[symbol] = begin, other

    def trips(self, truth: Number, negated: bool = False, depth: int = 0) -> float | None:
        """The number of iterations in which a condition holds from the first on; None where that is not known."""
        if truth > SYMBOLS:
            return inf if bool(truth) is not negated else 0
        kind, *given = self.algebra.reason(as_dim(truth))
        numbers: list[Number] = given  # type: ignore[assignment]  # the symbol of an op has the op and its numbers
        if depth == _DEPTH:
            return None
        if kind == "LogicalNot":
            return self.trips(numbers[0], not negated, depth + 1)
        if kind in ("LogicalAnd", "LogicalOr"):
            halves = [self.trips(one, negated, depth + 1) for one in numbers]
            both = (kind == "LogicalAnd") is not negated
            decisive, known = (0 if both else inf), [one for one in halves if one is not None]
            if decisive in known:
                return decisive
            return None if len(known) < len(halves) else min(known) if both else max(known)
        if kind not in NEGATED or len(numbers) != 2:
            return None
        a, b = map(self.line, numbers)
        ahead = None if a is None or b is None else self.algebra.minus(a.start, b.start)
        if a is None or b is None or ahead is None or ahead <= SYMBOLS:
            return None
        return iterations(NEGATED[str(kind)] if negated else str(kind), ahead, a.step - b.step)

    def walked(self, truth: Number, trips: float | None) -> float | None:
        """The number of iterations, if lines do not say it, and what the variables are in the end."""
        if trips == inf or (trips is not None and self.variables.keys() <= self.lines.keys()):
            return trips
        state = {symbol: begin for symbol, (begin, _) in self.variables.items() if begin > SYMBOLS}
        for iteration in range(_MOST_NUMBERS // max(1, len(self.variables))):
            known = dict(state)
            goes = iteration < trips if trips is not None else self.computed(truth, known)
            if not goes:
                self.ended.update(state if goes is not None else {})
                return trips if goes is None else iteration
            backs = {symbol: self.computed(back, known) for symbol, (_, back) in self.variables.items()}
            state = {symbol: number for symbol, number in backs.items() if number is not None}
        return trips

    def computed(self, number: Number, known: dict[int, int], depth: int = 0) -> int | None:
        """The whole number that a number is where the variables are known, which gets what was found on the way."""
        if not isinstance(number, int):
            return None
        if number > SYMBOLS or number in known:
            return known.get(number, number)
        if number in self.variables or depth == _DEPTH:
            return None
        terms = self.algebra.terms(number)
        if set(terms) == {(number,)}:
            kind, *parts = self.algebra.reason(number)
            given = [self.computed(part, known, depth + 1) for part in parts if isinstance(part, (int, float))]
            whole = [one for one in given if one is not None]
            found = of_whole_numbers(str(kind), whole) if len(whole) == len(parts) else None
        else:
            found = 0
            for term, factor in terms.items():
                factors = [self.computed(symbol, known, depth + 1) for symbol in term]
                whole = [one for one in factors if one is not None]
                found = None if found is None or len(whole) < len(factors) else found + factor * prod(whole)
        if found is not None and abs(found) < -SYMBOLS:
            known[number] = found
        return known.get(number)

    def growth(self, variable: Number, trips: int) -> int | None:
        """By how much a variable is greater when the loop has ended; None where that is not known."""
        if variable in self.ended:
            return self.ended[as_dim(variable)] - self.variables[as_dim(variable)][0]
        if variable in self.grown:
            begin, (first, step) = self.grown[as_dim(variable)]
            ends = (begin, first, first + step * (trips - 1)) if trips else (begin,)
            return max(ends) - begin if min(ends) > SYMBOLS else None
        line = self.lines.get(as_dim(variable))
        return 0 if variable > SYMBOLS else None if line is None else line.step * trips
