"""Attributes of nodes that are added to a graph: values, and the keys that several passes write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from simulator.graph.graph import Attrs
from simulator.graph.messages import AttrValue, Proto, TensorShapeProto
from simulator.graph.tensors import SHAPES

COLOCATION, COLOCATED = "_class", b"loc:@"  # the key, and what stands before each name
NO_ATTRS: Attrs = {}  # nobody writes into it; a MappingProxyType could not be pickled with its graph
SCALAR = TensorShapeProto()
_UNKNOWN = TensorShapeProto(unknown_rank=True)


def shaped(shapes: Sequence[Proto | None]) -> Attrs:
    """The attribute that says those shapes of a node's outputs; none when all are unknown."""
    if not any(shape is not None for shape in shapes):
        return NO_ATTRS
    made = AttrValue()
    made.list.shape.extend(_UNKNOWN if shape is None else shape for shape in shapes)
    return {SHAPES: made}


def declared_shapes(attrs: Attrs, count: int) -> list[Proto | None]:
    """The shapes that an If, Case or While declares for its outputs; TensorFlow's `output_shapes` may be empty."""
    for key in ("output_shapes", SHAPES):
        listed = attrs.get(key)
        if listed is not None and len(listed.list.shape) == count:
            return list(listed.list.shape)
    return [None] * count


@lru_cache(maxsize=4096)
def typed(dtype: int) -> Attrs:
    """The attribute T of a node that has one type; none where it is unknown."""
    return {"T": type_value(dtype)} if dtype else NO_ATTRS


@lru_cache(maxsize=256)
def type_value(dtype: int) -> Proto:
    """An AttrValue that holds a type."""
    return AttrValue(type=dtype)


@lru_cache(maxsize=4096)
def text_value(text: str) -> Proto:
    """An AttrValue that holds a string, remembered: for device names and the like."""
    return AttrValue(s=text.encode())


@lru_cache(maxsize=4096)
def number(value: int) -> Proto:
    """An AttrValue that holds an integer."""
    return AttrValue(i=value)


def texts(values: Sequence[str]) -> Proto:
    """An AttrValue that holds a list of strings."""
    made = AttrValue()
    made.list.s.extend(value.encode() for value in values)
    return made


def types(values: Sequence[int]) -> Proto:
    """An AttrValue that holds a list of types."""
    made = AttrValue()
    made.list.type.extend(values)
    return made


def colocated_with(attrs: Attrs) -> tuple[str, ...]:
    """The names of the nodes with which a node asks to be colocated (`_class`), in the file's order."""
    if COLOCATION not in attrs:
        return ()
    found = [entry for entry in attrs[COLOCATION].list.s if entry.startswith(COLOCATED)]
    return tuple(entry[len(COLOCATED) :].decode("utf-8", "backslashreplace") for entry in found)


def colocation(names: Sequence[str]) -> Proto:
    """The AttrValue of `_class` that colocates a node with those of these names."""
    return texts([f"loc:@{name}" for name in names])


def is_true(attrs: Attrs, key: str, default: bool = False) -> bool:
    """Tell whether a boolean attribute is set; `default` where the node lacks it."""
    value = attrs.get(key)
    return default if value is None else bool(value.b)


def has_bit(attrs: Attrs, key: str, axis: int = 0) -> bool:
    """Tell whether a mask of a StridedSlice has the bit of a dimension; a SavedModel leaves out masks of 0."""
    return key in attrs and bool(attrs[key].i >> axis & 1)
