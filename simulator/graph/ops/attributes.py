"""Read the attributes on which an op's arguments and kernels depend, as plain hashable values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TypeAlias

from simulator.graph.graph import Attrs
from simulator.graph.messages import Proto
from simulator.graph.ops.registry import OpFacts, Plain

Values: TypeAlias = tuple[Plain, ...]
Reader: TypeAlias = Callable[[Proto], Plain]  # of an AttrValue message
Wanted: TypeAlias = tuple[tuple[str, Reader, Plain], ...]  # name, how to read it, what it is when absent


def reader_of_list(field: str) -> Reader:
    """How to read one field of a list attribute."""
    read = attrgetter(f"list.{field}")
    return lambda value: tuple(read(value)) if value.HasField("list") else None


def _scalar(field: str) -> Reader:
    read: Reader = attrgetter(field)
    return lambda value: read(value) if value.HasField(field) else None


def text(value: Proto) -> Plain:
    """A string attribute."""
    return str(value.s.decode("latin-1")) if value.HasField("s") else None


def texts(value: Proto) -> Plain:
    """A list of strings."""
    return tuple(item.decode("latin-1") for item in value.list.s) if value.HasField("list") else None


_READERS: Mapping[str, Reader] = {
    "type": lambda value: value.type or None,
    "int": _scalar("i"),
    "bool": _scalar("b"),
    "string": text,
    "list(type)": reader_of_list("type"),
    "list(int)": reader_of_list("i"),
    "list(bool)": reader_of_list("b"),
    "list(string)": texts,
}


def plain(value: Proto) -> Plain:
    """An AttrValue of any kind as `defaults` has it; a tensor or function, on which no rule depends, as its text."""
    kind = value.WhichOneof("value")
    if kind == "list":
        return tuple(_item(field.name, item) for field, items in value.list.ListFields() for item in items)
    return None if kind is None else _item(kind, getattr(value, kind))


def _item(kind: str, item: Proto) -> Plain:
    if kind == "s":
        return str(item.decode("latin-1"))
    if kind == "shape":
        return None if item.unknown_rank else tuple(dim.size for dim in item.dim)
    found: Plain = item if kind in {"i", "f", "b", "type"} else str(item)
    return found


def wanted(given: OpFacts, names: tuple[str, ...]) -> Wanted:
    """How to read those attributes of that op; one of another kind, or undeclared, is taken for a type."""
    readers = (_READERS.get(given.attrs.get(name, ""), _READERS["type"]) for name in names)
    return tuple((name, read, given.defaults.get(name)) for name, read in zip(names, readers, strict=True))


def values(given: Wanted, attrs: Attrs) -> Values:
    """The values of those attributes; None: absent and without a default, or not of the kind that it should be."""
    found = []
    for name, read, default in given:
        value = attrs.get(name)
        found.append(default if value is None else read(value))
    return tuple(found)
