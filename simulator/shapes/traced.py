"""Numbers that carry what they are in terms of the numbers in a file: sums, products and quotients keep that."""

from __future__ import annotations

from simulator.shapes.dims import SYMBOLS, Algebra


class Traced(int):
    """A number with what it is in terms of the numbers in a file, a dimension of the algebra."""

    form: int
    algebra: Algebra

    def __add__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return _of(self, other, int(self) + int(other), self.algebra.plus)

    def __sub__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return _of(self, other, int(self) - int(other), self.algebra.minus)

    def __rsub__(self, other: int) -> int:
        return -self + other if isinstance(other, int) else NotImplemented

    def __mul__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return _of(self, other, int(self) * int(other), self.algebra.times)

    def __floordiv__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return _of(self, other, int(self) // int(other), self.algebra.floor_divided)

    def __mod__(self, other: int) -> int:
        return self - self // other * other if isinstance(other, int) else NotImplemented

    def __neg__(self) -> int:
        return self * -1

    def __abs__(self) -> int:
        return self if self >= 0 else -self

    __radd__, __rmul__ = __add__, __mul__


def traced(number: int, form: int, algebra: Algebra) -> int:
    """The number with that form; a number whose form is a number needs none."""
    if form > SYMBOLS:
        return number
    made = Traced(number)
    made.form, made.algebra = form, algebra
    return made


def form_of(number: int) -> int:
    """A number in terms of the file's numbers: itself where nothing is known."""
    return number.form if isinstance(number, Traced) else int(number)


def _of(a: Traced, b: int, number: int, operation: object) -> int:
    return traced(number, operation(a.form, form_of(b)), a.algebra)  # type: ignore[operator]  # a method of the algebra
