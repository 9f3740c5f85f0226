"""Dimensions that may be unknown: a number, or a symbol that is followed through sums, products and quotients.

A symbol is a number at or below SYMBOLS, so that a shape is a tuple of whole numbers whatever is known of it. Equal
symbols are equal dimensions. A dimension that is computed of symbols is a symbol again, the same one for the same
polynomial. So a batch b that is reshaped to b * 49 and back is b.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Dims: TypeAlias = tuple[int, ...] | None  # a dimension below 0 is a symbol; None: unknown rank
Number: TypeAlias = int | float  # a truth value is 0 or 1; at or below SYMBOLS an unknown number
Value: TypeAlias = tuple[Number, ...]  # the elements of a small tensor, in row-major order

SYMBOLS = -(2**64)  # below every number that a tensor of TensorFlow can hold
_TERMS = 8  # a longer polynomial is followed no further

_Term: TypeAlias = tuple[int, ...]  # sorted symbols that are multiplied
_Polynomial: TypeAlias = Mapping[_Term, int]  # term -> coefficient; () is the constant


@dataclass(slots=True)
class Algebra:
    """The symbols of one graph, each with the reason for which it was made."""

    _number: dict[Hashable, int] = field(default_factory=dict)  # reason -> symbol
    _reason: list[Sequence[Hashable]] = field(default_factory=list)  # in order of the symbols
    _polynomial: dict[int, _Polynomial] = field(default_factory=dict)  # of the symbols that are computed
    bound: dict[int, int] = field(default_factory=dict)  # symbol -> what it is equal to
    binding: bool = True  # whether equal dimensions are noted: those that are equal in a branch alone are not

    def symbol(self, *reason: Hashable) -> int:
        """The symbol with that reason, always the same one."""
        found = self._number.get(reason)
        if found is None:
            found = self._number[reason] = SYMBOLS - len(self._number)
            self._reason.append(reason)
        return found

    def plus(self, a: int, b: int) -> int:
        """The sum of two dimensions."""
        if a > SYMBOLS and b > SYMBOLS:
            return a + b
        return self._summed(a, b, 1)

    def minus(self, a: int, b: int) -> int:
        """The difference of two dimensions."""
        if a > SYMBOLS and b > SYMBOLS:
            return a - b
        return self._summed(a, b, -1)

    def times(self, a: int, b: int) -> int:
        """The product of two dimensions; 0 times anything is 0."""
        if a > SYMBOLS and b > SYMBOLS:
            return a * b
        made: dict[_Term, int] = {}
        for left, x in self.terms(a).items():
            for right, y in self.terms(b).items():
                term = tuple(sorted(left + right))
                made[term] = made.get(term, 0) + x * y
        return self.polynomial(made)

    def floor_divided(self, a: int, b: int) -> int:
        """The quotient, rounded down. Division by 0, which TensorFlow refuses when it runs, gives a symbol."""
        if a > SYMBOLS and b > SYMBOLS and b:
            return a // b
        whole = self.quotient(a, b)
        return self.symbol("//", a, b) if whole is None else whole

    def ceil_divided(self, a: int, b: int) -> int:
        """The quotient, rounded up."""
        if a > SYMBOLS and b > SYMBOLS and b:
            return -(-a // b)
        whole = self.quotient(a, b)
        return self.symbol("-//", a, b) if whole is None else whole

    def quotient(self, a: int, b: int) -> int | None:
        """The quotient if there is one without rounding, whatever the symbols stand for; else None."""
        if a > SYMBOLS and b > SYMBOLS:
            return a // b if b and not a % b else None
        if a == b:
            return 1
        below = self.terms(b)
        if len(below) != 1:
            return None
        ((divisor, factor),) = below.items()
        made: dict[_Term, int] = {}
        for term, coefficient in self.terms(a).items():
            left = list(term)
            for one in divisor:
                if one not in left:
                    return None
                left.remove(one)
            if coefficient % factor:
                return None
            made[tuple(left)] = coefficient // factor
        return self.polynomial(made)

    def bind(self, a: int, b: int) -> None:
        """Note that two dimensions are equal; of numbers that differ nothing is noted."""
        a, b = self.resolved(a), self.resolved(b)
        if a < b:
            a, b = b, a  # a number, else the older symbol, stands for the other
        if a == b or b > SYMBOLS or not self.binding:
            return
        self.bound[b] = a
        terms = self._polynomial.get(b)
        single = [term for term in terms if term] if terms is not None else []
        if terms is not None and len(single) == 1 and len(single[0]) == 1:
            left = self.minus(a, terms.get((), 0))
            whole = self.quotient(left, terms[single[0]])
            if whole is not None and (whole >= 0 or whole <= SYMBOLS):
                self.bind(single[0][0], whole)

    def resolved(self, dim: int) -> int:
        """The dimension by all that is noted of its symbols."""
        while dim in self.bound:
            dim = self.bound[dim]
        terms = self._polynomial.get(dim)
        if terms is None or not any(one in self.bound or one in self._polynomial for term in terms for one in term):
            return dim
        total = 0
        for term, coefficient in terms.items():
            total = self.plus(total, self.times(coefficient, self.product(map(self.resolved, term))))
        return total

    def product(self, dims: Iterable[int]) -> int:
        """The product of dimensions, the number of elements of a shape."""
        made = 1
        for dim in dims:
            made = self.times(made, dim)
        return made

    @property
    def reasons(self) -> tuple[Sequence[Hashable], ...]:
        """The reasons of all symbols, in the order in which they were made."""
        return tuple(self._reason)

    def reason(self, symbol: int) -> Sequence[Hashable]:
        """The reason for which a symbol was made."""
        return self._reason[SYMBOLS - symbol]

    def terms(self, dim: int) -> _Polynomial:
        """The dimension as a polynomial: sorted symbols that are multiplied -> how often."""
        if dim > SYMBOLS:
            return {(): int(dim)} if dim else {}
        return self._polynomial.get(dim) or {(dim,): 1}

    def _summed(self, a: int, b: int, sign: int) -> int:
        made = dict(self.terms(a))
        for term, coefficient in self.terms(b).items():
            made[term] = made.get(term, 0) + sign * coefficient
        return self.polynomial(made)

    def polynomial(self, polynomial: Mapping[_Term, int]) -> int:
        """The dimension that is this polynomial."""
        terms = {term: coefficient for term, coefficient in polynomial.items() if coefficient}
        if not terms:
            return 0
        if len(terms) == 1:
            ((term, coefficient),) = terms.items()
            if not term:
                return coefficient
            if coefficient == 1 and len(term) == 1:
                return term[0]
        found = self.symbol("polynomial", tuple(sorted(terms.items())))
        if len(terms) <= _TERMS and max(map(len, terms)) <= _TERMS:
            self._polynomial[found] = terms
        return found


def numbers(shape: Dims) -> Dims:
    """The shape with -1 for unknown dimensions."""
    if shape is None or not shape or min(shape) >= 0:
        return shape
    return tuple([max(side, -1) for side in shape])


def is_open(shape: Dims) -> bool:
    """Whether the rank or a dimension is unknown."""
    return shape is None or (bool(shape) and min(shape) < 0)


def as_dim(number: Number) -> int:
    """A number as a dimension, fractions cut off."""
    return number if isinstance(number, int) else int(number)


def known(value: Sequence[Number]) -> bool:
    """Whether all elements of a value are known."""
    return not value or min(value) > SYMBOLS
