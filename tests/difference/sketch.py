"""A graph while it is drawn: typed values to read, the frame of the loop that is open, and attributes by inference.

`Sketch.node` appends a node of any registered op: types, counts and lists of types follow from the values that it
reads, so that a pattern states only what can be chosen. Shapes are scalars, vectors of a known size, or unknown, and
are tracked as far as the importer's shape functions look.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from simulator.graph import ops, registry
from simulator.graph.dtypes import BOOL, FLOAT, INT32, REF, STRING, base
from simulator.graph.messages import AttrValue
from tests.strategies import Rows

INT64, DOUBLE = 9, 2
NUMBERS = (FLOAT, INT32, DOUBLE, INT64)
# Shapes. 0: a scalar; n: a vector of n; LOOSE: the importer knows nothing; UNTOLD: it may know something
LOOSE, UNTOLD = -1, -2


@dataclass(frozen=True)
class Value:
    """One output of a node."""

    text: str  # "node:port"
    dtype: int  # 100 more for a reference
    shape: int = UNTOLD

    @property
    def node(self) -> str:
        return self.text.partition(":")[0]


@dataclass
class Scope:
    """What may be read at one place: inside a loop only what entered it."""

    values: list[Value] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)  # for control edges
    handles: dict[int, list[Value]] = field(default_factory=dict)  # variable's type -> resources
    pivot: str = ""  # what keeps a node without inputs inside the loop or the branch; "": nothing needs to


class Sketch:
    """Rows that grow, and what may be read now. `requests` are the device strings that nodes draw from."""

    def __init__(self, random: Random, requests: Sequence[str] = ("",), prefix: str = "") -> None:
        self.random, self.requests, self.prefix = random, requests, prefix
        self.rows = Rows()
        self.scopes = [Scope()]
        self.library: dict[str, Any] = {}
        self.control = 0.1  # how often a node waits for another one
        self.counts: dict[str, int] = {}  # nodes per op, for names

    @property
    def here(self) -> Scope:
        return self.scopes[-1]

    def chance(self, share: float) -> bool:
        return chance(self.random, share)

    def name(self, op: str) -> str:
        """A free name; scopes make the order of names differ from that of the nodes."""
        number = self.counts[op] = self.counts.get(op, 0) + 1
        return f"{self.prefix}{self.random.choice(('', 'z/', 'a/b/', 'M/', 'a.b/', '0-/'))}{op.strip('_')}{number}"

    def node(
        self,
        op: str,
        inputs: Sequence[Value] = (),
        *,
        name: str = "",
        waits: Sequence[str] = (),
        device: str | None = None,
        gives: int = UNTOLD,
        also: Sequence[str] = (),
        **attrs: Any,
    ) -> list[Value]:
        """Append a node and return its outputs, all of the shape `gives`.

        `also` are further inputs as text, of nodes that come later. Attributes are plain values or AttrValue messages.
        """
        name = name or self.name(op)
        given = {**self._inferred(op, inputs), **{key: attr(op, key, value) for key, value in attrs.items()}}
        waiting = [*waits]
        if self.here.nodes and self.chance(self.control):
            waiting.append(self.random.choice(self.here.nodes))
        if not inputs and not waiting and self.here.pivot:
            waiting.append(self.here.pivot)
        texts = [*(value.text for value in inputs), *also, *(f"^{one}" for one in waiting)]
        asked = self.random.choice(self.requests) if device is None else device
        self.rows.add(name, op, texts, device=asked, **given)
        self.here.nodes.append(name)
        types = ops.outputs(op, given, self.library) or ()
        return [Value(f"{name}:{port}" if port else name, dtype, gives) for port, dtype in enumerate(types)]

    def _inferred(self, op: str, inputs: Sequence[Value]) -> dict[str, Any]:
        facts = registry.facts(op)
        found: dict[str, Any] = {}
        if facts is None:
            return found
        left = [base(value.dtype) for value in inputs]
        single = len(facts.inputs)
        for number, argument in enumerate(facts.inputs):
            rest = len(left) - (single - number - 1) if argument.number_attr or argument.list_attr else 1
            taken, left = left[:rest], left[rest:]
            if argument.list_attr:
                found[argument.list_attr] = attr_types(taken)
            if argument.number_attr:
                found[argument.number_attr] = AttrValue(i=len(taken))
            if argument.type_attr and taken:
                found[argument.type_attr] = AttrValue(type=taken[0])
        return found

    # ---- values to read --------------------------------------------------------------------------------------------

    def give(self, *values: Value) -> None:
        """Let later nodes read these."""
        self.here.values.extend(values)

    def take(self, *dtypes: int, fits: int | None = None) -> Value:
        """A value of one of the types; of a shape that `fits` goes with; made if there is none."""
        there = [value for value in self.here.values if value.dtype in dtypes and _fits(value.shape, fits)]
        if there and not self.chance(0.08):
            return self.random.choice(there[-12:] if self.chance(0.7) else there)
        return self.source(
            self.random.choice([dtype for dtype in dtypes if dtype < REF]), LOOSE if fits == LOOSE else 0
        )

    def source(self, dtype: int, shape: int = 0) -> Value:
        """A constant or a placeholder; a placeholder has no known shape."""
        if shape == LOOSE or self.chance(0.1):
            unknown = AttrValue(shape={"unknown_rank": True})
            if self.chance(0.5):
                made = self.node("Placeholder", gives=LOOSE, dtype=dtype, shape=unknown)[0]
            else:
                made = self.node("PlaceholderWithDefault", [self.source(dtype)], gives=LOOSE, shape=unknown)[0]
        else:
            made = self.node("Const", gives=shape, **constant(dtype, shape))[0]
        self.give(made)
        return made

    def handles(self, dtype: int) -> list[Value]:
        """The resources of variables of a type that may be used here."""
        return self.here.handles.setdefault(dtype, [])

    @contextmanager
    def inside(self, pivot: str, values: Sequence[Value]) -> Iterator[Scope]:
        """A loop's or a branch's own scope."""
        self.scopes.append(Scope([*values], [pivot] if pivot else [], pivot=pivot))
        try:
            yield self.here
        finally:
            self.scopes.pop()


def chance(random: Random, share: float) -> bool:
    """True in a share of the cases; hypothesis, for which 0.0 is the simplest number, prefers False."""
    return random.random() >= 1 - share


def _fits(shape: int, wanted: int | None) -> bool:
    """Whether the importer takes a value where one of the wanted shape must stand; None: any shape does."""
    if wanted is None or shape in (wanted, LOOSE):
        return True
    return wanted > 0 and shape == 0


def beside(shape: int) -> int | None:
    """What may stand beside a value of that shape in an op that broadcasts."""
    return None if shape in (0, LOOSE) else 0 if shape == UNTOLD else shape


def constant(dtype: int, shape: int = 0) -> dict[str, Any]:
    """The attributes of a Const of zeros."""
    value = AttrValue()
    value.tensor.dtype = dtype
    value.tensor.tensor_shape.SetInParent()
    if shape:
        value.tensor.tensor_shape.dim.add(size=shape)
    key = {FLOAT: "float_val", DOUBLE: "double_val", STRING: "string_val", BOOL: "bool_val", INT64: "int64_val"}
    getattr(value.tensor, key.get(dtype, "int_val")).append(b"" if dtype == STRING else 0)
    return {"dtype": dtype, "value": value}


def attr_types(types: Sequence[int]) -> Any:
    made = AttrValue()
    made.list.SetInParent()
    made.list.type.extend(types)
    return made


def shapes(count: int = 1) -> Any:
    """`count` unknown shapes."""
    made = AttrValue()
    made.list.SetInParent()
    for _ in range(count):
        made.list.shape.add(unknown_rank=True)
    return made


def func(name: str) -> Any:
    made = AttrValue()
    made.func.name = name
    return made


def attr(op: str, key: str, value: Any) -> Any:
    """A plain value as an AttrValue of the kind that the op declares."""
    if isinstance(value, AttrValue):
        return value
    facts = registry.facts(op)
    kind = facts.attrs.get(key, "") if facts else ""
    if kind == "type":
        return AttrValue(type=value)
    if kind == "list(type)":
        return attr_types(value)
    if isinstance(value, bool):
        return AttrValue(b=value)
    if isinstance(value, int):
        return AttrValue(i=value)
    if isinstance(value, float):
        return AttrValue(f=value)
    if isinstance(value, str | bytes):
        return AttrValue(s=value.encode() if isinstance(value, str) else value)
    made = AttrValue()
    made.list.SetInParent()
    for item in value:
        if isinstance(item, bool):
            made.list.b.append(item)
        elif isinstance(item, int):
            made.list.i.append(item)
        else:
            made.list.s.append(item.encode() if isinstance(item, str) else item)
    return made


NUMBERS = (FLOAT, INT32, DOUBLE, INT64)
