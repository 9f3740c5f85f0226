"""The place of a rule: one node with what is known of its inputs, and the ways in which shapes are joined.

A rule takes a `Site` and returns the shapes of the node's outputs. It raises ShapeError where TensorFlow's shape
function refuses the inputs (`tensorflow/core/framework/common_shape_fns.cc` and `shape_inference.cc`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from simulator.graph.attributes import is_true
from simulator.graph.dtypes import base
from simulator.graph.messages import Proto
from simulator.graph.tensors import MAX_RANK, sides_text
from simulator.shapes.dims import SYMBOLS, Algebra, Dims, Number, Value, as_dim, known
from simulator.shapes.origins import ELEMENT, SINGLE, Origins
from simulator.wording import counted

if TYPE_CHECKING:
    from simulator.graph.graph import Attrs

MAX_ELEMENTS = 4096  # of a value that is followed: more than any list of sizes or indices has

Outputs: TypeAlias = Sequence[Dims]  # of the first outputs; those that are left out are of unknown rank
Rule: TypeAlias = "Callable[[Site], Outputs]"


class ShapeError(Exception):
    """The inputs of a node do not fit together; the message is a clause without its full stop."""


class NothingYet(Exception):
    """A node takes something out of where nothing has been put in so far: it is visited again when something is."""


class Handle(NamedTuple):
    """The resource that a tensor refers to: a variable, a queue, a stack, an array or a list of tensors, an iterator.

    What is put into something with a `key` comes out of it elsewhere. Something without a key is a value itself.
    """

    kind: str
    key: str = ""
    shapes: tuple[Dims, ...] = ()  # that it declares
    held: Dims | bool = False  # of a list without key: the shape of its elements; False: it has none yet
    value: Value | None = None  # the elements of each of these tensors, if they are followed and all alike
    length: int = SYMBOLS  # the number of elements of an array or a list; SYMBOLS: unknown
    inner: Handle | None = None  # of a list: what each of its elements refers to, as in a list of lists
    form: Dims = None  # of a list: the shape of the tensor that said the shape of its elements
    parts: tuple[Dims, ...] = ()  # of a list of few: the shape of each element, if all are known; None: not set so far
    choices: tuple[Handle, ...] = ()  # of an optional: what it may wrap, each of another type or rank
    dtype: int = 0  # of what an optional wraps


class Site:
    """A node, what is known of its inputs, and where a rule leaves what it finds beyond shapes."""

    __slots__ = (
        "_fresh",
        "algebra",
        "arrays",
        "attrs",
        "contents",
        "counters",
        "handles",
        "learned",
        "learning",
        "made",
        "name",
        "node",
        "op",
        "origins",
        "outputs",
        "patient",
        "round",
        "shapes",
        "tensors",
        "types",
        "values",
    )

    def __init__(self, algebra: Algebra, contents: Contents) -> None:
        self.algebra = algebra
        self.contents = contents
        self.node, self._fresh, self.outputs = 0, 0, 1
        self.op = self.name = ""
        self.attrs: Attrs = {}
        self.shapes: list[Dims] = []  # of the data inputs
        self.types: Sequence[int] = ()  # DataType of each tensor of the graph
        self.values: list[Value | None] = []  # of the data inputs; None: not followed
        self.handles: list[Handle | None] = []  # of the data inputs
        self.made: dict[int, Handle] = {}  # output -> what it refers to, left by the rule
        self.tensors: Sequence[int] = ()  # rows of the data inputs
        self.round = 0  # a rule that knows more may ask for fewer symbols: those of another round are others
        self.patient = True  # whether something may still be put in where nothing is yet
        self.learning = False  # whether equal dimensions are noted
        self.origins: Origins | None = None  # where numbers come from, if that is asked
        self.learned: dict[int, Dims] = {}  # tensor of unknown rank -> what a reader asks of it
        self.arrays: Mapping[str, int] = {}  # key of a TensorArray -> where the last of its elements ends, if known
        # Merge of a loop and place among its elements -> between which numbers it lies at this node
        self.counters: Mapping[tuple[Hashable, Hashable], tuple[float, float]] = {}

    def at(self, node: int, name: str, op: str, attrs: Attrs, outputs: int) -> None:
        """Move to another node; its inputs are set by the caller."""
        self.node, self.name, self.op, self.attrs, self.outputs = node, name, op, attrs, outputs
        self._fresh = 0
        self.made = {}

    # ---- inputs -----------------------------------------------------------------------------------------------------

    def shape(self, slot: int) -> Dims:
        """The shape of an input; unknown where the node has fewer."""
        return self.shapes[slot] if -len(self.shapes) <= slot < len(self.shapes) else None

    def value(self, slot: int) -> Value | None:
        """The elements of an input, if they are followed."""
        return self.values[slot] if -len(self.values) <= slot < len(self.values) else None

    def whole(self, slot: int) -> int | None:
        """The single whole number that an input holds, if it is known."""
        found = self.value(slot)
        return as_dim(found[0]) if found is not None and len(found) == 1 and found[0] > SYMBOLS else None

    def vector(self, slot: int, length: int) -> Value | None:
        """The elements of an input that must be so many, if they are followed."""
        found = self.value(slot)
        if found is not None and len(found) != length:
            raise ShapeError(f"input {slot} must have {counted(length, 'element')}, not {len(found)}")
        return found

    def pair(self, found: Value | None) -> tuple[int, int]:
        """Two dimensions, such as height and width, that such elements say."""
        return (self.fresh(), self.fresh()) if found is None else (as_dim(found[0]), as_dim(found[1]))

    def length(self, slot: int) -> int | None:
        """The number of elements of a vector that holds an entry per dimension, if it is known."""
        shape = self.shape(slot)
        return shape[0] if shape is not None and len(shape) == 1 and 0 <= shape[0] <= MAX_RANK else None

    def single(self, slot: int) -> int:
        """A dimension that an input holds."""
        found = self.vector(slot, 1)
        return self.fresh() if found is None or SYMBOLS < found[0] < 0 else as_dim(found[0])

    def wholes(self, slot: int) -> tuple[int, ...] | None:
        """The whole numbers that an input holds, if all are known."""
        found = self.value(slot)
        return tuple([as_dim(one) for one in found]) if found is not None and known(found) else None

    def dims(self, slot: int) -> Dims:
        """The shape that an input holds as its value; -1 is an unknown dimension (`MakeShapeFromShapeTensor`)."""
        found = self.value(slot)
        if found is None:
            rank = self.length(slot)
            return None if rank is None else self.ranked(rank)
        if self.shape(slot) == ():
            if found[0] == -1:
                return None  # a scalar -1 is an unknown rank
            raise ShapeError(f"a shape must be a vector, not the scalar {found[0]}")
        for one in found:
            if SYMBOLS < one < -1:
                raise ShapeError(f"a dimension of {int(one)} in the shape {written(tuple(map(int, found)))}")
        return tuple([self.fresh() if one == -1 else as_dim(one) for one in found])

    def handle(self, slot: int, kind: str) -> Handle | None:
        """The resource that an input refers to, if it is of that kind."""
        found = self.handles[slot] if slot < len(self.handles) else None
        return found if found is not None and found.kind == kind else None

    # ---- attributes -------------------------------------------------------------------------------------------------

    def number(self, name: str, default: int = 0) -> int:
        """An attribute that is a whole number."""
        value = self.attrs.get(name)
        return default if value is None else int(value.i)

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is a truth value."""
        return is_true(self.attrs, name, default)

    def text(self, name: str, default: str = "") -> str:
        """An attribute that is a string."""
        value = self.attrs.get(name)
        return default if value is None else value.s.decode("latin-1")

    def numbers(self, name: str) -> list[int]:
        """An attribute that is a list of whole numbers."""
        value = self.attrs.get(name)
        return [] if value is None else list(value.list.i)

    def listed_numbers(self, name: str, length: int) -> list[int]:
        """The same, which must be so many."""
        found = self.numbers(name)
        if len(found) != length:
            raise ShapeError(f"attribute {name} must list {length} numbers, not {len(found)}")
        return found

    def traced_number(self, name: str) -> int:
        """An attribute that is a whole number, with its origin; -1 where it is missing."""
        found = self.number(name, -1)
        return found if self.origins is None else self.origins.entry(self.node, name, ELEMENT, 1, found)

    def declared(self, name: str = "shape") -> Dims:
        """An attribute that is a shape."""
        value = self.attrs.get(name)
        return None if value is None or not value.HasField("shape") else self.of_message(value.shape, name)

    def listed(self, name: str) -> tuple[Dims, ...]:
        """An attribute that is a list of shapes."""
        value = self.attrs.get(name)
        if value is None:
            return ()
        return tuple([self.of_message(shape, name, at) for at, shape in enumerate(value.list.shape)])

    def of_message(self, shape: Proto, name: str, at: int = SINGLE) -> Dims:
        """The dimensions of a TensorShapeProto, of that attribute and at that index of a list."""
        if shape.unknown_rank:
            return None
        made = tuple([dim.size if dim.size >= 0 else self.fresh() for dim in shape.dim])
        if self.origins is None:
            return made
        return tuple(
            [self.origins.entry(self.node, name, at, place, side, len(made)) for place, side in enumerate(made)]
        )

    def dtype(self, slot: int) -> int:
        """The type of an input, without the mark of a reference; 0 where unknown."""
        return base(self.types[self.tensors[slot]]) if slot < len(self.tensors) else 0

    # ---- making shapes ----------------------------------------------------------------------------------------------

    def fresh(self) -> int:
        """A dimension of which nothing is known."""
        self._fresh += 1
        return self.algebra.symbol(self.round, self.node, self._fresh)

    def ranked(self, rank: int) -> tuple[int, ...]:
        """A shape of which only the rank is known. A file can ask for any; no tensor has more than MAX_RANK."""
        if not 0 <= rank <= MAX_RANK:
            raise ShapeError(f"a tensor can't have {rank} dimensions")
        return tuple([self.fresh() for _ in range(rank)])

    def of_rank(self, shape: Dims, rank: int) -> tuple[int, ...]:
        """The shape, which must have that rank."""
        if shape is None:
            return self.ranked(rank)
        if len(shape) != rank:
            raise ShapeError(f"shape must be rank {rank} but is rank {len(shape)}: {written(shape)}")
        return shape

    def input_of_rank(self, slot: int, rank: int) -> tuple[int, ...]:
        """The shape of an input, which must have that rank."""
        shape = self.shape(slot)
        if shape is not None:
            return self.of_rank(shape, rank)
        made = self.of_rank(None, rank)
        self.learn(slot, made)
        return made

    def learn(self, slot: int, shape: Dims) -> None:
        """Note that an input of unknown rank has that shape, as the node would be refused otherwise."""
        if self.learning and shape is not None and -len(self.shapes) <= slot < len(self.shapes):
            tensor = self.tensors[slot]
            if self.shapes[slot] is None:
                before = self.learned.get(tensor)
                self.learned[tensor] = shape if before is None or len(before) != len(shape) else before
                if before is not None and len(before) == len(shape):
                    for x, y in zip(before, shape, strict=True):
                        self.algebra.bind(x, y)

    def at_most(self, slot: int, rank: int) -> Dims:
        """The shape of an input, which must have at most that rank."""
        shape = self.shape(slot)
        if shape is not None and len(shape) > rank:
            raise ShapeError(f"shape must be at most rank {rank} but is rank {len(shape)}: {written(shape)}")
        return shape

    def agreed(self, slots: Sequence[int]) -> Dims:
        """The shape that all of these inputs have."""
        shape: Dims = None
        for slot in slots:
            shape = self.merged(shape, self.shape(slot))
        if self.learning:
            for slot in slots:
                self.learn(slot, shape)
        return shape

    def at_least(self, shape: Dims, rank: int) -> Dims:
        """The shape, which must have at least that rank."""
        if shape is not None and len(shape) < rank:
            raise ShapeError(f"shape must be at least rank {rank} but is rank {len(shape)}: {written(shape)}")
        return shape

    def merged(self, a: Dims, b: Dims) -> Dims:
        """The shape of which both are known parts (`InferenceContext::Merge`)."""
        if a is None or (a == b and self.origins is None):
            return b
        if b is None:
            return a
        if len(a) != len(b):
            raise ShapeError(f"shapes must be equal rank, but are {len(a)} and {len(b)}: {written(a)} and {written(b)}")
        return tuple([self.equal(x, y, a, b) for x, y in zip(a, b, strict=True)])

    def equal(self, x: int, y: int, a: Dims = None, b: Dims = None) -> int:
        """The dimension that both are; a number says more than a symbol."""
        if x == y:
            self.equate(x, y)
            return x
        if x < 0 or y < 0:
            if self.learning:
                self.algebra.bind(x, y)
            return max(x, y)
        whose = "" if a is None else f": {written(a)} and {written(b)}"
        raise ShapeError(f"dimensions must be equal, but are {x} and {y}{whose}")

    def broadcast(self, a: Dims, b: Dims) -> Dims:
        """The shape to which both are stretched (`BroadcastBinaryOpOutputShapeFnHelper`)."""
        if a == b and self.origins is None:
            return a
        if a is None or b is None:
            return None
        rank = max(len(a), len(b))
        wide, other = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
        return tuple([self.stretched(x, y, a, b) for x, y in zip(wide, other, strict=True)])

    def stretched(self, x: int, y: int, a: Dims, b: Dims) -> int:
        """The dimension to which two are stretched, of which one may be 1."""
        if x == y == 1:  # either may be stretched for another batch: one that comes from elsewhere says more
            return y if type(x) is int else x
        if x == y or y == 1:
            self.equate(x, y)
            return x
        if x == 1:
            return y
        if x < 0 or y < 0:
            return max(x, y) if max(x, y) >= 0 else self.fresh()
        raise ShapeError(f"dimensions must be equal, but are {x} and {y}: {written(a)} and {written(b)}")

    def equate(self, x: int, y: int) -> None:
        """Note that two dimensions are equal whatever the file's numbers are."""
        if self.origins is not None:
            self.origins.equate(x, y)

    def equate_all(self, a: Sequence[Number] | None, b: Sequence[Number] | None) -> None:
        """As `equate`, for each pair."""
        if self.origins is not None and a is not None and b is not None and a is not b and len(a) == len(b):
            for x, y in zip(a, b, strict=True):
                if isinstance(x, int) and isinstance(y, int):
                    self.origins.equate(x, y)

    def axis(self, axis: int, rank: int) -> int:
        """An axis from 0 on, of one that may count from the end."""
        if not -rank <= axis < rank:
            raise ShapeError(f"axis {axis} must be in the range [{-rank}, {rank})")
        return axis + rank if axis < 0 else axis

    def elements(self, shape: Dims) -> int:
        """The number of elements, as a dimension."""
        return self.fresh() if shape is None else self.algebra.product(shape)

    def put(self, handle: Handle | None, *shapes: Dims, value: Value | None = None) -> None:
        """Note that these are put into what a handle refers to; `value`: the elements of a single one."""
        if handle is not None:
            for all_held in (handle.shapes, self.contents.held.get(handle.key, ())):
                for shape, held in zip(shapes, all_held, strict=False):
                    self.equate_all(shape, held)
            self.contents.put(handle.key, shapes, value)

    def taken(self, handle: Handle | None) -> tuple[Dims, ...]:
        """The shapes of what comes out of it: of all that is put in; () if nothing ever is."""
        if handle is None:
            return ()
        found = self.contents.taken(handle.key, self.node)
        return found if found else self.wait()

    def wait(self) -> tuple[Dims, ...]:
        """Leave the node until something is put in; () once it is certain that nothing will be."""
        if self.patient:
            raise NothingYet
        return ()


class Contents:
    """The contents of queues, stacks and arrays, put in anywhere in the graph, and the nodes that take them out."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.held: dict[str, tuple[Dims, ...]] = {}
        self.values: dict[str, Value | None] = {}  # of what has a single component, if it is always the same
        self.takers: dict[str, set[int]] = {}
        self.woken: list[int] = []  # takers for which something has changed

    def put(self, key: str, shapes: tuple[Dims, ...], value: Value | None) -> None:
        """Widen what is held to what is put in, too."""
        before, known_before = self.held.get(key), self.values.get(key)
        after = shapes if before is None else self._both(key, before, shapes)
        known_after = value if before is None else either_value(self.algebra, ("held", key), known_before, value)
        if after != before or known_after != known_before:
            self.held[key], self.values[key] = after, known_after
            self.woken += sorted(self.takers.get(key, ()))

    def taken(self, key: str, node: int) -> tuple[Dims, ...]:
        """The contents now; the node is notified of changes."""
        self.takers.setdefault(key, set()).add(node)
        return self.held.get(key, ())

    def _both(self, key: str, before: tuple[Dims, ...], shapes: tuple[Dims, ...]) -> tuple[Dims, ...]:
        if len(before) != len(shapes):
            return (None,) * len(before)
        pairs = enumerate(zip(before, shapes, strict=True))
        return tuple([either(self.algebra, ("held", key, place), a, b) for place, (a, b) in pairs])


def either(algebra: Algebra, reason: tuple[object, ...], a: Dims, b: Dims) -> Dims:
    """Join the knowledge of a shape that is one of two; an unknown dimension is the symbol of that reason."""
    if a == b:
        return a
    if a is None or b is None or len(a) != len(b):
        return None
    pairs = enumerate(zip(a, b, strict=True))
    return tuple([x if x == y else algebra.symbol("either", *reason, axis) for axis, (x, y) in pairs])


def either_value(algebra: Algebra, reason: tuple[object, ...], a: Value | None, b: Value | None) -> Value | None:
    """Join the knowledge of a value that is one of two."""
    if a == b:
        return a
    if a is None or b is None or len(a) != len(b):
        return None
    pairs = enumerate(zip(a, b, strict=True))
    return tuple([x if x == y else algebra.symbol("either value", *reason, place) for place, (x, y) in pairs])


def either_handle(algebra: Algebra, reason: tuple[object, ...], a: Handle | None, b: Handle | None) -> Handle | None:
    """Join the knowledge of a tensor's resource that is one of two."""
    if a == b:
        return a
    if a is None or b is None or a.kind != b.kind or a.key != b.key or len(a.shapes) != len(b.shapes):
        return None
    if a.choices or b.choices:
        return a._replace(choices=_either_choice(algebra, reason, (*a.choices, *b.choices)))
    pairs = enumerate(zip(a.shapes, b.shapes, strict=True))
    shapes = tuple([either(algebra, (*reason, "handle", at), x, y) for at, (x, y) in pairs])
    length = a.length if a.length == b.length else algebra.symbol("length", *reason)
    parts, form = a.parts if a.parts == b.parts else (), a.form if a.form == b.form else None
    if a.held is False or b.held is False:
        full = b if a.held is False else a
        return full._replace(shapes=shapes, length=length, form=form, parts=parts)
    held = either(algebra, (*reason, "held"), _dims(a.held), _dims(b.held))
    value = either_value(algebra, (*reason, "held"), a.value, b.value)
    inner = either_handle(algebra, (*reason, "inner"), a.inner, b.inner)
    return a._replace(shapes=shapes, held=held, value=value, length=length, inner=inner, form=form, parts=parts)


def _either_choice(algebra: Algebra, reason: tuple[object, ...], choices: tuple[Handle, ...]) -> tuple[Handle, ...]:
    """Join what one of two optionals may wrap, by type and rank."""
    found: dict[tuple[int, int], Handle | None] = {}
    for one in choices:
        held = _dims(one.held)
        kind = one.dtype, -1 if held is None else len(held)
        found[kind] = either_handle(algebra, (*reason, *kind), found[kind], one) if kind in found else one
    return tuple([one for _, one in sorted(found.items()) if one is not None])


def _dims(held: Dims | bool) -> Dims:
    return None if isinstance(held, bool) else held


def written(shape: Sequence[Number] | None) -> str:
    """A shape as TensorFlow writes it: [?,3]."""
    return "<unknown>" if shape is None else f"[{sides_text(shape)}]"
