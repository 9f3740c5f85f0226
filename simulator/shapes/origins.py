"""Origins of numbers: what each dimension is, as an expression of the numbers that a file holds.

An inference with origins takes the way that it takes without, since a `Traced` number is the number itself. Where an op
asks that two numbers are equal, so are their expressions. These equations show which numbers of the file are one and
the same, such as a batch that a dozen constants repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import NamedTuple

from simulator.graph.tensors import MAX_RANK
from simulator.shapes.dims import SYMBOLS, Algebra
from simulator.shapes.traced import form_of, traced

ELEMENT = -2  # in the place of a list's index: the number is an element of a constant, or the attribute itself
ROWS = "rows"  # in the place of an attribute: the rows of a sparse tensor, which no number of the file gives
SINGLE = -1  # in the place of a list's index: the attribute is no list


class FileNumber(NamedTuple):
    """A number in a file."""

    node: int
    attr: str  # "" for a shape that the file gives to an output
    at: int  # index of a shape in a list, SINGLE or ELEMENT; of an output its port
    place: int  # axis of the shape, or index of the element
    number: int
    length: int = 1  # how many numbers stand beside each other


@dataclass(slots=True)
class Origins:
    """The numbers of a file that may be multiples of its batch, and the equations between them."""

    algebra: Algebra
    size: int  # the batch that the file fixes
    also: Collection[int] = ()  # numbers that may hang on it, too, such as a batch and 7; multiples may divide them
    nodes: Collection[int] = ()  # whose elements and numbers may hang on it, too
    entries: dict[int, FileNumber] = field(default_factory=dict)  # symbol -> what it stands for
    _equations: dict[tuple[int, int], None] = field(default_factory=dict)  # pairs of equal forms, in order
    _first: dict[int, int] = field(default_factory=dict)  # form -> one that it equals
    _joined: dict[int, tuple[int, ...]] = field(default_factory=dict)  # form of a side -> the sides that it joins

    def entry(self, node: int, attr: str, at: int, place: int, number: int, length: int = 1) -> int:
        """The number of a file, traced if it is the batch, in the first place a multiple of it, of `also` or `nodes`.

        Any multiple of the batch in a constant is traced that divides one of `also`: it may be a side of as many.
        """
        odd = attr == "value" and (number in self.also or self._divides(number))
        odd |= at == ELEMENT and node in self.nodes
        if number != self.size and not odd and (place or number <= 0 or number % self.size):
            return number
        return self.told(node, attr, at, place, number, length)

    def _divides(self, number: int) -> bool:
        multiple = 0 < self.size < number and not number % self.size
        return multiple and any(not one % number for one in self.also)

    def told(self, node: int, attr: str, at: int, place: int, number: int, length: int = 1) -> int:
        """The number of a file, traced whatever it is."""
        symbol = self.algebra.symbol("entry", node, attr, at, place)
        self.entries[symbol] = FileNumber(node, attr, at, place, number, length)
        return traced(number, symbol, self.algebra)

    def equate(self, a: int, b: int) -> None:
        """Note that an op asks for two equal numbers."""
        x, y = form_of(a), form_of(b)
        if x != y and a == b:
            self._equations[x, y] = None
            one, other = self._one(x), self._one(y)
            self._first[other] = one
            if other in self._joined:
                self._joined.setdefault(one, self._joined[other])

    def join(self, sides: tuple[int, ...], side: int) -> None:
        """Note the first sides of a shape that an op lays out as one."""
        for count in range(2, len(sides) + 1):
            if self.algebra.product(sides[:count]) == side:
                self._joined[self._one(form_of(side))] = sides[:count]

    def parts(self, side: int) -> tuple[int, ...]:
        """The sides that were joined last to one that equals this; () for none."""
        return self._joined.get(self._one(form_of(side)), ())

    def _one(self, form: int) -> int:
        """The form that stands for all that are known to equal this one."""
        first = self._first
        while (above := first.get(form, form)) != form:
            first[form] = form = first.get(above, above)  # the next way is half as long
        return form

    def odd(self, roots: Iterable[int]) -> set[int]:
        """The numbers that an equation ties to the roots though nothing traced them: a tower's half of a batch.

        If no form of an equation has the roots, as it is solved, those count that chains of equations tie to them.
        """
        last = frozenset(roots)
        both = [pair for a, b in self._equations for pair in ((a, b), (b, a))]
        pairs = [(number, form) for number, form in both if 1 < number != self.size and form <= SYMBOLS]
        if found := {number for number, form in pairs if self.depends(form, last)}:
            return found
        chained = self._chained(last)
        return {number for number, form in pairs if not chained.isdisjoint(self._own(form))}

    def _chained(self, roots: Collection[int]) -> set[int]:
        """The symbols that equations tie to the roots, one after the other."""
        sides = [self._own(a) | self._own(b) for a, b in self._equations]
        reached, before = set(roots), 0
        while before < len(reached):
            before = len(reached)
            for symbols in sides:
                if not reached.isdisjoint(symbols):
                    reached |= symbols
        return reached

    def _own(self, form: int) -> set[int]:
        """The symbols of a form as it was made."""
        return {symbol for term in self.algebra.terms(form) for symbol in term}

    def depends(self, form: int, symbols: Collection[int]) -> bool:
        """Tell whether a form has one of these symbols, or rounds what has one."""
        return not self._inside(form).isdisjoint(symbols)

    def solve(self, roots: Iterable[int], fed: Collection[int]) -> bool:
        """Express entries by the roots, which are the batch; the algebra's `resolved` then knows. False: no batch fits.

        First come equations of two terms, perhaps beside a number. In an equation of more, such as a sum of two parts,
        entries in the first place that equal the batch are it. Then any entry that stands by itself follows from the
        others. Where only products are left, the least likely entries keep their number. Those in the last places come
        first, then multiples of the batch, then the others, and those of the nodes `fed` last of all. Before that,
        products of as many entries as batches are solved.
        """
        last = frozenset(roots)
        algebra, entries = self.algebra, self.entries
        left = [minus for a, b in self._equations if (minus := algebra.minus(a, b))]
        left.sort(key=lambda form: any(map(self._rounds, self.symbols(form))))  # what is inside may be said by others
        left = self._solved(left, last, 2)
        for form in left:
            symbols = [term[0] for term in algebra.terms(algebra.resolved(form)) if len(term) == 1]
            root = max((symbol for symbol in symbols if symbol in last), default=None)
            for symbol in symbols:
                entry = entries.get(symbol)
                if root and entry and symbol not in last and not entry.place and entry.number == self.size:
                    algebra.bound[symbol] = root
        left = self._solved(left, last, 2)
        left = self._solved(left, last)
        self._powers(left, last)
        left = self._solved(left, last)
        while free := {one: entries[one] for form in left for one in self._inside(form) if one in entries}:
            likely = {
                symbol: self._likely(entry, fed)
                for symbol, entry in free.items()
                if symbol not in last and (entry.place or entry.number != self.size)
            }
            if not likely:
                left = self._first_ones(left, last)
                break
            for symbol, how in likely.items():
                if how == min(likely.values()):
                    algebra.bound[symbol] = entries[symbol].number
            left = self._solved(left, last)
        return not any(self.symbols(form) <= last for form in left)

    def _powers(self, forms: Sequence[int], last: frozenset[int]) -> None:
        """Take entries for the batch that equal it and are as many factors as the other side of an equation has of it.

        So a table of each example by each has the batch twice.
        """
        for form in forms:
            terms = self.algebra.terms(self.algebra.resolved(form))
            if len(terms) != 2 or sum(terms.values()) != 0:
                continue
            one, other = _reduced(terms)
            for rooted, free in ((one, other), (other, one)):
                entries = [self.entries.get(symbol) for symbol in free]
                alike = all(entry and entry.number == self.size for entry in entries)
                apart = len(rooted) == len(free) == len(set(free)) and last.isdisjoint(free)
                if alike and apart and last.issuperset(rooted):
                    self.algebra.bound.update(zip(free, rooted, strict=True))

    def _first_ones(self, forms: Sequence[int], last: frozenset[int]) -> list[int]:
        """Take entries that nothing else says, which equal the batch and stand first, for the batch of their equation.

        Such a one may say alone that the batch is a multiple of it, as the rows of a tensor that is laid out anew. One
        is taken at a time, those before other sizes first: of a batch and as many heads only one is the batch.
        """
        left = list(forms)
        while True:
            reduced = [_reduced(self.algebra.terms(self.algebra.resolved(form))) for form in left]
            told = [{symbol for term in terms for symbol in term} for terms in reduced]
            rooted = [symbols for symbols in told if not symbols.isdisjoint(last)]
            free = {one: self.entries[one] for symbols in rooted for one in symbols - last if one in self.entries}
            first = [one for one, entry in free.items() if not entry.place and entry.number == self.size]
            if not first:
                return left
            self.algebra.bound[max(first, key=lambda one: (free[one].length, one))] = max(last)
            left = self._solved(left, last)

    def _likely(self, entry: FileNumber, fed: Collection[int]) -> tuple[bool, int]:
        """How likely an entry is the batch, as a value to sort by."""
        return entry.node in fed, entry.length - entry.place if entry.place else MAX_RANK

    def symbols(self, form: int) -> set[int]:
        """The symbols that a form depends on."""
        return {symbol for term in self.algebra.terms(self.algebra.resolved(form)) for symbol in term}

    def _solved(self, forms: Sequence[int], last: frozenset[int], most: int = 2**31) -> list[int]:
        """Solve what can be solved of equations with at most that many terms beside a number; return what is left."""
        while True:
            before, left = len(self.algebra.bound), []
            for form in forms:
                resolved = self._multiplied(self._divided(form))
                if not resolved:
                    continue
                terms = self.algebra.terms(resolved)
                if sum(map(bool, terms)) > most or not self._eliminate(terms, last):
                    left.append(resolved)
            forms = left
            if len(self.algebra.bound) == before:
                return left

    def _divided(self, form: int) -> int:
        """The equation as it is resolved, without quotients that are exact by what is known now."""
        for symbol in sorted(filter(self._rounds, self._inside(form)), reverse=True):  # the older ones are inside
            _, a, b = self.algebra.reason(symbol)
            above, below = self.algebra.resolved(a), self.algebra.resolved(b)  # type: ignore[arg-type]  # dimensions
            exact = self.algebra.quotient(above, below)
            if exact is not None:
                self.algebra.bound[symbol] = exact
        return self.algebra.resolved(form)

    def _multiplied(self, form: int) -> int:
        """The equation without a quotient that stands by itself and is exact in the file: multiplied by its divisor."""
        whole = gcd(*self.algebra.terms(form).values())
        for term, factor in self.algebra.terms(form).items():
            if len(term) == 1 and factor**2 == whole**2 and self._rounds(term[0]):
                _, a, b = self.algebra.reason(term[0])
                above, below = self.algebra.resolved(a), self.algebra.resolved(b)  # type: ignore[arg-type]  # dimensions
                if below > 1 and not self.number(above, {}) % below:
                    rest = self.algebra.minus(form, self.algebra.times(factor, term[0]))
                    return self.algebra.plus(self.algebra.times(factor, above), self.algebra.times(below, rest))
        return form

    def _eliminate(self, terms: Mapping[tuple[int, ...], int], last: frozenset[int]) -> bool:
        """Solve a polynomial that is 0 for an entry; whether that was possible."""
        terms = _reduced(terms)
        count = Counter(symbol for term in terms for symbol in set(term))
        alone = [term[0] for term, factor in terms.items() if len(term) == 1 and count[term[0]] == 1 and factor**2 == 1]
        rooted = [symbol for symbol in alone if symbol in last]
        free = [symbol for symbol in alone if symbol not in last and (symbol in self.entries or self._rounds(symbol))]
        free = [one for one in free if one not in self._within(term for term in terms if term != (one,))]
        if not free and len(rooted) > 1 and len(terms) == 2:
            free = rooted  # two of the batch itself
        if not free:
            return self._divide(terms, last)
        chosen = min(free, key=lambda symbol: (symbol in self.entries and 1 + (self.entries[symbol].place > 0), symbol))
        sign = -terms[chosen,]
        rest = {term: sign * factor for term, factor in terms.items() if term != (chosen,)}
        self.algebra.bound[chosen] = self.algebra.polynomial(rest)
        return True

    def _divide(self, terms: Mapping[tuple[int, ...], int], last: frozenset[int]) -> bool:
        """Solve an equation of the batch and a multiple of an entry, as of a tower's share; whether it is one."""
        parts = {term[0]: factor for term, factor in terms.items() if len(term) == 1}
        roots = [one for one in parts if one in last]
        shares = [one for one in parts if one in self.entries and one not in last]
        if len(terms) != 2 or len(roots) != 1 or len(shares) != 1 or parts[shares[0]] % parts[roots[0]]:
            return False
        share = self.algebra.floor_divided(roots[0], -parts[shares[0]] // parts[roots[0]])
        if self.algebra.resolved(share) == shares[0]:
            del self.algebra.bound[share]  # the entry was known to be that share, and now what the share is
        self.algebra.bound[shares[0]] = share
        return True

    def _inside(self, form: int) -> set[int]:
        """The symbols of a form, and of what they round."""
        return self._within(self.algebra.terms(self.algebra.resolved(form)))

    def _within(self, terms: Iterable[tuple[int, ...]]) -> set[int]:
        """The symbols of these terms, and of what they round: `a // b * b` depends on a."""
        found, left = set[int](), [symbol for term in terms for symbol in term]
        while left:
            symbol = left.pop()
            if symbol not in found and self._rounds(symbol):
                _, a, b = self.algebra.reason(symbol)
                left += [*self.symbols(a), *self.symbols(b)]  # type: ignore[arg-type]  # dimensions
            found.add(symbol)
        return found

    def number(self, form: int, at: Mapping[int, int]) -> int:
        """The number that a form is where symbols have the numbers `at`; other entries keep the file's."""
        form = self.algebra.resolved(form)
        if form > SYMBOLS:
            return form
        total = 0
        for term, factor in self.algebra.terms(form).items():
            for symbol in term:
                factor *= at[symbol] if symbol in at else self._single(symbol, at)
            total += factor
        return total

    def _rounds(self, symbol: int) -> bool:
        return self.algebra.reason(symbol)[0] in ("//", "-//")

    def _single(self, symbol: int, at: Mapping[int, int]) -> int:
        if symbol in self.entries:
            return self.entries[symbol].number
        reason = self.algebra.reason(symbol)
        if self._rounds(symbol):
            _, a, b = reason
            above, below = self.number(a, at), self.number(b, at)  # type: ignore[arg-type]  # dimensions
            if below:
                return above // below if reason[0] == "//" else -(-above // below)
        raise ValueError(f"{reason} has no number")


def _reduced(terms: Mapping[tuple[int, ...], int]) -> dict[tuple[int, ...], int]:
    """The polynomial without the factors that all of its terms have: none of them is 0."""
    whole = gcd(*terms.values())
    shared: list[int] = []
    for symbol in sorted(terms, key=len)[0]:
        if all(term.count(symbol) > shared.count(symbol) for term in terms):
            shared.append(symbol)
    made = {}
    for term, factor in terms.items():
        rest = list(term)
        for symbol in shared:
            rest.remove(symbol)
        made[tuple(rest)] = factor // whole
    return made
