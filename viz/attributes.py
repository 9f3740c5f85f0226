"""Attributes, shapes and types of nodes as texts of one line, for panels."""

from __future__ import annotations

from typing import Any

from simulator.graph import dtypes
from simulator.graph.const_values import elements
from simulator.graph.messages import Proto

FLOATS = {"half": "float16", "float": "float32", "double": "float64"}  # their names in Python programs
MOST_ELEMENTS, MOST_LETTERS = 8, 200  # of an attribute


def shown_value(attr: Proto) -> str:
    """The value of an attribute in a line; what is long is cut off."""
    kind = attr.WhichOneof("value")
    if kind == "list":
        (field,) = [field for field, _ in attr.list.ListFields()][:1] or [None]
        values = [] if field is None else list(getattr(attr.list, field.name))
        shown = ", ".join(_shown_scalar(field.name, one) for one in values[:MOST_ELEMENTS])
        return f"[{shown}{', ...' if len(values) > MOST_ELEMENTS else ''}]"
    if kind == "tensor":
        shape = shown_shape(tuple(int(dim.size) for dim in attr.tensor.tensor_shape.dim))
        known = ", ".join(map(str, elements({"value": attr}, MOST_ELEMENTS) or ()))
        return f"{shown_dtype(attr.tensor.dtype)} {shape}{f' of {known}' if known else ''}"
    return "" if kind is None else _shown_scalar(kind, getattr(attr, kind))


def shown_shape(shape: tuple[int, ...] | None) -> str:
    """ "[2, ?]", with a question mark for an unknown size; "unknown shape" for None."""
    if shape is None:
        return "unknown shape"
    return "[" + ", ".join("?" if size < 0 else str(size) for size in shape) + "]"


def shown_dtype(dtype: int) -> str:
    """The name of a DataType as a panel shows it."""
    if not dtypes.base(dtype):
        return "unknown type"
    enum = dtypes.NAMES.get(dtypes.base(dtype), "unknown type").removeprefix("DT_").lower()
    name = FLOATS.get(enum, enum)
    return f"{name} reference" if dtype > dtypes.REF else name


def _shown_scalar(kind: str, value: Any) -> str:  # Any: a field of an AttrValue
    if kind == "s":
        said = value.decode("utf-8", "replace")
        return said if len(said) <= MOST_LETTERS else f"{said[:MOST_LETTERS]}..."
    if kind == "type":
        return shown_dtype(value)
    if kind == "shape":
        return shown_shape(None if value.unknown_rank else tuple(int(dim.size) for dim in value.dim))
    if kind == "func":
        return str(value.name)
    return f"{value:g}" if kind == "f" else str(value).lower() if kind == "b" else str(value)
