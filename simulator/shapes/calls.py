"""Shapes that a call hands back where calls are kept: its body is inferred for what the call is given.

A body has an algebra of its own. A symbol of the caller has a stand-in there. Stand-ins in what a body hands back mean
the caller's symbols again. All else that is unknown there is a new symbol of the caller.

An If or Case hands back what its branches have in common. A While hands back what its inputs and its body's results
have in common: its variables are widened until its body changes nothing. The body's own claims about shapes count
nothing, as they may be of another batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from simulator import limits
from simulator.errors import GraphError
from simulator.graph.graph import Attrs
from simulator.graph.inlining.bodies import Body
from simulator.graph.inlining.calls import Bodies
from simulator.graph.messages import Proto
from simulator.graph.op_classes import CASES, IFS, PARTITIONED, WHILES
from simulator.shapes.dims import SYMBOLS, Algebra, Dims, Value
from simulator.shapes.site import Handle, either, either_value

_ROUNDS = 8  # in which the variables of a While are widened


class Known(NamedTuple):
    """All that is known of a tensor."""

    shape: Dims = None
    value: Value | None = None
    handle: Handle | None = None


UNKNOWN = Known()
Given: TypeAlias = Sequence[Known]
Inside: TypeAlias = tuple[Algebra, Given]  # what a body hands back, and the algebra of its symbols
InferBody: TypeAlias = "Callable[[Body, Algebra, Given, Calls], Given]"


class Calls:
    """The calls of one graph and of the functions that it calls."""

    def __init__(self, library: Mapping[str, Proto], source: str, infer: InferBody, *, traced: bool) -> None:
        self._library, self._infer = library, infer
        self._traced = traced  # numbers that are equal may have different origins
        self._bodies = Bodies(library, source)
        self._around: list[str] = []  # functions whose bodies are being inferred
        self._seen: dict[Hashable, Inside] = {}
        self._left = limits.BODY_NODES.most

    @property
    def exhausted(self) -> bool:
        """Whether some call was not looked into, as others took all nodes of the limit."""
        return self._left < 0

    def results(self, op: str, attrs: Attrs, algebra: Algebra, node: int, given: Given) -> Given | None:
        """The outputs of a call, an If, a Case or a While, as far as they are known; None: the node is none of these.

        `given` is what is known of its inputs in terms of `algebra`. `node` tells its symbols from those of others.
        """
        if op in WHILES:
            return self._loop(_function(attrs, "body"), algebra, node, given)
        if op in IFS:
            named = [_function(attrs, key) for key in ("then_branch", "else_branch")]
        elif op in CASES:
            named = [(one.name, one.attr) for one in attrs["branches"].list.func] if "branches" in attrs else []
        elif op in PARTITIONED:
            return self._called(*_function(attrs, "f"), algebra, node, given)
        else:
            return self._called(op, attrs, algebra, node, given) if op in self._library else None
        found = [self._called(*one, algebra, (node, at), given[1:]) for at, one in enumerate(named)]
        return [_common(algebra, (node, at), one) for at, one in enumerate(zip(*found, strict=False))]

    def _loop(self, body: tuple[str, Attrs], algebra: Algebra, node: int, given: Given) -> Given:
        known = list(given)
        for _ in range(_ROUNDS):
            after = self._called(*body, algebra, node, known)
            wider = [
                _common(algebra, (node, at), (one, after[at])) if at < len(after) else UNKNOWN
                for at, one in enumerate(known)
            ]
            if wider == known:
                return known
            known = wider
        return []

    def _called(self, name: str, attrs: Attrs, algebra: Algebra, reason: Hashable, given: Given) -> Given:
        """The results of a function; none where it calls itself, is not there, or does not take so many arguments."""
        if name in self._around or name not in self._library:
            return []
        try:
            body = self._bodies.of(name, attrs)
        except GraphError:  # a function that no call can make: the cut or the pricing reports it
            return []
        if len(body.argument_types) != len(given):
            return []
        inward = _Translation(algebra, Algebra(), "given")
        taken = [inward.known(one) for one in given]
        key = (id(body), *taken, inward.to.reasons)
        seen = None if self._traced else self._seen.get(key)
        if seen is None:
            self._left -= len(body.graph)
            if self._left < 0:
                return []
            self._around.append(name)
            try:
                seen = inward.to, self._infer(body, inward.to, taken, self)
            finally:
                self._around.pop()
            self._seen[key] = seen
        outward = _Translation(seen[0], algebra, reason, {number: one for one, number in inward.number.items()})
        from_outside = {one.handle.key for one in given if one.handle is not None} | {""}
        return [outward.known(one if _held_in(one, from_outside) else one._replace(handle=None)) for one in seen[1]]


class _Translation:
    """The way from the symbols of one algebra to those of another; a symbol that is met first is numbered."""

    def __init__(self, of: Algebra, to: Algebra, reason: Hashable, number: Mapping[int, int] = {}) -> None:
        self.of, self.to, self.reason = of, to, reason
        self.number = dict(number)

    def known(self, one: Known) -> Known:
        """All that is known of a tensor."""
        return Known(self.dims(one.shape), self.value(one.value), self.handle(one.handle))

    def dims(self, shape: Dims) -> Dims:
        """A shape."""
        return None if shape is None else tuple([self.dim(side) for side in shape])

    def value(self, value: Value | None) -> Value | None:
        """The elements of a tensor."""
        if value is None:
            return None
        return tuple([self.dim(one) if isinstance(one, int) else one for one in value])

    def handle(self, handle: Handle | None) -> Handle | None:
        """The resource that a tensor refers to."""
        if handle is None:
            return None
        return handle._replace(
            shapes=tuple([self.dims(one) for one in handle.shapes]),
            held=handle.held if isinstance(handle.held, bool) else self.dims(handle.held),
            value=self.value(handle.value),
            length=handle.length if handle.length == SYMBOLS else self.dim(handle.length),
            inner=self.handle(handle.inner),
            form=self.dims(handle.form),
            parts=tuple([self.dims(one) for one in handle.parts]),
            choices=tuple(filter(None, map(self.handle, handle.choices))),
        )

    def dim(self, dim: int) -> int:
        """A dimension: a number as it is, else the same polynomial of the other symbols."""
        if dim > SYMBOLS:
            return dim
        total = 0
        for term, coefficient in self.of.terms(dim).items():
            total = self.to.plus(total, self.to.times(coefficient, self.to.product(map(self._symbol, term))))
        return total

    def _symbol(self, symbol: int) -> int:
        found = self.number.get(symbol)
        if found is None:
            found = self.number[symbol] = self.to.symbol("call", self.reason, len(self.number))
        return found


def _held_in(one: Known, keys: Collection[str]) -> bool:
    """Whether a tensor refers to nothing that a body has made: another call of it makes another one."""
    return one.handle is None or one.handle.key in keys


def _function(attrs: Attrs, key: str) -> tuple[str, Attrs]:
    function = attrs.get(key)
    return ("", {}) if function is None else (function.func.name, function.func.attr)


def _common(algebra: Algebra, reason: tuple[object, ...], ways: Iterable[Known]) -> Known:
    """The knowledge of a tensor that is one of several."""
    first, *others = ways
    for at, other in enumerate(others):
        first = Known(
            either(algebra, (*reason, at), first.shape, other.shape),
            either_value(algebra, (*reason, at), first.value, other.value),
            first.handle if first.handle == other.handle else None,
        )
    return first
